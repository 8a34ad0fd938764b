"""Training data in pieces: read once, a piece at a time, and kept in a folder as plain .npy files.

A source is a svmlight, csv or npz file, a list of them, an iterable of (X, y), or a function that returns one. Only a
whole pass tells how many columns there are and whether svmlight columns count from 0 or 1, so pieces are stored with
their columns as written and put in place when they are loaded. Their arrays are mapped into memory for as long as
somebody uses them.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_X_y

from mcf_cli.core.corruptions.columns import ColumnNames
from mcf_cli.core.kernels.dispatch import canonical
from mcf_cli.datasets.dataset import missing_cells
from mcf_cli.datasets.formats import svmlight
from mcf_cli.datasets.formats.npz import as_floats, read_stored
from mcf_cli.datasets.userfile import file_format, label_values, read_examples
from mcf_cli.errors import McfError
from mcf_cli.files import write_text

PieceMatrix: TypeAlias = Any  # an array or a CSR matrix; scipy has no types
ChunkSource = Any  # str | Path | a list of them | an iterable of (X, y) | a function that returns one
INDEX, CHUNKS_FORMAT, CHUNKS_VERSION = "chunks.json", "mcf-chunks", 1


@dataclass(frozen=True)
class Piece:
    """Some rows. Those of a svmlight file have their columns as written, the `lowest` of which is noted."""

    X: PieceMatrix
    y: np.ndarray
    name: str
    lowest: int | None = None
    weight: np.ndarray | None = None  # of each row; None for 1
    columns: tuple[str, ...] | None = None  # their names

    def outline(self) -> "Outline":
        rows, columns = self.X.shape
        weight = float(rows if self.weight is None else self.weight.sum())
        return Outline(self.name, rows, columns, self.lowest, weight, self.columns)


@dataclass(frozen=True)
class Outline:
    """The shape of a piece: what all of them have to agree on. As written, others may have more columns."""

    name: str
    rows: int
    width: int
    lowest: int | None
    weight: float  # of all rows together
    columns: tuple[str, ...] | None = None

    @property
    def as_written(self) -> bool:
        return self.lowest is not None


@dataclass(frozen=True)
class Columns:
    """The columns of all pieces together: the one written as `first` is number 0."""

    first: int
    n_features: int
    names: tuple[str, ...] | None = None

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
                if outline.columns != outlines[0].columns:
                    raise McfError(f"{outline.name} and {outlines[0].name} name their columns differently")
            return cls(0, width, outlines[0].columns)
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

    def place(self, X: PieceMatrix) -> PieceMatrix:
        """X with its columns in their place, as wide as all pieces together."""
        if not sp.issparse(X) or (not self.first and X.shape[1] == self.n_features):
            return X
        indices = X.indices - X.indices.dtype.type(self.first) if self.first else X.indices
        return sp.csr_matrix((X.data, indices, X.indptr), shape=(X.shape[0], self.n_features))


def read_file(path: str | Path, most: float = np.inf) -> Iterator[Piece]:
    """The pieces of a file, cut where they reach `most` entries."""
    path = Path(path)
    kind = file_format(path)
    if kind == "svmlight":
        for rows in svmlight.read_pieces(path, most):
            lowest, highest = rows.column_range()
            X = rows.matrix(highest + 1, 0)
            _refuse_missing(X, path)
            yield Piece(X, np.array(rows.labels, dtype=float), str(path), lowest)
    elif kind == "npz":
        X, y = read_stored(path)
        if y is None:
            raise McfError(f"{path} holds no labels: add an array y")
        for span in spans(X, most):
            piece = as_floats(X[span], path)
            _refuse_missing(piece, path)
            yield Piece(piece, y[span], str(path))
    elif kind == "csv":
        yield from _csv_pieces(path, most)
    else:
        raise McfError(
            f"cannot read {path} in chunks: name it .svmlight, .csv or .npz (.gz and .xz may follow)"
        )


def _csv_pieces(path: Path, most: float) -> Iterator[Piece]:
    (part,) = read_examples([path])
    if part.labels is None:
        raise McfError(f"{path} holds no labels: add a label column, for example one called label")
    _refuse_missing(part.X, path)
    y = label_values(part.labels)
    for span in spans(part.X, most):
        yield Piece(part.X[span], y[span], str(path), columns=part.feature_names)


def _refuse_missing(X: PieceMatrix, path: Path) -> None:
    if count := int(missing_cells(X).sum()):
        raise McfError(f"{path} has {count:,} missing cells (NaN): data in chunks must be complete")


def spans(X: PieceMatrix, most: float) -> Iterator[slice]:
    """Rows of a table a piece at a time, each of about `most` stored entries."""
    entries = X.indptr if sp.issparse(X) else X.shape[1] * np.arange(X.shape[0] + 1)
    start, rows = 0, X.shape[0]
    while start < rows:
        end = rows if most == np.inf else int(np.searchsorted(entries, entries[start] + most))
        end = min(max(end, start + 1), start + int(min(most, rows)), rows)
        yield slice(start, end)
        start = end


def checked(X: Any, y: Any, name: str, weight: Any = None) -> Piece:
    """A piece from arrays; ValueError names the piece and what is wrong with it. Rows without weight are left out."""
    columns = ColumnNames.of(X).names
    try:
        X, y = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if y.dtype.kind == "O":
        y = np.array(y.tolist())
    if y.dtype.kind not in "biufU":
        raise ValueError(f"{name}: labels of type {y.dtype}; give numbers or names")
    X, names = canonical(X), None if columns is None else tuple(columns.tolist())
    if weight is None:
        return Piece(X, y, name, columns=names)
    weight = np.asarray(weight, dtype=float)
    if weight.shape != (len(y),) or not ((weight >= 0.0) & (weight <= 1e100)).all():  # they have to add up
        raise ValueError(f"{name}: sample_weight must be {len(y)} finite numbers from 0 to 1e100")
    kept = weight > 0
    return Piece(X[kept], y[kept], name, weight=weight[kept], columns=names)


def pieces_of(source: ChunkSource, most: float) -> Iterator[Piece]:
    """Every piece of a source that holds a row, in order."""
    if isinstance(source, str | Path):
        source = [source]
    elif callable(source):
        source = source()
    kinds = set()
    for number, item in enumerate(source):
        if isinstance(item, str | Path):
            found: Iterable[Piece] = read_file(item, most)
        elif isinstance(item, Piece):
            found = [item]
        else:
            X, y, *weight = _tuple(item, number)
            found = [checked(X, y, f"chunk {number}", *weight)] if X.shape[0] else []
        for piece in found:
            if not piece.X.shape[0]:
                continue
            kinds.add(piece.outline().as_written)
            if len(kinds) > 1:
                raise McfError(f"{piece.name}: svmlight files and other sources do not mix: give one kind")
            yield piece


def _tuple(item: Any, number: int) -> tuple[Any, ...]:
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise ValueError(
            f"chunk {number} is not a pair (X, y), nor (X, y, sample_weight), nor the path of a file"
        )
    X, *rest = item
    return X if hasattr(X, "shape") else np.asarray(X), *rest


class Chunks:
    """Chunks of rows in a folder; iterating yields (X, y), mapped into memory and read where they are used.

    Parameters
    ----------
    folder : what `Chunks.write` wrote

    Attributes
    ----------
    rows, n_features : of all chunks together
    sizes : the rows of each chunk
    feature_names : the names of the columns, where the source has them; else None
    first_column : how the column number 0 is written, in svmlight files

    Examples
    --------
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
        if index.get("format") != CHUNKS_FORMAT or index.get("version") != CHUNKS_VERSION:
            raise McfError(f"{folder} holds chunks of another version: write them again with Chunks.write")
        names = index.get("names")
        self._columns = Columns(index["first_column"], index["n_features"], names and tuple(names))
        self.sizes: list[int] = index["rows"]

    @classmethod
    def write(
        cls,
        source: ChunkSource,
        folder: str | os.PathLike[str],
        entries: int = 4_000_000,
        n_features: int | None = None,
        zero_based: bool | None = None,
    ) -> "Chunks":
        """Read the source once and keep it in the folder; memory never holds more than one chunk.

        Parameters
        ----------
        source : a svmlight, csv or .npz file, a list of them, an iterable of (X, y) or (X, y, sample_weight), or a
            function that returns one; a csv file, and an array, is read whole. Columns of a csv file or a DataFrame
            keep their names
        folder : where the chunks go
        entries : size of a chunk of svmlight text, in stored entries; other sources keep the chunks they come in
        n_features : the number of columns, if the data may not show all of them
        zero_based : whether svmlight columns count from 0; by default they do when a column 0 occurs

        Returns
        -------
        the chunks, as `Chunks(folder)` opens them

        Examples
        --------
        >>> import tempfile
        >>> from mcf_cli import Chunks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     X, y = Chunks.write([([[1.0, 0.0]], [3.5])], folder, n_features=2)[0]
        ...     X.tolist(), y.tolist()
        ([[1.0, 0.0]], [3.5])
        """
        folder = Path(folder)
        if entries < 1:
            raise ValueError(f"entries must be at least 1; got {entries}")
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
            "format": CHUNKS_FORMAT,
            "version": CHUNKS_VERSION,
            "first_column": columns.first,
            "n_features": columns.n_features,
            "rows": [outline.rows for outline in outlines],
            "names": columns.names,
        }
        # The last thing written: a folder without it is not a set of chunks.
        write_text(folder / INDEX, json.dumps(index) + "\n")
        return cls(folder)

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    @property
    def n_features(self) -> int:
        return self._columns.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, where the source has them."""
        return self._columns.names

    @property
    def first_column(self) -> int:
        """How the column number 0 is written, in svmlight files."""
        return self._columns.first

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: int) -> tuple[PieceMatrix, np.ndarray]:
        """(X, y) of one chunk."""
        return self.matrix(number), self.labels(number)

    def matrix(self, number: int) -> PieceMatrix:
        """X of one chunk, mapped into memory.

        Parameters
        ----------
        number : which chunk, from 0

        Returns
        -------
        an array, or a CSR matrix where the source was sparse

        Examples
        --------
        >>> import tempfile
        >>> from mcf_cli import Chunks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     chunks = Chunks.write([([[1.0, 0.0]], ["a"]), ([[0.0, 2.0]], ["b"])], folder)
        ...     chunks.matrix(1).tolist()
        [[0.0, 2.0]]
        """
        stem = self._stem(number)
        if (whole := _path(stem, "X")).exists():
            return np.load(whole, mmap_mode="r")
        data, indices, indptr = (np.load(_path(stem, name), mmap_mode="r") for name in _CSR)
        width = self._columns.first + self._columns.n_features
        X = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, width))
        return self._columns.place(X)

    def labels(self, number: int) -> np.ndarray:
        """y of one chunk.

        Parameters
        ----------
        number : which chunk, from 0

        Returns
        -------
        an array of numbers or names, one for each row

        Examples
        --------
        >>> import tempfile
        >>> from mcf_cli import Chunks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     chunks = Chunks.write([([[1.0, 0.0]], ["a"]), ([[0.0, 2.0]], ["b"])], folder)
        ...     chunks.labels(1).tolist()
        ['b']
        """
        return np.load(_path(self._stem(number), "y"))

    def weights(self, number: int) -> np.ndarray | None:
        """The weights of one chunk's rows.

        Parameters
        ----------
        number : which chunk, from 0

        Returns
        -------
        an array, or None where all weights are 1

        Examples
        --------
        >>> import tempfile
        >>> from mcf_cli import Chunks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     chunks = Chunks.write([([[1.0, 0.0], [0.0, 2.0]], ["a", "b"], [1.0, 0.5])], folder)
        ...     chunks.weights(0).tolist()
        [1.0, 0.5]
        """
        path = _path(self._stem(number), "weight")
        return np.load(path) if path.exists() else None

    def __iter__(self) -> Iterator[tuple[PieceMatrix, np.ndarray]]:
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
            "indices": piece.X.indices,
            "indptr": piece.X.indptr,
        }
    else:
        arrays["X"] = piece.X
    if piece.weight is not None:
        arrays["weight"] = piece.weight
    for name in ("X", "weight", *_CSR):  # of an attempt that did not finish
        _path(stem, name).unlink(missing_ok=True)
    for name, array in arrays.items():
        np.save(_path(stem, name), array, allow_pickle=False)
