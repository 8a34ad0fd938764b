"""Where data lies: a folder a data set below ``MCF_DATA_HOME``.

Stamps say what was verified; a lock lets one process at a time change a data set.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from mcf_cli.errors import McfError

# A canonical file is stored as it came: as it is, or compressed.
SUFFIXES = ("", ".gz", ".xz")
STAMPS = ".verified.json"
PARTIAL = ".partial"
WORK = "work-"  # the prefix of temporary folders below .partial


def data_home() -> Path:
    """``MCF_DATA_HOME``, or the ``mcf`` folder in the user's cache."""
    chosen = os.environ.get("MCF_DATA_HOME")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("mcf"))


def dataset_folder(dataset: str) -> Path:
    """The folder of one data set, which need not exist."""
    return data_home() / dataset


def data_path(dataset: str, filename: str) -> Path:
    """The path of one file of a data set, which need not exist."""
    return dataset_folder(dataset) / filename


def find(dataset: str, *names: str) -> Path | None:
    """The first of ``names`` that is there, as it is or with ``.gz`` or ``.xz`` behind it."""
    for name in names:
        for suffix in SUFFIXES:
            path = data_path(dataset, name + suffix)
            if path.is_file():
                return path
    return None


def make_folder(folder: Path) -> Path:
    """Create a folder below the data home, or say what stands in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise McfError(
            f"cannot create {folder} ({error.strerror}).\n"
            "Set MCF_DATA_HOME to a folder that you can write to."
        ) from error
    return folder


def partial_folder(dataset: str) -> Path:
    """Where unfinished work lies: on the same disk, so that moving into place is atomic."""
    return make_folder(dataset_folder(dataset) / PARTIAL)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write ``path`` through a temporary file beside it: it appears whole or not at all."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as handle:
            yield handle
        os.chmod(temporary, 0o644)  # temporary files are private, data is not
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_stamps(folder: Path) -> dict[str, dict]:
    """What was verified: by file name its size, mtime_ns, sha256, source and how it was checked."""
    try:
        stamps = json.loads((folder / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # a lost stamp costs a new verification, nothing else
    return stamps if isinstance(stamps, dict) else {}


def current_stamp(path: Path) -> dict | None:
    """The stamp of ``path`` if the file has not changed since it was verified."""
    stamp = read_stamps(path.parent).get(path.name)
    if not isinstance(stamp, dict):
        return None
    status = path.stat()
    unchanged = stamp.get("size") == status.st_size and stamp.get("mtime_ns") == status.st_mtime_ns
    return stamp if unchanged else None


def write_stamp(path: Path, **facts: str) -> dict:
    """Remember that ``path`` was verified; where nothing can be written, verification is simply repeated."""
    status = path.stat()
    stamp = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, **facts}
    stamps = {**read_stamps(path.parent), path.name: stamp}
    kept = {name: value for name, value in stamps.items() if (path.parent / name).exists()}
    with contextlib.suppress(OSError), atomic_file(path.parent / STAMPS) as handle:
        handle.write(json.dumps(kept, indent=1, sort_keys=True).encode())
    return stamp


def _lock(handle: IO[bytes], *, wait: bool) -> bool:
    """Take the operating system's lock on an open file: it goes when its owner dies, however that happens."""
    try:
        import fcntl
    except ImportError:
        return _lock_windows(handle, wait=wait)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_windows(handle: IO[bytes], *, wait: bool) -> bool:
    import msvcrt

    while True:
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            if not wait:
                return False
        else:
            return True


@contextlib.contextmanager
def locked(dataset: str, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Hold the lock of a data set, waiting for another process if there is one.

    Whoever holds it may remove what a killed process left behind, except downloads that can be resumed.
    """
    partial = partial_folder(dataset)
    with open(partial / "lock", "ab") as handle:
        if not _lock(handle, wait=False):
            say(f"{dataset}: another mcf process is at work on it; waiting")
            _lock(handle, wait=True)
        for leftover in leftovers(dataset):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    leftover.unlink()
        yield


def leftovers(dataset: str) -> list[Path]:
    """What a killed process left behind and nobody needs; downloads that can be resumed are not among it."""
    folder = dataset_folder(dataset)
    partial = folder / PARTIAL
    orphans = [path for path in partial.glob("*.part.json") if not path.with_suffix("").exists()]
    unsaved = [path for pattern in (f".{STAMPS}.*", ".*.npz.*") for path in folder.glob(pattern)]
    return [*unsaved, *partial.glob(".*.part.json.*"), *partial.glob(f"{WORK}*"), *orphans]
