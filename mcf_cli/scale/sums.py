"""One model on rows that come in chunks: the mean loss is a sum over rows, so each chunk adds its share.

What a chunk is asked for is its sum of losses and gradients at given weights. Where the chunks are, on a disk or on
the machines of a cluster, is the business of whoever adds the shares up. Both kinds of fit share the way from an
estimator to a task, and from a solution back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from mcf_cli.core.corruptions.base import Array, Corruption, Pairs, column_sums
from mcf_cli.core.corruptions.columns import ColumnNames
from mcf_cli.core.corruptions.per_feature import resolve
from mcf_cli.core.design.blocks import Block, Part
from mcf_cli.core.design.dense import DenseBlock, Room
from mcf_cli.core.design.objective import Minimand, Objective
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.estimators_cv import MCFClassifierCV, MCFRegressorCV
from mcf_cli.core.kernels.dispatch import canonical
from mcf_cli.core.label_noise import check_regularised
from mcf_cli.core.losses.base import Batch
from mcf_cli.core.model import class_weights
from mcf_cli.core.problem import Problem, Solution, second_moments
from mcf_cli.core.solvers import Outcome, check_ending, checked_l2, conjugate_gradients
from mcf_cli.core.solvers.lbfgs import lbfgs
from mcf_cli.core.solvers.normal_equations import FAR

Sums = tuple[float, Array, Array]  # of the loss, its gradient in W (D x C) and its gradient in b (C)
_NEGLIGIBLE = 1e-7  # share of the objective that a further step may still promise
_ROUNDING = 1e-15
_ROUNDS = 3  # of conjugate gradients
OnPass = Callable[[int, float], None]  # the number of a pass over the rows, and the objective that it found


@dataclass(frozen=True)
class Task:
    """What is minimised, without the rows: it goes to wherever they are.

    n_classes is 0 for a regression; n_outputs is the number of columns of W; options are those of `Problem`.
    """

    n_features: int
    n_classes: int
    n_outputs: int
    corruption: Corruption
    l2: float = 0.0
    fit_intercept: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def checked(cls, corruption: Corruption | str | None, **rest: Any) -> Task:
        """The task, once its parameters are known to be valid: before any chunk is touched."""
        task = cls(corruption=resolve(corruption), **rest)
        task.corruption.check_parameters(task.n_features)
        checked_l2(task.l2)
        if task.options.get("surrogate") == "variational" and task.options.get("shared_lambda"):
            raise ValueError(
                "a lambda shared by all examples needs all of them at once; in chunks use shared_lambda=False"
            )
        if task._of_an_empty_row().label_noise is not None:
            check_regularised(task.l2)
        return task

    def problem(self, X: Any, y: Array, weight: Array | None = None) -> Problem:
        """The problem of these rows alone."""
        form = {"fit_intercept": self.fit_intercept, "n_classes": self.n_classes, **self.options}
        return Problem(X, y, sample_weight=weight, reusable=False, **form)

    def _of_an_empty_row(self) -> Problem:
        y = np.zeros(1, dtype=int if self.n_classes else float)
        return self.problem(sp.csr_matrix((1, self.n_features)), y)


class Chunk:
    """Some rows, laid out for evaluation."""

    def __init__(self, X: Any, y: Array, task: Task, weight: Array | None = None):
        """y holds class codes, or the targets of a regression; `weight` the weights of rows that do not count 1."""
        problem = task.problem(X, y, weight)
        self.rows = len(y) if weight is None else float(weight.sum())
        self._objective = problem._objective(problem._checked(task.corruption), 0.0)

    def sums(self, W: Array, b: Array) -> Sums:
        """The rows' sum of losses and its gradients; the l2 term is not theirs."""
        value, g_W, g_b = self._objective.loss_gradient(W, b)
        return self.rows * value, self.rows * g_W, self.rows * g_b

    @property
    def arrays(self) -> list[Array]:
        """Every array of the layout."""
        found: list[Array] = []

        def note(array: Array) -> Array:
            found.append(array)
            return array

        _moved(self._objective, note)
        return found

    def with_arrays(self, arrays: Iterable[Array]) -> Chunk:
        """The same chunk on copies of its `arrays`, wherever they are kept."""
        copies = iter(arrays)
        other = copy(self)
        other._objective = _moved(self._objective, lambda _: next(copies))
        return other


def _moved(objective: Objective, move: Callable[[Array], Array]) -> Objective:
    """The objective with move(a) in the place of every array a, in a fixed order."""

    def matrix(M: Any) -> Any:
        if sp.issparse(M):
            other = copy(M)  # not made anew: scipy copies an array that is a small part of another
            other.data, other.indices, other.indptr = move(M.data), move(M.indices), move(M.indptr)
            return other
        return move(M) if isinstance(M, np.ndarray) else M  # slices stay

    def pairs(known: Pairs) -> Pairs:
        return Pairs(move(known.feature), move(known.value), matrix(known.scatter))

    def part(known: Part) -> Part:
        return replace(
            known,
            columns=matrix(known.columns),
            pieces=[matrix(piece) for piece in known.pieces],
            pairs=known.pairs and pairs(known.pairs),
            cells=matrix(known.cells),
        )

    def block(known: Block) -> Block:
        if isinstance(known, DenseBlock):
            return replace(known, rows=matrix(known.rows), X=move(known.X), room=Room())
        parts = [(part(own), family) for own, family in known.parts]
        return replace(known, rows=matrix(known.rows), columns=matrix(known.columns), parts=parts)

    moved = copy(objective)
    moved.batches = [
        Batch(block(batch.block), move(batch.weight), move(batch.target)) for batch in objective.batches
    ]
    moved.class_means = None if objective.class_means is None else move(objective.class_means)
    return moved


def added(shares: Iterable[Sums]) -> Sums:
    """The sum of shares, in their order: the same floating-point numbers whoever computed them."""
    value, g_W, g_b = 0.0, None, None
    for v, share_W, share_b in shares:
        value += v
        g_W = np.array(share_W) if g_W is None else np.add(g_W, share_W, out=g_W)
        g_b = np.array(share_b) if g_b is None else np.add(g_b, share_b, out=g_b)
    assert g_W is not None and g_b is not None, "there are no chunks"
    return value, g_W, g_b


def chunk_moments(X: Any, task: Task, weight: Array | None = None) -> Array:
    """sum_n weight_n (E[x~_nd^2], x_nd) of each feature, 2 x D: the totals scale and centre the weights."""
    X = canonical(X)
    weight = np.ones(X.shape[0]) if weight is None else weight
    return np.stack([second_moments(X, task.corruption, weight), column_sums(X, weight)])


class SummedObjective(Minimand):
    """Mean loss + l2 ||W||^2 from the sums of all chunks; what an optimiser sees."""

    def __init__(
        self, task: Task, rows: float, sums: Callable[[Array, Array], Sums], on_pass: OnPass | None = None
    ):
        one = task._of_an_empty_row()  # which will do for what does not depend on rows
        limit = one._limit(task.corruption.split(task.n_features))
        super().__init__(one._loss(task.corruption), task.l2, limit, (task.n_features, task.n_outputs))
        self.task, self.rows, self.sums, self.on_pass = task, rows, sums, on_pass
        self.passes, self.centre = 0, np.zeros(task.n_features)

    def loss_gradient(self, W: Array, b: Array) -> Sums:
        """Value and gradient; b is the bias at the centre, so that columns far from zero do not tie weights to it."""
        value, g_W, g_b = self.sums(W, b - self.centre @ W if self.centre.any() else b)
        value, g_W, g_b = value / self.rows, g_W / self.rows, g_b / self.rows
        if self.task.l2:
            value += self.task.l2 * float(np.vdot(W, W))
            g_W += (2.0 * self.task.l2) * W
        if self.centre.any():
            g_W -= np.outer(self.centre, g_b)
        self.passes += 1
        if self.on_pass is not None:
            self.on_pass(self.passes, value)
        return value, g_W, g_b


def solve(
    task: Task,
    rows: float,
    moments: Array,
    sums: Callable[[Array, Array], Sums],
    start: Solution | None = None,
    max_iter: int = 1000,
    tol: float = 1e-4,
    on_pass: OnPass | None = None,
) -> Solution:
    """Fit from the sums alone: L-BFGS, or conjugate gradients for the quadratic loss.

    `rows` is the weight of all rows, `moments` are their `chunk_moments`.
    """
    objective: Any = SummedObjective(task, rows, sums, on_pass)
    squares, means = moments / rows
    if task.options.get("loss") == "quadratic":
        outcome = minimise_quadratic(objective, task.fit_intercept, 2.0 * (squares + task.l2))
    else:
        W, b = np.zeros(objective.shape), np.zeros(task.n_outputs)
        if start is not None and objective.inside(start.coef.T):
            W, b = start.coef.T, start.intercept
        if task.fit_intercept:
            spread = squares - means**2
            far = spread < (means / FAR) ** 2
            objective.centre = np.where(far, means, 0.0)
            # Rounding may leave nothing of the spread: what scales a weight then is the least that squares can show.
            squares = np.where(far, np.maximum(spread, 1e-12 * squares), squares)
        b = b + objective.centre @ W
        outcome = lbfgs(objective, W, b, task.fit_intercept, squares, max_iter, tol)
    how = outcome.value, outcome.n_iter, outcome.converged, outcome.message
    return Solution(outcome.W.T, outcome.b - objective.centre @ outcome.W, *how)


def minimise_quadratic(
    objective: SummedObjective,
    fit_intercept: bool,
    curvature: Array,
    tol: float = 1e-10,
    max_iter: int = 2000,
) -> Outcome:
    """Minimise a quadratic of which only gradients are to be had: they differ by (second derivatives) x (step).

    `curvature` is the second derivative in each weight. With a bias the unknowns are the weights and the bias at the
    mean of the rows, b + w.c: columns far from zero then no longer tie their weights to the bias. The means c are what
    the bias direction's image shows.

    A residual far below the first one proves little: the first may have had next to nothing along a valley. So
    another round starts from what a round has left, until that would be negligible even in the flattest of valleys,
    or until no valley is met that could hide more.
    """
    D, C = objective.shape
    mean = np.zeros(D)

    def evaluate(theta: Array) -> tuple[float, Array]:
        """The value, and the gradient in theta."""
        if not fit_intercept:
            return objective.loss_gradient(theta, np.zeros(C))[:2]
        value, g_W, g_b = objective.loss_gradient(theta[:D], theta[D] - mean @ theta[:D])
        return value, np.vstack([g_W - np.outer(mean, g_b), g_b])

    at_zero, constant = evaluate(np.zeros((D + fit_intercept, C)))
    diagonal = curvature
    if fit_intercept:
        bias = np.zeros((D + 1, C))
        bias[D] = 1.0
        mean = 0.5 * (evaluate(bias)[1] - constant)[:D, 0]
        constant[:D] -= np.outer(mean, constant[D])
        centred = np.maximum(
            curvature - 2.0 * mean**2, _ROUNDING * curvature
        )  # digits are lost far from zero
        diagonal = np.append(centred, 2.0)

    def apply(direction: Array) -> Array:
        # At unit length: the constant would drown the image of a short direction.
        size = np.sqrt((direction * direction).sum(axis=0))
        size = np.where(size > 0.0, size, 1.0)
        return size * (evaluate(direction / size)[1] - constant)

    M = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    share = max(2.0 * objective.l2 * M.min(), _ROUNDING)  # of a weight's curvature: what every direction has
    theta, slope, n_iter, least = np.zeros_like(constant), constant, 0, np.ones(C)
    for _ in range(_ROUNDS):
        found = conjugate_gradients(apply, -slope, M, tol, max_iter - n_iter)
        theta, n_iter, least = theta + found.solution, n_iter + found.n_iter, np.minimum(least, found.least)
        value, slope = evaluate(theta)
        left = 0.5 * M @ slope**2  # what a step would gain if no direction were flatter than a weight's own
        negligible = _NEGLIGIBLE * value + 1e-18 * at_zero
        if not found.converged or left.sum() <= share * negligible:
            break
        tol = float(np.sqrt(share * negligible / left.sum()))
    converged = found.converged and (left / np.maximum(0.1 * least, share)).sum() <= negligible
    W, b = theta[:D], theta[D] - mean @ theta[:D] if fit_intercept else np.zeros(C)
    return Outcome(W, b, n_iter, bool(converged), f"conjugate gradients, {n_iter} iterations", value)


Model = MCFClassifier | MCFRegressor
Fitted = TypeVar("Fitted", bound=Model)


def refuse_search(model: Any) -> None:
    """ValueError for an estimator that chooses: its candidates are compared on rows in memory."""
    if isinstance(model, MCFClassifierCV | MCFRegressorCV):
        raise ValueError(
            f"{type(model).__name__} chooses in memory: fit it to a sample of the rows, and give `best_estimator_` here"
        )


class Targets:
    """The labels of a classification as codes, or the targets of a regression as numbers."""

    def __init__(self, classify: bool, found: list[np.ndarray]):
        """found: `distinct` of each chunk."""
        self.classes = reduce(np.union1d, found) if classify else None
        self.factors: Array | None = None  # of each class's rows
        self.flat = found[0].ndim == 1
        self.n_outputs = 1 if self.flat else found[0].shape[1]
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError(
                    f"MCFClassifier needs at least two classes; all chunks hold {self.classes[0]!r} alone"
                )
            self.n_outputs = 1 if len(self.classes) == 2 else len(self.classes)

    def encode(self, y: np.ndarray) -> np.ndarray:
        if self.classes is None:
            return np.asarray(y, dtype=float)
        return np.searchsorted(self.classes, y.astype(self.classes.dtype))

    def totals(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The weights of rows added up by class."""
        assert self.classes is not None
        return np.bincount(self.encode(y), weight, len(self.classes)).astype(float)

    def weigh(self, class_weight: Any, totals: np.ndarray) -> float:
        """Set the factors of the classes; the weight of all rows with them."""
        self.factors = class_weights(class_weight, np.asarray(self.classes), totals)
        return float(totals @ self.factors)

    def weights(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """The weights of rows with the factors of their classes; None where all are 1."""
        if self.factors is None:
            return weight
        return self.factors[self.encode(y)] * (1.0 if weight is None else weight)


def distinct(y: np.ndarray, classify: bool) -> np.ndarray:
    """The classes of a chunk; for a regression one row, which tells the number of targets."""
    if not classify:
        return np.asarray(y[:1], dtype=float)
    check_classification_targets(y)
    if y.ndim > 1:
        raise ValueError(f"y has shape {y.shape}; a classifier needs one label for each row")
    return np.unique(y)


def total_weight(model: Model, source: Any, targets: Targets) -> float:
    """The weight of all rows of a source of chunks, once the factor of each class is known."""
    pairs = ((source.labels(number), source.weights(number)) for number in range(len(source)))
    if getattr(model, "class_weight", None) is not None:
        totals = sum((targets.totals(*pair) for pair in pairs), np.zeros(len(np.asarray(targets.classes))))
        return targets.weigh(model.class_weight, totals)
    return float(sum(len(y) if weight is None else weight.sum() for y, weight in pairs))


def task_of(model: Model, n_features: int, targets: Targets, columns: Sequence[str] | None = None) -> Task:
    """What the estimator's parameters ask for; `columns` are the names of the features."""
    names = ColumnNames(None if columns is None else np.array(columns, dtype=object))
    corruption = resolve(model.corruption).named(names)
    form = ("loss", "surrogate", "multiclass", "shared_lambda")
    options: dict[str, Any] = {name: getattr(model, name) for name in form if hasattr(model, name)}
    if (label_noise := getattr(model, "label_noise", None)) is not None:
        if isinstance(label_noise, str):
            raise ValueError("label_noise='estimate' needs all rows at once; in chunks give the rates")
        options["label_noise"] = label_noise
    return Task.checked(
        corruption,
        n_features=n_features,
        n_classes=0 if targets.classes is None else len(targets.classes),
        n_outputs=targets.n_outputs,
        l2=model.l2,
        fit_intercept=model.fit_intercept,
        options=options or {"loss": "quadratic"},
    )


def how(model: Model, n_features: int, targets: Targets) -> dict[str, Any]:
    """The optimiser's parameters; a warm start is a start from the previous fit."""
    if not isinstance(model, MCFClassifier):
        return {}
    check_ending(model.max_iter, model.tol)
    start = None
    if model.warm_start and np.array_equal(getattr(model, "classes_", ()), np.asarray(targets.classes)):
        start = model._previous(n_features)
    return {"start": start, "max_iter": model.max_iter, "tol": model.tol}


def finish(
    model: Fitted, solution: Solution, task: Task, targets: Targets, columns: Sequence[str] | None = None
) -> Fitted:
    """The estimator, fitted."""
    model._keep(solution)
    model.n_features_in_, model.corruption_ = task.n_features, task.corruption
    if columns is not None:
        model.feature_names_in_ = np.array(columns, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # of an earlier fit
    if targets.classes is not None:
        model.classes_ = targets.classes
    elif targets.flat:
        model.coef_, model.intercept_ = model.coef_[0], model.intercept_[0]
    return model
