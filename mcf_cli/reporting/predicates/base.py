"""What every question has in common: the rows that it is about, and an answer with an interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import ClassVar

import pandas as pd

from mcf_cli.reporting.comparison import ClaimPart, Methods, Opponent
from mcf_cli.reporting.results import Result
from mcf_cli.reporting.statistics import Quantities
from mcf_cli.reporting.verdicts import Finding


def first_run(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first repeat."""
    repeats = rows["repeat"].fillna(0)
    return rows[repeats == repeats.min()]


def width_on(cell: Quantities, examples: int) -> float:
    """How wide the interval of a single quantity of one run would be on so many test examples; infinite if unknown."""
    if cell.influence is None or not examples:
        return inf
    return 2 * float(cell.halves(factor=examples / cell.examples[0])[0])


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


class WithoutRows(ClaimPart, ABC):
    """A question that is not answered by rows: by what items say of their data, or by computing it on the spot."""

    @abstractmethod
    def answer(self, results: Sequence[Result]) -> Finding:
        """The answer; ``results`` are the items that the claim names, perhaps none."""
