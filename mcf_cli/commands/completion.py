"""``mcf completion``: the lines that teach a shell to complete mcf."""

import click

LINES = {
    "bash": 'eval "$(_MCF_COMPLETE=bash_source mcf)"',
    "zsh": 'eval "$(_MCF_COMPLETE=zsh_source mcf)"',
    "fish": "_MCF_COMPLETE=fish_source mcf | source",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(LINES)))
def command(shell: str) -> None:
    """Print the line for your shell's start file, as in `mcf completion bash >> ~/.bashrc`."""
    click.echo(LINES[shell])
