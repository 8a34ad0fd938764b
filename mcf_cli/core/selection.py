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
Judge = Callable[[Array], Callable[[Solution], float]]  # of test rows: what they add to a solution's error


@dataclass(frozen=True)
class Validated:
    """What validation says of every penalty on every division of the rows."""

    l2s: list[float]  # from the strongest to the weakest
    sums: Array  # divisions x l2s: what the test rows add up to; infinite where a path was left before
    counts: Array  # divisions: how many test rows there are
    solutions: list[Solution]  # of the first division, as far as its path went

    @property
    def by_division(self) -> Array:
        """The mean error of every division and penalty."""
        return self.sums / self.counts[:, None]

    @property
    def pooled(self) -> Array:
        """The mean error of all test rows, penalty by penalty."""
        return self.sums.sum(axis=0) / self.counts.sum()


def fits_along(
    problem: Any, corruption: Any, l2s: Sequence[float], start: Solution | None = None, **fit: Any
) -> Iterator[tuple[float, Solution]]:
    """Fits of a problem along l2, the strongest penalty first, each from the one before."""
    for l2 in sorted(l2s, reverse=True):
        start = problem.solve(corruption, l2, start=start, **fit)
        yield l2, start


def path_errors(
    path: Iterable[tuple[float, Solution]], measure: Callable[[Solution], float], length: int, patient: bool
) -> tuple[Array, list[Solution]]:
    """The error of every fit of a path, and the fits.

    Weaker penalties cost the most. Unless `patient`, a path is left once two in a row were worse than the best
    before them; the penalties after those count as infinitely bad.
    """
    errors, solutions, worse = np.full(length, np.inf), [], 0
    for place, (_, solution) in enumerate(path):
        errors[place] = measure(solution)
        solutions.append(solution)
        worse = worse + 1 if errors[place] > errors[:place].min(initial=np.inf) else 0
        if not patient and worse == WORSE_IN_A_ROW:
            break
    return errors, solutions


def validate(
    learner: Learner, divisions: Iterable[Division], l2s: Sequence[float], judge: Judge, patient: bool = True
) -> Validated:
    """Fit along l2 on the training rows of every division and measure each fit on the test rows."""
    l2s = sorted(l2s, reverse=True)
    sums, counts = [], []
    kept: list[Solution] = []
    for train, test in divisions:
        path = learner.subset(train).path(l2s)
        errors, solutions = path_errors(path, judge(test), len(l2s), patient)
        kept = kept or solutions
        sums.append(errors)
        counts.append(len(test))
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


def strongest_within(errors: Array, best: int, order: Sequence[int]) -> int:
    """The one-standard-error rule: the first of `order` whose mean error is within one standard error of the best.

    errors : divisions x candidates
    best : the candidate of the lowest mean error, whose standard error counts
    order : candidates from the most regularised to the least
    """
    means = errors.mean(axis=0)
    slack = errors[:, best].std(ddof=1) / np.sqrt(len(errors))
    within = means <= means[best] * (1.0 + _TIE) + slack
    return next(candidate for candidate in order if within[candidate])
