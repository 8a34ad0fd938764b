"""``mcf explicit``: corrupted copies against the marginalised limit (Figure 6)."""

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, method_filters, run_options


@click.command("explicit")
@click.option("--copies", type=NUMBERS, help="Numbers of corrupted copies, as 1,2,4,8.")
@method_filters
@run_options
def command(
    options: RunOptions, copies: object, losses: tuple[str, ...], corruptions: tuple[str, ...]
) -> None:
    """Test error of a plain model trained on M corrupted copies, and of MCF, which is M = infinity.

    Without --config it runs on built-in reviews with the quadratic loss.
    """
    from mcf_cli.commands.running import Request, run_command

    flags = {"evaluation.copies": copies}
    run_command(Request("explicit", ("explicit",), flags, losses, corruptions), options)
