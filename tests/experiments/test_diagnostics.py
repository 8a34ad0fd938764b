"""Trials that are no fits: what a gradient costs."""

import pytest
from mcf_cli.experiments.engine import run_spec

from tests.experiments.tiny import tiny_plan


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_cost_is_measured_on_rows_that_lack_some_classes(loss):
    plan = tiny_plan(
        evaluation={"protocol": "cost", "evaluations": 1, "train": 8},  # of digits, so not all ten
        grid=[{"loss": loss, "corruption": "blankout", "q": 0.5}],
    )
    (trial,) = plan.trials
    record = run_spec(trial.spec())
    assert record["status"] == "ok", record
    assert all(row["value"] > 0 for row in record["rows"])
