"""``mcf reproduce``: the paper's items from configs/."""

from pathlib import Path

import click

from mcf_cli.commands.options import RunOptions, run_options


@click.command("reproduce")
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option(
    "--configs", type=click.Path(path_type=Path, file_okay=False), help="Folder of the items' configs."
)
@run_options
def command(options: RunOptions, items: tuple[str, ...], configs: Path | None) -> None:
    """Re-run any or all items of the paper: fig1, fig3, ..., table3, cost, loo.

    --profile smoke runs on built-in data in minutes, quick on real data with reduced grids, paper (the
    default) at full scale. All is checked before anything runs; the same command resumes a run that was
    interrupted.
    """
    from mcf_cli.commands.reproducing import reproduce

    reproduce(items, configs, options)
