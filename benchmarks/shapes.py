"""Data of the paper's shapes: the real set where it is at hand, seeded Zipf counts elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Shape:
    name: str
    X: sp.csr_matrix
    y: np.ndarray
    source: str

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def __str__(self) -> str:
        N, D = self.X.shape
        return f"{self.name} ({N} x {D}, {self.n_classes} classes, {self.X.nnz:,} non-zeros, {self.source})"


# name: (data set, rows, columns, classes, words an example)
PAPER = {
    "amazon": ("amazon-books", 2_000, 20_000, 2, 170),
    "reuters": ("reuters", 6_220, 18_933, 65, 80),
    "mnist": ("mnist", 60_000, 784, 10, 300),
    "cifar": ("cifar10-words", 50_000, 8_192, 10, 676),
}


def shapes(names: list[str], real: bool = True) -> Iterator[Shape]:
    """The named shapes, one at a time because the larger ones do not belong in memory together."""
    for name in names:
        dataset, N, D, K, words = PAPER[name]
        yield (real and dataset and real_shape(name, dataset)) or zipf_shape(name, N, D, K, words)


def real_shape(name: str, dataset: str) -> Shape | None:
    from mcf_cli.datasets import available, load
    from mcf_cli.errors import McfError

    if not available(dataset):
        return None
    try:  # the reviews at the paper's 20,000 terms; the 5,000-term form has another shape
        data = load(dataset, form="labelled") if name == "amazon" else load(dataset)
    except McfError:
        return None
    train = np.arange(len(data.y)) if name == "amazon" else next(iter(data.splits.values()))[0]
    return Shape(name, sp.csr_matrix(data.X[train]), data.y[train], "real data")


def zipf_shape(name: str, N: int, D: int, K: int, words: int, seed: int = 0) -> Shape:
    """Word counts with Zipf's law: each class has its own order of some words."""
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, D + 1) ** 1.05
    p /= p.sum()
    lengths = rng.poisson(words, N)
    y = np.concatenate([np.arange(K), rng.integers(0, K, N - K)])
    rows = np.repeat(np.arange(N), lengths)
    drawn = rng.choice(D, lengths.sum(), p=p)
    own = rng.random(len(drawn)) < 0.2
    columns = np.where(own, (drawn * 7 + y[rows] * 131) % D, drawn)
    X = sp.csr_matrix((np.ones(len(columns)), (rows, columns)), shape=(N, D))
    X.sum_duplicates()
    return Shape(name, X, y, "Zipf counts")
