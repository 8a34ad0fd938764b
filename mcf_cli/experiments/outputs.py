"""The files of an item: rows.csv, the resolved config.yaml, environment.json; each whole or not at all."""

import contextlib
import json
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from mcf_cli.experiments.config import Config
from mcf_cli.experiments.engine import Engine, available_cores
from mcf_cli.experiments.files import clear_leftovers, disk_explained, write_text
from mcf_cli.experiments.plan import Plan
from mcf_cli.experiments.rows import Row, to_csv
from mcf_cli.experiments.store import Record
from mcf_cli.version import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib")


def write_outputs(
    folder: Path, plan: Plan, rows: list[Row], records: dict[str, Record], engine: Engine
) -> None:
    """Write what the records hold now."""
    environment = environment_of(plan, records, engine)
    with disk_explained(folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder)
        write_text(folder / "rows.csv", to_csv(rows))
        write_text(folder / "config.yaml", config_yaml(plan.config))
        write_text(folder / "environment.json", json.dumps(environment, indent=2) + "\n")


def config_yaml(config: Config) -> str:
    """The resolved config, which gives the same trials when it is run again."""
    content = config.model_dump(mode="json", by_alias=True, exclude={"profiles"}, exclude_none=True)
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)


def environment_of(plan: Plan, records: dict[str, Record], engine: Engine) -> dict[str, Any]:
    """Where the numbers come from: versions, machine, commit, data, and how much of the plan is done."""
    expected = [records.get(trial.key) for trial in plan.trials]
    done = [record for record in expected if record and record["status"] == "ok"]
    return {
        "mcf": __version__,
        "commit": git_commit(),
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


def trials_in(folder: Path) -> dict[str, Any] | None:
    """The numbers of trials (expected, done, failed) and their seconds that an item's environment.json has."""
    try:
        trials = json.loads((folder / "environment.json").read_text(encoding="utf-8"))["trials"]
        return {name: trials.get(name, 0) + 0 for name in ("expected", "done", "failed", "seconds")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def seconds_per_trial(folder: Path) -> float | None:
    """What a trial took when the results in the folder were made, perhaps on another machine."""
    trials = trials_in(folder)
    return trials["seconds"] / trials["done"] if trials and trials["done"] else None


def git_commit() -> str | None:
    """The commit of the checkout that this code runs from, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
