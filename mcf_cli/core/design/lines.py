"""Log-MGF sums at weights of each row's own: what a variational parameter for each example needs.

`line_of` serves any number of classes, T_n = P + along_n Q, with values and gradients. `Ends` serves two classes, where
all weights lie on one line through zero, T = (lam_n - 1) w and lam_n w: it has second derivatives too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, Pairs, squared
from mcf_cli.core.corruptions.elementwise import Coded
from mcf_cli.core.kernels.dispatch import compiled, unsigned

Along = tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]


@dataclass(frozen=True)
class Entries:
    """Entries of a part one by one, row after row."""

    starts: Array  # of each row, and the end of the last
    feature: Array
    value: Array
    n_features: int
    block_wise: bool  # every column of every row

    @classmethod
    def of(cls, matrix: Any, pairs: Pairs | None, everywhere: bool) -> Entries:
        """The stored entries; every column of every row where the family changes zeros too."""
        if everywhere:
            dense = matrix.toarray() if sp.issparse(matrix) else matrix
            n, width = dense.shape
            feature = np.tile(np.arange(width, dtype=np.int32), n)
            return cls(np.arange(n + 1) * width, feature, dense.ravel(), width, True)
        listed = sp.csr_matrix(matrix)
        if pairs is None:
            return cls(listed.indptr, listed.indices, listed.data, listed.shape[1], False)
        feature, value = pairs.feature[listed.indices], pairs.value[listed.indices]
        return cls(listed.indptr, feature, value, pairs.scatter.shape[0], False)

    @property
    def short(self) -> bool:
        """Whether the compiled loops take its indices."""
        return bool(self.starts.dtype == self.feature.dtype == np.int32)

    @cached_property
    def row(self) -> Array:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def by_row(self) -> sp.csr_matrix:
        """Adds entries up by row."""
        n = len(self.value)
        return sp.csr_matrix((np.ones(n), np.arange(n), self.starts), shape=(len(self.starts) - 1, n))

    @cached_property
    def by_feature(self) -> sp.csr_matrix:
        """The same by feature."""
        n = len(self.value)
        return sp.csr_matrix((np.ones(n), (self.feature, np.arange(n))), shape=(self.n_features, n))

    def matrix(self, data: Array) -> sp.csr_matrix:
        """Rows x features with these entries."""
        shape = len(self.starts) - 1, self.n_features
        matrix = sp.csr_matrix(shape)
        matrix.data, matrix.indices, matrix.indptr = data, self.feature, self.starts
        return matrix


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
    """The same where kappa = t x + variance t^2 / 2: sums of squares and products with X as it is stored.

    The products are the same for all `along`.
    """
    spread = np.broadcast_to(np.asarray(variance, dtype=float), Q.shape)[:, None]
    PP, PQ, QQ = (spread * P * P).sum(axis=0), (spread * P).T @ Q, float(spread[:, 0] @ (Q * Q))
    of_Q, of_P = part.product(Q[:, None]), part.product(P) + 0.5 * PP

    def at(along: Array) -> Along:
        column = along[:, None]
        total = of_P + column * (of_Q + PQ) + (0.5 * QQ) * column**2

        def pullback(G: Array) -> tuple[Array, Array]:
            g, once, by_row = G.sum(axis=0), along @ G, along * G.sum(axis=1)
            g_P = part.adjoint(G) + spread * (P * g + Q[:, None] * once)
            g_Q = part.adjoint(by_row[:, None])[:, 0] + spread[:, 0] * (P @ once + Q * (along @ by_row))
            return g_P, g_Q

        return total, of_Q + PQ + QQ * column, pullback

    return at


# -- two classes --------------------------------------------------------------------------------------------
EndSums = tuple[Array, Array, Array]  # n x 2 each: the sums and their two derivatives in lam


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
        family, entries = self.family, self.entries
        if not isinstance(family, Coded):
            return None
        loop = compiled("blankout_ends_loop", len(entries.value), "row_loops")
        if loop is None or not entries.short:
            return None
        q = np.asarray(family._q(), dtype=float)
        scale = np.ascontiguousarray(entries.value * family.survivor(q))
        shift = np.atleast_1d(np.log1p(-q) - np.log(q))
        lam, rates = start.copy(), np.empty((2, len(scale)))
        sums, slopes, curvatures = (np.empty((len(lam), 2)) for _ in range(3))
        numbers, w = (unsigned(entries.starts), unsigned(entries.feature)), np.ascontiguousarray(self.w)
        negligible = 1e-12 * (1.0 + np.abs(self.mean))
        loop(*numbers, scale, shift, w, self.mean, negligible, bias, lam, rates, sums, slopes, curvatures)
        sums += self._added(np.broadcast_to(np.log(q), scale.shape))[:, None]
        rates *= scale
        self.slopes, self.curvatures = list(rates), [slope * (scale - slope) for slope in rates]
        return lam, (sums, slopes, curvatures)

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
        return np.bincount(self.entries.feature, data, len(w))


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
