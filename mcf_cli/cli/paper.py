"""The commands about the paper as a whole: reproduce its items, say how far they are, report on them, delete them."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from mcf_cli.cli.experiments import as_json, dry_run, run_one, say, say_set_aside
from mcf_cli.cli.options import GroupedCommand, RunOptions, run_options
from mcf_cli.errors import McfError, RunError
from mcf_cli.experiments.engine import Engine, make_engine
from mcf_cli.experiments.flags import check_groups_used
from mcf_cli.experiments.load import BEYOND, SCRATCH, configs_folder, item_files, load_config, results_folder
from mcf_cli.experiments.plan import DataMissing, Plan, make_plan
from mcf_cli.experiments.run import (
    RunOutcome,
    counted,
    progress_of,
    spoken_time,
)
from mcf_cli.experiments.store import Store, items_in
from mcf_cli.reporting.results import Result, check_items, latest_folder, present, results_below, states_below


@click.command(
    "reproduce", cls=GroupedCommand, epilog="Example: mcf reproduce fig3 table3 --profile quick --jobs 0"
)
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option(
    "--configs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with the configs of the items.",
)
@click.option(
    "--allow-builtin", is_flag=True, help="Use built-in data for an item whose data is not on this machine."
)
@click.option(
    "--beyond",
    is_flag=True,
    help="Run our own items instead of the paper's: bounds, thinning, shift, msda, label-noise, ...",
)
@run_options
def reproduce_command(
    options: RunOptions, items: tuple[str, ...], configs: Path | None, allow_builtin: bool, beyond: bool
) -> None:
    """Re-run any or all items of the paper: fig1, fig3, ..., table3, cost, loo.

    --profile smoke runs on built-in data in minutes, quick on real data with reduced grids, paper (the
    default) at full scale. Everything is checked before anything runs. The same command resumes an
    interrupted run. The paper profile skips an item whose data is missing, and says so.
    """
    reproduce(items, configs, options, allow_builtin, beyond)


def reproduce(
    items: tuple[str, ...],
    configs: Path | None,
    options: RunOptions,
    allow_builtin: bool = False,
    beyond: bool = False,
) -> None:
    """Run the items and exit: 0 when all is done, 1 when something failed or was skipped for lack of data."""
    profile = options.profile or "paper"
    if beyond and (configs or options.config):
        given = f"--configs {configs}" if configs else f"--config {options.config}"
        raise McfError(f"--beyond runs the items in configs/beyond: leave out {given}.")
    out = options.out or results_folder(profile, beyond)
    options = replace(options, profile=profile)
    files = _files(items, configs_folder() / BEYOND if beyond else configs, options)
    plans, skipped = _plans(files, options, allow_builtin or profile != "paper")
    if not plans:
        raise RunError("\n".join(skipped))
    engine = make_engine(options.engine, options.jobs, options.scheduler)
    say([_forecast(plans, out, engine, options.force)], options)
    if options.dry_run:
        for plan in plans:
            dry_run(plan, options, out, engine)
        _say_skipped(skipped)
        sys.exit(1 if skipped else 0)
    outcomes = []
    for number, plan in enumerate(plans, 1):
        say([f"\n[{number}/{len(plans)}] {plan.config.item}: {plan.config.title}"], options)
        outcomes.append(run_one(plan, options, out, engine))
        present(Result.of(outcomes[-1]), to_screen=False)
    if beyond:
        _report_beyond(out, options)
    _conclude(outcomes, options, skipped)


def _report_beyond(out: Path, options: RunOptions) -> None:
    """Their own page, beside their results: the paper's report says nothing of these items."""
    from mcf_cli.reporting.report import claims_on, write_report

    everything = results_below(out)[1]
    report = write_report(out, claims_on(everything), everything)
    say([*report.answer, f"Open {report.html}"], options)


def _files(items: tuple[str, ...], configs: Path | None, options: RunOptions) -> list[Path]:
    if options.config and items:
        raise McfError(f"--config {options.config} says what to run: leave out {', '.join(items)}.")
    return [options.config] if options.config else item_files(configs_folder(configs), items)


def _plans(files: list[Path], options: RunOptions, stand_ins: bool) -> tuple[list[Plan], list[str]]:
    """The plans of all items, and why some were left out."""
    plans, skipped = [], []
    for path in files:
        try:
            plans.append(_plan(path, options, stand_ins))
        except DataMissing as missing:
            skipped.append(str(missing))
    return plans, skipped


def _say_skipped(skipped: list[str]) -> None:
    for reason in skipped:
        click.echo(f"skipped: {reason}", err=True)


def _plan(path: Path, options: RunOptions, stand_ins: bool) -> Plan:
    loaded = load_config(path, **options.given())
    check_groups_used(loaded, options.given())
    return make_plan(loaded, stand_ins)


def _forecast(plans: list[Plan], out: Path, engine: Engine, force: bool) -> str:
    states = [
        progress_of(
            plan,
            Store(out, item).records(),
            engine.suited(plan.config.evaluation.protocol, len(plan.trials)).jobs,
            force,
            out / item,
        )
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


def _conclude(outcomes: list[RunOutcome], options: RunOptions, skipped: list[str]) -> None:
    if options.as_json:
        click.echo(json.dumps([as_json(o, sorted(p.name for p in o.folder.iterdir())) for o in outcomes]))
    for outcome in outcomes:
        for label, reason in outcome.failures.items():
            click.echo(f"failed: {outcome.plan.config.item}: {label}: {reason}", err=True)
        if not options.as_json:
            click.echo(f"{outcome.plan.config.item}: {outcome.progress.sentence()}, in {outcome.folder}")
        say_set_aside(outcome)
    _say_skipped(skipped)
    sys.exit(0 if all(outcome.ok for outcome in outcomes) and not skipped else 1)


@click.command("status", cls=GroupedCommand, epilog="Example: mcf status --out results")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A results folder.  [default: all below results/]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_command(out: Path | None, as_json: bool) -> None:
    """Show what is done, failed and missing in the latest run of every item. Exits with 1 unless all is done.

    For items without a store, such as committed results, their files say how far they are.
    """
    found = states_below(out)
    if as_json:
        click.echo(json.dumps(found))
    elif not found:
        click.echo("Nothing has been run yet.")
    for state in [] if as_json else found:
        click.echo(
            f"{state['folder']}: {counted(state['expected'], 'trial')}: {state['done']} done, "
            f"{len(state['failed'])} failed, {state['missing']} missing"
        )
        for label, reason in state["failed"].items():
            click.echo(f"  failed: {label}: {reason}")
    sys.exit(0 if all(state["done"] == state["expected"] for state in found) else 1)


@click.command("report", cls=GroupedCommand, epilog="Example: mcf report --out results/scratch")
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="A results folder.  [default: that of the latest run]",
)
@click.option(
    "--claims",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The claims to judge.  [default: configs/claims.yaml, or configs/beyond/claims.yaml for those items]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def report_command(items: tuple[str, ...], out: Path | None, claims: Path | None, as_json: bool) -> None:
    """Build tables, figures and the report from stored results, without running anything."""
    build_report(items, out, claims, as_json)


def build_report(items: tuple[str, ...], out: Path | None, claims: Path | None, as_json: bool) -> None:
    """Rows, tables and figures of every item, then the report; exit code 1 when any is incomplete.

    Of an item without its store, as in a clone, tables and figures that are missing are drawn from its rows.csv.
    """
    from mcf_cli.reporting.report import claims_on, write_report

    folder = out or latest_folder()
    due, everything = results_below(folder, items)
    for result in due:
        files = present(result, to_screen=False)
        if not as_json:
            click.echo(f"{result.folder}: {result.partial or 'complete'}: {', '.join(files)}")
    report = write_report(folder, claims or claims_on(everything), everything)
    if as_json:
        found = [{"folder": str(result.folder), "partial": result.partial or None} for result in due]
        click.echo(json.dumps({"items": found, "report": [str(path) for path in report.files]}))
    else:
        for line in report.answer:
            click.echo(line)
        click.echo(f"Open {report.html}")
    sys.exit(1 if any(result.partial for result in due) else 0)


@click.command("clean", cls=GroupedCommand, epilog="Example: mcf clean sweep-q")
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option("--out", type=click.Path(path_type=Path), help="A results folder.  [default: results/scratch]")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean_command(items: tuple[str, ...], out: Path | None, yes: bool) -> None:
    """Delete the stored trials of some or all items in a results folder, so that they run again.

    Tables and figures stay.
    """
    folder = out or SCRATCH
    known = items_in(folder)
    check_items(items, known, folder)
    chosen = list(items) or known
    if not chosen:
        click.echo(f"{folder} holds no trials to delete.")
        return
    if not yes:
        click.confirm(f"Delete the trials of {', '.join(chosen)} in {folder}?", abort=True)
    for item in chosen:
        others = Store(folder, item).forget()
        click.echo(f"Deleted: {item}" + (f" (left alone: {', '.join(others)})" if others else ""))
