"""The inner loops: above all log(q + (1-q) e^u) and its derivative for a table of (feature, value) pairs.

numpy is the reference. Where numba is installed (the extra ``fast``) large tables go through compiled
loops, faster because their exponential and logarithm are polynomials that the compiler can vectorise;
small ones never pay for the import. Both agree to 1e-14 (tests/core/test_kernels.py).
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[Any]

_CHUNK = (
    1 << 14
)  # table entries that numpy evaluates together: the temporaries stay in the second-level cache
_WORTH_COMPILING = 1 << 14  # table entries
_WORTH_SHARING = 1 << 17  # table entries for which a second thread pays
_WIDE = 8  # columns of a table from which loops over pairs are faster than two sparse products


def blankout_table(T: Array, feature: Array, u_per_t: Array, q: Array, table: Array, slope: Array) -> None:
    """Fill table with kappa(T[feature]; u = t * u_per_t) and slope with its derivative in t; 0 < q < 1."""
    shift, log_q = np.log1p(-q) - np.log(q), np.log(q)
    loops = compiled(table.size)
    if loops is not None:
        shift, log_q = np.atleast_1d(shift), np.atleast_1d(log_q)

        def fill(rows: slice) -> None:
            own = rows if len(shift) > 1 else slice(None)
            loops.blankout_table(
                T, feature[rows], u_per_t[rows], shift[own], log_q[own], table[rows], slope[rows]
            )

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


def softplus_sigmoid(z: Array, value: Array, rate: Array) -> None:
    """log(1 + e^z) and its derivative from one exponential, for any z. Overwrites z."""
    np.abs(z, out=rate)
    np.negative(rate, out=rate)
    np.exp(rate, out=rate)
    rate += 1.0  # 1 + e^{-|z|}, in (1, 2]
    np.log(rate, out=value)
    np.divide(1.0, rate, out=rate)
    rate -= 0.5
    np.copysign(rate, z, out=rate)
    rate += 0.5
    np.maximum(z, 0.0, out=z)
    value += z


def blankout_sums(
    T: Array, feature: Array, u_per_t: Array, factor: float, q: Array, Z: sp.csc_matrix
) -> tuple[Array, Callable[[Array], Array]] | None:
    """Z @ table for a table of one column and its pullback to T, without keeping the table; None without numba.

    u is t * u_per_t * factor. Z holds ones, a column for each pair.
    """
    loops = compiled(len(feature))
    if loops is None or Z.indices.dtype.itemsize != 4:
        return None
    shift, log_q = np.atleast_1d(np.log1p(-q) - np.log(q)), np.atleast_1d(np.log(q))
    numbers = starts, rows, own = _numbers(Z, feature)
    slope, sums = np.empty(len(feature)), np.empty(Z.shape[0])
    loops.blankout_sums(T[:, 0], own, u_per_t, factor, shift, log_q, starts, rows, slope, sums)

    def pullback(G: Array) -> Array:
        gradient = np.empty(len(T))
        loops.sums_pullback(*numbers, slope, G[:, 0], gradient)
        return gradient[:, None]

    return sums[:, None], pullback


def coded_product(Z: Any, table: Array) -> Array:
    """Z @ table for a Z of ones."""
    loops = _narrow_loops(Z, table.shape[1])
    if loops is None:
        return Z @ table
    sums = np.empty((Z.shape[0], 4))
    loops.narrow_product(Z.indptr.view(np.uint32), Z.indices.view(np.uint32), _four(table), sums)
    return np.ascontiguousarray(sums[:, : table.shape[1]])


def coded_adjoint(Z: Any, G: Array) -> Array:
    """Z' G for a Z of ones."""
    loops = _narrow_loops(Z, G.shape[1])
    if loops is None:
        return Z.T @ G
    total = np.empty((Z.shape[1], 4))
    loops.narrow_adjoint(Z.indptr.view(np.uint32), Z.indices.view(np.uint32), _four(G), total)
    return np.ascontiguousarray(total[:, : G.shape[1]])


def _narrow_loops(Z: Any, width: int) -> Any:
    """The loops for up to four columns, where scipy spends most of its time on beginning loops of that length."""
    by_rows = sp.issparse(Z) and Z.format == "csr" and Z.indices.dtype.itemsize == 4
    return compiled(Z.nnz) if by_rows and 1 < width <= 4 else None


def _four(columns: Array) -> Array:
    """The columns and as many of zeros as make four."""
    four = np.zeros((len(columns), 4))
    four[:, : columns.shape[1]] = columns
    return four


def loops_over_pairs(Z: Any, slope: Array) -> bool:
    """Whether `pairs_along` and `pairs_pullback` can be used, and are faster than a table and a sparse product."""
    by_pairs = sp.issparse(Z) and Z.format == "csc" and Z.indices.dtype.itemsize == 4
    return by_pairs and slope.shape[1] >= _WIDE and compiled(slope.size) is not None


def pairs_along(Z: sp.csc_matrix, feature: Array, slope: Array, V: Array) -> Array:
    """Z @ (slope * V[feature]) without a table in between."""
    sums = np.empty((Z.shape[0], slope.shape[1]))
    _loops().pairs_along(*_numbers(Z, feature), slope, np.ascontiguousarray(V), sums)
    return sums


def pairs_pullback(Z: sp.csc_matrix, feature: Array, slope: Array, G: Array, n_features: int) -> Array:
    """The adjoint of `pairs_along`, n_features x J."""
    gradient = np.empty((n_features, slope.shape[1]))
    _loops().pairs_pullback(*_numbers(Z, feature), slope, np.ascontiguousarray(G), gradient)
    return gradient


def _numbers(Z: sp.csc_matrix, feature: Array) -> tuple[Array, Array, Array]:
    """Where the rows of each pair begin, these rows, and the pairs' features, for the compiled loops."""
    return Z.indptr.view(np.uint32), Z.indices.view(np.uint32), feature.view(np.uint32)


def transposed_product(A: sp.csr_matrix, x: Array) -> Array:
    """A' x for a vector x."""
    loops = compiled(A.nnz, _WORTH_SHARING)
    if loops is None or A.indices.dtype.itemsize != 4:
        return A.T @ x
    y = np.empty(A.shape[1])
    loops.add_rows(A.indptr.view(np.uint32), A.indices.view(np.uint32), A.data, x, y)
    return y


def exponential(t: Array) -> Array:
    """e^t for t <= 700."""
    loops = compiled(t.size)
    if loops is None or not (t.flags.c_contiguous or t.flags.f_contiguous):
        return np.exp(t)
    value = np.empty_like(t)
    flat, filled = t.ravel(order="K"), value.ravel(order="K")
    parts = _shares(t.size) if t.size >= _WORTH_SHARING else [slice(None)]
    in_threads(lambda part: loops.exponential(flat[part], filled[part]), parts)
    return value


def log_sum_exp(scores: Array, with_zero: bool = False) -> tuple[Array, Array]:
    """log sum_k e^{scores_k} and the softmax, from one exponential. Overwrites scores.

    with_zero adds a score of 0, the example's own class, that has no column.
    """
    loops = compiled(scores.size)
    if loops is not None and scores.flags.c_contiguous:
        top, total = np.empty(len(scores)), np.empty(len(scores))
        lowest = 0.0 if with_zero else -np.finfo(float).max

        def fill(rows: slice) -> None:
            loops.softmax(scores[rows], lowest, top[rows], total[rows])

        in_threads(fill, _shares(len(scores)) if scores.size >= _WORTH_SHARING else [slice(None)])
        return np.log(total) + top, scores
    top = scores.max(axis=1, keepdims=True)
    if with_zero:
        np.maximum(top, 0.0, out=top)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=1, keepdims=True)
    if with_zero:
        total += np.exp(-top)
    scores /= total
    return (np.log(total) + top)[:, 0], scores


def pairwise_margins(W: Array, y: int) -> Array:
    """W_k - W_y for every class k but y, a column each."""
    T = np.empty((len(W), W.shape[1] - 1))
    loops = compiled(T.size)
    if loops is not None:
        loops.pairwise_margins(np.ascontiguousarray(W), y, T)
    else:
        np.subtract(W[:, :y], W[:, [y]], out=T[:, :y])
        np.subtract(W[:, y + 1 :], W[:, [y]], out=T[:, y:])
    return T


def from_pairwise_margins(G: Array, y: int, sign: float) -> Array:
    """G with a column for y, which holds sign times the sum of the others: -1 gives the adjoint of the above."""
    gradient = np.empty((len(G), G.shape[1] + 1))
    loops = compiled(G.size)
    if loops is not None:
        loops.from_pairwise_margins(np.ascontiguousarray(G), y, sign, gradient)
    else:
        gradient[:, :y], gradient[:, y + 1 :] = G[:, :y], G[:, y:]
        gradient[:, y] = sign * G.sum(axis=1)
    return gradient


def add_at(total: Array, rows: Array, share: Array) -> None:
    """total[rows] += share, where no row stands twice."""
    loops = compiled(share.size)
    if loops is not None:
        loops.add_at(total, rows, np.ascontiguousarray(share))
    else:
        total[rows] += share


def compiled(size: int, enough: int = _WORTH_COMPILING) -> Any:
    """The compiled loops; None without numba, where it is switched off (MCF_NUMBA=0), or for little work."""
    return _loops() if size >= enough and os.environ.get("MCF_NUMBA", "1") != "0" else None


@cache
def _loops() -> Any:
    """The first call ever compiles (seconds); the result is kept on disk. What cannot be loaded is not there."""
    try:
        from mcf_cli.core import compiled as loops
    except (ImportError, OSError, MemoryError):
        return None
    return loops


_inside = threading.local()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mcf")


@cache
def _libraries() -> ThreadpoolController:
    """What is loaded by the first fit; to look for it takes as long as a small fit."""
    return ThreadpoolController()


_fits, _counting = 0, threading.Lock()
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread: a limit of the whole process, which the first fit sets and the last to end lifts."""
    global _fits, _limit
    with _counting:
        _fits += 1
        if _fits == 1:
            _limit = _libraries().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _counting:
            _fits -= 1
            if _fits == 0:
                _limit.restore_original_limits()


def _after_fork() -> None:
    """A child inherits the pool without its threads, and what the fits of its parent count and hold."""
    global _fits, _counting
    _pool.cache_clear()
    _counting = threading.Lock()
    if _fits:
        _fits = 0
        _limit.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads() -> int:
    """Threads that sparse products may use: OMP_NUM_THREADS, as for BLAS, else the cores of this process."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(allowed) if allowed.isdigit() and int(allowed) > 0 else cores


def in_threads(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """[function(item) for item in items]; scipy's products and the compiled loop release the interpreter lock.

    What runs in a thread already stays in it: its own parts would wait for threads that wait for them.
    """
    if len(items) == 1 or getattr(_inside, "thread", False) or threads() == 1:
        return [function(item) for item in items]

    def marked(item: Any) -> Any:
        _inside.thread = True
        return function(item)

    return list(_pool(threads()).map(marked, items))


def a_few_at_a_time(function: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
    """function(item) for each item in order, as many at a time as there are threads: results can be large."""
    n = threads()
    for start in range(0, len(items), n):
        yield from in_threads(function, items[start : start + n])


def _shares(n: int) -> list[slice]:
    edges = np.linspace(0, n, threads() + 1).astype(int)
    return [slice(start, end) for start, end in itertools.pairwise(edges)]
