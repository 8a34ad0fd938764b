"""Every method behind one interface: a learner on some rows, which can be cut to a fold and fitted along l2.

    learner = make_learner(params, dataset, rows)
    for l2, solution in learner.subset(fold).path([1, 0.1, 0]): ...

A path runs from the strongest penalty to the weakest, each fit starting from the one before. The order is
part of the method: it makes the numbers of a trial independent of what was computed elsewhere or earlier.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from mcf_cli.baselines.explicit import Explicit
from mcf_cli.baselines.fdrop import Fdrop
from mcf_cli.baselines.hinge import Hinge
from mcf_cli.baselines.penalised import Penalised
from mcf_cli.core import corruptions
from mcf_cli.core.problem import Problem, Solution
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.seeds import bit_stream

RECENT = 2  # training and validation rows of one repeat
_recent: dict[tuple, "SharedProblem"] = {}
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
    """MCF, or the plain model when the corruption is None. The problem is shared by all that use its rows."""

    shared: "SharedProblem"
    corruption: Any
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "Marginalised":
        return replace(self, shared=self.shared.subset(rows))

    def path(self, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        solution = None
        for l2 in sorted(l2s, reverse=True):
            solution = self.shared.problem.solve(self.corruption, l2, start=solution, **self.fit)
            yield l2, solution


@dataclass(frozen=True)
class Baseline:
    """A method of mcf_cli.baselines: ``make(X, y)`` gives a problem, its ``solve(l2, start=...)`` a fit."""

    make: Callable[[Matrix, np.ndarray], Any]
    X: Matrix
    y: np.ndarray
    fit: dict[str, Any] = field(default_factory=dict)

    def subset(self, rows: np.ndarray) -> "Baseline":
        return replace(self, X=self.X[rows], y=self.y[rows])

    def path(self, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        problem, solution = self.make(self.X, self.y), None
        for l2 in sorted(l2s, reverse=True):
            solution = problem.solve(l2, start=solution, **self.fit)
            yield l2, solution


@dataclass(frozen=True)
class L1:
    """A plain model with an l1 penalty, on the Problem that the l2 model uses too."""

    shared: "SharedProblem"
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "L1":
        return replace(self, shared=self.shared.subset(rows))

    def path(self, l2s: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        model, solution = Penalised(self.shared.problem, "l1"), None
        for strength in sorted(l2s, reverse=True):
            solution = model.solve(strength, start=solution, **self.fit)
            yield strength, solution


def make_learner(params: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> Learner:
    """The learner of a trial on some rows of its data set."""
    method, fit = params["method"], params["fit"]
    if method["loss"] == "hinge" or params.get("copies") is not None:
        return _baseline(params, dataset, rows)
    if method["penalty"] == "l1":
        return L1(shared_problem(method, dataset, rows), fit)
    return Marginalised(shared_problem(method, dataset, rows), make_corruption(method, dataset.blocks), fit)


def _baseline(params: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> Baseline:
    """Hinge, FDROP or explicit copies. FDROP counts passes and not iterations, and keeps its own limits."""
    method, fit, n_classes = params["method"], params["fit"], len(dataset.class_names)
    stream = bit_stream(params["seed"], params["dataset"], params["repeat"], "baseline")
    seed = int(stream.random_raw() % 2**31)
    if method["corruption"] == "fdrop":
        make, fit = partial(Fdrop, n_classes=n_classes, seed=seed), {"deletions": method["budget"]}
    elif method["loss"] == "hinge":
        make = partial(Hinge, seed=seed)
    else:
        corruption = make_corruption(method, dataset.blocks)
        make = partial(Explicit, corruption=corruption, loss=method["loss"], n_classes=n_classes, seed=seed)
        fit = {**fit, "copies": params["copies"]}
    return Baseline(make, dataset.X[rows], dataset.y[rows], fit)


class SharedProblem:
    """A Problem and its folds, kept with their coding and Gram matrices for later trials on the same rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._subsets: dict[bytes, SharedProblem] = {}

    def subset(self, rows: np.ndarray) -> "SharedProblem":
        key = rows.tobytes()
        if key not in self._subsets:
            self._subsets[key] = SharedProblem(self.problem.subset(rows))
        return self._subsets[key]


def shared_problem(method: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> SharedProblem:
    """The problem of a trial's rows and loss; it depends on neither the corruption's level nor l2."""
    form = {"surrogate": "jensen", "multiclass": "pairwise"}
    form |= {name: method[name] for name in ("loss", "surrogate", "multiclass") if name in method}
    key = (dataset.sha256, hashlib.sha256(rows.tobytes()).digest(), *form.values())
    if key not in _recent:
        while len(_recent) >= RECENT:
            _recent.pop(next(iter(_recent)))
        n_classes = len(dataset.class_names)
        _recent[key] = SharedProblem(Problem(dataset.X[rows], dataset.y[rows], n_classes=n_classes, **form))
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
