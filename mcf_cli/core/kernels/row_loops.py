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
    MATRIX,
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
def _all_ends(at: float, base: Any, tilt: Any, work: Any, n: int, found: Any) -> None:
    """The sums of all ends and their derivatives in lambda, at lambda = at."""
    z, value, rate = work[0], work[1], work[2]
    width = found.shape[1]
    for k in range(width):
        for i in range(n):
            z[k * n + i] = base[k * n + i] + at * tilt[i]
    _softplus_sigmoid(z, value, rate, width * n)
    for k in range(width):
        found[0, k], found[1, k], found[2, k] = _end_sums(tilt, value, rate, k * n, n)


@njit(error_model="numpy")
def _slope(found: Any, biases: Any, mean: float) -> tuple[float, float]:
    """Of the log sum over the ends, less its linear term: both derivatives in lambda."""
    width = found.shape[1]
    top = found[0, 0] + biases[0]
    for k in range(1, width):
        top = max(top, found[0, k] + biases[k])
    total = first = second = 0.0
    for k in range(width):
        share = np.exp(found[0, k] + biases[k] - top)
        total += share
        first += share * found[1, k]
        second += share * (found[2, k] + found[1, k] * found[1, k])
    first /= total
    return first - mean, max(second / total - first * first, 0.0)


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
    biases: Any,
    mean: float,
    negligible: float,
    base: Any,
    tilt: Any,
    work: Any,
    n: int,
    found: Any,
) -> float:
    """The minimising lambda of a row by Newton's method, with the rules of `increasing_root`.

    The function is the cumulant generating function of a variable that lies within `reach`: its third derivative is
    at most `reach` times its second, which bounds what is left to gain more closely than the interval does.
    """
    low, high, width, reach = 0.0, 1.0, 1.0, 0.0
    for i in range(n):
        reach += abs(tilt[i])
    for turn in range(200):
        _all_ends(at, base, tilt, work, n, found)
        f, bend = _slope(found, biases, mean)
        if f < 0.0:
            low = at
        if f > 0.0:
            high = at
        left = -f * (high - at) if f < 0.0 else f * (at - low)
        middle = 0.5 * (low + high)
        near = 2.0 * reach * abs(f) < bend and 1.4 * f * f <= 1e-4 * negligible * bend
        if near or left <= negligible or not low < middle < high:
            break
        guess = _inside(at - f / bend if bend > 0.0 else middle, low, high)
        if turn % 4 == 3:
            if high - low > 0.5 * width and turn > 6:
                guess = middle
            width = high - low
        at = guess
    return at


@_loop(
    *(INDICES, INDICES, VECTOR, VECTOR, MATRIX, VECTOR, VECTOR, VECTOR, VECTOR),
    *(INTO_VECTOR, INTO_MATRIX, INTO_MATRIX, INTO_MATRIX, INTO_MATRIX),
)
def blankout_ends_loop(
    starts: Any,
    feature: Any,
    scale: Any,
    shift: Any,
    P: Any,
    Q: Any,
    biases: Any,
    mean: Any,
    negligible: Any,
    lam: Any,
    rates: Any,
    sums: Any,
    slopes: Any,
    curvatures: Any,
) -> None:
    """As `settled_ends`, without log q: each row's lambda is sought while its entries are in the cache."""
    n_rows, n_entries, width = len(lam), len(feature), len(biases)
    if not (len(scale) == n_entries and rates.shape == (width, n_entries)):
        raise ValueError(MISFIT)
    if not _delimit(starts, n_rows, feature) or P.shape != (len(Q), width):
        raise ValueError(MISFIT)
    if (len(shift) != 1 and len(shift) != n_entries) or len(mean) != n_rows or len(negligible) != n_rows:
        raise ValueError(MISFIT)
    if not (sums.shape == slopes.shape == curvatures.shape == (n_rows, width)):
        raise ValueError(MISFIT)
    longest = np.int64(0)
    for row in range(n_rows):
        longest = max(longest, np.int64(starts[row + 1]) - np.int64(starts[row]))
    tilt, base, work = np.empty(longest), np.empty(width * longest), np.empty((3, width * longest))
    found, each = np.empty((3, width)), 0 if len(shift) == 1 else 1
    for row in range(n_rows):
        start = np.int64(starts[row])
        n: Any = np.int64(starts[row + 1]) - start
        for i in range(n):
            d = feature[start + i]
            tilt[i] = scale[start + i] * Q[d]
            for k in range(width):
                base[k * n + i] = scale[start + i] * P[d, k] + shift[(start + i) * each]
        lam[row] = _settle(lam[row], biases, mean[row], negligible[row], base, tilt, work, n, found)
        for k in range(width):
            for i in range(n):
                rates[k, start + i] = work[2, k * n + i]
            sums[row, k], slopes[row, k], curvatures[row, k] = found[0, k], found[1, k], found[2, k]


@_loop(
    *(INDICES, INDICES, VECTOR, VECTOR, MATRIX, VECTOR, MATRIX, VECTOR, VECTOR),
    *(MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, INTO_MATRIX),
)
def fan_product_loop(
    starts: Any,
    feature: Any,
    scale: Any,
    means: Any,
    rates: Any,
    Q: Any,
    VP: Any,
    VQ: Any,
    biases: Any,
    share: Any,
    apart: Any,
    lam: Any,
    weight: Any,
    give: Any,
    image: Any,
) -> None:
    """As `Fan.product`, added to the image: P | Q, the biases last. Each row is read once."""
    n_rows, n_entries, width = len(lam), len(feature), len(biases)
    if not (len(scale) == len(means) == n_entries and rates.shape == (width, n_entries)):
        raise ValueError(MISFIT)
    if not _delimit(starts, n_rows, feature) or VP.shape != (len(Q), width) or len(VQ) != len(Q):
        raise ValueError(MISFIT)
    if not (share.shape == apart.shape == (n_rows, width) and len(weight) == len(give) == n_rows):
        raise ValueError(MISFIT)
    if image.shape != (len(Q) + 1, width + 1):
        raise ValueError(MISFIT)
    ds, g, h = np.empty(width), np.empty(width), np.empty(width)
    for row in range(n_rows):
        first, last, own = starts[row], starts[row + 1], lam[row]
        along = average = 0.0
        for place in range(first, last):
            along -= means[place] * VQ[feature[place]]
        for k in range(width):
            change, bent, straight = biases[k], 0.0, 0.0
            for place in range(first, last):
                d = feature[place]
                rate = rates[k, place]
                moved = rate * (VP[d, k] + own * VQ[d])
                change += moved
                straight += rate * VQ[d]
                bent += moved * (scale[place] - rate) * Q[d]
            ds[k] = change
            average += share[row, k] * change
            along += share[row, k] * (bent + straight + apart[row, k] * change)
        along *= give[row]
        for k in range(width):
            h[k] = along * share[row, k]
            g[k] = weight[row] * share[row, k] * (ds[k] - average) - h[k] * apart[row, k]
            image[len(Q), k] += g[k]
        for place in range(first, last):
            d = feature[place]
            to_Q = along * means[place]
            for k in range(width):
                rate = rates[k, place]
                to_P = rate * (g[k] - h[k] * (scale[place] - rate) * Q[d])
                image[d, k] += to_P
                to_Q += own * to_P - h[k] * rate
            image[d, width] += to_Q


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
