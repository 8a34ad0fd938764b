"""The one shape in which every data set reaches the rest of the project.

`RowsOnDisk` is as much of a matrix as experiments use for rows that stay on disk: memory holds a piece at a time.
"""

import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from pydantic import Field

Matrix: TypeAlias = Any  # an array or a CSR matrix; scipy has no types


class Stored(Protocol):
    """A table in a folder, cut into chunks of rows."""

    folder: Path
    sizes: list[int]  # rows of each chunk

    @property
    def n_features(self) -> int: ...

    def matrix(self, number: int) -> Matrix:
        """The rows of one chunk."""


class RowsOnDisk:
    """Some rows of a stored table, in its order.

    Taking rows (``X[rows]``) reads nothing; ``pieces`` reads one chunk after the other.
    """

    def __init__(
        self, table: Stored, rows: np.ndarray | None = None, step: Callable[[Matrix], Matrix] | None = None
    ):
        """`step` is done to every piece that is read."""
        self.table, self.step = table, step
        self._starts = np.append(0, np.cumsum(table.sizes))
        self._rows = rows  # None: all
        count = int(self._starts[-1]) if rows is None else len(rows)
        self.shape = (count, table.n_features)

    def __getitem__(self, rows: np.ndarray) -> "RowsOnDisk":
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        chosen = rows if self._rows is None else self._rows[rows]
        if (np.diff(chosen) <= 0).any():
            raise ValueError("rows on disk can be selected only once each, in the order of the file")
        return RowsOnDisk(self.table, chosen, self.step)

    def mapped(self, step: Callable[[Matrix], Matrix]) -> "RowsOnDisk":
        """The same rows after a step that is done to them a piece at a time."""
        before = self.step
        both = step if before is None else lambda X: step(before(X))
        return RowsOnDisk(self.table, self._rows, both)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.table.matrix(0))

    def span(self, number: int) -> slice:
        """Which of these rows stand in a chunk."""
        bounds = self._starts[number : number + 2]
        return slice(*(bounds if self._rows is None else np.searchsorted(self._rows, bounds)))

    def chunks(self) -> list[int]:
        """The chunks that hold any of these rows."""
        spans = map(self.span, range(len(self.table.sizes)))
        return [number for number, span in enumerate(spans) if span.start < span.stop]

    def piece(self, number: int) -> Matrix:
        """Those of the rows that stand in a chunk."""
        X, span = self.table.matrix(number), self.span(number)
        if self._rows is not None and span.stop - span.start < X.shape[0]:
            X = X[self._rows[span] - self._starts[number]]
        return X if self.step is None else self.step(X)

    def pieces(self) -> Iterator[Matrix]:
        """All rows, some at a time."""
        return map(self.piece, self.chunks())

    def apply(self, function: Callable[[Matrix], np.ndarray]) -> np.ndarray:
        """What a function says of each row, a piece at a time."""
        return np.concatenate([function(piece) for piece in self.pieces()])


class SpilledNumbers:
    """Numbers that come one after the other and go to a file without a name; then a table of them, read by pieces."""

    AT_ONCE = 2**20  # numbers in memory

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir())
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  gone with this object
        self._held, self._count = array("d"), 0
        self.sizes: list[int] = []
        self.n_features = 0

    def extend(self, numbers: Iterable[float]) -> None:
        self._held.extend(numbers)
        if len(self._held) >= self.AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._count += len(self._held)
        self._held.tofile(self._file)
        self._held = array("d")
        self._file.flush()

    def __bool__(self) -> bool:
        return bool(self._count or self._held)

    def table(self, n_rows: int, width: int) -> RowsOnDisk:
        """The numbers as rows; 0 of them stand for as many as there are."""
        self._flush()
        n_rows = n_rows or self._count // width
        each = max(1, self.AT_ONCE // width)
        self.sizes = [min(each, n_rows - start) for start in range(0, n_rows, each)]
        self.n_features = width
        return RowsOnDisk(self)

    def matrix(self, number: int) -> np.ndarray:
        start, rows = sum(self.sizes[:number]) * self.n_features, self.sizes[number]
        self._file.seek(8 * start)
        return np.fromfile(self._file, count=rows * self.n_features).reshape(rows, self.n_features)


def with_first_column(numbers: np.ndarray, X: Matrix | RowsOnDisk) -> Matrix | RowsOnDisk:
    """A table with one more column, before the others."""
    if not isinstance(X, RowsOnDisk):
        return np.column_stack([numbers, X])
    values = SpilledNumbers()
    for number in X.chunks():
        values.extend(np.column_stack([numbers[X.span(number)], X.piece(number)]).ravel())
    return values.table(X.shape[0], X.shape[1] + 1)


def by_pieces(function: Callable[[Matrix], np.ndarray], X: Matrix | RowsOnDisk) -> np.ndarray:
    """What a function says of each row, wherever the rows are."""
    return X.apply(function) if isinstance(X, RowsOnDisk) else function(X)


def row_pieces(X: Matrix | RowsOnDisk) -> Iterator[Matrix]:
    """The rows, all at once or, from disk, some at a time."""
    return X.pieces() if isinstance(X, RowsOnDisk) else iter([X])


SPLIT_SEED = 2013
Split = tuple[np.ndarray, np.ndarray]  # row numbers: training, test


@dataclass(frozen=True)
class Dataset:
    """Examples, labels, and what a reader of a result must know about where they come from.

    A file of a user may have missing cells: NaN in X, an explicit entry where X is sparse.
    """

    name: str
    X: Any  # an array, a CSR matrix or RowsOnDisk; scipy has no types
    y: np.ndarray  # codes into class_names; the numbers themselves of a regression
    class_names: tuple[str, ...]  # none for a regression
    source: str  # real | substitute | builtin | user
    sha256: str
    description: str
    feature_names: tuple[str, ...] | None = None
    splits: Mapping[str, Split] = field(default_factory=dict)  # the first is the default
    groups: np.ndarray | None = None  # rows that share a number belong in one fold
    blocks: int | None = None  # symbols per one-hot block, for Multinomial
    notes: tuple[str, ...] = ()  # what every result on it must say
    task: str = "classification"  # or regression
    label_name: str | None = None  # of the label column, in files that name their columns
    understood: str = ""  # how a user's file was read, in one line

    @cached_property
    def missing(self) -> np.ndarray:
        """The number of missing cells in each column."""
        return missing_cells(self.X)


@dataclass(frozen=True)
class Examples:
    """The contents of one file of a user; labels is None where the file holds none.

    assumed_one_based: svmlight columns that would fit the asked width counted from 0 as well as from 1.
    """

    X: Any
    labels: list[str] | None
    feature_names: tuple[str, ...] | None = None
    assumed_one_based: bool = False
    label_name: str | None = None
    label_place: str = "labels"  # where the labels stand, in words
    findings: tuple[str, ...] = ()  # what a reader of the file had to find out


def missing_cells(X: Matrix | RowsOnDisk) -> np.ndarray:
    """The number of NaN in each column."""
    if isinstance(X, RowsOnDisk):
        return sum((missing_cells(piece) for piece in X.pieces()), np.zeros(X.shape[1], dtype=np.int64))
    if sp.issparse(X):
        return np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    return np.isnan(X).sum(axis=0)


# What an option of a loader may be; `datasets.load` refuses anything else before the loader is called.
CountOption = Annotated[int, Field(ge=1, le=10**9)]
Seed = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, le=1)]


def fingerprint(*parts: object) -> str:
    """A sha256 over JSON-ready parts: file hashes, options, versions. Equal parts give equal data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def shuffled_rows(n: int, seed: int) -> np.ndarray:
    """A permutation of n rows from the raw bit stream, which numpy promises never to change."""
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")


def seeded_split(n: int, test_fraction: float = 0.25, seed: int = SPLIT_SEED) -> Split:
    """Row numbers of a fixed random division into training and test examples, each in file order."""
    order = shuffled_rows(n, seed)
    n_test = min(max(round(n * test_fraction), 1), n - 1)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def first_rows_train(n_train: int, n_test: int) -> Split:
    """The division of data stored as the training examples followed by the test examples."""
    return np.arange(n_train), np.arange(n_train, n_train + n_test)


def encode_labels(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes and class names; names that are numbers are put in numeric order."""
    distinct = set(labels)
    try:
        ordered = sorted(distinct, key=lambda label: (float(label), label))
    except ValueError:
        ordered = sorted(distinct)
    code = {label: k for k, label in enumerate(ordered)}
    return np.array([code[label] for label in labels], dtype=np.int64), tuple(ordered)


def identical_groups(keys: Sequence[str]) -> np.ndarray:
    """The same number for every copy of a key, so that folds can keep copies together."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def identical_rows(X: sp.csr_matrix) -> np.ndarray:
    """Groups of equal rows. Reviews and stories were posted twice; a copy in validation rewards learning by heart."""
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    rows = (X.indices[start:end].tobytes() + X.data[start:end].tobytes() for start, end in spans)
    return identical_groups([hashlib.sha256(row).hexdigest() for row in rows])
