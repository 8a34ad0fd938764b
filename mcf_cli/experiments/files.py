"""Writing a file whole or not at all, and saying what is wrong when it cannot be written."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from mcf_cli.errors import RunError

_PART = re.compile(r"\..+\.(\d+)\.part")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside the target, moved into place at the end: a reader never sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed while writing left behind; those of living ones stay."""
    for path in folder.glob(".*.part"):
        owner = _PART.fullmatch(path.name)
        if owner and not _alive(int(owner[1])):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it may well be, and is not ours to ask
    return True


@contextlib.contextmanager
def disk_explained(folder: Path) -> Iterator[None]:
    """A full, read-only or missing disk in words for the user."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to {folder}: {error.strerror or error}.\n"
            "Make room or choose another --out. What is finished is kept: the same command goes on from there."
        ) from error
