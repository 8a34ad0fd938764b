"""Evidence on two differences from the paper, from committed results and without fitting anything.

    python -m benchmarks.differences                 # of results/
    python -m benchmarks.differences results/second  # of another run

Reuters: the errors of least squares with blankout and without, by how many documents a topic has. MNIST: the share of
the plain model's errors that MCF saves with half of the pixels deleted, for every l2 that was tried for the plain
model. The authors' code trains its plain models with an l2 that is N = 60,000 times weaker than the others'.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from mcf_cli.datasets import available, load
from mcf_cli.experiments.rows import Evidence
from mcf_cli.reporting.results import Result

SIZES = (0, 20, 50, 100, 1000, np.inf)


def errors_by_topic_size(folder: Path, level: float) -> pd.DataFrame:
    """Errors of least squares in per cent by a topic's number of documents, over ten divisions of Reuters.

    The standard error of the difference is over documents: what the divisions say of one counts once, as a mean.
    """
    rows = Result.read(folder / "reuters-words").rows_by_example
    rows = rows[(rows["dataset"] == "reuters") & (rows["metric"] == "test_error")]
    topics = load("reuters").y
    wrong, tested = np.zeros((2, len(topics))), np.zeros(len(topics))
    for _, group in rows.groupby("repeat"):
        for place, q in enumerate((0.0, level)):
            (row,) = group[np.isclose(group["q"].astype(float), q)].itertuples()
            wrong[place, row.tested] += row.wrong
        tested[row.tested] += 1
    documents = np.bincount(topics)[topics]
    lines = []
    for low, high in pairwise(SIZES):
        here = (documents >= low) & (documents < high) & (tested > 0)
        plain, blankout = wrong[:, here]
        worse, total = blankout - plain, tested[here].sum()
        lines.append(
            {
                "documents of a topic": f"{low} to {high - 1:g}" if high < np.inf else f"{low} or more",
                "documents": int(here.sum()),
                "plain": 100 * plain.sum() / total,
                "blankout": 100 * blankout.sum() / total,
                "difference": 100 * worse.sum() / total,
                "standard error": 100
                * np.sqrt(((worse - worse.sum() / total * tested[here]) ** 2).sum())
                / total,
                "share of the difference": 0.0,
                "errors": worse.sum(),
            }
        )
    table = pd.DataFrame(lines)
    table["share of the difference"] = 100 * table["errors"] / table["errors"].sum()
    return table.drop(columns="errors")


def gain_by_opponent(folder: Path, deletion: float = 0.5) -> pd.DataFrame:
    """By the plain model's l2: its validation error in per cent, and how much lower the best MCF model's is."""
    tried = pd.concat([_candidates(folder / item, deletion) for item in ("fig9", "weak-digits")])
    plain = tried[(tried["corruption"] == "none") & (tried["penalty"] != "l1")]
    lines = []
    for loss, group in plain.groupby("loss"):
        mcf = (tried["corruption"] == "dropout") & (tried["multiclass"] != "pairwise")
        ours = tried[mcf & (tried["loss"] == loss)]["error"].min()
        if np.isnan(ours):
            continue
        for l2, error in group.groupby("l2")["error"].min().items():
            lines.append(
                {"loss": loss, "l2": l2, "plain": 100 * error, "reduction": 100 * (1 - ours / error)}
            )
    return pd.DataFrame(lines)


def _candidates(folder: Path, deletion: float) -> pd.DataFrame:
    """Every candidate's validation error at one share of deleted pixels."""
    rows, arrays = Result.read(folder).rows, Evidence.read(folder).arrays
    table = pd.DataFrame(
        {name: arrays[f"candidate_{name}"] for name in ("row", "level", "l2", "fold", "error")}
    )
    table = table.groupby(["row", "level", "l2"], dropna=False)["error"].mean().reset_index()
    table = table.join(rows[["loss", "corruption", "multiclass", "penalty", "deletion"]], on="row")
    return table[np.isclose(table["deletion"].astype(float), deletion)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Evidence on differences from the paper.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"))
    folder = parser.parse_args(arguments).folder
    if available("reuters"):
        for level in (0.1, 0.3):
            print(f"\nReuters, errors in per cent, blankout q = {level:g} beside the plain model\n")
            print(errors_by_topic_size(folder / "beyond", level).round(2).to_string(index=False))
    print("\nMNIST, half of the pixels deleted, validation errors in per cent by the plain model's l2\n")
    gains = gain_by_opponent(folder)
    print(
        gains.round(2).to_string(index=False)
        if len(gains)
        else "No candidates are kept: run fig9 and weak-digits again."
    )


if __name__ == "__main__":
    main()
