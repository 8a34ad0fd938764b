"""Half of MNIST's test pixels are missing and marked: what each way of taking NaN makes of it.

    python -m benchmarks.marked [--l2 1e-5] [--test 2000]

l2 and q are fixed beforehand, not chosen on the test images. The boosted trees are trained on images with as many
pixels missing, of fewer rows, for time.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from mcf_cli import Dropout, MCFClassifier, datasets
from sklearn.ensemble import HistGradientBoostingClassifier


def half_missing(X: np.ndarray, seed: int) -> np.ndarray:
    """The same rows with NaN for half of the entries."""
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.5, np.nan, X)


def main() -> None:
    """Print one line a method: error in per cent and milliseconds a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--l2", type=float, default=1e-5)
    parser.add_argument("--test", type=int, default=10_000, help="how many test images, from the first")
    parser.add_argument(
        "--trees", type=int, default=10_000, help="training images of the boosted trees; 0: none"
    )
    given = parser.parse_args()
    data = datasets.load("mnist")
    train, test = data.splits["predefined"]
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    clean, labels = X[test][: given.test], data.y[test][: given.test]
    damaged = half_missing(clean, seed=0)

    def say(name: str, model: object, rows: np.ndarray) -> None:
        began = perf_counter()
        error = 1.0 - model.score(rows, labels)  # type: ignore[attr-defined]
        each = 1000.0 * (perf_counter() - began) / len(rows)
        print(f"{name:32} {error:7.2%} {each:8.2f} ms a row", flush=True)

    for loss in ("logistic", "quadratic"):
        model = MCFClassifier(loss=loss, corruption=None, l2=given.l2, tol=1e-3, missing="conditional")
        model.fit(X[train], data.y[train])
        say(f"{loss}, nothing missing", model, clean)
        say(f"{loss}, conditional", model, damaged)
        model.missing = "deleted"
        say(f"{loss}, deleted", model, damaged)
        if loss == "logistic":  # the quadratic loss keeps another mean, that of its own matrix
            model.missing = "mean"
            say(f"{loss}, mean", model, damaged)
    options = {"corruption": Dropout(q=0.5), "l2": 0.0, "tol": 1e-3, "multiclass": "shared"}
    model = MCFClassifier(missing="deleted", **options).fit(X[train], data.y[train])
    say("MCF, dropout 0.5, deleted", model, damaged)
    say("MCF, dropout 0.5, nothing missing", model, clean)
    if given.trees:
        some = train[: given.trees]
        trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
        say(f"boosted trees, {len(some)} images", trees.fit(half_missing(X[some], 1), data.y[some]), damaged)


if __name__ == "__main__":
    main()
