"""Methods side by side: which rows a claim is about, what they are compared with, and on which cells.

``compare`` sets a method beside its opponent on every data set and level that both have. A comparison knows the mean
errors in a table and, for intervals, as ``Quantities``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict

from mcf_cli.experiments.config import LEVEL_OF
from mcf_cli.reporting.series import AID_NAMES, CORRUPTIONS, SURROGATE_NAMES, curve_label, dataset_label
from mcf_cli.reporting.statistics import Quantities

Level = Literal["q", "deletion", "train_size", "flips", "features"]
LEVEL_WORDS = {
    "q": "q = {:g}",
    "deletion": "{:.0%} deleted",
    "train_size": "{:,.0f} training examples",
    "flips": "{:.0%} of the labels wrong",
    "features": "{:,.0f} features read",
}

# What tells two methods apart beside the level that an experiment runs over.
METHOD_KEYS = ("loss", "corruption", "surrogate", "penalty", "aid")
RUN = [
    "dataset",
    "loss",
    "deletion",
    "train_size",
    "repeat",
    "fold",
]  # what the penalties of a plain model share
SAME_AT_ZERO = [
    name for name, level in LEVEL_OF.items() if level == "q"
]  # with q = 0 these are the plain model


class NotEnough(Exception):
    """The rows cannot answer the question; the message says what is missing."""


class ClaimPart(BaseModel):
    """A part of the claims file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Words = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Methods(ClaimPart):
    """Some methods: each key that is given keeps the rows with one of its values."""

    item: Words | None = None
    loss: Words | None = None
    corruption: Words | None = None
    surrogate: Words | None = None
    penalty: Words | None = None
    aid: Words | None = None  # "" keeps what has none

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Their rows, without the plain model that stands at q = 0 of a corruption."""
        return self.curves(frame[~_at_zero(frame)])

    def curves(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Their rows, the plain model at q = 0 among them."""
        for column, wanted in self.model_dump(exclude_none=True).items():
            frame = frame[frame[column].isin(wanted)]
        return frame


Opponent = Literal["plain"] | Methods


def is_plain(frame: pd.DataFrame) -> pd.Series:
    """Which rows are plain models: no corruption, or a corruption that stands for none at q = 0."""
    return _uncorrupted(frame) | _at_zero(frame)


def plain_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The plain models with an l2 penalty."""
    return frame[is_plain(frame) & (frame["penalty"] != "l1")]


def _uncorrupted(frame: pd.DataFrame) -> pd.Series:
    aided = frame["aid"] != "" if "aid" in frame else pd.Series(False, index=frame.index)
    return (frame["corruption"] == "none") & ~frame["loss"].isin(("hinge", "boosting")) & ~aided


def _at_zero(frame: pd.DataFrame) -> pd.Series:
    """q = 0 on a data set without a plain model of its own; beside one, it is what MCF chose."""
    alone = ~frame["dataset"].isin(frame.loc[_uncorrupted(frame), "dataset"])
    return frame["corruption"].isin(SAME_AT_ZERO) & (frame["q"] == 0) & alone


def of_form(rows: pd.DataFrame, form: str) -> pd.DataFrame:
    """The rows of one multi-class form; the plain model is the same in all."""
    return rows[rows["multiclass"].isin(["", form]) | is_plain(rows)]


def with_better_penalty(rows: pd.DataFrame) -> pd.DataFrame:
    """The plain models replaced, run by run, by the penalty with the lower validation error."""
    plain = rows[is_plain(rows)]
    validation = plain[plain["metric"] == "validation_error"].sort_values(["value", "penalty"], kind="stable")
    chosen = validation.drop_duplicates(RUN)[[*RUN, "penalty"]]
    kept = plain.merge(chosen, on=[*RUN, "penalty"], how="inner").assign(penalty="l2")
    return pd.concat([rows[~is_plain(rows)], kept], ignore_index=True)


@dataclass(frozen=True)
class Comparison:
    """A line for every data set, method and level, with ``ours`` and ``theirs``; and the cells behind the lines."""

    table: pd.DataFrame
    cells: Quantities

    def only(self, keep: pd.Series | np.ndarray) -> Comparison:
        """Some of its lines."""
        return Comparison(self.table[keep].reset_index(drop=True), self.cells)

    @property
    def gains(self) -> Quantities:
        """How much lower our errors are, in points."""
        return self.cells.differences(self.table["their_cell"], self.table["our_cell"]).scaled(100)

    @property
    def reductions(self) -> Quantities:
        """How much lower our errors are, in per cent of theirs."""
        return self.cells.reductions(self.table["our_cell"], self.table["their_cell"]).scaled(100)

    def curves(self) -> list[np.ndarray]:
        """The numbers of the lines of every (data set, method), in a fixed order."""
        names = ["dataset", *METHOD_KEYS, *(f"other_{name}" for name in METHOD_KEYS)]
        groups = self.table.groupby([name for name in names if name in self.table], sort=True, dropna=False)
        return [np.sort(lines) for lines in groups.indices.values()]

    def data_sets(self) -> dict[str, np.ndarray]:
        """The numbers of the lines of every data set."""
        names = self.table["dataset"].to_numpy()
        return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names)}


def compare(
    frame: pd.DataFrame, method: Methods, over: Opponent = "plain", level: Level | None = None
) -> Comparison:
    """A method beside its opponent: errors averaged over all runs of a data set, method and level.

    Both sides share the data set, the loss where both have it, and the level where both run over it.
    """
    plain = not isinstance(over, Methods)
    first = method.rows(frame)
    second = over.rows(frame) if isinstance(over, Methods) else plain_rows(frame)
    if first.empty or second.empty:
        raise NotEnough(f"no rows of {_described(method) if first.empty else _described(over)}")
    same_losses = plain or set(first["loss"]) == set(second["loss"])
    match = ["dataset", *(["loss"] if same_losses else [])]
    # A level of the experiment is shared by all methods; a corruption's q only by those that have one.
    shared = level in ("deletion", "train_size", "flips", "features") or (
        level == "q" and not plain and second["q"].notna().any()
    )
    match += [level] if level and shared else []
    ours, our_groups = _grouped(first, ["dataset", *METHOD_KEYS, *([level] if level else [])])
    other = [] if plain else [name for name in METHOD_KEYS if name not in match]
    theirs, their_groups = _grouped(second, [*match, *other])
    theirs = theirs.drop(columns="multiclass").rename(columns={name: f"other_{name}" for name in other})
    ours, theirs = ours.rename(columns={"cell": "our_cell"}), theirs.rename(columns={"cell": "their_cell"})
    theirs["their_cell"] += len(our_groups)
    joined = ours.merge(theirs, on=match, how="inner")
    if joined.empty:
        raise NotEnough(f"no rows of {_described(over)} beside those of {_described(method)}")
    cells = Quantities.of_errors([*our_groups, *their_groups])
    values = {
        side: cells.values[joined[f"{cell}_cell"]] for side, cell in (("ours", "our"), ("theirs", "their"))
    }
    joined = joined.assign(**values)
    return Comparison(
        joined.assign(
            reduction=1 - joined["ours"] / joined["theirs"], gain=joined["theirs"] - joined["ours"]
        ),
        cells,
    )


def _grouped(frame: pd.DataFrame, by: list[str]) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """A line with the keys of every group, and the groups themselves."""
    found = [(key, part) for key, part in frame.groupby(by, dropna=False)]
    table = pd.DataFrame([key for key, _ in found], columns=by)
    table["multiclass"] = [part["multiclass"].max() for _, part in found]
    return table.assign(cell=range(len(found))), [part for _, part in found]


def levels_of(frame: pd.DataFrame, column: str) -> list[list[pd.DataFrame]]:
    """For every (data set, method) its rows by the value of ``column``, ascending."""
    found = [part[part[column].notna()] for _, part in cases(frame)]
    return [[group for _, group in part.groupby(column, sort=True)] for part in found if len(part)]


def cases(table: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """The lines of every (data set, method), in a fixed order."""
    groups = table.groupby(
        ["dataset", *(name for name in METHOD_KEYS if name in table)], sort=True, dropna=False
    )
    return [((key[0], method_words(part)), part) for key, part in groups]


def method_words(table: pd.DataFrame) -> str:
    """The method of a table's first line: ``logistic, blankout``; on several classes with its form."""
    line = table.iloc[0]
    words = [curve_label(line["loss"]).lower() if line["corruption"] != "fdrop" else "FDROP"]
    if line["corruption"] not in ("none", "fdrop"):
        words[0] += f" ({line['multiclass']})" if line.get("multiclass") else ""
        words.append(CORRUPTIONS.get(line["corruption"], line["corruption"]))
    if line.get("aid"):
        words.append(AID_NAMES.get(line["aid"], line["aid"]))
    if line.get("surrogate", "jensen") in set(SURROGATE_NAMES) - {"jensen"}:
        words.append(SURROGATE_NAMES[line["surrogate"]])
    return ", ".join(words)


def place_words(table: pd.DataFrame, level: Level | None) -> str:
    """Where a table's first line was measured: data set, method and level."""
    line = table.iloc[0]
    words = [dataset_label(line["dataset"], ""), method_words(table)]
    if level and pd.notna(line[level]):
        words.append(LEVEL_WORDS[level].format(line[level]))
    return ", ".join(words)


def against(table: pd.DataFrame, level: Level | None) -> str:
    """``Amazon books, logistic, blankout, q = 0.8: 15.2% against 18.1%`` for a table's first line."""
    line = table.iloc[0]
    return f"{place_words(table, level)}: {line['ours']:.2%} against {line['theirs']:.2%}"


def _described(methods: Opponent) -> str:
    if methods == "plain":
        return "the plain model"
    chosen = methods.model_dump(exclude_none=True).values()
    return " ".join("/".join(words) for words in chosen)


def counted_of(found: int, total: int, unit: str) -> str:
    """``5 of 6 tasks``."""
    return f"{found} of {total} {unit}{'s' if total != 1 else ''}"
