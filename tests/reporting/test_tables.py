"""Tables from made-up rows: right numbers, marked data, PARTIAL, and files that read back."""

import io

import numpy as np
import pandas as pd
import pytest
from mcf_cli.reporting.tables import PAPER_TABLE3, build, markdown, write
from mcf_cli.reporting.terminal import rich_table
from rich.console import Console
from scipy import stats

from tests.reporting import made_up_rows as made_up


def on_screen(table, width=100):
    text = io.StringIO()
    Console(width=width, file=text).print(rich_table(table))
    return text.getvalue()


def cells(table, **wanted):
    shown = table.shown
    for column, value in wanted.items():
        shown = shown[shown[column] == value]
    return shown


def test_a_sweep_has_a_column_a_level_and_names_the_best_by_validation():
    rows = made_up.q_sweep(datasets=("amazon-books",))
    lowest_elsewhere = rows.assign(metric="validation_error", value=(rows["q"] - 0.6).abs())
    table = build(pd.concat([rows, lowest_elsewhere]))
    line = cells(table, loss="Quadratic", method="MCF, blankout").iloc[0]
    assert line["q=0.8"] == "16.01"
    assert (
        line["best by validation"] == f"{line['q=0.6']} at 0.6"
    )  # the test error is lowest at 0.8: not for choosing
    assert cells(table, loss="Quadratic", method="plain, l2").iloc[0]["no q"] == "19.00"


def test_without_validation_errors_no_level_is_called_the_best():
    assert "best by validation" not in build(made_up.q_sweep()).shown


def test_one_deletion_level_stands_in_the_title():
    rows = made_up.nightmare()
    table = build(rows[rows["deletion"] == 0.5])
    assert table.title == "Test error (%) with 50% of the features deleted"
    assert build(rows[rows["deletion"] == 0.0]).title == "Test error (%)"
    assert build(made_up.cifar()).title == "Test error (%)"


@pytest.mark.parametrize("name", ["my-cells_2.csv", "reviews.svmlight.gz"])
def test_the_name_of_a_users_file_stays_as_it_is(name):
    table = build(made_up.q_sweep(datasets=(name,), source="user"))
    assert set(table.shown["dataset"]) == {name}


def test_several_runs_show_mean_and_half_of_students_interval():
    rows = made_up.learning_curve(datasets=(("reuters", "real"),))
    chosen = rows[(rows["loss"] == "logistic") & (rows["corruption"] == "none") & (rows["train_size"] == 100)]
    table = build(rows)
    line = cells(table, loss="Logistic", method="plain, l2")
    low, high = stats.t.interval(0.95, 4, 100 * chosen["value"].mean(), 100 * stats.sem(chosen["value"]))
    assert line.iloc[0]["N=100"] == f"{(low + high) / 2:.2f} ± {(high - low) / 2:.2f}"
    written = table.frame.loc[line.index[0]]
    assert (written["N=100 low"], written["N=100 high"]) == pytest.approx((low, high))
    assert "± is half the 95% interval, over 5 runs" in table.notes


def test_errors_known_example_by_example_have_an_interval_in_a_single_run():
    rows = made_up.with_evidence(made_up.q_sweep(datasets=("amazon-books",)))
    table = build(rows)
    cell = cells(table, loss="Quadratic", method="MCF, blankout").iloc[0]["q=0.8"]
    share, examples = 0.16, made_up.EXAMPLES
    assert cell == f"16.00 ± {196 * (share * (1 - share) / examples) ** 0.5:.2f}"
    assert "± is half the 95% interval, over test examples" in table.notes
    known = build(made_up.with_evidence(made_up.cifar()), paper_table=3)
    assert " ± " in cells(known, method="No MCF").iloc[0]["Quadratic"]
    assert " ± " not in cells(known, method="No MCF").iloc[0]["Quadratic, paper"]


def test_a_narrow_screen_has_intervals_below_their_numbers():
    table = build(made_up.with_evidence(made_up.q_sweep(datasets=("amazon-books",))))
    text = on_screen(table, width=120)
    assert "16.00 ± " not in text and "±1.14" in text
    assert max(len(line) for line in text.splitlines()) <= 120
    assert text.count("q=") == 10
    assert "16.00 ± 1.14" in on_screen(table, width=250)


def test_lines_keep_the_order_of_data_sets_losses_and_methods():
    table = build(made_up.q_sweep(datasets=("reuters", "amazon-books")))
    assert list(dict.fromkeys(table.shown["dataset"])) == ["Reuters", "Amazon books"]
    assert list(dict.fromkeys(table.shown["loss"])) == ["Quadratic", "Exponential", "Logistic"]
    assert list(table.shown["method"][:3]) == ["plain, l2", "MCF, Poisson", "MCF, blankout"]


def test_table_3_has_the_papers_layout_and_numbers_beside_ours():
    table = build(made_up.cifar(), paper_table=3)
    assert list(table.shown["method"]) == ["No MCF", "Poisson MCF", "Blankout MCF"]
    for corruption, method in (("none", "No MCF"), ("poisson", "Poisson MCF"), ("blankout", "Blankout MCF")):
        line = cells(table, method=method).iloc[0]
        for loss, published in PAPER_TABLE3[corruption].items():
            assert line[f"{loss.capitalize()}, paper"] == f"{published:.1f}"
    assert cells(table, method="No MCF").iloc[0]["Quadratic"] == "33.0"
    assert table.notes == ()


@pytest.mark.parametrize(("source", "mark"), [("builtin", "built-in data"), ("substitute", "substitute")])
def test_other_data_is_marked_in_every_line_beside_the_papers_numbers(source, mark):
    table = build(pd.concat([made_up.cifar(), made_up.cifar(source)]), paper_table=3)
    assert list(table.shown["data"]) == ["real"] * 3 + [mark] * 3
    assert list(table.frame["data"]) == ["real"] * 3 + [mark] * 3
    assert any("cannot be held against" in text for text in table.notes)
    lines = [line for line in markdown(table).splitlines() if line.startswith("| CIFAR")]
    assert sum(mark in line for line in lines) == 3


def test_real_and_other_rows_are_never_averaged_together():
    rows = pd.concat([made_up.cifar(), made_up.cifar("builtin").assign(value=0.9)])
    single = build(rows)
    assert set(cells(single, data="real")["test error (%)"]) & {"33.00"}
    assert set(cells(single, data="built-in data")["test error (%)"]) == {"90.00"}


@pytest.mark.parametrize("paper_table", [None, 3])
def test_missing_trials_make_it_partial_everywhere(paper_table, tmp_path):
    table = build(made_up.cifar(), paper_table, title="CIFAR-10", done=9, expected=12)
    assert table.heading == "PARTIAL 9/12: CIFAR-10. Test error (%)"
    csv, md = write(table, tmp_path / "table")
    assert set(pd.read_csv(csv)["partial"]) == {"PARTIAL 9/12"}
    assert "PARTIAL 9/12" in md.read_text()
    assert "PARTIAL 9/12" in on_screen(table)
    whole = build(made_up.cifar(), done=12, expected=12)
    assert "PARTIAL" not in whole.heading
    assert "partial" not in whole.frame


def test_files_hold_the_numbers_and_are_the_same_bytes_every_time(tmp_path):
    rows = made_up.q_sweep()
    first, second = (write(build(rows), tmp_path / name / "table") for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    read = pd.read_csv(first[0])
    line = read[(read["dataset"] == "Amazon DVD") & (read["method"] == "MCF, blankout")].iloc[0]
    expected = rows[
        (rows["dataset"] == "amazon-dvd") & (rows["corruption"] == "blankout") & (rows["q"] == 0.5)
    ]
    assert line["q=0.5"] == pytest.approx(100 * expected["value"].iloc[0])
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["table.csv", "table.md"]


def test_markdown_is_aligned_and_escapes_bars():
    rows = made_up.cifar().assign(dataset="a|much|longer|name")
    lines = [line for line in markdown(build(rows)).splitlines() if line.startswith("|")]
    assert "a\\|much\\|longer" in lines[2].lower()
    assert len({len(line) for line in lines}) == 1


def test_trouble_is_told():
    rows = made_up.cifar().assign(edge="")
    rows.loc[0, "converged"] = False
    rows.loc[1, "edge"] = "l2 high"
    failed = pd.DataFrame(
        [made_up.row(dataset="cifar10", loss="logistic", status="failed", reason="out of memory")]
    )
    notes = " / ".join(build(pd.concat([rows, failed])).notes)
    assert "1 failed, first: out of memory" in notes
    assert "1 of 9 fits stopped" in notes
    assert "1 of 9 choices are at the end of their grid (1× l2 high)" in notes


def test_explicit_copies_end_at_infinity():
    table = build(made_up.explicit())
    assert table.levels[-1] == "M=∞"
    assert cells(table, method="blankout, M copies").iloc[0]["M=∞"] == "15.50"


def test_the_screen_has_a_part_for_each_data_set_and_fits():
    table = build(made_up.q_sweep(source="builtin"))
    text = on_screen(table, width=80)
    assert text.count("Amazon books (built-in data)") == 1
    assert "16.01" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "some levels have no room here" in text
    assert on_screen(table, width=200).count("q=") == 10 * 4  # all, on four data sets


def test_bounds_and_measurements_have_tables_too():
    bounds = build(made_up.bounds())
    assert (bounds.frame["bound, lambda=0"] >= bounds.frame["expected loss"] - 1e-12).all()
    common = {"dataset": "reuters", "loss": "logistic", "corruption": "blankout"}
    rows = [made_up.row(**common, metric="gradient_ratio", value=1.25)]
    rows.append(made_up.row(**common, metric="term_by_term_ratio", value=np.pi))
    cost = build(made_up.frame(rows))
    loo = build(made_up.leave_one_out())
    assert loo.frame.iloc[0]["loo error refitted (%)"] == pytest.approx(30.0)
    assert loo.frame.iloc[0]["largest gap paper"] == 0.01
    assert cost.frame.iloc[0]["gradient ratio"] == 1.25
    assert cost.shown.iloc[0]["term by term ratio"] == "3.142"


def test_a_single_run_says_what_was_chosen():
    rows = made_up.nightmare(unbiased=False)
    rows = rows[rows["deletion"] == 0.5].assign(q=0.6, l2=1e-4)
    line = cells(build(rows), loss="Logistic", method="MCF, dropout").iloc[0]
    assert line["chosen"] == "q=0.6, l2=0.0001"


def test_levels_of_one_corruption_are_lines_of_their_own_and_never_a_spread():
    common = {"dataset": "reuters", "loss": "quadratic", "corruption": "gaussian"}
    rows = [made_up.row(**common, sigma=sigma, value=0.1 + sigma / 100) for sigma in (0.1, 1.0, 10.0)]
    table = build(made_up.frame(rows))
    assert list(table.shown["method"]) == [f"MCF, Gaussian, sigma = {sigma:g}" for sigma in (0.1, 1, 10)]
    assert list(table.shown["test error (%)"]) == ["10.10", "11.00", "20.00"]
    gaps = [dict(row, metric="loo_error_exact", l2=l2) for row in rows for l2 in (0.0, 1.0)]
    assert len(build(made_up.frame(gaps)).shown) == 6


def test_a_level_that_was_chosen_is_no_method():
    common = {"dataset": "reuters", "loss": "quadratic", "corruption": "gaussian"}
    rows = [made_up.row(**common, sigma=10.0**repeat, repeat=repeat, value=0.1) for repeat in range(3)]
    assert list(build(made_up.frame(rows)).shown["method"]) == ["MCF, Gaussian"]


def both_forms_of_cifar():
    rows = made_up.cifar()
    plain, logistic = rows["corruption"] == "none", rows["loss"] == "logistic"
    shared = rows[~plain & logistic].assign(multiclass="shared", value=0.31)
    return pd.concat([rows.assign(multiclass=np.where(~plain & logistic, "pairwise", "")), shared])


def test_where_both_forms_occur_both_are_named():
    losses = set(build(both_forms_of_cifar()).shown["loss"])
    assert losses == {"Quadratic", "Exponential", "Logistic", "Logistic (pairwise)", "Logistic (shared)"}


def test_the_plain_model_stands_beside_the_papers_number_in_both_forms():
    line = cells(build(both_forms_of_cifar(), paper_table=3), method="No MCF").iloc[0]
    for form in ("pairwise", "shared"):
        assert (line[f"Logistic ({form})"], line[f"Logistic ({form}), paper"]) == ("32.5", "32.5")
    assert "Logistic" not in line


def test_runs_of_cross_validation_begin_with_the_plain_model():
    rows = made_up.splice()
    plain = (rows["corruption"] == "blankout") & (rows["q"] == 0)
    table = build(rows[plain | (rows["q"] > 0)])
    runs = rows[plain].groupby("repeat")["value"].mean()
    half = stats.t.ppf(0.975, 9) * stats.sem(100 * runs)
    assert set(table.shown["q=0"]) == {f"{100 * runs.mean():.2f} ± {half:.2f}"}
    assert "± is half the 95% interval, over 10 runs" in table.notes


def test_surrogates_are_named_only_where_there_are_several():
    rows = made_up.surrogates(("amazon-books",))
    assert "MCF, blankout, Jensen's bound" in set(build(rows).shown["method"])
    alone = build(rows[rows["surrogate"] == "jensen"])
    assert set(alone.shown["method"]) == {"MCF, blankout"}
