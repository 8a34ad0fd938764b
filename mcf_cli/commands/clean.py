"""``mcf clean``: forget results."""

from pathlib import Path

import click


@click.command("clean")
@click.argument("items", nargs=-1, metavar="[ITEM ...]")
@click.option("--out", type=click.Path(path_type=Path), help="A results folder; default: results/scratch.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(items: tuple[str, ...], out: Path | None, yes: bool) -> None:
    """Forget the stored trials of some or all items in a results folder.

    Tables and figures stay; the next run starts from nothing.
    """
    from mcf_cli.commands.stored import check_items
    from mcf_cli.experiments.items import SCRATCH
    from mcf_cli.experiments.store import Store, items_in

    folder = out or SCRATCH
    known = items_in(folder)
    check_items(items, known, folder)
    chosen = list(items) or known
    if not chosen:
        click.echo(f"{folder} holds nothing to forget.")
        return
    if not yes:
        click.confirm(f"Forget the trials of {', '.join(chosen)} in {folder}?", abort=True)
    for item in chosen:
        Store(folder, item).forget()
        click.echo(f"Forgotten: {item}")
