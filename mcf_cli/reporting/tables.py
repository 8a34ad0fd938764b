"""From tidy rows to the table of an item, in files as csv and markdown; ``terminal`` shows it on screen.

    table = build(rows, paper_table=3, done=12, expected=50)
    write(table, "results/table3/table")        # table.csv and table.md

``table.frame`` holds numbers (errors in per cent) for csv, ``table.shown`` the same as text. The column
``data`` says in every line what data it comes from, so a number on built-in or substitute data never stands
unmarked, least of all beside the paper's. What is missing makes the title say PARTIAL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from mcf_cli.files import write_text
from mcf_cli.progress import plain
from mcf_cli.reporting.comparison import SAME_AT_ZERO, plain_rows
from mcf_cli.reporting.series import (
    CORRUPTIONS,
    LINE,
    SOURCE_MARKS,
    curve_label,
    dataset_label,
    datasets_in,
    in_order,
    interval_words,
    lines_in,
    loss_of,
    marginalised_curves,
    of_dataset,
    summary,
    tidy,
    trouble,
    varying,
)

PERCENT = 100.0
LEVEL_NAMES = {"q": "q", "copies": "M", "train_size": "N", "budget": "K", "features": "features"}

AXIS_TITLES = {
    "q": "corruption level q",
    "copies": "number of corrupted copies M",
    "deletion": "share of features deleted at test time",
    "train_size": "number of training examples N",
    "flips": "share of wrong training labels",
    "features": "number of features read",
    "budget": "number of deletions K that FDROP allows for",
}

BEST = "best by validation"

# Table 3 of the paper: CIFAR-10 test errors in per cent.
PAPER_TABLE3 = {
    "none": {"quadratic": 32.6, "exponential": 39.7, "logistic": 32.5},
    "poisson": {"quadratic": 29.1, "exponential": 39.5, "logistic": 30.0},
    "blankout": {"quadratic": 32.3, "exponential": 37.9, "logistic": 29.4},
}


@dataclass(frozen=True)
class Table:
    """Numbers, the same as text, and what a reader must know about them."""

    title: str
    frame: pd.DataFrame
    shown: pd.DataFrame
    notes: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()  # the columns that run over q, M, N or the deletion
    item: str = ""  # the title of the item it belongs to
    partial: str = ""  # ``PARTIAL 12/50`` when trials are missing

    @property
    def heading(self) -> str:
        """``PARTIAL 12/50: Figure 3. Test error (%)``; the table's own words have the unit."""
        words = f"{self.item}. {self.title}" if self.item else self.title
        return f"{self.partial}: {words}" if self.partial else words


def build(
    rows: pd.DataFrame,
    paper_table: int | None = None,
    *,
    title: str = "",
    done: int | None = None,
    expected: int | None = None,
) -> Table:
    """The table that suits an item's rows; ``done`` of ``expected`` trials mark it PARTIAL when fewer."""
    if paper_table == 3:
        table = table3(rows)
    elif "test_error" in set(rows["metric"]):
        table = error_table(rows)
    elif {"bound", "expected_loss"} & set(rows["metric"]):
        table = bounds_table(rows)
    else:
        table = metric_table(rows)
    mark = partial_mark(done, expected)
    frame = table.frame.assign(partial=mark) if mark else table.frame
    notes = (*table.notes, *weight_notes(rows), *trouble(rows))
    return replace(table, frame=frame, notes=notes, item=title, partial=mark)


def weight_notes(rows: pd.DataFrame) -> tuple[str, ...]:
    """How many weights each method has and how large they are, where an item counts them: medians over data sets."""
    if "nonzero_weights" not in set(rows["metric"]):
        return ()
    frame = tidy(rows, metric=None)
    names = ["nonzero_weights", "effective_weights", "mean_weight"]
    frame = frame[frame["metric"].isin(names)]
    middle = frame.groupby(["method", "metric"], sort=False)["value"].median().unstack()[names]
    each = [f"{method}: {n:,.0f}, {e:,.0f}, {m:.2g}" for method, (n, e, m) in middle.iterrows()]
    return (
        "non-zero weights, their effective number ((sum |w|)² / sum w²), and their mean size, as "
        f"medians over data sets: {'; '.join(each)}",
    )


def partial_mark(done: int | None, expected: int | None) -> str:
    """``PARTIAL 12/50`` when fewer are done than expected, else nothing."""
    missing = done is not None and expected is not None and done < expected
    return f"PARTIAL {done}/{expected}" if missing else ""


def error_table(rows: pd.DataFrame) -> Table:
    """Test errors: one line per data set and method, one column per level, the best q by validation last."""
    frame = tidy(rows)
    axis = varying(frame)
    if axis is None:
        return _single_column(frame)
    frame = _with_plain_at_zero(frame) if axis == "q" else frame
    means = summary(frame, [*LINE, axis]).set_index(list(LINE)).sort_index()
    levels = sorted(means[axis].dropna().unique())
    names = {level: header(axis, level) for level in levels}
    validation = _validation(rows, axis)
    numbers, texts = [], []
    for line in lines_in(frame):
        cells = means.loc[[line]]
        number, text = _line_start(line), _line_start(line)
        # What has no level (plain, Poisson) stands in a column of its own.
        for level, name in [(None, f"no {axis}"), *names.items()]:
            cell = cells[cells[axis].isna()] if level is None else cells[cells[axis] == level]
            number |= _cell_numbers(name, cell)
            text[name] = _cell_text(cell)
        numbers.append(number)
        texts.append({**text, BEST: _best_text(cells, validation, line, axis)})
    title = f"Test error (%) by {AXIS_TITLES[axis]}"
    return Table(
        title,
        _ordered(numbers),
        _ordered(texts),
        _interval_note(means, frame),
        tuple(names.values()),
    )


def _with_plain_at_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """A line of q's begins with the plain model, which is run once for all forms and corruptions of a loss."""
    plain = plain_rows(frame)
    plain = plain[plain["q"] == 0]
    added = [frame]
    for (dataset, loss, curve, family), line in frame.groupby(["dataset", "loss", "curve", "family"]):
        if line["corruption"].isin(SAME_AT_ZERO).all() and not (line["q"] == 0).any():
            own = plain[(plain["dataset"] == dataset) & (plain["loss"] == loss)]
            own = own.drop_duplicates(["data_source", "repeat", "fold"])
            added.append(own.assign(curve=curve, family=family))
    return pd.concat(added, ignore_index=True)


def header(axis: str, level: float) -> str:
    """The heading of a level's column."""
    if axis in ("deletion", "flips"):
        return f"{_short(PERCENT * level)}%"
    return f"{LEVEL_NAMES[axis]}={_short(level)}"


def _single_column(frame: pd.DataFrame) -> Table:
    means = summary(frame, list(LINE)).set_index(list(LINE)).sort_index()
    numbers, texts = [], []
    for line in lines_in(frame):
        cell = means.loc[[line]]
        numbers.append({**_line_start(line), **_cell_numbers("test_error", cell)})
        texts.append(
            {
                **_line_start(line),
                "test error (%)": _cell_text(cell),
                "chosen": _chosen(frame, line),
            }
        )
    return Table(
        _single_title(frame),
        _ordered(numbers),
        _ordered(texts),
        _interval_note(means, frame),
    )


def _single_title(frame: pd.DataFrame) -> str:
    """The one deletion level of a run stands in no column, so the title names it."""
    levels = frame["deletion"].unique()
    if len(levels) == 1 and levels[0] > 0:
        return f"Test error (%) with {_short(PERCENT * levels[0])}% of the features deleted"
    return "Test error (%)"


def _chosen(frame: pd.DataFrame, line: tuple[str, ...]) -> str:
    """The penalty and the level that validation chose, where one run makes it one choice."""
    rows = frame[(frame[list(LINE)] == list(line)).all(axis=1)]
    if len(rows) != 1:
        return ""
    values = {name: rows[name].iloc[0] for name in ("q", "budget", "l2")}
    return ", ".join(f"{LEVEL_NAMES.get(n, n)}={_short(v)}" for n, v in values.items() if pd.notna(v))


def _line_start(line: Sequence[Any]) -> dict[str, object]:
    dataset, source, curve, family = line
    return {
        "dataset": dataset_label(dataset, ""),
        "data": SOURCE_MARKS.get(source, source),
        "loss": curve_label(curve),
        "method": family,
    }


def _cell_numbers(name: str, cell: pd.DataFrame) -> dict[str, float]:
    """Mean, and the ends of its interval where there is one."""
    if cell.empty:
        return {name: float("nan")}
    mean, half = PERCENT * cell["mean"].iloc[0], PERCENT * cell["half"].iloc[0]
    return {name: mean, **({f"{name} low": mean - half, f"{name} high": mean + half} if half > 0 else {})}


def _cell_text(cell: pd.DataFrame, digits: int = 2) -> str:
    """``15.50 ± 1.10``: the mean and half its interval."""
    if cell.empty:
        return ""
    mean, half = PERCENT * cell["mean"].iloc[0], PERCENT * cell["half"].iloc[0]
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if half > 0 else f"{mean:.{digits}f}"


def _interval_note(means: pd.DataFrame, frame: pd.DataFrame) -> tuple[str, ...]:
    if not (means["half"] > 0).any():
        return ()
    return (f"± is half the 95% interval, {interval_words(frame)}",)


def _validation(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Mean validation errors of every line and level: what a choice between levels may look at."""
    if not (rows["metric"] == "validation_error").any():
        return pd.DataFrame()
    frame = tidy(rows, "validation_error")
    frame = _with_plain_at_zero(frame) if axis == "q" else frame
    return summary(frame, [*LINE, axis]).set_index(list(LINE)).sort_index()


def _best_text(cells: pd.DataFrame, validation: pd.DataFrame, line: tuple[str, ...], axis: str) -> str:
    """The test error at the q with the lowest validation error; on other axes more is simply better or worse."""
    if axis != "q" or line not in validation.index:
        return ""
    choices = validation.loc[[line]].dropna(subset=[axis])
    cells = cells[cells[axis].isin(choices[axis])]
    if len(choices) < 2 or cells.empty:
        return ""
    chosen = choices[axis].iloc[choices["mean"].argmin()]
    best = cells[cells[axis] == chosen]
    return f"{_cell_text(best)} at {_short(chosen)}" if len(best) else ""


def _ordered(lines: list[dict[str, object]]) -> pd.DataFrame:
    """Columns in the order in which they first appear; empty ones are dropped."""
    frame = pd.DataFrame(lines)
    return frame.loc[:, [name for name in frame if not (frame[name].isna() | (frame[name] == "")).all()]]


def table3(rows: pd.DataFrame) -> Table:
    """Table 3's layout: no MCF, Poisson and blankout down, the losses across, the paper's number beside."""
    frame = tidy(rows)
    curves = marginalised_curves(frame)
    names = {
        "none": "No MCF",
        **{key: f"{text[:1].upper()}{text[1:]} MCF" for key, text in CORRUPTIONS.items()},
    }
    numbers, texts, known = [], [], False
    for pair in datasets_in(frame):
        here = of_dataset(frame, pair)
        start = {"dataset": dataset_label(pair[0], ""), "data": SOURCE_MARKS.get(pair[1], pair[1])}
        for corruption in in_order(here["corruption"], ("none", "poisson", "blankout")):
            begun = {**start, "method": names.get(corruption, corruption)}
            number: dict[str, Any] = {**begun}
            text: dict[str, object] = {**begun}
            for curve in curves:
                label = curve_label(curve)
                # The plain model is one for all forms of its loss.
                own = here["loss"] == loss_of(curve) if corruption == "none" else here["curve"] == curve
                cell = here[(here["corruption"] == corruption) & own]
                mean = summary(cell.assign(all=0), "all")
                number |= _cell_numbers(label, mean)
                text[label] = _cell_text(mean, digits=1)
                known |= bool((mean["half"] > 0).any())
                published = PAPER_TABLE3.get(corruption, {}).get(loss_of(curve))
                if published is not None:
                    number[f"{label}, paper"] = published
                    text[f"{label}, paper"] = f"{published:.1f}"
            numbers.append(number)
            texts.append(text)
    notes = [f"± is half the 95% interval, {interval_words(frame)}"] if known else []
    if set(frame["data_source"]) - {"real"}:
        notes.append(
            "The paper's numbers are for CIFAR-10; a line whose data is not real cannot be held against them."
        )
    return Table("Test error (%)", _ordered(numbers), _ordered(texts), tuple(notes))


def metric_table(rows: pd.DataFrame) -> Table:
    """Anything that is not a test error (cost, leave-one-out): one line per method, one column per metric."""
    frame = tidy(rows, metric=None)
    keys = [*LINE, *(name for name in ("q", "l2") if frame[name].nunique() > 1)]
    means = frame.groupby([*keys, "metric"], dropna=False, sort=False)["value"].mean().reset_index()
    lines: dict[tuple, dict[str, object]] = {}
    for record in means.to_dict("records"):
        key = tuple(None if pd.isna(record[name]) else record[name] for name in keys)  # nan equals nothing
        levels = {name: record[name] for name in keys[len(LINE) :]}
        line = lines.setdefault(key, {**_line_start(key[: len(LINE)]), **levels})
        name, error = record["metric"].replace("_", " "), "_error_" in record["metric"]
        line[f"{name} (%)" if error else name] = PERCENT * record["value"] if error else record["value"]
    numbers = _ordered(list(lines.values()))
    texts = numbers.map(lambda value: _short(value) if isinstance(value, float) else value)
    return Table(_metrics_title(set(frame["metric"])), numbers, texts)


def _metrics_title(metrics: set[str]) -> str:
    if "gradient_ratio" in metrics:
        return "Seconds of one gradient, and how many plain gradients that is"
    if "loo_error_exact" in metrics:
        return "Leave-one-out error (%), and the largest gap of a prediction to fitting again"
    return "Measurements"


def bounds_table(rows: pd.DataFrame) -> Table:
    """Figure 1 as numbers: one line per margin, the expected loss and the bound at each lambda across."""
    frame = tidy(rows, metric=None)
    names = frame["lam"].map(lambda lam: "expected loss" if pd.isna(lam) else f"bound, lambda={lam:g}")
    wide = frame.assign(name=names).pivot_table(index=["q", "margin"], columns="name", values="value")
    wide = wide[["expected loss", *(name for name in dict.fromkeys(names) if name != "expected loss")]]
    wide = wide.rename_axis(columns=None).reset_index()
    whole = wide[(wide["margin"] % 1).abs() < 1e-9]
    texts = (whole if len(whole) else wide).map(lambda value: f"{value:.4g}")
    return Table("Expected logistic loss and its bounds", wide, texts.reset_index(drop=True))


def _short(value: float) -> str:
    if pd.isna(value):
        return ""
    return "∞" if value == float("inf") else f"{value:.4g}"


def markdown(table: Table) -> str:
    """The table as aligned markdown, with its title and notes."""
    head = [escape_markdown(str(name)) for name in table.shown.columns]
    cells = table.shown.fillna("").astype(str).to_numpy()
    body = [[escape_markdown(cell) for cell in line] for line in cells]
    widths = [max(3, *(len(line[i]) for line in [head, *body])) for i in range(len(head))]
    right = [is_number_column(table.shown[name]) for name in table.shown]
    rule = [
        "-" * (width - 1) + ":" if last else "-" * width for width, last in zip(widths, right, strict=True)
    ]
    lines = [_markdown_line(line, widths, right) for line in [head, rule, *body]]
    notes = [f"- {escape_markdown(text)}" for text in table.notes]
    return "\n".join(
        [f"**{escape_markdown(table.heading)}**", "", *lines, *([""] + notes if notes else []), ""]
    )


def _markdown_line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return f"| {' | '.join(padded)} |"


def escape_markdown(text: str) -> str:
    """Text that can stand in a table cell or a line: no html, no link, no new column, no new line."""
    marks = {
        "\\": "\\\\",
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "|": "\\|",
        "*": "\\*",
        "`": "'",
        "](": "]\\(",
    }
    for mark, safe in marks.items():
        text = text.replace(mark, safe)
    return plain(" ".join(text.split()))


def is_number_column(column: pd.Series) -> bool:
    """Whether every cell that says anything starts like a number."""
    cells = [str(cell) for cell in column if str(cell)]
    return all(cell[0].isdigit() or cell[0] in "-∞" for cell in cells)


def write(table: Table, path: Path | str) -> tuple[Path, Path]:
    """Write ``path``.csv and ``path``.md whole or not at all."""
    texts = {"csv": table.frame.to_csv(index=False, lineterminator="\n"), "md": markdown(table)}
    written = []
    for suffix, text in texts.items():
        target = Path(f"{path}.{suffix}")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
        written.append(target)
    return written[0], written[1]
