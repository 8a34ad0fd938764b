"""Results, from run to report: the one ``Result`` of an item, made of a run or read from a results folder.

A result knows its rows, its config and where its numbers come from. Its table is built once, for the screen, the
files and the report alike.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from mcf_cli.errors import McfError, nearest
from mcf_cli.experiments.load import BEYOND, DEMO, FOLDERS, SCRATCH, shipped_items
from mcf_cli.experiments.rows import Evidence, Row, cell_text, rows_csv, used_columns
from mcf_cli.experiments.run import (
    DIGIT,
    RunOutcome,
    config_content,
    config_yaml,
    stored_outcome,
    trials_in,
)
from mcf_cli.experiments.store import CACHE, PLAN, items_in
from mcf_cli.files import disk_explained, read_arrays, write_text
from mcf_cli.progress import console
from mcf_cli.reporting import tables
from mcf_cli.reporting.series import dataset_label, tidy
from mcf_cli.reporting.terminal import rich_table

NEEDED = ("dataset", "data_source", "loss", "corruption", "metric", "value", "converged", "status")
_METHOD_OF = {"2.0.0": 9}  # METHOD_VERSION of packages whose environment.json did not name it yet
SHOWN = ("table.csv", "table.md", "figure.png", "figure.svg")


@dataclass(frozen=True)
class Result:
    """One item: its rows, the config they follow from, and where the numbers come from."""

    name: str
    folder: Path
    rows: pd.DataFrame
    config: dict[str, Any] = field(default_factory=dict)  # as config.yaml has it
    environment: dict[str, Any] = field(default_factory=dict)  # as environment.json has it
    partial: str = ""  # ``PARTIAL 12/50`` when expected trials are missing
    evidence: Evidence = field(default_factory=lambda: Evidence.of(()))  # as errors.npz has it

    @classmethod
    def of(cls, outcome: RunOutcome) -> Result:
        """The result of a run. How far it is and on what data, its plan knows better than a file of an earlier run."""
        plan, progress, folder = outcome.plan, outcome.progress, outcome.folder
        with _readable(folder):
            environment = _mapping(folder / "environment.json", json.loads)
        counts = {"expected": progress.expected, "done": progress.done, "failed": progress.failed}
        environment |= {
            "profile": plan.profile,
            "trials": {**(environment.get("trials") or {}), **counts},
            "data": [asdict(facts) for facts in plan.data],
            "notices": plan.notices,
        }
        config = config_content(plan.config)
        rows, partial = rows_frame(outcome.rows), outcome.partial or ""
        return cls(folder.name, folder, rows, config, environment, partial, outcome.evidence)

    @classmethod
    def read(cls, folder: Path) -> Result:
        """The result that lies in an item's folder."""
        with _readable(folder):
            rows = pd.read_csv(folder / "rows.csv", keep_default_na=False, na_values=[""], low_memory=False)
            config = _mapping(folder / "config.yaml", yaml.safe_load)
            environment = _mapping(folder / "environment.json", json.loads)
            evidence = Evidence.read(folder)
        lost = [name for name in NEEDED if name not in rows]
        if lost:
            raise McfError(
                f"{folder / 'rows.csv'} has no column {lost[0]}: restore it, or run its command again."
            )
        trials = environment.get("trials") or {}
        mark = tables.partial_mark(trials.get("done"), trials.get("expected"))
        return cls(folder.name, folder, rows, config, environment, mark, evidence)

    @property
    def title(self) -> str:
        return str(self.config.get("title") or self.name)

    @property
    def paper(self) -> dict[str, Any]:
        """Which figure or table of the paper it re-runs."""
        return self.config.get("paper") or {}

    @property
    def trials(self) -> dict[str, Any]:
        return self.environment.get("trials") or {}

    @property
    def profile(self) -> str:
        return str(self.environment.get("profile") or "paper")

    @property
    def method(self) -> int | None:
        """The METHOD_VERSION that its numbers are of; None where neither that nor the package's version tells."""
        found = self.environment.get("method", _METHOD_OF.get(str(self.environment.get("mcf"))))
        return found if isinstance(found, int) else None

    @property
    def command(self) -> str:
        return rerun_found([self])

    @property
    def any_finished(self) -> bool:
        return bool((self.rows["status"] == "ok").any())

    @cached_property
    def rows_by_example(self) -> pd.DataFrame:
        """The rows; where an error has evidence, ``tested`` and ``wrong`` hold it."""
        with _readable(self.folder):
            found = self._evidence_by_row()
        columns = {
            name: pd.Series(
                {row: pair[k] for row, pair in found.items()}, index=self.rows.index, dtype=object
            )
            for k, name in enumerate(("tested", "wrong"))
        }
        return self.rows.assign(**columns)

    @cached_property
    def finished(self) -> pd.DataFrame:
        """The finished rows of all metrics, tidy, with their evidence."""
        return tidy(self.rows_by_example, metric=None)

    def _evidence_by_row(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Errors example by example, by the line of the rows; they must be those of the rows."""
        found = self.evidence.by_row()
        for number, (_, wrong) in found.items():
            row = self.rows.iloc[number] if number < len(self.rows) else {"metric": ""}
            if row["metric"] != "test_error" or abs(row["value"] - wrong.mean()) > 1e-9:
                raise ValueError(f"errors.npz does not belong to rows.csv, line {number + 2}")
        return found

    @cached_property
    def table(self) -> tables.Table | None:
        """The table of the finished rows, None where every trial failed."""
        if not self.any_finished:
            return None
        done, expected = self.trials.get("done"), self.trials.get("expected")
        return tables.build(self.rows_by_example, self.paper.get("table"), done=done, expected=expected)

    @cached_property
    def digit(self) -> np.ndarray | None:
        """The image that the run kept for the samples under Figure 9, None where it kept none."""
        if not (self.folder / DIGIT).exists():
            return None
        with _readable(self.folder):
            digit = read_arrays(self.folder / DIGIT, names=("digit",)).get("digit")
            if digit is None or digit.ndim != 2 or digit.dtype.kind not in "fiu":
                raise ValueError(f"{DIGIT} holds no image")
            return digit

    @cached_property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """What every number on a data set must say, by the data set's name."""
        return {
            facts["name"]: tuple(facts.get("notes") or ()) for facts in self.environment.get("data") or ()
        }

    def notes_on(self, names: Iterable[str]) -> list[str]:
        """What must be said of the data sets, each note once with those that it is about."""
        about: dict[str, list[str]] = {}
        for name in names:
            for note in self.notes.get(name, ()):
                about.setdefault(note, []).append(dataset_label(name, ""))
        return [f"{', '.join(dict.fromkeys(labels))}: {note}" for note, labels in about.items()]

    @property
    def figure(self) -> Path | None:
        """The figure's file, svg where there is one."""
        return next((p for p in (self.folder / "figure.svg", self.folder / "figure.png") if p.exists()), None)

    @property
    def is_shown(self) -> bool:
        """Whether its tables and figures are there."""
        return all((self.folder / name).exists() for name in SHOWN)


def rerun_command(items: list[str], profile: str = "paper") -> str:
    """The command that runs items of configs/ or of configs/beyond/."""
    beyond = "--beyond " if set(items) & shipped_items(beyond=True) else ""
    suffix = "" if profile == "paper" else f" --profile {profile}"
    return f"mcf reproduce {beyond}{' '.join(items)}{suffix}"


def rerun_found(found: list[Result]) -> str:
    """The command that runs the items again; what has no file in configs/ has one beside its rows."""
    names = [item.name for item in found]
    of_paper, beyond = shipped_items(), shipped_items(beyond=True)
    if set(names) <= of_paper or set(names) <= beyond:
        return rerun_command(names, found[0].profile)
    return " && ".join(
        rerun_command([item.name], item.profile)
        if item.name in of_paper | beyond
        else f"mcf reproduce --config {item.folder / 'config.yaml'} --out {item.folder.parent}"
        for item in found
    )


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """What cannot be read of an item's files, in words for the user."""
    try:
        yield
    except (ValueError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        raise McfError(f"{folder} cannot be read ({first}): restore it, or run its command again.") from None


def _mapping(path: Path, parse: Any) -> dict[str, Any]:
    content = parse(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content if isinstance(content, dict) else {}


def rows_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """The rows of a run, column for column as rows.csv reads back."""
    rows = list(rows)
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in used_columns(rows)})


def _column(cells: list[Any]) -> pd.Series:
    """Numbers, truth values or text; a number among words (q beside "observed") is a word like the others."""
    known = [cell for cell in cells if cell not in (None, "")]
    if known and all(isinstance(cell, bool) for cell in known):
        words = [np.nan if cell is None else cell for cell in cells]
        return pd.Series(words, dtype=bool if len(known) == len(cells) else object)
    numeric = all(cell == "inf" or isinstance(cell, int | float) for cell in known)
    convert = float if numeric and "inf" in known else cell_text if not numeric else None
    return pd.Series([np.nan if c in (None, "") else convert(c) if convert else c for c in cells])


def read_results(folder: Path, known: Mapping[str, Result] | None = None) -> dict[str, Result]:
    """Every item in the folder that has rows, by name; those ``known`` already are not read again."""
    found = [path.parent for path in sorted(folder.glob("*/rows.csv"))]
    return {path.name: (known or {}).get(path.name) or Result.read(path) for path in found}


def _folders(out: Path | None) -> list[Path]:
    return [out] if out else [*FOLDERS.values(), DEMO, SCRATCH, *(f / BEYOND for f in FOLDERS.values())]


def latest_folder() -> Path:
    """The folder of the latest run among those that commands write to by default; results/ where there is none."""
    plans = [folder / CACHE / item / PLAN for folder in _folders(None) for item in items_in(folder)]
    if not plans:
        return FOLDERS["paper"]
    return max(plans, key=lambda path: path.stat().st_mtime).parents[2]


def check_items(items: Iterable[str], known: list[str], folder: Path) -> None:
    """Refuse an item that a results folder does not hold."""
    for item in items:
        if item not in known:
            raise McfError(f"{folder} holds no item {item!r}{nearest(item, known)}")


def outcomes_below(out: Path | None, items: tuple[str, ...] = ()) -> list[RunOutcome]:
    """The items in one folder, or in all the folders that commands write to by default."""
    found = [
        (folder, item) for folder in _folders(out) for item in items_in(folder) if not items or item in items
    ]
    return [outcome for folder, item in found if (outcome := stored_outcome(folder, item))]


def states_below(out: Path | None) -> list[dict[str, Any]]:
    """How far every item is: by its store, else by what was written beside its rows."""
    outcomes = outcomes_below(out)
    stored = {outcome.folder for outcome in outcomes}
    others = [path.parent for folder in _folders(out) for path in sorted(folder.glob("*/rows.csv"))]
    return [_state(outcome) for outcome in outcomes] + [
        {
            "item": folder.name,
            "folder": str(folder),
            "expected": trials["expected"],
            "done": trials["done"],
            "failed": {f"trial {k + 1}": "see rows.csv" for k in range(trials["failed"])},
            "missing": trials["expected"] - trials["done"] - trials["failed"],
        }
        for folder in others
        if folder not in stored and (trials := trials_in(folder))
    ]


def _state(outcome: RunOutcome) -> dict[str, Any]:
    progress = outcome.progress
    return {
        "item": outcome.plan.config.item,
        "folder": str(outcome.folder),
        "expected": progress.expected,
        "done": progress.done,
        "failed": outcome.failures,
        "missing": progress.to_run - progress.failed,
    }


def results_below(folder: Path, items: tuple[str, ...] = ()) -> tuple[list[Result], dict[str, Result]]:
    """The results whose tables and figures are due, and every result of the folder by name.

    Due are the items asked for (all by default): those with a store, and of the others, as in a clone, those that
    lack a table or figure.
    """
    known = {*items_in(folder), *(path.parent.name for path in folder.glob("*/rows.csv"))}
    if not known:
        raise McfError(f"{folder} holds no results: run `mcf reproduce` or another command first.")
    check_items(items, sorted(known), folder)
    due = [_rebuilt(outcome) for outcome in outcomes_below(folder, items)]
    stored = {result.name: result for result in due if result.folder.parent == folder}
    everything = read_results(folder, stored)
    others = [result for name, result in everything.items() if name not in stored]
    due += [r for r in others if (not items or r.name in items) and r.config and not r.is_shown]
    return due, everything


def _rebuilt(outcome: RunOutcome) -> Result:
    """A result with its rows and config written anew from the store."""
    outcome.folder.mkdir(parents=True, exist_ok=True)
    write_text(outcome.folder / "rows.csv", rows_csv(outcome.rows))
    outcome.evidence.write(outcome.folder)
    write_text(outcome.folder / "config.yaml", config_yaml(outcome.plan.config))
    return Result.of(outcome)


def present(result: Result, to_screen: bool) -> list[str]:
    """Write table and figure, then print the table; the names of all files of the item."""
    table = result.table and replace(result.table, item=str(result.config.get("title") or ""))
    with disk_explained(result.folder.parent):
        if table is not None:
            tables.write(table, result.folder / "table")
            _write_figure(result)
        else:
            for name in SHOWN:  # by an earlier run, of rows that are no longer here
                (result.folder / name).unlink(missing_ok=True)
    if to_screen and table is not None:
        # Piped output has no width of its own: give the table what it needs.
        console(width=None if sys.stdout.isatty() else 200).print(rich_table(table))
    return sorted(path.name for path in result.folder.iterdir() if not path.name.startswith("."))


def _write_figure(result: Result) -> None:
    from mcf_cli.reporting import figures  # matplotlib takes a while to import
    from mcf_cli.reporting.panels import save_figure

    number = result.paper.get("figure")
    kind = figures.figure_for(result.rows, number)
    options: dict[str, Any] = {}
    if kind is figures.FIGURES[9]:
        options["digit"] = result.digit
    elif kind is figures.methods_figure and result.paper.get("table") == 3:
        options["published"] = tables.PAPER_TABLE3
    figure = figures.draw(result.rows_by_example, number, warning=result.partial, **options)
    save_figure(figure, result.folder / "figure")
