"""One model on rows that come in chunks: the mean loss is a sum over rows, so each chunk adds its share.

What a chunk is asked for is its sum of losses and gradients at given weights. Where the chunks are, on a disk or on
the machines of a cluster, is the business of whoever adds the shares up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions import resolve
from mcf_cli.core.design import Block, Part
from mcf_cli.core.families import Array, Corruption, Pairs, column_sums
from mcf_cli.core.lossbase import Batch
from mcf_cli.core.objective import Objective
from mcf_cli.core.problem import Problem, Solution
from mcf_cli.core.solvers import Outcome, conjugate_gradients, lbfgs

Sums = tuple[float, Array, Array]  # of the loss, its gradient in W (D x C) and its gradient in b (C)
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
        if not 0.0 <= task.l2 < np.inf:
            raise ValueError(f"l2 must be a finite number of at least 0; got {task.l2!r}")
        if task.options.get("surrogate") == "variational" and task.options.get("shared_lambda"):
            raise ValueError(
                "a lambda shared by all examples needs all of them at once; in chunks use shared_lambda=False"
            )
        task._of_an_empty_row()
        return task

    def problem(self, X: Any, y: Array) -> Problem:
        """The problem of these rows alone."""
        return Problem(
            X, y, fit_intercept=self.fit_intercept, n_classes=self.n_classes, reusable=False, **self.options
        )

    def weight_limit(self) -> Array:
        """What |W| must stay below: a matter of corruption and loss, so that any row will do."""
        problem = self._of_an_empty_row()
        return problem._weight_limit(self.corruption, problem._loss(self.corruption))

    def _of_an_empty_row(self) -> Problem:
        y = np.zeros(1, dtype=int if self.n_classes else float)
        return self.problem(sp.csr_matrix((1, self.n_features)), y)


class Chunk:
    """Some rows, laid out for evaluation."""

    def __init__(self, X: Any, y: Array, task: Task):
        """y holds class codes, or the targets of a regression."""
        problem = task.problem(X, y)
        self.rows = len(y)
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
            return type(M)((move(M.data), move(M.indices), move(M.indptr)), shape=M.shape)
        return move(M) if isinstance(M, np.ndarray) else M  # slices stay

    def pairs(known: Pairs) -> Pairs:
        return Pairs(move(known.feature), move(known.value), matrix(known.scatter))

    def part(known: Part) -> Part:
        return replace(
            known,
            columns=matrix(known.columns),
            pieces=[matrix(piece) for piece in known.pieces],
            pairs=known.pairs and pairs(known.pairs),
        )

    def block(known: Block) -> Block:
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


def second_moments(X: Any, task: Task) -> Array:
    """sum_n E[x~_nd^2] of each feature, or what stands for it: it scales the weights for the optimiser."""
    X, ones = task.corruption.prepare(X), np.ones(X.shape[0])
    return column_sums(X, ones, power=2) + task.corruption.covariance_sum(X, ones).diagonal()


class SummedObjective:
    """Mean loss + l2 ||W||^2 from the sums of all chunks; what an optimiser sees."""

    def __init__(
        self, task: Task, rows: int, sums: Callable[[Array, Array], Sums], on_pass: OnPass | None = None
    ):
        self.task, self.rows, self.sums, self.on_pass = task, rows, sums, on_pass
        self.shape = (task.n_features, task.n_outputs)
        self.passes = 0

    def loss_gradient(self, W: Array, b: Array) -> Sums:
        value, g_W, g_b = self.sums(W, b)
        value, g_W, g_b = value / self.rows, g_W / self.rows, g_b / self.rows
        if self.task.l2:
            value += self.task.l2 * float(np.vdot(W, W))
            g_W += (2.0 * self.task.l2) * W
        self.passes += 1
        if self.on_pass is not None:
            self.on_pass(self.passes, value)
        return value, g_W, g_b


def solve(
    task: Task,
    rows: int,
    moments: Array,
    sums: Callable[[Array, Array], Sums],
    start: Solution | None = None,
    max_iter: int = 1000,
    tol: float = 1e-4,
    on_pass: OnPass | None = None,
) -> Solution:
    """Fit from the sums alone: L-BFGS, or conjugate gradients for the quadratic loss.

    `moments` are the `second_moments` of all rows.
    """
    objective: Any = SummedObjective(task, rows, sums, on_pass)
    if task.options.get("loss") == "quadratic":
        outcome = minimise_quadratic(objective, task.fit_intercept, 2.0 * (moments / rows + task.l2))
    else:
        W, b = np.zeros(objective.shape), np.zeros(task.n_outputs)
        if start is not None:
            W, b = start.coef.T, start.intercept
        curvature = 0.25 * moments / rows + 2.0 * task.l2
        scale = 1.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0))
        outcome = lbfgs(objective, W, b, task.fit_intercept, task.weight_limit(), max_iter, tol, scale)
    value = objective.loss_gradient(outcome.W, outcome.b)[0]
    return Solution(outcome.W.T, outcome.b, value, outcome.n_iter, outcome.converged, outcome.message)


def minimise_quadratic(
    objective: SummedObjective,
    fit_intercept: bool,
    curvature: Array,
    tol: float = 1e-10,
    max_iter: int = 2000,
) -> Outcome:
    """Minimise a quadratic of which only gradients are to be had: they differ by (second derivatives) x (step).

    Preconditioned by `curvature`, the second derivative in each weight.
    """
    D, C = objective.shape

    def gradient(theta: Array) -> Array:
        _, g_W, g_b = objective.loss_gradient(theta[:D], theta[D] if fit_intercept else np.zeros(C))
        return np.vstack([g_W, g_b]) if fit_intercept else g_W

    diagonal = np.append(curvature, 2.0) if fit_intercept else curvature
    constant = gradient(np.zeros((len(diagonal), C)))

    def apply(direction: Array) -> Array:
        # At unit length: the constant would drown the image of a short direction.
        size = np.sqrt((direction * direction).sum(axis=0))
        size = np.where(size > 0.0, size, 1.0)
        return size * (gradient(direction / size) - constant)

    M = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    theta, n_iter, converged = conjugate_gradients(apply, -constant, M, tol, max_iter)
    b = theta[D] if fit_intercept else np.zeros(C)
    return Outcome(theta[:D], b, n_iter, converged, f"conjugate gradients, {n_iter} iterations")
