"""Log-MGF sums at weights of each row's own: what a variational parameter for each example needs.

`line_of` serves any number of classes, T_n = P + along_n Q, with values and gradients; `Fan` has second derivatives
too, but not of features that change together. `Ends` is the fan of two classes, where all weights lie on one line
through zero, T = (lam_n - 1) w and lam_n w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, squared
from mcf_cli.core.corruptions.elementwise import Coded
from mcf_cli.core.design.coding import EndSums, Entries, FanCurvature, QuadraticFan
from mcf_cli.core.kernels.dispatch import compiled, settled_ends, unsigned

Along = tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]


# -- any number of classes ----------------------------------------------------------------------------------
def line_of(part: Any, family: Corruption, P: Array, Q: Array) -> Callable[[Array], Along]:
    """log-MGF sums of a part at T_n = P + along_n Q, as a function of `along`.

    It gives the sums (n x K), their derivatives in `along` (n x K), and a pullback to P and Q.
    """
    variance = family.quadratic_variance()
    return _entries(part.entries, family, P, Q) if variance is None else _quadratic(part, variance, P, Q)


def _added_up(matrix: sp.csr_matrix, entries: Array) -> Array:
    """matrix @ entries.T, a column at a time: no copy in another order."""
    return np.column_stack([matrix @ column for column in entries])


def _entries(entries: Entries, family: Corruption, P: Array, Q: Array) -> Callable[[Array], Along]:
    """No table can be shared between rows, so every entry is evaluated."""
    feature, row, x = entries.feature, entries.row, entries.value
    own_P, own_Q, K = np.ascontiguousarray(P[feature].T), Q[feature], P.shape[1]
    if not entries.block_wise:
        family = family.at(feature)

    def at(along: Array) -> Along:
        t, value = own_P + along[row] * own_Q, x
        if entries.block_wise:  # features on the last axis, one row after the other
            t, value = t.reshape(K, len(along), len(Q)), x.reshape(len(along), len(Q))
        kappa, rate = (array.reshape(K, -1) for array in family.log_mgf_and_derivative(t, value))

        def pullback(G: Array) -> tuple[Array, Array]:
            share = rate * G.T[:, row]
            return _added_up(entries.by_feature, share), entries.by_feature @ (share.sum(axis=0) * along[row])

        return _added_up(entries.by_row, kappa), _added_up(entries.by_row, rate * own_Q), pullback

    return at


def _quadratic(part: Any, variance: Any, P: Array, Q: Array) -> Callable[[Array], Along]:
    """The same where kappa = t x + variance t^2 / 2, with products that are the same for all `along`."""
    fan = QuadraticFan(part, variance, P, Q)

    def at(along: Array) -> Along:
        total, slope, _ = fan.at(along)
        return total, slope, lambda G: fan.adjoint(G, np.zeros_like(G), np.zeros(len(G)))

    return at


# -- two classes --------------------------------------------------------------------------------------------


class Ends:
    """A block at the weights (lam_n - 1) w and lam_n w of each row, w local: `at` moves it to other lam.

    With r, n x 2, the matrices below have the entries sum_k r_nk f_k, f_k being kappa' or w kappa'' at end k.
    """

    def __init__(self, block: Any, w: Array):
        self.width = len(w)
        self.parts: list[tuple[Any, Any]] = []
        self._held: tuple[Any, Any] = None, None  # where `at` was last, and what it found
        for part, family in block.parts:
            variance, own = family.quadratic_variance(), part.weights(w)
            kind = _Quadratic(part, variance, own) if variance is not None else _Entrywise(part, family, own)
            self.parts.append((part, kind))
        self.mean: Array = reduce(np.add, [kind.mean for _, kind in self.parts])  # w.E[x~]

    def root(self, start: Array, bias: float) -> Array | None:
        """The lambda of each row that minimises its bound, by a compiled loop; None where there is none."""
        kind = self.parts[0][1]
        if len(self.parts) > 1 or not isinstance(kind, _Entrywise):
            return None
        found = kind.root(start, bias)
        if found is None:
            return None
        self._held = found
        return found[0]

    def at(self, lam: Array) -> EndSums:
        """The sums; all else is then at this lam."""
        if self._held[0] is not lam:
            self._held = lam, self._at(lam)
        return self._held[1]

    def _at(self, lam: Array) -> EndSums:
        value, first, second = self.parts[0][1].at(lam)
        for _, kind in self.parts[1:]:
            value, first, second = map(np.add, (value, first, second), kind.at(lam))
        return value, first, second

    def matrix(self, first: Array, second: Array, mean: Array) -> RowMatrix:
        """Rows x features: sum_k first_nk kappa'_k + second_nk w kappa''_k + mean_n E[x~]."""
        return RowMatrix([(part, kind.matrix(first, second, mean)) for part, kind in self.parts], self.width)

    def bends(self, r: Array) -> list[tuple[Any, Array]]:
        """sum_nk r_nk kappa''_k of what each part acts on."""
        return [(part, kind.bend(r)) for part, kind in self.parts]


def bent(bends: list[tuple[Any, Array]], v: Array) -> Array:
    """The product of a second derivative that `Ends.bends` gives with v."""
    image = np.zeros_like(v)
    for part, bend in bends:
        image[part.columns] = part.to_weights(bend * part.weights(v))
    return image


def bend_diagonal(bends: list[tuple[Any, Array]], width: int) -> Array:
    """Its diagonal."""
    diagonal = np.zeros(width)
    for part, bend in bends:
        diagonal[part.columns] = part.to_weights(bend, diagonal=True)
    return diagonal


def twice(
    a: RowMatrix, stiff: Array, m: RowMatrix, give: Array, m_bias: Array, v: Array, bias: float
) -> tuple[Array, float]:
    """sum_n stiff_n a_n (a_n.v) - give_n m_n (m_n.v), and the same of the bias: an entry of 1 in a, m_bias in m."""
    (part, of_a), (_, of_m) = a.parts[0], m.parts[0]
    by_entries = (
        len(a.parts) == 1 and sp.issparse(of_a) and of_a.indices.dtype == of_a.indptr.dtype == np.int32
    )
    loop = compiled("ends_product_loop", of_a.nnz, "row_loops") if by_entries else None
    if loop is not None:
        inner = np.ascontiguousarray(part.weights(v))
        image, result = np.zeros(len(inner) + 1), np.zeros(a.width)
        numbers = unsigned(of_a.indptr), unsigned(of_a.indices)
        loop(*numbers, of_a.data, of_m.data, stiff, give, m_bias, bias, inner, image)
        result[part.columns] = part.to_weights(image[:-1])
        return result, float(image[-1])
    along_a, along_m = stiff * (a.forward(v) + bias), give * (m.forward(v) + bias * m_bias)
    return a.adjoint(along_a) - m.adjoint(along_m), float(along_a.sum() - along_m @ m_bias)


@dataclass(frozen=True)
class RowMatrix:
    """A matrix like a block's rows, part by part."""

    parts: list[tuple[Any, Any]]
    width: int

    def forward(self, v: Array) -> Array:
        shares = [matrix @ part.weights(v) for part, matrix in self.parts]
        return reduce(np.add, shares)

    def adjoint(self, u: Array) -> Array:
        result = np.zeros(self.width)
        for part, matrix in self.parts:
            result[part.columns] = part.to_weights(matrix.T @ u)
        return result

    def squares(self, u: Array) -> Array:
        """sum_n u_n entry_nd^2; of what is lost together, about that."""
        result = np.zeros(self.width)
        for part, matrix in self.parts:
            own = matrix.squares(u) if isinstance(matrix, _Tilted) else squared(matrix).T @ u
            result[part.columns] = part.to_weights(own, diagonal=True)
        return result


class _Entrywise:
    """A part whose entries are evaluated one by one."""

    def __init__(self, part: Any, family: Corruption, w: Array):
        self.entries, self.w = part.entries, w
        entries = self.entries
        self.family = family if entries.block_wise else family.at(entries.feature)
        self.own = w[entries.feature]
        self.means = self._shaped(self.family.mean(self._by_row(entries.value)))
        self.mean = self._added(self.means * self.own)

    def _by_row(self, entries: Array) -> Array:
        """Features on the last axis where the family's parameters are by feature."""
        return entries.reshape(-1, self.entries.n_features) if self.entries.block_wise else entries

    def _shaped(self, values: Array) -> Array:
        return np.ascontiguousarray(values).reshape(-1)

    def _added(self, values: Array) -> Array:
        return self.entries.by_row @ values

    def root(self, start: Array, bias: float) -> tuple[Array, EndSums] | None:
        """As that of `Ends`, with what `at` has to say there."""
        P, biases = np.column_stack([-self.w, np.zeros_like(self.w)]), np.array([-bias, 0.0])
        found = self._settled(P, self.w, biases, start)
        if found is None:
            return None
        lam, sums, rates, scale = found
        self.slopes, self.curvatures = list(rates), [slope * (scale - slope) for slope in rates]
        return lam, sums

    def _settled(
        self, P: Array, Q: Array, biases: Array, start: Array
    ) -> tuple[Array, EndSums, Array, Array] | None:
        """As `settled_ends`, and what the entries are multiplied by; None but for families it knows."""
        family, entries = self.family, self.entries
        if not (isinstance(family, Coded) and entries.short):
            return None
        q = np.asarray(family._q(), dtype=float)
        scale = np.ascontiguousarray(entries.value * family.survivor(q))
        given = entries.starts, entries.feature, scale, q, P, Q, biases
        found = settled_ends(*given, self.mean, start)
        if found is None:
            return None
        lam, rates, sums, slopes, curvatures = found
        sums += self._added(np.broadcast_to(np.log(q), scale.shape))[:, None]
        return lam, (sums, slopes, curvatures), rates, scale

    def at(self, lam: Array) -> EndSums:
        row, x = self.entries.row, self._by_row(self.entries.value)
        self.slopes, self.curvatures, sums = [], [], []
        for end in (lam - 1.0, lam):
            jet = self.family.log_mgf_jet(self._by_row(end[row] * self.own), x)
            value, slope, curvature = map(self._shaped, jet)
            self.slopes.append(slope)
            self.curvatures.append(curvature)
            own = self.own
            sums.append([self._added(f) for f in (value, slope * own, curvature * own * own)])
        return tuple(np.column_stack(pair) for pair in zip(*sums, strict=True))  # type: ignore[return-value]

    def matrix(self, first: Array, second: Array, mean: Array) -> sp.csr_matrix:
        row = self.entries.row
        data = mean[row] * self.means
        for k in (0, 1):
            data += first[row, k] * self.slopes[k]
            if second.any():
                data += second[row, k] * self.own * self.curvatures[k]
        return self.entries.matrix(data)

    def bend(self, r: Array) -> Array:
        row, w = self.entries.row, self.w
        data = sum(r[row, k] * self.curvatures[k] for k in (0, 1))
        return np.bincount(self.entries.feature, data, len(w)).astype(float, copy=False)


class _Quadratic:
    """A part with kappa = t x + variance t^2 / 2."""

    def __init__(self, part: Any, variance: Any, w: Array):
        self.part = part
        self.spread = np.broadcast_to(np.asarray(variance, dtype=float), w.shape)
        self.tilt = self.spread * w
        self.mean, self.square = part.product(w[:, None])[:, 0], float(self.tilt @ w)

    def at(self, lam: Array) -> EndSums:
        self.ends = np.column_stack([lam - 1.0, lam])
        slope = self.mean[:, None] + self.square * self.ends
        value = self.ends * (self.mean[:, None] + 0.5 * self.square * self.ends)
        return value, slope, np.full_like(slope, self.square)

    def matrix(self, first: Array, second: Array, mean: Array) -> _Tilted:
        along = (first * self.ends + second).sum(axis=1)
        return _Tilted(self.part, first.sum(axis=1) + mean, along, self.tilt)

    def bend(self, r: Array) -> Array:
        return self.spread * r.sum()


@dataclass(frozen=True)
class _Tilted:
    """diag(scale) X + along tilt': what rows are where kappa' = x + variance t."""

    part: Any
    scale: Array
    along: Array
    tilt: Array

    def __matmul__(self, v: Array) -> Array:
        return self.scale * self.part.product(v[:, None])[:, 0] + self.along * float(self.tilt @ v)

    @property
    def T(self) -> Any:
        return _Adjoint(self)

    def squares(self, u: Array) -> Array:
        scaled = u * self.scale
        of_squares = self.part.squared.adjoint((scaled * self.scale)[:, None])[:, 0]
        mixed = self.part.adjoint((scaled * self.along)[:, None])[:, 0]
        return of_squares + 2.0 * self.tilt * mixed + self.tilt**2 * float(u @ self.along**2)


@dataclass(frozen=True)
class _Adjoint:
    of: _Tilted

    def __matmul__(self, u: Array) -> Array:
        tilted = self.of
        own = tilted.part.adjoint((u * tilted.scale)[:, None])[:, 0]
        return own + tilted.tilt * float(u @ tilted.along)


# -- a fan --------------------------------------------------------------------------------------------------
class Fan:
    """A block at the weights T_k = P_k + lam_n Q of each row, K of them, in local columns: `at` moves it to other lam.

    Changes come as (V_P, V_Q), and dT_k = V_Pk + lam_n V_Q; gradients are in P and Q.
    """

    def __init__(self, block: Any, P: Array, Q: Array):
        self.shape = P.shape
        self.parts: list[tuple[Any, Any]] = []
        for part, family in block.parts:
            variance, own = family.quadratic_variance(), (part.weights(P), part.weights(Q))
            quadratic = variance is not None
            kind = QuadraticFan(part, variance, *own) if quadratic else _EntrywiseFan(part, family, *own)
            self.parts.append((part, kind))
        self.mean: Array = reduce(np.add, [kind.mean for _, kind in self.parts])  # Q.E[x~]

    def settled(self, biases: Array, start: Array) -> tuple[Array, EndSums] | None:
        """The lambda of each row that minimises its bound, and the sums there, by a compiled loop; else None."""
        kind = self.parts[0][1]
        lone = len(self.parts) == 1 and isinstance(kind, _EntrywiseFan)
        return kind.settled(biases, start) if lone else None

    def at(self, lam: Array) -> EndSums:
        """The sums with two derivatives in lam; all below is then at this lam."""
        self.lam = lam
        found = [kind.at(lam) for _, kind in self.parts]
        return tuple(reduce(np.add, terms) for terms in zip(*found, strict=True))

    def adjoint(self, g: Array, h: Array, e: Array) -> tuple[Array, Array]:
        """sum_n g_nk kappa'_k - h_nk Q kappa''_k for dT_k, and e_n E[x~] - sum_k h_nk kappa'_k for V_Q besides."""
        g_P, g_Q = np.zeros(self.shape), np.zeros(self.shape[0])
        for part, kind in self.parts:
            of_P, of_Q = kind.adjoint(g, h, e)
            g_P[part.columns], g_Q[part.columns] = part.to_weights(of_P), part.to_weights(of_Q)
        return g_P, g_Q

    def product(self, V_P: Array, V_Q: Array, v_b: Array, at: FanCurvature) -> tuple[Array, Array, Array]:
        """That of the second derivative at these shares and with lam that follows, but for kappa''; in biases, too."""
        if len(self.parts) == 1:
            part, kind = self.parts[0]
            found = kind.product(part.weights(V_P), part.weights(V_Q), v_b, at)
            if found is not None:
                return self._placed(part, found[:-1, :-1]), self._placed(part, found[:-1, -1]), found[-1, :-1]
        terms = [kind.forward(part.weights(V_P), part.weights(V_Q)) for part, kind in self.parts]
        ds, bent, straight, of_mean = (reduce(np.add, each) for each in zip(*terms, strict=True))
        ds = ds + v_b
        along = at.give * ((at.share * (bent + straight + at.apart * ds)).sum(axis=1) - of_mean)
        h = along[:, None] * at.share
        g = at.weight[:, None] * at.share * (ds - (at.share * ds).sum(axis=1, keepdims=True)) - h * at.apart
        return *self.adjoint(g, h, along), g.sum(axis=0)

    def _placed(self, part: Any, own: Array) -> Array:
        total = np.zeros((self.shape[0], *own.shape[1:]))
        total[part.columns] = part.to_weights(own)
        return total

    def powers(self, r: Array, bent: bool) -> list[tuple[Any, Array]]:
        """sum_n r_nk lam_n^j of kappa''_k, or of about kappa'_k squared, of what each part acts on: 3 x D x K."""
        return [(part, kind.powers(r, bent)) for part, kind in self.parts]


class _EntrywiseFan(_Entrywise):
    """A part whose entries are evaluated one by one; `own` is its entries of Q."""

    scale: Array | None = None

    def __init__(self, part: Any, family: Corruption, P: Array, Q: Array):
        super().__init__(part, family, Q)
        self.P = P

    def settled(self, biases: Array, start: Array) -> tuple[Array, EndSums] | None:
        found = self._settled(self.P, self.w, biases, start)
        if found is None:
            return None
        self.lam, sums, self.rates, self.scale = found
        return self.lam, sums

    def at(self, lam: Array) -> EndSums:
        entries, x = self.entries, self._by_row(self.entries.value)
        self.lam, self.scale, sums = lam, None, []
        moved, self.rates = lam[entries.row] * self.own, np.empty((self.P.shape[1], len(self.own)))
        self.bent = np.empty_like(self.rates)
        for k in range(len(self.rates)):
            jet = self.family.log_mgf_jet(self._by_row(self.P[entries.feature, k] + moved), x)
            value, self.rates[k], self.bent[k] = map(self._shaped, jet)
            weighted = self.rates[k] * self.own, self.bent[k] * self.own**2
            sums.append([self._added(f) for f in (value, *weighted)])
        return tuple(np.column_stack(each) for each in zip(*sums, strict=True))  # type: ignore[return-value]

    def _bent(self, k: int) -> Array:
        return self.bent[k] if self.scale is None else self.rates[k] * (self.scale - self.rates[k])

    def _matrices(self, k: int) -> tuple[Any, Any]:
        """Rows x features with the entries kappa'_k, and Q kappa''_k."""
        return self.entries.matrix(self.rates[k]), self.entries.matrix(self._bent(k) * self.own)

    def forward(self, V_P: Array, V_Q: Array) -> tuple[Array, Array, Array, Array]:
        """kappa'_k dT_k, Q kappa''_k dT_k and kappa'_k V_Q, n x K, and E[x~] V_Q."""
        ds, bent, straight = (np.empty((len(self.lam), len(self.rates))) for _ in range(3))
        for k in range(len(self.rates)):
            A, C = self._matrices(k)
            straight[:, k] = A @ V_Q
            ds[:, k] = A @ V_P[:, k] + self.lam * straight[:, k]
            bent[:, k] = C @ V_P[:, k] + self.lam * (C @ V_Q)
        return ds, bent, straight, self.entries.matrix(self.means) @ V_Q

    def adjoint(self, g: Array, h: Array, e: Array) -> tuple[Array, Array]:
        g_P, g_Q = np.empty(self.P.shape), self.entries.matrix(self.means).T @ e
        for k in range(len(self.rates)):
            A, C = self._matrices(k)
            g_P[:, k] = A.T @ g[:, k] - C.T @ h[:, k]
            g_Q += A.T @ (self.lam * g[:, k] - h[:, k]) - C.T @ (self.lam * h[:, k])
        return g_P, g_Q

    def product(self, V_P: Array, V_Q: Array, v_b: Array, at: FanCurvature) -> Array | None:
        """The whole of `Fan.product` by a compiled loop, biases last; None where there is none."""
        loop = compiled("fan_product_loop", self.rates.size, "row_loops")
        if loop is None or self.scale is None:
            return None
        image, entries = np.zeros((len(self.P) + 1, self.P.shape[1] + 1)), self.entries
        given = unsigned(entries.starts), unsigned(entries.feature), self.scale, self.means, self.rates
        changes = map(np.ascontiguousarray, (self.w, V_P, V_Q, v_b))
        loop(*given, *changes, at.share, at.apart, self.lam, at.weight, at.give, image)
        return image

    def powers(self, r: Array, bent: bool) -> Array:
        result = np.empty((3, *self.P.shape))
        for k in range(len(self.rates)):
            matrix = self.entries.matrix(self._bent(k) if bent else self.rates[k] ** 2)
            own = r[:, k]
            result[:, :, k] = (matrix.T @ np.column_stack([own, own * self.lam, own * self.lam**2])).T
        return result
