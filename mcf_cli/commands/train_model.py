"""The steps of ``mcf train``: plan, run, fit the chosen model, save, say."""

import json
import sys
from typing import Any

import click

from mcf_cli.commands.options import RunOptions
from mcf_cli.commands.running import Request, load_request, run_or_dry_run
from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.items import SCRATCH
from mcf_cli.experiments.plan import make_plan
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.training import METRICS, MODEL, check_one_model, final_model, save_model


def train_model(request: Request, options: RunOptions) -> None:
    """Train and exit: 0 with a model, 1 when a trial failed."""
    plan = make_plan(load_request(request, options))
    check_one_model(plan)
    outcome = run_or_dry_run(plan, options, options.out or SCRATCH)
    if outcome is None:
        return
    if not outcome.ok:
        for label, reason in outcome.failures.items():
            click.echo(f"failed: {label}: {reason}", err=True)
        sys.exit(1)
    model, metrics = final_model(outcome)
    save_model(model, outcome)
    write_text(outcome.folder / METRICS, json.dumps(metrics, indent=2) + "\n")
    _say(outcome, metrics, options)


def _say(outcome: Outcome, metrics: dict[str, Any], options: RunOptions) -> None:
    if options.as_json:
        click.echo(json.dumps({**metrics, "model": str(outcome.folder / MODEL)}))
        return
    if options.quiet:
        return
    chosen = ", ".join(f"{name} {value}" for name, value in metrics["chosen"].items())
    mark = {"real": "", "user": ""}.get(metrics["data_source"], f" ({metrics['data_source']} data)")
    click.echo(f"{metrics['dataset']}{mark}: {chosen}")
    click.echo(f"training error {metrics['train_error']:.2%}, test error {metrics['test_error']:.2%}")
    click.echo(f"Written to {outcome.folder}: {MODEL}, {METRICS}, config.yaml")
