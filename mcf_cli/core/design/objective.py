"""What an optimiser sees: the losses of all blocks and the l2 term, with gradient and second derivative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.kernels.dispatch import add_at
from mcf_cli.core.kernels.threads import a_few_at_a_time
from mcf_cli.core.losses.base import Batch, BlockResult, Loss, SecondDerivative, TwiceDifferentiable


class Minimand:
    """What a minimiser sees of an objective, besides its derivatives at a point."""

    def __init__(self, loss: Loss, l2: float, limit: Array | None, shape: tuple[int, int]):
        """limit: what log-MGFs can be taken at, feature by feature; None where they exist everywhere."""
        self.loss, self.l2, self.limit, self.shape = loss, l2, limit, shape

    def inside(self, W: Array) -> bool:
        """The objective is finite at W."""
        return self.limit is None or bool((self.loss.widest(W) < self.limit).all())

    @property
    def flat_rows(self) -> slice:
        """The rows of weights, with the biases below them, where a shift of all classes changes no loss."""
        if self.shape[1] == 1:
            return slice(0, 0)
        return slice(None) if self.loss.shifts else slice(-1, None)

    def loss_gradient(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        """Value, gradient in W (D x C) and gradient in b (C)."""
        raise NotImplementedError


class Objective(Minimand):
    """Weighted mean loss + l2 ||W||^2 over all blocks; the one thing that an optimiser sees."""

    def __init__(
        self,
        loss: Loss,
        batches: list[Batch],
        l2: float,
        class_means: Array | None,
        n_features: int,
        limit: Array | None = None,
    ):
        """class_means: sum_n weight_n E[x~_n] by class, D x K, with the class weights below (D + 1 rows)."""
        super().__init__(loss, l2, limit, (n_features, loss.n_columns))
        self.batches, self.class_means = batches, class_means

    def loss_gradient(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        W = np.ascontiguousarray(W)  # once, not for every chunk of a table
        settled, V = self.loss.settle(self.batches, W, b), self.loss.lift(W)

        def on_block(batch: Batch) -> BlockResult:
            return self.loss.on_block(batch, _of(batch, V), b, settled)

        value, total = 0.0, _Sum(self, V.shape)
        for batch, (share, *gradients) in zip(
            self.batches, a_few_at_a_time(on_block, self.batches), strict=True
        ):
            value += share
            total.add(batch, *gradients)
        return value + self._beside(W, b), *total.gradient(W)

    def value(self, W: Array, b: Array) -> float:
        """The value alone; infinite outside of what a corruption allows."""
        return self.loss_gradient(W, b)[0] if self.inside(W) else np.inf

    def expand(self, W: Array, b: Array) -> tuple[float, Callable[[], tuple[Array, Array, Hessian]]]:
        """The value, and for the asking the gradients in W and b and the second derivative."""
        assert isinstance(self.loss, TwiceDifferentiable)
        W = np.ascontiguousarray(W)
        loss, V = self.loss, self.loss.lift(W)
        expanded = list(a_few_at_a_time(lambda batch: loss.expand(batch, _of(batch, V), b), self.batches))

        def derivatives() -> tuple[Array, Array, Hessian]:
            total, diagonal, hessians = _Sum(self, V.shape), None, []
            made = a_few_at_a_time(lambda pending: pending[1](), expanded)
            for batch, (g_V, g_b, share, hessian) in zip(self.batches, made, strict=True):
                total.add(batch, g_V, g_b)
                diagonal = _added(diagonal, share, batch.block.columns, V.shape)
                hessians.append(hessian)
            assert diagonal is not None
            return *total.gradient(W), Hessian(loss, hessians, diagonal, self.l2)

        return sum(value for value, _ in expanded) + self._beside(W, b), derivatives

    @property
    def has_hessian(self) -> bool:
        """Newton's method can use its second derivative."""
        return isinstance(self.loss, TwiceDifferentiable) and self.loss.affords(self.batches)

    def _beside(self, W: Array, b: Array) -> float:
        """The value of the terms that belong to no block."""
        value = self.l2 * float(np.vdot(W, W)) if self.l2 else 0.0
        if self.class_means is not None:
            value -= float(np.vdot(self.class_means[:-1], W)) + float(self.class_means[-1] @ b)
        return value


class _Sum:
    """The gradient of an objective as its blocks come in."""

    def __init__(self, objective: Objective, shape: tuple[int, ...]):
        self.objective, self.shape = objective, shape  # of the weights that the blocks see
        self.g_V: Array | None = None
        self.g_b: Array = np.zeros(())

    def add(self, batch: Batch, g_V: Array, g_b: Array) -> None:
        self.g_V = _added(self.g_V, g_V, batch.block.columns, self.shape)
        self.g_b = self.g_b + g_b

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """With the terms that belong to no block."""
        objective = self.objective
        assert self.g_V is not None
        g_W = objective.loss.unlift(self.g_V)
        if objective.class_means is not None:
            g_W -= objective.class_means[:-1]
            self.g_b -= objective.class_means[-1]
        if objective.l2:
            g_W += (2.0 * objective.l2) * W
        return g_W, self.g_b


class Hessian:
    """The second derivative of an objective at one point, until the objective is evaluated again."""

    def __init__(self, loss: TwiceDifferentiable, blocks: list[SecondDerivative], diagonal: Array, l2: float):
        self.loss, self.blocks, self.l2 = loss, blocks, l2
        self._diagonal = diagonal  # of the blocks, in the weights that they see

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        """Its product with a change (V, v_b) of weights and biases."""
        lifted, total, total_b = self.loss.lift(V), None, np.zeros_like(v_b)
        products = a_few_at_a_time(lambda block: block.product(_of(block.batch, lifted), v_b), self.blocks)
        for block, (share, share_b) in zip(self.blocks, products, strict=True):
            total = _added(total, share, block.batch.block.columns, lifted.shape)
            total_b += share_b
        assert total is not None
        total = self.loss.unlift(total)
        if self.l2:
            total += (2.0 * self.l2) * V
        return total, total_b

    def alone(self) -> Array:
        """The part of the diagonal that couples no two weights: l2, and the second derivatives of log-MGFs."""
        total = None
        for block in self.blocks:
            total = _added(total, block.alone, block.batch.block.columns, self._diagonal.shape)
        assert total is not None
        return self.loss.unlift_squares(total) + 2.0 * self.l2

    def diagonal(self) -> tuple[Array, Array]:
        """An estimate of its diagonal, never below zero."""
        of_b = sum(block.bias_diagonal for block in self.blocks)
        return np.maximum(self.loss.unlift_squares(self._diagonal) + 2.0 * self.l2, 0.0), np.asarray(of_b)


def _of(batch: Batch, W: Array) -> Array:
    """The rows of W that a block needs."""
    columns = batch.block.columns
    return W if isinstance(columns, slice) else np.take(W, columns, axis=0)


def _added(total: Array | None, share: Array, columns: Array | slice, shape: tuple[int, ...]) -> Array:
    """total[columns] += share; the first share of all columns becomes the total, in the order of memory of `add_at`."""
    if isinstance(columns, slice):
        return np.ascontiguousarray(share) if total is None else np.add(total, share, out=total)
    total = np.zeros(shape) if total is None else total
    add_at(total, columns, share)
    return total
