"""``mcf status``: what is done, failed, missing."""

from pathlib import Path

import click


@click.command("status")
@click.option("--out", type=click.Path(path_type=Path), help="A results folder; default: all below results/.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(out: Path | None, as_json: bool) -> None:
    """What is done, failed and missing, by the latest plan of every item. Exit code 1 if anything is."""
    import json
    import sys

    from mcf_cli.commands.stored import outcomes_below
    from mcf_cli.experiments.run import counted

    found = outcomes_below(out)
    if as_json:
        click.echo(json.dumps([_facts(outcome) for outcome in found]))
    elif not found:
        click.echo("Nothing has been run yet.")
    for outcome in [] if as_json else found:
        progress = outcome.progress
        missing = progress.to_run - progress.failed
        click.echo(
            f"{outcome.folder}: {counted(progress.expected, 'trial')}: {progress.done} done, "
            f"{progress.failed} failed, {missing} missing"
        )
        for label, reason in outcome.failures.items():
            click.echo(f"  failed: {label}: {reason}")
    sys.exit(0 if all(outcome.ok for outcome in found) else 1)


def _facts(outcome: object) -> dict:
    progress = outcome.progress
    return {
        "item": outcome.plan.config.item,
        "folder": str(outcome.folder),
        "expected": progress.expected,
        "done": progress.done,
        "failed": outcome.failures,
        "missing": progress.to_run - progress.failed,
    }
