"""``mcf nightmare``: errors when features are deleted at test time (Figure 9)."""

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, method_filters, run_options


@click.command("nightmare")
@click.option("--deletion", type=NUMBERS, help="Share of features deleted: 0.5, or 0,0.5,0.9, or 0:0.9:0.1.")
@method_filters
@run_options
def command(
    options: RunOptions, deletion: object, losses: tuple[str, ...], corruptions: tuple[str, ...]
) -> None:
    """Errors under test-time deletion: all losses with and without MCF, FDROP and hinge.

    l2, q and FDROP's budget are chosen for every deletion level, on validation rows with that deletion.
    Without --config it runs on built-in digits.
    """
    from mcf_cli.commands.running import Request, run_command

    flags = {"evaluation.deletion": deletion}
    run_command(Request("nightmare", ("nightmare",), flags, losses, corruptions), options)
