"""``mcf table``: losses against corruptions (Table 3)."""

import click

from mcf_cli.commands.options import RunOptions, method_filters, run_options


@click.command("table")
@method_filters
@run_options
def command(options: RunOptions, losses: tuple[str, ...], corruptions: tuple[str, ...]) -> None:
    """Test errors as a table of losses by corruptions; l2 and q chosen on validation rows.

    Without --config it runs on built-in textures.
    """
    from mcf_cli.commands.running import Request, run_command

    run_command(Request("table", ("split", "cv"), {}, losses, corruptions), options)
