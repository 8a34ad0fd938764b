"""``mcf learning-curve``: test error against the number of training rows (Figure 5)."""

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, method_filters, run_options


@click.command("learning-curve")
@click.option("--sizes", type=NUMBERS, help="Numbers of training rows, as 100,200,400.")
@click.option("--repeats", type=click.IntRange(min=1), help="Random subsets of each size.")
@method_filters
@run_options
def command(
    options: RunOptions,
    sizes: object,
    repeats: int | None,
    losses: tuple[str, ...],
    corruptions: tuple[str, ...],
) -> None:
    """Test error against training-set size, with and without MCF; mean and deviation over random subsets.

    Without --config it runs on built-in topics.
    """
    from mcf_cli.commands.running import Request, run_command

    flags = {"evaluation.sizes": sizes, "repeats": repeats}
    run_command(Request("learning-curve", ("learning-curve",), flags, losses, corruptions), options)
