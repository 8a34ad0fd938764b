"""Training data in pieces: read once, a piece at a time, and kept in a folder as plain .npy files.

A source is a svmlight or npz file, a list of them, an iterable of (X, y), or a function that returns one. Only a
whole pass tells how many columns there are and whether svmlight columns count from 0 or 1, so pieces are stored with
their columns as written and put in place when they are loaded.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_X_y

from mcf_cli.datasets import svmlight
from mcf_cli.datasets.npz import read_table
from mcf_cli.datasets.userfile import file_format
from mcf_cli.errors import McfError

Matrix = np.ndarray | sp.csr_matrix
Source = Any  # str | Path | a list of them | an iterable of (X, y) | a function that returns one
INDEX, FORMAT, VERSION = "chunks.json", "mcf-chunks", 1


@dataclass(frozen=True)
class Piece:
    """Some rows. Those of a svmlight file have their columns as written, the `lowest` of which is noted."""

    X: Matrix
    y: np.ndarray
    name: str
    lowest: int | None = None

    def outline(self) -> "Outline":
        return Outline(self.name, *self.X.shape, self.lowest)


@dataclass(frozen=True)
class Outline:
    """The shape of a piece: what all of them have to agree on. As written, others may have more columns."""

    name: str
    rows: int
    width: int
    lowest: int | None

    @property
    def as_written(self) -> bool:
        return self.lowest is not None


@dataclass(frozen=True)
class Columns:
    """The columns of all pieces together: the one written as `first` is number 0."""

    first: int
    n_features: int

    @classmethod
    def agreed(
        cls, outlines: Sequence[Outline], n_features: int | None = None, zero_based: bool | None = None
    ) -> "Columns":
        """The columns that every piece fits in; McfError names the piece that does not."""
        widest = max(outlines, key=lambda outline: outline.width)
        if not widest.as_written:
            width = widest.width if n_features is None else n_features
            for outline in outlines:
                if outline.width != width:
                    raise McfError(f"{outline.name} has {outline.width} columns where {width} are expected")
            return cls(0, width)
        with_zero = [outline.name for outline in outlines if outline.lowest == 0]
        if zero_based is False and with_zero:
            raise McfError(
                f"{with_zero[0]} holds a column 0, so columns do not count from 1: leave zero_based out"
            )
        first = 0 if with_zero or zero_based else 1
        width = widest.width - first
        if width < 1:
            raise McfError(f"{widest.name} holds no features: expected 'label column:value ...'")
        if n_features is not None and width > n_features:
            raise McfError(
                f"{widest.name} has a column {widest.width - 1} where {n_features} columns are expected"
            )
        return cls(first, n_features or width)

    def place(self, X: Matrix) -> Matrix:
        """X with its columns in their place, as wide as all pieces together."""
        if not sp.issparse(X) or (not self.first and X.shape[1] == self.n_features):
            return X
        indices = X.indices - X.indices.dtype.type(self.first) if self.first else X.indices
        return sp.csr_matrix((X.data, indices, X.indptr), shape=(X.shape[0], self.n_features))


def read_file(path: str | Path, most: float = np.inf) -> Iterator[Piece]:
    """The pieces of a file: svmlight text is cut at `most` entries, a npz file is one piece."""
    path = Path(path)
    kind = file_format(path)
    if kind == "svmlight":
        for rows in svmlight.read_pieces(path, most):
            lowest, highest = rows.column_range()
            yield Piece(rows.matrix(highest + 1, 0), np.array(rows.labels, dtype=float), str(path), lowest)
    elif kind == "npz":
        X, y = read_table(path)
        if y is None:
            raise McfError(f"{path} holds no labels: add an array y")
        yield Piece(X, y, str(path))
    else:
        raise McfError(f"cannot read {path} in pieces: name it .svmlight or .npz (.gz and .xz may follow)")


def checked(X: Any, y: Any, name: str) -> Piece:
    """A piece from arrays; ValueError names the piece and what is wrong with it."""
    try:
        X, y = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if y.dtype.kind == "O":
        y = np.array(y.tolist())
    if y.dtype.kind not in "biufU":
        raise ValueError(f"{name}: labels of type {y.dtype}; give numbers or names")
    return Piece(X, y, name)


def pieces_of(source: Source, most: float) -> Iterator[Piece]:
    """Every piece of a source that holds a row, in order."""
    if isinstance(source, str | Path):
        source = [source]
    elif isinstance(source, Callable):
        source = source()
    kinds = set()
    for number, item in enumerate(source):
        if isinstance(item, str | Path):
            found: Iterable[Piece] = read_file(item, most)
        else:
            X, y = _pair(item, number)
            found = [checked(X, y, f"chunk {number}")] if X.shape[0] else []
        for piece in found:
            kinds.add(piece.outline().as_written)
            if len(kinds) > 1:
                raise McfError(f"{piece.name}: svmlight files and other pieces do not mix: give one kind")
            yield piece


def _pair(item: Any, number: int) -> tuple[Any, Any]:
    try:
        X, y = item
    except (TypeError, ValueError):
        raise ValueError(f"chunk {number} is not a pair (X, y), nor the path of a file") from None
    return X if sp.issparse(X) else np.asarray(X), y


class Chunks:
    """Chunks of rows in a folder; iterating yields (X, y), mapped into memory and read where they are used.

    >>> import tempfile
    >>> from mcf_cli import Chunks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chunks = Chunks.write([([[1.0, 0.0]], ["a"]), ([[0.0, 2.0], [3.0, 0.0]], ["b", "a"])], folder)
    ...     len(chunks), chunks.rows, chunks.n_features
    (2, 3, 2)
    """

    def __init__(self, folder: str | os.PathLike[str]):
        """Open what `write` wrote."""
        self.folder = Path(folder)
        try:
            index = json.loads((self.folder / INDEX).read_text())
        except (OSError, ValueError):
            raise McfError(f"{folder} holds no complete set of chunks: make one with Chunks.write") from None
        if index.get("format") != FORMAT or index.get("version") != VERSION:
            raise McfError(f"{folder} holds chunks of another version: write them anew with Chunks.write")
        self._columns = Columns(index["first_column"], index["n_features"])
        self._rows: list[int] = index["rows"]

    @classmethod
    def write(
        cls,
        source: Source,
        folder: str | os.PathLike[str],
        entries: int = 4_000_000,
        n_features: int | None = None,
        zero_based: bool | None = None,
    ) -> "Chunks":
        """Read the source once and keep it in the folder; memory never holds more than one chunk.

        entries: where svmlight text is cut, in stored entries; other sources keep the chunks they come in.
        n_features: the number of columns, should the data not show all of them. zero_based: whether svmlight
        columns count from 0; by default they do when a column 0 occurs.
        """
        folder = Path(folder)
        if entries < 1:
            raise ValueError(f"entries={entries}: a chunk holds at least one")
        if (folder / INDEX).exists():
            raise McfError(f"{folder} holds chunks already: open them with Chunks, or name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        outlines = []
        for number, piece in enumerate(pieces_of(source, entries)):
            _write_piece(folder / f"{number:06d}", piece)
            outlines.append(piece.outline())
        if not outlines:
            raise McfError("the source holds no rows: expected files, or pairs (X, y)")
        columns = Columns.agreed(outlines, n_features, zero_based)
        index = {
            "format": FORMAT,
            "version": VERSION,
            "first_column": columns.first,
            "n_features": columns.n_features,
            "rows": [outline.rows for outline in outlines],
        }
        part = folder / f"{INDEX}.part"
        part.write_text(json.dumps(index) + "\n")
        part.replace(folder / INDEX)  # the last thing written: a folder without it is not a set of chunks
        return cls(folder)

    @property
    def rows(self) -> int:
        return sum(self._rows)

    @property
    def n_features(self) -> int:
        return self._columns.n_features

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> tuple[Matrix, np.ndarray]:
        """(X, y) of one chunk."""
        stem = self._stem(number)
        if (whole := _path(stem, "X")).exists():
            return np.load(whole, mmap_mode="r"), self.labels(number)
        data, indices, indptr = (np.load(_path(stem, name), mmap_mode="r") for name in _CSR)
        width = self._columns.first + self._columns.n_features
        X = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, width))
        return self._columns.place(X), self.labels(number)

    def labels(self, number: int) -> np.ndarray:
        """y of one chunk."""
        return np.load(_path(self._stem(number), "y"))

    def __iter__(self) -> Iterator[tuple[Matrix, np.ndarray]]:
        return (self[number] for number in range(len(self)))

    def _stem(self, number: int) -> Path:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.folder / f"{number:06d}"


_CSR = ("data", "indices", "indptr")


def _path(stem: Path, name: str) -> Path:
    return stem.with_name(f"{stem.name}.{name}.npy")


def _write_piece(stem: Path, piece: Piece) -> None:
    arrays = {"y": piece.y}
    if sp.issparse(piece.X):
        arrays |= {
            "data": piece.X.data,
            "indices": piece.X.indices.astype(np.int32),
            "indptr": piece.X.indptr,
        }
    else:
        arrays["X"] = piece.X
    for name in ("X", *_CSR):  # of an attempt that did not finish
        _path(stem, name).unlink(missing_ok=True)
    for name, array in arrays.items():
        np.save(_path(stem, name), array, allow_pickle=False)
