"""The data sets: `load(name)` gives a Dataset, `names()` lists them, `available(name)` says what is here.

Importing this package is cheap; numpy and the loaders come in with the first load.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

from mcf_cli.errors import McfError

if TYPE_CHECKING:
    from mcf_cli.datasets.dataset import Dataset

# name: the module that loads it from the data home
REAL = {
    "amazon-books": "amazon",
    "amazon-dvd": "amazon",
    "amazon-electronics": "amazon",
    "amazon-kitchen": "amazon",
    "amazon-raw-books": "amazon_raw",
    "amazon-raw-dvd": "amazon_raw",
    "amazon-raw-electronics": "amazon_raw",
    "amazon-raw-kitchen": "amazon_raw",
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
        from mcf_cli.datasets.store import verify

        return any(here.form.enough for here in verify.forms_here(name))
    return name in BUILTIN


def load(name: str, read: Any = None, /, **options: Any) -> Dataset:
    """Load a data set by name, or a file of your own.

    Parameters
    ----------
    name : one of `mcf_cli.datasets.names()`, or the path of a .svmlight, .csv, .tsv or .npz file
    read : a function that reads the file in place of `userfile.read_examples`
    options : of the data set's loader. Every real data set takes `form`; the best form on this machine is the default

    Returns
    -------
    a `Dataset`: X and y, the names of classes and columns, its splits, and where it comes from

    Examples
    --------
    >>> from mcf_cli.datasets import load
    >>> digits = load("builtin-digits")
    >>> digits.X.shape, digits.class_names[:3]
    ((1797, 64), ('0', '1', '2'))
    """
    if name in REAL:
        return _load_real(name, **options)
    if name in BUILTIN:
        from mcf_cli.datasets import builtin

        return _call(name, builtin.GENERATORS[name], (), options)
    from mcf_cli.datasets import userfile
    from mcf_cli.datasets.store import registry

    if userfile.file_format(name):
        return _call(name, userfile.load_own, (name,), options, {} if read is None else {"read": read})
    raise McfError(
        f"no data set is called {name!r}{registry.nearest(name, names())}\n"
        f"A file of your own must end in {userfile.PACKED_SUFFIXES} (.gz or .xz may follow)."
    )


def _load_real(name: str, /, form: str = "auto", **options: Any) -> Dataset:
    from mcf_cli.datasets.store import verify

    loader = _loader(REAL[name])
    here = verify.require(name, None if form == "auto" else form)
    takes_name = "name" in inspect.signature(loader).parameters
    return _call(name, loader, (here, name) if takes_name else (here,), options)


def _loader(source: str) -> Any:
    """The function that loads a source: `load_mnist` of the module `mnist`, `load_amazon_raw` of `amazon`."""
    module = importlib.import_module(f"mcf_cli.datasets.sources.{source.partition('_')[0]}")
    return getattr(module, f"load_{source}")


def _call(
    name: str, loader: Any, arguments: tuple, options: dict[str, Any], own: dict[str, Any] | None = None
) -> Dataset:
    """Options are the user's; what a loader takes by keyword alone is not for them."""
    parameters = list(inspect.signature(loader).parameters.values())[len(arguments) :]
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    if unknown := [option for option in options if option not in known]:
        allowed = ", ".join(known) or "none"
        raise McfError(f"{name} has no option {', '.join(unknown)}; its options: {allowed}")
    return loader(*arguments, **_checked(name, loader, options), **(own or {}))


def _checked(name: str, loader: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options as the loader's own type hints want them."""
    from pydantic import TypeAdapter, ValidationError

    hints = get_type_hints(loader, include_extras=True)
    checked = {}
    for option, value in options.items():
        try:
            checked[option] = TypeAdapter(hints[option]).validate_python(value)
        except ValidationError as error:
            expected = error.errors()[0]["msg"].replace("Input should be", "expected", 1)
            raise McfError(f"{name}: option {option} is {value!r}: {expected}") from None
    return checked
