"""What each compiled loop gains on the shapes of the paper: `python -m benchmarks.loops`.

A case is a gradient, a product with the second derivative or a whole fit on one shape. It runs with all loops, without
one of them (numpy takes over) and without any, in turns in one process, on one thread and on two, pinned alike. A ratio
is the time without over the time with, the best of each. A loop stays where a case reaches 1.2 on one thread and two.
Loops of one step count together: two that numpy replaces together, and the three to and from the weights of `pairwise`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from mcf_cli import Blankout, Poisson
from mcf_cli.baselines import fdrop, fdrop_loops
from mcf_cli.core.kernels import dispatch, loops, row_loops
from mcf_cli.core.problem import Problem

from benchmarks.estimators import Data, measurements, pixels, symbols, topics
from benchmarks.shapes import shapes, zipf_shape

WORTH = 1.2
TOGETHER = (
    {"blankout_sums_loop", "sums_pullback"},
    {"pairs_along_loop", "pairs_pullback_loop"},
    {"pairwise_margins_loop", "from_pairwise_margins_loop", "add_at_loop"},
)
Case = Callable[[], Any]


# -- cases --------------------------------------------------------------------------------------------------
def amazon() -> Data:
    shape = next(shapes(["amazon"]))
    return shape.X, shape.y


def cifar() -> Data:
    shape = zipf_shape("cifar", 10_000, 8_192, 10, 676)
    return shape.X, shape.y


def mnist() -> Data:
    X, y = pixels(10_000)
    return sp.csr_matrix(X), y


SHAPES: dict[str, Callable[[], Data]] = {
    "Amazon": amazon,
    "Reuters": topics,
    "MNIST, 10,000 rows": mnist,
    "CIFAR-like, 10,000 rows": cifar,
    "splice": lambda: symbols(3_190),
    "dense, 20,000 x 300": lambda: measurements(20_000),
}


def cases(X: Any, y: np.ndarray) -> Iterator[tuple[str, Case]]:
    """Name and function of each case on one shape."""
    K = int(y.max()) + 1
    forms = {"": {}} if K == 2 else {", shared": {"multiclass": "shared"}, ", pairwise": {}}
    for form, options in forms.items():
        yield f"gradient, blankout{form}", gradient(X, y, Blankout(q=0.5), **options)
        yield f"Newton product, blankout{form}", product(X, y, Blankout(q=0.5), **options)
        if K <= 3 and sp.issparse(X):  # Amazon and splice
            bound = {"surrogate": "variational", **options}
            yield f"gradient, variational bound{form}", gradient(X, y, Blankout(q=0.5), **bound)
            yield f"Newton product, variational bound{form}", product(X, y, Blankout(q=0.5), **bound)
    yield "gradient, exponential loss", gradient(X, y, Blankout(q=0.5), loss="exponential")
    if sp.issparse(X):
        for form, options in forms.items():
            yield f"gradient, Poisson{form}", gradient(X, y, Poisson(), **options)
        adversary = fdrop.Fdrop(X[:2_000], y[:2_000], K)
        yield "FDROP, one pass over 2,000 rows", lambda: adversary.solve(1e-3, 5, max_iter=1)
        if X.shape[1] > 10_000 and K == 2:
            least_squares = Problem(X, y, loss="quadratic")
            yield "least squares", lambda: least_squares.solve(Blankout(q=0.5), 1e-2, method="cg")


def _objective(X: Any, y: np.ndarray, corruption: Any, **options: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """With random weights and biases of the right shape."""
    problem = Problem(X, y, **options)
    objective = problem._objective(problem._checked(corruption), 1e-3)
    W = 0.01 * np.random.default_rng(0).normal(size=objective.shape)
    return objective, W, np.zeros(W.shape[1])


def gradient(X: Any, y: np.ndarray, corruption: Any, **options: Any) -> Case:
    objective, W, b = _objective(X, y, corruption, **options)
    return lambda: objective.loss_gradient(W, b)


def product(X: Any, y: np.ndarray, corruption: Any, **options: Any) -> Case:
    """The second derivative is made once, as in a Newton step, and is not part of the time."""
    objective, W, b = _objective(X, y, corruption, **options)
    hessian = objective.expand(W, b)[1]()[2]
    return lambda: hessian.product(W, b)


# -- one process --------------------------------------------------------------------------------------------
def all_loops() -> list[set[str]]:
    """Names of the loops; those of one step stand together."""
    names = {
        name
        for module in (loops, row_loops, fdrop_loops)
        for name, value in vars(module).items()
        if isinstance(value, dispatch.Loop)
    }
    return [*TOGETHER, *({name} for name in sorted(names.difference(*TOGETHER)))]


@contextmanager
def without(names: set[str], asked: set[str] | None = None) -> Iterator[None]:
    """numpy in the place of these loops; `asked` collects the loops that somebody asks for."""
    found = dispatch.compiled_loop

    def some(module: str, name: str) -> Callable[..., Any] | None:
        if asked is not None:
            asked.add(name)
        return None if name in names else found(module, name)

    dispatch.compiled_loop = fdrop.compiled_loop = some
    try:
        yield
    finally:
        dispatch.compiled_loop = fdrop.compiled_loop = found


def in_turns(run: Case, left_out: list[set[str]], budget: float) -> list[float]:
    """Seconds without each of these sets, the best of at least three turns and of as many as fit in the budget."""
    best, turns, begun = [np.inf] * len(left_out), 0, perf_counter()
    while turns < 3 or (perf_counter() - begun < budget and turns < 200):
        for i, names in enumerate(left_out):
            with without(names):
                for _ in range(2):  # the second finds the caches as it left them
                    start = perf_counter()
                    run()
                    best[i] = min(best[i], perf_counter() - start)
                    if best[i] > 0.1:
                        break
        turns += 1
    return best


def measured(names: list[str], budget: float) -> Iterator[dict[str, Any]]:
    """One line for each case: milliseconds, and the ratio without each loop that it asks for."""
    groups = all_loops()
    for shape in names:
        X, y = SHAPES[shape]()
        for case, run in cases(X, y):
            asked: set[str] = set()
            with without(set(), asked):
                run()
            used = [group for group in groups if group <= asked]
            everything = set[str]().union(*used)
            seconds, *others = in_turns(run, [set(), *used, everything], budget * (2 + len(used)))
            ratios = [other / seconds for other in others]
            yield {
                "case": f"{shape}: {case}",
                "ms": 1e3 * seconds,
                "all": ratios.pop(),
                "ratios": {" + ".join(sorted(g)): r for g, r in zip(used, ratios, strict=True)},
            }


# -- the tables ---------------------------------------------------------------------------------------------
def run(threads: int, names: list[str], budget: float) -> list[dict[str, Any]]:
    """The cases in a process of their own."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [sys.executable, "-m", "benchmarks.loops", *names, "--worker", "--budget", str(budget)]
    environment = os.environ | dict.fromkeys(variables, str(threads))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def print_tables(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> None:
    both = list(zip(one, two, strict=True))
    print(
        "| loop | 1 thread | 2 threads | where it gains most | cases of 1.2 | cases |\n|---|--:|--:|---|--:|--:|"
    )
    for group in all_loops():
        loop = " + ".join(sorted(group))
        gains = [
            (a["ratios"][loop], b["ratios"][loop], a["case"])
            for a, b in both
            if loop in a["ratios"] and loop in b["ratios"]
        ]
        first, second, where = max(gains, key=lambda gain: min(gain[:2]), default=(np.nan, np.nan, "nowhere"))
        reached = sum(min(gain[:2]) >= WORTH for gain in gains)
        print(f"| `{loop}` | {first:.2f} | {second:.2f} | {where} | {reached} | {len(gains)} |")
    print(
        "\n| case | 1 thread, ms | without any loop | 2 threads, ms | without any loop |\n|---|--:|--:|--:|--:|"
    )
    for a, b in both:
        print(f"| {a['case']} | {a['ms']:.3g} | {a['all']:.2f} | {b['ms']:.3g} | {b['all']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), help=f"of {'; '.join(SHAPES)}")
    parser.add_argument("--budget", type=float, default=0.25, help="seconds for each way to run a case")
    parser.add_argument("--worker", action="store_true", help="the cases, here, as lines of JSON")
    options = parser.parse_args()
    if options.worker:
        for line in measured(options.shapes, options.budget):
            print(json.dumps(line), flush=True)
        return
    print_tables(*(run(threads, options.shapes, options.budget) for threads in (1, 2)))


if __name__ == "__main__":
    main()
