"""The options that every running command has."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True)
class RunOptions:
    """The shared options of a running command."""

    config: Path | None
    settings: tuple[str, ...]
    dataset: tuple[str, ...]
    seed: int | None
    profile: str | None
    jobs: int
    engine: str | None
    scheduler: str | None
    out: Path | None
    force: bool
    wait: bool
    dry_run: bool
    as_json: bool
    quiet: bool


class NumberList(click.ParamType):
    """``0.5``, ``0,0.5,0.9`` or ``0:0.9:0.1`` (from, to, step)."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if ":" in value:
                start, stop, step = (float(part) for part in value.split(":"))
                return {"from": start, "to": stop, "step": step}
            return [float(part) for part in value.split(",")]
        except ValueError:
            self.fail(
                f"{value!r}: expected a number, a list like 0,0.5,0.9 or a range like 0:0.9:0.1", param, ctx
            )


NUMBERS = NumberList()

_OPTIONS = [
    click.option("--config", type=click.Path(path_type=Path), help="A YAML file that says what to run."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one value, as select.folds=3; may be repeated.",
    ),
    click.option(
        "--dataset",
        multiple=True,
        help="A data set by name, or your own .svmlight, .csv or .npz file; may be repeated.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Decides splits, folds and deletions."),
    click.option(
        "--profile", help="smoke (built-in data), quick (reduced) or paper, where the config has them."
    ),
    click.option("--jobs", type=int, default=1, show_default=True, help="Workers; 0 means one per core."),
    click.option(
        "--engine",
        type=click.Choice(["serial", "processes", "dask"]),
        help="Default: serial for one job, processes for more, dask with --scheduler.",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="A running dask scheduler, as tcp://host:8786."),
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results."),
    click.option("--force", is_flag=True, help="Run trials again that are already done."),
    click.option("--wait", is_flag=True, help="Wait when another run writes to the same folder."),
    click.option("--dry-run", is_flag=True, help="Say what would run, and how long it takes."),
    click.option(
        "--json", "as_json", is_flag=True, help="Machine-readable output on stdout, nothing else there."
    ),
    click.option("--quiet", is_flag=True, help="No progress."),
]


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options; the command gets them as one ``RunOptions``."""

    @functools.wraps(function)
    def collect(**arguments: Any) -> None:
        shared = {field.name: arguments.pop(field.name) for field in fields(RunOptions)}
        function(RunOptions(**shared), **arguments)

    for option in reversed(_OPTIONS):
        collect = option(collect)
    return collect


def method_filters(function: Callable[..., None]) -> Callable[..., None]:
    """``--loss`` and ``--corruption``: run only this part of the grid."""
    function = click.option(
        "--corruption",
        "corruptions",
        multiple=True,
        help="Only this corruption of the grid; may be repeated.",
    )(function)
    return click.option(
        "--loss", "losses", multiple=True, help="Only this loss of the grid; may be repeated."
    )(function)
