"""The exponential loss, and the logistic loss by Jensen's bound: functions of log-MGF sums.

The logistic loss is on the scale of log(1 + e^{-y w.x}).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, guarded_exp
from mcf_cli.core.design.blocks import Block, dot, row_sum
from mcf_cli.core.kernels.dispatch import (
    from_pairwise_margins,
    log_sum_exp,
    pairwise_margins,
    softplus_sigmoid,
)
from mcf_cli.core.losses.base import Batch, BlockResult, Derivatives, MarginLoss, TwiceDifferentiable

BINARY_CODES = np.array([[-1.0], [1.0]])


class Exponential(MarginLoss):
    """e^s with s = sum_d kappa_d(-(W y)_d) - b.y, Eq. final_exp.

    The code y is -1/+1 for two classes; for K it is 1 for the class and -1/(K-1) for the others.
    """

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        if self.binary:
            self.codes = BINARY_CODES
        else:
            self.codes = np.where(np.eye(n_classes, dtype=bool), 1.0, -1.0 / (n_classes - 1))

    @property
    def width(self) -> int:
        return 1

    def margins(self, W: Array, y: int | None) -> Array:
        return W if self.lifted else -(W @ self._codes[y])[:, None]

    def from_margins(self, G: Array, y: int | None) -> Array:
        return G if self.lifted else -G * self._codes[y]

    def squares_from_margins(self, H: Array, y: int | None) -> Array:
        return H if self.lifted else H * self._codes[y] ** 2

    def phi(self, batch: Batch, s: Array) -> tuple[Array, Array]:
        value, slope = guarded_exp(s)
        return value[:, 0], slope.copy() if slope is value else slope

    def respond(self, G: Array, ds: Array) -> Array:
        ds *= G
        return ds

    def stiffness(self, G: Array) -> Array:
        return G

    def widest(self, W: Array) -> Array:
        return np.abs(W @ self._codes.T).max(axis=1)

    def stiffest(self, value: float) -> float:
        return max(value, 1e-20)


class SoftmaxLoss(MarginLoss):
    """A log sum of exponentials of s: the logistic losses. Its gradient is a softmax P."""

    def respond(self, G: Array, ds: Array) -> Array:
        ds *= G
        ds -= G * ds.sum(axis=1, keepdims=True)
        return ds

    def stiffness(self, G: Array) -> Array:
        return G * (1.0 - G)


class PairwiseJensen(SoftmaxLoss):
    """log sum_k e^{l_k}, l_k = sum_d kappa_d(w_dk - w_dy) + b_k - b_y: Jensen's bound, Eq. final_log for K = 2.

    l_y = 0 has no column. e^-loss is a lower bound on E[p(y | x~)], Eq. bayes_net.
    """

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        if self.binary:
            self.codes = BINARY_CODES

    @property
    def width(self) -> int:
        return self.n_classes - 1

    def widest(self, W: Array) -> Array:
        return super().widest(W) if self.binary else np.ptp(W, axis=1)

    def margins(self, W: Array, y: int | None) -> Array:
        if self.lifted:
            return W
        assert y is not None
        if self.binary:
            return -W if y else W
        return pairwise_margins(W, y)

    def from_margins(self, G: Array, y: int | None) -> Array:
        if self.lifted:
            return G
        assert y is not None
        if self.binary:
            return -G if y else G
        return from_pairwise_margins(G, y, -1.0)

    def squares_from_margins(self, H: Array, y: int | None) -> Array:
        if self.binary or self.lifted:
            return H
        assert y is not None
        return from_pairwise_margins(H, y, 1.0)

    def phi(self, batch: Batch, s: Array) -> tuple[Array, Array]:
        if self.binary:
            value, rate = np.empty_like(s), np.empty_like(s)
            softplus_sigmoid(s, value, rate)
            return value[:, 0], rate
        return log_sum_exp(s, with_zero=True)


class SharedJensen(SoftmaxLoss):
    """-(w_y.m + b_y) + log sum_k e^{l_k}, l_k = sum_d kappa_d(w_dk) + b_k: a looser bound with one table for all.

    The part that is linear in the class means is the objective's. Without corruption this is the logistic loss.
    """

    grouped = False
    uses_class_means = True

    def __init__(self, n_classes: int, plain: bool = False):
        super().__init__(n_classes)
        self.shifts = plain

    def margins(self, W: Array, y: int | None) -> Array:
        return W

    def from_margins(self, G: Array, y: int | None) -> Array:
        return G

    def squares_from_margins(self, H: Array, y: int | None) -> Array:
        return H

    def phi(self, batch: Batch, s: Array) -> tuple[Array, Array]:
        return log_sum_exp(s)


class PairwiseGaussian(TwiceDifferentiable):
    """PairwiseJensen of more than two classes where kappa = t x + V t^2 / 2: Gaussian noise, or none.

    Then l_k = (w_k - w_y).x + b_k - b_y + C_yk with C_yk = (w_k - w_y)' V (w_k - w_y) / 2, which depends on the two
    classes alone. All rows share one product with W, and the rest is K x K.
    """

    grouped = False

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        rows = _GaussianRows(batch, W, b)
        return rows.value, *rows.gradient()

    def expand(self, batch: Batch, W: Array, b: Array) -> tuple[float, Callable[[], Derivatives]]:
        rows = _GaussianRows(batch, W, b)
        return rows.value, lambda: (*rows.gradient(), rows.diagonal(), rows)


class _GaussianRows:
    """Rows of all classes at W and b: their losses with both derivatives.

    With M_yk the weight of class y's rows that class k takes, the sum of M_yk C_yk has the gradient V W L and, beside
    what M changes by, the second derivative V . L: L is the Laplacian of M + M'.
    """

    def __init__(self, batch: Batch, W: Array, b: Array):
        self.batch, self.W = batch, W
        self.spread = _variances(batch.block, len(W))
        n, K = len(batch.target), W.shape[1]
        self.member = sp.csr_matrix((np.ones(n), batch.target, np.arange(n + 1)), shape=(n, K))
        s = _scores(batch.block, W)
        s += b
        self.rows = np.arange(n)
        s -= s[self.rows, batch.target][:, None]
        s += (0.5 * self._between(W))[batch.target]
        value, self.P = log_sum_exp(s)
        self.value = dot(batch.weight, value)

    def _between(self, V: Array) -> Array:
        """(w_k - w_y)' V (v_k - v_y) of each pair of classes, K x K."""
        cross = (self.spread * self.W).T @ V
        own = np.diagonal(cross)
        return own[:, None] + own - cross - cross.T

    def _laplacian(self, G: Array) -> Array:
        M = self.member.T @ G
        M += M.T
        L: Array = np.diag(M.sum(axis=1)) - M
        return L

    def gradient(self) -> tuple[Array, Array]:
        """In W and b."""
        G = self.P * self.batch.column
        self.L = self._laplacian(G)
        G[self.rows, self.batch.target] -= self.batch.weight
        g_W = _to_weights(self.batch.block, G, self.W.shape)
        g_W += self.spread * (self.W @ self.L)
        return g_W, row_sum(G)

    def diagonal(self) -> Array:
        """Without what the squares of x + V (w_k - w_y) have twice, and what a class has with itself."""
        W, squares = self.W, np.zeros(self.W.shape)
        stiffness = self.P * (1.0 - self.P) * self.batch.column
        for part, _ in self.batch.block.parts:
            squares[part.columns] = part.squared.adjoint(stiffness)
        of_classes = self.member.T @ stiffness
        apart = W * W * of_classes.sum(axis=0) - 2.0 * W * (W @ of_classes) + (W * W) @ of_classes
        squares += self.spread**2 * apart
        self.bias_diagonal = row_sum(stiffness)
        return squares + self.alone

    @property
    def alone(self) -> Array:
        return self.spread * np.diagonal(self.L)

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        """The second derivative's with a change (V, v_b) of the weights and biases."""
        ds = _scores(self.batch.block, V)
        ds += v_b
        ds += self._between(V)[self.batch.target]
        ds *= self.P
        ds -= self.P * ds.sum(axis=1, keepdims=True)
        ds *= self.batch.column
        image = _to_weights(self.batch.block, ds, V.shape)
        image += self.spread * (self.W @ self._laplacian(ds) + V @ self.L)
        return image, row_sum(ds)


def _variances(block: Block, width: int) -> Array:
    """V of each feature, D x 1."""
    spread = np.zeros((width, 1))
    for part, family in block.parts:
        spread[part.columns, 0] = family.quadratic_variance()
    return spread


def _scores(block: Block, W: Array) -> Array:
    """X W."""
    total: Array = reduce(np.add, [part.product(part.weights(W)) for part, _ in block.parts])
    return total


def _to_weights(block: Block, G: Array, shape: tuple[int, ...]) -> Array:
    """X' G."""
    if len(block.parts) == 1:
        adjoint: Array = block.parts[0][0].adjoint(G)
        return adjoint
    gradient = np.zeros(shape)
    for part, _ in block.parts:
        gradient[part.columns] = part.adjoint(G)
    return gradient
