"""The expected logistic loss of two classes without a bound: exact, and for a score that is taken as normal.

E log(1 + e^{-yz}) = E log(1 + e^z) - E[z] for y = +1 and E log(1 + e^z) for y = -1, so labels stand in a term that is
linear in the mean of the score alone. The objective has that term (`class_means`); what is here needs no labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.corruptions.characteristic import as_complex, as_pairs, log_cf_table
from mcf_cli.core.design.blocks import Block, dot, row_sum
from mcf_cli.core.kernels.dispatch import softplus_sigmoid
from mcf_cli.core.losses.base import Batch, BlockResult, Loss
from mcf_cli.core.losses.quadratic import QuadraticApproximation

_NEGLIGIBLE = 33.0  # e^-33 = 5e-15 is what the quadrature may leave out
_LAST_NODE = 10.5  # 1 / sinh(pi t) is 1e-14 there
LONGEST = 4096.0  # what scores may reach in a fit
_AT_A_TIME = 16  # nodes, for the cache and the memory


class ExpectedLoss(Loss):
    """E log(1 + e^z) - y01 E[z] for two classes, y01 in {0, 1}; `value_slopes` makes the loss."""

    grouped = False
    uses_class_means = True
    surrogate = ""

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        if not self.binary:
            raise ValueError(
                f"Only binary classification is supported by surrogate={self.surrogate!r}, and y has {n_classes} "
                "classes; use 'jensen', 'variational' or 'quadratic'"
            )

    def widest(self, W: Array) -> Array:
        """Expected losses exist at any weights."""
        return np.zeros(len(W))

    @abstractmethod
    def values(self, batch: Batch, W: Array, b: Array) -> Array:
        """E log(1 + e^z) of each row."""


class Exact(ExpectedLoss):
    """E log(1 + e^z) by the characteristic function phi(t) = E e^{itz} = exp(i t b + sum_d kappa_d(i t w_d)).

    log(1 + e^z) = z/2 + log 2 + int_0^inf (1 - cos tz) / (t sinh(pi t)) dt, so the expectation needs Re phi alone.
    The midpoint rule with step h replaces |z| / 2 for large |z| by a wave that turns at 2 pi / h. The step is chosen
    anew at every point such that what lies beyond weighs less than 1e-14, by Chernoff's bound (`reach`): with a fixed
    step an optimiser finds the weights at which the wave is low. Convex in w.

    Where scores reach beyond 4,096, tau log(1 + e^{z / tau}) stands in, which exceeds the loss by at most tau log 2:
    no minimum lies there, but a line search may pass by.
    """

    surrogate = "exact"

    @property
    def width(self) -> int:
        return 2 * _AT_A_TIME

    def values(self, batch: Batch, W: Array, b: Array) -> Array:
        total = np.log(2.0) + 0.5 * (batch.block.sums("mean", W)[0][:, 0] + b[0])
        for node in nodes(batch.block, W, b, reach(batch.block, W, b)):
            total += (1.0 - node.phi.real) @ node.share
        return total

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        far = reach(batch.block, W, b)
        if far <= LONGEST:
            return self._within(batch, W, b, far)
        tau = far / LONGEST
        value, g_W, g_b = self._within(batch, W / tau, b / tau, LONGEST + _NEGLIGIBLE)
        return tau * value, g_W, g_b

    def _within(self, batch: Batch, W: Array, b: Array, far: float) -> BlockResult:
        mean, mean_pullback = batch.block.sums("mean", W)
        half = 0.5 * batch.weight
        value = np.log(2.0) + 0.5 * (mean[:, 0] + b[0])
        gradient, g_b = mean_pullback(half[:, None]), float(half.sum())
        for node in nodes(batch.block, W, b, far):
            value += (1.0 - node.phi.real) @ node.share
            G = node.phi * (batch.weight[:, None] * -node.share)
            gradient[:, 0] += (node.pullback(G) @ node.t).real
            g_b -= float(row_sum(as_pairs(G))[1::2] @ node.t)
        return dot(batch.weight, value), gradient, np.array([g_b])


class GaussianScore(ExpectedLoss):
    """E log(1 + e^z) for z ~ N(w.m + b, w'Vw): the first two moments of the corruption. Convex in w.

    With s^2 = w'Vw the derivatives are E sigma(z) in the mean and E sigma'(z) / 2 in s^2. Many features make the score
    nearly normal, and then this is nearly `Exact`; it is no bound.
    """

    surrogate = "gaussian"

    def values(self, batch: Batch, W: Array, b: Array) -> Array:
        mean, variance = (batch.block.sums(what, W)[0][:, 0] for what in ("mean", "variance"))
        return normal_softplus(mean + b[0], variance)[0]

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        mean, mean_pullback = batch.block.sums("mean", W)
        variance, variance_pullback = batch.block.sums("variance", W)
        value, slope, curvature = normal_softplus(mean[:, 0] + b[0], variance[:, 0])
        slope *= batch.weight
        curvature *= 0.5 * batch.weight
        gradient = mean_pullback(slope[:, None]) + variance_pullback(curvature[:, None])
        return dot(batch.weight, value), gradient, np.array([slope.sum()])


class Decomposed(Loss):
    """A logistic loss as its plain part and a regulariser that needs no labels: rows without labels can join it.

    With A(z) = log(1 + e^z), y01 in {0, 1} and the mean score z_n = w.m_n + b, the expected loss of two classes is

        E A(z~_n) - y01_n z_n  =  [A(z_n) - y01_n z_n]  +  [E A(z~_n) - A(z_n)]

    The first bracket is the plain logistic loss at the mean of the corrupted row. The second, which is never negative
    for the true expectation, knows no label: it is large where corruption moves a score that is near the boundary.
    Minimised is the mean of the first over rows with labels, plus the mean of the second over all rows. Not convex.
    """

    grouped = False
    uses_class_means = True

    def __init__(self, inner: Loss):
        if not isinstance(inner, ExpectedLoss | QuadraticApproximation):
            raise ValueError(
                "X_unlabeled works only with loss='logistic' and surrogate='gaussian', 'exact' or 'quadratic'"
            )
        if not inner.binary:
            raise ValueError(
                f"Only binary classification is supported with X_unlabeled; y has {inner.n_classes} classes"
            )
        super().__init__(inner.n_classes)
        self.inner = inner

    @property
    def width(self) -> int:
        return self.inner.width

    def widest(self, W: Array) -> Array:
        return self.inner.widest(W)

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        assert batch.plain is not None
        value, g_W, g_b = self.inner.on_block(batch, W, b, settled)
        mean, pullback = batch.block.sums("mean", W)
        partition, p = np.empty_like(mean), np.empty_like(mean)
        softplus_sigmoid(mean + b, partition, p)
        p[:, 0] *= batch.plain
        return value + dot(batch.plain, partition[:, 0]), g_W + pullback(p), g_b + p.sum()


# -- the score's characteristic function ----------------------------------------------------------------------------
class Nodes:
    """phi (rows x nodes) at some nodes t, the weights of 1 - Re phi there, and the pullback to T = t w."""

    def __init__(self, block: Block, W: Array, b: Array, t: Array, step: float):
        self.t, self.share = t, step / (t * np.sinh(np.pi * t))
        T = W * t
        total: Any = as_pairs(1j * t * b[0])
        self._pullbacks = []
        for part, family in block.parts:
            base, table, pullback = log_cf_table(family, part.weights(T), part.pairs)
            total = total + base + part.product(table)
            self._pullbacks.append((part, pullback))
        self._shape = T.shape
        log_phi = as_complex(total)
        self.phi = np.exp(log_phi)

    def pullback(self, G: Array) -> Array:
        """The gradient of sum(G * log phi) in T = t w, complex, D x nodes."""
        gradient, G = np.zeros(self._shape, dtype=complex), as_pairs(G)
        for part, pullback in self._pullbacks:
            gradient[part.columns] = part.to_weights(pullback(part.adjoint(G), row_sum(G)))
        return gradient


def nodes(block: Block, W: Array, b: Array, far: float) -> Iterator[Nodes]:
    """All nodes of the midpoint rule for scores of a block that stay within `far`, some at a time."""
    step = 2.0 * np.pi / far
    t = step * (np.arange(int(np.ceil(_LAST_NODE / step))) + 0.5)
    for start in range(0, len(t), _AT_A_TIME):
        yield Nodes(block, W, b, t[start : start + _AT_A_TIME], step)


def reach(block: Block, W: Array, b: Array) -> float:
    """An L with E e^{-(L - |z|)}, and E |z| beyond L, below e^-33 for the score z of every row.

    Both are at most (2 / s) E e^{s (|z| - L)} for any s in (0, 1], and E e^{s |z|} <= E e^{sz} + E e^{-sz}, which the
    log-MGF knows. The best s among powers of 1/2 is within 6% of the best of all.
    """
    s, best = min(1.0, _within_limits(block, W)), np.inf
    while True:
        up, down = (sign * s * b[0] + block.sums("log_mgf", sign * s * W)[0] for sign in (1.0, -1.0))
        found = (float(np.logaddexp(up, down).max(initial=0.0)) + _NEGLIGIBLE + np.log(2.0 / s)) / s
        if not found < best:
            return best
        best, s = found, 0.5 * s


def reaches(block: Block, W: Array, b: Array) -> Array:
    """`reach` of each row of a block on its own."""
    s, best = min(1.0, _within_limits(block, W)), np.inf
    while True:
        up, down = (sign * s * b[0] + block.sums("log_mgf", sign * s * W)[0][:, 0] for sign in (1.0, -1.0))
        found = (np.logaddexp(up, down) + _NEGLIGIBLE + np.log(2.0 / s)) / s
        if not (found < best).any():
            return np.asarray(best)
        best, s = np.fmin(best, found), 0.5 * s


def certain_sigmoid(block: Block, W: Array, b: Array, tolerance: float) -> Array:
    """E sigma(z) of the rows whose score has one sign as good as surely: 0 or 1, within the tolerance; NaN elsewhere.

    sigma(z) <= e^{sz} for any s in (0, 1], so E sigma(z) <= E e^{sz}, and 1 - E sigma(z) <= E e^{-sz}.
    """
    s, log_share = min(1.0, _within_limits(block, W)), np.inf
    for _ in range(50):
        signed = [sign * s * b[0] + block.sums("log_mgf", sign * s * W)[0] for sign in (1.0, -1.0)]
        log_share, s = np.fmin(log_share, np.concatenate(signed, axis=1)), 0.5 * s
    low, high = (np.asarray(log_share) <= np.log(tolerance)).T
    return np.where(low, 0.0, np.where(high, 1.0, np.nan))


def _within_limits(block: Block, W: Array) -> float:
    """Half of the largest s at which the log-MGF exists at s w."""
    widest = np.inf
    for part, family in block.parts:
        with np.errstate(divide="ignore"):
            share = np.asarray(family.weight_limit()) / np.abs(W[part.columns, 0])
        widest = min(widest, 0.5 * float(share.min(initial=np.inf)))
    return widest


def mean_sigmoid_at(block: Block, W: Array, b: Array) -> Array:
    """E sigma(z) = 1/2 + int_0^inf Im phi / sinh(pi t) dt of each row, to 1e-12."""
    total = np.full(len(block.sums("mean", W)[0]), 0.5)
    for node in nodes(block, W, b, reach(block, W, b)):
        total += node.phi.imag @ (node.share * node.t)
    return np.clip(total, 0.0, 1.0)


# -- a normal score -------------------------------------------------------------------------------------------------
_STANDARD = np.arange(-9.0, 9.125, 0.25)  # where the spread is small: nodes of a standard normal variable
_LOGISTIC = np.arange(-38.0, 38.25, 0.5)  # where it is large: nodes of a logistic one


def normal_softplus(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """E log(1 + e^z), E sigma(z) and E sigma'(z) for z ~ N(mean, variance), each to 1e-13 at any variance.

    log(1 + e^z) is the mean of max(z - L, 0) over a logistic variable L, so the expectation can be taken over either
    variable first. The one integrand is smooth where the spread is small, the other where it is large, and the
    trapezoidal rule on a smooth integrand that vanishes at both ends errs by e^-39 at these steps.
    """
    result = np.empty((3, len(mean)))
    small = variance <= 1.0
    for chosen, integrate in ((small, _over_normal), (~small, _over_logistic)):
        rows = np.flatnonzero(chosen)
        for start in range(0, len(rows), 4096):
            own = rows[start : start + 4096]
            result[:, own] = integrate(mean[own, None], np.sqrt(variance[own, None]))
    return result[0], result[1], result[2]


def _over_normal(mean: Array, spread: Array) -> Array:
    weights = np.exp(-0.5 * _STANDARD**2)
    weights /= weights.sum()
    z = mean + spread * _STANDARD
    p = expit(z)
    return np.array([np.logaddexp(0.0, z) @ weights, p @ weights, (p * expit(-z)) @ weights])


def _over_logistic(mean: Array, spread: Array) -> Array:
    weights = expit(_LOGISTIC) * expit(-_LOGISTIC)
    weights /= weights.sum()
    u = (mean - _LOGISTIC) / spread
    below, density = ndtr(u), np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    return np.array(
        [(spread * (u * below + density)) @ weights, below @ weights, (density / spread) @ weights]
    )
