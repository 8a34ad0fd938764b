"""The commands that run an experiment: sweep-q, nightmare, learning-curve, explicit, bounds, table and compare.

Each says what its flags ask for; the steps are the same for all: load, plan, run, show. The exit code is decided here.
"""

import json
import shlex
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mcf_cli.cli.main import prompt_interrupt
from mcf_cli.cli.options import NUMBER_LIST, RATES, GroupedCommand, RunOptions, method_filters, run_options
from mcf_cli.errors import INTERRUPTED, McfError
from mcf_cli.experiments.engine import Engine, make_engine
from mcf_cli.experiments.flags import Request, load_request
from mcf_cli.experiments.load import SCRATCH
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.run import ROWS, RunOutcome, counted, progress_of, run_plan, with_own_folder
from mcf_cli.experiments.store import Store
from mcf_cli.files import refuse_own_input
from mcf_cli.progress import console, listening
from mcf_cli.reporting.advice import advise, check_comparable, write_advice
from mcf_cli.reporting.results import Result, present
from mcf_cli.reporting.terminal import rich_table


def run_command(request: Request, options: RunOptions) -> None:
    """Run a command to its end and exit."""
    plan = make_plan(load_request(request, options.config, options.given()))
    outcome = run_or_dry_run(plan, options, options.out or SCRATCH)
    if outcome is not None:
        show(outcome, options)
        sys.exit(0 if outcome.ok else 1)


def run_or_dry_run(plan: Plan, options: RunOptions, out: Path) -> RunOutcome | None:
    """The outcome of a run, or None after saying what a run would do."""
    engine = make_engine(options.engine, options.jobs, options.scheduler)
    if options.dry_run:
        dry_run(plan, options, out, engine)
        return None
    return run_one(plan, options, out, engine)


def dry_run(plan: Plan, options: RunOptions, out: Path, engine: Engine) -> None:
    """Say what is done and what would run."""
    records = Store(out, plan.config.item).records()
    jobs = engine.suited(plan.config.evaluation.protocol, len(plan.trials)).jobs
    progress = progress_of(plan, records, jobs, options.force, out / plan.config.item)
    if options.as_json:
        facts = {"item": plan.config.item, "expected": progress.expected, "done": progress.done}
        click.echo(json.dumps(facts | {"to_run": progress.to_run, "seconds": progress.seconds_left}))
        return
    say_notices(plan)
    say(data_sentences(plan), options)
    click.echo(f"{plan.config.item}: {progress.sentence()}")


def run_one(plan: Plan, options: RunOptions, out: Path, engine: Engine) -> RunOutcome:
    """Run one plan with progress; an interrupt keeps what is done and says how to go on."""
    asked, engine = engine, engine.suited(plan.config.evaluation.protocol, len(plan.trials))
    inputs = [
        str(path) for entry in plan.config.datasets for path in (entry.name, entry.options.get("test", ""))
    ]
    for name in ("rows.csv", "table.csv"):
        refuse_own_input("--out", out / plan.config.item / name, *inputs)
    say_notices(plan)
    say(data_sentences(plan), options)
    if asked.name == engine.name and engine.jobs < asked.jobs:
        trials = counted(len(plan.trials), "trial")
        say([f"Using {engine.jobs} workers instead of {asked.jobs}, for {trials}."], options)
    with prompt_interrupt(how_to_resume()), listening(options.quiet, engine.jobs) as listener:
        outcome = run_plan(plan, out, engine, listener, force=options.force, wait=options.wait)
    if outcome.interrupted:
        click.echo(how_to_resume(), err=True)
        click.echo(f"{plan.config.item}: {outcome.progress.sentence()}", err=True)
        say_set_aside(outcome)
        sys.exit(INTERRUPTED)
    return outcome


def show(outcome: RunOutcome, options: RunOptions) -> None:
    """Write tables and figures; print the table, or everything as JSON."""
    files = present(Result.of(outcome), to_screen=not options.as_json)
    say_failures(outcome.failures)
    if options.as_json:
        click.echo(json.dumps(as_json(outcome, files)))
    else:
        click.echo(f"Written to {outcome.folder}: {', '.join(sorted(files))}")
    say_set_aside(outcome)


def say_set_aside(outcome: RunOutcome) -> None:
    """The user looks for the results elsewhere."""
    if outcome.set_aside:
        click.echo(f"{outcome.set_aside}: written to {outcome.folder} instead.", err=True)


def as_json(outcome: RunOutcome, files: list[str]) -> dict[str, Any]:
    """The outcome for machines."""
    progress = outcome.progress
    return {
        "item": outcome.plan.config.item,
        "folder": str(outcome.folder),
        "files": sorted(files),
        "trials": {"expected": progress.expected, "done": progress.done, "failed": len(outcome.failures)},
        "partial": outcome.partial,
        "set_aside": outcome.set_aside or None,
        "failures": outcome.failures,
        "data": [
            {"name": d.name, "source": d.source, "notes": d.notes, "understood": d.understood}
            for d in outcome.plan.data
        ],
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
        read = facts.understood or f"{rows:,} rows, {columns:,} features, {facts.n_classes} classes"
        sentences.append(f"Data: {facts.name} ({kind}): {read}.")
        sentences += facts.notes
    return sentences


def say_notices(plan: Plan) -> None:
    """What may make the results other than expected: said even when quiet."""
    for notice in plan.notices:
        click.echo(notice, err=True)


def say(sentences: list[str], options: RunOptions) -> None:
    """To stderr, so that stdout holds results only."""
    if not options.quiet:
        for sentence in sentences:
            click.echo(sentence, err=True)


def how_to_resume() -> str:
    """The command that was given: finished trials are not run again."""
    return f"Stopped. Finished trials are kept; resume with: {shlex.join(['mcf', *sys.argv[1:]])}"


@click.command(
    "sweep-q",
    cls=GroupedCommand,
    epilog="Example: mcf sweep-q --dataset reviews.csv --q 0:0.9:0.1 --loss logistic",
)
@click.option(
    "--q",
    type=RATES,
    help="Corruption levels: 0.5, a list 0,0.5,0.9, a range 0:0.9:0.1, or observed (how often each column is missing).",
)
@method_filters
@run_options
def sweep_q_command(
    options: RunOptions, q: Any, losses: tuple[str, ...], corruptions: tuple[str, ...]
) -> None:
    """Measure test error against the corruption level, as a table and a plot.

    Without --config it runs on built-in reviews: three losses, blankout and Poisson corruption, l2 chosen by
    cross-validation at every point.
    """
    run_command(Request("sweep-q", ("split", "cv"), {}, losses, corruptions, q), options)


@click.command("nightmare", cls=GroupedCommand, epilog="Example: mcf nightmare --deletion 0.5")
@click.option(
    "--deletion",
    type=NUMBER_LIST,
    help="Shares of features to delete: 0.5, a list 0,0.5,0.9 or a range 0:0.9:0.1.",
)
@method_filters
@run_options
def nightmare_command(
    options: RunOptions, deletion: object, losses: tuple[str, ...], corruptions: tuple[str, ...]
) -> None:
    """Measure errors when features are deleted at test time: all losses with and without MCF, FDROP and hinge.

    l2, q and FDROP's budget are chosen for every deletion level, on validation rows with that deletion.
    Without --config it runs on built-in digits.
    """
    flags = {"evaluation.deletion": deletion}
    run_command(Request("nightmare", ("nightmare",), flags, losses, corruptions), options)


@click.command(
    "learning-curve", cls=GroupedCommand, epilog="Example: mcf learning-curve --sizes 100,200,400 --repeats 5"
)
@click.option("--sizes", type=NUMBER_LIST, help="Numbers of training rows, e.g. 100,200,400.")
@click.option("--repeats", type=click.IntRange(min=1), help="Number of random subsets of each size.")
@method_filters
@run_options
def learning_curve_command(
    options: RunOptions,
    sizes: object,
    repeats: int | None,
    losses: tuple[str, ...],
    corruptions: tuple[str, ...],
) -> None:
    """Measure test error against training-set size, with and without MCF: mean and deviation over random subsets.

    Without --config it runs on built-in topics.
    """
    flags = {"evaluation.sizes": sizes, "repeats": repeats}
    run_command(Request("learning-curve", ("learning-curve",), flags, losses, corruptions), options)


@click.command(
    "explicit", cls=GroupedCommand, epilog="Example: mcf explicit --copies 1,4,16 --corruption blankout"
)
@click.option("--copies", type=NUMBER_LIST, help="Numbers of corrupted copies, e.g. 1,2,4,8.")
@method_filters
@run_options
def explicit_command(
    options: RunOptions, copies: object, losses: tuple[str, ...], corruptions: tuple[str, ...]
) -> None:
    """Compare a plain model trained on M corrupted copies with MCF, the limit of infinitely many copies.

    Without --config it runs on built-in reviews with the quadratic loss.
    """
    flags = {"evaluation.copies": copies}
    run_command(Request("explicit", ("explicit",), flags, losses, corruptions), options)


@click.command("bounds", cls=GroupedCommand, epilog="Example: mcf bounds --q 0.5 --lambda 0,0.25,0.5")
@click.option("--q", type=NUMBER_LIST, help="Blankout level.")
@click.option(
    "--lambda", "lambdas", type=NUMBER_LIST, help="Values of the bound's parameter; 0 is Jensen's bound."
)
@run_options
def bounds_command(options: RunOptions, q: object, lambdas: object) -> None:
    """Compute the variational bounds on the blankout logistic loss, and its exact expectation. Uses no data."""
    flags = {"evaluation.q": q, "evaluation.lambdas": lambdas}
    run_command(Request("bounds", ("bounds",), flags), options)


@click.command(
    "table", cls=GroupedCommand, epilog="Example: mcf table --dataset measurements.csv --scale standard"
)
@method_filters
@run_options
def table_command(options: RunOptions, losses: tuple[str, ...], corruptions: tuple[str, ...]) -> None:
    """Tabulate test errors by loss and corruption; validation rows choose l2 and q.

    Without --config it runs on built-in textures.
    """
    run_command(Request("table", ("split", "cv"), {}, losses, corruptions), options)


@click.command(
    "compare", cls=GroupedCommand, epilog="Example: mcf compare reviews.csv --label stars --deletion 0.5"
)
@click.argument("data", required=False)
@click.option(
    "--deletion",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Compare also with this share of the features deleted from validation and test rows.",
)
@click.option(
    "--loss",
    type=click.Choice(["quadratic", "exponential", "logistic"]),
    help="The loss of all models.  [default: logistic]",
)
@click.option(
    "--corruption",
    "corruptions",
    multiple=True,
    help="Compare only this corruption with the plain model; may be repeated.",
)
@click.option("--q", type=RATES, help="Corruption levels to choose from.")
@click.option("--l2", type=NUMBER_LIST, help="Penalties to choose from, two or more.")
@run_options
def compare_command(
    options: RunOptions,
    data: str | None,
    deletion: float | None,
    loss: str | None,
    corruptions: tuple[str, ...],
    q: object,
    l2: object,
) -> None:
    """Compare the plain model with every corruption on DATA, and print errors with 95% intervals and a verdict.

    DATA is your own .svmlight, .csv, .tsv or .npz file, or the name of a data set; without it the command runs on
    built-in reviews. Validation rows choose q, l2 and the method. Test rows decide whether that method is better
    than the plain model: their errors are compared row by row. The folder is named after data and loss; a comparison
    with other settings gets its own folder. --column-groups adds the corruptions that lose columns together.
    """
    if data is not None and options.dataset:
        raise McfError(f"{data} and --dataset {options.dataset[0]}: name the data once.")
    if data is not None:
        options = replace(options, dataset=(data,))
    flags: dict[str, Any] = {"select.q": q, "select.l2": l2}
    if deletion is not None:
        named = {"protocol": "nightmare", "deletion": [0.0, deletion], "validation": 0.2, "refit": True}
        flags |= {f"evaluation.{name}": value for name, value in named.items()}
    asked = ("none", *(name for name in corruptions if name != "none")) if corruptions else ()
    request = Request("compare", ("split", "nightmare"), flags, (loss,) if loss else (), asked)
    plan = make_plan(load_request(request, options.config, options.given()))
    check_comparable(plan)
    out = options.out or SCRATCH
    plan = with_own_folder(plan, out, ROWS, named=options.config is not None, force=options.force)
    outcome = run_or_dry_run(plan, options, out)
    if outcome is not None:
        show_advice(outcome, options)
        sys.exit(0 if outcome.ok else 1)


def say_failures(failures: Mapping[str, str]) -> None:
    """A line for each reason, with the first trial that failed for it."""
    reasons = {
        reason: [label for label in failures if failures[label] == reason] for reason in failures.values()
    }
    for reason, (first, *others) in reasons.items():
        more = f" and {len(others)} more" if others else ""
        click.echo(f"failed: {first}{more}: {reason}", err=True)


def show_advice(outcome: RunOutcome, options: RunOptions) -> None:
    """Write tables, figure and advice; print the advice, or everything as JSON."""
    result = Result.of(outcome)
    found = advise(result, outcome.plan)
    write_advice(found, outcome.folder)
    files = present(result, to_screen=False)
    say_failures(outcome.failures)
    if options.as_json:
        click.echo(json.dumps(as_json(outcome, files) | {"advice": [each.to_dict() for each in found]}))
    else:
        for each in found:
            console(width=None if sys.stdout.isatty() else 80).print(rich_table(each.table))
            click.echo(f"\n{textwrap.fill(each.sentence, 80)}\n\n    {each.command}\n")
        for note in result.table.notes if result.table else ():
            if "±" not in note:  # the advice gives both ends of intervals
                click.echo(note)
        click.echo(f"Written to {outcome.folder}: {', '.join(sorted(files))}")
    if not found:
        click.echo("No advice: the plain model did not finish.", err=True)
    say_set_aside(outcome)
