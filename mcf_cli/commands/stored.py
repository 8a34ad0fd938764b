"""Finding results that earlier runs left behind."""

from pathlib import Path
from typing import Any

from mcf_cli.datasets.registry import nearest
from mcf_cli.errors import McfError
from mcf_cli.experiments.items import FOLDERS, SCRATCH
from mcf_cli.experiments.outputs import trials_in
from mcf_cli.experiments.run import Outcome, stored_outcome
from mcf_cli.experiments.store import items_in


def check_items(items: tuple[str, ...], known: list[str], folder: Path) -> None:
    """Refuse an item that a results folder does not hold."""
    for item in items:
        if item not in known:
            raise McfError(f"{folder} holds no item {item!r}{nearest(item, known)}")


def outcomes_below(out: Path | None, items: tuple[str, ...] = ()) -> list[Outcome]:
    """The items in one folder, or in all the folders that commands write to by default."""
    found = [
        (folder, item) for folder in _folders(out) for item in items_in(folder) if not items or item in items
    ]
    return [outcome for folder, item in found if (outcome := stored_outcome(folder, item))]


def states_below(out: Path | None) -> list[dict[str, Any]]:
    """How far every item is: by its store, else by what was written beside its rows."""
    outcomes = outcomes_below(out)
    stored = {outcome.folder for outcome in outcomes}
    others = [path.parent for folder in _folders(out) for path in sorted(folder.glob("*/rows.csv"))]
    return [_state(outcome) for outcome in outcomes] + [
        {
            "item": folder.name,
            "folder": str(folder),
            "expected": trials["expected"],
            "done": trials["done"],
            "failed": {f"trial {k + 1}": "see rows.csv" for k in range(trials["failed"])},
            "missing": trials["expected"] - trials["done"] - trials["failed"],
        }
        for folder in others
        if folder not in stored and (trials := trials_in(folder))
    ]


def _state(outcome: Outcome) -> dict[str, Any]:
    progress = outcome.progress
    return {
        "item": outcome.plan.config.item,
        "folder": str(outcome.folder),
        "expected": progress.expected,
        "done": progress.done,
        "failed": outcome.failures,
        "missing": progress.to_run - progress.failed,
    }


def _folders(out: Path | None) -> list[Path]:
    return [out] if out else [*FOLDERS.values(), SCRATCH]
