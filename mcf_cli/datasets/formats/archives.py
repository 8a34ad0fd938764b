"""Reading files that nobody vouches for: packed or not, archives or not, truncated, hostile or far too large.

Compression is found by content, and every failure becomes one clear error. Nothing is ever extracted under a name
that an archive chose: members are offered as streams, and whoever reads them decides where, if anywhere, their bytes
go.
"""

import contextlib
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn, TextIO

from mcf_cli.errors import McfError

MAX_MEMBERS = 50_000
MAX_UNPACKED = 4 * 2**30  # the largest canonical file, the DMOZ dump, unpacks to about half of this
ARCHIVE_CHUNK = 2**20

# What the standard library raises on a file that is cut short or no archive at all.
ARCHIVE_DAMAGE = (
    EOFError,
    NotImplementedError,  # a zip with a compression that nobody uses
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class BadFile(Exception):
    """Why a file cannot be used, as the end of a sentence that began with its name."""


def compression(path: Path) -> str:
    """``".gz"``, ``".xz"`` or ``""``, from the first bytes and not from the name."""
    with open(path, "rb") as handle:
        start = handle.read(6)
    if start.startswith(b"\x1f\x8b"):
        return ".gz"
    return ".xz" if start == b"\xfd7zXZ\x00" else ""


def looks_like_html(start: bytes) -> bool:
    """Whether a file begins as a web page: what servers send when they mean to say no."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))


@contextlib.contextmanager
def damage_explained() -> Iterator[None]:
    """Turn the many ways in which a broken archive fails into one."""
    try:
        yield
    except ARCHIVE_DAMAGE as error:
        raise BadFile(f"is truncated or damaged ({str(error)[:200]})") from error


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of ``path``, decompressed if it is compressed."""
    opener: Callable[..., IO[bytes]] = {".gz": gzip.open, ".xz": lzma.open, "": open}[compression(path)]  # type: ignore[assignment]
    with damage_explained(), opener(path, "rb") as stream:
        yield stream


def chunks(stream: IO[bytes], limit: int = MAX_UNPACKED) -> Iterator[bytes]:
    """The bytes of a stream, up to a limit that no honest file reaches."""
    seen = 0
    while True:
        with damage_explained():
            chunk = stream.read(ARCHIVE_CHUNK)
        if not chunk:
            return
        seen += len(chunk)
        if seen > limit:
            raise BadFile(f"unpacks to more than {limit:,} bytes and is not read any further")
        yield chunk


def is_archive(path: Path) -> bool:
    """Whether ``path`` is a tar (compressed or not) or a zip."""
    with contextlib.suppress(OSError, *ARCHIVE_DAMAGE):
        return tarfile.is_tarfile(path) or zipfile.is_zipfile(path)
    return False


def members(path: Path, limit: int = MAX_UNPACKED) -> Iterator[tuple[str, IO[bytes]]]:
    """The regular files of an archive, name and stream; BadFile at the first member that may do harm.

    An archive is read once and in order, so a bad member may come after good ones: keep nothing of an archive
    before its end is reached.
    """
    with damage_explained():
        if tarfile.is_tarfile(path):
            yield from _tar_members(path, limit)
        else:
            yield from _zip_members(path, limit)


def _tar_members(path: Path, limit: int) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(path, "r:*") as archive:
        total = 0
        for count, member in enumerate(archive):
            if not (member.isfile() or member.isdir()):
                raise BadFile(f"is refused: its member {member.name!r} is a link or a device")
            total += member.size
            _check_member(member.name, count, total, limit)
            if member.isfile() and (stream := archive.extractfile(member)) is not None:
                yield member.name, stream


def _zip_members(path: Path, limit: int) -> Iterator[tuple[str, IO[bytes]]]:
    with _unzipped(zipfile.ZipFile, path) as archive:
        total = 0
        for count, member in enumerate(archive.infolist()):
            if stat.S_ISLNK(member.external_attr >> 16):
                raise BadFile(f"is refused: its member {member.filename!r} is a link")
            if member.flag_bits & 1:
                raise BadFile("is encrypted; unpack it first")
            total += member.file_size
            _check_member(member.filename, count, total, limit)
            if not member.filename.endswith("/"):
                with _unzipped(archive.open, member) as stream:
                    yield member.filename, stream


def _unzipped(call: Callable[..., Any], argument: object) -> Any:
    """What zipfile opens; on names that are no text it fails in ways of its own."""
    try:
        return call(argument)
    except (IndexError, UnicodeError, struct.error) as error:
        raise BadFile(f"is truncated or damaged ({str(error)[:200]})") from error


def _check_member(name: str, count: int, total: int, limit: int) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or (parts and ":" in parts[0]):
        raise BadFile(f"is refused: its member {name!r} points outside the archive")
    if count >= MAX_MEMBERS:
        raise BadFile(f"is refused: it has more than {MAX_MEMBERS:,} members")
    if total > limit:
        raise BadFile(f"is refused: it unpacks to more than {limit:,} bytes")


MAX_LINE = 2**26
READ_CHUNK = 2**20


@contextmanager
def failures_explained(path: object) -> Iterator[None]:
    """A missing, unreadable, truncated or hostile file becomes one McfError."""
    try:
        yield
    except BadFile as error:
        raise McfError(f"{path} {error}: get it again") from error
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a plain, gzip or xz file."""
    with failures_explained(path), open_unpacked(path) as stream:
        yield stream


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The decompressed UTF-8 text of a plain, gzip or xz file."""
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise McfError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def bounded_lines(text: TextIO, path: Path) -> Iterator[str]:
    """The lines of a text with their ends; none may be endless."""
    number = 0
    while line := text.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            malformed(path, f"line {number}", f"longer than {MAX_LINE:,} characters")
        yield line


def open_members(path: Path, endings: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The files of an archive or a folder whose path ends with one of `endings`, by that ending."""
    wanted = tuple(endings)
    with failures_explained(path):
        if path.is_dir():
            for ending in wanted:
                for found in sorted(path.rglob(Path(ending).name)):
                    if found.is_file() and f"/{found.as_posix()}".endswith(f"/{ending}"):
                        with open_unpacked(found) as stream:
                            yield ending, stream
            return
        for name, stream in members(path):
            for ending in wanted:
                if f"/{name}".endswith(f"/{ending}"):
                    yield ending, stream


def numbered_lines(stream: IO[bytes], name: object, first: int = 1) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 stream that are not blank, with their numbers from `first`; none may be endless."""
    number = first - 1
    with failures_explained(name), damage_explained():
        while line := stream.readline(MAX_LINE):
            number += 1
            _check_length(line, name, number)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                malformed(name, f"line {number}", f"not UTF-8 text: {error.reason} at byte {error.start}")
            if text.strip():
                yield number, text


def numbered_blocks(stream: IO[bytes], name: object, size: int) -> Iterator[tuple[int, bytes]]:
    """The stream in whole lines, about `size` bytes at a time, with the number of the first of them."""
    number = 1
    with failures_explained(name), damage_explained():
        while block := stream.read(size):
            rest = b"" if block.endswith(b"\n") else stream.readline(MAX_LINE)
            _check_length(rest, name, number + block.count(b"\n"))
            yield number, block + rest
            number += block.count(b"\n") + rest.count(b"\n")


def _check_length(line: bytes, name: object, number: int) -> None:
    if len(line) == MAX_LINE:
        malformed(name, f"line {number}", f"longer than {MAX_LINE:,} bytes")


def read_all(stream: IO[bytes], name: object, limit: int) -> bytearray:
    """The whole stream, if it is no longer than the limit; memory grows with what is there."""
    content = bytearray()
    with failures_explained(name), damage_explained():
        while piece := stream.read(READ_CHUNK):
            content += piece
            if len(content) > limit:
                malformed(name, f"byte {limit:,}", f"longer than {limit:,} bytes")
    return content


def read_exactly(stream: IO[bytes], size: int, path: object) -> bytes:
    """So many bytes; memory grows with what is there, never with what a header claims."""
    pieces, missing = [], size
    while missing and (piece := stream.read(min(READ_CHUNK, missing))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        malformed(path, f"byte {size - missing:,} of {size:,}", "the file ends too early: get it again")
    return b"".join(pieces)


def malformed(path: object, where: str, message: str) -> NoReturn:
    """Stop at a fault in a data file: which file, where in it, what was expected."""
    raise McfError(f"{path}, {where}: {message}")


def shown(value: str, length: int = 40) -> str:
    """A piece of a file, quoted and cut to a length that fits an error message."""
    return repr(value if len(value) <= length else value[:length] + "...")
