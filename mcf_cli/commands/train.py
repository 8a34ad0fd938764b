"""``mcf train``: fit one model and save it with its metrics and config."""

import click

from mcf_cli.commands.options import NUMBERS, RunOptions, run_options


@click.command("train")
@click.option("--loss", help="quadratic, exponential or logistic.")
@click.option(
    "--corruption", help="none, blankout, dropout, gaussian, laplace, poisson, bitswap or multinomial."
)
@click.option("--q", type=NUMBERS, help="Corruption level, or several to choose from.")
@click.option("--l2", type=NUMBERS, help="Penalty, or several to choose from.")
@run_options
def command(options: RunOptions, loss: str | None, corruption: str | None, q: object, l2: object) -> None:
    """Fit one model, print its errors, write model.npz, metrics.json and config.yaml beside each other.

    l2 and q are chosen on validation rows when several are given. Without --config it trains on built-in
    reviews: logistic loss, blankout.
    """
    from mcf_cli.commands.running import Request
    from mcf_cli.commands.train_model import train_model

    flags, method = {"select.q": q, "select.l2": l2}, {"loss": loss, "corruption": corruption}
    losses, corruptions = ((word,) if word else () for word in method.values())
    train_model(Request("train", ("split",), flags, losses, corruptions, method=method), options)
