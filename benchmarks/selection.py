"""MCFClassifierCV beside GridSearchCV of MCFClassifier: the same candidates, the same folds, the same choice.

    python -m benchmarks.selection amazon digits dense --tol 1e-4

Both refit the choice to all rows at `tol`; the grid search fits every candidate to `tol` as well. The two take turns in
one process with the same number of threads. CPU seconds are what the ratio is made of. A choice counts as the same
where it scores as well in the grid search as the grid search's own.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from mcf_cli import Blankout, MCFClassifier, MCFClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from benchmarks.rivals import same_threads
from benchmarks.shapes import shapes

QS = [0.1, 0.3, 0.5, 0.7, 0.9]
L2S = [float(l2) for l2 in 10.0 ** (-0.5 * np.arange(13))]


def amazon() -> tuple[Any, np.ndarray]:
    (shape,) = shapes(["amazon"])
    return shape.X, shape.y


def digits() -> tuple[Any, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    rows = np.isin(y, [3, 5, 8, 9])  # the four that are easily confused
    return X[rows] / 16.0, y[rows]


def dense() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 60))
    return X, (X @ rng.normal(size=60) / 4.0 + rng.normal(size=3_000) > 0).astype(int)


DATA: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {"amazon": amazon, "digits": digits, "dense": dense}


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def compared(
    X: Any, y: np.ndarray, loss: str, tol: float, folds: int, repeats: int
) -> tuple[float, float, str]:
    """Median seconds of the grid search and of ours, and what was chosen; AssertionError where choices differ."""
    ours = MCFClassifierCV(loss, qs=QS, l2s=L2S, cv=folds, tol=tol)
    candidates = [
        {"corruption": [Blankout(q=q)], "l2": [l2]} for q in QS for l2 in L2S
    ]  # in the order of ours
    grid = GridSearchCV(MCFClassifier(loss, tol=tol), candidates, cv=folds)
    seconds: dict[str, list[float]] = {"grid": [], "ours": []}
    for _ in range(repeats):
        for name, search in (("grid", grid), ("ours", ours)):
            seconds[name].append(cpu_seconds(lambda search=search: search.fit(X, y))[0])
    scores = grid.cv_results_["mean_test_score"]
    assert scores[ours.best_index_] >= grid.best_score_ - 1e-12, (ours.best_params_, grid.best_params_)
    return statistics.median(seconds["grid"]), statistics.median(seconds["ours"]), repr(ours.best_params_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(DATA), help=f"of {', '.join(DATA)}")
    parser.add_argument("--losses", nargs="+", default=["logistic", "quadratic"])
    parser.add_argument(
        "--tol", type=float, default=MCFClassifier().tol, help="of the grid search and the final fit"
    )
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"tol {options.tol:g}, {len(QS)} levels x {len(L2S)} penalties x {options.folds} folds")
    with same_threads(options.threads):
        for name in options.data:
            X, y = DATA[name]()
            for loss in options.losses:
                grid, ours, chosen = compared(X, y, loss, options.tol, options.folds, options.repeats)
                print(
                    f"{name} {X.shape} {loss}: {grid:.2f} s, {ours:.2f} s, {grid / ours:.1f} x; {chosen}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
