"""Tables as text: delimiter, header, index column and empty cells are found by looking, and said.

One rule for the label: the column that was asked for; else one called label, class, target or y; else the last.
"""

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from mcf_cli.datasets.dataset import Examples, SpilledNumbers, with_first_column
from mcf_cli.datasets.formats.archives import bounded_lines, malformed, open_text, shown
from mcf_cli.datasets.formats.cells import NumberFormat, is_missing, looks_numeric, plain_number
from mcf_cli.errors import McfError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
LABEL_NAMES = ("label", "class", "target", "y")
INDEX_NAMES = ("", "id", "index", "unnamed: 0")  # the last is what pandas calls an index that it wrote itself
SAMPLE_LINES = 100  # lines that delimiter and header are judged by
FEWEST_TO_COUNT = 10  # rows: a nameless column that counts 1, 2, 3 in fewer may be a measurement
FEWEST_NUMBERED = 4  # columns: a first row of 0, 1, 2 may be data


@dataclass(frozen=True)
class Wanted:
    """What the caller asks of a file: its label column, its features by name (as a model or a training file has
    them) or by number, and whether its first line is a header. None: find out."""

    label: str | int | None = None
    features: Sequence[str] | None = None
    n_columns: int | None = None
    header: bool | None = None
    ignore_extra: bool = False

    @property
    def width(self) -> int | None:
        """The number of features, where it is known."""
        return self.n_columns if self.features is None else len(self.features)


@dataclass(frozen=True)
class Layout:
    """Which column of a file is what, by position."""

    names: list[str] | None  # None without a header
    width: int
    features: list[int]
    label: int | None
    index: int | None  # a column that may count the rows; known when all of them are read
    left_out: list[int]

    def name(self, column: int) -> str:
        """The column as an error or the user would name it; columns without a name are counted from 1."""
        return self.names[column] if self.names and self.names[column] else str(column + 1)

    def quoted(self, column: int) -> str:
        named = self.names and self.names[column]
        return f"column `{shown(self.name(column))[1:-1]}`" if named else f"column {column + 1}"


@dataclass
class Contents:
    """The cells of a file, read row by row."""

    values: array | SpilledNumbers = field(default_factory=lambda: array("d"))
    labels: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    numbers: NumberFormat = field(default_factory=NumberFormat)
    unlabelled: tuple[int, str] | None = None  # the first line whose label may be missing, what stands there


def read_csv(path: Path, wanted: Wanted, spill: bool = False) -> Examples:
    """Features (on disk with `spill`), labels where there are any, and what was found out about the file."""
    with open_text(path) as text:
        lines = bounded_lines(text, path)
        head = list(islice(lines, SAMPLE_LINES))
        sample, delimiter = _sniffed(head)
        if not sample:
            raise McfError(f"{path} holds no rows: expected a header line, then one line for each row")
        header = _has_header(path, sample, wanted)
        layout = _layout(path, sample, header, wanted)
        rows = csv.reader(chain(head, lines), delimiter=delimiter, strict=True)
        contents = Contents(SpilledNumbers()) if spill else Contents()
        _fill(contents, path, _numbered(path, rows), layout, header, sample[header:])
    if not (contents.values or contents.index):
        raise McfError(f"{path} holds no rows: expected a header line, then one line for each row")
    contents.labels = contents.numbers.labels(contents.labels)
    contents.numbers.check(path)
    findings = [] if header else ["no header"]
    if header and all(plain_number(name) is not None for name in sample[0]):
        findings.append("first line taken as a header, though it holds numbers")
    findings += [f"separated by {DELIMITERS[delimiter]}"] if delimiter != "," else []
    findings += ["decimal commas"] if contents.numbers.comma else []
    findings += [f"empty {layout.quoted(column)} left out" for column in layout.left_out]
    return _examples(path, layout, contents, findings, wanted)


# -- What kind of file is it? -------------------------------------------------------------------------------


def _sniffed(head: list[str]) -> tuple[list[list[str]], str]:
    """The first rows, and the delimiter that gives rows of one length, made of numbers as far as possible."""
    best = None
    for delimiter in DELIMITERS:
        rows = _parsed(head, delimiter)
        if not rows:
            continue
        body = [cell for row in rows[1:] or rows for cell in row]
        like_numbers = sum(looks_numeric(cell) for cell in body) / max(len(body), 1)
        even = len({len(row) for row in rows}) == 1
        score = (len(rows[0]) > 1, even, like_numbers, len(rows[0]))
        if best is None or score > best[0]:
            best = (score, rows, delimiter)
    return ([], ",") if best is None else best[1:]


def _parsed(lines: list[str], delimiter: str) -> list[list[str]]:
    """The rows of the first lines; a quoted cell that goes on below them is left to the reading of the whole."""
    rows = []
    try:
        for row in csv.reader(lines, delimiter=delimiter, strict=True):
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
    except csv.Error:
        pass
    return rows


def _has_header(path: Path, sample: list[list[str]], wanted: Wanted) -> bool:
    """Whether the first row differs in kind from the others: words above columns of numbers."""
    if wanted.header is not None:
        return wanted.header
    first, rest = sample[0], sample[1:]
    columns = [[row[k] for row in rest if k < len(row)] for k in range(len(first))]
    votes = {_vote(cell, column) for cell, column in zip(first, columns, strict=True)} - {None}
    if votes == {True} or (not votes and not any(plain_number(cell) is not None for cell in first)):
        return True
    known = {name.lower() for name in (*LABEL_NAMES, *(wanted.features or ()), str(wanted.label))}
    named = any(
        cell.lower() in known and plain_number(cell) is None and cell not in column
        for cell, column in zip(first, columns, strict=True)
    )
    if named or _counts(first, FEWEST_NUMBERED):
        return True
    if votes == {True, False}:
        text = next(cell for cell, column in zip(first, columns, strict=True) if _vote(cell, column))
        number = next(cell for cell in first if plain_number(cell) is not None)
        malformed(
            path,
            "line 1",
            f"{shown(text)} looks like a header and {shown(number)} like data: give every column a "
            "name, or say which it is in a config: `options: {header: true}`",
        )
    return False


def _vote(first: str, column: list[str]) -> bool | None:
    """A column's word on the first row: True for a header, False for data, None when it cannot tell."""
    body = [cell for cell in column if not is_missing(cell)]
    if is_missing(first) or 2 * sum(looks_numeric(cell) for cell in body) <= len(body):
        return None
    return not looks_numeric(first)


def _counts(cells: Sequence[str], fewest: int) -> bool:
    """Whether cells are 0, 1, 2, ... or 1, 2, 3, ..."""
    if len(cells) < fewest or cells[0] not in ("0", "1"):
        return False
    return all(cell == str(k) for k, cell in enumerate(cells, int(cells[0])))


# -- Which column is what? ----------------------------------------------------------------------------------


def _layout(path: Path, sample: list[list[str]], header: bool, wanted: Wanted) -> Layout:
    names, rest = (sample[0] if header else None), sample[header:]
    width = len(sample[0])
    if names:
        repeated = next((name for k, name in enumerate(names) if name and name in names[:k]), None)
        if repeated is not None:
            raise McfError(f"{path} has two columns called {shown(repeated)}: give each its own name")
    void = [
        k
        for k in range(width)
        if rest and not (names and names[k]) and not any(row[k] for row in rest if k < len(row))
    ]
    columns = [k for k in range(width) if k not in void]
    if names is not None and wanted.features is not None:
        return _by_name(path, names, columns, void, wanted)
    index = _index_candidate(names, columns, rest, wanted)
    label = _label_column(path, names, columns, index, wanted)
    if label == index:
        index = None
    features = [k for k in columns if k not in (label, index)]
    return Layout(names, width, features, label, index, void)


def _by_name(path: Path, names: list[str], columns: list[int], void: list[int], wanted: Wanted) -> Layout:
    """The columns that are asked for, wherever they stand."""
    assert wanted.features is not None
    place = {name: k for k, name in enumerate(names)}
    if missing := [name for name in wanted.features if name not in place]:
        raise McfError(f"{path} has no column {_listed(missing)}: its columns are {_listed(names)}")
    features = [place[name] for name in wanted.features]
    others = [k for k in columns if k not in set(features)]
    asked = [wanted.label] if isinstance(wanted.label, str) else []
    lowered = {names[k].lower(): k for k in others} | {names[k]: k for k in others}
    label = next((lowered[name] for name in (*asked, *LABEL_NAMES) if name in lowered), None)
    index = 0 if 0 in others and label != 0 and names[0].lower() in INDEX_NAMES else None
    extra = [k for k in others if k not in (label, index)]
    if extra and not wanted.ignore_extra:
        raise _unexpected(path, [names[k] for k in extra])
    return Layout(names, len(names), features, label, index, void)


def _unexpected(path: Path, names: Sequence[str]) -> McfError:
    help_ = "remove them, or add --ignore-extra to `mcf predict`"
    return McfError(f"{path} has unexpected columns: {_listed(names)}: {help_}")


def _listed(names: Sequence[str], most: int = 8) -> str:
    quoted = [shown(name) for name in names[:most]]
    return ", ".join(quoted) + (f" and {len(names) - most} more" if len(names) > most else "")


def _index_candidate(
    names: list[str] | None, columns: list[int], rest: list[list[str]], wanted: Wanted
) -> int | None:
    """The first column, if it may number the rows and is not needed to come to the asked width."""
    if not columns or columns[0] != 0 or len(columns) < 2 or wanted.width == len(columns):
        return None
    if names is not None:
        return 0 if names[0].lower() in INDEX_NAMES else None
    fewest = FEWEST_TO_COUNT if wanted.width is None else 2
    return 0 if _counts([row[0] for row in rest], fewest) else None


def _label_column(
    path: Path, names: list[str] | None, columns: list[int], index: int | None, wanted: Wanted
) -> int | None:
    if wanted.label is not None and not (wanted.features is not None and isinstance(wanted.label, str)):
        return _asked_column(path, names, columns, wanted.label)
    lowered = {names[k].lower(): k for k in reversed(columns)} if names else {}
    named = next((lowered[name] for name in LABEL_NAMES if name in lowered), None)
    numbered = index is not None and named is None
    if wanted.width == len(columns) - numbered:
        return None
    if len(columns) < 2:
        raise McfError(
            f"{path} has {len(columns)} column: expected features and a label, separated by commas, semicolons or tabs"
        )
    return columns[-1] if named is None else named


def _asked_column(path: Path, names: list[str] | None, columns: list[int], label: str | int) -> int:
    """By name; else a text counts from 1 (or is first or last), and a number from 0 as Python does."""
    if names and str(label) in names:
        return names.index(str(label))
    if isinstance(label, str) and label.isdecimal() and 1 <= int(label[:9]) <= len(columns):
        return columns[int(label) - 1]
    if label in ("first", "last"):
        return columns[0 if label == "first" else -1]
    if isinstance(label, int) and -len(columns) <= label < len(columns):
        return columns[label]
    known = f"choose the label among {shown(', '.join(names), 200)}" if names else "it has no header"
    raise McfError(f"{path} has no column {label!r}: {known}, or give its number, from 1 to {len(columns)}")


# -- Reading ------------------------------------------------------------------------------------------------


def _numbered(path: Path, rows) -> Iterator[tuple[int, list[str]]]:  # type: ignore[no-untyped-def]
    """The rows that are not blank, with the numbers of their lines."""
    try:
        for row in rows:
            if len(row) > 1 or any(cell.strip() for cell in row):
                yield rows.line_num, row
    except csv.Error as error:
        malformed(path, f"line {rows.line_num}", str(error))


def _fill(
    found: Contents,
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    layout: Layout,
    header: bool,
    sample: list[list[str]],
) -> None:
    known: dict[str, str] = {}  # one string a label, however many rows it has
    if header:
        next(rows, None)
    for line, row in rows:
        if len(row) != layout.width:
            malformed(path, f"line {line}", f"expected {layout.width} columns, got {len(row)}")
        if strays := [k for k in layout.left_out if row[k].strip()]:
            malformed(
                path,
                f"line {line}",
                f"{layout.quoted(strays[0])} has no name and was empty up to this line: name it",
            )
        numbers = found.numbers.row([row[k] for k in layout.features])
        for k, number in zip(layout.features, numbers, strict=True):
            if number is None:
                _refuse_text(path, line, row[k], k, layout, sample)
        found.values.extend(numbers)  # type: ignore[arg-type]
        if layout.index is not None:
            found.index.append(row[layout.index].strip())
        if layout.label is not None:
            label = row[layout.label].strip()
            found.labels.append(known.setdefault(label, label))
            if found.unlabelled is None and is_missing(label):
                found.unlabelled = (line, label)


def _refuse_text(
    path: Path, line: int, cell: str, column: int, layout: Layout, sample: list[list[str]]
) -> None:
    cells = [row[column] for row in sample if column < len(row)]
    if 2 * sum(map(looks_numeric, cells)) >= len(cells):
        name = shown(layout.name(column)) if layout.names else column + 1
        malformed(path, f"line {line}, column {name}", f"expected a finite number, got {shown(cell)}")
    raise McfError(
        f"{path}: {layout.quoted(column)} holds text ({shown(cell)} in line {line}), and features are numbers.\n"
        f"If it is the label, add --label {shown(layout.name(column))}; else remove the column, or make a 0/1 column "
        "of each of its words (pandas.get_dummies)."
    )


def _examples(path: Path, layout: Layout, found: Contents, findings: list[str], wanted: Wanted) -> Examples:
    """The contents in their place: an index that proved one is left out, one that did not is a feature."""
    features, n_rows = layout.features, len(found.labels) or len(found.index)
    X = _table(found.values, n_rows, len(features))
    if layout.index is not None and _is_index(found.index, layout.names is not None):
        findings.append(f"index {layout.quoted(layout.index)} left out")
    elif layout.index is not None and wanted.features is not None and layout.names:
        if not wanted.ignore_extra:
            raise _unexpected(path, [layout.name(layout.index)])
    elif layout.index is not None:
        X, features = _with_first(path, layout, found, X), [layout.index, *features]
    labels = found.labels if layout.label is not None else None
    if found.unlabelled is not None and labels is not None:
        line, text = found.unlabelled
        empty = not text or all(is_missing(label) or plain_number(label) is not None for label in set(labels))
        if empty and wanted.width is None:
            malformed(
                path, f"line {line}", f"its label is missing ({shown(text)}): fill it in or delete the line"
            )
        if empty:
            findings.append(f"{layout.quoted(layout.label)} has empty cells: labels not used")  # type: ignore[arg-type]
            labels = None
    names = tuple(layout.name(k) for k in features) if layout.names is not None else None
    place = "" if layout.label is None else f"label {layout.quoted(layout.label)}"
    if layout.names is None and layout.label == layout.width - 1:
        place += " (the last)"
    name = layout.names[layout.label] if layout.names and layout.label is not None else None
    return Examples(X, labels, names, label_name=name, label_place=place, findings=tuple(findings))


def _table(values: array | SpilledNumbers, n_rows: int, width: int) -> Any:
    if not width:
        return np.empty((n_rows, 0))
    if isinstance(values, SpilledNumbers):
        return values.table(n_rows, width)
    return np.frombuffer(values).reshape(n_rows or -1, width)


def _is_index(cells: list[str], named: bool) -> bool:
    """A column without a name numbers the rows if it counts; one called id needs only a value of its own a row."""
    if not named:
        return _counts(cells, 1)
    numbers = [plain_number(cell) for cell in cells]
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return len(set(cells)) == len(cells) and not fractions


def _with_first(path: Path, layout: Layout, found: Contents, X: Any) -> Any:
    assert layout.index is not None
    numbers = [found.numbers.number(cell) for cell in found.index]
    if None in numbers:
        cell = found.index[numbers.index(None)]
        raise McfError(f"{path}: {layout.quoted(layout.index)} holds text ({shown(cell)}): remove the column")
    return with_first_column(np.array(numbers, dtype=float), X)
