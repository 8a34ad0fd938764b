"""The variational bound on the expected logistic loss: by a lambda of each example, or one for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.blocks import dot, row_sum
from mcf_cli.core.design.coding import FanCurvature
from mcf_cli.core.design.lines import Ends, Fan, RowMatrix, bend_diagonal, bent, twice
from mcf_cli.core.kernels.dispatch import log_sum_exp
from mcf_cli.core.losses.base import Batch, BlockResult, Derivatives, TwiceDifferentiable

_ROOM = 1 << 26  # numbers that Newton's method may keep for all rows


class Variational(TwiceDifferentiable):
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
        self.shifts = not self.from_zero
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

    def differentiates(self, batch: Batch) -> bool:
        """A lambda of each example, and features that are corrupted one by one (or cells)."""
        return not self.shared_lambda and not any(f.couples for _, f in batch.block.parts)

    def affords(self, batches: list[Batch]) -> bool:
        """Whether there is room for the slopes of all entries that Newton's method keeps for several classes."""
        if self.binary or not super().affords(batches):
            return super().affords(batches)
        return self.n_classes * sum(_entries_of(batch) for batch in batches) <= _ROOM

    def expand(self, batch: Batch, W: Array, b: Array) -> tuple[float, Callable[[], Derivatives]]:
        rows = self._settled_rows(batch, W, b)

        def derivatives() -> Derivatives:
            g_W, g_b = rows.gradient()
            hessian = rows.second_derivative()
            return g_W, g_b, hessian.diagonal, hessian

        return dot(batch.weight, rows.value), derivatives

    def _settled_rows(self, batch: Batch, W: Array, b: Array) -> _Rows | _ManyRows:
        """The rows of a block at the minimum over lambda."""
        if not self.binary:
            return self._settled_fan(batch, W, b)
        sign = 1.0 if batch.block.label else -1.0
        ends, bias = Ends(batch.block, sign * W[:, 0]), sign * float(b[0])

        def slope(lam: Array) -> Array:
            s, first, _ = ends.at(lam)
            return np.einsum("nk,nk->n", _softmax(s, lam, bias)[1], first) - ends.mean

        start = self._recent[batch][0] if batch in self._recent else np.full(len(ends.mean), 0.5)
        lam = ends.root(start, bias)
        if lam is None:
            lam = self._root(batch, slope, ends.mean)
        else:
            self._recent[batch] = lam, np.ones_like(lam)
        return _Rows(batch, sign, bias, ends, lam)

    def _settled_fan(self, batch: Batch, W: Array, b: Array) -> _ManyRows:
        """The same for more than two classes."""
        assert batch.block.label is not None
        p, q, linear = self._line(batch.block.label)
        fan, biases = Fan(batch.block, W @ p, W @ q), b @ p
        start = self._recent[batch][0] if batch in self._recent else np.full(len(fan.mean), 0.5)
        found = fan.settled(biases, start)
        if found is not None:
            self._recent[batch] = found[0], np.ones_like(found[0])
            return _ManyRows(batch, (p, q, linear), W, b, fan, *found)
        held: list[Any] = []

        def slope(lam: Array) -> Array:
            held[:] = lam, fan.at(lam)
            return np.einsum("nk,nk->n", log_sum_exp(held[1][0] + biases)[1], held[1][1]) - fan.mean

        self._root(batch, slope, fan.mean)  # the root is where it was last evaluated
        return _ManyRows(batch, (p, q, linear), W, b, fan, *held)

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        if self.differentiates(batch):
            rows = self._settled_rows(batch, W, b)
            return dot(batch.weight, rows.value), *rows.gradient()
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


def _softmax(s: Array, lam: Array, bias: float) -> tuple[Array, Array]:
    """The log sum of both ends with the bias, which is a feature of value 1, and their shares."""
    return log_sum_exp(s + bias * np.column_stack([lam - 1.0, lam]))


class _Rows:
    """Rows of one class at the weights w = y W and their lambda, with all derivatives of their bounds F.

    With pi the shares of the ends c = (lam - 1, lam), primes for derivatives in t and a = c_1 kappa'_1 - c_0 kappa'_0:

        F_w      = sum_k pi_k c_k kappa'_k - lam m           F_ww = diag(sum_k pi_k c_k^2 kappa''_k) + pi_0 pi_1 a a'
        F_lam    = sum_k pi_k s'_k - w.m                     F_lam,lam = sum_k pi_k s''_k + pi_0 pi_1 (s'_1 - s'_0)^2
        F_w,lam  = sum_k pi_k (kappa'_k + c_k w kappa''_k) + pi_0 pi_1 (s'_1 - s'_0) a - m

    Where lambda is inside [0, 1] it follows the weights, so that the second derivative of the minimum is
    F_ww - F_w,lam F_lam,w / F_lam,lam.
    """

    def __init__(self, batch: Batch, sign: float, bias: float, ends: Ends, lam: Array):
        self.batch, self.sign, self.ends, self.lam = batch, sign, ends, lam
        s, self.first, self.second = ends.at(lam)
        self.value, self.shares = _softmax(s, lam, bias)
        self.value -= lam * (ends.mean + bias)
        self.c = np.column_stack([lam - 1.0, lam])

    def gradient(self) -> tuple[Array, Array]:
        """In W and b."""
        weight, nothing = self.batch.weight, np.zeros_like(self.c)
        slopes = self.ends.matrix(self.shares * self.c, nothing, -self.lam)
        of_bias = np.einsum("nk,nk->n", self.shares, self.c) - self.lam
        return self.sign * slopes.adjoint(weight)[:, None], np.array([self.sign * dot(weight, of_bias)])

    def second_derivative(self) -> _SecondDerivative:
        weight, nothing = self.batch.weight, np.zeros_like(self.c)
        apart = self.first[:, 1] - self.first[:, 0]
        both = self.shares[:, 0] * self.shares[:, 1]
        outward = self.c * np.array([-1.0, 1.0])
        a = self.ends.matrix(outward, nothing, np.zeros_like(both))
        mixed = self.shares + (both * apart)[:, None] * outward
        m = self.ends.matrix(mixed, self.shares * self.c, -np.ones_like(both))
        bends = self.ends.bends(weight[:, None] * self.shares * self.c**2)
        curvature = np.einsum("nk,nk->n", self.shares, self.second) + both * apart**2
        follows = (self.lam > 0.0) & (self.lam < 1.0) & (curvature > 0.0)
        give = np.divide(weight, curvature, out=np.zeros_like(weight), where=follows)
        return _SecondDerivative(self.batch, bends, a, weight * both, m, give, both * apart)


@dataclass(frozen=True)
class _SecondDerivative:
    """bends + sum_n a_n a_n' stiff_n - m_n m_n' give_n."""

    batch: Batch
    bends: list[tuple[Any, Array]]
    a: RowMatrix
    stiff: Array
    m: RowMatrix
    give: Array
    m_bias: Array  # the entry of m for the bias; that of a is 1

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        v, bias = V[:, 0], float(v_b[0])
        image, of_bias = twice(self.a, self.stiff, self.m, self.give, self.m_bias, v, bias)
        return (image + bent(self.bends, v))[:, None], np.array([of_bias])

    @property
    def alone(self) -> Array:
        return bend_diagonal(self.bends, self.a.width)[:, None]

    @property
    def diagonal(self) -> Array:
        """Of its first two terms, the second derivative at fixed lambda: a preconditioner must not be below zero."""
        return self.alone + self.a.squares(self.stiff)[:, None]

    @property
    def bias_diagonal(self) -> Array:
        return np.array([self.stiff.sum()])


def _entries_of(batch: Batch) -> int:
    """How many slopes an end of all rows of a block has."""
    quadratic = all(family.quadratic_variance() is not None for _, family in batch.block.parts)
    return 0 if quadratic else sum(len(part.entries.value) for part, _ in batch.block.parts)


class _ManyRows:
    """Rows of one class of several at their lambda, with all derivatives of their bounds F.

    With P = W p and Q = W q, pi the shares of the ends, s their sums and s' the derivatives in lambda, s'* their mean:

        F_lam V  = sum_k pi_k ((s'_k - s'*) ds_k + Q kappa''_k dT_k + kappa'_k V_Q) - m V_Q     dT_k = V_Pk + lam V_Q
        F_lam,lam = sum_k pi_k (s''_k + s'_k^2) - s'*^2                                         ds_k = kappa'_k dT_k

    The second derivative is that at fixed lambda less F_lam F_lam' / F_lam,lam, where lambda is inside [0, 1].
    """

    def __init__(
        self, batch: Batch, line: tuple[Array, ...], W: Array, b: Array, fan: Fan, lam: Array, sums: Any
    ):
        self.batch, (self.p, self.q, self.linear), self.fan, self.lam = batch, line, fan, lam
        s, self.first, self.second = sums
        self.value, self.share = log_sum_exp(s + b @ self.p)
        of_linear, self._of_linear = batch.block.sums("mean", (W @ self.linear)[:, None])
        self.value -= lam * fan.mean + of_linear[:, 0] + b @ self.linear

    def gradient(self) -> tuple[Array, Array]:
        """In W and b."""
        weight, g = self.batch.weight, self.share * self.batch.column
        g_W = self._to_weights(*self.fan.adjoint(g, np.zeros_like(g), -weight * self.lam))
        if self.linear.any():
            g_W += np.outer(self._of_linear(-weight[:, None])[:, 0], self.linear)
        return g_W, self.p @ g.sum(axis=0) - weight.sum() * self.linear

    def _to_weights(self, g_P: Array, g_Q: Array) -> Array:
        gradient: Array = g_P @ self.p.T + np.outer(g_Q, self.q)
        return gradient

    def second_derivative(self) -> _ManyRows:
        """These rows, which then know `product` and the diagonals."""
        weight, share = self.batch.weight, self.share
        apart = self.first - (share * self.first).sum(axis=1, keepdims=True)
        curvature = (share * (self.second + self.first * apart)).sum(axis=1)
        follows = (self.lam > 0.0) & (self.lam < 1.0) & (curvature > 0.0)
        give = np.divide(weight, curvature, out=np.zeros_like(weight), where=follows)
        self.at = FanCurvature(share, apart, weight, give)
        self.bends, self.stiff = (
            self.fan.powers(share * self.batch.column, bent=True),
            share * (1.0 - share) * self.batch.column,
        )
        return self

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        V_P, V_Q = V @ self.p, V @ self.q
        g_P, g_Q, g_b = self.fan.product(V_P, V_Q, v_b @ self.p, self.at)
        for part, (once, by_lam, by_square) in self.bends:
            own_P, own_Q = part.weights(V_P), part.weights(V_Q)
            g_P[part.columns] += part.to_weights(once * own_P + by_lam * own_Q[:, None])
            g_Q[part.columns] += part.to_weights((by_lam * own_P).sum(axis=1) + by_square.sum(axis=1) * own_Q)
        return self._to_weights(g_P, g_Q), self.p @ g_b

    def _diagonal(self, powers: list[tuple[Any, Array]]) -> Array:
        """Of sums over k of (V_Pk + lam V_Q)^2, given the sums with lam^0, lam and lam^2."""
        total = np.zeros((self.fan.shape[0], len(self.p)))
        for part, (once, by_lam, by_square) in powers:
            own = once @ (self.p**2).T + 2.0 * self.q * (by_lam @ self.p.T)
            own += np.outer(by_square.sum(axis=1), self.q**2)
            total[part.columns] = part.to_weights(own, diagonal=True)
        return total

    @property
    def alone(self) -> Array:
        return self._diagonal(self.bends)

    @property
    def diagonal(self) -> Array:
        """As that of `_SecondDerivative`; cross terms of a class with itself are left out."""
        return self.alone + self._diagonal(self.fan.powers(self.stiff, bent=False))

    @property
    def bias_diagonal(self) -> Array:
        own: Array = self.p**2 @ self.stiff.sum(axis=0)
        return own


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
