"""Where data lies: a folder a data set below ``MCF_DATA_HOME``, and stamps that say what was verified."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mcf_cli.errors import McfError

# A canonical file is stored as it came: as it is, or compressed.
SUFFIXES = ("", ".gz", ".xz")
STAMPS = ".verified.json"
PARTIAL = ".partial"


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
