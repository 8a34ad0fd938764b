"""Running a plan: what is done stays, what is missing runs, every record is on disk before it is reported.

The files of an item are rows.csv, errors.npz, the resolved config.yaml and environment.json; each is written whole
or not at all.
"""

import contextlib
import csv
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml
from pydantic import ValidationError

from mcf_cli.core.kernels.threads import available_cores
from mcf_cli.datasets.userfile import file_format
from mcf_cli.errors import McfError
from mcf_cli.experiments.config import Config, without_retired
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.plan import Plan
from mcf_cli.experiments.rows import Evidence, Row, build_rows, rows_csv, without_evidence
from mcf_cli.experiments.store import Record, Store
from mcf_cli.experiments.trial import METHOD_VERSION, Trial, kind_of_trial, sample_image
from mcf_cli.files import clear_leftovers, disk_explained, whole_file, write_text
from mcf_cli.version import __version__

ROWS, MODEL = "rows.csv", "model.npz"  # what a run makes, and what `mcf train` adds
OWN_NAMES = ("train", "compare")  # items that are named by their data where no config names them
DIGIT = "digit.npz"  # for the samples under Figure 9
LOCK_FILE = "requirements.lock"  # exact versions, from which make installs
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib")


def write_outputs(outcome: "RunOutcome", records: dict[str, Record], engine: Engine) -> None:
    """Write what the records hold now."""
    folder, plan = outcome.folder, outcome.plan
    environment = environment_of(plan, records, engine)
    with disk_explained(folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder)
        write_text(folder / ROWS, rows_csv(outcome.rows))
        outcome.evidence.write(folder)
        write_text(folder / "config.yaml", config_yaml(plan.config))
        write_text(folder / "environment.json", json.dumps(environment, indent=2) + "\n")
        _write_digit(folder / DIGIT, plan)


def _write_digit(path: Path, plan: Plan) -> None:
    """Keep one image of the data: figures are drawn without it at hand."""
    evaluation, digit = plan.config.evaluation, None
    if evaluation.protocol == "nightmare" and len(evaluation.deletion) > 1 and len(plan.parts) == 1:
        digit = sample_image(plan.parts[0].reference, evaluation.model_dump(), plan.config.seed)
    if digit is None:
        path.unlink(missing_ok=True)
        return
    with whole_file(path) as part, part.open("wb") as file:
        np.savez(file, digit=digit)


def config_content(config: Config) -> dict[str, Any]:
    """The resolved config, which gives the same trials when it is run again."""
    return config.model_dump(mode="json", by_alias=True, exclude={"profiles"}, exclude_none=True)


def config_yaml(config: Config) -> str:
    """config.yaml."""
    return yaml.safe_dump(config_content(config), sort_keys=False, default_flow_style=None, width=100)


def environment_of(plan: Plan, records: dict[str, Record], engine: Engine) -> dict[str, Any]:
    """Where the numbers come from: versions, machine, commit, data, and how much of the plan is done."""
    expected = [records.get(trial.key) for trial in plan.trials]
    done = [record for record in expected if record and record["status"] == "ok"]
    return {
        "mcf": __version__,
        "method": METHOD_VERSION,
        **checkout(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": available_cores(),
        "engine": {"name": engine.name, "jobs": engine.jobs},
        "profile": plan.profile,
        "trials": {
            "expected": len(expected),
            "done": len(done),
            "failed": sum(1 for record in expected if record and record["status"] == "failed"),
            "seconds": round(sum(record["seconds"] for record in done), 3),
        },
        "data": [asdict(facts) for facts in plan.data],
        "notices": plan.notices,
    }


def named_by_content(config: Config) -> str:
    """An item's name from its data and methods: ``train-wine-logistic-dropout``, ``compare-wine-logistic``."""
    entry, data = config.grid[0], Path(config.datasets[0].name).name
    if file_format(data):
        data = re.sub(r"(\.[a-z]+){1,2}$", "", data, flags=re.IGNORECASE)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", data)
    name = f"{config.item}-{plain[:28]}-{entry.loss[0]}"
    return f"{name}-{entry.corruption[0]}" if config.item == "train" else name


def free_item(config: Config, out: Path, made: str) -> str:
    """The item's name, or the first of name-2, name-3, ... in whose folder no other config made that file."""
    number, item = 1, config.item
    while holds_another(config.model_copy(update={"item": item}), out / item, made):
        number, item = number + 1, f"{config.item}-{number + 1}"
    return item


def holds_another(config: Config, folder: Path, made: str) -> bool:
    """Whether another config made that file of the folder."""
    if not (folder / made).exists():
        return False
    try:
        content = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        return Config.model_validate(without_retired(content)) != config.model_copy(update={"profiles": {}})
    except (OSError, ValueError, ValidationError, yaml.YAMLError):
        return True


def with_own_folder(plan: Plan, out: Path, made: str, named: bool, force: bool) -> Plan:
    """A config that is not ``named`` by its file gets a name of its data and method.

    Without ``force`` what another config ``made`` is not replaced.
    """
    config = plan.config
    if not named and config.item in OWN_NAMES:
        config = config.model_copy(update={"item": named_by_content(config)})
        if not force:
            config = config.model_copy(update={"item": free_item(config, out, made)})
    elif made == MODEL and not force and holds_another(config, out / config.item, made):
        raise McfError(
            f"{out / config.item / made} was made by another config (see config.yaml beside it).\n"
            "--force replaces it; --set item=NAME or --out keeps both."
        )
    return replace(plan, config=config)


SET_ASIDE = "set-aside"  # below an output folder: results that must not replace better ones


def folder_for(out: Path, plan: Plan, complete: bool) -> tuple[Path, str]:
    """Where the results of a plan belong, and why not in their own folder where better ones are there."""
    folder = out / plan.config.item
    known = _environment(folder)
    trials = trials_in(folder)
    was_complete = trials is not None and trials["done"] == trials["expected"] > 0
    sources = {facts.get("name"): facts.get("source") for facts in known.get("data") or ()}
    stand_ins = [facts.name for facts in plan.data if facts.source != "real" and facts.name not in sources]
    if "real" in sources.values() and any(facts.source != "user" for facts in plan.data) and stand_ins:
        why = f"{folder} holds results on real data, and this run used stand-ins ({', '.join(stand_ins)})"
    elif was_complete and not complete:
        why = f"{folder} holds complete results, and these are partial"
    else:
        return folder, ""
    return out / SET_ASIDE / plan.config.item, why


def _environment(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def trials_in(folder: Path) -> dict[str, Any] | None:
    """The numbers of trials (expected, done, failed) and their seconds that an item's environment.json has."""
    try:
        trials = _environment(folder)["trials"]
        return {name: trials.get(name, 0) + 0 for name in ("expected", "done", "failed", "seconds")}
    except (KeyError, TypeError, AttributeError):
        return None


def seconds_by_kind(folder: Path) -> dict[tuple[str, ...], list[float]]:
    """What trials took when the results in the folder were made, perhaps on another machine, by data set and method."""
    times: dict[tuple[str, ...], list[float]] = {}
    unreadable = contextlib.suppress(OSError, ValueError, KeyError, csv.Error)
    with unreadable, (folder / ROWS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "ok":
                times.setdefault(kind_of_trial(row, row), []).append(float(row["seconds"]))
    return times


def checkout() -> dict[str, Any]:
    """The commit of the checkout that this code runs from, None if it is none; ``dirty`` where code or configs differ.

    A package that is installed below somebody's repository is not that repository's.
    """
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != package.parent or not _git(package, "ls-files", "__init__.py"):
        return {"commit": None}
    changed = _git(package.parent, "status", "--porcelain", "--", package.name, "configs")
    found: dict[str, Any] = {"commit": _git(package, "rev-parse", "HEAD") or None}
    found |= {"dirty": True} if changed else {}
    with contextlib.suppress(OSError):
        found["lock"] = hashlib.sha256((package.parent / LOCK_FILE).read_bytes()).hexdigest()
    return found


def _git(folder: Path, *arguments: str) -> str:
    """What git says, nothing if it cannot; the caller may be a hook, whose variables speak of another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *arguments]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()
    return ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


ESTIMATE_FROM = 2000  # records: enough for the time left, and quickly read


@dataclass(frozen=True)
class RunProgress:
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

    def started(self, progress: RunProgress, todo: list[Trial]) -> None: ...

    def finished(self, trial: Trial, record: Record) -> None: ...


@dataclass
class RunOutcome:
    """What a run left behind."""

    plan: Plan
    folder: Path
    progress: RunProgress
    rows: list[Row]
    evidence: Evidence
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    set_aside: str = ""  # why the results are not in their own folder

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
) -> RunProgress:
    """Counts, and the time left judged by the trials that are done, else by what ``folder`` says of its run."""
    status = [None if force else records.get(trial.key, {}).get("status") for trial in plan.trials]
    todo = [trial for trial, state in zip(plan.trials, status, strict=True) if state != "ok"]
    estimate = _estimate(todo, records.values(), folder)
    left = None if estimate is None else estimate / max(1, min(jobs, len(todo)))
    return RunProgress(len(plan.trials), status.count("ok"), status.count("failed"), left)


def stored_outcome(out: Path, item: str) -> RunOutcome | None:
    """The state of the item's latest plan, without running anything; None when it was never run here."""
    store = Store(out, item)
    try:
        text = store.saved_plan()
        plan = None if text is None else Plan.from_json(text)
    except (ValueError, KeyError, TypeError):
        raise McfError(
            f"{store.folder} holds a plan that is damaged or of another version.\n"
            "Run its command again: finished trials are kept, and the plan is rebuilt."
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
) -> RunOutcome:
    """Run what is missing or failed (everything with ``force``), then write rows, config and environment."""
    store = Store(out, plan.config.item)
    with store.writing(wait):
        store.save_plan(plan.to_json())
        records = store.records()
        by_key = {trial.key: trial for trial in plan.trials}
        todo = [t for t in plan.trials if force or records.get(t.key, {}).get("status") != "ok"]
        listener.started(progress_of(plan, records, engine.jobs, force, out / plan.config.item), todo)
        interrupted = False
        in_turn = longest_first(todo, records.values(), out / plan.config.item) if engine.jobs > 1 else todo
        finished = engine.run([trial.spec() for trial in in_turn])
        try:
            for record in finished:
                store.append(record)
                records[record["key"]] = record
                listener.finished(by_key[record["key"]], record)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if hasattr(finished, "close"):
                finished.close()
        outcome = _outcome(plan, out, records)
        outcome.interrupted = interrupted
        write_outputs(outcome, records, engine)
    return outcome


def _outcome(plan: Plan, out: Path, records: dict[str, Record]) -> RunOutcome:
    rows = build_rows(plan.config.item, plan.trials, records)
    failures = {t.label: records[t.key]["reason"] for t in plan.trials if _failed(records.get(t.key))}
    progress = progress_of(plan, records)
    folder, set_aside = folder_for(out, plan, progress.complete)
    return RunOutcome(
        plan, folder, progress, without_evidence(rows), Evidence.of(rows), failures, set_aside=set_aside
    )


def _failed(record: Record | None) -> bool:
    return record is not None and record["status"] == "failed"


def _estimate(todo: list[Trial], records: Collection[Record], folder: Path | None) -> float | None:
    """Seconds for ``todo``, from like trials that are done, here or else in the results of an earlier run."""
    times = _mean_seconds(records, folder) if todo else {}
    return sum(times.get(_kind(trial.params), times[()]) for trial in todo) if times else None


def longest_first(todo: list[Trial], records: Collection[Record], folder: Path | None) -> list[Trial]:
    """The trials by how long their like took, so that no worker is left alone with a long one at the end.

    Equals, and all of them where nothing is known, keep their order: neighbours share their training rows.
    """
    times = _mean_seconds(records, folder)
    return sorted(todo, key=lambda trial: -times.get(_kind(trial.params), times[()])) if times else todo


def _mean_seconds(records: Collection[Record], folder: Path | None) -> dict[tuple[str, ...], float]:
    """By kind of trial, and under () of all trials; empty where nothing is known."""
    times: dict[tuple[str, ...], list[float]] = {}
    for record in islice(records, 0, None, len(records) // ESTIMATE_FROM + 1):
        if record["status"] == "ok":
            times.setdefault(_kind(record["params"]), []).append(record["seconds"])
    if not times and folder is not None:
        times = seconds_by_kind(folder)
    means = {kind: statistics.fmean(group) for kind, group in times.items()}
    return {**means, (): statistics.fmean(chain.from_iterable(times.values()))} if times else {}


def _kind(params: dict) -> tuple[str, ...]:
    return kind_of_trial(params.get("method", {}), params)


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def spoken_time(seconds: float) -> str:
    """A duration as one would say it: ``40 s``, ``4 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
