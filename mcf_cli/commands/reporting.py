"""The steps of ``mcf report``."""

import json
import sys
from pathlib import Path

import click

from mcf_cli.commands.presenting import present
from mcf_cli.commands.stored import outcomes_below
from mcf_cli.errors import McfError
from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.rows import to_csv

RESULTS = Path("results")


def build_report(items: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Rows, tables and figures of every stored item; exit code 1 when any is incomplete."""
    folder = out or RESULTS
    outcomes = outcomes_below(folder, items)
    if not outcomes:
        raise McfError(f"{folder} holds no results: run `mcf reproduce` or another command first.")
    for outcome in outcomes:
        outcome.folder.mkdir(parents=True, exist_ok=True)
        write_text(outcome.folder / "rows.csv", to_csv(outcome.rows))
        files = present(outcome, to_screen=False)
        if not as_json:
            click.echo(f"{outcome.folder}: {outcome.partial or 'complete'}: {', '.join(files)}")
    if as_json:
        click.echo(json.dumps([{"folder": str(o.folder), "partial": o.partial} for o in outcomes]))
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)
