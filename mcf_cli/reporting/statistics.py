"""Means of errors with their uncertainty: intervals from errors example by example, paired wherever rows are shared.

A cell is one method on one data set at one level. Its mean error is written as a sum over test examples and over
repeats, and each of them has an influence on it. Differences, ratios and averages of cells have influences too, by
the chain rule, and the sum of their squares is a variance: two methods on the same test rows are compared in pairs,
and 50 runs on the same 3,190 examples are not taken for 50 times as many. Test examples and repeats (training sets,
divisions into folds) count as two sources of chance whose variances add. Repeats are few, so that what they vary by is
itself uncertain: their part of an interval is Student's. With z of the normal and t of Student's distribution half an
interval is sqrt(z^2 V_examples + t^2 V_repeats): right where either part is alone, and on the safe side between. With
two repeats it covers the truth in 95% to 99% of all cases, with Satterthwaite's degrees of freedom in 87% to 95%.

Several cells at once get simultaneous intervals: all of them are right together in 95% of all cases. Their width comes
from a parametric bootstrap: draws with the covariance of the influences, and the 95% quantile of the largest deviation.
How a few repeats make cells go together cannot be told from them, so their part is drawn apart for each cell, which is
the widest (Šidák).
What is made of the cells (the largest, a count, the best level) then has an interval too: the range of its values while
every cell moves in its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import stats

CONFIDENCE = 0.95
NORMAL_WIDTH = float(stats.norm.ppf((1 + CONFIDENCE) / 2))  # half an interval in standard errors
Kind: TypeAlias = Literal["interval", "range", "exact"]
DRAWS = 10_000  # of the bootstrap
_SEED = 2013
Places: TypeAlias = "Sequence[int] | np.ndarray | pd.Series"  # numbers of cells
FACTORS = (2, 3, 5, 10, 20, 30, 50, 100, 1000)  # how many times the test examples, where so many would decide


@dataclass(frozen=True)
class Quantities:
    """Some quantities with the influence of every example and repeat on each.

    ``influence`` is None where the rows have no errors example by example, as older versions wrote them. Its lines
    below those of the examples are the repeats'; ``degrees`` has for each of these how many its data set has, less one.
    """

    values: np.ndarray
    influence: np.ndarray | None
    examples: np.ndarray  # distinct test examples of each
    least: np.ndarray  # the weight of one example, below which no standard error is taken to lie
    degrees: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    @classmethod
    def of_errors(cls, groups: Sequence[pd.DataFrame]) -> Quantities:
        """The mean errors of groups of rows; the rows of a group are one method's, on one data set."""
        if any(group["wrong"].isna().any() if "wrong" in group else True for group in groups):
            values = np.array([_mean_value(group) for group in groups])
            return cls(values, None, np.zeros(len(groups), dtype=int), np.zeros(len(groups)))
        places = _Places(groups)
        influence = np.zeros((places.size, len(groups)))
        values, examples = np.zeros(len(groups)), np.zeros(len(groups), dtype=int)
        for column, group in enumerate(groups):
            values[column], examples[column] = places.fill(influence[:, column], group)
        return cls(values, influence, examples, 1 / np.maximum(examples, 1), places.degrees)

    def combined(self, values: np.ndarray, weights: np.ndarray) -> Quantities:
        """Functions of the cells: their values, and their derivatives (cells down, functions across)."""
        influence = None if self.influence is None else self.influence @ weights
        used = weights != 0
        examples = np.array([self.examples[column].min(initial=np.iinfo(int).max) for column in used.T])
        least = (np.abs(weights) * self.least[:, None]).max(axis=0, initial=0.0)
        return Quantities(np.asarray(values, dtype=float), influence, examples, least, self.degrees)

    def differences(self, first: Places, second: Places) -> Quantities:
        """first - second, pair by pair."""
        weights = np.zeros((len(self.values), len(first)))
        pairs = np.arange(len(first))
        np.add.at(weights, (np.asarray(first), pairs), 1.0)
        np.add.at(weights, (np.asarray(second), pairs), -1.0)
        return self.combined(self.values[list(first)] - self.values[list(second)], weights)

    def reductions(self, ours: Places, theirs: Places) -> Quantities:
        """1 - ours / theirs, pair by pair."""
        a, b = self.values[list(ours)], self.values[list(theirs)]
        weights = np.zeros((len(self.values), len(a)))
        pairs = np.arange(len(a))
        safe = np.where(b > 0, b, np.inf)
        np.add.at(weights, (np.asarray(ours), pairs), -1 / safe)
        np.add.at(weights, (np.asarray(theirs), pairs), a / safe**2)
        return self.combined(1 - a / safe, weights)

    def single(self, number: int) -> Quantities:
        """One of them alone."""
        return self.combined(self.values[[number]], np.eye(len(self.values))[:, [number]])

    def mean(self) -> Quantities:
        """Their mean, as a single quantity."""
        count = len(self.values)
        return self.combined(np.array([self.values.mean()]), np.full((count, 1), 1 / count))

    def scaled(self, factor: float) -> Quantities:
        """All of them in another unit."""
        influence = None if self.influence is None else factor * self.influence
        return replace(self, values=factor * self.values, influence=influence, least=abs(factor) * self.least)

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Influence of the examples, and of the repeats."""
        assert self.influence is not None
        first = len(self.influence) - len(self.degrees)
        return self.influence[:first], self.influence[first:]

    def errors(self) -> np.ndarray:
        """Standard errors. Two methods that agree on every example may do so by chance: none is below one example."""
        tested, repeated = self._parts()
        return np.sqrt(np.maximum((tested**2).sum(axis=0), self.least**2) + (repeated**2).sum(axis=0))

    def halves(self, width: float = NORMAL_WIDTH, factor: float = 1.0) -> np.ndarray:
        """Half of each one's interval, ``width`` standard errors of examples wide: by default that of it alone.

        half^2 = z^2 V / factor + sum_s t_s^2 V_s, over the data sets s: as much of Student's distribution with R_s - 1
        degrees of freedom lies beyond t_s as of the normal one beyond z = ``width``; R_s is the number of repeats.
        """
        tested, repeated = self._parts()
        squares = (tested**2).sum(axis=0) / factor
        squares = width**2 * np.maximum(squares, self.least**2 / factor)
        students = stats.t.isf(stats.norm.sf(width), self.degrees)
        return np.sqrt(squares + students**2 @ repeated**2)

    def bands(self) -> Bands | None:
        """Simultaneous intervals, None where there is no evidence for any."""
        if self.influence is None:
            return None
        width = _width(*self._parts(), self.errors())
        return Bands(self.values, lambda factor: self.halves(width, factor))


@dataclass(frozen=True)
class Bands:
    """Intervals around several quantities that hold together: value -+ half, with so many times as many examples."""

    values: np.ndarray
    half: Callable[[float], np.ndarray]

    def low(self, factor: float = 1.0) -> np.ndarray:
        """The lower ends, with ``factor`` times as many test examples."""
        return self.values - self.half(factor)

    def high(self, factor: float = 1.0) -> np.ndarray:
        """The upper ends."""
        return self.values + self.half(factor)


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval, or a range in its place.

    ``at`` gives the interval that so many times as many test examples would have; None without evidence. ``kind`` says
    what it is: an ``interval``, a ``range`` from the least to the greatest of several measurements, or nothing but the
    number itself, which is ``exact``.
    """

    value: float
    at: Callable[[float], tuple[float, float]] | None = None
    examples: int = 0  # distinct test examples of the smallest cell, 0 where no example was tested
    kind: Kind = "interval"

    @property
    def low(self) -> float | None:
        return None if self.at is None else self.at(1.0)[0]

    @property
    def high(self) -> float | None:
        return None if self.at is None else self.at(1.0)[1]

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A number that no sample stands behind: computed, or counted."""
        return cls(float(value), lambda factor: (float(value), float(value)), kind="exact")

    @classmethod
    def between(cls, value: float, low: float, high: float, kind: Kind = "range") -> Estimate:
        """A number with a range that no test examples would narrow."""
        return cls(float(value), lambda factor: (float(low), float(high)), kind=kind)

    @classmethod
    def student(cls, values: np.ndarray) -> Estimate:
        """The mean of independent values, with Student's interval; without one for a single value."""
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean)
        half = float(half_interval(np.array([np.std(values, ddof=1)]), np.array([len(values)]))[0])
        return cls.between(mean, mean - half, mean + half, "interval")

    @classmethod
    def of(cls, cells: Quantities, take: Callable[[np.ndarray], float]) -> Estimate:
        """What ``take`` makes of the cells. It must not fall where a cell rises: a largest, a mean, a count above 0."""
        bands = cells.bands()
        value, examples = float(take(cells.values)), int(cells.examples.min(initial=np.iinfo(int).max))
        if bands is None:
            return cls(value)
        return cls(
            value, lambda factor: (float(take(bands.low(factor))), float(take(bands.high(factor)))), examples
        )


def half_interval(deviations: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Half of Student's interval around the mean of so many independent values; 0 for a single one."""
    several = runs > 1
    counted = np.where(several, runs, 2)
    width = stats.t.ppf((1 + CONFIDENCE) / 2, counted - 1) / np.sqrt(counted)
    return np.where(several, width * np.where(several, deviations, 0.0), 0.0)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """first - second, as wide as both of them together: nothing is assumed of how they depend on each other."""
    value, examples = first.value - second.value, min(first.examples, second.examples)
    one, other = first.at, second.at
    if one is None or other is None:
        return Estimate(value)
    return Estimate(
        value, lambda factor: (one(factor)[0] - other(factor)[1], one(factor)[1] - other(factor)[0]), examples
    )


def _mean_value(group: pd.DataFrame) -> float:
    """The mean over repeats of the means over their rows."""
    return float(group.groupby(group["repeat"].fillna(0))["value"].mean().mean())


class _Places:
    """Where the influence of every (data set, example) and (data set, repeat) stands."""

    def __init__(self, groups: Sequence[pd.DataFrame]) -> None:
        sizes: dict[str, int] = {}
        repeats: set[tuple[str, float]] = set()
        for group in groups:
            name = str(group["dataset"].iloc[0])
            sizes[name] = max(
                sizes.get(name, 0), *(int(tested.max(initial=-1)) + 1 for tested in group["tested"])
            )
            repeats |= {(name, repeat) for repeat in group["repeat"].fillna(0)}
        self.start: dict[str, int] = {}
        self.size = 0
        for name, size in sizes.items():
            self.start[name] = self.size
            self.size += size
        self.sizes = sizes
        ordered = sorted(repeats)
        self.repeat = {key: self.size + n for n, key in enumerate(ordered)}
        self.size += len(self.repeat)
        counts = Counter(name for name, _ in ordered)
        self.degrees = np.array([max(1, counts[name] - 1) for name, _ in ordered], dtype=int)

    def fill(self, influence: np.ndarray, group: pd.DataFrame) -> tuple[float, int]:
        """The influences on a group's mean error; the mean and its number of distinct examples."""
        name = str(group["dataset"].iloc[0])
        wrong, count = np.zeros(self.sizes[name]), np.zeros(self.sizes[name])
        for tested, marks in zip(group["tested"], group["wrong"], strict=True):
            wrong[tested] += marks
            count[tested] += 1
        mean = wrong.sum() / count.sum()
        start = self.start[name]
        influence[start : start + self.sizes[name]] = (wrong - mean * count) / count.sum()
        runs = group.groupby(group["repeat"].fillna(0))["value"].mean()
        if len(runs) > 1:
            spread = (runs - runs.mean()) / np.sqrt(len(runs) * (len(runs) - 1))
            for repeat, deviation in spread.items():
                influence[self.repeat[name, repeat]] = deviation
        return float(mean), int((count > 0).sum())


def _width(tested: np.ndarray, repeated: np.ndarray, errors: np.ndarray) -> float:
    """How many standard errors wide normal intervals must be to hold together; what repeats add is drawn apart."""
    if tested.shape[1] == 1:
        return NORMAL_WIDTH
    units = np.where(errors > 0, errors, 1.0)
    scaled = tested / units
    correlation = scaled.T @ scaled + np.diag(((repeated / units) ** 2).sum(axis=0))
    # A Cholesky factor is the same on every machine, which eigenvectors are not; the little added makes it exist.
    factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(correlation)))
    draws = np.random.default_rng(_SEED).standard_normal((DRAWS, len(correlation))) @ factor.T
    simultaneous = float(np.quantile(np.abs(draws).max(axis=1), CONFIDENCE))
    independent = float(stats.norm.ppf(1 - (1 - CONFIDENCE) / 2 / tested.shape[1]))  # Bonferroni
    return max(NORMAL_WIDTH, min(simultaneous, independent))
