"""The entries of a matrix: their distinct (feature, value) pairs, numbered once for all that is made of its rows; or
one by one, where rows have weights of their own.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Pairs
from mcf_cli.core.kernels.dispatch import index_type

EndSums = tuple[Array, Array, Array]  # n x K each: the sums and their two derivatives in lam

_MANY = 32  # pairs that occur fewer times on average stand in the order of their number: loops of even length
_REPEATED = 4  # pairs that occur fewer times than this on average are not worth sharing


@dataclass(frozen=True)
class Coding:
    """X with its entries replaced by the numbers of their (feature, value) pairs, in the order that walks fastest."""

    Z: sp.csr_matrix
    feature: Array
    value: Array
    repeated: bool  # the pairs recur from row to row

    def rows(self, index: Array | slice) -> Coding:
        """The same coding on some of the rows, without the pairs that they do not hold."""
        Z = self.Z[index]
        held = np.zeros(Z.shape[1], dtype=bool)
        held[Z.indices] = True
        if held.all():
            return Coding(Z, self.feature, self.value, self.repeated)
        renumbered = np.cumsum(held, dtype=index_type(len(held))) - 1
        Z = sp.csr_matrix((Z.data, renumbered[Z.indices], Z.indptr), shape=(Z.shape[0], int(held.sum())))
        return Coding(Z, self.feature[held], self.value[held], self.repeated)


def encode(X: sp.csr_matrix) -> Coding:
    """Number the distinct (feature, value) pairs of X, which is canonical."""
    of_pair, of_feature = index_type(X.nnz), index_type(X.shape[1])
    values = _distinct(X.data)
    if values is None:  # hardly a value repeats: every non-zero is its own pair
        Z = sp.csr_matrix((np.ones(X.nnz), np.arange(X.nnz, dtype=of_pair), X.indptr), (X.shape[0], X.nnz))
        return Coding(Z, X.indices.astype(of_feature, copy=False), X.data, repeated=False)
    D, V = X.shape[1], len(values)
    code = np.searchsorted(values, X.data)
    if np.iinfo(np.int32).max > V * D:
        code = code.astype(np.int32)
    code += X.indices * code.dtype.type(V)
    if 3 * X.nnz >= V * D:  # few enough to mark on a list no larger than X
        seen = np.zeros(V * D, dtype=bool)
        seen[code] = True
        distinct = np.flatnonzero(seen)
        number = (np.cumsum(seen, dtype=of_pair) - 1)[code]
        del seen
    else:
        distinct, number = np.unique(code, return_inverse=True)
        number = number.astype(of_pair)
    del code
    if X.nnz < _MANY * len(distinct):
        order = np.argsort(-np.bincount(number, minlength=len(distinct)), kind="stable")
        rank = np.empty(len(order), dtype=of_pair)
        rank[order] = np.arange(len(order), dtype=of_pair)
        distinct, number = distinct[order], rank[number]
    Z = sp.csr_matrix((np.ones(X.nnz), number, X.indptr), shape=(X.shape[0], len(distinct)))
    return Coding(
        Z, (distinct // V).astype(of_feature), values[distinct % V], len(distinct) * _REPEATED <= X.nnz
    )


def held_columns(indices: Array, width: int) -> tuple[Array | None, Array]:
    """The columns that occur and their new numbers; None when so many occur that renumbering does not pay."""
    held = np.zeros(width, dtype=bool)
    held[indices] = True
    number = np.cumsum(held, dtype=index_type(width)) - 1
    return (None if 4 * held.sum() > 3 * width else np.flatnonzero(held)), number


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
        matrix = copy(self._pattern)
        matrix.data = data
        return matrix

    @cached_property
    def _pattern(self) -> sp.csr_matrix:
        """To be copied: scipy takes its time to make a matrix."""
        matrix = sp.csr_matrix((len(self.starts) - 1, self.n_features))
        matrix.indices, matrix.indptr = self.feature, self.starts
        return matrix


@dataclass(frozen=True)
class FanCurvature:
    """What a fan's second derivative depends on: of each row the shares of its ends, how far their slopes in lam stand
    from the mean slope, its weight, and weight / curvature in lam where lam follows the weights."""

    share: Array
    apart: Array
    weight: Array
    give: Array


class QuadraticFan:
    """A part of a `lines.Fan` with kappa = t x + variance t^2 / 2: products with X, and none of its entries."""

    def __init__(self, part: Any, variance: Any, P: Array, Q: Array):
        self.part, self.P, self.Q = part, P, Q
        self.spread = np.broadcast_to(np.asarray(variance, dtype=float), Q.shape)
        self.vP, self.vQ = self.spread[:, None] * P, self.spread * Q
        self.mean, self.start = part.product(Q[:, None])[:, 0], part.product(P)

    def at(self, lam: Array) -> EndSums:
        self.lam, along = lam, lam[:, None]
        PP, PQ, QQ = (self.vP * self.P).sum(axis=0), self.P.T @ self.vQ, float(self.Q @ self.vQ)
        value = self.start + 0.5 * PP + along * (self.mean[:, None] + PQ) + (0.5 * QQ) * along**2
        slope = self.mean[:, None] + PQ + QQ * along
        return value, slope, np.full_like(slope, QQ)

    def forward(self, V_P: Array, V_Q: Array) -> tuple[Array, Array, Array, Array]:
        along, of_Q = self.lam[:, None], self.part.product(V_Q[:, None])
        straight = of_Q + V_Q @ self.vP + along * float(self.vQ @ V_Q)
        bent = V_P.T @ self.vQ + along * float(self.vQ @ V_Q)
        ds = self.part.product(V_P) + (self.vP * V_P).sum(axis=0) + along * (V_P.T @ self.vQ + straight)
        return ds, bent, straight, of_Q[:, 0]

    def adjoint(self, g: Array, h: Array, e: Array) -> tuple[Array, Array]:
        by_lam = partial(np.matmul, self.lam)
        g_P = self.part.adjoint(g) + self.vP * g.sum(axis=0) + np.outer(self.vQ, by_lam(g) - h.sum(axis=0))
        along = self.lam[:, None] * g - h
        g_Q = self.part.adjoint((along.sum(axis=1) + e)[:, None])[:, 0]
        g_Q += self.vP @ along.sum(axis=0) + self.vQ * float((by_lam(along) - by_lam(h)).sum())
        return g_P, g_Q

    def product(self, V_P: Array, V_Q: Array, v_b: Array, at: FanCurvature) -> None:
        return None

    def powers(self, r: Array, bent: bool) -> Array:
        weighted = [r * self.lam[:, None] ** j for j in range(3)]
        if bent:
            return np.stack([np.outer(self.spread, own.sum(axis=0)) for own in weighted])
        tilt = (self.vP + 0.5 * self.vQ[:, None]) ** 2
        return np.stack([self.part.squared.adjoint(own) + tilt * own.sum(axis=0) for own in weighted])


class CodeBook:
    """Codings made once and shared: a subset of rows takes its coding from the whole."""

    def __init__(self, parent: CodeBook | None = None, rows: Array | None = None):
        self._parent, self._rows = parent, rows
        self._codes: dict[Any, Coding] = {}

    def coded(self, key: Any, held: Any) -> Coding:
        """The coding of the columns `held`, which `key` identifies."""
        if key not in self._codes:
            if self._parent is not None and self._rows is not None and key in self._parent._codes:
                self._codes[key] = self._parent._codes[key].rows(self._rows)
            else:
                self._codes[key] = encode(held if sp.issparse(held) else sp.csr_matrix(held))
        return self._codes[key]

    def forget(self) -> None:
        """Drop the codings; designs already built from them keep what they need."""
        self._codes.clear()


def _distinct(data: Array) -> Array | None:
    """The distinct values of data in order, or None when there are nearly as many as entries."""
    found = np.empty(0)
    for start in range(0, len(data), 1 << 16):
        found = np.union1d(found, data[start : start + (1 << 16)])
        if len(found) * _REPEATED > max(len(data), 1 << 12):
            return None
    return found
