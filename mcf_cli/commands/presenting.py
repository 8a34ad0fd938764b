"""Tables and figures of an outcome: files beside rows.csv, and the table on the screen."""

import io
import sys
from typing import Any

import pandas as pd

from mcf_cli.datasets.info import pixel_grid
from mcf_cli.errors import McfError
from mcf_cli.experiments.files import disk_explained
from mcf_cli.experiments.plan import Plan, load_data
from mcf_cli.experiments.protocols import draw_of
from mcf_cli.experiments.rows import to_csv
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.splits import train_test

SHOWN = ("table.csv", "table.md", "figure.png", "figure.svg")


def present(outcome: Outcome, to_screen: bool) -> list[str]:
    """Write table and figure, print the table; the names of all files of the item."""
    rows = pd.read_csv(io.StringIO(to_csv(outcome.rows)), keep_default_na=False, na_values=[""])
    with disk_explained(outcome.folder.parent):
        if (rows["status"] == "ok").any():
            _write_table(outcome, rows, to_screen)
            _write_figure(outcome, rows)
        else:
            for name in SHOWN:  # by an earlier run, of rows that are no longer here
                (outcome.folder / name).unlink(missing_ok=True)
    return sorted(path.name for path in outcome.folder.iterdir() if not path.name.startswith("."))


def _write_table(outcome: Outcome, rows: pd.DataFrame, to_screen: bool) -> None:
    from mcf_cli.reporting import tables

    paper, progress = outcome.plan.config.paper, outcome.progress
    table = tables.build(
        rows,
        paper_table=paper.table if paper else None,
        title=outcome.plan.config.title,
        done=progress.done,
        expected=progress.expected,
    )
    tables.write(table, outcome.folder / "table")
    if to_screen:
        from rich.console import Console

        # Piped output has no width of its own: give the table what it needs.
        Console(width=None if sys.stdout.isatty() else 200).print(tables.rich_table(table))


def _write_figure(outcome: Outcome, rows: pd.DataFrame) -> None:
    from mcf_cli.reporting import figures, tables

    config = outcome.plan.config
    number = config.paper.figure if config.paper else None
    kind = figures.FIGURES.get(number) or figures.kind_of(rows)
    options: dict[str, Any] = {}
    if kind is figures.FIGURES[9]:
        options["digit"] = sample_image(outcome.plan)
    elif kind is figures.methods and config.paper and config.paper.table == 3:
        options["published"] = tables.PAPER_TABLE3
    figure = figures.draw(rows, number, warning=outcome.partial or "", **options)
    figures.save(figure, outcome.folder / "figure")


def sample_image(plan: Plan) -> Any:
    """The first test row as a grey image, None when the rows are no such images or the data is not here."""
    trial = plan.trials[0]
    try:
        dataset = load_data(trial.data["name"], tuple(sorted(trial.data["options"].items())))
    except McfError:
        return None
    height, width, channels = pixel_grid(dataset) or (0, 0, 0)
    if channels != 1:
        return None
    test = train_test(dataset, trial.params["evaluation"], draw_of(trial.params))[1]
    row = dataset.X[test[0]]
    return (row if getattr(row, "ndim", 2) == 1 else row.toarray()).reshape(height, width)
