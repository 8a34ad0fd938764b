"""What runs left in a results folder, item by item: rows, config, environment, figure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from mcf_cli.errors import McfError
from mcf_cli.experiments.items import configs_folder, item_files
from mcf_cli.reporting.series import dataset_label, tidy
from mcf_cli.reporting.tables import partial_mark

NEEDED = ("dataset", "data_source", "loss", "corruption", "metric", "value", "converged", "status")


@dataclass(frozen=True)
class ItemResults:
    """One item of a results folder."""

    name: str
    folder: Path
    rows: pd.DataFrame
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    partial: str = ""  # ``PARTIAL 12/50`` when expected trials are missing

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
    def command(self) -> str:
        return rerun_found([self])

    @property
    def any_finished(self) -> bool:
        return bool((self.rows["status"] == "ok").any())

    @cached_property
    def finished(self) -> pd.DataFrame:
        """The finished rows of all metrics, tidy."""
        return tidy(self.rows, metric=None)

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


def rerun_command(items: list[str], profile: str = "paper") -> str:
    """The command that runs items of configs/."""
    return f"mcf reproduce {' '.join(items)}" + ("" if profile == "paper" else f" --profile {profile}")


def rerun_found(found: list[ItemResults]) -> str:
    """The command that runs the items again; what has no file in configs/ has one beside its rows."""
    names = [item.name for item in found]
    if set(names) <= _in_configs():
        return rerun_command(names, found[0].profile)
    return " && ".join(
        rerun_command([item.name], item.profile)
        if item.name in _in_configs()
        else f"mcf reproduce --config {item.folder / 'config.yaml'} --out {item.folder.parent}"
        for item in found
    )


def _in_configs() -> set[str]:
    try:
        return {path.stem for path in item_files(configs_folder())}
    except McfError:
        return set()


def read_results(folder: Path, partial: Mapping[str, str] | None = None) -> dict[str, ItemResults]:
    """Every item in the folder that has rows, by name; ``partial`` overrules what its environment.json says."""
    found = [path.parent for path in sorted(folder.glob("*/rows.csv"))]
    return {path.name: _read_item(path, (partial or {}).get(path.name)) for path in found}


def _read_item(folder: Path, partial: str | None) -> ItemResults:
    try:
        rows = pd.read_csv(folder / "rows.csv", keep_default_na=False, na_values=[""], low_memory=False)
        config = _mapping(folder / "config.yaml", yaml.safe_load)
        environment = _mapping(folder / "environment.json", json.loads)
    except (ValueError, yaml.YAMLError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise McfError(f"{folder} cannot be read ({first}): restore it, or run its command again.") from None
    lost = [name for name in NEEDED if name not in rows]
    if lost:
        raise McfError(
            f"{folder / 'rows.csv'} has no column {lost[0]}: restore it, or run its command again."
        )
    if partial is None:
        trials = environment.get("trials") or {}
        partial = partial_mark(trials.get("done"), trials.get("expected"))
    return ItemResults(folder.name, folder, rows, config, environment, partial)


def _mapping(path: Path, parse: Any) -> dict[str, Any]:
    content = parse(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content if isinstance(content, dict) else {}
