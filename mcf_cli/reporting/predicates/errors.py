"""Questions about test errors: a method beside its opponent, an order of methods, a stated number."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from mcf_cli.reporting.comparison import (
    LEVEL_WORDS,
    ClaimPart,
    Comparison,
    Level,
    Methods,
    NotEnough,
    Opponent,
    against,
    cases,
    compare,
    counted_of,
    method_words,
    place_words,
    plain_rows,
)
from mcf_cli.reporting.predicates.base import Predicate, first_run, width_on
from mcf_cli.reporting.statistics import Estimate, Quantities, difference
from mcf_cli.reporting.verdicts import Finding, Region, spoken_interval

MOST = 0.5


class BelowAtEveryLevel(Predicate):
    """The method's error lies below its opponent's at every level, on ``at_least`` of ``of`` data sets.

    On several data sets the number of those is estimated where every gain is positive; on a single one, the least gain.
    """

    method: Methods
    over: Opponent = "plain"
    level: Level | None = None
    above: float = -1.0  # only levels above this one count
    last: bool = False  # only the greatest level counts
    at_least: int = 1
    of: int = Field(1, ge=1)

    def judge(self, rows: pd.DataFrame) -> Finding:
        found = compare(rows, self.method, self.over, self.level)
        if self.level:
            levels = found.table[self.level]
            found = found.only((levels > self.above) & ((levels == levels.max()) | (not self.last)))
        if found.table.empty:
            raise NotEnough(f"no level above {self.above:g}")
        least = against(found.table.sort_values("gain", kind="stable"), self.level)
        below = counted_of(int((found.table["gain"] > 0).sum()), len(found.table), "point")
        parts = list(found.data_sets().values())
        if len(parts) == 1:
            estimate = Estimate.of(found.gains, np.min)
            words = f"least gain {spoken_interval(estimate, 'points')} ({least}); below at {below}"
            return Finding(words, estimate, Region.positive(), "points")
        estimate = Estimate.of(found.gains, lambda gains: sum((gains[lines] > 0).all() for lines in parts))
        needed = ceil(self.at_least / self.of * len(parts))
        words = f"below everywhere on {_counted(estimate, len(parts), 'data set')}, at {below}; least gain: {least}"
        return Finding(words, estimate, Region(low=needed - 0.5), "data sets")


def _counted(estimate: Estimate, total: int, unit: str) -> str:
    """``4 of 6 data sets (2 to 5)``."""
    words = counted_of(round(estimate.value), total, unit)
    return words if estimate.low is None else f"{words} ({estimate.low:.0f} to {estimate.high:.0f})"


class BeatsInMost(Predicate):
    """The method's error is the lower one in more than half of all cases, or on average (``take``)."""

    method: Methods
    over: Opponent = "plain"
    level: Level | None = None
    at_best: bool = False  # a case is a curve at its best level, else every level
    take: Literal["count", "mean"] = "count"

    def judge(self, rows: pd.DataFrame) -> Finding:
        found = compare(rows, self.method, self.over, self.level)
        mean = Estimate.of(found.gains.mean(), np.mean)
        average = f"on average {spoken_interval(mean, 'points')} lower"
        parts = found.curves() if self.at_best else [np.array([line]) for line in range(len(found.table))]
        share = Estimate.of(
            found.gains, lambda gains: sum(gains[lines].max() > 0 for lines in parts) / len(parts)
        )
        wins = round(share.value * len(parts))
        words = f"lower in {counted_of(wins, len(parts), 'case')}"
        if share.low is not None and share.high is not None:
            words += f" ({share.low * len(parts):.0f} to {share.high * len(parts):.0f})"
        if self.take == "mean":
            return Finding(f"{average}; {words}", mean, Region.positive(), "points")
        return Finding(f"{words}; {average}", share, Region(low=MOST), "of the cases")


class Reduction(Predicate):
    """How much lower the method's error is than its opponent's: the largest, the median or the mean over all cells.

    ``per cent`` is relative to the opponent, ``points`` is the difference. ``states`` is a number that the paper
    prints, ``at_most`` an upper end, ``at_least`` a lower one; with none the claim is the direction: lower. The
    opponent stands at the same level, unless ``over_at`` names another.
    """

    method: Methods
    over: Opponent = "plain"
    unit: Literal["per cent", "points"] = "per cent"
    level: Level | None = None
    at: float | None = None  # one level
    over_at: float | None = None
    take: Literal["largest", "median", "mean"] = "largest"
    states: float | None = None
    digits: int = 0  # of the stated number, after the point
    examples: int = 0  # test examples behind the paper's number
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _answerable(self) -> Reduction:
        if sum(end is not None for end in (self.states, self.at_most, self.at_least)) > 1:
            raise ValueError("a reduction has one of states, at_most and at_least, or none")
        if self.over_at is not None and self.at is None:
            raise ValueError("a reduction with `over_at` needs `at`")
        if self.at is not None and self.level is None:
            raise ValueError("a reduction `at` a value needs the `level` that it is a value of")
        return self

    def judge(self, rows: pd.DataFrame) -> Finding:
        found, relative = self._compared(rows), self.unit == "per cent"
        cells, unit = self._cells(found), "%" if relative else "points"
        estimate = self._taken(cells)
        words = f"{spoken_interval(estimate, unit)} lower"
        ordered = found.table.sort_values("reduction" if relative else "gain", ascending=False, kind="stable")
        if len(ordered) == 1:
            words += f" ({against(ordered, self.level)})"
        elif self.take == "largest":
            words += f" at best ({against(ordered, self.level)}), {self._mean_words(cells, unit)} on average"
        else:
            words += f" {'on average' if self.take == 'mean' else 'in the middle'} of {len(ordered)} cases"
        return Finding(words, estimate, self._region(rows), unit)

    def _compared(self, rows: pd.DataFrame) -> Comparison:
        found = compare(self._levelled(rows), self.method, self.over, self.level)
        if self.level is not None and self.at is not None:
            found = found.only((found.table[self.level] - self.at).abs() < 1e-9)
            if found.table.empty:
                raise NotEnough(f"no rows at {LEVEL_WORDS[self.level].format(self.at)}")
        return found

    def _cells(self, found: Comparison) -> Quantities:
        return found.reductions if self.unit == "per cent" else found.gains

    def _levelled(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows as they are, or the method's at its level and the opponent's of the other beside them."""
        if self.level is None or self.at is None or self.over_at is None:
            return rows
        ours = self.method.rows(rows[(rows[self.level] - self.at).abs() < 1e-9])
        there = rows[(rows[self.level] - self.over_at).abs() < 1e-9]
        theirs = self.over.rows(there) if isinstance(self.over, Methods) else plain_rows(there)
        return pd.concat([ours, theirs.assign(**{self.level: self.at})], ignore_index=True)

    def _taken(self, cells: Quantities) -> Estimate:
        if self.take == "mean":
            return Estimate.of(cells.mean(), np.mean)
        return Estimate.of(cells, np.max if self.take == "largest" else np.median)

    def _mean_words(self, cells: Quantities, unit: str) -> str:
        return spoken_interval(Estimate.of(cells.mean(), np.mean), unit)

    def _region(self, rows: pd.DataFrame) -> Region:
        if self.states is not None:
            once = self._cells(self._compared(first_run(rows)))
            one = once.mean() if self.take == "mean" else once.single(int(np.argmax(once.values)))
            return Region.number(
                self.states, self.digits, "above", self.examples, width_on(one, self.examples)
            )
        if self.at_least is not None:
            return Region(low=self.at_least)
        return Region.positive() if self.at_most is None else Region(high=self.at_most)


class ErrorAtMost(Predicate):
    """The method's mean error over all data sets is at most so many per cent."""

    method: Methods
    at_most: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        found = cases(self.method.rows(rows))
        if not found:
            raise NotEnough("no such rows")
        cells = Quantities.of_errors([part for _, part in found]).scaled(100)
        estimate = Estimate.of(cells.mean(), np.mean)
        words = f"{spoken_interval(estimate, '%')} on average of {len(found)} cases, "
        words += f"{cells.values.min():.1f}% to {cells.values.max():.1f}%"
        return Finding(words, estimate, Region(high=self.at_most), "%")


class ErrorIs(Predicate):
    """The method's error is the number that the paper prints, in per cent; a lower one is stronger."""

    method: Methods
    states: float
    digits: int = 1
    examples: int = 0
    whose: str = "the paper has"  # or the words for another's number that the paper quotes

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        if frame.empty:
            raise NotEnough("no such rows")
        found = cases(frame)
        if len(found) > 1:
            raise NotEnough("several methods, where the number is of one")
        estimate = Estimate.of(Quantities.of_errors([found[0][1]]).scaled(100), np.mean)
        words = f"{spoken_interval(estimate, '%')} ({place_words(frame, None)}) where {self.whose} {self.states:.1f}%"
        widest = width_on(Quantities.of_errors([first_run(found[0][1])]).scaled(100), self.examples)
        region = Region.number(self.states, self.digits, "below", self.examples, widest)
        return Finding(words, estimate, region, "%")


class OrderOf(Predicate):
    """The methods' errors ascend in the order given: every step is positive."""

    methods: list[Methods] = Field(min_length=2)

    def judge(self, rows: pd.DataFrame) -> Finding:
        groups = [methods.rows(rows) for methods in self.methods]
        if any(group.empty for group in groups):
            raise NotEnough("one of the methods has no rows")
        cells = Quantities.of_errors(groups)
        steps = list(pairwise(range(len(groups))))
        gains = cells.differences([b for _, b in steps], [a for a, _ in steps]).scaled(100)
        estimate = Estimate.of(gains, np.min)
        names = ["plain" if g["corruption"].iloc[0] == "none" else method_words(g) for g in groups]
        words = f"{names[0]} {cells.values[0]:.2%}"
        for before, after in steps:
            a, b = cells.values[before], cells.values[after]
            words += f" {'<' if a < b else '>' if a > b else '='} {names[after]} {b:.2%}"
        return Finding(
            f"{words}; least step {spoken_interval(estimate, 'points')}",
            estimate,
            Region.positive(),
            "points",
        )


class Gain(ClaimPart):
    """A method and what it is compared with."""

    method: Methods
    over: Opponent = "plain"


class SmallerGain(Predicate):
    """The method reduces errors by less than another one does, each beside its own opponent, on average over levels."""

    method: Methods
    over: Opponent = "plain"
    than: Gain
    level: Level | None = None

    def judge(self, rows: pd.DataFrame) -> Finding:
        both = [
            Estimate.of(compare(rows, pair.method, pair.over, self.level).reductions.mean(), np.mean)
            for pair in (self, self.than)
        ]
        estimate = difference(both[1], both[0])
        words = f"{spoken_interval(both[0], '%')} lower, the other {spoken_interval(both[1], '%')}; "
        words += f"difference {spoken_interval(estimate, '%')}"
        return Finding(words, estimate, Region.positive(), "%")


class MoreEffective(Predicate):
    """The method's largest reductions are greater on some data sets than on others, on average."""

    method: Methods
    over: Opponent = "plain"
    level: Level | None = "q"
    these: list[str] = Field(min_length=1)
    those: list[str] = Field(min_length=1)

    def judge(self, rows: pd.DataFrame) -> Finding:
        found = compare(rows, self.method, self.over, self.level)
        sides = [self._curves(found, names) for names in (self.these, self.those)]
        cells = found.reductions
        first, second = (Estimate.of(cells, partial(_mean_best, side)) for side in sides)
        estimate = difference(first, second)
        words = (
            f"at their best {first.value:.1f}% lower on the first sets, {second.value:.1f}% on the others; "
        )
        words += f"difference {spoken_interval(estimate, '%')}"
        return Finding(words, estimate, Region.positive(), "%")

    @staticmethod
    def _curves(found: Comparison, names: list[str]) -> list[np.ndarray]:
        wanted = found.table["dataset"].isin(names).to_numpy()
        curves = [lines for lines in found.curves() if wanted[lines].all()]
        if not curves:
            raise NotEnough(f"no rows on {' or '.join(names)}")
        return curves


def _mean_best(curves: list[np.ndarray], values: np.ndarray) -> float:
    """The mean over curves of the largest value on each."""
    return float(np.mean([values[lines].max() for lines in curves]))
