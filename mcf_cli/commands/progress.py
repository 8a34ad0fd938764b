"""Progress of a run on stderr: a live bar on a terminal, plain lines elsewhere, nothing when quiet."""

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import click

from mcf_cli.experiments.run import Progress
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trials import Trial


class Quiet:
    """Says nothing."""

    def started(self, progress: Progress, todo: list[Trial]) -> None:
        """Nothing to say."""

    def finished(self, trial: Trial, record: Record) -> None:
        """Nothing to say."""


class BestSoFar:
    """The lowest test error among the finished trials."""

    def __init__(self) -> None:
        self.error: float | None = None
        self.text = ""

    def see(self, trial: Trial, record: Record) -> None:
        errors = [row["value"] for row in record.get("rows", ()) if row["metric"] == "test_error"]
        if errors and (self.error is None or min(errors) < self.error):
            self.error = min(errors)
            self.text = f"best {self.error:.2%} {trial.label}"


class Lines:
    """A line for the first trial, for every hundredth of the work, and for every failure."""

    def __init__(self) -> None:
        self.total = self.count = 0

    def started(self, progress: Progress, todo: list[Trial]) -> None:
        self.total = len(todo)
        click.echo(progress.sentence(), err=True)

    def finished(self, trial: Trial, record: Record) -> None:
        self.count += 1
        failed = record["status"] == "failed"
        milestone = self.count * 100 // self.total > (self.count - 1) * 100 // self.total
        if failed or milestone or self.count == 1:
            result = f"FAILED {record['reason']}" if failed else f"{record['seconds']:.2f} s"
            click.echo(f"[{self.count}/{self.total}] {trial.label}: {result}", err=True)


class Bar:
    """Overall bar, time left, the running trial, and the best result so far."""

    def __init__(self, display: Any, workers: int) -> None:
        self.display, self.workers = display, workers
        self.best = BestSoFar()
        self.waiting: OrderedDict[str, Trial] = OrderedDict()  # a dict gets slow when its first items go

    def started(self, progress: Progress, todo: list[Trial]) -> None:
        self.display.console.print(progress.sentence(), highlight=False, markup=False)
        self.waiting = OrderedDict((trial.key, trial) for trial in todo)
        self.task = self.display.add_task(self._running(), total=len(todo), best="")

    def finished(self, trial: Trial, record: Record) -> None:
        self.waiting.pop(trial.key, None)
        self.best.see(trial, record)
        if record["status"] == "failed":
            self.display.console.print(
                f"failed: {trial.label}: {record['reason']}", style="red", highlight=False, markup=False
            )
        self.display.update(self.task, advance=1, description=self._running(), best=self.best.text)

    def _running(self) -> str:
        others = min(self.workers, len(self.waiting)) - 1
        label = next(iter(self.waiting.values())).label if self.waiting else "done"
        return f"{label} and {others} more" if others > 0 else label


@contextlib.contextmanager
def listening(quiet: bool, workers: int) -> Iterator[Any]:
    """The listener that suits where stderr goes."""
    if quiet:
        yield Quiet()
    elif sys.stderr.isatty():
        with _rich_progress() as display:
            yield Bar(display, workers)
    else:
        yield Lines()


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns(), console=Console(stderr=True), transient=True)


def columns() -> list[Any]:
    """The parts of the bar. Names of data are text: what looks like markup in them is not."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[best]}", style="green", markup=False),
    ]
