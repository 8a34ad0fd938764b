"""Several items in a row: plan all, say how long it takes, run each, and count what failed."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from mcf_cli.commands.options import RunOptions
from mcf_cli.commands.presenting import Shown, present
from mcf_cli.commands.running import as_json, dry_run, engine_for, run_one, say
from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import Engine, make_engine
from mcf_cli.experiments.items import FOLDERS, configs_folder, item_files
from mcf_cli.experiments.loading import load_config
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.run import Outcome, counted, progress_of, spoken_time
from mcf_cli.experiments.store import Store


def reproduce(items: tuple[str, ...], configs: Path | None, options: RunOptions) -> None:
    """Run the items and exit: 0 when all is done, 1 when something failed."""
    profile = options.profile or "paper"
    out = options.out or FOLDERS.get(profile, FOLDERS["paper"])
    plans = [_plan(path, replace(options, profile=profile)) for path in _files(items, configs, options)]
    engine = make_engine(options.engine, options.jobs, options.scheduler)
    say([_forecast(plans, out, engine, options.force)], options)
    if options.dry_run:
        for plan in plans:
            dry_run(plan, options, out, engine)
        return
    outcomes = []
    for number, plan in enumerate(plans, 1):
        say([f"\n[{number}/{len(plans)}] {plan.config.item}: {plan.config.title}"], options)
        outcomes.append(run_one(plan, options, out, engine))
        present(Shown.of(outcomes[-1]), to_screen=False)
    _conclude(outcomes, options)


def _files(items: tuple[str, ...], configs: Path | None, options: RunOptions) -> list[Path]:
    if options.config and items:
        raise McfError(f"--config {options.config} says what to run: leave out {', '.join(items)}.")
    return [options.config] if options.config else item_files(configs_folder(configs), items)


def _plan(path: Path, options: RunOptions) -> Plan:
    flags = {} if options.seed is None else {"seed": options.seed}
    loaded = load_config(
        path, profile=options.profile, settings=options.settings, flags=flags, datasets=options.dataset
    )
    return make_plan(loaded)


def _forecast(plans: list[Plan], out: Path, engine: Engine, force: bool) -> str:
    states = [
        progress_of(plan, Store(out, item).records(), engine_for(plan, engine).jobs, force, out / item)
        for plan in plans
        for item in [plan.config.item]
    ]
    trials, to_run = sum(s.expected for s in states), sum(s.to_run for s in states)
    known = [s.seconds_left for s in states if s.to_run and s.seconds_left is not None]
    unknown = sum(1 for s in states if s.to_run and s.seconds_left is None)
    words = (
        f"{counted(len(plans), 'item')}, {counted(trials, 'trial')}: {trials - to_run} done, {to_run} to run"
    )
    words += f", about {spoken_time(sum(known))}" if known else ""
    return words + (f"; no times known yet for {counted(unknown, 'item')}" if unknown else "")


def _conclude(outcomes: list[Outcome], options: RunOptions) -> None:
    if options.as_json:
        click.echo(json.dumps([as_json(o, sorted(p.name for p in o.folder.iterdir())) for o in outcomes]))
    for outcome in outcomes:
        for label, reason in outcome.failures.items():
            click.echo(f"failed: {outcome.plan.config.item}: {label}: {reason}", err=True)
        if not options.as_json and not options.quiet:
            click.echo(f"{outcome.plan.config.item}: {outcome.progress.sentence()}, in {outcome.folder}")
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)
