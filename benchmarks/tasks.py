"""What the rivals compete on: training rows, a validation part of them, and test rows, some with values deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout
from mcf_cli.datasets import available, load
from mcf_cli.datasets.dataset import Dataset, seeded_split

SEED = 2013
VALIDATION = 0.2  # share of the training rows on which q, l2 and learning rates are chosen


class Part(NamedTuple):
    """Rows that go together."""

    X: sp.csr_matrix
    y: np.ndarray

    def at(self, rows: np.ndarray) -> Part:
        return Part(self.X[rows], self.y[rows])

    def deleted(self, level: float, seed: int) -> Part:
        """Each value set to zero with probability `level`, the survivors as they were."""
        return Part(Dropout(q=level).sample(self.X, np.random.default_rng([SEED, seed])), self.y)

    def error(self, model: Any) -> float:
        return float(np.mean(model.predict(self.X) != self.y))


@dataclass(frozen=True)
class Task:
    """Everyone learns from `train`; what is tuned is tuned by fits to `fitting`, judged on `validation`."""

    name: str
    source: str
    corruption: type
    deletion: float
    train: Part
    test: Part
    fitting: Part
    validation: Part

    @property
    def n_classes(self) -> int:
        return int(self.train.y.max()) + 1

    def __str__(self) -> str:
        N, D = self.train.X.shape
        deleted = f", {self.deletion:.0%} of their values deleted" if self.deletion else ""
        return (
            f"{self.name} ({self.source}): {N:,} training rows x {D:,}, {self.n_classes} classes, "
            f"{len(self.test.y):,} test rows{deleted}; {self.corruption.__name__.lower()}"
        )


# name: (built-in stand-in, corruption, share of the values that are deleted in test rows). Deleted values are not
# scaled up, which is what the biased form expects.
TASKS: dict[str, tuple[str, type, float]] = {
    "amazon-books": ("builtin-reviews", Blankout, 0.0),
    "amazon-kitchen": ("builtin-reviews", Blankout, 0.0),
    "mnist": ("builtin-digits", Dropout, 0.5),
    "reuters": ("builtin-topics", Blankout, 0.0),
}


def tasks(names: list[str], rows: int, builtin: bool = False) -> Iterator[Task]:
    """The named tasks, one at a time; a stand-in that two of them share comes once."""
    seen = set()
    for name in names:
        dataset = name if available(name) and not builtin else TASKS[name][0]
        if dataset not in seen:
            seen.add(dataset)
            yield make_task(name, load(dataset), rows)


def make_task(name: str, data: Dataset, rows: int) -> Task:
    """The data set's own split, at most `rows` of its training rows, and a validation part of those."""
    _, corruption, deletion = TASKS[name]
    whole = Part(sp.csr_matrix(data.X), data.y)
    train, test = next(iter(data.splits.values()))
    if len(train) > rows:
        train = train[seeded_split(len(train), rows / len(train))[1]]
    fitting, validation = seeded_split(len(train), VALIDATION)
    return Task(
        name=name,
        source=described(name, data),
        corruption=corruption,
        deletion=deletion,
        train=whole.at(train),
        test=whole.at(test).deleted(deletion, seed=0),
        fitting=whole.at(train[fitting]),
        validation=whole.at(train[validation]).deleted(deletion, seed=1),
    )


def described(name: str, data: Dataset) -> str:
    if data.source == "real":
        return ", ".join(("real data", *data.notes))
    reason = "as asked" if available(name) else f"{name} is not on this machine"
    return f"stand-in {data.name}, {reason}"
