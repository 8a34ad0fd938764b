"""Experiments small enough for tests: a few dozen built-in digits, a few values of q and l2."""

from pathlib import Path
from typing import Any

from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trial import Trial

TINY: dict[str, Any] = {
    "item": "tiny",
    "datasets": ["builtin-digits"],
    "evaluation": {"train": 80, "test": 100},
    "grid": [
        {"loss": ["quadratic", "logistic"], "corruption": "blankout", "q": [0.0, 0.5]},
        {"loss": "quadratic", "corruption": "dropout"},
        {"loss": "quadratic", "corruption": "none"},
    ],
    "select": {"l2": [0.01, 0.1, 1.0], "q": [0.2, 0.6], "by": "holdout"},
    "fit": {"max_iter": 30},
}


class Recorder:
    """Listens to a run, remembers what finished, and may do something at each step."""

    def __init__(self, at_each=None) -> None:
        self.todo: list[Trial] = []
        self.finished_trials: list[Trial] = []
        self.at_each = at_each

    def started(self, progress, todo: list[Trial]) -> None:
        self.todo = todo

    def finished(self, trial: Trial, record: Record) -> None:
        self.finished_trials.append(trial)
        if self.at_each:
            self.at_each(len(self.finished_trials))


def tiny_plan(**changes: Any) -> Plan:
    """The tiny experiment with some keys replaced."""
    return make_plan(load_config({**TINY, **changes}))


def without_seconds(path: Path) -> list[str]:
    """The lines of a rows.csv with the timings cut out."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    column = lines[0].index("seconds")
    return [",".join(cells[:column] + cells[column + 1 :]) for cells in lines]
