"""The examples in docstrings run as they stand, and every public name has one beside its parameters and results."""

import doctest
import importlib
import inspect
from pathlib import Path

import mcf_cli
import mcf_cli.datasets
import pytest

PACKAGE = Path(mcf_cli.__file__).parent
PUBLIC = [*(name for name in mcf_cli.__all__ if name != "__version__"), "datasets.load"]
ESTIMATORS = ("MCFClassifier", "MCFRegressor")
METHODS = [
    "MCFClassifier.predict_proba",
    "MCFClassifier.predict_log_proba",
    *(f"Chunks.{method}" for method in ("write", "matrix", "labels", "weights")),
    *(f"{name}.{method}" for name in ESTIMATORS for method in ("loo_error", "save")),
    *(f"Blankout.{method}" for method in ("mean", "variance", "log_mgf", "log_mgf_derivative", "sample")),
]
PLAIN_METHODS = [
    "MCFClassifier.decision_function",
    *(f"{n}.{m}" for n in ESTIMATORS for m in ("fit", "predict")),
]


def modules_with_examples():
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]
    names = [".".join(["mcf_cli", *path.relative_to(PACKAGE).with_suffix("").parts]) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


def named(dotted):
    thing = mcf_cli
    for name in dotted.split("."):
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("module", modules_with_examples())
def test_the_examples_of_a_module_run(module):
    if module == "mcf_cli.scale.fits":
        pytest.importorskip("distributed")  # the extra `dask`
    outcome = doctest.testmod(importlib.import_module(module))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS])
def test_a_public_name_has_an_example_that_uses_it(name):
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(named(name)) or "")
    assert any(name.split(".")[-1] in example.source for example in examples)
    assert any(example.want for example in examples), "an example shows what it prints"
    assert not any(doctest.SKIP in example.options for example in examples)


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS, *PLAIN_METHODS])
def test_a_public_name_says_what_it_takes_and_what_it_returns(name):
    thing = named(name)
    text = inspect.getdoc(thing)
    takes = list(inspect.signature(thing).parameters)
    described = section(text, "Parameters").replace(",", " ").split()
    assert [word for word in takes if word != "self" and word not in described] == []
    returns_nothing = inspect.isclass(thing) or name.endswith(".save")
    assert returns_nothing or section(text, "Returns").strip()
    if name in PUBLIC:
        assert section(text, "Examples").strip()
    if name in (*ESTIMATORS, "Chunks"):
        assert section(text, "Attributes").strip()


def section(text, title):
    """What stands below a title of numpydoc's, up to the next one; empty where there is none."""
    head = f"\n\n{title}\n{'-' * len(title)}\n"
    if head not in text:
        return ""
    body = text.split(head)[1].splitlines()
    ends = [number for number, line in enumerate(body) if line and set(line) == {"-"}]
    return "\n".join(body[: ends[0] - 1] if ends else body)


def test_every_method_that_users_call_is_held_to_it():
    """What an estimator defines itself (scikit-learn adds setters), so that a new method cannot come without."""
    for name in (*ESTIMATORS, "Chunks"):
        own = {m for m, thing in vars(named(name)).items() if not isinstance(thing, property)}
        own = {m for m in own if not m.startswith(("_", "set_"))} | (
            {"save"} if name in ESTIMATORS else set()
        )
        assert {f"{name}.{method}" for method in own} <= {*METHODS, *PLAIN_METHODS}


def test_every_public_name_is_in_the_reference():
    listed = (PACKAGE.parent / "docs" / "api.rst").read_text().split()
    assert [name for name in PUBLIC if name not in listed] == []


def test_the_modules_of_all_public_names_are_among_those_that_run():
    assert {named(name).__module__ for name in PUBLIC} <= set(modules_with_examples())
