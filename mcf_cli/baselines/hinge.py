"""The hinge-loss baseline: scikit-learn's ``LinearSVC`` on the project's scale of l2.

    Hinge(X, y).solve(l2=1e-4) -> Solution

LinearSVC minimises ||w||^2 / 2 + C * (sum of losses), so "mean loss + l2 ||w||^2" is C = 1 / (2 l2 N). Two
ways to more than two classes: ``ovr`` (one machine a class against the rest, LIBLINEAR's default and so the
likelier one behind the paper's curve) and ``crammer-singer`` (one joint margin, which FDROP generalises).

LIBLINEAR regularises the bias; ``BIAS_SCALE`` makes that share of the penalty b^2 / BIAS_SCALE^2, small
enough not to matter and large enough for its coordinate descent to converge.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse

from mcf_cli.core.problem import Solution

BIAS_SCALE = 10.0
SMALLEST_L2 = 1e-6  # stands for l2 = 0, where C would be infinite and LIBLINEAR never converge
MULTICLASS = {"ovr": "ovr", "crammer-singer": "crammer_singer"}


class Hinge:
    """The support vector machine on one training set: ``X`` dense or sparse, ``y`` class codes, some maybe absent."""

    def __init__(
        self, X: np.ndarray | sparse.spmatrix, y: np.ndarray, multiclass: str = "ovr", seed: int = 0
    ) -> None:
        if multiclass not in MULTICLASS:
            raise ValueError(f"multiclass must be one of {sorted(MULTICLASS)}, not {multiclass!r}")
        present, codes = np.unique(y, return_inverse=True)
        self.X, self.y = X, codes
        self.labels = None if len(present) == present[-1] + 1 else present
        # Two classes have one margin and one row of weights in either form.
        self.multiclass = "ovr" if self.y.max() < 2 else multiclass
        self.seed = seed

    def solve(
        self, l2: float, *, start: Solution | None = None, max_iter: int = 1000, tol: float = 1e-2
    ) -> Solution:
        """Fit; ``tol`` is LIBLINEAR's own measure, and ``start`` is ignored: it always starts from 0."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        if l2 < 0:
            raise ValueError(f"l2 must be 0 or more, not {l2}")
        machine = LinearSVC(
            loss="hinge",
            C=1.0 / (2.0 * max(l2, SMALLEST_L2) * len(self.y)),
            multi_class=MULTICLASS[self.multiclass],
            intercept_scaling=BIAS_SCALE,
            max_iter=max_iter,
            tol=tol,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # recorded in the Solution instead
            machine.fit(self.X, self.y)
        n_iter = int(np.max(machine.n_iter_))
        converged = n_iter < max_iter
        return Solution(
            coef=machine.coef_,
            intercept=machine.intercept_,
            objective=self.objective(machine.coef_, machine.intercept_, l2),
            n_iter=n_iter,
            converged=converged,
            message="converged" if converged else f"stopped after {max_iter} passes",
            labels=self.labels,
        )

    def objective(self, coef: np.ndarray, intercept: np.ndarray, l2: float) -> float:
        """Mean hinge loss (summed over the machines when one-vs-rest) + l2 ||W||^2, without the bias."""
        scores = np.asarray(self.X @ coef.T) + intercept
        if self.multiclass == "crammer-singer":
            own = np.take_along_axis(scores, self.y[:, None], axis=1)
            rivals = scores - own + 1.0
            np.put_along_axis(rivals, self.y[:, None], 0.0, axis=1)
            losses = rivals.max(axis=1)
        else:
            classes = np.arange(len(coef)) if len(coef) > 1 else np.array([1])
            signs = np.where(self.y[:, None] == classes, 1.0, -1.0)
            losses = np.maximum(0.0, 1.0 - signs * scores).sum(axis=1)
        return float(losses.mean() + l2 * np.sum(coef**2))
