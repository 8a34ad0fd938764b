"""``mcf status``: what is done, failed, missing."""

from pathlib import Path

import click


@click.command("status")
@click.option("--out", type=click.Path(path_type=Path), help="A results folder; default: all below results/.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(out: Path | None, as_json: bool) -> None:
    """What is done, failed and missing, by the latest plan of every item. Exit code 1 if anything is.

    Items that came without their store, as committed results do, are listed by what their files say.
    """
    import json
    import sys

    from mcf_cli.commands.stored import states_below
    from mcf_cli.experiments.run import counted

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
