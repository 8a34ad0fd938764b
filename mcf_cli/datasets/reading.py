"""Opening data files: compression found by content, every failure turned into one clear error."""

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO

from mcf_cli.errors import McfError

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The decompressed bytes of a plain, gzip or xz file."""
    try:
        with open(path, "rb") as raw:
            magic = raw.read(6)
            raw.seek(0)
            if magic[:2] == b"\x1f\x8b":
                with gzip.open(raw) as stream:
                    yield stream
            elif magic == b"\xfd7zXZ\x00":
                with lzma.open(raw) as stream:
                    yield stream
            else:
                yield raw
    except DAMAGED as error:
        raise McfError(f"{path} is truncated or damaged ({error}): get it again") from error
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def open_text(path: Path, encoding: str = "utf-8-sig") -> Iterator[TextIO]:
    """The decompressed text of a plain, gzip or xz file."""
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise McfError(f"{path} is not {encoding.removesuffix('-sig')} text: {error.reason}") from error


def malformed(path: object, where: str, message: str) -> NoReturn:
    """Stop at a fault in a data file: which file, where in it, what was expected."""
    raise McfError(f"{path}, {where}: {message}")


def shown(value: str, length: int = 40) -> str:
    """A piece of a file, quoted and cut to a length that fits an error message."""
    return repr(value if len(value) <= length else value[:length] + "...")


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes as they lie on disk."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error
