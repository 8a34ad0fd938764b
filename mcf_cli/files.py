"""Files and memory: a file is written whole or not at all, one process at a time holds a lock, a bad disk is explained.

`memory` says how much this process may take, `chunks_above` from what size on data is read in chunks, and
`read_arrays` reads .npz files of unknown origin: numbers and text only, and no more of them than the file has bytes.
numpy's own reader evaluates the header of an array and, if told to, unpickles it. Here a header is matched
against the one form in which numpy writes it, and what it claims is compared with the bytes before any memory
is taken. `ArrayFile` keeps arrays at the end of an open file, and maps them when they are asked for.
"""

import contextlib
import os
import re
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Literal

import numpy as np

from mcf_cli.errors import McfError, RunError, shown_bytes

CHUNKS_ABOVE = "MCF_CHUNKS_ABOVE"

# Training in memory takes up to some 20 times the text of a file (in each worker), most of it for cross-validation.
SHARE = 0.01
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?b?|%)\s*", re.IGNORECASE)


def memory() -> int:
    """The bytes of the machine, or of the control group or limit that this process lives under."""
    limits = [_installed(), *cgroup_limits()]
    with contextlib.suppress(ImportError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [soft] if soft != resource.RLIM_INFINITY else []
    return min(limits)


def _installed() -> int:
    if sys.platform != "win32":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return 1024 * kilobytes.value


def cgroup_limits(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """The memory limits of this process's control groups (versions 1 and 2) and of all above them."""
    limits = []
    with contextlib.suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = root / "memory" if controllers else root
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            place = top / path.lstrip("/")
            for folder in [place, *place.parents]:
                with contextlib.suppress(OSError, ValueError):  # the word "max" is no limit
                    limits.append(int((folder / name).read_text()))
                if folder == top:
                    break
    return limits


def chunks_above() -> int:
    """The size of a file, in bytes of its text or arrays, above which it is read in chunks."""
    given = os.environ.get(CHUNKS_ABOVE)
    if given is None:
        return int(SHARE * memory())
    found = _SIZE.fullmatch(given)
    if not found:
        raise McfError(f"{CHUNKS_ABOVE}={given!r}: expected a size or a share of memory, as in 500MB or 2%.")
    number, unit = float(found[1]), found[2].upper()
    if unit == "%":
        return int(number / 100 * memory())
    return int(number * UNITS[unit if unit.endswith("B") or not unit else f"{unit}B"])


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside the target, moved into place at the end: a reader never sees half of it.

    A link stays a link: the file it points to is replaced. What is no regular file (a device, a pipe, a
    terminal) cannot be replaced, so it is written straight into.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def take_lock(path: Path, busy: Callable[[], None]) -> contextlib.AbstractContextManager[object]:
    """The operating system's lock on a file, held until the context ends or its holder dies, however that happens.

    When another holds it, ``busy`` is called: it raises to give up, or returns to wait.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return lock.acquire(blocking=False)
        except Timeout:
            busy()
        except FileNotFoundError:
            continue  # the last holder removed the folder just now
        with contextlib.suppress(FileNotFoundError):  # the same, while this waited
            return lock.acquire()


def refuse_own_input(option: str, target: Path, *inputs: str | os.PathLike[str]) -> None:
    """Writing over a file that is being read would lose it; folders of the target that are missing will be made."""
    for source in inputs:
        with contextlib.suppress(OSError):
            found = os.stat(os.path.realpath(target))
            if stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.stat(source)):
                raise McfError(
                    f"{option} {target} is an input of this command: choose another name for the output."
                )


_PART = re.compile(r"\..+\.(\d+)\.part")


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def is_leftover(name: str) -> bool:
    """Whether a file has the name of one that was not finished."""
    return _PART.fullmatch(name) is not None


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed while writing left behind; those of living ones stay."""
    for path in folder.glob(".*.part"):
        owner = _PART.fullmatch(path.name)
        if owner and not _alive(int(owner[1])):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if sys.platform == "win32":
        return True  # signal 0 is Ctrl-C there, and an open file cannot be removed
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it may well be, and is not ours to ask
    return True


_OTHER_OUT = "Make room or choose another --out. Finished work is kept, and the same command resumes it."


@contextlib.contextmanager
def disk_explained(folder: Path, advice: str = _OTHER_OUT, kind: type[McfError] = RunError) -> Iterator[None]:
    """A full, read-only or missing disk in words for the user, with what to do about it."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot write to {folder}: {error.strerror or error}.\n{advice}") from error


MAX_DEFLATE_RATIO = 1100  # deflate cannot pack more; a member that claims to is a lie
CHUNK = 2**20
DAMAGE = (
    *(EOFError, IndexError, KeyError, NotImplementedError, OSError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error),
)
MAX_DIMENSIONS = 8
MAX_HEADER = 2**14
_HEADER = re.compile(
    rb"\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\),? ?\} *\n"
)
_PLAIN = re.compile(r"[<>|=]([biufc]\d{1,2}|[SU]\d{1,9})")
_DATE = re.compile(r"[<>=][Mm]8\[\d{0,9}([YMWDhms]|[munpfa]s)\]")
_LAST_CHARACTER = 0x10FFFF


def read_arrays(
    path: str | os.PathLike[str],
    *,
    compressed: bool = True,
    dates: bool = False,
    names: Container[str] | None = None,
) -> dict[str, np.ndarray]:
    """Every array of the file, or those with the given names; ValueError if it is damaged, hostile or no .npz file.

    dates=True takes numpy's dates and durations too, which are integers in the file.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                _check_total(archive)
                return dict(
                    _read_member(archive, member, size, compressed, dates)
                    for member in archive.infolist()
                    if names is None or member.filename.removesuffix(".npy") in names
                )
        except DAMAGE as error:
            raise ValueError(f"not a zip of arrays, or damaged: {str(error)[:200]}") from error


def unpacked_size(path: str | os.PathLike[str]) -> int:
    """What the arrays of a file claim to take in memory; 0 for what is no .npz file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except DAMAGE:
        return 0


def _check_total(archive: zipfile.ZipFile) -> None:
    """A few packed bytes can stand for more than there is memory."""
    total, limit = sum(member.file_size for member in archive.infolist()), memory()
    if total > limit:
        raise ValueError(f"its arrays take {shown_bytes(total)}, and there is {shown_bytes(limit)} of memory")


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int, compressed: bool, dates: bool
) -> tuple[str, np.ndarray]:
    name = member.filename.removesuffix(".npy")
    if len(name) > 100:
        raise ValueError(f"an array is called {name[:40]!r} ..., which is not a valid name")
    if member.compress_type not in (zipfile.ZIP_STORED, *([zipfile.ZIP_DEFLATED] if compressed else [])):
        raise ValueError(f"array {name!r} uses an unsupported compression")
    if member.compress_size > size or member.file_size > MAX_DEFLATE_RATIO * (member.compress_size + 1):
        raise ValueError(f"array {name!r} claims more bytes than its compressed form can hold")
    with archive.open(member) as stream:
        return name, _read_array(stream, name, member.file_size, dates)


def _read_array(stream: IO[bytes], name: str, size: int, dates: bool) -> np.ndarray:
    magic = stream.read(8)
    if magic not in (b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00"):
        raise ValueError(f"{name!r} is not an array")
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    header = _HEADER.fullmatch(stream.read(min(length, MAX_HEADER)))
    if header is None:
        raise ValueError(f"{name!r} is not a plain array of numbers or text")
    dtype = _dtype(header[1].decode("latin-1"), name, dates)
    shape = tuple(map(int, re.findall(rb"\d+", header[3])))
    if len(shape) > MAX_DIMENSIONS or prod(shape) * dtype.itemsize != size - 8 - width - length:
        claim = f"shape {shape[:MAX_DIMENSIONS]}"
        raise ValueError(f"array {name!r} claims {claim}, which is not what its {size:,} bytes hold")
    values = np.empty(prod(shape), dtype)
    _fill(values.view(np.uint8).data, stream, name)
    if dtype.kind == "U" and values.view(f"{dtype.str[0]}u4").max(initial=0) > _LAST_CHARACTER:
        raise ValueError(f"array {name!r} contains invalid Unicode")
    return values.reshape(shape, order="F" if header[2] == b"True" else "C")


def _dtype(description: str, name: str, dates: bool) -> np.dtype:
    if "O" in description:
        raise ValueError(f"array {name!r} holds Python objects, which are never loaded: save plain numbers")
    plain = _PLAIN.fullmatch(description) or (dates and _DATE.fullmatch(description))
    try:
        dtype = np.dtype(description) if plain else np.dtype("V")
    except (TypeError, ValueError):
        dtype = np.dtype("V")
    if not dtype.itemsize:
        raise ValueError(f"array {name!r} is of the type {description[:20]!r}, not of numbers or text")
    return dtype


def _fill(memory: memoryview, stream: IO[bytes], name: str) -> None:
    filled = 0
    while piece := stream.read(CHUNK):
        if filled + len(piece) > len(memory):
            raise ValueError(f"array {name!r} has data after its end")
        memory[filled : filled + len(piece)] = piece
        filled += len(piece)
    if filled < len(memory):
        raise ValueError(f"array {name!r} is cut short")


_ALIGNED = 64  # bytes


class Ones:
    """One array of ones for all that need some: a coded design is nothing but ones at places."""

    def __init__(self) -> None:
        self._held = np.ones(0)

    def of(self, size: int) -> np.ndarray:
        if size > len(self._held):
            self._held = np.ones(2 * size)
        return self._held[:size]


@dataclass(frozen=True)
class _Place:
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    order: Literal["C", "F"]


class ArrayFile:
    """A list of arrays at the end of a file; `arrays` maps them afresh, and memory is free again when they are gone."""

    def __init__(self, file: IO[bytes], arrays: list[np.ndarray], ones: Ones):
        self.file, self.ones = file, ones
        self.start = file.seek(0, os.SEEK_END)
        self.places: list[_Place | int] = []  # the size alone for an array of ones
        for array in arrays:
            if array.dtype == np.float64 and array.ndim == 1 and (array == 1.0).all():
                self.places.append(array.size)
                continue
            order: Literal["C", "F"] = (
                "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "C"
            )
            file.write(bytes((self.start - file.tell()) % _ALIGNED))
            self.places.append(_Place(file.tell() - self.start, array.dtype, array.shape, order))
            file.write(array.tobytes(order))
        file.flush()
        self.size = file.tell() - self.start

    def arrays(self) -> list[np.ndarray]:
        """The arrays. What is written to them stays out of the file; arrays of ones are shared: leave them alone."""
        mapped = (
            np.memmap(self.file, np.uint8, "c", self.start, (self.size,))
            if self.size
            else np.empty(0, np.uint8)
        )
        return [
            self.ones.of(place) if isinstance(place, int) else _view(mapped, place) for place in self.places
        ]


def _view(mapped: np.ndarray, place: _Place) -> np.ndarray:
    return np.ndarray(place.shape, place.dtype, mapped, place.offset, order=place.order)
