"""Tables and figures of an item: files beside its rows.csv, and the table on the screen."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mcf_cli.datasets.info import pixel_grid
from mcf_cli.errors import McfError
from mcf_cli.experiments.config import Config
from mcf_cli.experiments.files import disk_explained
from mcf_cli.experiments.plan import load_data
from mcf_cli.experiments.rows import to_csv
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.splits import Draw, train_test

SHOWN = ("table.csv", "table.md", "figure.png", "figure.svg")


@dataclass(frozen=True)
class Shown:
    """What tables and figures are made of: rows, the config they follow from, and how many trials are there."""

    folder: Path
    rows: pd.DataFrame
    config: Config
    done: int | None
    expected: int | None
    partial: str

    @classmethod
    def of(cls, outcome: Outcome) -> "Shown":
        rows = pd.read_csv(io.StringIO(to_csv(outcome.rows)), keep_default_na=False, na_values=[""])
        progress = outcome.progress
        return cls(
            outcome.folder,
            rows,
            outcome.plan.config,
            progress.done,
            progress.expected,
            outcome.partial or "",
        )


def present(shown: Shown, to_screen: bool) -> list[str]:
    """Write table and figure, print the table; the names of all files of the item."""
    with disk_explained(shown.folder.parent):
        if (shown.rows["status"] == "ok").any():
            _write_table(shown, to_screen)
            _write_figure(shown)
        else:
            for name in SHOWN:  # by an earlier run, of rows that are no longer here
                (shown.folder / name).unlink(missing_ok=True)
    return sorted(path.name for path in shown.folder.iterdir() if not path.name.startswith("."))


def _write_table(shown: Shown, to_screen: bool) -> None:
    from mcf_cli.reporting import tables

    paper = shown.config.paper
    table = tables.build(
        shown.rows,
        paper_table=paper.table if paper else None,
        title=shown.config.title,
        done=shown.done,
        expected=shown.expected,
    )
    tables.write(table, shown.folder / "table")
    if to_screen:
        from rich.console import Console

        # Piped output has no width of its own: give the table what it needs.
        Console(width=None if sys.stdout.isatty() else 200).print(tables.rich_table(table))


def _write_figure(shown: Shown) -> None:
    from mcf_cli.reporting import figures, tables

    paper, rows = shown.config.paper, shown.rows
    number = paper.figure if paper else None
    kind = figures.FIGURES.get(number) or figures.kind_of(rows)
    options: dict[str, Any] = {}
    if kind is figures.FIGURES[9]:
        options["digit"] = sample_image(shown.config, str(rows["dataset"].iloc[0]))
    elif kind is figures.methods and paper and paper.table == 3:
        options["published"] = tables.PAPER_TABLE3
    figure = figures.draw(rows, number, warning=shown.partial, **options)
    figures.save(figure, shown.folder / "figure")


def sample_image(config: Config, shown: str) -> Any:
    """The first test row of the data set shown as a grey image, None when it holds no such images or is not here."""
    entry = config.datasets[0]
    name, options = (shown, {}) if shown == entry.fallback else (entry.name, entry.options)
    try:
        dataset = load_data(name, tuple(sorted(options.items())))
    except McfError:
        return None
    height, width, channels = pixel_grid(dataset) or (0, 0, 0)
    if channels != 1:
        return None
    test = train_test(dataset, config.evaluation.model_dump(), Draw(config.seed, dataset.name, 0))[1]
    row = dataset.X[test[0]]
    return (row if getattr(row, "ndim", 2) == 1 else row.toarray()).reshape(height, width)
