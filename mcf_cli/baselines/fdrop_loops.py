"""FDROP's loops for numba; loaded by `core.kernels.dispatch` alone, and only where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba import types as nb

from mcf_cli.core.kernels.dispatch import Loop
from mcf_cli.core.kernels.loops import INDICES, INTO_MATRIX, INTO_VECTOR, MATRIX, MISFIT, NUMBERS, VECTOR


@njit
def _keep_largest(top: Any, place: Any, held: int, value: float, where: int) -> int:
    """Put a value among the largest ones so far, which stand in ascending order; how many there are then."""
    if held == len(top):
        if value <= top[0]:
            return held
        i = 0
        while i + 1 < held and top[i + 1] < value:
            top[i], place[i] = top[i + 1], place[i + 1]
            i += 1
    else:
        i = held
        while i > 0 and top[i - 1] > value:
            top[i], place[i] = top[i - 1], place[i - 1]
            i -= 1
        held += 1
    top[i], place[i] = value, where
    return held


def _worst_case(
    starts: Any,
    columns: Any,
    values: Any,
    labels: Any,
    rows: Any,
    weights: Any,
    bias: Any,
    deletions: int,
    share: float,
    by_weights: Any,
    by_bias: Any,
) -> float:
    """The summed worst-case loss of some rows; `share` times its subgradient is added to the last two arguments."""
    n_rows, n_classes = len(labels), len(weights)
    if len(starts) != n_rows + 1 or starts[n_rows] > len(columns) or len(columns) != len(values):
        raise ValueError(MISFIT)
    misfit = by_weights.shape != weights.shape or len(by_bias) != n_classes
    if len(bias) != n_classes or (share != 0.0 and misfit):
        raise ValueError(MISFIT)
    total, top, place = 0.0, np.empty(deletions), np.empty(deletions, dtype=np.int64)
    for n in rows:
        if not (0 <= n < n_rows and 0 <= labels[n] < n_classes):
            raise ValueError(MISFIT)
        first, last, y = starts[n], starts[n + 1], labels[n]
        loss, worst = 0.0, y
        for k in range(len(weights)):
            if k == y:
                continue
            margin, held = bias[y] - bias[k], 0
            for entry in range(first, last):
                d = columns[entry]
                contribution = (weights[y, d] - weights[k, d]) * values[entry]
                margin += contribution
                if contribution > 0.0 and deletions > 0:
                    held = _keep_largest(top, place, held, contribution, entry)
            violation = 1.0 - margin
            for i in range(held):
                violation += top[i]
            if violation > loss:
                loss, worst = violation, k
        total += loss
        if worst == y or share == 0.0:
            continue
        held = 0
        for entry in range(first, last):
            d = columns[entry]
            pull = share * values[entry]
            by_weights[worst, d] += pull
            by_weights[y, d] -= pull
            contribution = (weights[y, d] - weights[worst, d]) * values[entry]
            if contribution > 0.0 and deletions > 0:
                held = _keep_largest(top, place, held, contribution, entry)
        for i in range(held):  # what the adversary deletes pulls nothing
            d, pull = columns[place[i]], share * values[place[i]]
            by_weights[worst, d] -= pull
            by_weights[y, d] += pull
        by_bias[worst] += share
        by_bias[y] -= share
    return total


_ENTRIES = (INDICES, INDICES, VECTOR, NUMBERS)  # of all examples, and their labels
_POINT = (MATRIX, VECTOR)
worst_case = Loop(
    _worst_case, (*_ENTRIES, NUMBERS, *_POINT, nb.int64, nb.float64, INTO_MATRIX, INTO_VECTOR), nogil=True
)
