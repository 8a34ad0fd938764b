"""Explicit corruption (Eq. explicitM): train the plain loss on M corrupted copies of the training set.

    Explicit(X, y, Blankout(q=0.5), loss="quadratic").solve(l2=0.01, copies=16) -> Solution

minimises 1/(N M) sum_n sum_m L(x~_nm, y_n) + l2 ||w||^2; as M grows it tends to the marginalised model. Copy
m is drawn from (seed, m) alone, so the copies of M = 2 are the first two of M = 4: a curve over M is one
growing data set and not a new draw at every point.

The quadratic loss needs only the moments of the copies. Up to ``MOMENT_FEATURES`` features these are
accumulated copy by copy, so memory does not grow with M; ask for growing ``copies`` and none is drawn twice.
Every other case stacks the copies and hands them to the core's plain solver.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from mcf_cli.core.problem import Problem, Solution

MOMENT_FEATURES = 6000  # a D x D matrix of this size takes 288 MB


class Explicit:
    """One training set and one corruption; ``solve`` may be called for many l2 and numbers of copies."""

    def __init__(
        self,
        X: np.ndarray | sparse.spmatrix,
        y: np.ndarray,
        corruption: object,
        loss: str = "quadratic",
        n_classes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.X = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X, dtype=float)
        self.y = np.asarray(y)
        self.corruption, self.loss, self.seed = corruption, loss, seed
        self.n_classes = n_classes or int(self.y.max()) + 1
        self._moments = Moments(self.X.shape[1])

    def solve(
        self,
        l2: float,
        copies: int,
        *,
        start: Solution | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
    ) -> Solution:
        if copies < 1:
            raise ValueError(f"copies must be 1 or more, not {copies}")
        if self.loss == "quadratic" and self.X.shape[1] <= MOMENT_FEATURES:
            return self._moments_up_to(copies).solve(l2)
        problem = Problem(
            self._stacked(copies), np.tile(self.y, copies), loss=self.loss, n_classes=self.n_classes
        )
        return problem.solve(None, l2, start=start, max_iter=max_iter, tol=tol)

    def copy(self, number: int) -> np.ndarray | sparse.csr_matrix:
        """Corrupted copy ``number`` of the training set, the same whenever it is asked for."""
        return self.corruption.sample(self.X, np.random.default_rng([self.seed, number]))

    def _stacked(self, copies: int) -> np.ndarray | sparse.csr_matrix:
        drawn = [self.copy(number) for number in range(copies)]
        return sparse.vstack(drawn, format="csr") if sparse.issparse(self.X) else np.vstack(drawn)

    def _moments_up_to(self, copies: int) -> Moments:
        if self._moments.copies > copies:
            self._moments = Moments(self.X.shape[1])
        targets = self._targets()
        while self._moments.copies < copies:
            self._moments.add(self.copy(self._moments.copies), targets)
        return self._moments

    def _targets(self) -> np.ndarray:
        """-1/+1, one column when binary and one a class otherwise."""
        classes = np.array([1]) if self.n_classes == 2 else np.arange(self.n_classes)
        return np.where(self.y[:, None] == classes, 1.0, -1.0)


class Moments:
    """Sums over copies from which the ridge solution with a free bias follows."""

    def __init__(self, features: int) -> None:
        self.copies = self.rows = 0
        self.gram = np.zeros((features, features))
        self.total = np.zeros(features)
        self.cross: np.ndarray | float = 0.0
        self.target_total: np.ndarray | float = 0.0
        self.target_squares = 0.0

    def add(self, X: np.ndarray | sparse.spmatrix, targets: np.ndarray) -> None:
        gram = X.T @ X
        self.gram += gram.toarray() if sparse.issparse(gram) else gram
        self.total += np.asarray(X.sum(axis=0)).ravel()
        self.cross = self.cross + X.T @ targets
        self.target_total = self.target_total + targets.sum(axis=0)
        self.target_squares += float(np.sum(targets**2))
        self.rows += len(targets)
        self.copies += 1

    def solve(self, l2: float) -> Solution:
        mean, target_mean = self.total / self.rows, self.target_total / self.rows
        covariance = self.gram / self.rows - np.outer(mean, mean)
        cross = self.cross / self.rows - np.outer(mean, target_mean)
        system = covariance + l2 * np.eye(len(mean))
        weights = solve_positive(system, cross)
        spread = self.target_squares / self.rows - float(np.sum(target_mean**2))
        loss = spread - 2.0 * float(np.sum(weights * cross)) + float(np.sum(weights * (covariance @ weights)))
        return Solution(
            coef=weights.T.copy(),
            intercept=target_mean - mean @ weights,
            objective=loss + l2 * float(np.sum(weights**2)),
            n_iter=1,
            converged=True,
            message=f"closed form from {self.copies} copies",
        )


def solve_positive(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cholesky, or the least-norm solution when the system is singular (l2 = 0 and unseen features)."""
    try:
        return linalg.cho_solve(linalg.cho_factor(system), right)
    except linalg.LinAlgError:
        return linalg.lstsq(system, right)[0]
