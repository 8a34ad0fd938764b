"""Every method behind one interface: a learner on some rows, which can be cut to a fold and fitted along l2.

    learner = make_learner(params, dataset, rows)
    for l2, solution in learner.subset(fold).path([1, 0.1, 0]): ...

A path runs from the strongest penalty to the weakest, each fit starting from the one before. The order is part
of the method: it makes the numbers of a trial independent of what was computed elsewhere or earlier.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from mcf_cli.core import corruptions
from mcf_cli.core.problem import Problem, Solution
from mcf_cli.datasets.dataset import Dataset

RECENT = 2  # training and validation rows of one repeat
_recent: dict[tuple, Problem] = {}
Matrix = np.ndarray | sp.csr_matrix
CLASSES = {
    "blankout": corruptions.Blankout,
    "dropout": corruptions.Dropout,
    "gaussian": corruptions.Gaussian,
    "laplace": corruptions.Laplace,
    "poisson": corruptions.Poisson,
    "bitswap": corruptions.BitSwap,
    "multinomial": corruptions.Multinomial,
}


class Learner(Protocol):
    """A method on a training set."""

    def subset(self, rows: np.ndarray) -> "Learner":
        """The same method on some of the rows."""

    def path(self, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        """Fits along l2, the strongest first."""


@dataclass(frozen=True)
class Marginalised:
    """MCF, or the plain model when the corruption is None. The Problem is shared by all that use its rows."""

    problem: Problem
    corruption: Any
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "Marginalised":
        return replace(self, problem=self.problem.subset(rows))

    def path(self, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        solution = None
        for l2 in sorted(l2s, reverse=True):
            solution = self.problem.solve(self.corruption, l2, start=solution, **self.fit)
            yield l2, solution


def make_learner(params: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> Learner:
    """The learner of a trial on some rows of its data set."""
    method = params["method"]
    return Marginalised(
        shared_problem(method, dataset, rows), make_corruption(method, dataset.blocks), params["fit"]
    )


def shared_problem(method: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> Problem:
    """The coded rows, kept for the next trial: it depends on neither the corruption's level nor l2."""
    form = {"surrogate": "jensen", "multiclass": "pairwise"}
    form |= {name: method[name] for name in ("loss", "surrogate", "multiclass") if name in method}
    key = (dataset.sha256, hashlib.sha256(rows.tobytes()).digest(), *form.values())
    if key not in _recent:
        while len(_recent) >= RECENT:
            _recent.pop(next(iter(_recent)))
        _recent[key] = Problem(dataset.X[rows], dataset.y[rows], n_classes=len(dataset.class_names), **form)
    return _recent[key]


def make_corruption(method: dict[str, Any], blocks: int | None = None) -> Any:
    """The corruption object of a method, None for the plain model."""
    name = method["corruption"]
    if name == "none":
        return None
    names = ("q", "sigma", "scale", "clip")
    parameters = {key: method[key] for key in names if key in method}
    if name == "multinomial":
        parameters["blocks"] = blocks
    return CLASSES[name](**parameters)
