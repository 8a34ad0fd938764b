"""Sixty quick trials, enough to be killed twenty times."""

from mcf_cli.experiments.plan import Plan

from tests.experiments.tiny import tiny_plan


def plan_for_killing() -> Plan:
    return tiny_plan(
        item="killed",
        grid=[{"loss": "quadratic", "corruption": "blankout", "q": [k / 60 for k in range(60)]}],
        select={"l2": [0.01, 0.1], "by": "holdout"},
    )
