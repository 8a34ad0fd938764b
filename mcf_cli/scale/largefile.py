"""A user's file that is too large for memory: kept in chunks below the data home, and read from there.

The rows stay on disk for as long as anybody uses them (`RowsOnDisk`); labels and row numbers are in memory.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mcf_cli import datasets, files
from mcf_cli.datasets import userfile
from mcf_cli.datasets.dataset import Dataset, Examples, RowsOnDisk, fingerprint
from mcf_cli.datasets.features.words import derived_path
from mcf_cli.datasets.formats import svmlight
from mcf_cli.datasets.formats.archives import open_bytes
from mcf_cli.datasets.formats.npz import as_floats, label_names, read_stored
from mcf_cli.datasets.formats.svmlight import LabelNames
from mcf_cli.datasets.store import verify
from mcf_cli.errors import McfError, shown_bytes
from mcf_cli.files import CHUNKS_ABOVE, chunks_above, disk_explained
from mcf_cli.scale.pieces import INDEX, Chunks, Piece, PieceMatrix, spans

ENTRIES_A_CHUNK = 2_000_000  # stored values a chunk, which take some 25 MB
FILES = "files.json"
KEPT = 1  # raised when chunks come to be made differently


@dataclass(frozen=True)
class LabelledRows:
    """Rows on disk with their labels, in the chunks that they come in."""

    X: RowsOnDisk
    y: np.ndarray
    feature_names: None = None  # the data set has them

    @cached_property
    def _numbers(self) -> Any:
        return self.X.chunks()

    @property
    def folder(self) -> Path:
        return self.X.table.folder

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int) -> tuple[PieceMatrix, np.ndarray]:
        return self.X.piece(self._numbers[place]), self.labels(place)

    def labels(self, place: int) -> np.ndarray:
        return self.y[self.X.span(self._numbers[place])]

    def weights(self, place: int) -> None:
        """Every row counts 1."""


def is_large(paths: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether these files, unpacked, are beyond what is read into memory."""
    limit, total = chunks_above(), 0
    for path in map(Path, paths):
        total += _size(path, limit) if path.is_file() else 0
    return total > limit


def _size(path: Path, enough: int) -> int:
    """The unpacked bytes of a file, or more than `enough`."""
    size = path.stat().st_size
    if userfile.file_format(path) == "npz":
        return files.unpacked_size(path)
    if size > enough:
        return size
    total = 0
    with open_bytes(path) as stream:
        while total <= enough and (piece := stream.read(2**20)):
            total += len(piece)
    return total


def sentence(paths: Sequence[str | os.PathLike[str]]) -> str:
    """What the user is told."""
    return (
        f"{' and '.join(str(path) for path in paths)}: larger than {shown_bytes(chunks_above())} "
        f"({CHUNKS_ABOVE}), so it is read in chunks on disk."
    )


def load_large(name: str, /, **options: Any) -> Dataset:
    """`datasets.load` of a user's file, its rows on disk."""
    dataset = datasets.load(name, read_kept, **options)
    # Fits from chunks agree to the tolerance, not to the last bit: their trials have keys of their own.
    return replace(dataset, sha256=fingerprint(dataset.sha256, "in chunks", KEPT))


def read_kept(paths: Sequence[Path], **options: Any) -> list[Examples]:
    """`read_examples` with rows on disk, in chunks that are kept below the data home for the next time."""
    contents = [userfile.content_hash(path) for path in paths]
    folder = derived_path("chunks", fingerprint("chunks", KEPT, contents, options))
    if not (folder / INDEX).exists():
        verify.make_folder(folder.parent)
        with verify.home_explained(), verify.locked("derived"):
            _clear(folder.parent)
            if not (folder / INDEX).exists():
                part = folder.with_name(f"{folder.name}.part")
                write_chunks(paths, part, **options)
                part.replace(folder)
    return open_chunks(folder, userfile.file_format(paths[0]))


def read_in_chunks(folder: Path, paths: Sequence[Path], **options: Any) -> list[Examples]:
    """`read_examples` with rows on disk, in a folder of the caller's."""
    with disk_explained(folder, "Make room, or set TMPDIR to a folder on another disk.", McfError):
        write_chunks(paths, folder, **options)
    return open_chunks(folder, userfile.file_format(paths[0]))


def write_chunks(paths: Sequence[Path], folder: Path, **options: Any) -> None:
    """Files that belong together as one table in a folder, and what `Examples` says of each besides."""
    kinds = {userfile.file_format(path) for path in paths}
    if len(kinds) > 1:
        raise McfError(f"{' and '.join(map(str, paths))} are not of one kind: give two of the same format")
    readers: dict[str | None, Callable[..., None]] = {
        "svmlight": _svmlight_parts,
        "npz": _npz_parts,
        "csv": _csv_parts,
    }
    readers[kinds.pop()](list(paths), folder, **options)


def _svmlight_parts(
    paths: list[Path],
    folder: Path,
    zero_based: bool | None = None,
    n_columns: int | None = None,
    **_: Any,
) -> None:
    counts, queries, widest = [0] * len(paths), False, 0

    def pieces() -> Iterator[Piece]:
        nonlocal queries, widest
        for number, path in enumerate(paths):
            for rows in svmlight.read_pieces(path, ENTRIES_A_CHUNK):
                lowest, highest = rows.column_range()
                counts[number] += len(rows.labels)
                queries, widest = queries or rows.queries, max(widest, highest + 1)
                yield Piece(
                    rows.matrix(highest + 1, 0), np.array(rows.labels, dtype=float), str(path), lowest
                )

    first = Chunks.write(pieces, folder, ENTRIES_A_CHUNK, n_columns, zero_based).first_column
    rest = {
        "assumed_one_based": zero_based is None
        and first == 1
        and n_columns is not None
        and widest <= n_columns,
        "findings": [f"columns count from {first}", *(["qid is not used"] if queries else [])],
    }
    _describe(folder, [{"rows": rows, **rest} for rows in counts])


def _npz_parts(paths: list[Path], folder: Path, n_columns: int | None = None, **_: Any) -> None:
    """An array has to be read whole, and is let go before the next."""
    about: list[dict[str, Any]] = []

    def pieces() -> Iterator[Piece]:
        for path in paths:
            X, y = read_stored(path)
            about.append({"rows": X.shape[0], "unlabelled": y is None, "label_place": "labels y"})
            labels = np.zeros(X.shape[0]) if y is None else y
            for rows in spans(X, ENTRIES_A_CHUNK):
                yield Piece(as_floats(X[rows], path), labels[rows], str(path))

    Chunks.write(pieces, folder, ENTRIES_A_CHUNK, n_columns)
    _describe(folder, about)


def _csv_parts(paths: list[Path], folder: Path, **options: Any) -> None:
    """Only all lines together tell what the text holds: its numbers go to a file first, and then to their place."""
    parts, about = userfile.read_examples(paths, spill=True, **options), []

    def pieces() -> Iterator[Piece]:
        for path, part in zip(paths, parts, strict=True):
            labels = np.zeros(part.X.shape[0]) if part.labels is None else np.array(part.labels)
            if not part.X.shape[1]:
                raise McfError(f"{path} holds no features besides its labels")
            for number in part.X.chunks():
                yield Piece(part.X.piece(number), labels[part.X.span(number)], str(path))

    for part in parts:
        rest = {field.name: getattr(part, field.name) for field in fields(part)}
        del rest["X"], rest["labels"]
        about.append({"rows": part.X.shape[0], "unlabelled": part.labels is None, **rest})
    Chunks.write(pieces, folder, ENTRIES_A_CHUNK)
    _describe(folder, about)


def _describe(folder: Path, about: list[dict[str, Any]]) -> None:
    (folder / FILES).write_text(json.dumps(about))


def open_chunks(folder: Path, kind: str | None) -> list[Examples]:
    """What `write_chunks` wrote: a part of the table for each file."""
    chunks = Chunks(folder)
    X = RowsOnDisk(chunks)
    y = np.concatenate([chunks.labels(number) for number in range(len(chunks))])
    names, parts, start = _names(y, kind), [], 0
    about = json.loads((folder / FILES).read_text())
    for rest in about:
        end, labelled = start + rest.pop("rows"), not rest.pop("unlabelled", False)
        rest = {name: tuple(value) if isinstance(value, list) else value for name, value in rest.items()}
        own = X if len(about) == 1 else X[np.arange(start, end)]
        parts.append(Examples(own, names[start:end] if labelled else None, **rest))
        start = end
    return parts


def _names(y: np.ndarray, kind: str | None) -> list[str]:
    """The names of labels, of which each is one string, however many rows it has."""
    distinct, codes = np.unique(y, return_inverse=True)
    names = (
        [LabelNames()[label] for label in distinct.tolist()] if kind == "svmlight" else label_names(distinct)
    )
    return [names[code] for code in codes.tolist()]


def _clear(folder: Path) -> None:
    """Remove what killed processes left; we hold the lock, so that nobody else is writing."""
    for leftover in folder.glob("chunks-*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
