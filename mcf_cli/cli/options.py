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
    column_groups: str | None
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
            "column_groups": self.column_groups,
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
    "Data": ("dataset", "label", "test", "task", "scale", "column_groups"),
    "How to run": ("jobs", "engine", "scheduler", "force", "wait", "dry_run"),
    "Output": ("out", "as_json", "quiet"),
}


class GroupedCommand(click.Command):
    """A command whose help lists its own options, then the shared ones in sections, and ends with an example."""

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
        help="A data set (see `mcf data list`), or your own .svmlight, .csv, .tsv or .npz file; may be repeated.",
    ),
    click.option(
        "--label",
        metavar="COLUMN",
        help="The label column of your csv file: its name, its number (from 1), first or last.  "
        "[default: a column called label, class, target or y, else the last]",
    ),
    click.option("--test", type=click.Path(path_type=Path), help="A file of test rows for --dataset FILE."),
    click.option(
        "--task",
        type=click.Choice(["classification", "regression"]),
        help="Whether the labels in your file are classes or numbers to predict.  [default: classification]",
    ),
    click.option(
        "--scale",
        type=click.Choice(["standard", "max", "none"]),
        help="Scale the columns: standard (mean 0, deviation 1 in the training rows) or max (largest value 1).",
    ),
    click.option(
        "--column-groups",
        metavar="GROUPS",
        help="Columns that are lost together, for group_dropout and group_blankout: 10 (every ten consecutive "
        "columns), or names, numbers and ranges, as in 'a1:a10; b*'.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of splits, folds and deletions."),
    click.option(
        "--profile",
        help="Use a profile of the config: smoke (built-in data), quick (reduced) or paper.",
    ),
    click.option(
        "--jobs", type=int, default=1, show_default=True, help="Number of workers; 0 means one per core."
    ),
    click.option(
        "--engine",
        type=click.Choice(["serial", "processes", "dask"]),
        help="How trials run.  [default: serial for one job, processes for more, dask with --scheduler]",
    ),
    click.option(
        "--scheduler", metavar="ADDRESS", help="Address of a running dask scheduler, e.g. tcp://host:8786."
    ),
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results."),
    click.option(
        "--force",
        is_flag=True,
        help="Run finished trials again, and replace a model that another config made.",
    ),
    click.option("--wait", is_flag=True, help="Wait if another run is writing to the same folder."),
    click.option(
        "--dry-run", is_flag=True, help="Run nothing; say what would run and how long it would take."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there."),
    click.option("--quiet", is_flag=True, help="Show results, warnings and errors, but no progress."),
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
        help="Run only this corruption, whether or not the config has it; may be repeated.",
    )(function)
    return click.option(
        "--loss",
        "losses",
        multiple=True,
        help="Run only this loss, whether or not the config has it; may be repeated.",
    )(function)
