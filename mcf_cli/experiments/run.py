"""Running a plan: what is done stays, what is missing runs, every record is on disk before it is reported."""

import statistics
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.outputs import seconds_per_trial, write_outputs
from mcf_cli.experiments.plan import Plan
from mcf_cli.experiments.rows import Row, build_rows
from mcf_cli.experiments.store import Record, Store, whole
from mcf_cli.experiments.trials import Trial

ESTIMATE_FROM = 2000  # records: enough for the time left, and quickly read


@dataclass(frozen=True)
class Progress:
    """How much of a plan is in the store."""

    expected: int
    done: int
    failed: int
    seconds_left: float | None = None

    @property
    def to_run(self) -> int:
        return self.expected - self.done

    @property
    def complete(self) -> bool:
        return self.done == self.expected

    def sentence(self) -> str:
        """``50 trials: 38 done, 12 to run, about 4 min``."""
        words = f"{counted(self.expected, 'trial')}: {self.done} done"
        words += f", {self.to_run} to run" if self.to_run else ""
        words += f" ({self.failed} failed before)" if self.failed else ""
        if self.to_run and self.seconds_left is not None:
            words += f", about {spoken_time(self.seconds_left)}"
        return words


class Listener(Protocol):
    """Whoever wants to see the run as it goes."""

    def started(self, progress: Progress, todo: list[Trial]) -> None: ...

    def finished(self, trial: Trial, record: Record) -> None: ...


@dataclass
class Outcome:
    """What a run left behind."""

    plan: Plan
    folder: Path
    progress: Progress
    rows: list[Row]
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return self.progress.complete and not self.interrupted

    @property
    def partial(self) -> str | None:
        """``PARTIAL 12/50``, or None when every expected trial is there."""
        progress = self.progress
        return None if progress.complete else f"PARTIAL {progress.done}/{progress.expected}"


def progress_of(
    plan: Plan, records: dict[str, Record], jobs: int = 1, force: bool = False, folder: Path | None = None
) -> Progress:
    """Counts, and the time left judged by the trials that are done, else by what ``folder`` says of its run."""
    status = [None if force else records.get(trial.key, {}).get("status") for trial in plan.trials]
    todo = [trial for trial, state in zip(plan.trials, status, strict=True) if state != "ok"]
    estimate = _estimate(todo, records.values())
    if estimate is None and folder is not None and (each := seconds_per_trial(folder)) is not None:
        estimate = each * len(todo)
    left = None if estimate is None else estimate / max(1, min(jobs, len(todo)))
    return Progress(len(plan.trials), status.count("ok"), status.count("failed"), left)


def stored_outcome(out: Path, item: str) -> Outcome | None:
    """The state of the item's latest plan, without running anything; None when it was never run here."""
    store = Store(out, item)
    try:
        text = store.saved_plan()
        plan = None if text is None else Plan.from_json(text)
    except (ValueError, KeyError, TypeError):
        raise McfError(
            f"{store.folder} holds a plan that is damaged or of another version.\n"
            "Run its command again: finished trials are kept, and the plan is written anew."
        ) from None
    return None if plan is None else _outcome(plan, out, store.records())


def run_plan(
    plan: Plan,
    out: Path,
    engine: Engine,
    listener: Listener,
    *,
    force: bool = False,
    wait: bool = False,
) -> Outcome:
    """Run what is missing or failed (everything with ``force``), then write rows, config and environment."""
    store = Store(out, plan.config.item)
    with store.writing(wait):
        store.save_plan(plan.to_json())
        records = store.records()
        by_key = {trial.key: trial for trial in plan.trials}
        todo = [t for t in plan.trials if force or records.get(t.key, {}).get("status") != "ok"]
        listener.started(progress_of(plan, records, engine.jobs, force, out / plan.config.item), todo)
        interrupted = False
        finished = engine.run([trial.spec() for trial in todo])
        try:
            for record in finished:
                records[record["key"]] = store.append(record)
                listener.finished(by_key[record["key"]], record)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if hasattr(finished, "close"):
                finished.close()
        outcome = _outcome(plan, out, records)
        outcome.interrupted = interrupted
        write_outputs(outcome.folder, plan, outcome.rows, records, engine)
    return outcome


def _outcome(plan: Plan, out: Path, records: dict[str, Record]) -> Outcome:
    rows = build_rows(plan.config.item, plan.trials, records)
    failures = {t.label: records[t.key]["reason"] for t in plan.trials if _failed(records.get(t.key))}
    return Outcome(plan, out / plan.config.item, progress_of(plan, records), rows, failures)


def _failed(record: Record | None) -> bool:
    return record is not None and record["status"] == "failed"


def _estimate(todo: list[Trial], records: Collection[Record]) -> float | None:
    """Seconds for ``todo``: the mean of like trials that are done, else of all that are done."""
    times: dict[tuple, list[float]] = {}
    for record in islice(records, 0, None, len(records) // ESTIMATE_FROM + 1) if todo else ():
        if record["status"] == "ok":
            done = whole(record)
            times.setdefault(_kind(done["params"]), []).append(done["seconds"])
    if not times:
        return None
    means = {kind: statistics.fmean(group) for kind, group in times.items()}
    overall = statistics.fmean(second for group in times.values() for second in group)
    return sum(means.get(_kind(trial.params), overall) for trial in todo)


def _kind(params: dict) -> tuple:
    method = params.get("method", {})
    return (
        params.get("dataset"),
        *(method.get(name) for name in ("loss", "surrogate", "multiclass", "corruption")),
    )


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def spoken_time(seconds: float) -> str:
    """A duration as one would say it: ``40 s``, ``4 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
