"""Every method behind one interface: a learner on some rows, which can be cut to a fold and fitted along l2.

    learner = make_learner(params, dataset, rows)
    for l2, solution in learner.subset(fold).path([1, 0.1, 0]): ...

A path runs from the strongest penalty to the weakest, each fit starting from the one before, the first from
zero or from a solution on some of the rows. The order is part of the method: it makes the numbers of a trial
independent of what was computed elsewhere or earlier.
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
from mcf_cli.core.problem import Problem, Solution, codes_of
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.seeds import bit_stream

ZERO_STAYS_ZERO = ("none", "blankout", "dropout", "poisson")
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

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        """Fits along l2, the strongest first, which begins at `start`."""


@dataclass(frozen=True)
class Marginalised:
    """MCF, or the plain model when the corruption is None. The problem is shared by all that use its rows."""

    shared: "SharedProblem"
    corruption: Any
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "Marginalised":
        return replace(self, shared=self.shared.subset(rows))

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        solution = start if _same_classes(start, self.shared.problem) else None
        for l2 in sorted(l2s, reverse=True):
            solution = self.shared.problem.solve(self.corruption, l2, start=solution, **self.fit)
            yield l2, solution

    def loo(self, l2: float) -> np.ndarray:
        """The class codes that leave-one-out predicts (quadratic loss)."""
        problem = self.shared.problem
        codes = codes_of(problem.loo(self.corruption, l2))
        return codes if problem.labels is None else problem.labels[codes]


@dataclass(frozen=True)
class Baseline:
    """A method of mcf_cli.baselines: ``make(X, y)`` gives a problem, its ``solve(l2, start=...)`` a fit."""

    make: Callable[[Matrix, np.ndarray], Any]
    X: Matrix
    y: np.ndarray
    fit: dict[str, Any] = field(default_factory=dict)

    def subset(self, rows: np.ndarray) -> "Baseline":
        return replace(self, X=self.X[rows], y=self.y[rows])

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        problem, solution = self.make(self.X, self.y), start
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

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        model = Penalised(self.shared.problem)
        solution = start if _same_classes(start, self.shared.problem) else None
        for strength in sorted(l2s, reverse=True):
            solution = model.solve(strength, start=solution, **self.fit)
            yield strength, solution


@dataclass(frozen=True)
class OnSeenFeatures:
    """A learner on the features that occur in its rows. The others' weights are 0, and cost nothing this way.

    A hundred documents hold a tenth of a vocabulary, and the optimiser's own work grows with the weights.
    """

    inner: Marginalised | L1
    columns: np.ndarray
    n_features: int

    def subset(self, rows: np.ndarray) -> "OnSeenFeatures":
        return replace(self, inner=self.inner.subset(rows))

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        if start is not None:
            start = replace(start, coef=start.coef[:, self.columns])
        for l2, solution in self.inner.path(l2s, start):
            coef = np.zeros((len(solution.coef), self.n_features))
            coef[:, self.columns] = solution.coef
            yield l2, replace(solution, coef=coef)

    def loo(self, l2: float) -> np.ndarray:
        return self.inner.loo(l2)


def _same_classes(start: Solution | None, problem: Problem) -> bool:
    """A fold may lack a class that the whole has; its solution is then no place to begin."""
    ours, theirs = problem.labels, None if start is None else start.labels
    return start is not None and (ours is theirs or np.array_equal(ours, theirs))


def make_learner(params: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> Learner:
    """The learner of a trial on some rows of its data set."""
    method, fit = params["method"], params["fit"]
    if method["loss"] == "hinge" or params.get("copies") is not None:
        return _baseline(params, dataset, rows)
    columns = seen_features(method, dataset.X[rows])
    shared = shared_problem(method, dataset, rows, columns)
    corruption = make_corruption(method, dataset.blocks)
    learner = L1(shared, fit) if method["penalty"] == "l1" else Marginalised(shared, corruption, fit)
    return learner if columns is None else OnSeenFeatures(learner, columns, dataset.X.shape[1])


def seen_features(method: dict[str, Any], X: Matrix) -> np.ndarray | None:
    """The columns with any value, where leaving the others out changes nothing and is worth it; else None."""
    if not sp.issparse(X) or method["corruption"] not in ZERO_STAYS_ZERO:
        return None
    columns = np.flatnonzero(X.getnnz(axis=0))
    return columns if len(columns) < 0.9 * X.shape[1] else None


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


def shared_problem(
    method: dict[str, Any], dataset: Dataset, rows: np.ndarray, columns: np.ndarray | None = None
) -> SharedProblem:
    """The problem of a trial's rows and loss; it depends on neither the corruption's level nor l2."""
    form = {"surrogate": "jensen", "multiclass": "pairwise"}
    form |= {name: method[name] for name in ("loss", "surrogate", "multiclass") if name in method}
    key = (dataset.sha256, hashlib.sha256(rows.tobytes()).digest(), columns is None, *form.values())
    if key not in _recent:
        while len(_recent) >= RECENT:
            _recent.pop(next(iter(_recent)))
        X = dataset.X[rows] if columns is None else dataset.X[rows][:, columns]
        problem = Problem(X, dataset.y[rows], n_classes=len(dataset.class_names), drop_absent=True, **form)
        _recent[key] = SharedProblem(problem)
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
