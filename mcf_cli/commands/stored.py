"""Finding results that earlier runs left behind."""

from pathlib import Path

from mcf_cli.experiments.items import FOLDERS, SCRATCH
from mcf_cli.experiments.run import Outcome, stored_outcome
from mcf_cli.experiments.store import items_in


def outcomes_below(out: Path | None, items: tuple[str, ...] = ()) -> list[Outcome]:
    """The items in one folder, or in all the folders that commands write to by default."""
    folders = [out] if out else [*FOLDERS.values(), SCRATCH]
    found = [(folder, item) for folder in folders for item in items_in(folder) if not items or item in items]
    return [outcome for folder, item in found if (outcome := stored_outcome(folder, item))]
