"""Reading data files: compression found by content, every failure turned into one clear error."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn, TextIO

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import archives
from mcf_cli.errors import McfError

MAX_LINE = 2**26
CHUNK = 2**20


@contextmanager
def failures_explained(path: object) -> Iterator[None]:
    """A missing, unreadable, truncated or hostile file becomes one McfError."""
    try:
        yield
    except archives.BadFile as error:
        raise McfError(f"{path} {error}: get it again") from error
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a plain, gzip or xz file."""
    with failures_explained(path), archives.open_unpacked(path) as stream:
        yield stream


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The decompressed UTF-8 text of a plain, gzip or xz file."""
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise McfError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def open_members(path: Path, endings: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The files of an archive or a folder whose path ends with one of `endings`, by that ending."""
    wanted = tuple(endings)
    with failures_explained(path):
        if path.is_dir():
            for ending in wanted:
                for found in sorted(path.rglob(Path(ending).name)):
                    if found.is_file() and f"/{found.as_posix()}".endswith(f"/{ending}"):
                        with archives.open_unpacked(found) as stream:
                            yield ending, stream
            return
        for name, stream in archives.members(path):
            for ending in wanted:
                if f"/{name}".endswith(f"/{ending}"):
                    yield ending, stream


def numbered_lines(stream: IO[bytes], name: object) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 stream that are not blank, with their numbers; none may be endless."""
    number = 0
    with failures_explained(name), archives.damage_explained():
        while line := stream.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE:
                malformed(name, f"line {number}", f"longer than {MAX_LINE:,} bytes")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                malformed(name, f"line {number}", f"not UTF-8 text: {error.reason} at byte {error.start}")
            if text.strip():
                yield number, text


def read_all(stream: IO[bytes], name: object, limit: int) -> bytearray:
    """The whole stream, if it is no longer than the limit; memory grows with what is there."""
    content = bytearray()
    with failures_explained(name), archives.damage_explained():
        while piece := stream.read(CHUNK):
            content += piece
            if len(content) > limit:
                malformed(name, f"byte {limit:,}", f"longer than {limit:,} bytes")
    return content


def read_exactly(stream: IO[bytes], size: int, path: object) -> bytes:
    """So many bytes; memory grows with what is there, never with what a header claims."""
    pieces, missing = [], size
    while missing and (piece := stream.read(min(CHUNK, missing))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        malformed(path, f"byte {size - missing:,} of {size:,}", "the file ends too early: get it again")
    return b"".join(pieces)


def check_sparse(matrix: sp.csr_matrix | sp.csc_matrix) -> None:
    """ValueError unless scipy may work with the matrix, whose loops trust every number in it.

    Its own check leaves out where rows begin and end when nothing is stored in between.
    """
    matrix.check_format(full_check=True)
    if (np.diff(matrix.indptr) < 0).any():
        raise ValueError("a row or column ends before it begins")


def malformed(path: object, where: str, message: str) -> NoReturn:
    """Stop at a fault in a data file: which file, where in it, what was expected."""
    raise McfError(f"{path}, {where}: {message}")


def shown(value: str, length: int = 40) -> str:
    """A piece of a file, quoted and cut to a length that fits an error message."""
    return repr(value if len(value) <= length else value[:length] + "...")
