"""One way to choose: errors on validation rows along a path of penalties, and the candidate that they speak for.

The command line chooses l2 with it for every method of an experiment, `MCFClassifierCV` and `MCFRegressorCV` choose
a family, its level and l2. What is chosen from is a learner: a method on a training set, which can be cut to some
of the rows and fitted along l2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.problem import Solution

WORSE_IN_A_ROW = 2
_TIE = 1e-12  # means of the same numbers in another order differ by less


class Learner(Protocol):
    """A method on a training set."""

    def subset(self, rows: Array) -> Learner:
        """The same method on some of the rows."""

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        """Fits along l2, the strongest first, which begins at `start`."""


Division = tuple[Array, Array]  # the rows that train, and those that test
Judge = Callable[
    [Array], Callable[[Any], Array]
]  # of test rows: what each of them adds to a solution's error


@dataclass(frozen=True)
class Validated:
    """What validation says of every penalty on every division of the rows."""

    l2s: list[float]  # from the strongest to the weakest
    sums: Array  # divisions x l2s: what the test rows add up to; infinite where a path was left before
    counts: Array  # divisions: how many numbers were added up
    solutions: list[Solution]  # of the first division, as far as its path went

    @property
    def by_division(self) -> Array:
        """The mean error of every division and penalty."""
        return self.sums / self.counts[:, None]

    @property
    def pooled(self) -> Array:
        """The mean error of all test rows, penalty by penalty."""
        return self.sums.sum(axis=0) / self.counts.sum()


def validate(
    learner: Learner, divisions: Iterable[Division], l2s: Sequence[float], judge: Judge, patient: bool = True
) -> Validated:
    """Fit along l2 on the training rows of every division and measure each fit on the test rows.

    Weaker penalties cost the most. Unless `patient`, a path is left once two in a row were worse than the best
    before them; the penalties after those count as infinitely bad.
    """
    l2s = sorted(l2s, reverse=True)
    sums, counts = [], []
    kept: list[Solution] = []
    for train, test in divisions:
        measure, row, solutions, worse = judge(test), np.full(len(l2s), np.inf), [], 0
        for place, (_, solution) in enumerate(learner.subset(train).path(l2s)):
            errors = measure(solution)
            row[place] = np.sum(errors)
            solutions.append(solution)
            worse = worse + 1 if row[place] > row[:place].min(initial=np.inf) else 0
            if not patient and worse == WORSE_IN_A_ROW:
                break
        kept = kept or solutions
        sums.append(row)
        counts.append(len(errors))
    return Validated(l2s, np.array(sums), np.array(counts), kept)


def first_best(errors: Any) -> int:
    """The place of the lowest error. Among equals the first: candidates stand in the order that decides ties.

    Errors that are no numbers lose against any number.

    >>> first_best([0.25, float("nan"), 0.125, 0.125])
    2
    """
    errors = np.asarray(errors, dtype=float)
    errors = np.where(np.isnan(errors), np.inf, errors)
    lowest = errors.min()
    slack = _TIE * abs(lowest) if np.isfinite(lowest) else 0.0
    return int(np.argmax(errors <= lowest + slack))
