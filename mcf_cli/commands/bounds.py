"""``mcf bounds``: bounds on the expected logistic loss (Figure 1)."""

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, run_options


@click.command("bounds")
@click.option("--q", type=NUMBERS, help="Blankout level.")
@click.option(
    "--lambda", "lambdas", type=NUMBERS, help="Values of the bound's parameter; 0 is Jensen's bound."
)
@run_options
def command(options: RunOptions, q: object, lambdas: object) -> None:
    """The variational bounds on the blankout logistic loss beside its exact expectation. Uses no data."""
    from mcf_cli.commands.running import Request, run_command

    flags = {"evaluation.q": q, "evaluation.lambdas": lambdas}
    run_command(Request("bounds", ("bounds",), flags), options)
