"""The page on choosing a corruption: its examples print what it shows, its numbers are those of the results."""

import contextlib
import io
import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "choosing.md").read_text()
ROWS = 0.021  # of 450 or 800 test rows: another linear algebra may move a few over a boundary
POINTS = 0.5


def numbers(line):
    return [float(number) for number in re.findall(r"\d\.\d{3}\b", line)]


def test_its_examples_print_what_is_shown():
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") == 3
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        ours, theirs = printed.getvalue().splitlines(), shown.splitlines()
        assert [re.sub(r"\d\.\d{3}", "#", line) for line in ours] == [
            re.sub(r"\d\.\d{3}", "#", line) for line in theirs
        ]
        assert [numbers(line) for line in ours] == [pytest.approx(numbers(line), abs=ROWS) for line in theirs]
    right, wrong = names["right"], names["wrong"]
    assert right["marked, imputed"] > right["unmarked, dropout"] > right["unmarked, plain"]
    assert wrong["dropout"] < min(wrong["plain"], wrong["every zero imputed"])


def committed(item):
    path = ROOT / "results" / item / "rows.csv"
    if not path.exists():
        pytest.skip("no full run is committed")
    rows = pd.read_csv(path)
    return rows[(rows["loss"] == "logistic") & (rows["status"] == "ok")]


def errors_in(words):
    """The per cents of the line that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {words}")]
    return [float(number) for number in re.findall(r"([\d.]+)%", line)]


@pytest.mark.parametrize(
    ("words", "dataset"),
    [
        ("Amazon books", "amazon-books"),
        ("Amazon DVD", "amazon-dvd"),
        ("Amazon electronics", "amazon-electronics"),
        ("Amazon kitchen", "amazon-kitchen"),
        ("Reuters", "reuters"),
    ],
)
def test_errors_on_text_are_those_of_figure_3(words, dataset):
    rows = committed("fig3")
    rows = rows[(rows["dataset"] == dataset) & (rows["corruption"].isin(["blankout", "none"]))]
    test, validation = (
        rows[rows["metric"] == f"{name}_error"].set_index(["multiclass", "q"])["value"]
        for name in ("test", "validation")
    )
    plain = 100 * test[test.index.get_level_values("q") == 0].iloc[0]
    best = 100 * test[validation.idxmin()]
    shown = errors_in(words)
    assert shown[:2] == [pytest.approx(plain, abs=POINTS), pytest.approx(best, abs=POINTS)]
    if len(shown) > 2:
        assert shown[2] == pytest.approx(100 * test["pairwise", 0.6], abs=POINTS)


@pytest.mark.parametrize(("words", "deletion"), [("MNIST, whole", 0.0), ("MNIST, half", 0.5)])
def test_errors_under_deletion_are_those_of_figure_9(words, deletion):
    rows = committed("fig9")
    rows = rows[(rows["metric"] == "test_error") & (rows["deletion"] == deletion)]
    over_masks = rows.groupby(["loss", "multiclass", "penalty", "corruption"], dropna=False)["value"].mean()
    plain, ours = over_masks.xs(("l2", "none"), level=(2, 3)), over_masks.xs("dropout", level=3)
    shown = errors_in(words)
    assert shown == [
        pytest.approx(100 * plain.min(), abs=POINTS),
        pytest.approx(100 * ours.min(), abs=POINTS),
    ]


def test_errors_on_splice_are_those_of_figure_8():
    rows = committed("fig8")
    rows = rows[rows["metric"] == "test_error"]
    means = 100 * rows.groupby(["corruption", "q", "multiclass"], dropna=False)["value"].mean()
    zero = means[means.index.get_level_values("q") == 0]
    plain, blankout, multinomial = zero.iloc[0], means["blankout"].min(), means["multinomial"].min()
    assert errors_in("Splice") == [pytest.approx(plain, abs=POINTS), pytest.approx(blankout, abs=POINTS)]
    assert blankout < plain <= multinomial
