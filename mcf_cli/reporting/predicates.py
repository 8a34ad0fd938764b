"""The questions that a claim can ask of a run: a fixed vocabulary, each word a class.

A predicate's fields are its parameters in the claims file. ``judge`` takes tidy rows and answers with a Finding:
whether it holds, the measured numbers in words, and by how much it fails. Errors are shares, not per cent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field, model_validator

from mcf_cli.reporting.series import (
    CORRUPTIONS,
    LEVEL_WORDS,
    ClaimPart,
    Level,
    Methods,
    NotEnough,
    Opponent,
    Words,
    against,
    cases,
    counted_of,
    dataset_label,
    method_words,
    pairs,
    place_words,
)


@dataclass(frozen=True)
class Finding:
    """An answer: does it hold, what was measured, and what it falls short by."""

    holds: bool
    measured: str
    short: str = ""


class Predicate(ClaimPart, ABC):
    """A question about the rows of one metric, or of all of them."""

    metric: ClassVar[str | None] = "test_error"

    @abstractmethod
    def judge(self, rows: pd.DataFrame) -> Finding:
        """The answer that the rows give."""

    @property
    def baseline(self) -> Opponent | None:
        """What the question compares with, None when it compares nothing."""
        return getattr(self, "over", None)

    @property
    def corruption(self) -> list[str] | None:
        """The corruptions of the method that the question is about."""
        method = getattr(self, "method", None)
        return method.corruption if method else None

    def compared(self, plain: pd.DataFrame) -> pd.DataFrame:
        """The plain models that the question compares with: those of its losses, at its level."""
        method, level, at = (getattr(self, name, None) for name in ("method", "level", "at"))
        losses = method.loss if method else None
        plain = plain[plain["loss"].isin(losses)] if losses else plain
        return plain if at is None else plain[(plain[level] - at).abs() < 1e-9]

    def with_corruption(self, name: str) -> Predicate:
        """The same question about another corruption, on each side that is of the first one."""
        sides = {side: getattr(self, side, None) for side in ("method", "over")}
        changed = {
            side: methods.model_copy(update={"corruption": [name]})
            for side, methods in sides.items()
            if isinstance(methods, Methods) and methods.corruption == self.corruption
        }
        return self.model_copy(update=changed)


class BelowAtEveryLevel(Predicate):
    """The method's error lies below the baseline's at every level, on ``at_least`` of ``of`` data sets."""

    method: Methods
    over: Opponent = "plain"
    level: Level | None = None
    above: float = -1.0  # only levels above this one count
    at_least: int = 1
    of: int = Field(1, ge=1)
    tolerance: float = 0.0

    def judge(self, rows: pd.DataFrame) -> Finding:
        table = pairs(rows, self.method, self.over, self.level)
        if self.level:
            table = table[table[self.level] > self.above]
        if table.empty:
            raise NotEnough(f"no level above {self.above:g}")
        table = table.assign(passes=table["ours"] < table["theirs"] + self.tolerance)
        room = f" or within {100 * self.tolerance:g} points" if self.tolerance else ""
        least = f"; least gain: {against(table.sort_values('gain', kind='stable'), self.level)}"
        if table["dataset"].nunique() == 1:
            return self._on_one(table, f"below{room}", least)
        whole = table.groupby("dataset")["passes"].all()
        needed = ceil(self.at_least / self.of * len(whole))
        passed = [part["passes"].all() for _, part in cases(table)]
        parts = [counted_of(sum(passed), len(passed), "curve")] if len(passed) > len(whole) else []
        if len(table) > len(passed):
            parts.append(counted_of(int(table["passes"].sum()), len(table), "point"))
        words = f"below{room} on {counted_of(int(whole.sum()), len(whole), 'data set')}"
        words += f" ({', '.join(parts)})" if parts else ""
        missing = needed - int(whole.sum())
        return Finding(
            missing <= 0, words + least, f"{missing} data set{'s' * (missing > 1)} short of {needed}"
        )

    def _on_one(self, table: pd.DataFrame, below: str, least: str) -> Finding:
        """With a single data set the levels are counted."""
        curves = [bool(part["passes"].all()) for _, part in cases(table)]
        unit = "method" if len(table) == len(curves) else "level" if len(curves) == 1 else "point"
        passed = int(table["passes"].sum())
        words = f"{below} at {counted_of(passed, len(table), unit)}"
        if unit == "point":
            words += f" ({counted_of(sum(curves), len(curves), 'curve')})"
        return Finding(
            all(curves), words + least, f"not at {counted_of(len(table) - passed, len(table), unit)}"
        )


class BeatsInMost(Predicate):
    """The method's error is the lower one in at least ``share`` of all data sets and levels."""

    method: Methods
    over: Opponent = "plain"
    level: Level | None = None
    at_best: bool = False  # only each curve's best level counts
    share: float = 0.5

    def judge(self, rows: pd.DataFrame) -> Finding:
        table = pairs(rows, self.method, self.over, self.level)
        if self.at_best:
            table = pd.concat([part.nsmallest(1, "ours") for _, part in cases(table)])
        wins, ties = int((table["gain"] > 0).sum()), int((table["gain"] == 0).sum())
        words = f"lower in {counted_of(wins, len(table), 'case')}"
        words += f", equal in {ties}" if ties else ""
        mean = 100 * table["gain"].mean()
        words += f"; on average {abs(mean):.2f} points {'lower' if mean >= 0 else 'higher'}"
        # Ties count for neither side.
        decided = len(table) - ties
        found = wins / decided if decided else 0.0
        return Finding(
            found > self.share, words, f"{found:.0%} of the decided cases, not above {self.share:.0%}"
        )


class BestLevelBetween(Predicate):
    """The level with the lowest error lies in [low, high], on more than ``share`` of the curves; q = 0 is a level."""

    method: Methods
    level: Level = "q"
    low: float
    high: float
    share: float = 0.5

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.curves(rows)
        frame = frame[frame[self.level].notna()]
        if frame.empty:
            raise NotEnough("no rows with a level")
        best = []
        for _, part in cases(frame):
            means = part.groupby(self.level)["value"].mean()
            best.append(float(means.index[means.argmin()]))
        inside = sum(self.low - 1e-9 <= level <= self.high + 1e-9 for level in best)
        counts = pd.Series(best).value_counts().sort_index()
        listed = ", ".join(f"{level:g} ({count}×)" for level, count in counts.items())
        words = f"best {self.level}: {listed}; {counted_of(inside, len(best), 'curve')} within "
        words += f"{self.low:g} to {self.high:g}"
        return Finding(inside > self.share * len(best), words, f"only {inside} of {len(best)} within")


class Reduction(Predicate):
    """How much lower the method's error is than the baseline's: at the best case and level, or on average.

    ``per cent`` is relative to the baseline, ``points`` is the difference. One of ``at_least``, ``at_most`` and
    ``near`` says what is asked, with ``tolerance``; all in the same unit.
    """

    method: Methods
    over: Opponent = "plain"
    unit: Literal["per cent", "points"] = "per cent"
    level: Level | None = None
    at: float | None = None  # one level
    take: Literal["largest", "mean"] = "largest"
    at_least: float | None = None
    at_most: float | None = None
    near: float | None = None
    tolerance: float = 0.0

    @model_validator(mode="after")
    def _answerable(self) -> Reduction:
        if sum(number is not None for number in (self.near, self.at_least, self.at_most)) != 1:
            raise ValueError("a reduction needs one of near, at_least and at_most")
        if self.at is not None and self.level is None:
            raise ValueError("a reduction `at` a value needs the `level` that it is a value of")
        return self

    def judge(self, rows: pd.DataFrame) -> Finding:
        table = pairs(rows, self.method, self.over, self.level)
        if self.level is not None and self.at is not None:
            table = table[(table[self.level] - self.at).abs() < 1e-9]
            if table.empty:
                raise NotEnough(f"no rows at {LEVEL_WORDS[self.level].format(self.at)}")
        column = "reduction" if self.unit == "per cent" else "gain"
        table = table.sort_values(column, ascending=False, kind="stable")
        largest = self.take == "largest"
        value = 100 * float(table[column].iloc[0] if largest else table[column].mean())
        words = self._spoken(value)
        if len(table) == 1:
            words += f" ({against(table, self.level)})"
        elif largest:
            mean = self._spoken(100 * table[column].mean())
            words += f" at best ({against(table, self.level)}), {mean} on average"
        else:
            words += f" on average over {len(table)} cases"
        return Finding(self._answers(value), words, self._short(value))

    def _spoken(self, value: float) -> str:
        size = f"{abs(value):.1f}%" if self.unit == "per cent" else f"{abs(value):.2f} points"
        return f"{size} {'lower' if value >= 0 else 'higher'}"

    def _answers(self, value: float) -> bool:
        low = self.near if self.near is not None else self.at_least
        high = self.near if self.near is not None else self.at_most
        above = low is None or value >= low - self.tolerance
        return above and (high is None or value <= high + self.tolerance)

    def _short(self, value: float) -> str:
        asked = next(number for number in (self.near, self.at_least, self.at_most) if number is not None)
        unit = "percentage points" if self.unit == "per cent" else "points"
        gap = f"{abs(value - asked):.{1 if self.unit == 'per cent' else 2}f}"
        return f"{gap} {unit} {'more' if value > asked else 'less'} than {asked:g}"


class RisesAfter(Predicate):
    """From level ``start`` to the last one the error rises by ``by`` (a share), on more than ``share`` of curves."""

    method: Methods
    level: Level = "q"
    start: float
    by: float
    share: float = 0.5

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        frame = frame[frame[self.level] >= self.start - 1e-9]
        rises = []
        for _, part in cases(frame):
            means = part.groupby(self.level)["value"].mean()
            if len(means) > 1:
                rises.append(float(means.iloc[-1] / means.iloc[0] - 1))
        if not rises:
            raise NotEnough(f"no levels beyond {self.start:g}")
        risen = sum(rise >= self.by for rise in rises)
        last = LEVEL_WORDS[self.level].format(frame[self.level].max())
        words = f"error at {last} against {self.start:g}: {min(rises):+.0%} to {max(rises):+.0%}; "
        words += f"{counted_of(risen, len(rises), 'curve')} rise by {self.by:.0%} or more"
        return Finding(risen > self.share * len(rises), words, f"only {risen} of {len(rises)}")


class ChosenL2AtMost(Predicate):
    """In at least ``share`` of the fits the chosen l2 is ``limit`` or less."""

    method: Methods
    limit: float = 0.0
    share: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        chosen = self.method.rows(rows)
        if chosen.empty or chosen["l2"].isna().all():
            raise NotEnough("no rows with a chosen l2")
        small = chosen["l2"] <= self.limit
        each = small.groupby([chosen["corruption"], chosen["loss"]]).mean()
        listed = ", ".join(
            f"{loss} {CORRUPTIONS.get(corruption, corruption)} {share:.0%}"
            for (corruption, loss), share in each.items()
        )
        asked = "l2 = 0" if self.limit == 0 else f"l2 ≤ {self.limit:g}"
        words = f"{asked} chosen in {small.mean():.0%} of {len(small)} fits ({listed})"
        return Finding(small.mean() >= self.share, words, f"{small.mean():.0%}, not {self.share:.0%}")


class FallsWithCopies(Predicate):
    """Explicit corruption: the error falls from the first M to the last, no step rising above ``tolerance``."""

    method: Methods
    tolerance: float = 0.0

    def judge(self, rows: pd.DataFrame) -> Finding:
        means = _copies(self.method, rows)
        explicit = means[means.index < float("inf")]
        if len(explicit) < 2:
            raise NotEnough("fewer than two numbers of copies")
        rises = int((explicit.diff().dropna() > self.tolerance).sum())
        words = f"{explicit.iloc[0]:.2%} with M = {explicit.index[0]:g}, {explicit.iloc[-1]:.2%} with "
        room = f" by more than {100 * self.tolerance:g} points" if self.tolerance else ""
        words += f"M = {explicit.index[-1]:g}; {counted_of(rises, len(explicit) - 1, 'step')} rise{room}"
        short = (
            f"{counted_of(rises, len(explicit) - 1, 'step')} rise{room}"
            if rises
            else "not lower at the last M"
        )
        return Finding(explicit.iloc[-1] < explicit.iloc[0] and rises == 0, words, short)


class LimitIsBest(Predicate):
    """MCF, the limit of infinitely many copies, has an error at most ``tolerance`` above the best finite M."""

    method: Methods
    tolerance: float = 0.0

    def judge(self, rows: pd.DataFrame) -> Finding:
        means = _copies(self.method, rows)
        explicit = means[means.index < float("inf")]
        if explicit.empty or float("inf") not in means.index:
            raise NotEnough("MCF or the explicit copies are missing")
        limit, best = means.loc[float("inf")], explicit.min()
        words = f"MCF {limit:.2%}, best explicit {best:.2%} with M = {explicit.index[explicit.argmin()]:g}"
        return Finding(limit <= best + self.tolerance, words, f"{100 * (limit - best):.2f} points above")


def _copies(method: Methods, rows: pd.DataFrame) -> pd.Series:
    frame = method.rows(rows)
    frame = frame[frame["copies"].notna()]
    return frame.groupby("copies")["value"].mean().sort_index()


class ValueNear(Predicate):
    """The method's error lies within ``tolerance`` of the paper's number; both in per cent."""

    method: Methods
    paper: float
    tolerance: float
    whose: str = "the paper has"  # or the words for another's number that the paper quotes

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        if frame.empty:
            raise NotEnough("no such rows")
        each = [(place_words(part, None), 100 * part["value"].mean()) for _, part in cases(frame)]
        value = sum(error for _, error in each) / len(each)
        listed = ", ".join(f"{name} {error:.1f}%" for name, error in each) if len(each) > 1 else each[0][0]
        words = f"{value:.1f}% ({listed}) where {self.whose} {self.paper:.1f}%"
        gap = value - self.paper
        side = "above" if gap > 0 else "below"
        return Finding(abs(gap) <= self.tolerance, words, f"{abs(gap):.2f} points {side}")


class OrderOf(Predicate):
    """The methods' errors ascend in the order given; a step may fall by ``tolerance``."""

    methods: list[Methods]
    tolerance: float = 0.0

    def judge(self, rows: pd.DataFrame) -> Finding:
        found = []
        for methods in self.methods:
            frame = methods.rows(rows)
            if frame.empty:
                raise NotEnough("one of the methods has no rows")
            name = "plain" if frame["corruption"].iloc[0] == "none" else method_words(frame)
            found.append((name, frame["value"].mean()))
        wrong = [(a, b) for a, b in pairwise(found) if b[1] < a[1] - self.tolerance]
        words = f"{found[0][0]} {found[0][1]:.2%}"
        for (_, before), (name, value) in pairwise(found):
            words += f" {'<' if before < value else '>' if before > value else '='} {name} {value:.2%}"
        return Finding(not wrong, words, ", ".join(f"{b[0]} below {a[0]}" for a, b in wrong))


class RatioNear(Predicate):
    """A gradient costs about ``paper`` plain ones: within a factor of ``factor``, on most data sets."""

    metric: ClassVar[str | None] = "gradient_ratio"
    method: Methods
    paper: float
    factor: float = Field(ge=1)

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        if frame.empty:
            raise NotEnough("no measured times")
        each = frame.groupby("dataset", sort=False)["value"].mean()
        cheaper = int((each < self.paper / self.factor).sum())
        dearer = int((each > self.paper * self.factor).sum())
        near = len(each) - cheaper - dearer
        listed = ", ".join(f"{dataset_label(name, '')} {ratio:.1f}" for name, ratio in each.items())
        words = (
            f"{listed} times a plain gradient: {counted_of(near, len(each), 'data set')} within a factor of "
        )
        words += f"{self.factor:g}"
        short = [f"{side} on {n}" for side, n in (("cheaper", cheaper), ("dearer", dearer)) if n]
        return Finding(near > len(each) / 2, words, ", ".join(short))


class BoundsLieAbove(Predicate):
    """Every bound lies on or above the expected loss, at every margin."""

    metric: ClassVar[str | None] = None
    lowest_below_jensen: bool = False  # asks instead: the lowest bound never above Jensen's, somewhere below

    def judge(self, rows: pd.DataFrame) -> Finding:
        keys = ["q", "margin"]
        bounds, exact = rows[rows["metric"] == "bound"], rows[rows["metric"] == "expected_loss"]
        if bounds.empty or exact.empty:
            raise NotEnough("bounds or expected losses are missing")
        if self.lowest_below_jensen:
            return self._tightened(bounds, keys)
        joined = bounds.merge(exact[[*keys, "value"]], on=keys, suffixes=("", "_exact"))
        below = int((joined["value"] < joined["value_exact"] - 1e-12).sum())
        words = f"{len(joined) - below} of {len(joined)} points on or above the exact expectation"
        return Finding(below == 0, words, f"{below} points below")

    def _tightened(self, bounds: pd.DataFrame, keys: list[str]) -> Finding:
        lowest = bounds.groupby(keys)["value"].min()
        jensen = bounds[bounds["lam"] == 0].groupby(keys)["value"].min()
        gain = (jensen - lowest.reindex(jensen.index)).dropna()
        if gain.empty:
            raise NotEnough("Jensen's bound (lambda = 0) is missing")
        words = f"tighter at {int((gain > 1e-12).sum())} of {len(gain)} margins, by up to {gain.max():.2f}"
        return Finding(bool((gain >= 0).all() and gain.max() > 1e-12), words, "nowhere tighter")


class GapBelow(Predicate):
    """A measured gap stays below ``limit`` under every corruption named."""

    metric: ClassVar[str | None] = "largest_gap_paper"
    corruptions: Words
    limit: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        asked = rows[rows["corruption"].isin(self.corruptions)]
        worst = asked.groupby("corruption", sort=True)["value"].max()
        if worst.empty:
            raise NotEnough("no measured gaps")
        worst = worst.rename(CORRUPTIONS)
        words = "largest gap to refitting: " + ", ".join(f"{name} {gap:.2g}" for name, gap in worst.items())
        wrong = [name for name, gap in worst.items() if gap >= self.limit]
        return Finding(not wrong, words, f"not exact under {', '.join(wrong)}")
