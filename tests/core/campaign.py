"""Many random problems against an objective and an optimum of our own.

    python -m tests.core.campaign --problems 5000

Each is solved by one of our paths. Wanted are finite weights, the same twice; as objective the one that plain numpy
finds at these weights, not above that of zero weights; and where the fit says that it converged, no point that scipy
finds may be lower by more than 1e-6 of the objective: from our weights and, where the objective is convex, from zero.
Anything else is a finding: it is printed, and the exit code is 1. Where the objective is not convex scipy may jump to
another valley; that is none where ours is a minimum, by second differences of our own objective.

Problem k depends on the seed and k alone: `--first K --problems 1` repeats it, `--first K` goes on from there.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from dask import delayed
from mcf_cli import MCFClassifier, MCFRegressor, fit_chunks, fit_dask
from mcf_cli.core.problem import Problem

from tests.core.own_objective import CONVEX, OwnObjective, descend
from tests.core.random_problems import FORMS, RandomProblem, draw

Array = np.ndarray
BEATEN = 1e-6  # of the objective
AGREES = 1e-7  # an offset of 1e8 leaves eight digits
ROUNDING = 1e-13  # of the objective at zero: what a difference of scores may hide
SEED = 2013
TOL = MCFClassifier().tol  # what the estimators ask for


@dataclass(frozen=True)
class Fit:
    """What one of our paths ends with."""

    W: Array  # D x C
    b: Array
    objective: float
    converged: bool
    message: str


def fitted(problem: RandomProblem, cluster: Any = None) -> Fit:
    """The problem solved by its path; chunks go to the cluster where there is one."""
    if problem.path in ("fit", "chunks"):
        model = _model(problem)
        if problem.path == "fit":
            model.fit(problem.X, problem.y, problem.sample_weight)
        elif cluster is not None:
            fit_dask(model, [delayed(chunk) for chunk in _chunks(problem)], client=cluster)
        else:
            fit_chunks(model, _chunks(problem))
        coef, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        return Fit(coef.T, b, model.objective_, model.converged_, model.message_)
    whole = Problem(
        problem.X,
        problem.y,
        fit_intercept=problem.intercept,
        sample_weight=problem.sample_weight,
        n_classes=problem.classes,
        **problem.options,
    )
    solution = whole.solve(problem.corruption, problem.l2, tol=TOL, method=problem.path)
    return Fit(solution.coef.T, solution.intercept, solution.objective, solution.converged, solution.message)


def _model(problem: RandomProblem) -> MCFClassifier | MCFRegressor:
    shared = {"corruption": problem.corruption, "l2": problem.l2, "fit_intercept": problem.intercept}
    return MCFClassifier(**shared, **problem.options) if problem.classes else MCFRegressor(**shared)


def _chunks(problem: RandomProblem) -> list[tuple[object, Array]]:
    X = problem.X.tocsr() if problem.container in ("coo", "csc") else problem.X
    ends = np.unique([0, *np.linspace(0, len(problem.y), 1 + problem.number % 3 + 1).astype(int)])
    return [(X[start:end], problem.y[start:end]) for start, end in pairwise(ends)]


def findings(problem: RandomProblem, cluster: Any = None) -> tuple[list[str], bool]:
    """What is wrong with our fit of the problem, and whether it converged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            fit = fitted(problem, cluster)
            again = fitted(problem, cluster) if problem.number % 5 == 0 else fit
    except Exception as error:
        return [f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"], False
    found = wrong(problem, problem.objective, fit)
    if not (np.array_equal(again.W, fit.W) and np.array_equal(again.b, fit.b)):
        found.append("a second fit differs")
    return found, fit.converged


def wrong(problem: RandomProblem, own: OwnObjective, fit: Fit) -> list[str]:
    if not (np.isfinite(fit.W).all() and np.isfinite(fit.b).all() and np.isfinite(fit.objective)):
        return ["not finite"]
    found = []
    zero = np.zeros_like(fit.W), np.zeros_like(fit.b)
    here, at_zero = own(fit.W, fit.b)[0], own(*zero)[0]
    floor = 1e-12 * abs(at_zero)
    if abs(here - fit.objective) > AGREES * max(abs(here), floor, 1e-4 * abs(at_zero)):
        found.append(f"objective {fit.objective:.9g} is {here:.9g}")
    if here > at_zero * (1 + 1e-9) + floor:
        found.append(f"objective {here:.9g} is above {at_zero:.9g}, that of zero weights")
    if fit.converged:
        for name, start in (("ours", (fit.W, fit.b)), ("zero", zero)):
            if name == "zero" and own.form not in CONVEX:
                continue
            there = descend(own, *start, problem.intercept)[0]
            gap = (here - there) / max(abs(there), floor)
            if here - there > BEATEN * abs(there) + ROUNDING * abs(at_zero):
                if own.form not in CONVEX and is_minimum(own, fit, problem.intercept):
                    continue
                found.append(
                    f"converged ({fit.message}), beaten from {name} by {gap:.2g}: {here:.9g}, {there:.9g}"
                )
                break
    return found


def is_minimum(own: OwnObjective, fit: Fit, intercept: bool) -> bool:
    """Whether a quadratic model of our own objective promises next to nothing at these weights, and bends upwards."""
    shape, point = fit.W.shape, np.concatenate([fit.W.ravel(), fit.b if intercept else []])

    def gradient(point: Array) -> Array:
        b = point[fit.W.size :] if intercept else fit.b
        _, g_W, g_b = own(point[: fit.W.size].reshape(shape), b)
        return np.concatenate([g_W.ravel(), g_b if intercept else []])

    steps = np.maximum(1e-5 * np.abs(point), 1e-5)
    bends = np.array(
        [(gradient(point + step) - gradient(point - step)) / (2 * step.sum()) for step in np.diag(steps)]
    )
    bend, ways = np.linalg.eigh(0.5 * (bends + bends.T))
    share = ways.T @ gradient(point)
    real = bend > 1e-8 * bend.max()  # a shift of all biases changes nothing
    promise = 0.5 * (share[real] ** 2 / bend[real]).sum()
    return bend.min() >= -1e-8 * bend.max() and promise <= BEATEN * abs(fit.objective)


def main() -> int:
    faulthandler.enable()
    given = _arguments()
    counts: Counter[tuple[str, str]] = Counter()
    start = time.perf_counter()
    with _cluster() if given.dask else nullcontext() as cluster:
        for number in range(given.first, given.first + given.problems):
            if time.perf_counter() - start > given.seconds:
                print(f"stopped before problem {number}: go on with --first {number}")
                break
            problem = draw(given.seed, number)
            if given.form not in (None, problem.form):
                continue
            found, converged = findings(problem, cluster)
            key = f"{problem.form} by {problem.path}"
            counts.update(
                {(key, "problems"): 1, (key, "converged"): converged, (key, "findings"): bool(found)}
            )
            for line in found:
                print(f"{problem}\n    {line}", flush=True)
    print(_table(counts))
    print(f"{time.perf_counter() - start:.0f} seconds")
    return 1 if any(n for (_, what), n in counts.items() if what == "findings") else 0


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--problems", type=int, default=5000)
    options.add_argument("--first", type=int, default=0, help="the number of the first problem")
    options.add_argument("--seed", type=int, default=SEED)
    options.add_argument("--form", choices=FORMS, help="problems of this form alone")
    options.add_argument(
        "--seconds", type=float, default=np.inf, help="stop after so long, and say how to go on"
    )
    options.add_argument("--dask", action="store_true", help="fit chunks on a dask cluster in this process")
    return options.parse_args()


def _cluster() -> Any:
    from dask.distributed import Client

    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


def _table(counts: Counter[tuple[str, str]]) -> str:
    columns = ("problems", "converged", "findings")
    lines = [f"{'':<36}" + "".join(f"{name:>10}" for name in columns)]
    for key in [*sorted({key for key, _ in counts}), "all"]:
        shown = [
            sum(n for (k, what), n in counts.items() if what == c and key in (k, "all")) for c in columns
        ]
        lines.append(f"{key:<36}" + "".join(f"{n:>10,}" for n in shown))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
