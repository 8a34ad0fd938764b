"""The losses: quadratic, exponential and logistic, each marginalised over the corruption.

Every logistic variant is on the scale of log(1 + e^{-y w.x}).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import softmax

from mcf_cli.core.design import row_sum
from mcf_cli.core.families import Array, guarded_exp
from mcf_cli.core.kernels import (
    from_pairwise_margins,
    log_sum_exp,
    pairwise_margins,
    softplus_sigmoid,
)
from mcf_cli.core.lossbase import Batch, BlockResult, Loss, MarginLoss


class Quadratic(Loss):
    """(w.m + b - y)^2 + w' V w, Eq. final_lls; targets -1/+1, one column a class, or the values of a regression."""

    grouped = False

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        prediction, mean_pullback = batch.block.sums("mean", W)
        variance, variance_pullback = batch.block.sums("variance", W)
        error = prediction + b - batch.target
        weight = batch.weight[:, None]
        G = 2.0 * weight * error
        gradient = mean_pullback(G) + variance_pullback(np.broadcast_to(weight, error.shape))
        return float((weight * (error * error + variance)).sum()), gradient, row_sum(G)


BINARY_CODES = np.array([[-1.0], [1.0]])


class Exponential(MarginLoss):
    """e^s with s = sum_d kappa_d(-(W y)_d) - b.y, Eq. final_exp.

    The code y is -1/+1 for two classes; for K it is 1 for the class and -1/(K-1) for the others.
    """

    spread = 2.0

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        if self.binary:
            self.codes = BINARY_CODES
            self.spread = 1.0
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

    def scale(self, value: float) -> float:
        """Its derivatives are as small as its value, which many classes make tiny: what is left to gain is relative.

        Below 1e-20 it counts as zero: without l2 separable rows have no minimum.
        """
        return float(np.sqrt(np.clip(value, 1e-20, 1.0)))


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

    spread = 2.0

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        if self.binary:
            self.codes, self.spread = BINARY_CODES, 1.0

    @property
    def width(self) -> int:
        return self.n_classes - 1

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

    def margins(self, W: Array, y: int | None) -> Array:
        return W

    def from_margins(self, G: Array, y: int | None) -> Array:
        return G

    def squares_from_margins(self, H: Array, y: int | None) -> Array:
        return H

    def phi(self, batch: Batch, s: Array) -> tuple[Array, Array]:
        return log_sum_exp(s)


class Variational(Loss):
    """The variational bound, Eq. tighter_bound: Jensen's bound about a reference that lambda in [0, 1] moves.

    For any reference r:  E log sum_k e^{w_k.x~} <= r.m + log sum_k E e^{(w_k - r).x~}. Jensen's bound takes
    r = w_y (`pairwise`) or r = 0 (`shared`); here r moves from there to the mean of the other classes' weights
    (`pairwise`, and the paper's bound for two classes) or of all classes' weights (`shared`). For fixed weights
    the bound is convex in lambda, so each example's lambda (or the shared one) is the root of a derivative, and
    by the envelope theorem the gradient holds it fixed.
    """

    spread = 2.0

    def __init__(self, n_classes: int, multiclass: str, shared_lambda: bool):
        super().__init__(n_classes)
        self.from_zero = multiclass == "shared" and not self.binary
        self.shared_lambda = shared_lambda
        self.entrywise = not shared_lambda
        if self.binary:
            self.spread = 1.0
        # Roots and slopes of the last evaluation: the next one is close to them.
        self._recent: WeakKeyDictionary[Any, tuple[Array, Array]] = WeakKeyDictionary()

    @property
    def width(self) -> int:
        return self.n_classes

    def _line(self, y: int) -> tuple[Array, Array, Array]:
        """Maps from class scores: P = scores @ p, Q = scores @ q, and the linear term scores @ (l + lambda q)."""
        K = self.n_classes
        if self.from_zero:
            return np.eye(K), np.full(K, -1.0 / K), np.eye(K)[y]
        start = np.eye(K)[y]
        q = start - (1.0 - start) / (K - 1)
        return np.eye(K) - start[:, None], q, np.zeros(K)

    def _scores(self, W: Array) -> Array:
        return np.concatenate([np.zeros_like(W), W], axis=-1) if self.binary else W

    def settle(self, batches: list[Batch], W: Array, b: Array) -> Any:
        if not self.shared_lambda:
            return None

        def slope(lam: Array) -> Array:
            return np.array(
                [sum(self._slope(batch, W[batch.block.columns], b, float(lam[0])) for batch in batches)]
            )

        return float(self._root(batches[0], slope, 1)[0])

    def _slope(self, batch: Batch, W: Array, b: Array, lam: float) -> float:
        """Derivative in a shared lambda of a block's loss."""
        assert batch.block.label is not None
        p, q, _ = self._line(batch.block.label)
        W, b = self._scores(W), self._scores(b)
        Q = W @ q
        s, pullback = batch.block.sums("log_mgf", W @ p + lam * Q[:, None])
        mean, _ = batch.block.sums("mean", Q[:, None])
        G = log_sum_exp(s + b @ p)[1] * batch.weight[:, None]
        return float(Q @ pullback(G).sum(axis=1) - batch.weight @ mean[:, 0])

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        y, block = batch.block.label, batch.block
        assert y is not None
        p, q, linear = self._line(y)
        W, b = self._scores(W), self._scores(b)
        P, Q, biases = W @ p, W @ q, b @ p
        means, mean_pullback = block.sums("mean", np.column_stack([W @ linear, Q]))
        if settled is None:
            lam = self._best_lambda(batch, P, Q, biases, means[:, 1])
            s, _, pullback = block.log_mgf_along(P, Q, lam)
        else:
            lam = np.full(len(means), settled)
            s, shared_pullback = block.sums("log_mgf", P + settled * Q[:, None])

            def pullback(G: Array) -> tuple[Array, Array]:
                g_P = shared_pullback(G)
                return g_P, settled * g_P.sum(axis=1)

        value, G = log_sum_exp(s + biases)
        value -= means[:, 0] + lam * means[:, 1] + b @ linear
        G *= batch.column
        g_P, g_Q = pullback(G)
        g_means = mean_pullback(-batch.weight[:, None] * np.column_stack([np.ones_like(lam), lam]))
        gradient = g_P @ p.T + np.outer(g_Q + g_means[:, 1], q) + np.outer(g_means[:, 0], linear)
        g_b = p @ row_sum(G) - batch.weight.sum() * linear
        if self.binary:
            gradient, g_b = gradient[:, 1:], g_b[1:]
        return float(batch.weight @ value), gradient, g_b

    def _best_lambda(self, batch: Batch, P: Array, Q: Array, biases: Array, mean: Array) -> Array:
        def derivative(lam: Array) -> Array:
            s, slope, _ = batch.block.log_mgf_along(P, Q, lam)
            return (softmax(s + biases, axis=1) * slope).sum(axis=1) - mean

        return self._root(batch, derivative, len(mean))

    def _root(self, key: Batch, function: Any, n: int) -> Array:
        """The root of each function, sought from where it was last."""
        if key not in self._recent:
            ends = function(np.zeros(n)), function(np.ones(n))
            rate = np.maximum(ends[1] - ends[0], np.finfo(float).tiny)
            with np.errstate(over="ignore"):
                self._recent[key] = np.clip(-ends[0] / rate, 0.0, 1.0), rate
        self._recent[key] = increasing_root(function, *self._recent[key])
        return self._recent[key][0]


def increasing_root(
    function: Any, start: Array, rate: Array, tolerance: float = 1e-7, max_iter: int = 60
) -> tuple[Array, Array]:
    """Elementwise root in [0, 1] of increasing functions, or the end nearer to it; and the functions' slopes there.

    Secant steps from `start` with the slopes `rate`, both of which the last call can give; bisection where a step
    leaves the interval known to hold the root. The last step is within the tolerance, so the root is far closer.
    """
    low, high = np.zeros_like(start), np.ones_like(start)
    root, f = start, function(start)
    for _ in range(max_iter):
        low, high = np.where(f < 0.0, root, low), np.where(f > 0.0, root, high)
        with np.errstate(over="ignore"):
            guess = root - f / rate
        middle = 0.5 * (low + high)
        guess = np.where(guess < low, np.where(low == 0.0, 0.0, middle), guess)
        guess = np.where(guess > high, np.where(high == 1.0, 1.0, middle), guess)
        move = guess - root
        if np.abs(move).max(initial=0.0) <= tolerance:
            return guess, rate
        before, f = f, function(guess)
        moved = np.abs(move) > tolerance
        with np.errstate(over="ignore"):
            secant = (f - before) / np.where(moved, move, 1.0)
        rate = np.where(moved & (secant > 0.0) & np.isfinite(secant), secant, rate)
        root = guess
    return root, rate


class QuadraticApproximation(Loss):
    """Second-order expansion of the log-partition about the mean, Eq. quadratic_approx: not a bound, not convex.

    log sum_k e^{a_k} - a_y + 1/2 sum_{k<l} p_k p_l V[(w_k - w_l).x~] with a = W'm + b; for two classes the last
    term is p(1-p)/2 w'Vw.
    """

    grouped = False

    def __init__(self, n_classes: int):
        super().__init__(n_classes)
        self.first, self.second = np.triu_indices(n_classes, k=1)

    @property
    def width(self) -> int:
        return len(self.first)

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        scores, mean_pullback = batch.block.sums("mean", W)
        scores = scores + b
        differences = W if self.binary else W[:, self.first] - W[:, self.second]
        variance, variance_pullback = batch.block.sums("variance", differences)
        if self.binary:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        rows = np.arange(len(scores))
        own = scores[rows, batch.target].copy()
        value, p = log_sum_exp(scores)
        product = p[:, self.first] * p[:, self.second]
        weighted = 0.5 * product * variance
        penalty = weighted.sum(axis=1)
        # d(p_k p_l)/d a_m = p_k p_l (1[k=m] + 1[l=m] - 2 p_m)
        G = p - 2.0 * p * penalty[:, None]
        np.add.at(G.T, self.first, weighted.T)
        np.add.at(G.T, self.second, weighted.T)
        G[rows, batch.target] -= 1.0
        G *= batch.column
        if self.binary:
            G = G[:, 1:]
        gradient = mean_pullback(G)
        share = variance_pullback(0.5 * batch.weight[:, None] * product)
        if self.binary:
            gradient += share
        else:
            np.add.at(gradient.T, self.first, share.T)
            np.subtract.at(gradient.T, self.second, share.T)
        return float(batch.weight @ (value - own + penalty)), gradient, row_sum(G)


LOSSES = ("quadratic", "exponential", "logistic")
SURROGATES = ("jensen", "variational", "quadratic")
MULTICLASS = ("pairwise", "shared")


def make_loss(
    loss: str,
    n_classes: int,
    surrogate: str,
    multiclass: str,
    shared_lambda: bool,
) -> Loss:
    """The loss by its names; ValueError lists the names there are."""
    for name, value, known in (
        ("loss", loss, LOSSES),
        ("surrogate", surrogate, SURROGATES),
        ("multiclass", multiclass, MULTICLASS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not known; give one of {', '.join(known)}")
    if loss == "quadratic":
        return Quadratic(n_classes)
    if loss == "exponential":
        return Exponential(n_classes)
    if surrogate == "variational":
        return Variational(n_classes, multiclass, shared_lambda)
    if surrogate == "quadratic":
        return QuadraticApproximation(n_classes)
    return SharedJensen(n_classes) if multiclass == "shared" and n_classes > 2 else PairwiseJensen(n_classes)
