"""Losses that need only means and variances: the quadratic loss, and the quadratic approximation of the logistic."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.blocks import row_sum
from mcf_cli.core.kernels.dispatch import log_sum_exp
from mcf_cli.core.losses.base import Batch, BlockResult, Loss


class Quadratic(Loss):
    """(w.m + b - y)^2 + w' V w, Eq. final_lls; targets -1/+1, one column per class, or the values of a regression."""

    grouped = False

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        prediction, mean_pullback = batch.block.sums("mean", W)
        variance, variance_pullback = batch.block.sums("variance", W)
        error = prediction + b - batch.target
        weight = batch.weight[:, None]
        G = 2.0 * weight * error
        gradient = mean_pullback(G) + variance_pullback(np.broadcast_to(weight, error.shape))
        return float((weight * (error * error + variance)).sum()), gradient, row_sum(G)


class QuadraticApproximation(Loss):
    """Second-order expansion of the log-partition about the mean, Eq. quadratic_approx: not a bound, not convex.

    log sum_k e^{a_k} - a_y + 1/2 sum_{k<l} p_k p_l V[(w_k - w_l).x~] with a = W'm + b; for two classes the last
    term is p(1-p)/2 w'Vw. The pairs of classes come a few at a time: memory does not grow with their number.
    """

    grouped = False
    _AT_A_TIME = 64  # pairs of classes

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        self.first, self.second = np.triu_indices(n_classes, k=1)

    @property
    def width(self) -> int:
        return min(len(self.first), self._AT_A_TIME)

    def widest(self, W: Array) -> Array:
        """Means and variances exist at any weights."""
        return np.zeros(len(W))

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        scores, mean_pullback = batch.block.sums("mean", W)
        scores = scores + b
        if self.binary:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        rows = np.arange(len(scores))
        own = scores[rows, batch.target].copy()
        value, p = log_sum_exp(scores)
        weighted, share = self._spread(batch, W, p)
        penalty = 0.5 * weighted.sum(axis=1)  # each pair stands in the columns of its two classes
        # d(p_k p_l)/d a_m = p_k p_l (1[k=m] + 1[l=m] - 2 p_m)
        G = p - 2.0 * p * penalty[:, None] + weighted
        G[rows, batch.target] -= 1.0
        G *= batch.column
        if self.binary:
            G = G[:, 1:]
        return float(batch.weight @ (value - own + penalty)), mean_pullback(G) + share, row_sum(G)

    def _spread(self, batch: Batch, W: Array, p: Array) -> tuple[Array, Array]:
        """1/2 p_k p_l V[(w_k - w_l).x~] summed over l for each k (n x K), and the gradient of all pairs in W."""
        weighted, gradient = np.zeros_like(p), np.zeros_like(W)
        for start in range(0, len(self.first), self._AT_A_TIME):
            first, second = (side[start : start + self._AT_A_TIME] for side in (self.first, self.second))
            variance, pullback = batch.block.sums(
                "variance", W if self.binary else W[:, first] - W[:, second]
            )
            product = 0.5 * p[:, first] * p[:, second]
            share = pullback(batch.weight[:, None] * product)
            product *= variance
            np.add.at(weighted.T, first, product.T)
            np.add.at(weighted.T, second, product.T)
            if self.binary:
                return weighted, share
            np.add.at(gradient.T, first, share.T)
            np.subtract.at(gradient.T, second, share.T)
        return weighted, gradient
