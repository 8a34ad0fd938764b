"""FDROP (Globerson & Roweis 2006): the hinge loss when an adversary deletes up to ``deletions`` features.

For an example of class y the adversary picks, for every competing class k, the features whose deletion
hurts most: those with the largest positive contributions (w_yd - w_kd) x_d. With T_m(c) the sum of the m
largest positive entries of c, the objective is

    mean_n max(0, max_{k != y} [1 - (f_y - f_k) + T_m((w_y - w_k) * x)]) + l2 ||W||^2,   f_k = w_k.x + b_k

and, with two classes coded -1/+1,

    mean_n max(0, 1 - y (w.x + b) + T_m(y w * x)) + l2 ||w||^2.

The bias is never deleted and never regularised; ``deletions=0`` is the (Crammer-Singer) hinge loss.

    Fdrop(X, y).solve(l2=1e-4, deletions=10) -> Solution

The objective is a maximum of linear functions, so it is convex but has kinks everywhere. It is minimised by
mini-batch subgradient steps with a step length of its own for each weight (AdaGrad: Duchi, Hazan & Singer
2011), and the answer is a running average of the iterates that forgets the early ones. On all of MNIST a pass
takes one to three seconds on one core, a fraction of that with numba, and sixteen to sixty-four passes are enough.
``seed`` orders the examples.

A budget that outweighs every margin makes W = 0 the optimum: on MNIST 10 pixels still learn, 25 do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mcf_cli.core.kernels.dispatch import canonical, check_size, compiled_loop, unsigned
from mcf_cli.core.problem import Solution

BATCH = 256

# The average weighs iterate t like t^AVERAGING: enough to forget the start, not so much as to keep the noise.
AVERAGING = 8
TINY = 1e-12  # keeps 0/0 of a feature that never occurs at 0
FEWEST = 8  # passes before a doubling that gained nothing means anything


def compiled_worst_case(X: sparse.csr_matrix) -> Any:
    """The same sums as below, an example at a time; None without numba, or for indices beyond its loop's."""
    if X.indices.dtype != np.int32:
        return None
    return compiled_loop("mcf_cli.baselines.fdrop_loops", "worst_case")


@dataclass(frozen=True)
class BatchRows:
    """A batch of examples, non-zeros packed to the left: (B, P) columns and values, padded with 0."""

    columns: np.ndarray
    values: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, X: sparse.csr_matrix, labels: np.ndarray, rows: np.ndarray) -> BatchRows:
        starts = X.indptr[rows]
        lengths = X.indptr[rows + 1] - starts
        inside = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
        places = (starts[:, None] + np.arange(inside.shape[1]))[inside]
        columns = np.zeros(inside.shape, dtype=np.intp)
        values = np.zeros(inside.shape)
        columns[inside] = X.indices[places]
        values[inside] = X.data[places]
        return cls(columns, values, labels[rows])


def largest_positive_sum(contributions: np.ndarray, count: int) -> np.ndarray:
    """T_m: the sum of the ``count`` largest positive entries of every row."""
    width = contributions.shape[1]
    if count <= 0:
        return np.zeros(len(contributions))
    if count < width:
        contributions = np.partition(contributions, width - count, axis=1)[:, width - count :]
    return np.maximum(contributions, 0.0).sum(axis=1)


def worst_deletion(contributions: np.ndarray, count: int) -> np.ndarray:
    """The mask of the features that the adversary deletes from every row: the arguments of T_m."""
    mask = contributions > 0
    width = contributions.shape[1]
    if count < width:
        chosen = np.zeros_like(mask)
        if count > 0:
            places = np.argpartition(contributions, width - count, axis=1)[:, width - count :]
            np.put_along_axis(chosen, places, True, axis=1)
        mask &= chosen
    return mask


def worst_case_loss(
    batch: BatchRows, weights: np.ndarray, bias: np.ndarray, deletions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The loss of every example, its worst competitor (its own class when the loss is 0), and what survives.

    The third result is the (B, P) array of feature values left after the worst deletion for that competitor.
    """
    everyone = np.arange(len(batch.labels))
    own = weights.ravel()[batch.labels[:, None] * weights.shape[1] + batch.columns]
    loss = np.zeros(len(everyone))
    worst = batch.labels.copy()
    for competitor in range(len(weights)):
        contributions = (own - weights[competitor][batch.columns]) * batch.values
        margin = contributions.sum(axis=1) + bias[batch.labels] - bias[competitor]
        violation = 1.0 - margin + largest_positive_sum(contributions, deletions)
        ahead = (violation > loss) & (batch.labels != competitor)
        loss[ahead] = violation[ahead]
        worst[ahead] = competitor
    against = weights.ravel()[worst[:, None] * weights.shape[1] + batch.columns]
    deleted = worst_deletion((own - against) * batch.values, deletions)
    return loss, worst, np.where(deleted, 0.0, batch.values)


def loss_gradient(
    batch: BatchRows, weights: np.ndarray, bias: np.ndarray, deletions: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean worst-case loss over the batch and a subgradient in the (K, D) weights and the (K,) bias."""
    loss, worst, kept = worst_case_loss(batch, weights, bias, deletions)
    count, width = kept.shape
    pull = np.zeros((count, len(weights)))
    pull[np.arange(count), worst] += 1.0 / count
    pull[np.arange(count), batch.labels] -= 1.0 / count
    survivors = sparse.csr_matrix(
        (kept.ravel(), batch.columns.ravel(), np.arange(0, count * width + 1, width)),
        shape=(count, weights.shape[1]),
    )
    return float(loss.mean()), (survivors.T @ pull).T, pull.sum(axis=0)


class Fdrop:
    """The FDROP problem on one training set: ``X`` dense or sparse, ``y`` codes 0..K-1."""

    def __init__(
        self,
        X: np.ndarray | sparse.spmatrix,
        y: np.ndarray,
        n_classes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.X = sparse.csr_matrix(canonical(X))
        check_size(self.X.data, "X")
        self.y = np.asarray(y, dtype=np.int64)
        self.n_classes = n_classes or int(self.y.max()) + 1
        if len(self.y) != self.X.shape[0] or not ((self.y >= 0) & (self.y < self.n_classes)).all():
            raise ValueError(f"y must hold a code from 0 to {self.n_classes - 1} for each row of X")
        self.seed = seed

    def solve(
        self,
        l2: float,
        deletions: int,
        *,
        start: Solution | None = None,
        max_iter: int = 64,
        tol: float = 5e-3,
    ) -> Solution:
        """Minimise for an adversary with a budget of ``deletions``; an iteration is one pass over the data.

        The whole objective is evaluated after 1, 2, 4, 8, ... passes. Converged means that the last doubling
        changed it by less than ``tol`` of its value: the error of the method shrinks like 1/sqrt(passes), so
        what a doubling gains is about what is left to gain. A start is kept where nothing better is found.
        """
        if deletions < 0:
            raise ValueError(f"deletions must be 0 or more, not {deletions}")
        point = self._start(start)
        walk = AveragedAdaGrad(point, length=1.0 / self._example_norm())
        best, value = point, self.objective(point, l2, deletions)
        rng = np.random.default_rng(self.seed)
        passes, converged, last = 0, False, np.inf
        for target in doublings(max_iter):
            for _ in range(target - passes):
                for rows in self._batches(rng):
                    walk.step(self._gradient(rows, walk.point, l2, deletions))
            passes = target
            candidate = self.objective(walk.average, l2, deletions)
            if candidate < value:
                best, value = walk.average.copy(), candidate
            converged = passes >= FEWEST and abs(last - candidate) <= tol * candidate
            if converged:
                break
            last = candidate
        message = "the objective settled" if converged else f"still falling after {passes} passes"
        return Solution(best[:, :-1].copy(), best[:, -1].copy(), value, passes, converged, message)

    def objective(self, point: np.ndarray, l2: float, deletions: int) -> float:
        """The exact objective at ``point``: (1 or K, D + 1), weights and then the bias."""
        weights, bias = self._per_class(point)
        everyone, total = np.arange(len(self.y)), 0.0
        if loop := compiled_worst_case(self.X):
            nothing = np.empty((0, 0)), np.empty(0)
            total = loop(*self._entries, everyone, weights, bias, deletions, 0.0, *nothing)
        else:
            for rows in np.array_split(everyone, -(-len(self.y) // BATCH)):
                total += worst_case_loss(BatchRows.of(self.X, self.y, rows), weights, bias, deletions)[
                    0
                ].sum()
        return float(total / len(self.y) + l2 * np.sum(point[:, :-1] ** 2))

    def _gradient(self, rows: np.ndarray, point: np.ndarray, l2: float, deletions: int) -> np.ndarray:
        weights, bias = self._per_class(point)
        if loop := compiled_worst_case(self.X):
            by_weights, by_bias = np.zeros_like(weights), np.zeros_like(bias)
            loop(*self._entries, rows, weights, bias, deletions, 1.0 / len(rows), by_weights, by_bias)
        else:
            _, by_weights, by_bias = loss_gradient(
                BatchRows.of(self.X, self.y, rows), weights, bias, deletions
            )
        gradient = np.column_stack([by_weights, by_bias])
        if len(point) == 1:
            gradient = (gradient[1:] - gradient[:1]) / 2.0
        gradient[:, :-1] += 2.0 * l2 * point[:, :-1]
        return gradient

    @property
    def _entries(self) -> tuple[np.ndarray, ...]:
        return unsigned(self.X.indptr), unsigned(self.X.indices), self.X.data, self.y

    def _per_class(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and bias for each class; one binary row w becomes (-w/2, w/2), whose difference is w."""
        full = np.vstack([-point, point]) / 2.0 if len(point) == 1 else point
        return np.ascontiguousarray(full[:, :-1]), np.ascontiguousarray(full[:, -1])

    def _start(self, start: Solution | None) -> np.ndarray:
        if start is not None:
            return np.column_stack([start.coef, start.intercept])
        return np.zeros((1 if self.n_classes == 2 else self.n_classes, self.X.shape[1] + 1))

    def _batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        count = len(self.y)
        size = min(BATCH, max(32, count // 64))
        return np.array_split(rng.permutation(count), -(-count // size))

    def _example_norm(self) -> float:
        """Root mean square length of an example: its inverse is the natural scale of the weights."""
        return float(np.sqrt(self.X.multiply(self.X).sum() / len(self.y))) or 1.0


class AveragedAdaGrad:
    """Steps of ``length`` over the root of each weight's summed squared gradients, and a running average."""

    def __init__(self, point: np.ndarray, length: float) -> None:
        self.point, self.average = point, point
        self.length = length
        self.squares = np.zeros_like(point)
        self.steps = 0

    def step(self, gradient: np.ndarray) -> None:
        self.squares += gradient**2
        self.point = self.point - self.length * gradient / np.sqrt(self.squares + TINY)
        self.steps += 1
        share = (AVERAGING + 1) / (self.steps + AVERAGING)
        self.average = self.average + share * (self.point - self.average)


def doublings(limit: int) -> list[int]:
    """1, 2, 4, ... and ``limit`` itself at the end."""
    powers = [2**k for k in range(max(1, limit).bit_length()) if 2**k < limit]
    return [*powers, limit] if limit > 0 else []
