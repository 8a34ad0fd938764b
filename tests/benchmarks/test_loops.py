"""The benchmark of the compiled loops knows all of them, and its cases reach those of the variational bound."""

import importlib
from pathlib import Path

import mcf_cli
import numpy as np
import pytest
from benchmarks.estimators import symbols
from mcf_cli.core.kernels import dispatch

pytest.importorskip("numba")
from benchmarks import loops

ROOT = Path(mcf_cli.__file__).parents[1]


def test_every_compiled_loop_is_measured():
    paths = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("mcf_cli/**/*loops.py")]
    modules = [importlib.import_module(".".join(path.parts)) for path in paths]
    there = {name for m in modules for name, loop in vars(m).items() if isinstance(loop, dispatch.Loop)}
    assert there == set().union(*loops.all_loops())


@pytest.mark.parametrize(
    ("classes", "reached"),
    [(2, {"ends_product_loop"}), (3, {"blankout_ends_loop", "fan_product_loop"})],
)
def test_the_cases_reach_the_loops_of_the_variational_bound(classes, reached, monkeypatch):
    monkeypatch.setattr(dispatch, "_WORTH_COMPILING", 0)
    X, y = symbols(60, places=10)
    asked: set[str] = set()
    with loops.without(set().union(*loops.all_loops()), asked):  # numpy does the work: nothing is compiled
        for name, run in loops.cases(X, np.minimum(y, classes - 1)):
            if "variational" in name:
                run()
    assert reached <= asked
