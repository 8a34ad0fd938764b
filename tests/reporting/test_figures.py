"""Figures from made-up rows: what is drawn is what the rows say, marked where need be, and reproducible."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from mcf_cli.reporting import aided, figures, measurements
from mcf_cli.reporting.captions import caption
from mcf_cli.reporting.figures import draw, kind_of
from mcf_cli.reporting.panels import save_figure
from mcf_cli.reporting.tables import PAPER_TABLE3
from scipy import stats

from tests.reporting import made_up_rows as made_up

TWO = made_up.AMAZON[:2]
BY_FIGURE = {
    1: made_up.bounds,
    3: lambda: made_up.q_sweep(datasets=TWO),
    4: lambda: made_up.q_sweep(levels=[0.9, 0.95, 0.99], datasets=TWO),
    5: lambda: made_up.learning_curve(datasets=(("reuters", "real"),)),
    6: made_up.explicit,
    7: lambda: made_up.surrogates(TWO),
    8: made_up.splice,
    9: made_up.nightmare,
}


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def drawn_points(axes):
    """(x, y) of every line that has markers, that is, of every curve of results; the ends of bars are none."""
    lines = [line for line in axes.get_lines() if line.get_marker() not in ("", "None", None, "_")]
    return [np.asarray(line.get_xydata(), dtype=float) for line in lines]


def test_every_figure_of_the_paper_has_its_function():
    assert set(figures.FIGURES) == set(BY_FIGURE)


@pytest.mark.parametrize("number", BY_FIGURE)
def test_a_figure_is_written_whole_twice_with_the_same_bytes(number, tmp_path):
    rows = BY_FIGURE[number]()
    first = save_figure(draw(rows, number), tmp_path / "a" / "figure")
    second = save_figure(draw(rows, number), tmp_path / "b" / "figure")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 5000
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["figure.png", "figure.svg"]


@pytest.mark.parametrize("number", BY_FIGURE)
def test_the_kind_is_read_off_the_rows(number):
    expected = 3 if number == 4 else number  # a close-up is a choice, not a kind
    assert kind_of(BY_FIGURE[number]()) is figures.FIGURES[expected]


def test_a_point_is_the_mean_of_its_rows_in_per_cent():
    rows = made_up.learning_curve(datasets=(("reuters", "real"),))
    chosen = rows[
        (rows["loss"] == "quadratic") & (rows["corruption"] == "none") & (rows["train_size"] == 500)
    ]
    points = np.vstack(drawn_points(draw(rows, 5).axes[0]))
    error = 100 * chosen["value"].mean()
    near = np.abs(points[:, 0] / 500 - 1) < 0.1  # methods stand side by side
    assert np.isclose(points[near, 1], error).any()


def test_error_bars_of_the_splice_figure_are_intervals_over_runs():
    rows = made_up.splice()
    here = rows[(rows["corruption"] == "blankout") & (rows["q"] == 0.3)]
    runs = here.groupby("repeat")["value"].mean()
    bars = next(c for c in draw(rows, 8).axes[0].containers if c.has_yerr)
    segments = bars.lines[2][0].get_segments()
    drawn = next(s for s in segments if np.isclose(s[0][0], 0.3))
    half = stats.t.ppf(0.975, len(runs) - 1) * stats.sem(100 * runs)
    assert (drawn[1][1] - drawn[0][1]) / 2 == pytest.approx(half)


@pytest.mark.parametrize("number", [number for number in BY_FIGURE if number != 1])
def test_every_figure_draws_intervals_where_errors_are_known_example_by_example(number):
    figure = draw(made_up.with_evidence(BY_FIGURE[number]()), number)
    for axes in figure.axes:
        bars = [bars for bars in axes.containers if bars.has_yerr]
        assert bars or axes.collections, axes.get_title()
    curves = sum(len(points) > 1 for axes in figure.axes for points in drawn_points(axes))
    intervals = sum(bars.has_yerr for axes in figure.axes for bars in axes.containers)
    bands = sum(isinstance(part, PolyCollection) for axes in figure.axes for part in axes.collections)
    assert intervals + bands >= curves > 0


def test_panels_that_compare_have_one_scale():
    for number in (6, 9):
        assert len({axes.get_ylim() for axes in draw(BY_FIGURE[number](), number).axes}) == 1
    for number in (3, 4, 7):  # other data sets of one collection: a point is as tall in each
        spans = [np.ptp(axes.get_ylim()) for axes in draw(BY_FIGURE[number](), number).axes]
        assert spans == pytest.approx([spans[0]] * 2)


def test_what_has_no_level_is_marked_by_its_loss_right_of_all_levels():
    """In a greyscale print the lines across Figure 3 can be told apart by their ends."""
    axes = draw(made_up.q_sweep(datasets=TWO), 3).axes[0]
    ends = [line for line in axes.get_lines() if len(line.get_xdata()) == 1]
    assert len({line.get_marker() for line in ends}) == 3
    assert min(line.get_xdata()[0] for line in ends) > 0.9 >= max(axes.get_xticks())


def test_the_marginalised_limit_stands_right_of_every_number_of_copies():
    axes = draw(made_up.explicit(), 6).axes[0]
    curve, limit = drawn_points(axes)[:2]
    assert limit[0, 0] > curve[:, 0].max()
    assert limit[0, 1] == pytest.approx(15.5)
    assert "∞" in [tick.get_text() for tick in axes.get_xticklabels()]


@pytest.mark.parametrize(
    ("source", "mark"),
    [("builtin", "(built-in data)"), ("substitute", "(substitute)"), ("user", "(own data)")],
)
def test_titles_mark_data_that_is_not_the_papers(source, mark):
    rows = made_up.q_sweep(datasets=("amazon-books",), source=source)
    assert all(mark in title for title in titles(draw(rows, 3)))
    assert not any("(" in title for title in titles(draw(made_up.q_sweep(), 3)))


def test_the_closeup_leaves_out_what_lies_below_its_range():
    figure = draw(made_up.q_sweep(), 4)
    assert all(points[:, 0].min() >= 0.9 for axes in figure.axes for points in drawn_points(axes))


def test_failed_rows_are_not_drawn():
    rows = made_up.q_sweep(datasets=("amazon-books",))
    failed = rows.iloc[:1].assign(status="failed", value=np.nan, q=0.77)
    axes = draw(pd.concat([rows, failed]), 3).axes[0]
    assert not any(np.isclose(points[:, 0], 0.77).any() for points in drawn_points(axes))


def test_a_warning_is_shown_and_no_rows_say_so():
    assert draw(made_up.explicit(), 6, warning="PARTIAL 3/9").get_suptitle() == "PARTIAL 3/9"
    empty = draw(made_up.q_sweep().iloc[:0], 3)
    assert any("No finished rows" in text.get_text() for text in empty.texts)


def test_sample_digits_lose_more_pixels_with_every_level():
    figure = draw(made_up.nightmare(unbiased=False), 9, digit=np.ones((8, 8)))
    images = [image.get_array() for axes in figure.axes for image in axes.get_images()]
    left = [int(image.sum()) for image in images]
    assert left[0] == 64
    assert len(left) == 10
    assert (np.diff(left) <= 0).all()
    assert left[-1] < 16


def test_the_digit_stands_once_and_only_where_it_is_of_the_one_data_set():
    digit, rows = np.ones((8, 8)), made_up.nightmare()
    assert [len(axes.get_images()) for axes in draw(rows, 9, digit=digit).axes].count(10) == 1
    both = pd.concat([rows, rows.assign(dataset="letters")])
    assert not any(axes.get_images() for axes in draw(both, 9, digit=digit).axes)


def test_a_legend_has_no_lonely_entry():
    legend = draw(made_up.nightmare(), 9).legends[0]
    words = [text.get_text() for text in legend.get_texts()]
    assert {"MCF, dropout", "MCF, blankout"} <= set(words)
    assert legend._ncols == 5
    narrow = draw(made_up.nightmare(unbiased=False), 9).legends[0]
    assert narrow._ncols == 3  # three fit: five entries are three and two


def test_panels_of_methods_share_one_order_and_show_whole_markers():
    rows = made_up.q_sweep()
    plain = rows[rows["corruption"] == "none"]
    swapped = plain["value"].where(plain["dataset"] != "amazon-dvd", 0.5 - plain["value"])
    figure = draw(plain.assign(value=swapped))
    orders = {tuple(tick.get_text() for tick in axes.get_yticklabels()) for axes in figure.axes}
    assert orders == {("Logistic, plain, l2", "Exponential, plain, l2", "Quadratic, plain, l2")}
    assert all(axes.get_ylim() == (-0.6, 2.6) for axes in figure.axes)


def test_the_splice_panels_share_one_error_scale():
    assert len({axes.get_ylim() for axes in draw(made_up.splice(), 8).axes}) == 1


def test_the_unbiased_form_gets_its_own_panel():
    assert len(draw(made_up.nightmare(unbiased=False), 9).axes) == 1
    assert len(draw(made_up.nightmare(), 9).axes) == 2


def test_one_deletion_level_becomes_a_list_of_methods():
    rows = made_up.nightmare()
    rows = rows[rows["deletion"] == 0.5]
    figure = draw(rows)
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert "FDROP, worst case" in labels
    assert "50% deleted" in titles(figure)[0]


def test_an_unknown_experiment_falls_back_to_a_sweep():
    rows = made_up.nightmare().rename(columns={"deletion": "budget"}).assign(deletion=np.nan)
    assert isinstance(draw(rows), Figure)
    assert draw(rows).axes[0].get_xlabel() == "budget"


def test_methods_differ_in_more_than_colour():
    """In a greyscale print marker and line style still tell every curve of Figure 9 apart."""
    axes = draw(made_up.nightmare(unbiased=False), 9).axes[0]
    looks = [
        (line.get_marker(), line.get_linestyle(), line._unscaled_dash_pattern[1])
        for line in axes.get_lines()
        if len(line.get_xdata()) > 2 and line.get_linestyle() != "None"
    ]
    assert len(looks) == len({str(look) for look in looks}) == 11


def test_captions_name_the_variants_and_the_data():
    text = caption(made_up.q_sweep(source="builtin", forms=("pairwise", "shared")), 3, notes=("2 failed",))
    for words in (
        "blankout",
        "Poisson",
        "pairwise",
        "shared",
        "Jensen's bound",
        "built-in",
        "2 failed.",
    ):
        assert words in text
    assert "Corruption: dropout." in caption(made_up.nightmare(unbiased=False), 9)
    assert "The right panel" not in caption(made_up.nightmare(unbiased=False), 9)
    assert "The right panel" in caption(made_up.nightmare(), 9)
    assert "Logistic loss by" not in caption(made_up.bounds().assign(loss="logistic"), 1)
    assert "variational bound" in caption(made_up.surrogates(), 7)


def test_captions_say_what_intervals_are_over():
    assert "95% intervals over 5 runs." in caption(made_up.learning_curve(), 5)
    assert "interval" not in caption(made_up.q_sweep(), 3)
    known = caption(made_up.with_evidence(made_up.q_sweep()), 3)
    assert "95% intervals over test examples. Methods share their test rows" in known


def test_captions_say_where_a_form_ends_before_the_other():
    rows = made_up.q_sweep(datasets=("reuters", "dmoz"), forms=("pairwise", "shared"))
    whole = caption(rows, 3)
    assert "was run up to" not in whole
    cut = (rows["multiclass"] == "pairwise") & (rows["dataset"] == "dmoz") & (rows["q"] > 0.3)
    assert "The pairwise form was run up to q = 0.3 on DMOZ." in caption(rows[~cut], 3)


def test_captions_of_single_splits_warn_of_their_axes():
    words = caption(made_up.q_sweep(), 3)
    assert "axes differ from panel to panel and do not begin at 0, but span equally many points" in words
    assert "the error axis does not begin at 0" in caption(made_up.q_sweep(datasets=("dmoz",)), 3)
    assert "begin at 0" not in caption(made_up.learning_curve(), 5)


def test_a_substitute_is_named_once():
    rows = made_up.learning_curve()
    assert "DMOZ: a substitute" in caption(rows, 5)
    assert caption(rows, 5, notes=("DMOZ: SUBSTITUTE for pages",)).lower().count("substitute") == 1


def test_the_cost_figure_shows_ours_the_naive_way_and_the_papers_statement():
    figure = draw(made_up.cost())
    assert kind_of(made_up.cost()) is measurements.cost_of_gradients
    drawn = np.vstack([points for points in drawn_points(figure.axes[0])])
    assert {1.1, 1.6, 2.2, 44.0, 10.0, 2.0} <= {round(float(x), 6) for x in drawn[:, 0] if np.isfinite(x)}
    stated = [line for line in figure.axes[0].get_lines() if line.get_marker() == "|"]
    assert sorted(line.get_xdata()[0] for line in stated) == [2.0, 10.0]  # each for its own corruption
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


def test_the_leave_one_out_figure_draws_the_gaps_of_both_formulas_for_every_method():
    figure = draw(made_up.leave_one_out())
    assert titles(figure)[0].startswith("Reviews (built-in data)")
    assert [set(points[:, 0]) for points in drawn_points(figure.axes[0])] == [{1e-14}, {0.01}] * 3
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == ["Gaussian", "Poisson", "blankout, q = 0.5"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "the paper's formula",
        "exact formula",
    ]


@pytest.mark.parametrize(("source", "crosses"), [("real", [29.4, 30.0, 32.5]), ("built-in", [])])
def test_the_papers_numbers_are_crosses_beside_ours_on_real_data_only(source, crosses):
    rows = made_up.cifar(source)
    axes = draw(rows[rows["loss"] == "logistic"], published=PAPER_TABLE3).axes[0]
    assert sorted(line.get_xdata()[0] for line in axes.lines if line.get_marker() == "x") == crosses


def test_levels_of_one_corruption_are_curves_of_their_own():
    common = {"dataset": "reuters", "loss": "quadratic"}
    rows = [made_up.row(**common, corruption="gaussian", sigma=s, value=0.1 + s) for s in (0.1, 0.2)]
    labels = [tick.get_text() for tick in draw(made_up.frame(rows)).axes[0].get_yticklabels()]
    assert labels == ["Quadratic, MCF, Gaussian, sigma = 0.2", "Quadratic, MCF, Gaussian, sigma = 0.1"]
    rows += [made_up.row(**common, corruption="blankout", q=q, value=0.1) for q in (0.1, 0.2)]
    heights = {line.get_ydata()[0] for line in draw(made_up.frame(rows)).axes[0].get_lines()}
    assert {20.0, 30.0} <= {round(height, 6) for height in heights}


def test_a_chosen_level_is_no_axis():
    rows = made_up.cifar().assign(q=[np.nan] * 6 + [0.2, 0.5, 0.8])
    assert kind_of(rows) is figures.methods_figure


def test_the_plain_logistic_model_stands_beside_both_forms():
    rows = made_up.learning_curve(datasets=(("reuters", "real"),))
    logistic = rows[rows["loss"] == "logistic"]
    forms = pd.concat(
        [
            logistic.assign(multiclass=np.where(logistic["corruption"] == "none", "", form))
            for form in ("", "shared")
        ]
    ).drop_duplicates()
    pairwise, shared = draw(forms, 5).axes
    assert len(drawn_points(shared)) == len(drawn_points(pairwise)) > 0


def test_an_aid_changes_the_line_and_not_the_colour():
    rows = made_up.nightmare(unbiased=False)
    plain = rows[(rows["corruption"] == "none") & (rows["loss"] == "logistic") & (rows["penalty"] == "l2")]
    both = pd.concat([plain, plain.assign(aid="conditional", value=plain["value"] / 2)], ignore_index=True)
    assert kind_of(both) is aided.aided_curves
    axes = draw(both).axes[0]
    looks = {
        (line.get_color(), str(line.get_linestyle())) for line in axes.lines if len(line.get_xdata()) > 2
    }
    assert len({colour for colour, _ in looks}) == 1 and len(looks) == 2
    still = both[both["deletion"] == 0.5]
    assert kind_of(still) is aided.aided_sets
    assert draw(still).axes[0].get_xlabel() == "Test error (%)"


def test_two_levels_of_deletion_are_bars_and_features_are_not_called_pixels():
    rows = made_up.nightmare(unbiased=False)
    two = rows[rows["deletion"].isin(sorted(rows["deletion"].unique())[:2])]
    assert kind_of(two) is figures.methods_figure and kind_of(rows) is measurements.fig9_nightmare
    labels = [draw(rows.assign(dataset=name)).axes[0].get_xlabel() for name in ("mnist", "own.csv")]
    assert labels == [f"{what} deleted at test time (%)" for what in ("Pixels", "Features")]
