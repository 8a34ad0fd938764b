"""One process at a time may change a data set."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import IO

from mcf_cli.datasets import home

WORK = "work-"  # the prefix of temporary folders below .partial


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
    partial = home.partial_folder(dataset)
    with open(partial / "lock", "ab") as handle:
        if not _lock(handle, wait=False):
            say(f"{dataset}: another mcf process is at work on it; waiting")
            _lock(handle, wait=True)
        for folder in partial.glob(f"{WORK}*"):
            shutil.rmtree(folder, ignore_errors=True)
        for leftover in (*partial.parent.glob(f".{home.STAMPS}.*"), *partial.glob(".*.part.json.*")):
            with contextlib.suppress(OSError):
                leftover.unlink()
        yield
