"""Reading files that nobody vouches for: packed or not, archives or not, truncated, hostile or far too large.

Nothing is ever extracted under a name that an archive chose. Members are offered as streams, and whoever
reads them decides where, if anywhere, their bytes go.
"""

import contextlib
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

MAX_MEMBERS = 50_000
MAX_UNPACKED = 4 * 2**30  # the largest canonical file, the DMOZ dump, unpacks to about half of this
CHUNK = 2**20

# What the standard library raises on a file that is cut short or no archive at all.
DAMAGE = (
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
    except DAMAGE as error:
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
            chunk = stream.read(CHUNK)
        if not chunk:
            return
        seen += len(chunk)
        if seen > limit:
            raise BadFile(f"unpacks to more than {limit:,} bytes and is not read any further")
        yield chunk


def is_archive(path: Path) -> bool:
    """Whether ``path`` is a tar (compressed or not) or a zip."""
    with contextlib.suppress(OSError, *DAMAGE):
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
