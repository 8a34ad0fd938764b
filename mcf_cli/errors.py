"""The exceptions that users are meant to read, the exit codes, and names and sizes as messages say them."""

import difflib
from collections.abc import Iterable


def nearest(word: object, known: Iterable[str]) -> str:
    """The end of an error message: the closest valid word, or all of them when none is close."""
    known = list(known)
    close = difflib.get_close_matches(str(word), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; valid here: {', '.join(known)}"


def shown_bytes(size: float) -> str:
    """``1.2 GB``, as one would say it."""
    units = iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"


INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended, as shells have it


class McfError(Exception):
    """Something the user can put right: shown as one or two lines, exit code 2, no traceback.

    The message says what is wrong and what to do about it.
    """

    exit_code = 2


class RunError(McfError):
    """Nothing is wrong with what was asked for, but it could not be carried through: exit code 1."""

    exit_code = 1
