"""Verdicts: the four words for what an interval says about a claimed region.

| word | when |
|---|---|
| holds | the 95% interval lies in the region that the sentence claims |
| stronger | it lies beyond the region, on the side that favours the paper: a larger gain, a lower error or cost |
| differs | it lies outside, on the other side |
| undecided | anything else: the data cannot tell, and a tie is no failure |

A number that the paper states is a region of its own: whatever rounds to it. No interval of a test error lies within so
little, so a stated number holds when the interval contains it and is no wider than that of one comparison in one run on
the paper's number of test examples. A range over data sets (costs) has a median: a number holds if that rounds to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

from mcf_cli.reporting.statistics import FACTORS, Estimate

HOLDS, STRONGER, DIFFERS, UNDECIDED, NOT_RUN = "holds", "stronger", "differs", "undecided", "not run"
VERDICTS = (HOLDS, STRONGER, DIFFERS, UNDECIDED, NOT_RUN)
NO_INTERVAL = (
    "no interval: its rows were written by an older version, without errors example by example; run it again"
)
EQUALLY_WIDE = 1 + 1e-9
Side = Literal["above", "below", ""]


@dataclass(frozen=True)
class Region:
    """What a sentence claims of a number: more than ``low``, at most ``high``.

    Attributes
    ----------
    low, high : float
        The ends; infinite where there is none.
    favour : "above", "below" or ""
        The side beyond the region where the paper would be more than right.
    stated : float or None
        The number that the paper prints, where it prints one.
    examples : int
        How many test examples the paper's number rests on; 0 where it does not matter.
    widest : float
        How wide an interval may be that contains the stated number without lying in the region.
    """

    low: float = -inf
    high: float = inf
    favour: Side = ""
    stated: float | None = None
    examples: int = 0
    widest: float = inf

    @classmethod
    def positive(cls) -> Region:
        """A direction: more than 0."""
        return cls(low=0.0)

    @classmethod
    def number(
        cls, stated: float, digits: int, favour: Side, examples: int = 0, widest: float = inf
    ) -> Region:
        """A printed number: what rounds to it, with so many digits after the point."""
        half = 0.5 * 10.0**-digits
        return cls(stated - half, stated + half, favour, stated, examples, widest)


@dataclass(frozen=True)
class Finding:
    """What rows answer to a question: the number, what the sentence claims of it, and the rest in words."""

    measured: str
    estimate: Estimate
    region: Region
    unit: str = ""  # of estimate and region: "%", "points", "tasks", "times", ...

    @property
    def verdict(self) -> str:
        """One of the four words."""
        return decide(self.estimate, self.region)

    @property
    def short(self) -> str:
        """Why it is not simply so: how far outside, or what would decide it."""
        verdict = self.verdict
        if verdict == UNDECIDED:
            return _what_would_decide(self.estimate, self.region, self.unit)
        if verdict in (DIFFERS, STRONGER):
            return _how_far(self.estimate, self.region, self.unit)
        return ""


def decide(estimate: Estimate, region: Region, factor: float = 1.0) -> str:
    """The word for an interval, with ``factor`` times as many test examples as there are."""
    if estimate.at is None:
        return UNDECIDED
    low, high = estimate.at(factor)
    if high < region.low or (high <= region.low and low < high):
        return STRONGER if region.favour == "below" else DIFFERS
    if low > region.high:
        return STRONGER if region.favour == "above" else DIFFERS
    inside = low > region.low and high <= region.high
    if region.stated is not None and estimate.kind == "range":
        inside = region.low <= estimate.value < region.high
    elif region.stated is not None:
        inside = inside or high - low <= region.widest * EQUALLY_WIDE
    return HOLDS if inside else UNDECIDED


def spoken_number(value: float, unit: str = "") -> str:
    """A number in its unit: ``15.2%``, ``0.57 points``, ``3 of 6 tasks`` has its own words."""
    text = f"{value:.1f}" if unit == "%" else f"{value:.2f}" if unit == "points" else f"{value:.3g}"
    return f"{text}%" if unit == "%" else f"{text} {unit}".strip()


def spoken_interval(estimate: Estimate, unit: str = "") -> str:
    """``0.57 points (0.21 to 0.93)``."""
    if estimate.low is None or estimate.high is None:
        return spoken_number(estimate.value, unit)
    if estimate.low == estimate.high == estimate.value:
        return spoken_number(estimate.value, unit)
    bare = "" if unit == "%" else unit
    ends = [spoken_number(end, unit).removesuffix(f" {bare}") for end in (estimate.low, estimate.high)]
    return f"{spoken_number(estimate.value, unit)} ({ends[0]} to {ends[1]})"


def _how_far(estimate: Estimate, region: Region, unit: str) -> str:
    low, high = estimate.low, estimate.high
    assert low is not None and high is not None
    end = region.low if high <= region.low else region.high
    claimed = region.stated if region.stated is not None else end
    side = "below" if high <= region.low else "above"
    return f"{spoken_number(abs(estimate.value - claimed), unit)} {side} {spoken_number(claimed, unit)}"


def _what_would_decide(estimate: Estimate, region: Region, unit: str) -> str:
    if estimate.low is None or estimate.high is None:
        return NO_INTERVAL
    if region.stated is not None and estimate.examples < region.examples:
        return f"{estimate.examples:,} test examples, where the paper has {region.examples:,}"
    width = spoken_number(estimate.high - estimate.low, unit)
    if region.stated is not None and estimate.kind == "range":
        return f"its range includes {spoken_number(region.stated, unit)}, and its median does not round to it"
    wide = f"the {estimate.kind} is {width} wide"
    if region.stated is not None and isfinite(region.widest):
        wide += f", that of one comparison on the paper's test examples {spoken_number(region.widest, unit)}"
    enough = next((f for f in FACTORS if decide(estimate, region, f) != UNDECIDED), None)
    if enough is None or not isfinite(estimate.value):
        return f"{wide}; a tie that more test examples would hardly decide"
    return f"{wide}; about {enough} times as many test examples would decide"
