"""One way to choose: errors on validation rows along a path of penalties, and the candidate with the lowest error.

The command line chooses l2 with it for every method of an experiment, `MCFClassifierCV` and `MCFRegressorCV` choose
a family, its level and l2. It chooses with a learner: a method on a training set, which can be cut to
some of the rows and fitted along l2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    sums: Array  # divisions x l2s: what the test rows add up to; infinite where the path was left before
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
    problem: Any,
    corruption: Any,
    l2s: Sequence[float],
    start: Solution | None = None,
    ahead: bool = False,
    **fit: Any,
) -> Iterator[tuple[float, Solution]]:
    """Fits of a problem along l2, the strongest penalty first, each from the one before.

    With `ahead` a fit starts where the line through the two before it points, by the logarithms of the penalties.
    """
    past: list[tuple[float, Solution]] = []
    for l2 in sorted(l2s, reverse=True):
        if ahead and len(past) == 2 and l2 > 0.0:
            start = _beyond(past, l2)
        start = problem.solve(corruption, l2, start=start, **fit)
        past = [*past[-1:], (l2, start)]
        yield l2, start


def fits_from(
    problem: Any, corruption: Any, l2s: Sequence[float], starts: Sequence[Solution], **fit: Any
) -> Iterator[tuple[float, Solution]]:
    """Fits of a problem at each l2, each from a start of its own."""
    for l2, start in zip(l2s, starts, strict=True):
        yield l2, problem.solve(corruption, l2, start=start, **fit)


def _beyond(past: list[tuple[float, Solution]], l2: float) -> Solution:
    """The point on the line through two solutions that belongs to a weaker penalty."""
    (earlier, a), (later, b) = past
    steps = min(1.0, np.log(later / l2) / np.log(earlier / later))
    coef, intercept = b.coef - a.coef, b.intercept - a.intercept
    return replace(b, coef=b.coef + steps * coef, intercept=b.intercept + steps * intercept)


def validate(
    learner: Learner, divisions: Sequence[Division], l2s: Sequence[float], judge: Judge
) -> Validated:
    """Fit along l2 on the training rows of every division and measure each fit on the test rows.

    Weaker penalties cost the most. So the divisions go down the path side by side, and leave it once two penalties in
    a row were worse, over all test rows, than the best before them. The penalties after those count as infinitely bad.
    """
    l2s = sorted(l2s, reverse=True)
    paths = [_on_demand(learner, train, l2s) for train, _ in divisions]
    measures = [judge(test) for _, test in divisions]
    sums, solutions, worse = np.full((len(divisions), len(l2s)), np.inf), [], 0
    for place, fits in enumerate(zip(*paths, strict=True)):
        sums[:, place] = [measure(fit) for measure, (_, fit) in zip(measures, fits, strict=True)]
        solutions.append(fits[0][1])
        total = sums[:, : place + 1].sum(axis=0)
        worse = worse + 1 if total[-1] > total[:-1].min(initial=np.inf) else 0
        if worse == WORSE_IN_A_ROW:
            break
    return Validated(l2s, sums, np.array([len(test) for _, test in divisions]), solutions)


def _on_demand(learner: Learner, train: Array, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
    """A path on some rows: what it needs is made with its first fit."""
    yield from learner.subset(train).path(l2s)


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
