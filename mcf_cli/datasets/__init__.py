"""The data sets: `load(name)` gives a Dataset, `names()` lists them, `available(name)` says what is here.

Importing this package is cheap; numpy and the loaders come in with the first load.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from mcf_cli.errors import McfError

if TYPE_CHECKING:
    from mcf_cli.datasets.dataset import Dataset

# name: the module that loads it from the data home
REAL = {
    "amazon-books": "amazon",
    "amazon-dvd": "amazon",
    "amazon-electronics": "amazon",
    "amazon-kitchen": "amazon",
    "reuters": "reuters",
    "dmoz": "dmoz",
    "cifar10": "cifar10",
    "cifar10-words": "cifar10_words",
    "splice": "splice",
    "mnist": "mnist",
}
BUILTIN = ("builtin-digits", "builtin-reviews", "builtin-topics", "builtin-splice", "builtin-textures")


def names() -> list[str]:
    """Every data set that has a name, the built-in ones last."""
    return [*REAL, *BUILTIN]


def available(name: str) -> bool:
    """Whether `load(name)` would find its files, whole and verified."""
    if name in REAL:
        from mcf_cli.datasets import verify

        return any(here.form.enough for here in verify.forms_here(name))
    return name in BUILTIN


def load(name: str, **options: Any) -> Dataset:
    """The data set of that name, or of a user's file (a path ending in .svmlight, .csv or .npz).

    Every real data set takes `form`; by default the best form that is here is taken.
    """
    if name in REAL:
        return _load_real(name, **options)
    if name in BUILTIN:
        from mcf_cli.datasets import builtin

        return _call(name, builtin.GENERATORS[name], (), options)
    from mcf_cli.datasets import registry, userfile

    if userfile.file_format(name):
        return _call(name, userfile.load, (name,), options)
    raise McfError(
        f"no data set is called {name!r}{registry.nearest(name, names())}\n"
        "A file of your own must end in .svmlight, .csv or .npz (.gz or .xz may follow)."
    )


def _load_real(name: str, form: str = "auto", **options: Any) -> Dataset:
    from mcf_cli.datasets import verify

    loader = importlib.import_module(f"mcf_cli.datasets.{REAL[name]}").load
    here = verify.require(name, None if form == "auto" else form)
    takes_name = "name" in inspect.signature(loader).parameters
    return _call(name, loader, (here, name) if takes_name else (here,), options)


def _call(name: str, loader: Any, arguments: tuple, options: dict[str, Any]) -> Dataset:
    known = list(inspect.signature(loader).parameters)[len(arguments) :]
    if unknown := [option for option in options if option not in known]:
        allowed = ", ".join(known) or "none"
        raise McfError(f"{name} has no option {', '.join(unknown)}; its options: {allowed}")
    return loader(*arguments, **options)
