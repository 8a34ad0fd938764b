"""The steps of ``mcf report``."""

import json
import sys
from pathlib import Path

import click

from mcf_cli.commands.presenting import present
from mcf_cli.commands.stored import check_items, outcomes_below
from mcf_cli.errors import McfError
from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.items import FOLDERS, claims_file
from mcf_cli.experiments.outputs import config_yaml
from mcf_cli.experiments.rows import to_csv
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.store import items_in


def build_report(items: tuple[str, ...], out: Path | None, claims: Path | None, as_json: bool) -> None:
    """Rows, tables and figures of every stored item, then the report; exit code 1 when any is incomplete.

    The report needs only what lies beside rows.csv, so committed results give it without their store.
    """
    from mcf_cli.reporting.report import write_report

    folder = out or FOLDERS["paper"]
    known = {*items_in(folder), *(path.parent.name for path in folder.glob("*/rows.csv"))}
    if not known:
        raise McfError(f"{folder} holds no results: run `mcf reproduce` or another command first.")
    check_items(items, sorted(known), folder)
    outcomes = outcomes_below(folder, items)
    for outcome in outcomes:
        files = _rebuild(outcome)
        if not as_json:
            click.echo(f"{outcome.folder}: {outcome.partial or 'complete'}: {', '.join(files)}")
    partial = {outcome.folder.name: outcome.partial or "" for outcome in outcomes}
    paths = write_report(folder, claims or claims_file(), partial)
    if as_json:
        found = [{"folder": str(o.folder), "partial": o.partial} for o in outcomes]
        click.echo(json.dumps({"items": found, "report": [str(path) for path in paths]}))
    else:
        click.echo(f"report: {', '.join(str(path) for path in paths)}")
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)


def _rebuild(outcome: Outcome) -> list[str]:
    outcome.folder.mkdir(parents=True, exist_ok=True)
    write_text(outcome.folder / "rows.csv", to_csv(outcome.rows))
    write_text(outcome.folder / "config.yaml", config_yaml(outcome.plan.config))
    return present(outcome, to_screen=False)
