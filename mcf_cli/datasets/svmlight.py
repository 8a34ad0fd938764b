"""The svmlight text format: `label column:value column:value ... # comment`, one example a line."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.reading import malformed, numbered_lines, open_bytes, shown

# A model holds a weight a column: a stray huge number must not become a huge model.
MAX_COLUMN = 2**26


@dataclass
class SparseRows:
    """What a file holds, column numbers as written."""

    labels: list[str] = field(default_factory=list)
    columns: array = field(default_factory=lambda: array("q"))
    values: array = field(default_factory=lambda: array("d"))
    row_ends: array = field(default_factory=lambda: array("q", [0]))

    def column_range(self) -> tuple[int, int]:
        """The smallest and the largest column number; (1, 0) when there is none."""
        return (min(self.columns), max(self.columns)) if self.columns else (1, 0)

    def matrix(self, n_columns: int, first_column: int) -> sp.csr_matrix:
        """The rows as CSR, with the column written as `first_column` moved to 0."""
        parts = (np.array(self.values), np.array(self.columns) - first_column, np.array(self.row_ends))
        matrix = sp.csr_matrix(parts, shape=(len(self.labels), n_columns))
        matrix.eliminate_zeros()
        return matrix


def read_rows(path: Path) -> SparseRows:
    """Parse a whole file; a fault names its line and its token."""
    (rows,) = read_pieces(path)
    return rows


def read_pieces(path: Path, most: float = inf) -> Iterator[SparseRows]:
    """Parse a file a piece at a time, each of about `most` entries (or so many rows, should they be empty)."""
    rows, found = SparseRows(), False
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, path):
            tokens = line.partition("#")[0].split()
            if tokens:
                _append(rows, tokens, path, number)
            if max(len(rows.columns), len(rows.labels)) >= most:
                yield rows
                rows, found = SparseRows(), True
    if rows.labels:
        yield rows
    elif not found:
        malformed(path, "line 1", "expected 'label column:value ...', but the file holds no examples")


def _append(rows: SparseRows, tokens: list[str], path: Path, number: int) -> None:
    label = tokens[0]
    if not _is_number(label):
        malformed(path, f"line {number}", f"expected a numeric label, got {shown(label)}")
    entries: dict[int, float] = {}
    for position, token in enumerate(tokens[1:], 2):
        column, separator, value = token.partition(":")
        if column == "qid":
            continue
        where = f"line {number}, item {position}"
        if not (separator and column.isdecimal() and _is_number(value)):
            malformed(path, where, f"expected 'column:value', got {shown(token)}")
        if len(column) > 9 or int(column) > MAX_COLUMN:
            malformed(path, where, f"column {shown(column)} is beyond the limit of {MAX_COLUMN:,}")
        if int(column) in entries:
            malformed(path, where, f"column {column} stands twice on the line")
        entries[int(column)] = float(value)
    rows.labels.append(_plain(float(label)))
    ordered = sorted(entries)
    rows.columns.extend(ordered)
    rows.values.extend(entries[column] for column in ordered)
    rows.row_ends.append(len(rows.columns))


def _plain(label: float) -> str:
    """+1, 1 and 1.0 are one class."""
    return str(int(label)) if label.is_integer() else str(label)


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False
