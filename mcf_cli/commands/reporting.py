"""The steps of ``mcf report``."""

import json
import sys
from pathlib import Path

import click

from mcf_cli.commands.presenting import SHOWN, Shown, present
from mcf_cli.commands.stored import check_items, outcomes_below
from mcf_cli.errors import McfError
from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.items import FOLDERS, claims_file
from mcf_cli.experiments.loading import load_config
from mcf_cli.experiments.outputs import config_yaml
from mcf_cli.experiments.rows import to_csv
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.store import items_in
from mcf_cli.reporting.results import ItemResults, read_results


def build_report(items: tuple[str, ...], out: Path | None, claims: Path | None, as_json: bool) -> None:
    """Rows, tables and figures of every item, then the report; exit code 1 when any is incomplete.

    Of an item without its store, as in a clone, tables and figures that are missing are drawn from its rows.csv.
    """
    from mcf_cli.reporting.report import write_report

    folder = out or FOLDERS["paper"]
    known = {*items_in(folder), *(path.parent.name for path in folder.glob("*/rows.csv"))}
    if not known:
        raise McfError(f"{folder} holds no results: run `mcf reproduce` or another command first.")
    check_items(items, sorted(known), folder)
    everything = [_rebuilt(outcome) for outcome in outcomes_below(folder, items)]
    stored = {shown.folder.name: shown.partial for shown in everything}
    for name, item in read_results(folder, stored).items():
        if name not in stored and (not items or name in items) and _lacks_any(item):
            everything.append(_read(item))
    for shown in everything:
        files = present(shown, to_screen=False)
        if not as_json:
            click.echo(f"{shown.folder}: {shown.partial or 'complete'}: {', '.join(files)}")
    paths = write_report(folder, claims or claims_file(), stored)
    if as_json:
        found = [{"folder": str(shown.folder), "partial": shown.partial or None} for shown in everything]
        click.echo(json.dumps({"items": found, "report": [str(path) for path in paths]}))
    else:
        click.echo(f"report: {', '.join(str(path) for path in paths)}")
    sys.exit(1 if any(shown.partial for shown in everything) else 0)


def _rebuilt(outcome: Outcome) -> Shown:
    """An item with its rows and config written anew from the store."""
    outcome.folder.mkdir(parents=True, exist_ok=True)
    write_text(outcome.folder / "rows.csv", to_csv(outcome.rows))
    write_text(outcome.folder / "config.yaml", config_yaml(outcome.plan.config))
    return Shown.of(outcome)


def _lacks_any(item: ItemResults) -> bool:
    return bool(item.config) and not all((item.folder / name).exists() for name in SHOWN)


def _read(item: ItemResults) -> Shown:
    """An item as its files have it."""
    config = load_config(item.folder / "config.yaml").config
    trials = item.trials
    return Shown(item.folder, item.rows, config, trials.get("done"), trials.get("expected"), item.partial)
