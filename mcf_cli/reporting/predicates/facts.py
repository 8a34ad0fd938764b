"""Questions about costs, bounds, exactness and the data: numbers that are measured or computed, not sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator
from scipy import stats

from mcf_cli.reporting import algebra
from mcf_cli.reporting.comparison import (
    ClaimPart,
    Methods,
    NotEnough,
    Words,
    cases,
    dataset_label,
)
from mcf_cli.reporting.predicates.base import Predicate, WithoutRows
from mcf_cli.reporting.results import Result
from mcf_cli.reporting.series import CORRUPTIONS
from mcf_cli.reporting.statistics import Estimate
from mcf_cli.reporting.verdicts import Finding, Region, spoken_interval

EXACT_WITHIN = float(np.sqrt(np.finfo(float).eps))  # what is equal in exact arithmetic lies within this


class CostIs(Predicate):
    """A gradient costs the number of plain ones that the paper states; a lower cost is stronger.

    The number is the median over data sets, the range is over them: a time has no test examples.
    """

    metric: ClassVar[str | None] = "gradient_ratio"
    method: Methods
    states: float

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        if frame.empty:
            raise NotEnough("no measured times")
        each = frame.groupby("dataset", sort=False)["value"].mean()
        listed = ", ".join(f"{dataset_label(name, '')} {ratio:.1f}" for name, ratio in each.items())
        estimate = Estimate.between(each.median(), each.min(), each.max())
        words = f"{spoken_interval(estimate, 'times')} a plain gradient, the middle of {len(each)} data sets: {listed}"
        return Finding(words, estimate, Region.number(self.states, 0, "below"), "times")


class Cheaper(Predicate):
    """A trial of the method takes less time than one of the other: the ratio of their median seconds is below 1.

    The range is over data sets and levels.
    """

    method: Methods
    over: Methods

    def judge(self, rows: pd.DataFrame) -> Finding:
        ours, theirs = self.method.rows(rows), self.over.rows(rows)
        if ours.empty or theirs.empty:
            raise NotEnough("one of the methods has no times")
        keys = ["dataset", "deletion", "train_size"]
        both = [frame.groupby(keys, dropna=False)["seconds"].median() for frame in (ours, theirs)]
        ratio = (both[0] / both[1]).dropna()
        if ratio.empty:
            raise NotEnough("the two were not timed on the same data and level")
        estimate = Estimate.between(ratio.median(), ratio.min(), ratio.max())
        words = f"{spoken_interval(estimate, 'times')} the seconds of the other, in {len(ratio)} comparisons"
        return Finding(words, estimate, Region(low=0.0, high=1.0), "times")


class GrowsLinearly(Predicate):
    """Training time grows at most in proportion to the number of training examples: its power of N is at most 1.

    The power is the slope of log seconds on log N along each (data set, method); its interval is Student's, over those.
    """

    method: Methods

    def judge(self, rows: pd.DataFrame) -> Finding:
        powers = []
        for _, part in cases(self.method.rows(rows)):
            times = part.groupby("train_size")["seconds"].median()
            times = times[times > 0]
            if len(times) > 1:
                powers.append(float(stats.linregress(np.log(times.index), np.log(times)).slope))
        if len(powers) < 2:
            raise NotEnough("fewer than two curves of times over sizes")
        estimate = Estimate.student(np.array(powers))
        words = f"seconds grow with the power {spoken_interval(estimate)} of N, on {len(powers)} curves"
        return Finding(words, estimate, Region(high=1.0))


class NoDearerThanCopies(Predicate):
    """MCF takes no longer than training on explicit copies: the ratio of their seconds is below 1.

    ``than`` says on how many: the ``most`` that were tried, or the ``fewest``.
    """

    method: Methods
    than: Literal["most", "fewest"] = "most"

    def judge(self, rows: pd.DataFrame) -> Finding:
        frame = self.method.rows(rows)
        frame = frame[frame["copies"].notna()]
        times = frame.groupby(["dataset", "corruption", "copies"])["seconds"].median()
        ratios, copies = [], 0.0
        for _, part in times.groupby(level=[0, 1]):
            part = part.droplevel([0, 1])
            finite = part[np.isfinite(part.index)]
            if len(finite) and np.inf in part.index:
                place = -1 if self.than == "most" else 0
                ratios.append(float(part.loc[np.inf] / finite.iloc[place]))
                copies = float(finite.index[place])
        if not ratios:
            raise NotEnough("MCF or the explicit copies are missing")
        estimate = Estimate.between(np.median(ratios), min(ratios), max(ratios))
        noun = "copy" if copies == 1 else "copies"
        words = f"MCF takes {spoken_interval(estimate, 'times')} the seconds of {copies:g} {noun}"
        return Finding(words, estimate, Region(low=0.0, high=1.0), "times")


class BoundsLieAbove(Predicate):
    """Every bound lies on or above the expected loss, at every margin: no point lies below."""

    metric: ClassVar[str | None] = None

    def judge(self, rows: pd.DataFrame) -> Finding:
        keys = ["q", "margin"]
        bounds, exact = rows[rows["metric"] == "bound"], rows[rows["metric"] == "expected_loss"]
        if bounds.empty or exact.empty:
            raise NotEnough("bounds or expected losses are missing")
        joined = bounds.merge(exact[[*keys, "value"]], on=keys, suffixes=("", "_exact"))
        below = int((joined["value"] < joined["value_exact"] - 1e-12).sum())
        words = f"{len(joined) - below} of {len(joined)} points on or above the exact expectation"
        return Finding(words, Estimate.exact(below), Region(high=0.5), "points below")


class NoGap(Predicate):
    """A formula is exact: its largest gap is rounding error under every corruption named."""

    metric: ClassVar[str | None] = "largest_gap_paper"
    corruptions: Words

    def judge(self, rows: pd.DataFrame) -> Finding:
        asked = rows[rows["corruption"].isin(self.corruptions)]
        worst = asked.groupby("corruption", sort=True)["value"].max()
        if worst.empty:
            raise NotEnough("no measured gaps")
        listed = ", ".join(f"{CORRUPTIONS.get(name, name)} {gap:.2g}" for name, gap in worst.items())
        return Finding(
            f"largest gap to refitting: {listed}", Estimate.exact(worst.max()), Region(high=EXACT_WITHIN)
        )


class StatedShape(ClaimPart):
    """Rows, columns and classes of a data set as the paper has them; what it does not say is left out.

    ``positions`` are those of one-hot sequences: columns by symbols.
    """

    rows: int | None = None
    columns: int | None = None
    classes: int | None = None
    positions: int | None = None


class DataSize(WithoutRows):
    """The data sets have the numbers of rows, columns and classes that the paper states: none of them differs.

    A substitute is not the paper's file and is left out. ``to`` is what the stated numbers are rounded to.
    """

    shapes: dict[str, StatedShape]
    to: int = Field(1, ge=1)

    def answer(self, results: Sequence[Result]) -> Finding:
        facts = {f["name"]: f for result in results for f in result.environment.get("data") or ()}
        own = {
            name: fact for name, fact in facts.items() if fact.get("shape") and fact.get("source") == "real"
        }
        found = {name: own[name] for name in self.shapes if name in own}
        if not found:
            raise NotEnough("none of the paper's own files was used")
        words, off = [], 0
        for name, fact in found.items():
            blocks = fact.get("blocks")
            here = (*fact["shape"], fact.get("n_classes"), fact["shape"][1] // blocks if blocks else None)
            stated = tuple(self.shapes[name].model_dump().values())
            off += sum(self._differ(mine, there) for mine, there in zip(here, stated, strict=True))
            cells = [
                "" if mine is None else f"{mine:,}" + (f" for {there:,}" if there not in (None, mine) else "")
                for mine, there in zip(here, stated, strict=True)
            ]
            told = f"{dataset_label(name, '')} {' × '.join(cells[:2])}, {cells[2]} classes"
            words.append(told + (f", {cells[3]} positions" if cells[3] else ""))
        return Finding("; ".join(words), Estimate.exact(off), Region(high=0.5), "numbers off")

    def _differ(self, mine: int | None, stated: int | None) -> bool:
        """Whether a number does not round to the stated one; what is not stated cannot differ."""
        return stated is not None and (mine is None or round(mine / self.to) * self.to != stated)


class Computed(WithoutRows):
    """A check of ``algebra``: what it measures is zero up to rounding, or positive."""

    what: str
    expects: Literal["zero", "positive"] = "zero"

    @field_validator("what")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in algebra.ALGEBRA:
            raise ValueError(f"{name!r} is not a check; the checks are {', '.join(algebra.ALGEBRA)}")
        return name

    def answer(self, results: Sequence[Result]) -> Finding:
        number, words = algebra.answer_to(self.what)
        region = Region(high=EXACT_WITHIN) if self.expects == "zero" else Region.positive()
        return Finding(words, number if isinstance(number, Estimate) else Estimate.exact(number), region)
