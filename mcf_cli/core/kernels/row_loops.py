"""Loops for numba where each row has weights of its own; loaded by `dispatch` alone, as `loops` is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba import types as nb

from mcf_cli.core.kernels.loops import (
    _FAST,
    INDICES,
    INTO_MATRIX,
    INTO_VECTOR,
    MISFIT,
    VECTOR,
    _delimit,
    _loop,
    _softplus_sigmoid,
)


@njit(fastmath=_FAST | {"reassoc"}, error_model="numpy")
def _end_sums(margin: Any, value: Any, rate: Any, first: int, n: int) -> tuple[float, float, float]:
    """Of n entries: the sum of their log-MGFs, less log q, and its two derivatives in lambda."""
    total = slope = curvature = 0.0
    for i in range(n):
        total += value[first + i]
        along = margin[i] * rate[first + i]
        slope += along
        curvature += along * (margin[i] - along)
    return total, slope, curvature


@njit(fastmath=_FAST, error_model="numpy")
def _both_ends(
    at: float, margin: Any, offset: Any, z: Any, value: Any, rate: Any, n: int, found: Any
) -> None:
    """The sums of both ends and their derivatives in lambda, at lambda = at."""
    for i in range(n):
        z[i] = (at - 1.0) * margin[i] + offset[i]
        z[n + i] = at * margin[i] + offset[i]
    _softplus_sigmoid(z, value, rate, 2 * n)
    found[0, 0], found[1, 0], found[2, 0] = _end_sums(margin, value, rate, 0, n)
    found[0, 1], found[1, 1], found[2, 1] = _end_sums(margin, value, rate, n, n)


@njit(error_model="numpy")
def _inside(guess: float, low: float, high: float) -> float:
    """A guess within what is known to hold the root: an end of [0, 1] that is still open, or the middle."""
    if low <= guess <= high:
        return guess
    if guess < low and low == 0.0:
        return 0.0
    if guess > high and high == 1.0:
        return 1.0
    return 0.5 * (low + high)


@njit(error_model="numpy")
def _settle(
    at: float,
    bias: float,
    mean: float,
    negligible: float,
    margin: Any,
    offset: Any,
    work: Any,
    n: int,
    found: Any,
) -> float:
    """The minimising lambda of a row by Newton's method, with the rules of `increasing_root`."""
    low, high, width = 0.0, 1.0, 1.0
    for turn in range(200):
        _both_ends(at, margin, offset, work[0], work[1], work[2], n, found)
        share = 1.0 / (1.0 + np.exp(found[0, 0] - found[0, 1] - bias))  # of the second end
        apart = found[1, 1] - found[1, 0]
        f = found[1, 0] + share * apart - mean
        bend = found[2, 0] + share * (found[2, 1] - found[2, 0]) + share * (1.0 - share) * apart * apart
        if f < 0.0:
            low = at
        if f > 0.0:
            high = at
        left = -f * (high - at) if f < 0.0 else f * (at - low)
        middle = 0.5 * (low + high)
        if left <= negligible or not low < middle < high:
            break
        guess = _inside(at - f / bend if bend > 0.0 else middle, low, high)
        if turn % 4 == 3:
            if high - low > 0.5 * width and turn > 6:
                guess = middle
            width = high - low
        at = guess
    return at


@_loop(
    *(INDICES, INDICES, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, nb.float64),
    *(INTO_VECTOR, INTO_MATRIX, INTO_MATRIX, INTO_MATRIX, INTO_MATRIX),
)
def blankout_ends_loop(
    starts: Any,
    feature: Any,
    scale: Any,
    shift: Any,
    w: Any,
    mean: Any,
    negligible: Any,
    bias: float,
    lam: Any,
    rates: Any,
    sums: Any,
    slopes: Any,
    curvatures: Any,
) -> None:
    """As `blankout_ends`, without log q: each row's lambda is sought while its entries are in the cache."""
    n_rows, n_entries = len(lam), len(feature)
    if not (len(scale) == n_entries and rates.shape == (2, n_entries) and _delimit(starts, n_rows, feature)):
        raise ValueError(MISFIT)
    if (len(shift) != 1 and len(shift) != n_entries) or len(mean) != n_rows or len(negligible) != n_rows:
        raise ValueError(MISFIT)
    if not (sums.shape == slopes.shape == curvatures.shape == (n_rows, 2)):
        raise ValueError(MISFIT)
    longest = np.int64(0)
    for row in range(n_rows):
        longest = max(longest, np.int64(starts[row + 1]) - np.int64(starts[row]))
    margin, offset, work = np.empty(longest), np.empty(longest), np.empty((3, 2 * longest))
    found, each = np.empty((3, 2)), 0 if len(shift) == 1 else 1
    for row in range(n_rows):
        start = np.int64(starts[row])
        n: Any = np.int64(starts[row + 1]) - start
        for i in range(n):
            margin[i] = scale[start + i] * w[feature[start + i]]
            offset[i] = shift[(start + i) * each]
        lam[row] = _settle(lam[row], bias, mean[row], negligible[row], margin, offset, work, n, found)
        for i in range(n):
            rates[0, start + i] = work[2, i]
            rates[1, start + i] = work[2, n + i]
        for k in range(2):
            sums[row, k], slopes[row, k], curvatures[row, k] = found[0, k], found[1, k], found[2, k]


@_loop(INDICES, INDICES, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, nb.float64, VECTOR, INTO_VECTOR)
def ends_product_loop(
    starts: Any,
    feature: Any,
    a: Any,
    m: Any,
    stiff: Any,
    give: Any,
    m_bias: Any,
    bias: float,
    v: Any,
    image: Any,
) -> None:
    """sum_n stiff_n a_n (a_n.v) - give_n m_n (m_n.v), added to the image, the bias last; each row is read once."""
    n_rows = len(stiff)
    if not (len(a) == len(m) == len(feature) and _delimit(starts, n_rows, feature)):
        raise ValueError(MISFIT)
    if not (len(give) == len(m_bias) == n_rows and len(image) == len(v) + 1):
        raise ValueError(MISFIT)
    of_bias = 0.0
    for row in range(n_rows):
        along_a, along_m = bias, bias * m_bias[row]
        for place in range(starts[row], starts[row + 1]):
            own = v[feature[place]]
            along_a += a[place] * own
            along_m += m[place] * own
        along_a *= stiff[row]
        along_m *= give[row]
        for place in range(starts[row], starts[row + 1]):
            image[feature[place]] += along_a * a[place] - along_m * m[place]
        of_bias += along_a - along_m * m_bias[row]
    image[len(v)] += of_bias
