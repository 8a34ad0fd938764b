"""Loops for numba; imported by `kernels` alone, and only where numba is installed.

Numbers of rows, columns and pairs come as unsigned integers: numba would otherwise look out for negative ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
_LOG_1_5 = 0.4054651081081644
_BLOCK = 512

# No reassociation: r = x - k ln 2 in two parts has to stay in two parts. Weights and data are finite.
_FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}


@njit(fastmath=_FAST, error_model="numpy", cache=True, inline="always")
def _exp(x: float) -> float:
    """e^x for |x| <= 700, by its Taylor polynomial after reduction modulo ln 2."""
    t = x * _LOG2_E + _ROUND
    k = t - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
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
    p = p * r + 1.0
    p = p * r + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(t).view(np.int64) << 52)  # p * 2^k
    return np.int64(bits).view(np.float64)


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def exponential(t: Any, value: Any) -> None:
    """e^t for t <= 700; what lies below -700 counts as -700."""
    for i in range(len(t)):
        value[i] = _exp(max(t[i], -700.0))


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def softmax(scores: Any, lowest: float, top: Any, total: Any) -> None:
    """Each row becomes its softmax; top is its largest score, at least `lowest`, and total what it was divided by.

    A row of zeros besides, which `lowest` = 0 stands for, adds e^{-top} to the total.
    """
    n_rows, width = scores.shape
    rows = max(1, _BLOCK // width)
    for start in range(0, n_rows, rows):
        end = min(start + rows, n_rows)
        for i in range(start, end):
            best = lowest
            for j in range(width):
                best = max(best, scores[i, j])
            top[i] = best
            for j in range(width):
                scores[i, j] -= best
        flat = scores[start:end].ravel()
        for k in range(len(flat)):
            flat[k] = _exp(max(flat[k], -700.0))
        for i in range(start, end):
            added = np.exp(-top[i]) if lowest == 0.0 else 0.0
            for j in range(width):
                added += scores[i, j]
            total[i] = added
            inverse = 1.0 / added
            for j in range(width):
                scores[i, j] *= inverse


@njit(fastmath=_FAST, error_model="numpy", cache=True)
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def blankout_table(
    T: Any, feature: Any, u_per_t: Any, shift: Any, log_q: Any, table: Any, slope: Any
) -> None:
    """As `kernels.blankout_table`; shift and log_q have one entry or one per pair."""
    n_pairs, width = table.shape
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, inline="always")
def _add(parameter: Any, start: int, n: int, to: Any) -> None:
    """A parameter of all pairs, or of each, is added for n pairs from `start`."""
    if len(parameter) == 1:
        same = parameter[0]
        for i in range(n):
            to[i] += same
    else:
        for i in range(n):
            to[i] += parameter[start + i]


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def blankout_sums(
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
    z, value, scale = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    sums[:] = 0.0
    for start in range(
        0, len(feature), _BLOCK
    ):  # short loops of one thing each: those the compiler vectorises
        n = min(_BLOCK, len(feature) - start)
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def sums_pullback(starts: Any, rows: Any, feature: Any, slope: Any, G: Any, gradient: Any) -> None:
    """The gradient in T of sum(G * sums)."""
    gradient[:] = 0.0
    for pair in range(len(feature)):
        total = 0.0
        for place in range(starts[pair], starts[pair + 1]):
            total += G[rows[place]]
        gradient[feature[pair]] += slope[pair] * total


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def narrow_product(starts: Any, columns: Any, table: Any, sums: Any) -> None:
    """Z @ table for four columns and a Z of ones stored by rows: sums in registers, two entries at a time."""
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def narrow_adjoint(starts: Any, columns: Any, G: Any, total: Any) -> None:
    """Z' G for the same."""
    total[:] = 0.0
    for n in range(len(G)):
        g0, g1, g2, g3 = G[n, 0], G[n, 1], G[n, 2], G[n, 3]
        for place in range(starts[n], starts[n + 1]):
            p = columns[place]
            total[p, 0] += g0
            total[p, 1] += g1
            total[p, 2] += g2
            total[p, 3] += g3


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def pairs_along(starts: Any, rows: Any, feature: Any, slope: Any, V: Any, sums: Any) -> None:
    """Z @ (slope * V[feature]), pair by pair; the rows of pair p are rows[starts[p] : starts[p + 1]]."""
    width = V.shape[1]
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def pairs_pullback(starts: Any, rows: Any, feature: Any, slope: Any, G: Any, gradient: Any) -> None:
    """The adjoint of `pairs_along`."""
    width = G.shape[1]
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


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def add_rows(starts: Any, columns: Any, data: Any, x: Any, y: Any) -> None:
    """y = A' x for a matrix A stored by rows."""
    y[:] = 0.0
    for row in range(len(x)):
        factor = x[row]
        for place in range(starts[row], starts[row + 1]):
            y[columns[place]] += data[place] * factor


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def pairwise_margins(W: Any, y: int, T: Any) -> None:
    """W_k - W_y for every other class k, row by row: numpy takes longer to begin a row than to subtract it."""
    for d in range(len(W)):
        own = W[d, y]
        for k in range(y):
            T[d, k] = W[d, k] - own
        for k in range(y + 1, W.shape[1]):
            T[d, k - 1] = W[d, k] - own


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def from_pairwise_margins(G: Any, y: int, sign: float, gradient: Any) -> None:
    """The entries of the other classes, and in the place of y their sum times sign."""
    for d in range(len(G)):
        total = 0.0
        for k in range(y):
            gradient[d, k] = G[d, k]
            total += G[d, k]
        for k in range(y, G.shape[1]):
            gradient[d, k + 1] = G[d, k]
            total += G[d, k]
        gradient[d, y] = sign * total


@njit(fastmath=_FAST, error_model="numpy", cache=True, nogil=True)
def add_at(total: Any, rows: Any, share: Any) -> None:
    """total[rows] += share."""
    for i in range(len(rows)):
        row = rows[i]
        for j in range(share.shape[1]):
            total[row, j] += share[i, j]
