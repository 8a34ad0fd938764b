"""Questions about curves: where the best level lies, what rises or falls along a level, which l2 was chosen."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd

from mcf_cli.reporting.comparison import (
    LEVEL_WORDS,
    Level,
    Methods,
    NotEnough,
    counted_of,
    levels_of,
    plain_rows,
)
from mcf_cli.reporting.predicates.base import Predicate
from mcf_cli.reporting.statistics import Bands, Estimate, Quantities
from mcf_cli.reporting.verdicts import Finding, Region, spoken_interval

STEP = 0.1  # of a level, for which a slope is told


class BestLevelBetween(Predicate):
    """The level with the lowest error lies in [low, high], on more than half of the curves; q = 0 is a level.

    A level may be the best one unless its error is higher than the lowest by more than the simultaneous interval. A
    curve surely has its best level inside when all of those lie inside, and perhaps when one does.
    """

    method: Methods
    level: Level = "q"
    low: float
    high: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        curves = levels_of(self.method.curves(rows), self.level)
        if not curves:
            raise NotEnough("no rows with a level")
        levels = [np.array([part[self.level].iloc[0] for part in parts]) for parts in curves]
        cells = Quantities.of_errors([part for parts in curves for part in parts])
        ends = np.cumsum([0, *(len(parts) for parts in curves)])
        spans = [np.arange(a, b) for a, b in pairwise(ends)]
        best = [span[np.argmin(cells.values[span])] for span in spans]
        inside = [(found >= self.low - 1e-9) & (found <= self.high + 1e-9) for found in levels]
        above = cells.differences(
            np.concatenate(spans),
            np.concatenate([np.full(len(s), b) for s, b in zip(spans, best, strict=True)]),
        )
        chosen = [float(found[b - s[0]]) for found, s, b in zip(levels, spans, best, strict=True)]
        value = float(np.mean([i[b - s[0]] for i, s, b in zip(inside, spans, best, strict=True)]))
        bands, examples = above.bands(), int(cells.examples.min())
        estimate = Estimate(value)
        if bands is not None:
            estimate = Estimate(value, lambda factor: _inside(bands, spans, inside, factor), examples)
        counts = pd.Series(chosen).value_counts().sort_index()
        listed = ", ".join(f"{level:g} ({count}×)" for level, count in counts.items())
        words = f"best {self.level}: {listed}; "
        words += f"{counted_of(round(value * len(spans)), len(spans), 'curve')} within {self.low:g} to {self.high:g}"
        if estimate.low is not None and estimate.high is not None:
            words += f" (surely {estimate.low * len(spans):.0f}, perhaps {estimate.high * len(spans):.0f})"
        return Finding(words, estimate, Region(low=0.5), "of the curves")


def _inside(
    bands: Bands, spans: list[np.ndarray], inside: list[np.ndarray], factor: float
) -> tuple[float, float]:
    """The shares of curves whose best level surely, and perhaps, lies inside."""
    possible = [bands.low(factor)[span] <= 0 for span in spans]
    surely = np.mean([i[p].all() for p, i in zip(possible, inside, strict=True)])
    perhaps = np.mean([i[p].any() for p, i in zip(possible, inside, strict=True)])
    return float(surely), float(perhaps)


class RisesAfter(Predicate):
    """From level ``start`` to the last one the error rises, on every curve: the least rise is positive."""

    method: Methods
    level: Level = "q"
    start: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        frame = frame[frame[self.level] >= self.start - 1e-9]
        ends = [(parts[0], parts[-1]) for parts in levels_of(frame, self.level) if len(parts) > 1]
        if not ends:
            raise NotEnough(f"no levels beyond {self.start:g}")
        cells = Quantities.of_errors([part for pair in ends for part in pair])
        first, last = range(0, 2 * len(ends), 2), range(1, 2 * len(ends), 2)
        rises = cells.differences(list(last), list(first)).scaled(100)
        estimate = Estimate.of(rises, np.min)
        shares = cells.values[1::2] / cells.values[::2] - 1
        words = f"error at {LEVEL_WORDS[self.level].format(frame[self.level].max())} against {self.start:g}: "
        words += f"{shares.min():+.0%} to {shares.max():+.0%} on {len(ends)} curves; "
        words += f"least rise {spoken_interval(estimate, 'points')}"
        return Finding(words, estimate, Region.positive(), "points")


class SmallerL2(Predicate):
    """The chosen l2 is smaller with the method than without it, on the same data set and loss.

    ``count`` "zero" compares how often 0 was chosen, "weaker" how often a smaller l2 than the plain model's. The
    interval is over (item, data set, loss), which have one answer each: Student's t.
    """

    method: Methods
    count: Literal["zero", "weaker"]

    def judge(self, rows: pd.DataFrame) -> Finding:
        ours, plain = self.method.rows(rows), plain_rows(rows)
        keys = ["item", "dataset", "loss"]
        values, zeros = [], []
        for key, part in ours[ours["l2"].notna()].groupby(keys, sort=True):
            theirs = plain[(plain[keys] == list(key)).all(axis=1)]["l2"].dropna()
            if theirs.empty:
                continue
            zeros.append(float((part["l2"] == 0).mean()))
            if self.count == "zero":
                values.append(100 * (zeros[-1] - float((theirs == 0).mean())))
            else:
                middle = theirs.median()
                values.append(
                    100 * float((part["l2"] < middle).mean() + (part["l2"] == middle).mean() / 2) - 50
                )
        if not values:
            raise NotEnough("no chosen l2 of the method beside one of the plain model")
        estimate = Estimate.student(np.array(values))
        chosen = f"l2 = 0 chosen in {(ours['l2'] == 0).mean():.0%} of {len(ours)} fits"
        chosen += f" (0% to {max(zeros):.0%} by item, data set and loss)" if max(zeros) else ""
        middle_words = f"median {ours['l2'].median():.2g} against {plain['l2'].median():.2g}"
        what = (
            "more often 0 than without MCF"
            if self.count == "zero"
            else "more often weaker than half of the time"
        )
        words = f"{spoken_interval(estimate, 'points')} {what}; {chosen}; {middle_words}"
        return Finding(words, estimate, Region.positive(), "points")


def _slope_weights(levels: np.ndarray) -> np.ndarray:
    """What values at the levels are multiplied by to add up to the slope of their regression line."""
    centred = levels - levels.mean()
    return np.asarray(centred / (centred**2).sum())


class FallsWithLevel(Predicate):
    """The error falls as the level rises: the slope along a curve, averaged over the curves, is negative."""

    method: Methods
    level: Level = "q"

    def judge(self, rows: pd.DataFrame) -> Finding:
        curves = [parts for parts in levels_of(self.method.rows(rows), self.level) if len(parts) > 1]
        if not curves:
            raise NotEnough("no curve of two levels")
        cells = Quantities.of_errors([part for parts in curves for part in parts])
        slopes = np.zeros((len(cells.values), len(curves)))
        ends = np.cumsum([0, *(len(parts) for parts in curves)])
        for number, (parts, (a, b)) in enumerate(zip(curves, pairwise(ends), strict=True)):
            levels = np.array([part[self.level].iloc[0] for part in parts], dtype=float)
            slopes[a:b, number] = -100 * STEP * _slope_weights(levels)
        falls = cells.combined(cells.values @ slopes, slopes)
        estimate = Estimate.of(falls.mean(), np.mean)
        words = f"falls by {spoken_interval(estimate, 'points')} with every {STEP:g} of {self.level}, on average; "
        words += f"on {counted_of(int((falls.values > 0).sum()), len(curves), 'curve')}"
        return Finding(words, estimate, Region.positive(), "points")


class FallsWithCopies(Predicate):
    """Explicit corruption: the error falls with the number of copies, on average by a positive step a doubling."""

    method: Methods

    def judge(self, rows: pd.DataFrame) -> Finding:
        copies, cells = _copies(self.method, rows)
        explicit = np.isfinite(copies)
        if explicit.sum() < 2:
            raise NotEnough("fewer than two numbers of copies")
        weights = np.zeros(len(copies))
        weights[explicit] = -100 * _slope_weights(np.log2(copies[explicit]))
        slope = cells.combined(np.array([weights @ cells.values]), weights[:, None])
        estimate = Estimate.of(slope, np.mean)
        first, last = np.flatnonzero(explicit)[[0, -1]]
        words = f"falls by {spoken_interval(estimate, 'points')} with every doubling; {cells.values[first]:.2%} with "
        words += f"M = {copies[first]:g}, {cells.values[last]:.2%} with M = {copies[last]:g}"
        return Finding(words, estimate, Region.positive(), "points")


class LimitIsBest(Predicate):
    """MCF, the limit of infinitely many copies, has a lower error than every finite M: the least gain is positive."""

    method: Methods

    def judge(self, rows: pd.DataFrame) -> Finding:
        copies, cells = _copies(self.method, rows)
        explicit, limit = np.flatnonzero(np.isfinite(copies)), np.flatnonzero(np.isinf(copies))
        if not len(explicit) or not len(limit):
            raise NotEnough("MCF or the explicit copies are missing")
        gains = cells.differences(explicit, np.full(len(explicit), limit[0])).scaled(100)
        estimate = Estimate.of(gains, np.min)
        best = explicit[np.argmin(cells.values[explicit])]
        words = f"MCF {cells.values[limit[0]]:.2%}, best explicit {cells.values[best]:.2%} with M = {copies[best]:g}; "
        words += f"least gain {spoken_interval(estimate, 'points')}"
        return Finding(words, estimate, Region.positive(), "points")


def _copies(method: Methods, rows: pd.DataFrame) -> tuple[np.ndarray, Quantities]:
    """The numbers of copies, ascending, and the mean error at each."""
    frame = method.rows(rows)
    groups = list(frame[frame["copies"].notna()].groupby("copies", sort=True))
    if not groups:
        raise NotEnough("no rows with a number of copies")
    return np.array([float(copies) for copies, _ in groups]), Quantities.of_errors(
        [part for _, part in groups]
    )
