"""From tidy rows to named series: what a curve is, what it is called, and its mean and spread.

Figures, tables and predicates read rows only through this module, so a method has one name everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mcf_cli.datasets.userfile import file_format
from mcf_cli.experiments.config import FAMILIES
from mcf_cli.reporting.statistics import Quantities, half_interval

OPTIONAL = (
    *("surrogate", "multiclass", "penalty", "q", "budget", "l2", "deletion", "train_size", "copies"),
    *("sigma", "scale", "clip", "lam", "margin", "repeat", "fold", "aid", "flips", "features"),
    *("a", "column_groups"),
)
STRENGTHS = ("sigma", "scale", "a", "clip")  # levels of a corruption that no axis runs over
AXES_BEYOND = ("flips", "features")  # what only items beyond the paper run over
NUMERIC = (
    *("q", "budget", "l2", "deletion", "train_size", "copies", *STRENGTHS, "lam", "margin", "value"),
    *AXES_BEYOND,
)
METHOD = ("loss", "corruption", "surrogate", "multiclass", "penalty", "aid")

CELL = (
    "dataset",
    "data_source",
    *METHOD,
    "q",
    "budget",
    "deletion",
    "train_size",
    "copies",
    *AXES_BEYOND,
    "repeat",
    "fold",
)

LINE = ("dataset", "data_source", "curve", "family")
LOSS_ORDER = (
    *("quadratic", "exponential", "logistic", "logistic pairwise", "logistic shared"),
    *("hinge", "fdrop", "boosting"),
)

DATASETS = {
    "amazon-books": "Amazon books",
    "amazon-dvd": "Amazon DVD",
    "amazon-electronics": "Amazon electronics",
    "amazon-kitchen": "Amazon kitchen",
    "amazon-raw-books": "Amazon books, raw reviews",
    "amazon-raw-dvd": "Amazon DVD, raw reviews",
    "amazon-raw-electronics": "Amazon electronics, raw reviews",
    "amazon-raw-kitchen": "Amazon kitchen, raw reviews",
    "reuters": "Reuters",
    "dmoz": "DMOZ",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar10-words": "CIFAR-10",
    "splice": "Splice",
}

SOURCE_MARKS = {"builtin": "built-in data", "substitute": "substitute", "user": "own data"}

CORRUPTIONS = {name: family.title for name, family in FAMILIES.items()}

AID_NAMES = {  # what a method is given besides labelled rows, or how its features are read
    "mean": "marked: mean",
    "conditional": "marked: conditional",
    "reduced": "marked: reduced model",
    "known-rates": "known rates",
    "estimated-rates": "estimated rates",
    "unlabelled": "unlabelled rows",
    "target-rates": "rates of the target",
    "presence": "presence",
    "autoencoder": "autoencoder",
    "autoencoder-test": "autoencoder, test rows seen",
    "by-weight": "largest weights first",
    "random-order": "random order",
}

SURROGATE_NAMES = {
    "quadratic": "quadratic approximation",
    "jensen": "Jensen's bound",
    "variational": "variational bound",
    "gaussian": "normal score",
    "exact": "exact expected loss",
}


def tidy(rows: pd.DataFrame, metric: str | None = "test_error") -> pd.DataFrame:
    """The finished rows of one metric, with every optional column there and numbers as numbers.

    ``copies`` "inf" (the marginalised limit) becomes infinity. The curve's name stands in ``curve``.
    """
    frame = rows.reindex(columns=[*rows.columns, *(c for c in OPTIONAL if c not in rows.columns)])
    if "status" in frame:
        frame = frame[frame["status"].fillna("ok") == "ok"]
    if metric is not None:
        frame = frame[frame["metric"] == metric]
    frame = frame.copy()
    # A q for each column has no place on an axis, so it is part of the method's name.
    observed = frame["q"] == "observed"
    for column in NUMERIC:
        frame[column] = pd.to_numeric(frame[column], errors="coerce")
    for column in METHOD:
        frame[column] = (frame[column] if column in frame else pd.Series(index=frame.index)).astype(object)
        frame[column] = frame[column].where(frame[column].notna(), "")
    frame["corruption"] = frame["corruption"].replace("", "none")
    both = frame.loc[frame["multiclass"] != "", "multiclass"].nunique() > 1
    frame["curve"] = [curve_name(row, both) for row in frame.itertuples()]
    several = frame.loc[frame["surrogate"] != "", "surrogate"].nunique() > 1
    apart = strengths_apart(frame)
    frame["family"] = [
        family_name(row, several, apart)
        + (", observed q" if seen else "")
        + (f", {AID_NAMES.get(row.aid, row.aid)}" if row.aid else "")
        for row, seen in zip(frame.itertuples(), observed, strict=True)
    ]
    frame["method"] = [f"{curve_label(row.curve)}, {row.family}" for row in frame.itertuples()]
    return frame


def strengths_apart(frame: pd.DataFrame) -> list[str]:
    """Which of sigma, scale and clip take several values where all else is the same: there they tell methods apart.

    A strength chosen on validation data varies too, but is one for each run.
    """
    there = [name for name in STRENGTHS if frame[name].notna().any()]
    if not there:
        return []
    runs = frame.groupby([name for name in (*CELL, "metric") if name in frame], dropna=False)
    return [name for name in there if runs[name].nunique(dropna=False).max() > 1]


def curve_name(row: Any, both_forms: bool) -> str:
    """The loss as figures tell it apart: FDROP is its own, and so are the multi-class logistic forms."""
    if row.corruption == "fdrop":
        return "fdrop"
    if row.loss == "logistic" and (row.multiclass == "shared" or (row.multiclass and both_forms)):
        return f"logistic {row.multiclass}"
    return str(row.loss)


def loss_of(curve: str) -> str:
    """``logistic shared`` -> ``logistic``."""
    return curve.partition(" ")[0]


def family_name(row: Any, with_surrogate: bool, strengths: Sequence[str] = ()) -> str:
    """What is done with the loss: ``plain, l2``, ``MCF, blankout``, ``MCF, Gaussian, sigma = 0.1``, ``worst case``."""
    if row.corruption == "fdrop":
        return "worst case"
    if row.loss == "boosting":
        return "marked" if row.corruption == "none" else "marked, missing in training too"
    if row.corruption == "none":
        return f"plain, {row.penalty or 'l2'}"
    found = {name: getattr(row, name) for name in strengths}
    levels = [f"{name} = {value:g}" for name, value in found.items() if pd.notna(value)]
    corruption = ", ".join([CORRUPTIONS.get(row.corruption, row.corruption), *levels])
    if pd.notna(row.copies):
        return f"{corruption}, M copies"
    name = f"MCF, {corruption}"
    named = with_surrogate and row.surrogate in SURROGATE_NAMES
    return f"{name}, {SURROGATE_NAMES[row.surrogate]}" if named else name


def curve_label(curve: str) -> str:
    """``logistic shared`` -> ``Logistic (shared)``."""
    if curve in ("fdrop", "boosting"):
        return {"fdrop": "FDROP", "boosting": "Boosted trees"}[curve]
    loss, _, form = curve.partition(" ")
    return loss.capitalize() + (f" ({form})" if form else "")


def dataset_label(name: str, source: str) -> str:
    """The data set's name as a title; whatever is not the paper's own data says so."""
    label = str(name)
    if file_format(label) is None:  # the name of a user's file stays as it is
        bare = label.removeprefix("builtin-")
        label = DATASETS.get(bare, bare.replace("-", " ").replace("_", " "))
        label = label[:1].upper() + label[1:]
    mark = SOURCE_MARKS.get(source)
    return f"{label} ({mark})" if mark else label


def datasets_in(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """(name, source) of every data set, in the order of the rows."""
    pairs = rows[["dataset", "data_source"]].drop_duplicates()
    return list(pairs.itertuples(index=False, name=None))


def collection(name: str) -> str:
    """The collection a data set belongs to: those of one are compared on one scale."""
    return "amazon" if str(name).startswith("amazon-") else str(name)


def of_dataset(rows: pd.DataFrame, pair: tuple[str, str]) -> pd.DataFrame:
    return rows[(rows["dataset"] == pair[0]) & (rows["data_source"] == pair[1])]


def summary(rows: pd.DataFrame, by: str | list[str]) -> pd.DataFrame:
    """Mean of ``value`` for each ``by``, and ``half`` its 95% interval, 0 where nothing is known of it.

    Where errors are known example by example, the interval is over examples and repeats: runs on the same examples
    are not more examples. Elsewhere it is Student's over runs. Folds are first averaged within their repeat: repeats
    are the independent runs. A single repeat of several folds is spread over its folds instead.
    """
    keys = [by] if isinstance(by, str) else list(by)
    runs = rows.groupby([*keys, "repeat"], dropna=False, sort=True)["value"].mean()
    if rows["repeat"].nunique() <= 1:
        runs = rows.set_index([*keys, "repeat"])["value"].sort_index()
    groups = runs.groupby(level=keys, dropna=False)
    table = groups.agg(mean="mean", sd="std", runs="count").reset_index()
    if known_by_example(rows):
        parts = [part for _, part in rows.groupby(keys, dropna=False, sort=True)]
        table["half"] = [float(Quantities.of_errors([part]).halves()[0]) for part in parts]
    else:
        table["half"] = half_interval(table["sd"].to_numpy(), table["runs"].to_numpy())
    return table.drop(columns="sd")


def known_by_example(rows: pd.DataFrame) -> bool:
    """Whether every error is known example by example."""
    return "wrong" in rows and len(rows) > 0 and bool(rows["wrong"].notna().all())


def interval_words(frame: pd.DataFrame) -> str:
    """What intervals are over, as a sentence goes on: ``over test examples and 20 runs``; empty without intervals."""
    runs = int(frame["repeat"].nunique())
    several = f"{runs} runs" if runs > 1 else ""
    if known_by_example(frame):
        return f"over test examples{' and ' + several if several else ''}"
    if several:
        return f"over {several}"
    return f"over {frame['fold'].nunique()} folds" if frame["fold"].nunique() > 1 else ""


def lines_in(frame: pd.DataFrame) -> list[tuple[str, str, str, str]]:
    """(dataset, source, curve, family) of every method: data sets as they come, plain before corrupted."""
    distinct = frame.drop_duplicates(list(LINE))
    curves, corruptions = list(LOSS_ORDER), ["none", "fdrop", "poisson", *CORRUPTIONS]
    places = distinct.reset_index(drop=True).assign(
        d=distinct["dataset"]
        .map({name: n for n, name in enumerate(dict.fromkeys(frame["dataset"]))})
        .to_numpy(),
        c=[curves.index(v) if v in curves else len(curves) for v in distinct["curve"]],
        k=[corruptions.index(v) if v in corruptions else len(corruptions) for v in distinct["corruption"]],
    )
    return list(
        places.sort_values(["d", "c", "k"], kind="stable")[list(LINE)].itertuples(index=False, name=None)
    )


def varying(frame: pd.DataFrame) -> str | None:
    """The quantity that an experiment runs over, None when only the method varies.

    A level chosen on validation data varies too, but is no axis: the protocol's own quantities come first.
    """
    for column in ("copies", "deletion", "train_size", *AXES_BEYOND, "q", "budget"):
        if frame[column].nunique() > 1:
            per_line = frame.groupby(["dataset", "method", "repeat", "fold"], dropna=False)[column].nunique()
            if per_line.max() > 1:
                return column
    return None


def marginalised_curves(frame: pd.DataFrame) -> list[str]:
    """The curves that have more than a plain model; that one stands beside each form of its loss."""
    corrupted = frame[frame["corruption"] != "none"]
    forms = {loss_of(name) for name in corrupted["curve"]}
    alone = frame[(frame["corruption"] == "none") & ~frame["loss"].isin(forms)]
    return in_order(pd.concat([corrupted, alone])["curve"], LOSS_ORDER)


def in_order(values: pd.Series, order: list[str] | tuple[str, ...]) -> list[str]:
    """Distinct values, the known ones in their fixed order and then the rest as they come."""
    found = list(dict.fromkeys(values))
    return [v for v in order if v in found] + [v for v in found if v not in order]


def trouble(rows: pd.DataFrame) -> tuple[str, ...]:
    """What a reader should know before trusting the numbers: failures, unfinished fits, edges."""
    notes = []
    failed = rows[rows["status"] == "failed"]
    if len(failed):
        reason = f", first: {failed['reason'].iloc[0]}" if "reason" in failed else ""
        notes.append(f"{len(failed)} failed{reason}")
    finished = tidy(rows)
    stopped = int((finished["converged"].astype(str).str.lower() == "false").sum())
    if stopped:
        notes.append(f"{stopped} of {len(finished)} fits stopped before they converged")
    if "edge" in finished and (at_edge := _edges(finished["edge"])):
        listed = ", ".join(f"{count}× {edge}" for edge, count in at_edge.items())
        notes.append(
            f"{sum(at_edge.values())} of {len(finished)} choices are at the end of their grid ({listed}): "
            "widen it, e.g. --set select.l2=[...] or --q"
        )
    return tuple(notes)


def _edges(column: pd.Series) -> dict[str, int]:
    """How often a choice is the last of its grid, by which end of which grid."""
    found = column.astype(object).fillna("").astype(str)
    return {str(edge): int(count) for edge, count in found[found != ""].value_counts().sort_index().items()}
