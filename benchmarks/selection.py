"""MCFClassifierCV and MCFRegressorCV beside GridSearchCV: the same candidates, the same folds, the same choice.

    python -m benchmarks.selection amazon splice digits dense diabetes --repeats 2

Both refit the choice to all rows at `tol`; the grid search fits every candidate to `tol` as well. The two take turns in
one process with the same number of threads. CPU seconds are what the ratio is made of. Where the choices differ, both
are fitted on every fold to --settled, from zero: the command fails if the grid search's choice scores better there.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from mcf_cli import Blankout, MCFClassifier, MCFClassifierCV, MCFRegressor, MCFRegressorCV, datasets
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from benchmarks.rivals import same_threads
from benchmarks.shapes import shapes

L2S = [float(l2) for l2 in 10.0 ** (-0.5 * np.arange(13))]
Data = tuple[Any, np.ndarray]


def amazon() -> Data:
    (shape,) = shapes(["amazon"])
    return shape.X, shape.y


def splice() -> Data:
    data = datasets.load("splice" if datasets.available("splice") else "builtin-splice")
    return data.X, data.y


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def dense() -> Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 60))
    return X, (X @ rng.normal(size=60) / 4.0 + rng.normal(size=3_000) > 0).astype(int)


def diabetes() -> Data:
    """The columns and their products, in units of their deviation: 442 rows of 65."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.column_stack([X, *(X[:, i] * X[:, j] for i in range(10) for j in range(i, 10))])
    return X, y


DATA: dict[str, Callable[[], Data]] = {
    "amazon": amazon,
    "splice": splice,
    "digits": digits,
    "dense": dense,
    "diabetes": diabetes,
}


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def searches(loss: str | None, options: argparse.Namespace) -> tuple[Any, Any]:
    """Ours and the grid search, of a regression where there is no loss."""
    tol, folds = options.tol, options.folds
    given: dict[str, Any] = {"qs": options.qs, "l2s": L2S, "cv": folds}
    ours = MCFRegressorCV(**given) if loss is None else MCFClassifierCV(loss, tol=tol, **given)
    plain = MCFRegressor() if loss is None else MCFClassifier(loss, tol=tol)
    candidates = [
        {"corruption": [Blankout(q=q)], "l2": [l2]} for q in options.qs for l2 in L2S
    ]  # in the order of ours
    scoring = "neg_mean_squared_error" if loss is None else "accuracy"
    return ours, GridSearchCV(plain, candidates, cv=folds, scoring=scoring)


def compared(
    X: Any, y: np.ndarray, loss: str | None, options: argparse.Namespace
) -> tuple[list[float], list[float], str]:
    """Seconds of the grid search and of ours, and what was chosen; AssertionError where ours chose worse."""
    ours, grid = searches(loss, options)
    seconds: dict[str, list[float]] = {"grid": [], "ours": []}
    for _ in range(options.repeats):
        for name, search in (("grid", grid), ("ours", ours)):
            seconds[name].append(cpu_seconds(lambda search=search: search.fit(X, y))[0])
    words = f"same choice, {ours.best_params_}"
    if repr(ours.best_params_) != repr(grid.best_params_):
        model = (
            clone(grid.estimator) if loss is None else clone(grid.estimator).set_params(tol=options.settled)
        )
        scores = [
            cross_val_score(model.set_params(**params), X, y, cv=options.folds, scoring=grid.scoring).mean()
            for params in (ours.best_params_, grid.best_params_)
        ]
        words = f"other choice, {ours.best_params_}, {grid.best_params_}: at {options.settled:g} they score {scores}"
        assert scores[0] >= scores[1] - 1e-12, words
    return seconds["grid"], seconds["ours"], words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(DATA), help=f"of {', '.join(DATA)}")
    parser.add_argument("--losses", nargs="+", default=["logistic", "quadratic"])
    parser.add_argument(
        "--tol", type=float, default=MCFClassifier().tol, help="of the grid search and the final fit"
    )
    parser.add_argument(
        "--settled", type=float, default=1e-8, help="of the fits that judge differing choices"
    )
    parser.add_argument("--qs", type=float, nargs="+", default=[0.1, 0.3, 0.5, 0.7, 0.9])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"tol {options.tol:g}, {len(options.qs)} levels x {len(L2S)} penalties x {options.folds} folds")
    with same_threads(options.threads):
        for name in options.data:
            X, y = DATA[name]()
            for loss in [None] if y.dtype.kind == "f" else options.losses:
                grid, ours, words = compared(X, y, loss, options)
                ratio = statistics.median(g / o for g, o in zip(grid, ours, strict=True))
                times = f"{min(grid):.2f} s, {min(ours):.2f} s, {ratio:.1f} x"
                print(f"{name} {X.shape} {loss or 'regression'}: {times}; {words}", flush=True)


if __name__ == "__main__":
    main()
