"""From the options of a command to a finished run: load, plan, run, show. The exit code is decided here."""

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mcf_cli.commands.interrupts import prompt_interrupt
from mcf_cli.commands.options import RunOptions
from mcf_cli.commands.presenting import Shown, present
from mcf_cli.commands.progress import listening
from mcf_cli.experiments.defaults import DEFAULTS
from mcf_cli.experiments.engine import Engine, make_engine
from mcf_cli.experiments.items import SCRATCH
from mcf_cli.experiments.loading import LoadedConfig, load_config
from mcf_cli.experiments.narrow import left_to_select, narrowed
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.run import Outcome, progress_of, run_plan
from mcf_cli.experiments.store import Store

COMMAND_OF = {"split": "sweep-q", "cv": "sweep-q", "cost": "reproduce", "loo": "reproduce"}


@dataclass(frozen=True)
class Request:
    """A command's name, the protocols it runs, and what its own flags ask for."""

    command: str
    protocols: tuple[str, ...]
    flags: dict[str, Any]
    losses: tuple[str, ...] = ()
    corruptions: tuple[str, ...] = ()
    q: Any = None
    method: dict[str, Any] = field(default_factory=dict)  # what a grid of one entry takes in place of its own


def load_request(request: Request, options: RunOptions) -> LoadedConfig:
    """The config of a command: its file or its default, with the flags laid over it."""
    default = DEFAULTS[request.command]
    flags, method = (
        {path: value for path, value in given.items() if value not in (None, ())}
        for given in (request.flags, request.method)
    )
    if options.seed is not None:
        flags["seed"] = options.seed
    beneath = {"evaluation": default["evaluation"]} if "evaluation" in default else None
    loaded = load_config(
        options.config or default,
        profile=options.profile,
        settings=options.settings,
        flags=flags,
        datasets=options.dataset,
        method=method,
        defaults=beneath,
    )
    protocol = loaded.config.evaluation.protocol
    if protocol not in request.protocols:
        command = COMMAND_OF.get(protocol, protocol)
        raise loaded.error(
            ["evaluation", "protocol"], f"`{protocol}` is not for this command: use `mcf {command}`"
        )
    if request.losses or request.corruptions or request.q is not None:
        loaded = narrowed(loaded, request.losses, request.corruptions, request.q)
    chosen = {path.removeprefix("select.") for path in flags if path.startswith("select.")}
    return left_to_select(loaded, chosen) if chosen else loaded


def run_command(request: Request, options: RunOptions) -> None:
    """Run a command to its end and exit."""
    plan = make_plan(load_request(request, options))
    outcome = run_or_dry_run(plan, options, options.out or SCRATCH)
    if outcome is not None:
        show(outcome, options)
        sys.exit(0 if outcome.ok else 1)


def run_or_dry_run(plan: Plan, options: RunOptions, out: Path) -> Outcome | None:
    """The outcome of a run, or None after saying what a run would do."""
    engine = make_engine(options.engine, options.jobs, options.scheduler)
    if options.dry_run:
        dry_run(plan, options, out, engine)
        return None
    return run_one(plan, options, out, engine)


def engine_for(plan: Plan, engine: Engine) -> Engine:
    """The engine asked for, but times are taken one at a time, with nothing beside them."""
    return Engine() if plan.config.evaluation.protocol == "cost" else engine


def dry_run(plan: Plan, options: RunOptions, out: Path, engine: Engine) -> None:
    """Say what is done and what would run."""
    records = Store(out, plan.config.item).records()
    jobs = engine_for(plan, engine).jobs
    progress = progress_of(plan, records, jobs, options.force, out / plan.config.item)
    if options.as_json:
        facts = {"item": plan.config.item, "expected": progress.expected, "done": progress.done}
        click.echo(json.dumps(facts | {"to_run": progress.to_run, "seconds": progress.seconds_left}))
        return
    say(plan.notices, options)
    click.echo(f"{plan.config.item}: {progress.sentence()}")


def run_one(plan: Plan, options: RunOptions, out: Path, engine: Engine) -> Outcome:
    """Run one plan with progress; an interrupt keeps what is done and says how to go on."""
    engine = engine_for(plan, engine)
    say(plan.notices, options)
    say(data_sentences(plan), options)
    with prompt_interrupt(how_to_resume()), listening(options.quiet, engine.jobs) as listener:
        outcome = run_plan(plan, out, engine, listener, force=options.force, wait=options.wait)
    if outcome.interrupted:
        click.echo(how_to_resume(), err=True)
        click.echo(f"{plan.config.item}: {outcome.progress.sentence()}", err=True)
        sys.exit(1)
    return outcome


def show(outcome: Outcome, options: RunOptions) -> None:
    """Write tables and figures; print the table, or everything as JSON."""
    files = present(Shown.of(outcome), to_screen=not options.as_json and not options.quiet)
    for label, reason in outcome.failures.items():
        click.echo(f"failed: {label}: {reason}", err=True)
    if options.as_json:
        click.echo(json.dumps(as_json(outcome, files)))
    elif not options.quiet:
        click.echo(f"Written to {outcome.folder}: {', '.join(sorted(files))}")


def as_json(outcome: Outcome, files: list[str]) -> dict[str, Any]:
    """The outcome for machines."""
    progress = outcome.progress
    return {
        "item": outcome.plan.config.item,
        "folder": str(outcome.folder),
        "files": sorted(files),
        "trials": {"expected": progress.expected, "done": progress.done, "failed": len(outcome.failures)},
        "partial": outcome.partial,
        "failures": outcome.failures,
        "data": [{"name": d.name, "source": d.source, "notes": d.notes} for d in outcome.plan.data],
        "notices": outcome.plan.notices,
        "rows": outcome.rows,
    }


def data_sentences(plan: Plan) -> list[str]:
    """Which data is used, said before anything runs."""
    kinds = {"builtin": "built-in data, not the paper's", "substitute": "a SUBSTITUTE for the paper's data"}
    sentences = []
    for facts in plan.data:
        kind = kinds.get(facts.source, {"user": "your data"}.get(facts.source, "real data"))
        rows, columns = facts.shape
        sentences.append(
            f"Data: {facts.name} ({kind}): {rows:,} rows, {columns:,} features, {facts.n_classes} classes."
        )
        sentences += facts.notes
    return sentences


def say(sentences: list[str], options: RunOptions) -> None:
    """To stderr, so that stdout holds results only."""
    if not options.quiet:
        for sentence in sentences:
            click.echo(sentence, err=True)


def how_to_resume() -> str:
    """The command that was given: finished trials are not run again."""
    return f"Stopped. What is finished is kept; go on with: {shlex.join(['mcf', *sys.argv[1:]])}"
