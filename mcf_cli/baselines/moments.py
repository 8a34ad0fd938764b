"""The sums of a data set that decide a quadratic loss, gathered in parts so that the data need not be held.

With C the covariance of the features, c theirs with the targets and s the variance of the targets, the mean
quadratic loss at weights W (D x K) and the best bias is  s - 2 <W, c> + <W, C W>.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mcf_cli.core.solvers import solve_symmetric

MOMENT_FEATURES = 6000  # a D x D matrix of this size takes 288 MB
SPARSE_ENOUGH = 0.03  # share of non-zeros up to which a sparse product beats BLAS
BLOCK_ROWS = 4096


def signed_targets(y: np.ndarray, n_classes: int) -> np.ndarray:
    """-1/+1, one column when binary and one a class otherwise, as in the core's quadratic loss."""
    classes = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(np.asarray(y)[:, None] == classes, 1.0, -1.0)


def gram_matrix(X: np.ndarray | sparse.spmatrix) -> np.ndarray:
    """X^T X. A sparse product wins only on really sparse data; pixels go block by block through BLAS."""
    if not sparse.issparse(X):
        return X.T @ X
    if X.nnz <= SPARSE_ENOUGH * X.shape[0] * X.shape[1]:
        return (X.T @ X).toarray()
    blocks = (X[i : i + BLOCK_ROWS].toarray() for i in range(0, X.shape[0], BLOCK_ROWS))
    return sum(block.T @ block for block in blocks)


class Moments:
    """Sums over everything added so far."""

    def __init__(self) -> None:
        self.parts = self.rows = 0
        self.gram: Any = 0.0  # these grow into arrays with the first part
        self.total: Any = 0.0
        self.cross: Any = 0.0
        self.target_total: Any = 0.0
        self.target_squares = 0.0

    def add(self, X: np.ndarray | sparse.spmatrix, targets: np.ndarray) -> None:
        """One more part of the data: N x D features and N x K targets."""
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
            covariance=self.gram / self.rows - np.outer(mean, mean),
            cross=self.cross / self.rows - np.outer(mean, target_mean),
            spread=self.target_squares / self.rows - float(np.sum(target_mean**2)),
            mean=mean,
            target_mean=target_mean,
        )


class Centred:
    """The quadratic loss as a function of the weights alone, the bias always at its best."""

    def __init__(
        self,
        covariance: np.ndarray,
        cross: np.ndarray,
        spread: float,
        mean: np.ndarray,
        target_mean: np.ndarray,
    ) -> None:
        self.covariance, self.cross, self.spread = covariance, cross, spread
        self.mean, self.target_mean = mean, target_mean

    def loss_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean loss and its gradient at (D, K) weights."""
        pushed = self.covariance @ weights
        value = self.spread + float(np.sum(weights * (pushed - 2.0 * self.cross)))
        return value, 2.0 * (pushed - self.cross)

    def bias(self, weights: np.ndarray) -> np.ndarray:
        return self.target_mean - self.mean @ weights

    def ridge(self, l2: float) -> np.ndarray:
        """The weights that minimise the loss + l2 ||W||^2; the shortest ones when l2 = 0 leaves a choice."""
        system = self.covariance + l2 * np.eye(len(self.mean))
        return solve_symmetric(system, self.cross)
