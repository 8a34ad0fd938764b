"""Choosing methods from tidy rows and setting their errors side by side: what predicates are made of."""

from __future__ import annotations

from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict

from mcf_cli.reporting.series import CORRUPTIONS, SURROGATE_NAMES, curve_label, dataset_label

Level = Literal["q", "deletion", "train_size"]
LEVEL_WORDS = {"q": "q = {:g}", "deletion": "{:.0%} deleted", "train_size": "{:,.0f} training examples"}
# What tells two methods apart beside the level that an experiment runs over.
METHOD = ("loss", "corruption", "surrogate", "penalty")
SAME_AT_ZERO = ("blankout", "dropout", "multinomial")  # with q = 0 these are the plain model


class NotEnough(Exception):
    """The rows cannot answer the question; the message says what is missing."""


class Strict(BaseModel):
    """A part of the claims file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Words = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Methods(Strict):
    """Some methods: each key that is given keeps the rows with one of its values."""

    loss: Words | None = None
    corruption: Words | None = None
    surrogate: Words | None = None
    penalty: Words | None = None

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Their rows, without the plain model that stands at q = 0 of a corruption."""
        return self.curves(frame[~_at_zero(frame)])

    def curves(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Their rows, the plain model at q = 0 among them."""
        for column, wanted in self.model_dump(exclude_none=True).items():
            frame = frame[frame[column].isin(wanted)]
        return frame


Baseline = Literal["plain"] | Methods


def is_plain(frame: pd.DataFrame) -> pd.Series:
    """Which rows are plain models: no corruption, or a corruption that stands for none at q = 0."""
    return _uncorrupted(frame) | _at_zero(frame)


def plain_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The plain models with an l2 penalty."""
    return frame[is_plain(frame) & (frame["penalty"] != "l1")]


def _uncorrupted(frame: pd.DataFrame) -> pd.Series:
    return (frame["corruption"] == "none") & (frame["loss"] != "hinge")


def _at_zero(frame: pd.DataFrame) -> pd.Series:
    """q = 0 on a data set without a plain model of its own; beside one, it is what MCF chose."""
    alone = ~frame["dataset"].isin(frame.loc[_uncorrupted(frame), "dataset"])
    return frame["corruption"].isin(SAME_AT_ZERO) & (frame["q"] == 0) & alone


def pairs(
    frame: pd.DataFrame, method: Methods, over: Baseline = "plain", level: Level | None = None
) -> pd.DataFrame:
    """A line for every method, data set and level, with ``ours`` and ``theirs``: mean errors over all runs.

    Both sides share the data set, the loss where both have it, and the level where both run over it.
    """
    plain = over == "plain"
    first = method.rows(frame)
    second = plain_rows(frame) if plain else over.rows(frame)
    if first.empty or second.empty:
        raise NotEnough(f"no rows of {_described(method) if first.empty else _described(over)}")
    same_losses = plain or set(first["loss"]) == set(second["loss"])
    match = ["dataset", *(["loss"] if same_losses else [])]
    # A level of the experiment is shared by all methods; a corruption's q only by those that have one.
    shared = level in ("deletion", "train_size") or (level == "q" and not plain and second["q"].notna().any())
    match += [level] if shared else []
    by = ["dataset", *METHOD, *([level] if level else [])]
    groups = first.groupby(by, dropna=False)
    ours = groups.agg(ours=("value", "mean"), multiclass=("multiclass", "max")).reset_index()
    other = [] if plain else [name for name in METHOD if name not in match]
    theirs = second.groupby([*match, *other], dropna=False)["value"].mean().rename("theirs").reset_index()
    theirs = theirs.rename(columns={name: f"other_{name}" for name in other})
    joined = ours.merge(theirs, on=match, how="inner")
    if joined.empty:
        raise NotEnough(f"no rows of {_described(over)} beside those of {_described(method)}")
    return joined.assign(
        reduction=1 - joined["ours"] / joined["theirs"], gain=joined["theirs"] - joined["ours"]
    )


def cases(table: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """The lines of every (data set, method), in a fixed order."""
    groups = table.groupby(["dataset", *(name for name in METHOD if name in table)], sort=True, dropna=False)
    return [((key[0], method_words(part)), part) for key, part in groups]


def method_words(table: pd.DataFrame) -> str:
    """The method of a table's first line: ``logistic, blankout``; on several classes with its form."""
    line = table.iloc[0]
    words = [curve_label(line["loss"]).lower() if line["corruption"] != "fdrop" else "FDROP"]
    if line["corruption"] not in ("none", "fdrop"):
        words[0] += f" ({line['multiclass']})" if line.get("multiclass") else ""
        words.append(CORRUPTIONS.get(line["corruption"], line["corruption"]))
    if line.get("surrogate") in ("quadratic", "variational"):
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


def _described(methods: Baseline) -> str:
    if methods == "plain":
        return "the plain model"
    chosen = methods.model_dump(exclude_none=True).values()
    return " ".join("/".join(words) for words in chosen)


def count_words(found: int, total: int, unit: str) -> str:
    """``5 of 6 tasks``."""
    return f"{found} of {total} {unit}{'s' if total != 1 else ''}"
