"""Numbering the distinct (feature, value) pairs of a matrix, once for all that is made of its rows.

Log-MGF sums at weights of each row's own, T_n = P + along_n Q: what a variational parameter per example needs.

Both functions return the sums (n x K), their derivatives in `along` (n x K), and a pullback of a gradient in the sums
to P and Q, for one part of a block (see `design`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, Pairs
from mcf_cli.core.kernels.dispatch import index_type

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


Along = tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]


@dataclass(frozen=True)
class Entries:
    """Entries of a part one by one, and the matrices that add them up by row and by feature."""

    row: Array
    feature: Array
    value: Array
    by_row: sp.csr_matrix
    by_feature: sp.csr_matrix
    block_wise: bool

    @classmethod
    def of(cls, matrix: Any, pairs: Pairs | None, everywhere: bool) -> Entries:
        """The stored entries; every column of every row where the family changes zeros too."""
        if everywhere:
            dense = matrix.toarray() if sp.issparse(matrix) else matrix
            n, width = dense.shape
            feature, row, value = np.tile(np.arange(width), n), np.repeat(np.arange(n), width), dense.ravel()
        else:
            listed = sp.csr_matrix(matrix)
            row = np.repeat(np.arange(listed.shape[0]), np.diff(listed.indptr))
            feature = listed.indices if pairs is None else pairs.feature[listed.indices]
            value = listed.data if pairs is None else pairs.value[listed.indices]
            n, width = listed.shape[0], listed.shape[1] if pairs is None else pairs.scatter.shape[0]
        ones, number = np.ones(len(row)), np.arange(len(row))
        by_row = sp.csr_matrix((ones, (row, number)), shape=(n, len(row)))
        by_feature = sp.csr_matrix((ones, (feature, number)), shape=(width, len(row)))
        return cls(row, feature, value, by_row, by_feature, everywhere)


def line_of(part: Any, family: Corruption, P: Array, Q: Array) -> Callable[[Array], Along]:
    """log-MGF sums of a part at T_n = P + along_n Q, as a function of `along`."""
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
