"""Finding results that earlier runs left behind."""

from pathlib import Path

from mcf_cli.datasets.registry import nearest
from mcf_cli.errors import McfError
from mcf_cli.experiments.items import FOLDERS, SCRATCH
from mcf_cli.experiments.run import Outcome, stored_outcome
from mcf_cli.experiments.store import items_in


def check_items(items: tuple[str, ...], known: list[str], folder: Path) -> None:
    """Refuse an item that a results folder does not hold."""
    for item in items:
        if item not in known:
            raise McfError(f"{folder} holds no item {item!r}{nearest(item, known)}")


def outcomes_below(out: Path | None, items: tuple[str, ...] = ()) -> list[Outcome]:
    """The items in one folder, or in all the folders that commands write to by default."""
    folders = [out] if out else [*FOLDERS.values(), SCRATCH]
    found = [(folder, item) for folder in folders for item in items_in(folder) if not items or item in items]
    return [outcome for folder, item in found if (outcome := stored_outcome(folder, item))]
