"""Questions that are answered by computing them when the report is written; no rows are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import field_validator

from mcf_cli.reporting import algebra
from mcf_cli.reporting.predicates.base import WithoutRows
from mcf_cli.reporting.predicates.facts import ROUNDING
from mcf_cli.reporting.results import Result
from mcf_cli.reporting.statistics import Estimate
from mcf_cli.reporting.verdicts import Finding, Region


class Computed(WithoutRows):
    """A check of ``algebra``: what it measures is zero up to rounding, or positive."""

    what: str
    expects: Literal["zero", "positive"] = "zero"

    @field_validator("what")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in algebra.CHECKS:
            raise ValueError(f"{name!r} is no check; there are {', '.join(algebra.CHECKS)}")
        return name

    def answer(self, results: Sequence[Result]) -> Finding:
        number, words = algebra.CHECKS[self.what]()
        region = Region(high=ROUNDING) if self.expects == "zero" else Region.positive()
        return Finding(words, number if isinstance(number, Estimate) else Estimate.exact(number), region)
