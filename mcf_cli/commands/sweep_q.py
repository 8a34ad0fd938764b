"""``mcf sweep-q``: test error against the corruption level (Figures 3, 4, 7 and 8)."""

from typing import Any

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, method_filters, run_options


@click.command("sweep-q")
@click.option("--q", type=NUMBERS, help="Corruption levels: 0.5, or 0,0.5,0.9, or 0:0.9:0.1.")
@method_filters
@run_options
def command(options: RunOptions, q: Any, losses: tuple[str, ...], corruptions: tuple[str, ...]) -> None:
    """Test error against the corruption level, as a table and a plot.

    Without --config it runs on built-in reviews: three losses, blankout and Poisson corruption, l2 chosen by
    cross-validation at every point.
    """
    from mcf_cli.commands.running import Request, run_command

    run_command(Request("sweep-q", ("split", "cv"), {}, losses, corruptions, q), options)
