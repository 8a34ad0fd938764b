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
    label: str | None
    test: Path | None
    task: str | None
    scale: str | None
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

    def flags(self) -> dict[str, Any]:
        """The config keys that these options set."""
        given = {"seed": self.seed, "task": self.task, "prepare.scale": self.scale}
        return {key: value for key, value in given.items() if value is not None}

    def given(self) -> dict[str, Any]:
        """What they say of the config, as ``load_config`` takes it."""
        return {
            "profile": self.profile,
            "settings": self.settings,
            "flags": self.flags(),
            "datasets": self.dataset,
            "file_options": self.file_options(),
        }

    def file_options(self) -> dict[str, Any]:
        """How to read files of the user."""
        given = {"label": self.label, "test": None if self.test is None else str(self.test)}
        return {key: value for key, value in given.items() if value is not None}


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


class RateList(NumberList):
    """Numbers, or ``observed``: how often each column is missing."""

    name = "numbers|observed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "observed" else super().convert(value, param, ctx)


NUMBER_LIST = NumberList()
RATES = RateList()

# The sections of a command's help, after its own options.
SECTIONS = {
    "What to run": ("config", "settings", "profile", "seed"),
    "Data": ("dataset", "label", "test", "task", "scale"),
    "How to run": ("jobs", "engine", "scheduler", "force", "wait", "dry_run"),
    "Output": ("out", "as_json", "quiet"),
}


class GroupedCommand(click.Command):
    """A command whose help lists its own options first, the shared ones in sections, and ends with an example."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {param.name: param.get_help_record(ctx) for param in options}
        shared = {name for names in SECTIONS.values() for name in names}
        own = [name for name in records if name not in shared]
        for title, names in {"Options": own, **SECTIONS}.items():
            rows = [record for name in names if (record := records.get(name))]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


_OPTIONS = [
    click.option("--config", type=click.Path(path_type=Path), help="A YAML file that says what to run."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one setting, e.g. select.folds=3; may be repeated.",
    ),
    click.option(
        "--dataset",
        multiple=True,
        help="A data set by name (`mcf data list`), or your own .svmlight, .csv, .tsv or .npz file; may be repeated.",
    ),
    click.option(
        "--label",
        metavar="COLUMN",
        help="The label column of your own csv file: its name, its number from 1, first or last.  "
        "[default: a column called label, class, target or y, else the last]",
    ),
    click.option(
        "--test", type=click.Path(path_type=Path), help="Your own file of test rows, beside --dataset FILE."
    ),
    click.option(
        "--task",
        type=click.Choice(["classification", "regression"]),
        help="Whether your file's labels are classes or numbers to predict.  [default: classification]",
    ),
    click.option(
        "--scale",
        type=click.Choice(["standard", "max", "none"]),
        help="Bring the columns to one size: mean 0 and deviation 1, or largest value 1; learnt from training rows.",
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
    click.option(
        "--force", is_flag=True, help="Run finished trials again; replace a model of another config."
    ),
    click.option("--wait", is_flag=True, help="Wait when another run writes to the same folder."),
    click.option("--dry-run", is_flag=True, help="Say what would run, and how long it takes."),
    click.option(
        "--json", "as_json", is_flag=True, help="Machine-readable output on stdout, nothing else there."
    ),
    click.option("--quiet", is_flag=True, help="No progress: results, warnings and errors only."),
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
        help="Only this corruption, any that exists; may be repeated.",
    )(function)
    return click.option(
        "--loss", "losses", multiple=True, help="Only this loss, any that exists; may be repeated."
    )(function)
