"""The data sets: `load(name)` gives a Dataset, `names()` lists them, `available(name)` says what is here.

Importing this package is cheap; numpy and the loaders come in with the first load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcf_cli.errors import McfError

if TYPE_CHECKING:
    from mcf_cli.datasets.dataset import Dataset

BUILTIN = ("builtin-digits", "builtin-reviews", "builtin-topics", "builtin-splice")


def names() -> list[str]:
    """Every data set that has a name, the built-in ones last."""
    return list(BUILTIN)


def available(name: str) -> bool:
    """Whether `load(name)` would find its files."""
    return name in BUILTIN


def load(name: str, **options: object) -> Dataset:
    """The data set of that name, or of a user's file (a path ending in .svmlight, .csv or .npz)."""
    if name in BUILTIN:
        from mcf_cli.datasets import builtin

        return _call(name, builtin.GENERATORS[name], **options)
    from mcf_cli.datasets import userfile

    if userfile.file_format(name):
        return _call(name, userfile.load, name, **options)
    raise McfError(f"there is no data set {name!r}: choose {', '.join(names())}, or give a file")


def _call(name: str, loader, *args: object, **options: object) -> Dataset:
    import inspect

    known = inspect.signature(loader).parameters
    if unknown := [option for option in options if option not in known]:
        allowed = ", ".join(list(known)[len(args) :]) or "none"
        raise McfError(f"{name} has no option {', '.join(unknown)}; its options: {allowed}")
    return loader(*args, **options)
