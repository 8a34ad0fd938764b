"""Explicit corruption (Eq. explicitM): train the plain loss on M corrupted copies of the training set.

    Explicit(X, y, Blankout(q=0.5), loss="quadratic").solve(l2=0.01, copies=16) -> Solution

minimises 1/(N M) sum_n sum_m L(x~_nm, y_n) + l2 ||w||^2; as M grows it tends to the marginalised model. Copy
m is drawn from (seed, m) alone, so the copies of M = 2 are the first two of M = 4: a curve over M is one
growing data set and not a new draw at every point.

The quadratic loss needs only the moments of the copies. Up to ``MOMENT_FEATURES`` features these are
accumulated copy by copy, so memory does not grow with M; ask for growing ``copies`` and none is drawn twice.
Every other case, and a system that moments cannot settle, stacks the copies and hands them to the core's plain
solver, which checks its answer against the rows.

`SecondMoments` are the sums of a data set that decide a quadratic loss, gathered in parts so that the data need not be
held. With C the covariance of the features, c theirs with the targets and s the variance of the targets, the mean
quadratic loss at weights W (D x K) and the best bias is  s - 2 <W, c> + <W, C W>.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as la
from scipy import sparse

from mcf_cli.core.corruptions.base import Corruption
from mcf_cli.core.kernels.dispatch import canonical
from mcf_cli.core.problem import Problem, Solution, signed_targets
from mcf_cli.core.solvers import units
from mcf_cli.core.solvers.normal_equations import gram_matrix

MOMENT_FEATURES = 6000  # a D x D matrix of this size takes 288 MB
SAFE_PIVOT, SAFE_LOSS = 1e-5, 1e6  # then rounding in the moments moves the objective by less than 1e-9 of it


class SecondMoments:
    """Sums over everything added so far, of dense rows about the means of the first part.

    About zero the spread of what lies far from it would be lost to rounding.
    """

    def __init__(self) -> None:
        self.parts = self.rows = 0
        self.reference: np.ndarray | None = None
        self.gram: Any = 0.0  # these grow into arrays with the first part
        self.total: Any = 0.0
        self.cross: Any = 0.0
        self.target_total: Any = 0.0
        self.target_squares = 0.0

    def add(self, X: np.ndarray | sparse.spmatrix, targets: np.ndarray) -> None:
        """One more part of the data: N x D features and N x K targets."""
        if not sparse.issparse(X):
            self.reference = X.mean(axis=0) if self.reference is None else self.reference
            X = X - self.reference
        self.gram += gram_matrix(X)
        self.total += np.asarray(X.sum(axis=0)).ravel()
        self.cross += X.T @ targets
        self.target_total += targets.sum(axis=0)
        self.target_squares += float(np.sum(targets**2))
        self.rows += len(targets)
        self.parts += 1

    def centred(self) -> Centred:
        """The covariances of what was added."""
        mean, target_mean = self.total / self.rows, self.target_total / self.rows
        return Centred(
            squares=np.diagonal(self.gram) / self.rows,
            covariance=self.gram / self.rows - np.outer(mean, mean),
            cross=self.cross / self.rows - np.outer(mean, target_mean),
            spread=self.target_squares / self.rows - float(np.sum(target_mean**2)),
            mean=mean if self.reference is None else mean + self.reference,
            target_mean=target_mean,
        )


class Centred:
    """The quadratic loss as a function of the weights alone, the bias always at its best."""

    def __init__(
        self,
        squares: np.ndarray,
        covariance: np.ndarray,
        cross: np.ndarray,
        spread: float,
        mean: np.ndarray,
        target_mean: np.ndarray,
    ) -> None:
        self.squares, self.covariance, self.cross, self.spread = squares, covariance, cross, spread
        self.mean, self.target_mean = mean, target_mean

    def loss_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean loss and its gradient at (D, K) weights."""
        pushed = self.covariance @ weights
        value = self.spread + float(np.sum(weights * (pushed - 2.0 * self.cross)))
        return value, 2.0 * (pushed - self.cross)

    def bias(self, weights: np.ndarray) -> np.ndarray:
        return self.target_mean - self.mean @ weights

    def ridge(self, l2: float) -> np.ndarray | None:
        """The weights that minimise the loss + l2 ||W||^2; None where rounding in the moments may decide them."""
        system = self.covariance + l2 * np.eye(len(self.mean))
        diagonal = np.maximum(np.diagonal(system), 0.0)
        if (self.squares > SAFE_LOSS * diagonal).any():
            return None  # a mean far from zero has taken the digits of the variance
        unit = units(diagonal)[:, None]
        system = unit * system * unit.T
        system[np.diag_indices_from(system)] += (unit == 0.0).ravel()
        try:
            factor = la.cho_factor(system, lower=True, check_finite=False)
        except la.LinAlgError:
            return None
        if np.diagonal(factor[0]).min(initial=1.0) <= SAFE_PIVOT:
            return None
        return unit * la.cho_solve(factor, unit * self.cross, check_finite=False)


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
        self.X = canonical(X)
        self.y = np.asarray(y)
        self.corruption, self.loss, self.seed = corruption, loss, seed
        self.n_classes = n_classes or int(self.y.max()) + 1
        self._moments = SecondMoments()

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
            solution = self._ridge(l2, copies)
            if solution is not None:
                return solution
        problem = Problem(
            self._stacked(copies), np.tile(self.y, copies), loss=self.loss, n_classes=self.n_classes
        )
        return problem.solve(None, l2, start=start, max_iter=max_iter, tol=tol)

    def _ridge(self, l2: float, copies: int) -> Solution | None:
        """The solution from the moments; None where they cannot vouch for it."""
        moments = self._moments_up_to(copies).centred()
        weights = moments.ridge(l2)
        if weights is None:
            return None
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

    def _moments_up_to(self, copies: int) -> SecondMoments:
        if self._moments.parts > copies:
            self._moments = SecondMoments()
        targets = signed_targets(self.y, self.n_classes)
        while self._moments.parts < copies:
            self._moments.add(self.copy(self._moments.parts), targets)
        return self._moments
