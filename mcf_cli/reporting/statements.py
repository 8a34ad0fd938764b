"""The questions that a claim can ask of what is no test error: times, bounds, leave-one-out."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from pydantic import Field

from mcf_cli.reporting.comparisons import Methods, NotEnough, Words, count_words
from mcf_cli.reporting.predicates import Finding, Predicate
from mcf_cli.reporting.series import CORRUPTIONS, dataset_label


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
            f"{listed} times a plain gradient: {count_words(near, len(each), 'data set')} within a factor of "
        )
        words += f"{self.factor:g}"
        short = [f"{side} on {n}" for side, n in (("cheaper", cheaper), ("dearer", dearer)) if n]
        return Finding(near > len(each) / 2, words, ", ".join(short))


class BoundsLieAbove(Predicate):
    """Every bound lies on or above the expected loss, at every margin."""

    metric: ClassVar[str | None] = None
    lowest_below_jensen: bool = (
        False  # asks instead: the lowest bound never above Jensen's, somewhere below it
    )

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
        worst = (
            rows[rows["corruption"].isin(self.corruptions)].groupby("corruption", sort=True)["value"].max()
        )
        if worst.empty:
            raise NotEnough("no measured gaps")
        worst = worst.rename(CORRUPTIONS)
        words = "largest gap to refitting: " + ", ".join(f"{name} {gap:.2g}" for name, gap in worst.items())
        wrong = [name for name, gap in worst.items() if gap >= self.limit]
        return Finding(not wrong, words, f"not exact under {', '.join(wrong)}")
