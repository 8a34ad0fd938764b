"""Loops for numba; loaded by `dispatch` alone, and only where numba is installed.

Each declares the types that it takes and compares lengths before it starts. Numbers of rows, columns and pairs come as
unsigned integers: numba would otherwise look out for negative ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba import types as nb

from mcf_cli.core.kernels.dispatch import Loop

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
_LOG_1_5 = 0.4054651081081644
_BLOCK = 512

# No reassociation: r = x - k ln 2 in two parts has to stay in two parts. Weights and data are finite.
_FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}

# What is read may be read-only: it may lie in a file, or have come from another machine.
INDICES = nb.Array(nb.uint32, 1, "C", readonly=True)
VECTOR = nb.Array(nb.float64, 1, "C", readonly=True)
MATRIX = nb.Array(nb.float64, 2, "C", readonly=True)
NUMBERS = nb.Array(nb.int64, 1, "C", readonly=True)
INTO_VECTOR = nb.Array(nb.float64, 1, "C")
INTO_MATRIX = nb.Array(nb.float64, 2, "C")
MISFIT = "the arguments of a compiled loop do not fit together"


def _loop(*types: Any) -> Callable[[Callable[..., Any]], Loop]:
    return lambda function: Loop(function, types, fastmath=_FAST, error_model="numpy", nogil=True)


@njit(fastmath=_FAST, error_model="numpy", inline="always")
def _series(r: float) -> float:
    """(e^r - 1) / r for |r| <= ln(2) / 2, by its Taylor polynomial."""
    p = 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    return p * r + 1.0


@njit(fastmath=_FAST, error_model="numpy", inline="always")
def _exp(x: float) -> float:
    """e^x for |x| <= 700, after reduction modulo ln 2."""
    t = x * _LOG2_E + _ROUND
    k = t - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _series(r) * r + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(t).view(np.int64) << 52)  # p * 2^k
    return np.int64(bits).view(np.float64)


@njit(fastmath=_FAST, error_model="numpy")
def _softplus_sigmoid(z: Any, value: Any, rate: Any, n: int) -> None:
    """log(1 + e^z) and its derivative: the logarithm of m = 1 + e^{-|z|} by the series of the inverse hyperbolic
    tangent about 3/2."""
    for i in range(n):
        e = _exp(-min(abs(z[i]), 700.0))
        m = 1.0 + e
        shared = 1.0 / (m * (m + 1.5))  # one division for 1/m and y = (m - 3/2) / (m + 3/2)
        inverse = (m + 1.5) * shared
        y = (m - 1.5) * m * shared
        y2 = y * y
        s = 1.0 / 21.0
        s = s * y2 + 1.0 / 19.0
        s = s * y2 + 1.0 / 17.0
        s = s * y2 + 1.0 / 15.0
        s = s * y2 + 1.0 / 13.0
        s = s * y2 + 1.0 / 11.0
        s = s * y2 + 1.0 / 9.0
        s = s * y2 + 1.0 / 7.0
        s = s * y2 + 1.0 / 5.0
        s = s * y2 + 1.0 / 3.0
        s = s * y2 + 1.0
        value[i] = max(z[i], 0.0) + (_LOG_1_5 + 2.0 * y * s)
        rate[i] = inverse if z[i] > 0.0 else e * inverse


@_loop(MATRIX, INDICES, VECTOR, VECTOR, VECTOR, INTO_MATRIX, INTO_MATRIX)
def blankout_table_loop(
    T: Any, feature: Any, u_per_t: Any, shift: Any, log_q: Any, table: Any, slope: Any
) -> None:
    """As `kernels.blankout_table`; shift and log_q have one entry or one per pair."""
    n_pairs, width = table.shape
    if not (len(feature) == len(u_per_t) == n_pairs and slope.shape == table.shape and T.shape[1] == width):
        raise ValueError(MISFIT)
    if (len(shift) != 1 and len(shift) != n_pairs) or len(log_q) != len(shift):
        raise ValueError(MISFIT)
    each = 0 if len(shift) == 1 else 1
    rows = max(1, _BLOCK // width)
    z = np.empty((rows, width))
    value = np.empty((rows, width))
    rate = np.empty((rows, width))
    for start in range(0, n_pairs, rows):
        n = min(rows, n_pairs - start)
        if width == 1:  # a loop of one turn inside the loop would cost as much as the work
            for i in range(n):
                z[i, 0] = T[feature[start + i], 0] * u_per_t[start + i] + shift[(start + i) * each]
        else:
            for i in range(n):
                for j in range(width):
                    z[i, j] = T[feature[start + i], j] * u_per_t[start + i] + shift[(start + i) * each]
        _softplus_sigmoid(z.ravel(), value.ravel(), rate.ravel(), n * width)
        if width == 1:
            for i in range(n):
                table[start + i, 0] = value[i, 0] + log_q[(start + i) * each]
                slope[start + i, 0] = rate[i, 0] * u_per_t[start + i]
        else:
            for i in range(n):
                for j in range(width):
                    table[start + i, j] = value[i, j] + log_q[(start + i) * each]
                    slope[start + i, j] = rate[i, j] * u_per_t[start + i]


@njit(fastmath=_FAST, error_model="numpy", inline="always")
def _add(parameter: Any, start: int, n: int, to: Any) -> None:
    """A parameter of all pairs, or of each, is added for n pairs from `start`."""
    if len(parameter) == 1:
        same = parameter[0]
        for i in range(n):
            to[i] += same
    else:
        for i in range(n):
            to[i] += parameter[start + i]


@njit(inline="always")
def _delimit(starts: Any, n: int, places: Any) -> bool:
    """Whether `starts` says where each of n lists of places begins and the last one ends."""
    return len(starts) == n + 1 and starts[n] <= len(places)


@_loop(VECTOR, INDICES, VECTOR, nb.float64, VECTOR, VECTOR, INDICES, INDICES, INTO_VECTOR, INTO_VECTOR)
def blankout_sums_loop(
    T: Any,
    feature: Any,
    u_per_t: Any,
    factor: float,
    shift: Any,
    log_q: Any,
    starts: Any,
    rows: Any,
    slope: Any,
    sums: Any,
) -> None:
    """The table of one column, pair by pair added to the rows that hold the pair, and its slope.

    u is t * u_per_t * factor. The rows of pair p are rows[starts[p] : starts[p + 1]].
    """
    n_pairs = len(feature)
    if len(u_per_t) != n_pairs or len(slope) != n_pairs or not _delimit(starts, n_pairs, rows):
        raise ValueError(MISFIT)
    if (len(shift) != 1 and len(shift) != n_pairs) or len(log_q) != len(shift):
        raise ValueError(MISFIT)
    z, value, scale = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    sums[:] = 0.0
    for start in range(0, n_pairs, _BLOCK):  # short loops of one thing each: those the compiler vectorises
        n = min(_BLOCK, n_pairs - start)
        own, rate, ends = feature[start : start + n], slope[start : start + n], starts[start : start + n + 1]
        for i in range(n):
            scale[i] = factor * u_per_t[start + i]
        for i in range(n):
            z[i] = T[own[i]] * scale[i]
        _add(shift, start, n, z)
        _softplus_sigmoid(z, value, rate, n)
        _add(log_q, start, n, value)
        for i in range(n):
            rate[i] *= scale[i]
        for i in range(n):
            kappa = value[i]
            for place in range(ends[i], ends[i + 1]):
                sums[rows[place]] += kappa


@_loop(MATRIX, VECTOR, VECTOR, VECTOR, nb.float64, INTO_MATRIX, INTO_VECTOR)
def blankout_rows_loop(X: Any, t: Any, scale: Any, shift: Any, level: float, slope: Any, sums: Any) -> None:
    """As `blankout_rows`, row by row."""
    n, width = X.shape
    if slope.shape != X.shape or len(sums) != n or not (len(t) == len(scale) == len(shift) == width):
        raise ValueError(MISFIT)
    z, value, rate = np.empty(width), np.empty(width), np.empty(width)
    for row in range(n):
        for d in range(width):
            z[d] = X[row, d] * scale[d] * t[d] + shift[d]
        _softplus_sigmoid(z, value, rate, width)
        for d in range(width):
            slope[row, d] = X[row, d] * scale[d] * rate[d]
        a0 = a1 = a2 = a3 = 0.0  # one sum would wait for itself
        whole = width - width % 4
        for d in range(0, whole, 4):
            a0 += value[d]
            a1 += value[d + 1]
            a2 += value[d + 2]
            a3 += value[d + 3]
        for d in range(whole, width):
            a0 += value[d]
        sums[row] = level + ((a0 + a1) + (a2 + a3))


@_loop(INDICES, INDICES, INDICES, VECTOR, VECTOR, INTO_VECTOR)
def sums_pullback(starts: Any, rows: Any, feature: Any, slope: Any, G: Any, gradient: Any) -> None:
    """The gradient in T of sum(G * sums)."""
    if len(slope) != len(feature) or not _delimit(starts, len(feature), rows):
        raise ValueError(MISFIT)
    gradient[:] = 0.0
    for pair in range(len(feature)):
        total = 0.0
        for place in range(starts[pair], starts[pair + 1]):
            total += G[rows[place]]
        gradient[feature[pair]] += slope[pair] * total


@_loop(INDICES, INDICES, MATRIX, INTO_MATRIX)
def narrow_product(starts: Any, columns: Any, table: Any, sums: Any) -> None:
    """Z @ table for four columns and a Z of ones stored by rows: sums in registers, two entries at a time."""
    if table.shape[1] != 4 or sums.shape[1] != 4 or not _delimit(starts, len(sums), columns):
        raise ValueError(MISFIT)
    for n in range(len(sums)):
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        first, last = starts[n], starts[n + 1]
        odd = (last - first) % 2
        for place in range(first, last - odd, 2):
            p, r = columns[place], columns[place + 1]
            a0 += table[p, 0]
            a1 += table[p, 1]
            a2 += table[p, 2]
            a3 += table[p, 3]
            b0 += table[r, 0]
            b1 += table[r, 1]
            b2 += table[r, 2]
            b3 += table[r, 3]
        if odd:
            p = columns[last - 1]
            a0 += table[p, 0]
            a1 += table[p, 1]
            a2 += table[p, 2]
            a3 += table[p, 3]
        sums[n, 0] = a0 + b0
        sums[n, 1] = a1 + b1
        sums[n, 2] = a2 + b2
        sums[n, 3] = a3 + b3


@_loop(INDICES, INDICES, MATRIX, INTO_MATRIX)
def narrow_adjoint(starts: Any, columns: Any, G: Any, total: Any) -> None:
    """Z.T @ G for the same, in the order of the rows."""
    if G.shape[1] != 4 or total.shape[1] != 4 or not _delimit(starts, len(G), columns):
        raise ValueError(MISFIT)
    total[:] = 0.0
    for n in range(len(G)):
        g0, g1, g2, g3 = G[n, 0], G[n, 1], G[n, 2], G[n, 3]
        for place in range(starts[n], starts[n + 1]):
            p = columns[place]
            total[p, 0] += g0
            total[p, 1] += g1
            total[p, 2] += g2
            total[p, 3] += g3


@_loop(INDICES, INDICES, INDICES, MATRIX, MATRIX, INTO_MATRIX)
def pairs_along_loop(starts: Any, rows: Any, feature: Any, slope: Any, V: Any, sums: Any) -> None:
    """Z @ (slope * V[feature]), pair by pair; the rows of pair p are rows[starts[p] : starts[p + 1]]."""
    width = V.shape[1]
    n_pairs = len(feature)
    if slope.shape != (n_pairs, width) or sums.shape[1] != width or not _delimit(starts, n_pairs, rows):
        raise ValueError(MISFIT)
    own = np.empty(width)
    sums[:] = 0.0
    for pair in range(len(feature)):
        d = feature[pair]  # outside the loops: inside, the compiler would have to read it again
        for j in range(width):
            own[j] = slope[pair, j] * V[d, j]
        for place in range(starts[pair], starts[pair + 1]):
            n = rows[place]
            for j in range(width):
                sums[n, j] += own[j]


@_loop(INDICES, INDICES, INDICES, MATRIX, MATRIX, INTO_MATRIX)
def pairs_pullback_loop(starts: Any, rows: Any, feature: Any, slope: Any, G: Any, gradient: Any) -> None:
    """The adjoint of `pairs_along`."""
    width = G.shape[1]
    n_pairs = len(feature)
    if slope.shape != (n_pairs, width) or gradient.shape[1] != width or not _delimit(starts, n_pairs, rows):
        raise ValueError(MISFIT)
    own = np.empty(width)
    gradient[:] = 0.0
    for pair in range(len(feature)):
        own[:] = 0.0
        for place in range(starts[pair], starts[pair + 1]):
            n = rows[place]
            for j in range(width):
                own[j] += G[n, j]
        d = feature[pair]
        for j in range(width):
            gradient[d, j] += slope[pair, j] * own[j]


@_loop(MATRIX, nb.int64, INTO_MATRIX)
def pairwise_margins_loop(W: Any, y: int, T: Any) -> None:
    """W_k - W_y for every other class k, row by row: numpy takes longer to begin a row than to subtract it."""
    if T.shape != (len(W), W.shape[1] - 1) or not 0 <= y < W.shape[1]:
        raise ValueError(MISFIT)
    for d in range(len(W)):
        own = W[d, y]
        for k in range(y):
            T[d, k] = W[d, k] - own
        for k in range(y + 1, W.shape[1]):
            T[d, k - 1] = W[d, k] - own


@_loop(MATRIX, nb.int64, nb.float64, INTO_MATRIX)
def from_pairwise_margins_loop(G: Any, y: int, sign: float, gradient: Any) -> None:
    """The entries of the other classes, and in the place of y their sum times sign."""
    if gradient.shape != (len(G), G.shape[1] + 1) or not 0 <= y <= G.shape[1]:
        raise ValueError(MISFIT)
    for d in range(len(G)):
        total = 0.0
        for k in range(y):
            gradient[d, k] = G[d, k]
            total += G[d, k]
        for k in range(y, G.shape[1]):
            gradient[d, k + 1] = G[d, k]
            total += G[d, k]
        gradient[d, y] = sign * total


@_loop(INTO_MATRIX, NUMBERS, MATRIX)
def add_at_loop(total: Any, rows: Any, share: Any) -> None:
    """total[rows] += share."""
    if share.shape != (len(rows), total.shape[1]):
        raise ValueError(MISFIT)
    for i in range(len(rows)):
        row = rows[i]
        if not 0 <= row < len(total):
            raise ValueError(MISFIT)
        for j in range(share.shape[1]):
            total[row, j] += share[i, j]
