"""Which rows train, validate and test. Rows that share a group are never divided.

Random numbers depend on (seed, data set, repeat, purpose) and on nothing else: the method, the order of the trials
and the number of workers never enter, so every method meets the same splits and the same deleted features.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcf_cli.datasets.dataset import Dataset


def bit_stream(seed: int, dataset: str, repeat: int, purpose: str) -> np.random.PCG64:
    """The raw stream, which numpy promises never to change."""
    digest = hashlib.sha256(json.dumps([seed, dataset, repeat, purpose]).encode()).digest()
    return np.random.PCG64(int.from_bytes(digest, "big"))


def generator(seed: int, dataset: str, repeat: int, purpose: str) -> np.random.Generator:
    """A generator for draws of every kind."""
    return np.random.Generator(bit_stream(seed, dataset, repeat, purpose))


def shuffled(rows: np.ndarray, stream: np.random.PCG64) -> np.ndarray:
    """The rows in an order taken from the raw stream."""
    return rows[np.argsort(stream.random_raw(len(rows)), kind="stable")]


RANDOM = "random"


@dataclass(frozen=True)
class Draw:
    """The source of the random choices of one repeat on one data set."""

    seed: int
    dataset: str
    repeat: int

    def shuffle(self, rows: np.ndarray, purpose: str) -> np.ndarray:
        return shuffled(rows, bit_stream(self.seed, self.dataset, self.repeat, purpose))


def train_test(dataset: Dataset, evaluation: dict[str, Any], draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """The data set's named split (its first by default) or a random one, cut to the asked numbers of rows."""
    name = evaluation.get("split") or next(iter(dataset.splits), RANDOM)
    if name == RANDOM:
        share = 1 - evaluation["train_fraction"]
        train, test = divide(np.arange(len(dataset.y)), share, dataset.groups, draw, "test rows")
    else:
        train, test = dataset.splits[name]
    return (
        first(train, evaluation.get("train"), draw, "training subset"),
        first(test, evaluation.get("test"), draw, "test subset"),
    )


def first(rows: np.ndarray, count: int | None, draw: Draw, purpose: str) -> np.ndarray:
    """At most ``count`` of the rows, in file order. A smaller count gives a subset of a larger one."""
    if count is None or count >= len(rows):
        return rows
    return np.sort(draw.shuffle(rows, purpose)[:count])


def divide(
    rows: np.ndarray, share: float, groups: np.ndarray | None, draw: Draw, purpose: str
) -> tuple[np.ndarray, np.ndarray]:
    """(kept, taken): about ``share`` of the rows taken at random, at least one on each side."""
    labels = _group_labels(rows, groups)
    order = draw.shuffle(np.unique(labels), purpose)
    sizes = np.cumsum(np.bincount(labels)[order])
    wanted = min(max(round(share * len(rows)), 1), len(rows) - 1)
    count = min(int(np.searchsorted(sizes, wanted)) + 1, len(order) - 1)
    taken = np.isin(labels, order[:count])
    return rows[~taken], rows[taken]


def folds(
    count: int, n_folds: int, groups: np.ndarray | None, draw: Draw, purpose: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) positions of a shuffled k-fold division of ``range(count)``, as even as groups allow."""
    labels = _group_labels(np.arange(count), groups)
    order = draw.shuffle(np.unique(labels), purpose)
    if len(order) < n_folds:
        raise ValueError(f"{n_folds} folds need at least as many rows, and there are {len(order)}")
    sizes = np.bincount(labels)[order]
    middle = np.cumsum(sizes) - sizes / 2
    fold_of_group = np.empty(len(order), dtype=np.int64)
    fold_of_group[order] = np.minimum((middle * n_folds / count).astype(np.int64), n_folds - 1)
    fold = fold_of_group[labels]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def _group_labels(rows: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Consecutive group numbers of the rows; every row its own group where there are none."""
    if groups is None:
        return np.arange(len(rows))
    return np.unique(groups[rows], return_inverse=True)[1]
