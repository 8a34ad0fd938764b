"""The inner loops, above all log(q + (1-q) e^u) and its derivative for a table of (feature, value) pairs.

numpy is the reference. Where numba is installed (the extra ``fast``) large tables go through compiled loops. They are
faster because their exponential and logarithm are polynomials that the compiler can vectorise; small tables never pay
for the import. Both agree to 1e-14 (tests/core/test_kernels.py).

This is also the gate to the loops, scipy's and our own. Data passes `canonical` where it enters; an index of a
canonical matrix, and of all that is made from it, is in range. A compiled loop is a `Loop`: it exists for the types
and layouts that it declares, so that numba refuses all others, and it compares the lengths of its arguments before it
starts. `compiled_loop` is the only way to one.
"""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mcf_cli.core.kernels.threads import _shares, in_threads

Array = NDArray[Any]

_LARGEST = 1e100  # fourth powers of values, and their sums, are still numbers; beyond, fits ended at zero


# -- data ---------------------------------------------------------------------------------------------------
def canonical(X: Any) -> Any:
    """X in the one form that stands for a table: a float array, or CSR with sorted indices and no entry twice.

    The matrix of the user stays as it is; only what differs from this form is copied. Entries that stand twice are
    added up, as everywhere in scipy; zeros are not stored; indices are int32 where that is enough.

    >>> M = canonical(sp.coo_matrix(([1.0, 2.0, 0.0], ([0, 0, 0], [1, 1, 0])), shape=(1, 2)))
    >>> M.indices, M.data
    (array([1], dtype=int32), array([3.]))
    """
    if not sp.issparse(X):
        return np.asarray(X, dtype=float)
    M = sp.csr_matrix(X, dtype=np.float64)
    try:
        check_sparse(M)
    except ValueError as error:
        raise ValueError(
            f"X is not a valid sparse matrix ({error}); build it again from its entries"
        ) from None
    kind = index_type(max(*M.shape, M.nnz))
    if M.indices.dtype != kind or M.indptr.dtype != kind:
        M.indices, M.indptr = M.indices.astype(kind), M.indptr.astype(kind)
    M.has_canonical_format = _increasing(M)
    if not M.has_canonical_format or not M.data.all():
        M = M.copy()
        M.sum_duplicates()
        M.eliminate_zeros()
    return M


def _increasing(M: sp.csr_matrix) -> bool:
    """Whether the indices of each row stand in order, none twice: scipy's own check takes twice the time."""
    rises, ends = M.indices[1:] > M.indices[:-1], M.indptr[1:-1]
    rises[ends[(ends > 0) & (ends < M.nnz)] - 1] = True  # from one row to the next they need not
    return bool(rises.all())


def check_sparse(matrix: sp.csr_matrix | sp.csc_matrix) -> None:
    """ValueError unless scipy may work with the matrix, whose loops trust every number in it.

    Its own check leaves out where rows begin and end when nothing is stored in between.
    """
    matrix.check_format(full_check=True)
    if (np.diff(matrix.indptr) < 0).any():
        raise ValueError("a row or column ends before it begins")


def check_size(values: Array, name: str) -> None:
    """ValueError where the values are no numbers, or their squares none that differ from zero and infinity."""
    extremes = np.array([values.min(initial=0.0), values.max(initial=0.0)])  # NaN if there is any
    if not np.isfinite(extremes).all():
        raise ValueError(f"{name} holds NaN or infinity; impute or drop those entries")
    largest = np.abs(extremes).max()
    if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
        raise ValueError(
            f"the largest value of {name} is {largest:.3g}, which is too far from 1 to be squared; multiply {name} by "
            f"a constant that brings it between {1.0 / _LARGEST:g} and {_LARGEST:g}"
        )


def within_reach(weights: Array) -> Array:
    """Weights of which only the ratios count: divided by a power of two where sums or products would be no numbers."""
    largest = float(weights.max(initial=0.0))
    if not largest or 1.0 / _LARGEST <= largest <= _LARGEST:
        return weights
    return np.ldexp(weights, -int(np.frexp(largest)[1]))


def index_type(most: int) -> type[np.signedinteger[Any]]:
    """The type of indices up to `most`."""
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64


# -- compiled loops -----------------------------------------------------------------------------------------
class Loop:
    """A function and the types it takes. It is compiled for these alone, when it is first asked for."""

    def __init__(self, function: Callable[..., Any], types: tuple[Any, ...], **options: Any):
        self.function, self.types, self.options = function, types, options
        self._found: list[Any] = []  # the compiled function, or None where it cannot be had

    def ready(self) -> Callable[..., Any] | None:
        """The compiled function; None, with a warning, where it cannot be compiled."""
        if not self._found:
            with _compiling:
                if not self._found:
                    self._found.append(self._compiled())
        return self._found[0]

    def _compiled(self) -> Any:
        """From numba's cache, which is made anew where it is damaged; without it where there can be none."""
        global _cache_works
        try:
            return self._for_types(cache=_cache_works)
        except (
            Exception
        ) as error:  # half a file cannot be unpickled, a disk is full, there is no folder at all
            trouble = error
        if _cache_works:
            try:
                self._dispatcher(cache=True).recompile()  # writes an empty cache file
                found = self._for_types(cache=True)
                _warn_once("numba's cache was damaged; it has been rebuilt", trouble)
                return found
            except Exception:
                pass  # the first trouble says more
        try:
            found = self._for_types(cache=False)
        except Exception as error:
            _warn_once("numba cannot compile; numpy is used instead, which is slower", error)
            return None
        _cache_works = False
        _warn_once(
            "numba cannot write its cache, so every process spends some seconds on compiling again: "
            "set NUMBA_CACHE_DIR to a writable folder with room in it",
            trouble,
        )
        return found

    def _for_types(self, cache: bool) -> Any:
        """What takes the declared types; numba then compiles for no others."""
        return self._dispatcher(self.types, cache=cache)

    def _dispatcher(self, *signature: Any, cache: bool) -> Any:
        import numba

        njit: Any = numba.njit
        return njit(*signature, cache=cache, **self.options)(self.function)


_compiling, _cache_works = threading.Lock(), True


def compiled_loop(module: str, name: str) -> Callable[..., Any] | None:
    """A compiled loop; None without numba, where it is switched off (MCF_NUMBA=0) or cannot be compiled.

    The first call ever compiles (a second or so); the result is kept on disk.
    """
    loops = _loops(module) if os.environ.get("MCF_NUMBA", "1") != "0" else None
    return None if loops is None else getattr(loops, name).ready()


@cache
def _loops(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__.partition(".")[0]):
            raise  # a loop of ours, not numba
        return None
    except Exception as error:
        _warn_once("numba cannot be loaded; numpy is used instead, which is slower", error)
        return None


def unsigned(indices: Array) -> Array:
    """Indices of a canonical matrix as loops take them: numba would look out for negative ones."""
    if indices.dtype != np.int32:
        raise TypeError(f"a compiled loop takes int32 indices, not {indices.dtype}")
    return indices.view(np.uint32)


_said: set[str] = set()


def _warn_once(what: str, why: Exception) -> None:
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what} ({type(why).__name__}: {why})"[:400], UserWarning, stacklevel=2)


_CHUNK = (
    1 << 14
)  # table entries that numpy evaluates together: the temporaries stay in the second-level cache
_WORTH_COMPILING = 1 << 14  # table entries
_WORTH_SHARING = 1 << 17  # table entries for which a second thread pays
_WIDE = 8  # columns of a table from which loops over pairs are faster than two sparse products


def blankout_table(T: Array, feature: Array, u_per_t: Array, q: Array, table: Array, slope: Array) -> None:
    """Fill table with kappa(T[feature]; u = t * u_per_t) and slope with its derivative in t; 0 < q < 1."""
    shift, log_q = np.log1p(-q) - np.log(q), np.log(q)
    loop = compiled("blankout_table_loop", table.size)
    if loop is not None and feature.dtype == np.int32:
        shift, log_q = np.atleast_1d(shift), np.atleast_1d(log_q)
        T, own_column = np.ascontiguousarray(T), unsigned(feature)

        def fill(rows: slice) -> None:
            own = rows if len(shift) > 1 else slice(None)
            loop(T, own_column[rows], u_per_t[rows], shift[own], log_q[own], table[rows], slope[rows])

        in_threads(fill, _shares(len(feature)) if table.size >= _WORTH_SHARING else [slice(None)])
        return
    step = max(1, _CHUNK // T.shape[1])
    for start in range(0, len(feature), step):
        chunk = slice(start, start + step)
        scale = u_per_t[chunk, None]
        u = np.take(T, feature[chunk], axis=0)
        u *= scale
        u += shift if shift.ndim == 0 else shift[chunk, None]
        value, rate = table[chunk], slope[chunk]
        softplus_sigmoid(u, value, rate)
        value += log_q if log_q.ndim == 0 else log_q[chunk, None]
        rate *= scale


def blankout_rows(X: Array, t: Array, scale: Array, q: Array, slope: Array, sums: Array) -> None:
    """Fill sums with sum_d kappa_d(t_d; u = t x scale) of each row of a dense X, and slope with d kappa / d t."""
    shift, level = np.log1p(-q) - np.log(q), float(np.log(q).sum())
    loop = compiled("blankout_rows_loop", X.size)
    if loop is not None:
        loop(X, t, scale, shift, level, slope, sums)
        return
    step = max(1, _CHUNK // max(len(t), 1))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        u = X[rows] * scale
        value, rate = np.empty_like(u), slope[rows]
        softplus_sigmoid(u * t + shift, value, rate)
        rate *= u
        sums[rows] = level + value.sum(axis=1)


def settled_ends(
    starts: Array,
    feature: Array,
    scale: Array,
    q: Array,
    P: Array,
    Q: Array,
    biases: Array,
    mean: Array,
    start: Array,
) -> tuple[Array, ...] | None:
    """The lambda of each row that minimises log sum_k e^{s_k + biases_k} - lambda mean, with s_k the sums of its
    kappa(t; u = t * scale) at P_k + lambda Q; sought from `start`. None without numba.

    Then come d kappa_k / dt of each entry (K x entries), the sums less log q, and their two derivatives in lambda.
    """
    loop = compiled("blankout_ends_loop", len(feature), "row_loops")
    if loop is None:
        return None
    shift, width = np.atleast_1d(np.log1p(-q) - np.log(q)), len(biases)
    lam, rates, found = start.copy(), np.empty((width, len(scale))), np.empty((3, len(start), width))
    weights = map(np.ascontiguousarray, (P, Q, biases))
    numbers, negligible = (unsigned(starts), unsigned(feature)), 1e-12 * (1.0 + np.abs(mean))
    loop(*numbers, scale, shift, *weights, mean, negligible, lam, rates, *found)
    rates *= scale
    return lam, rates, *found


def softplus_sigmoid(z: Array, value: Array, rate: Array) -> None:
    """log(1 + e^z) and its derivative from one exponential, for any z, small ones to full precision. Overwrites z."""
    np.abs(z, out=rate)
    np.negative(rate, out=rate)
    np.exp(rate, out=rate)
    np.log1p(rate, out=value)
    total = rate + 1.0  # 1 + e^{-|z|}, in (1, 2]
    np.maximum(rate, z > 0.0, out=rate)
    rate /= total
    np.maximum(z, 0.0, out=z)
    value += z


def blankout_sums(
    T: Array, feature: Array, u_per_t: Array, factor: float, q: Array, Z: sp.csc_matrix
) -> tuple[Array, Callable[[Array], Array]] | None:
    """Z @ table for a table of one column and its pullback to T, without keeping the table; None without numba.

    u is t * u_per_t * factor. Z holds ones, a column for each pair.
    """
    loop = compiled("blankout_sums_loop", len(feature))
    back = compiled("sums_pullback", len(feature))
    if loop is None or back is None or not _short(Z, feature):
        return None
    shift, log_q = np.atleast_1d(np.log1p(-q) - np.log(q)), np.atleast_1d(np.log(q))
    starts, rows, own = _numbers(Z, feature)
    slope, sums = np.empty(len(feature)), np.empty(Z.shape[0])
    loop(_column(T), own, u_per_t, factor, shift, log_q, starts, rows, slope, sums)

    def pullback(G: Array) -> Array:
        gradient = np.empty(len(T))
        back(starts, rows, own, slope, _column(G), gradient)
        return gradient[:, None]

    return sums[:, None], pullback


def _column(G: Array) -> Array:
    return np.ascontiguousarray(G[:, 0])


def coded_product(Z: Any, table: Array) -> Array:
    """Z @ table for a Z of ones."""
    loop = _narrow_loop("narrow_product", Z, table.shape[1])
    return Z @ table if loop is None else _in_fours(loop, Z, table, Z.shape[0])


def coded_adjoint(Z: Any, transposed: Any, G: Array) -> Array:
    """Z.T @ G for a Z of ones."""
    loop = _narrow_loop("narrow_adjoint", Z, G.shape[1])
    return transposed @ G if loop is None else _in_fours(loop, Z, G, Z.shape[1])


def _narrow_loop(name: str, Z: Any, width: int) -> Any:
    """The loop for up to four columns, where scipy spends most of its time on beginning loops of that length."""
    by_rows = sp.issparse(Z) and Z.format == "csr" and _short(Z)
    return compiled(name, Z.nnz) if by_rows and 1 < width <= 4 else None


def _in_fours(loop: Any, Z: Any, columns: Array, n_rows: int) -> Array:
    """What the loop makes of the columns and of as many zeros as make four."""
    four, result, width = np.zeros((len(columns), 4)), np.empty((n_rows, 4)), columns.shape[1]
    four[:, :width] = columns
    loop(unsigned(Z.indptr), unsigned(Z.indices), four, result)
    return np.ascontiguousarray(result[:, :width])


def loops_over_pairs(Z: Any, feature: Array, slope: Array) -> bool:
    """Whether `pairs_along` and `pairs_pullback` can be used, and are faster than a table and a sparse product."""
    by_pairs = sp.issparse(Z) and Z.format == "csc" and _short(Z, feature) and slope.shape[1] >= _WIDE
    return by_pairs and all(
        compiled(name, slope.size) for name in ("pairs_along_loop", "pairs_pullback_loop")
    )


def pairs_along(Z: sp.csc_matrix, feature: Array, slope: Array, V: Array) -> Array:
    """Z @ (slope * V[feature]) without a table in between, where `loops_over_pairs`."""
    loop, sums = compiled("pairs_along_loop", slope.size), np.empty((Z.shape[0], slope.shape[1]))
    loop(*_numbers(Z, feature), slope, np.ascontiguousarray(V), sums)
    return sums


def pairs_pullback(Z: sp.csc_matrix, feature: Array, slope: Array, G: Array, n_features: int) -> Array:
    """The adjoint of `pairs_along`, n_features x J."""
    loop, gradient = compiled("pairs_pullback_loop", slope.size), np.empty((n_features, slope.shape[1]))
    loop(*_numbers(Z, feature), slope, np.ascontiguousarray(G), gradient)
    return gradient


def _short(Z: Any, *indices: Array) -> bool:
    """Whether all indices are of the type that the compiled loops take."""
    return all(array.dtype == np.int32 for array in (Z.indptr, Z.indices, *indices))


def _numbers(Z: sp.csc_matrix, feature: Array) -> tuple[Array, Array, Array]:
    """Where the rows of each pair begin, these rows, and the pairs' features, for the compiled loops."""
    return unsigned(Z.indptr), unsigned(Z.indices), unsigned(feature)


def log_sum_exp(scores: Array, with_zero: bool = False) -> tuple[Array, Array]:
    """log sum_k e^{scores_k} and the softmax, from one exponential. Overwrites scores.

    with_zero adds a score of 0, the example's own class, that has no column.
    """
    value, step = np.empty(len(scores)), max(1, _CHUNK // scores.shape[1])

    def fill(rows: slice) -> None:
        for start in range(rows.start, rows.stop, step):
            chunk = slice(start, min(start + step, rows.stop))
            value[chunk] = _softmax(scores[chunk], with_zero)

    in_threads(fill, _shares(len(scores)) if scores.size >= _WORTH_SHARING else [slice(0, len(scores))])
    return value, scores


def _softmax(scores: Array, with_zero: bool) -> Array:
    """Rows that fit in the cache become their softmax; the log sums."""
    top = scores.max(axis=1, keepdims=True)
    if with_zero:
        np.maximum(top, 0.0, out=top)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=1, keepdims=True)
    if with_zero:
        total += np.exp(-top)
    scores /= total
    return (np.log(total) + top)[:, 0]


def pairwise_margins(W: Array, y: int) -> Array:
    """W_k - W_y for every class k but y, a column each."""
    T = np.empty((len(W), W.shape[1] - 1))
    loop = compiled("pairwise_margins_loop", T.size)
    if loop is not None:
        loop(np.ascontiguousarray(W), y, T)
    else:
        np.subtract(W[:, :y], W[:, [y]], out=T[:, :y])
        np.subtract(W[:, y + 1 :], W[:, [y]], out=T[:, y:])
    return T


def from_pairwise_margins(G: Array, y: int, sign: float) -> Array:
    """G with a column for y, which holds sign times the sum of the others: -1 gives the adjoint of the above."""
    gradient = np.empty((len(G), G.shape[1] + 1))
    loop = compiled("from_pairwise_margins_loop", G.size)
    if loop is not None:
        loop(np.ascontiguousarray(G), y, sign, gradient)
    else:
        gradient[:, :y], gradient[:, y + 1 :] = G[:, :y], G[:, y:]
        gradient[:, y] = sign * G.sum(axis=1)
    return gradient


def add_at(total: Array, rows: Array, share: Array) -> None:
    """total[rows] += share, where no row stands twice."""
    loop = compiled("add_at_loop", share.size)
    if loop is not None:
        loop(total, np.ascontiguousarray(rows, dtype=np.int64), np.ascontiguousarray(share))
    else:
        total[rows] += share


def compiled(name: str, size: int, module: str = "loops") -> Any:
    """One of the compiled loops; None where there is none (see `compiled_loop`), or for little work."""
    return compiled_loop(f"mcf_cli.core.kernels.{module}", name) if size >= _WORTH_COMPILING else None
