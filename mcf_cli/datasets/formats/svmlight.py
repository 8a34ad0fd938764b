"""The svmlight text format: `label column:value column:value ... # comment`, one row per line."""

import io
import re
import warnings
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.formats.archives import malformed, numbered_blocks, numbered_lines, open_bytes, shown

# A model holds a weight a column: a stray huge number must not become a huge model.
MAX_COLUMN = 2**26
BLOCK = 2**20  # bytes of text parsed at once

# Lines that hold nothing but numbers at their place, as nearly all do; what else is legal is read line by line.
_PLAIN_LINES = re.compile(
    rb"(?:[ \t]*+[-+.\deE]++(?:[ \t]++\d{1,8}+:[-+.\deE]++)*+[ \t]*+\r?+(?:\n|\Z))++"
)  # fmt: skip


@dataclass
class SparseRows:
    """What a file holds, column numbers as written."""

    labels: list[str] = field(default_factory=list)
    columns: array = field(default_factory=lambda: array("i"))
    values: array = field(default_factory=lambda: array("d"))
    row_ends: array = field(default_factory=lambda: array("q", [0]))
    queries: bool = False  # whether rows name a query (qid), which nothing here uses

    def column_range(self) -> tuple[int, int]:
        """The smallest and the largest column number; (1, 0) when there is none."""
        columns = np.frombuffer(self.columns, np.intc)
        return (int(columns.min()), int(columns.max())) if len(columns) else (1, 0)

    def matrix(self, n_columns: int, first_column: int) -> sp.csr_matrix:
        """The rows as CSR, with the column written as `first_column` moved to 0. The values are not copied."""
        columns = np.frombuffer(self.columns, np.intc)
        parts = (
            np.frombuffer(self.values, float),
            columns - np.intc(first_column) if first_column else columns,
            np.frombuffer(self.row_ends, np.int64),
        )
        matrix = sp.csr_matrix(parts, shape=(len(self.labels), n_columns))
        matrix.eliminate_zeros()
        return matrix


def read_rows(path: Path) -> SparseRows:
    """Parse a whole file; a fault names its line and its token."""
    (rows,) = read_pieces(path)
    return rows


def read_pieces(path: Path, most: float = inf) -> Iterator[SparseRows]:
    """Parse a file a piece at a time, each of about `most` entries (or so many rows, should they be empty)."""
    rows, found, labels = SparseRows(), False, LabelNames()
    with open_bytes(path) as stream:
        for number, text in numbered_blocks(stream, path, int(min(BLOCK, max(1, most // 8)))):
            if not _append_block(rows, text, labels):
                for line_number, line in numbered_lines(io.BytesIO(text), path, number):
                    tokens = line.partition("#")[0].split()
                    if tokens:
                        _append(rows, tokens, path, line_number, labels)
            if max(len(rows.columns), len(rows.labels)) >= most:
                yield rows
                rows, found = SparseRows(), True
    if rows.labels:
        yield rows
    elif not found:
        malformed(path, "line 1", "expected 'label column:value ...', but the file holds no rows")


class LabelNames(dict):
    """The name of each label: +1, 1 and 1.0 are one class, and one string."""

    def __missing__(self, label: float) -> str:
        self[label] = name = str(int(label)) if label.is_integer() else str(label)
        return name


def _append_block(rows: SparseRows, text: bytes, labels: LabelNames) -> bool:
    """Add the lines, if they are plain and right; otherwise nothing is added."""
    if not _PLAIN_LINES.fullmatch(text):
        return False
    sizes = np.array([line.count(b":") for line in text.splitlines()])
    numbers = _numbers(text.replace(b":", b" "), len(sizes) + 2 * int(sizes.sum()))
    if numbers is None:
        return False
    starts = np.append(0, np.cumsum(1 + 2 * sizes)[:-1])
    is_label = np.zeros(len(numbers), dtype=bool)
    is_label[starts] = True
    entries = numbers[~is_label]
    columns, ends = entries[::2].astype(np.intc), np.cumsum(sizes)
    rising = np.diff(columns) > 0
    rising[ends[:-1][(ends[:-1] > 0) & (ends[:-1] < len(columns))] - 1] = True  # a new row begins
    if not rising.all() or columns.max(initial=0) > MAX_COLUMN:
        return False
    rows.labels.extend(map(labels.__getitem__, numbers[starts].tolist()))
    rows.row_ends.frombytes((ends + len(rows.columns)).tobytes())
    rows.columns.frombytes(columns.tobytes())
    rows.values.frombytes(entries[1::2].tobytes())
    return True


def _numbers(text: bytes, count: int) -> np.ndarray | None:
    """So many finite numbers, or None if the text holds anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's word for text that is no number
        try:
            numbers = np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            return None
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else None


def _append(rows: SparseRows, tokens: list[str], path: Path, number: int, labels: LabelNames) -> None:
    label = tokens[0]
    if not _is_number(label):
        malformed(path, f"line {number}", f"expected a numeric label, got {shown(label)}")
    entries: dict[int, float] = {}
    for position, token in enumerate(tokens[1:], 2):
        column, separator, value = token.partition(":")
        if column == "qid":
            rows.queries = True
            continue
        where = f"line {number}, item {position}"
        if not (separator and column.isdecimal() and (_is_number(value) or value.lower() == "nan")):
            malformed(path, where, f"expected 'column:value', got {shown(token)}")
        if len(column) > 9 or int(column) > MAX_COLUMN:
            malformed(path, where, f"column {shown(column)} is beyond the limit of {MAX_COLUMN:,}")
        if int(column) in entries:
            malformed(path, where, f"column {column} occurs twice on the line")
        entries[int(column)] = float(value)
    rows.labels.append(labels[float(label)])
    ordered = sorted(entries)
    rows.columns.extend(ordered)
    rows.values.extend(entries[column] for column in ordered)
    rows.row_ends.append(len(rows.columns))


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text)) and "_" not in text  # which Python reads over
    except ValueError:
        return False
