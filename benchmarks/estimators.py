"""The estimators as a user meets them beside those of scikit-learn: one table of ratios.

    python -m benchmarks.estimators symbols reviews --threads 1 2 --budget 10

Every model minimises mean logistic loss + l2 ||w||^2 with the l2 of LogisticRegression's C = 1, but for LinearSVC and
SGDClassifier, which minimise something else or say nothing about where they end. The unit is LogisticRegression as it
comes: 100 iterations, wherever that ends. Its solvers, and skglm where it is installed, are also given as many
iterations as take them to within 1e-6 of the minimum, which is where our defaults end; `>` marks those that had not
got there within the budget. Threads, of BLAS, of OpenMP and our own, are pinned alike in processes of their own.
One thread is measured in processor time, which other work on the machine disturbs least, more of them by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from mcf_cli import Blankout, MCFClassifier
from mcf_cli.core.problem import Problem
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks.shapes import zipf_shape

NEAR = 1e-6  # of the objective
Q = 0.3
UNIT = "LogisticRegression, default"
Data = tuple[Any, np.ndarray]


# -- shapes -------------------------------------------------------------------------------------------------
def pixels(rows: int = 60_000) -> Data:
    """scikit-learn's digits enlarged to 28 x 28, turned, sheared and moved at random, in 256 greys."""
    from scipy.ndimage import affine_transform, zoom
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    large = np.stack([np.pad(zoom(image.reshape(8, 8) / 16, 2.5, order=1), 4) for image in images])
    rng = np.random.default_rng(0)
    drawn, X = rng.integers(len(large), size=rows), np.empty((rows, 784))
    for n, image in enumerate(large[drawn]):
        angle, sheared = 0.15 * rng.normal(size=2)
        turn = np.array([[np.cos(angle), sheared - np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turn *= 1.0 + 0.08 * rng.normal(size=2)
        offset = 13.5 - turn @ np.array([13.5, 13.5]) + rng.normal(size=2)
        moved = affine_transform(image, turn, offset=offset, order=1)
        X[n] = (np.floor(255 * np.clip(moved, 0.0, 1.0)) * (moved > 0.08)).ravel() / 255
    return X, labels[drawn]


def symbols(rows: int = 20_000, places: int = 60, classes: int = 3) -> Data:
    """One-hot codes of eight symbols, four of them rare, that depend on the class about the middle."""
    rng = np.random.default_rng(0)
    y = rng.choice(classes, rows, p=[0.25, 0.25, 0.5])
    common = rng.dirichlet([5.0] * 4 + [0.05] * 4, size=places)
    code = np.empty((rows, places), dtype=int)
    for k in range(classes):
        own, members = rng.dirichlet([0.4] * 4 + [0.02] * 4, size=places), np.flatnonzero(y == k)
        for place in range(places):
            share = np.exp(-abs(place - places / 2) / 4) if k < 2 else 0.0
            p = (1.0 - share) * common[place] + share * own[place]
            code[members, place] = rng.choice(8, len(members), p=p / p.sum())
    columns = (code + 8 * np.arange(places)).ravel()
    starts = np.arange(0, rows * places + 1, places)
    return sp.csr_matrix((np.ones(rows * places), columns, starts), shape=(rows, 8 * places)), y


def measurements(rows: int = 50_000, columns: int = 300) -> Data:
    """Normal features, two classes."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(rows, columns)), 2.0 * rng.normal(size=columns) / np.sqrt(columns)
    return X, (X @ w + rng.logistic(size=rows) > 0.0).astype(int)


def reviews() -> Data:
    return _real("amazon-books") or _zipf(2_000, 5_000, 2, 120)


def topics() -> Data:
    return _real("reuters") or _zipf(6_220, 18_933, 65, 80)


def news() -> Data:
    return _zipf(11_314, 100_000, 20, 150)


def _real(name: str) -> Data | None:
    from mcf_cli.datasets import available, load

    if not available(name):
        return None
    data = load(name)
    train = next(iter(data.splits.values()))[0]
    return sp.csr_matrix(data.X[train]), data.y[train]


def _zipf(*sizes: int) -> Data:
    shape = zipf_shape("", *sizes)
    return shape.X, shape.y


SHAPES: dict[str, Callable[[], Data]] = {
    "pixels": pixels,
    "symbols": symbols,
    "measurements": measurements,
    "reviews": reviews,
    "topics": topics,
    "news": news,
}


# -- contestants --------------------------------------------------------------------------------------------
def solvers(X: Any, classes: int) -> list[str]:
    """Of LogisticRegression, those that can be asked on this data."""
    chosen = ["lbfgs", "newton-cg", "saga"]
    if X.shape[1] * classes <= 2_000:  # it factorises a matrix of so many rows
        chosen.append("newton-cholesky")
    return chosen + (["liblinear"] if classes == 2 else [])


def others(rows: int) -> dict[str, Callable[[], Any]]:
    """Models whose end is not that of the others."""
    return {
        "LinearSVC": lambda: LinearSVC(C=1.0),
        "SGDClassifier, log loss": lambda: SGDClassifier(loss="log_loss", alpha=1.0 / rows, random_state=0),
    }


def _skglm(rows: int, tol: float) -> Any:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic
    from skglm.penalties import L2
    from skglm.solvers import LBFGS

    return GeneralizedLinearEstimator(Logistic(), L2(1.0 / rows), LBFGS(max_iter=10_000, tol=tol))


def own(l2: float, classes: int) -> dict[str, MCFClassifier]:
    """Ours, as they come."""
    models = {
        "MCFClassifier, plain": MCFClassifier(corruption=None, l2=l2),
        "MCFClassifier, blankout": MCFClassifier(corruption=Blankout(q=Q), l2=l2),
    }
    if classes > 2:
        models["MCFClassifier, blankout, `shared`"] = MCFClassifier(
            corruption=Blankout(q=Q), l2=l2, multiclass="shared"
        )
    return models


def timed(model: Any, X: Any, y: np.ndarray) -> float:
    clock = process_time if os.environ["OMP_NUM_THREADS"] == "1" else perf_counter
    start = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return clock() - start


def repeated(model: Any, X: Any, y: np.ndarray) -> float:
    """The shorter of two fits where one is short: the first pays for what is made once."""
    seconds = timed(model, X, y)
    return min(seconds, timed(model, X, y)) if seconds < 3.0 else seconds


class Measure:
    """How far a plain model lies above the minimum, as a share of it."""

    def __init__(self, X: Any, y: np.ndarray, l2: float):
        self.problem, self.l2 = Problem(X, y), l2
        self.least = self.problem.solve(None, l2, tol=1e-7).objective

    def gap(self, model: Any) -> float:
        value, _, _ = self.problem.loss_gradient(None, self.l2, model.coef_, np.ravel(model.intercept_))
        return value / self.least - 1.0


def to_the_end(make: Callable[[int], Any], measure: Measure, X: Any, y: np.ndarray, budget: float) -> Any:
    """Seconds of the first fit that comes near, each with four times the iterations; False beside them if none does."""
    most, seconds = 100, 0.0
    while True:
        model = make(most)
        seconds = timed(model, X, y)
        if measure.gap(model) <= NEAR:
            return seconds, True
        if 4 * seconds > budget or most > 20_000:
            return seconds, False
        most *= 4


def contest(shape: str, everyone: bool, budget: float) -> Iterator[dict[str, Any]]:
    """Name, seconds and gap of each model on one shape."""
    X, codes = SHAPES[shape]()
    classes, y = np.unique(codes, return_inverse=True)
    rows, l2 = len(y), 0.5 / len(y)
    measure = Measure(X, y, l2)
    unit = LogisticRegression()
    yield {"name": UNIT, "seconds": repeated(unit, X, y), "gap": measure.gap(unit)}
    for name, model in own(l2, len(classes)).items():
        seconds = repeated(model, X, y)
        yield {"name": name, "seconds": seconds, "gap": measure.gap(model) if "plain" in name else None}
    if not everyone or not budget:
        return
    for solver in solvers(X, len(classes)):

        def make(most: int, solver: str = solver) -> Any:
            return LogisticRegression(solver=solver, tol=1e-9, max_iter=most)

        seconds, there = to_the_end(make, measure, X, y, budget)
        yield {"name": f"LogisticRegression, {solver}, to 1e-6", "seconds": seconds, "there": there}
    for name, other in others(rows).items():
        yield {"name": name, "seconds": repeated(other(), X, y), "gap": None}
    if find_spec("skglm") is not None and len(classes) == 2:
        yield {"name": "skglm", "seconds": repeated(_skglm(rows, 1e-9), X, 2 * y - 1), "gap": None}


# -- the table ----------------------------------------------------------------------------------------------
def run(shape: str, threads: int, numba: bool, budget: float) -> list[dict[str, Any]]:
    """A contest in a process of its own; with numba all take part, without it ours alone."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    pinned = dict.fromkeys(names, str(threads))
    command = [sys.executable, "-m", "benchmarks.estimators", shape, "--worker", "--budget", str(budget)]
    environment = os.environ | pinned | {"MCF_NUMBA": str(int(numba))}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cell(row: dict[str, Any], unit: float) -> str:
    ratio = f"{row['seconds'] / unit:.2g}"
    return ratio if row.get("there", True) else f"> {ratio}"


def table(shape: str, threads: list[int], budget: float) -> str:
    """Ratios to the unit of the same process, a column for each number of threads with and without numba."""
    settings = [(n, numba) for n in threads for numba in (True, False)]
    found = [{row["name"]: row for row in run(shape, *setting, budget)} for setting in settings]
    units = [rows[UNIT]["seconds"] for rows in found]
    heads = [f"{n} thread{'s' * (n > 1)}{'' if numba else ', no numba'}" for n, numba in settings]
    lines = [f"| {shape} | above the minimum | {' | '.join(heads)} |", "|---|--:|" + "--:|" * len(heads)]
    for name, first in found[0].items():
        gap = first.get("gap")
        told = f"{max(gap, 0.0):.0e}" if gap is not None else "1e-06" if first.get("there") else ""
        cells = [
            cell(rows[name], unit) if name in rows else "" for rows, unit in zip(found, units, strict=True)
        ]
        if name == UNIT:
            cells = [f"1 ({unit:.2g} s)" for unit in units]
        lines.append(f"| {name} | {told} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds of a rival's fit to 1e-6; 0: no rivals"
    )
    parser.add_argument("--worker", action="store_true", help="one contest, here, as lines of JSON")
    options = parser.parse_args()
    for shape in options.shapes:
        if not options.worker:
            print(table(shape, options.threads, options.budget), end="\n\n", flush=True)
            continue
        everyone = os.environ.get("MCF_NUMBA", "1") != "0"
        for row in contest(shape, everyone, options.budget):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
