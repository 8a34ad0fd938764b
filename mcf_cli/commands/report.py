"""``mcf report``: tables, figures and the report from stored results."""

from pathlib import Path

import click


@click.command("report")
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option("--out", type=click.Path(path_type=Path), help="A results folder; default: results.")
@click.option(
    "--claims",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The claims to judge; default: configs/claims.yaml.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(items: tuple[str, ...], out: Path | None, claims: Path | None, as_json: bool) -> None:
    """Build tables, figures and the report from what is stored, without running anything."""
    from mcf_cli.commands.reporting import build_report

    build_report(items, out, claims, as_json)
