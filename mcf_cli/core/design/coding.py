"""Numbering the distinct (feature, value) pairs of a matrix, once for all that is made of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array
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
