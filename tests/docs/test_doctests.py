"""The examples in docstrings run as they stand, and every public name has one."""

import doctest
import importlib
import inspect
from pathlib import Path

import mcf_cli
import pytest

PACKAGE = Path(mcf_cli.__file__).parent
PUBLIC = [name for name in mcf_cli.__all__ if name != "__version__"]
METHODS = [
    "MCFClassifier.predict_proba",
    "MCFClassifier.loo_error",
    "MCFClassifier.save",
    "MCFRegressor.loo_error",
    "MCFRegressor.save",
]


def modules_with_examples():
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]
    return [".".join(["mcf_cli", *path.relative_to(PACKAGE).with_suffix("").parts]) for path in paths]


def examples_of(dotted):
    thing = mcf_cli
    for name in dotted.split("."):
        thing = getattr(thing, name)
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


@pytest.mark.parametrize("module", modules_with_examples())
def test_the_examples_of_a_module_run(module):
    if module == "mcf_cli.scale.cluster":
        pytest.importorskip("distributed")  # the extra `dask`
    outcome = doctest.testmod(importlib.import_module(module))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS])
def test_a_public_name_has_an_example_that_uses_it(name):
    examples = examples_of(name)
    assert any(name.split(".")[-1] in example.source for example in examples)
    assert any(example.want for example in examples), "an example shows what it prints"
    assert not any(doctest.SKIP in example.options for example in examples)


def test_the_modules_of_all_public_names_are_among_those_that_run():
    assert {getattr(mcf_cli, name).__module__ for name in PUBLIC} <= set(modules_with_examples())
