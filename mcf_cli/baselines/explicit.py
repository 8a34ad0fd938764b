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
from scipy import sparse

from mcf_cli.baselines.moments import MOMENT_FEATURES, Moments, signed_targets
from mcf_cli.core.families import Corruption
from mcf_cli.core.problem import Problem, Solution


class Explicit:
    """One training set and one corruption; ``solve`` may be called for many l2 and numbers of copies."""

    def __init__(
        self,
        X: np.ndarray | sparse.spmatrix,
        y: np.ndarray,
        corruption: Corruption,
        loss: str = "quadratic",
        n_classes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.X = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X, dtype=float)
        self.y = np.asarray(y)
        self.corruption, self.loss, self.seed = corruption, loss, seed
        self.n_classes = n_classes or int(self.y.max()) + 1
        self._moments = Moments()

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
        rows, features = len(self.y) * copies, self.X.shape[1]
        if self.loss == "quadratic" and features <= min(rows, MOMENT_FEATURES):
            return self._ridge(l2, copies)
        problem = Problem(
            self._stacked(copies), np.tile(self.y, copies), loss=self.loss, n_classes=self.n_classes
        )
        return problem.solve(None, l2, start=start, max_iter=max_iter, tol=tol)

    def _ridge(self, l2: float, copies: int) -> Solution:
        moments = self._moments_up_to(copies).centred()
        weights = moments.ridge(l2)
        objective = moments.loss_gradient(weights)[0] + l2 * float(np.sum(weights**2))
        message = f"closed form from {copies} copies"
        return Solution(weights.T.copy(), moments.bias(weights), objective, 1, True, message)

    def copy(self, number: int) -> np.ndarray | sparse.csr_matrix:
        """Corrupted copy ``number`` of the training set, the same whenever it is asked for."""
        return self.corruption.sample(self.X, np.random.default_rng([self.seed, number]))

    def _stacked(self, copies: int) -> np.ndarray | sparse.csr_matrix:
        drawn = [self.copy(number) for number in range(copies)]
        # Noise that acts on zeros makes a sparse matrix dense.
        return sparse.vstack(drawn, format="csr") if sparse.issparse(drawn[0]) else np.vstack(drawn)

    def _moments_up_to(self, copies: int) -> Moments:
        if self._moments.parts > copies:
            self._moments = Moments()
        targets = signed_targets(self.y, self.n_classes)
        while self._moments.parts < copies:
            self._moments.add(self.copy(self._moments.parts), targets)
        return self._moments
