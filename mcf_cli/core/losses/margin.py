"""The losses: quadratic, exponential and logistic, each marginalised over the corruption.

Every logistic variant is on the scale of log(1 + e^{-y w.x}).
"""

from __future__ import annotations

import numpy as np

from mcf_cli.core.corruptions.base import Array, guarded_exp
from mcf_cli.core.kernels.dispatch import (
    from_pairwise_margins,
    log_sum_exp,
    pairwise_margins,
    softplus_sigmoid,
)
from mcf_cli.core.losses.base import Batch, MarginLoss

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
