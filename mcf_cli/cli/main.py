"""The ``mcf`` command: a group whose subcommands are imported only when they are called.

Ctrl-C ends a command within a second or two, even while the main thread sits in a long matrix factorisation. Python
delivers KeyboardInterrupt between bytecodes, so a LAPACK call of a minute would hold it back. A thread sees the signal
at once; when the main thread has not reacted a second later, the process ends. That is safe: every finished trial is
already on disk.
"""

import contextlib
import difflib
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import click

from mcf_cli.errors import INTERRUPTED, McfError
from mcf_cli.progress import behind, plain_streams
from mcf_cli.version import __version__

PATIENCE = 1.0


@contextlib.contextmanager
def prompt_interrupt(last_words: str) -> Iterator[None]:
    """Within the block SIGINT ends the process after ``PATIENCE`` seconds if nothing else does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    left = threading.Event()
    watcher = threading.Thread(target=_watch, args=(theirs, left, last_words), daemon=True)
    previous = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(previous)
        ours.close()  # the watcher reads the end of the stream and returns
        watcher.join()
        theirs.close()


def _watch(stream: socket.socket, left: threading.Event, last_words: str) -> None:
    while data := stream.recv(1):
        if data[0] == signal.SIGINT and not left.wait(PATIENCE):
            if sys.stderr.isatty():
                behind(sys.stderr).write("\x1b[?25h\n")  # the progress bar has hidden the cursor
            sys.stderr.write(f"{last_words}\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED)


SHELL_LINES = {
    "bash": 'eval "$(_MCF_COMPLETE=bash_source mcf)"',
    "zsh": 'eval "$(_MCF_COMPLETE=zsh_source mcf)"',
    "fish": "_MCF_COMPLETE=fish_source mcf | source",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELL_LINES)))
def completion_command(shell: str) -> None:
    """Print the line that sets up completion: `mcf completion bash >> ~/.bashrc`."""
    click.echo(SHELL_LINES[shell])


# What a user comes for: the commands by name. The help stands below so that `mcf --help` imports no command.
GROUPS = {
    "Your data": ("compare", "train", "predict"),
    "Experiments": ("sweep-q", "nightmare", "learning-curve", "explicit", "bounds", "table"),
    "The paper": ("reproduce", "status", "report", "clean"),
    "Files": ("data", "config", "completion"),
}

# name: (module, function, one line of help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "compare": (
        "mcf_cli.cli.experiments",
        "compare_command",
        "Find out whether a corruption helps on your data.",
    ),
    "train": (
        "mcf_cli.cli.models",
        "train_command",
        "Fit one model and save it with its metrics and config.",
    ),
    "predict": ("mcf_cli.cli.models", "predict_command", "Write the predictions of a saved model as CSV."),
    "sweep-q": (
        "mcf_cli.cli.experiments",
        "sweep_q_command",
        "Measure test error against the corruption level.",
    ),
    "nightmare": (
        "mcf_cli.cli.experiments",
        "nightmare_command",
        "Measure errors when features are deleted at test time.",
    ),
    "learning-curve": (
        "mcf_cli.cli.experiments",
        "learning_curve_command",
        "Measure test error against the training-set size.",
    ),
    "explicit": (
        "mcf_cli.cli.experiments",
        "explicit_command",
        "Compare training on corrupted copies with MCF.",
    ),
    "bounds": ("mcf_cli.cli.experiments", "bounds_command", "Compute bounds on the expected logistic loss."),
    "table": (
        "mcf_cli.cli.experiments",
        "table_command",
        "Tabulate test errors by loss and corruption.",
    ),
    "reproduce": ("mcf_cli.cli.paper", "reproduce_command", "Re-run any or all items of the paper."),
    "status": ("mcf_cli.cli.paper", "status_command", "Show what is done, failed and missing."),
    "report": (
        "mcf_cli.cli.paper",
        "report_command",
        "Build tables, figures and the report from stored results.",
    ),
    "clean": ("mcf_cli.cli.paper", "clean_command", "Delete stored trials, so that they run again."),
    "data": ("mcf_cli.cli.data", "data_command", "List, download, import and verify data sets."),
    "config": ("mcf_cli.cli.data", "config_command", "Check a config, start one, or export its schema."),
    "completion": ("mcf_cli.cli.main", "completion_command", "Set up completion for bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """A click group that lists its commands from ``COMMANDS`` and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        return getattr(importlib.import_module(module), function)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            advice = f"Did you mean `mcf {close[0]}`?" if close else "`mcf --help` lists the commands."
            raise click.UsageError(f"No such command {args[0]!r}. {advice}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][2]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mcf")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Marginalised corrupted features: train robust linear models, re-run the paper, judge its claims.

    The paper is "Marginalizing Corrupted Features" (van der Maaten, Chen, Tyree, Weinberger). Try `mcf sweep-q`
    first: without options it runs on built-in data and takes half a minute.
    """


def run_cli(args: list[str] | None = None) -> None:
    """The console entry point. An error is one or two lines; bad usage exits with 2, a fault with 1, Ctrl-C 130."""
    arguments = sys.argv[1:] if args is None else args
    with plain_streams():
        try:
            sys.exit(main.main(args=arguments, prog_name="mcf", standalone_mode=False))
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo("Stopped.", err=True)
            sys.exit(INTERRUPTED)
        except (McfError, OSError, MemoryError) as error:
            if "--debug" in arguments:
                traceback.print_exc()
            said = f"not enough memory. {error}" if isinstance(error, MemoryError) else error
            click.echo(f"mcf: {said}", err=True)
            sys.exit(error.exit_code if isinstance(error, McfError) else 1)
