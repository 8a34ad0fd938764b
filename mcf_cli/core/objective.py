"""What an optimiser sees: the losses of all blocks and the l2 term, with gradient and second derivative."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcf_cli.core.families import Array
from mcf_cli.core.kernels import a_few_at_a_time
from mcf_cli.core.losses import Batch, BlockHessian, BlockResult, Loss, MarginLoss


class Objective:
    """Weighted mean loss + l2 ||W||^2 over all blocks; the one thing that an optimiser sees."""

    def __init__(
        self, loss: Loss, batches: list[Batch], l2: float, class_means: Array | None, n_features: int
    ):
        """class_means: sum_n weight_n E[x~_n] by class, D x K, with the class weights below (D + 1 rows)."""
        self.loss, self.batches, self.l2, self.class_means = loss, batches, l2, class_means
        self.shape = (n_features, loss.n_columns)
        self.lifted_shape = (n_features * loss.n_classes, 1) if loss.lifted else self.shape

    def loss_gradient(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        """Value, gradient in W (D x C) and gradient in b (C)."""
        settled, V = self.loss.settle(self.batches, W, b), self.loss.lift(W)

        def on_block(batch: Batch) -> tuple[Array | slice, BlockResult]:
            return batch.block.columns, self.loss.on_block(batch, _of(batch, V), b, settled)

        return self._total(a_few_at_a_time(on_block, self.batches), W, b)

    def value(self, W: Array, b: Array) -> float:
        """The value alone."""
        return self.loss_gradient(W, b)[0]

    def expand(self, W: Array, b: Array) -> tuple[float, Array, Array, Hessian]:
        """As `loss_gradient`, with the second derivative."""
        assert isinstance(self.loss, MarginLoss)
        loss, hessians, V = self.loss, [], self.loss.lift(W)

        def blocks() -> Iterator[tuple[Array | slice, BlockResult]]:
            expanded = a_few_at_a_time(lambda batch: loss.expand(batch, _of(batch, V), b), self.batches)
            for batch, (result, hessian) in zip(self.batches, expanded, strict=True):
                hessians.append(hessian)
                yield batch.block.columns, result

        total = self._total(blocks(), W, b)
        return *total, Hessian(loss, hessians, self.l2, self.shape)

    @property
    def has_hessian(self) -> bool:
        """Newton's method can be used: a margin loss, and corruptions that know their second derivative."""
        if not isinstance(self.loss, MarginLoss):
            return False
        families = (family for batch in self.batches for _, family in batch.block.parts)
        return not any(family.couples_features for family in families)

    def _total(
        self, blocks: Iterator[tuple[Array | slice, BlockResult]], W: Array, b: Array
    ) -> tuple[float, Array, Array]:
        """The sum over the blocks, with the terms that belong to no block."""
        value, g_V, g_b = 0.0, None, np.zeros_like(b)
        for columns, (v, share, share_b) in blocks:
            g_V = _added(g_V, share, columns, self.lifted_shape)
            value += v
            g_b += share_b
        assert g_V is not None
        g_W = self.loss.unlift(g_V)
        if self.class_means is not None:
            means, weights = self.class_means[:-1], self.class_means[-1]
            value -= float(np.vdot(means, W)) + float(weights @ b)
            g_W -= means
            g_b -= weights
        if self.l2:
            value += self.l2 * float(np.vdot(W, W))
            g_W += (2.0 * self.l2) * W
        return value, g_W, g_b


class Hessian:
    """The second derivative of an objective at one point, until the objective is evaluated again."""

    def __init__(self, loss: MarginLoss, blocks: list[BlockHessian], l2: float, shape: tuple[int, int]):
        self.loss, self.blocks, self.l2, self.shape = loss, blocks, l2, shape

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

    def diagonal(self) -> tuple[Array, Array]:
        """An estimate of its diagonal, never below zero."""
        K = self.loss.n_classes
        total, total_b = None, np.zeros(self.shape[1])
        for block in self.blocks:
            shape = (self.shape[0] * K, 1) if self.loss.lifted else self.shape
            total = _added(total, block.diagonal.copy(), block.batch.block.columns, shape)
            total_b += block.bias_diagonal
        assert total is not None
        return np.maximum(self.loss.unlift_squares(total) + 2.0 * self.l2, 0.0), total_b


def _of(batch: Batch, W: Array) -> Array:
    """The rows of W that a block needs."""
    columns = batch.block.columns
    return W if isinstance(columns, slice) else W[columns]


def _added(total: Array | None, share: Array, columns: Array | slice, shape: tuple[int, int]) -> Array:
    """total[columns] += share; the first share of all columns becomes the total."""
    if isinstance(columns, slice):
        return share if total is None else np.add(total, share, out=total)
    total = np.zeros(shape) if total is None else total
    total[columns] += share
    return total
