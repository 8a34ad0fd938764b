"""FDROP's loops for numba; imported by `fdrop` alone, and only where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def worst_case(
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
    total = 0.0
    top, place = np.empty(deletions), np.empty(deletions, dtype=np.int64)
    for n in rows:
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
