"""Gradients and whole fits of another version beside this one: `python -m benchmarks.releases CHECKOUT Amazon splice`.

Both run on the same arrays in processes that take turns, threads pinned alike; a time is the best of all turns, on one
thread that of the processor, which other work on the machine disturbs least. The versions stop by different rules, so
fits are compared at equal objectives: the fastest of seven tolerances that ends within 1e-5 of the lowest objective of
both versions. Times and objectives at tol = 1e-3 stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import joblib
import numpy as np

HERE = Path(__file__).resolve().parents[1]
NEAR = 1e-5
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
L2 = 1e-3
Times = dict[str, Any]


# -- one version, in a process of its own: only names that all versions have -----------------------------------
def measured(data: Path) -> Times:
    """Where the package lies, and what it takes for each form of the logistic loss."""
    import mcf_cli

    X, y = joblib.load(data)
    forms = ("pairwise",) if y.max() == 1 else ("shared", "pairwise")
    found = {form: of_form(X, y, form) for form in forms}
    return {"package": str(Path(mcf_cli.__file__).parents[1]), "forms": found}


def of_form(X: Any, y: np.ndarray, form: str) -> Times:
    """Seconds of a gradient and of fits, with the objectives of the latter."""
    from mcf_cli import Blankout
    from mcf_cli.core.problem import Problem

    corruption, K = Blankout(q=0.5), int(y.max()) + 1
    problem = Problem(X, y, multiclass=form)
    objective = problem._objective(problem._checked(corruption), L2)
    W = 0.01 * np.random.default_rng(0).normal(size=(X.shape[1], 1 if K == 2 else K))
    b, fits = np.zeros(W.shape[1]), {}
    objective.loss_gradient(W, b)  # compiled loops are loaded
    for tol in TOLERANCES:
        own = Problem(X, y, multiclass=form)
        seconds, solution = _timed(partial(own.solve, corruption, L2, tol=tol))
        fits[str(tol)] = (seconds, solution.objective)
    gradient = min(_timed(partial(objective.loss_gradient, W, b))[0] for _ in range(15))
    return {"gradient": gradient, "fits": fits}


def _timed(run: Any) -> tuple[float, Any]:
    clock = process_time if os.environ["OMP_NUM_THREADS"] == "1" else perf_counter
    start = clock()
    result = run()
    return clock() - start, result


# -- both -----------------------------------------------------------------------------------------------------
def run(checkout: Path, data: Path, threads: int) -> Times:
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(threads)) | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(data)]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout)
    if found["package"] != str(checkout):
        sys.exit(f"{checkout} is not what was measured, but {found['package']}")
    return found["forms"]


def best(turns: list[Times], form: str) -> Times:
    """The best gradient, and for each tolerance the best time with its objective."""
    fits = {tol: min(turn[form]["fits"][tol] for turn in turns) for tol in turns[0][form]["fits"]}
    return {"gradient": min(turn[form]["gradient"] for turn in turns), "fits": fits}


def line(shape: str, form: str, other: Times, this: Times) -> str:
    least = min(value for one in (other, this) for _, value in one["fits"].values())
    enough = [
        min((s for s, value in one["fits"].values() if value <= least + NEAR * abs(least)), default=np.nan)
        for one in (other, this)
    ]
    (s_other, v_other), (s_this, v_this) = (one["fits"]["0.001"] for one in (other, this))
    gradient = this["gradient"] / other["gradient"]
    return (
        f"| {shape}, `{form}` | {1e3 * other['gradient']:.3g} ms | {gradient:.2f} "
        f"| {enough[0]:.3g} s | {enough[1] / enough[0]:.2f} | {s_this / s_other:.2f} "
        f"| {v_other / least - 1:.0e}, {v_this / least - 1:.0e} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", help="a folder with the other version")
    parser.add_argument("shapes", nargs="*", help="as in benchmarks.loops; all of them if none is named")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", type=Path, help="measure here, on the arrays of this file")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measured(options.worker)))
        return
    from benchmarks.loops import SHAPES

    print(
        "| data | gradient | this / other | fit | this / other | at tol 1e-3 | above the lowest: other, this |\n"
        "|---|--:|--:|--:|--:|--:|--:|"
    )
    for shape in options.shapes or SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "data")
            joblib.dump(SHAPES[shape](), data)
            versions = options.checkout.resolve(), HERE
            turns = [
                [run(version, data, options.threads) for version in versions] for _ in range(options.turns)
            ]
        for form in turns[0][0]:
            print(
                line(shape, form, *(best(list(side), form) for side in zip(*turns, strict=True))), flush=True
            )


if __name__ == "__main__":
    main()
