"""The losses: quadratic, exponential and logistic, each marginalised over the corruption.

Every logistic variant is on the scale of log(1 + e^{-y w.x}).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.blocks import row_sum
from mcf_cli.core.kernels.dispatch import log_sum_exp
from mcf_cli.core.losses.base import Batch, BlockResult, Loss


class Variational(Loss):
    """The variational bound, Eq. tighter_bound: Jensen's bound about a reference that lambda in [0, 1] moves.

    For any reference r:  E log sum_k e^{w_k.x~} <= r.m + log sum_k E e^{(w_k - r).x~}. Jensen's bound takes
    r = w_y (`pairwise`) or r = 0 (`shared`); here r moves from there to the mean of the other classes' weights
    (`pairwise`, and the paper's bound for two classes) or of all classes' weights (`shared`). For fixed weights
    the bound is convex in lambda, so each example's lambda (or the shared one) is the root of a derivative, and
    by the envelope theorem the gradient holds it fixed.
    """

    def __init__(self, n_classes: int, multiclass: str, shared_lambda: bool):
        super().__init__(n_classes)
        self.from_zero = multiclass == "shared" and not self.binary
        self.shared_lambda = shared_lambda
        self.entrywise = not shared_lambda
        # Roots and slopes of the last evaluation: the next one is close to them.
        self._recent: WeakKeyDictionary[Any, tuple[Array, Array]] = WeakKeyDictionary()

    @property
    def width(self) -> int:
        return self.n_classes

    def widest(self, W: Array) -> Array:
        return super().widest(W) if self.binary else np.maximum(super().widest(W), np.ptp(W, axis=1))

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
        own = [W[batch.block.columns] for batch in batches]
        pull = sum(self._pull(batch, V) for batch, V in zip(batches, own, strict=True))

        def slope(lam: Array) -> Array:
            pushes = (self._push(batch, V, b, float(lam[0])) for batch, V in zip(batches, own, strict=True))
            return np.array([sum(pushes) - pull])

        return float(self._root(batches[0], slope, np.array([pull]))[0])

    def _pull(self, batch: Batch, W: Array) -> float:
        """The part of the derivative in a shared lambda that does not depend on it, subtracted."""
        assert batch.block.label is not None
        Q = self._scores(W) @ self._line(batch.block.label)[1]
        return float(batch.weight @ batch.block.sums("mean", Q[:, None])[0][:, 0])

    def _push(self, batch: Batch, W: Array, b: Array, lam: float) -> float:
        """The other part."""
        assert batch.block.label is not None
        p, q, _ = self._line(batch.block.label)
        W, b = self._scores(W), self._scores(b)
        Q = W @ q
        s, pullback = batch.block.sums("log_mgf", W @ p + lam * Q[:, None])
        G = log_sum_exp(s + b @ p)[1] * batch.weight[:, None]
        return float(Q @ pullback(G).sum(axis=1))

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        y, block = batch.block.label, batch.block
        assert y is not None
        p, q, linear = self._line(y)
        W, b = self._scores(W), self._scores(b)
        P, Q, biases = W @ p, W @ q, b @ p
        means, mean_pullback = block.sums("mean", np.column_stack([W @ linear, Q]))
        if settled is None:
            lam, s, pullback = self._best_lambda(batch, P, Q, biases, means[:, 1])
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

    def _best_lambda(
        self, batch: Batch, P: Array, Q: Array, biases: Array, mean: Array
    ) -> tuple[Array, Array, Any]:
        """Each example's lambda, with its log-MGF sums and their pullback."""
        latest: list[Any] = []
        line = batch.block.log_mgf_along(P, Q)

        def derivative(lam: Array) -> Array:
            s, slope, pullback = line(lam)
            latest[:] = s, pullback
            return np.einsum("nk,nk->n", log_sum_exp(s + biases)[1], slope) - mean

        return self._root(batch, derivative, mean), *latest  # the root is where it was last evaluated

    def _root(self, key: Batch, function: Any, size: Array) -> Array:
        """The root of each function, sought from where it was last; `size`: what the functions are differences of."""
        n = len(size)
        if key not in self._recent:
            ends = function(np.zeros(n)), function(np.ones(n))
            rate = np.maximum(ends[1] - ends[0], np.finfo(float).tiny)
            with np.errstate(over="ignore"):
                self._recent[key] = np.clip(-ends[0] / rate, 0.0, 1.0), rate
        self._recent[key] = increasing_root(function, *self._recent[key], 1e-12 * (1.0 + np.abs(size)))
        return self._recent[key][0]


def increasing_root(
    function: Any, start: Array, rate: Array, negligible: Array, max_iter: int = 200
) -> tuple[Array, Array]:
    """Elementwise root in [0, 1] of increasing functions, or the end nearer to it; and the functions' slopes there.

    Secant steps from `start` with the slopes `rate`, both of which the last call can give; bisection where a step
    leaves the interval known to hold the root, or where four steps did not halve it. It ends where the integral of
    each function can fall by no more than `negligible` on the way to its root: a short step alone proves nothing,
    because at large weights the functions are steep in one place and flat elsewhere.
    """
    low, high = np.zeros_like(start), np.ones_like(start)
    root, f, width = start, function(start), np.ones_like(start)
    for n in range(max_iter):
        low, high = np.where(f < 0.0, root, low), np.where(f > 0.0, root, high)
        middle = 0.5 * (low + high)
        left = np.abs(f) * np.where(f < 0.0, high - root, root - low)
        done = (left <= negligible) | (middle == low) | (middle == high)
        if done.all():
            break
        with np.errstate(over="ignore"):
            guess = root - f / rate
        guess = np.where(guess < low, np.where(low == 0.0, 0.0, middle), guess)
        guess = np.where(guess > high, np.where(high == 1.0, 1.0, middle), guess)
        if n % 4 == 3:
            guess = np.where(high - low > 0.5 * width, middle, guess)
            width = high - low
        guess = np.where(done, root, guess)
        move, before, f = guess - root, f, function(guess)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            secant = (f - before) / move
        rate = np.where((secant > 0.0) & np.isfinite(secant), secant, rate)
        root = guess
    return root, rate
