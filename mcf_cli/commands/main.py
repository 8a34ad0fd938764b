"""The ``mcf`` command: a group whose subcommands are imported only when they are called."""

import importlib
import sys
import traceback

import click

from mcf_cli.errors import McfError
from mcf_cli.version import __version__

# name: (module, one line of help). The help stands here so that `mcf --help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("mcf_cli.commands.train", "Fit one model and save it with its metrics and config."),
    "predict": ("mcf_cli.commands.predict", "Predictions of a saved model as CSV."),
    "sweep-q": ("mcf_cli.commands.sweep_q", "Test error against the corruption level."),
    "nightmare": ("mcf_cli.commands.nightmare", "Errors when features are deleted at test time."),
    "learning-curve": ("mcf_cli.commands.learning_curve", "Test error against the training-set size."),
    "explicit": ("mcf_cli.commands.explicit", "Corrupted copies against the marginalised limit."),
    "bounds": ("mcf_cli.commands.bounds", "Bounds on the expected logistic loss."),
    "table": ("mcf_cli.commands.table", "Errors as a table of losses by corruptions."),
    "reproduce": ("mcf_cli.commands.reproduce", "Any or all items of the paper."),
    "status": ("mcf_cli.commands.status", "What is done, failed, missing."),
    "report": ("mcf_cli.commands.report", "Tables, figures and the report of what is done."),
    "clean": ("mcf_cli.commands.clean", "Forget results."),
    "data": ("mcf_cli.commands.data", "Get, import, verify and look at the data sets."),
    "config": ("mcf_cli.commands.config", "Check a config, start one, export its schema."),
    "completion": ("mcf_cli.commands.completion", "Shell completion for bash, zsh and fish."),
}


class LazyGroup(click.Group):
    """A click group that lists its commands from ``COMMANDS`` and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        return importlib.import_module(module).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if COMMANDS:
            with formatter.section("Commands"):
                formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mcf")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Marginalised corrupted features: train robust linear models, re-run the paper, judge its claims.

    The paper is "Marginalizing Corrupted Features" (van der Maaten, Chen, Tyree, Weinberger). `mcf sweep-q` is a
    good start: without options it runs on built-in data, in half a minute.
    """


def run(args: list[str] | None = None) -> None:
    """The console entry point: an error is one or two lines; bad usage is exit code 2, a fault on the way 1."""
    arguments = sys.argv[1:] if args is None else args
    try:
        main.main(args=arguments, prog_name="mcf")
    except (McfError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        click.echo(f"mcf: {error}", err=True)
        sys.exit(error.exit_code if isinstance(error, McfError) else 1)
