"""What a marginalised loss is: a value and gradient for one block of rows at a time, from one pass.

Weights are W, D x C, with one column when there are two classes (the scores are then 0 and w.x) and K otherwise; b
holds the biases. A margin loss, any function of log-MGF sums, gets its second derivative here as well. `objective`
adds up the blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.blocks import Block, Expanded, dot, row_sum
from mcf_cli.core.design.dense import DenseBlock, DenseExpanded

BlockResult = tuple[float, Array, Array]  # value, gradient in W (the block's columns) and in b
# Gradients in W and b; second derivative: diagonal, all.
Derivatives = tuple[Array, Array, Array, "SecondDerivative"]


class Loss(ABC):
    """One marginalised loss for K classes (K = 0: regression)."""

    grouped = True  # needs blocks that hold a single class
    entrywise = False  # needs rows with weights of their own
    uses_class_means = False  # has a term that is linear in the class means
    shifts = True  # a shift of all classes' weights changes nothing; of all biases it never does
    unbounded = False  # a term that corrects for wrong labels leaves single examples without a least loss

    def __init__(self, n_classes: int):
        self.n_classes = n_classes
        self.binary = n_classes == 2
        self.n_columns = 1 if n_classes <= 2 else n_classes

    @property
    def width(self) -> int:
        """Columns of T that a block evaluates at a time."""
        return self.n_columns

    codes: Array | None = (
        None  # K x C; the weights of class y's margin are -W codes_y, where it is a single one
    )
    lifted = False  # works on a feature for each (feature, class): one block serves all classes

    def lift(self, W: Array) -> Array:
        """The weights that the blocks see: W itself, or row y D + d holds the margin of feature d in class y."""
        if not self.lifted:
            return W
        if self.binary:  # codes -1 and +1
            V = np.empty((2, len(W)))
            V[0] = W[:, 0]
            np.negative(W[:, 0], out=V[1])
            return V.reshape(-1, 1)
        return -(self._codes @ W.T).reshape(-1, 1)

    def unlift(self, G: Array) -> Array:
        """The adjoint of `lift`."""
        if not self.lifted:
            return G
        G = G.reshape(self.n_classes, -1)
        return (G[0] - G[1])[:, None] if self.binary else -(G.T @ self._codes)

    def unlift_squares(self, H: Array) -> Array:
        """The same for the diagonal of a second derivative."""
        return H.reshape(self.n_classes, -1).T @ self._codes**2 if self.lifted else H

    @property
    def _codes(self) -> Array:
        assert self.codes is not None
        return self.codes

    def widest(self, W: Array) -> Array:
        """The largest |T| of each feature."""
        return np.abs(W).max(axis=1)

    def scale(self, value: float) -> float:
        """The root of what a decrease is small against where the objective is `value`: the objective itself, at most 1.

        Below 1e-20 it counts as zero: without l2 separable rows have no minimum. A loss that may be negative is
        measured against 1.
        """
        return 1.0 if self.unbounded else float(np.sqrt(np.clip(value, 1e-20, 1.0)))

    def stiffest(self, value: float) -> float:
        """About the largest second derivative in the scores, in the mean over examples, where the objective is `value`.

        For a logistic loss p (1 - p), which is below both 1/4 and the loss.
        """
        return 0.25 if self.unbounded else float(np.clip(value, 1e-20, 0.25))

    def settle(self, batches: list[Batch], W: Array, b: Array) -> Any:
        """What has to be known of all blocks before each is evaluated (a shared lambda)."""
        return None

    @abstractmethod
    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        """Value and gradients of one block, from one pass over it."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A block with its rows' weights (which sum to 1 over all blocks) and targets."""

    block: Block
    weight: Array
    target: Array
    plain: Array | None = None  # weights of a plain loss at the mean of the rows (`Decomposed`)

    @cached_property
    def column(self) -> Any:
        """The weights as a factor of rows: one number when all are alike, which multiplies faster."""
        alike = len(self.weight) > 0 and (self.weight == self.weight[0]).all()
        return self.weight[0] if alike else self.weight[:, None]


class SecondDerivative(Protocol):
    """The second derivative of a block's loss at one point."""

    @property
    def batch(self) -> Batch:
        """The block with its weights."""

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        """Its product with a change (V, v_b) of the weights and biases."""

    @property
    def alone(self) -> Array:
        """The part of its diagonal that couples no two weights."""

    @property
    def bias_diagonal(self) -> Array:
        """Its diagonal in the biases."""


class TwiceDifferentiable(Loss):
    """A loss that Newton's method can minimise."""

    def differentiates(self, batch: Batch) -> bool:
        """Whether it can on these rows."""
        return True

    def affords(self, batches: list[Batch]) -> bool:
        """Whether it can on all of these."""
        return all(map(self.differentiates, batches))

    @abstractmethod
    def expand(self, batch: Batch, W: Array, b: Array) -> tuple[float, Callable[[], Derivatives]]:
        """The value, and both derivatives for the asking: a step that is not taken needs its value alone."""


class MarginLoss(TwiceDifferentiable):
    """A loss phi(s) of the log-MGF sums s = sum_d kappa_d(T_d) + margins of b, with T = margins(W).

    T is linear in W; which map it is, and phi, make the loss. Both derivatives follow here, so that L-BFGS and
    Newton's method see the same formulas.
    """

    @abstractmethod
    def margins(self, W: Array, y: int | None) -> Array:
        """The weights T at which a block of class y evaluates kappa, from W with its C columns."""

    @abstractmethod
    def from_margins(self, G: Array, y: int | None) -> Array:
        """The adjoint of `margins`: a gradient in W from one in T."""

    @abstractmethod
    def squares_from_margins(self, H: Array, y: int | None) -> Array:
        """The same for the diagonal of a second derivative, cross terms left out."""

    @abstractmethod
    def phi(self, batch: Batch, s: Array) -> tuple[Array, Array]:
        """Values (n) and gradients in s (n x J), without the rows' weights. May overwrite s."""

    @abstractmethod
    def respond(self, G: Array, ds: Array) -> Array:
        """The change of the gradient G when s changes by ds. May overwrite ds."""

    @abstractmethod
    def stiffness(self, G: Array) -> Array:
        """The diagonal of the second derivative of phi."""

    def values(self, batch: Batch, W: Array, b: Array) -> Array:
        """The loss of each row."""
        y = batch.block.label
        s, _ = batch.block.sums("log_mgf", self.margins(W, y))
        return self.phi(batch, s + self.margins(b[None], y))[0]

    def on_block(self, batch: Batch, W: Array, b: Array, settled: Any) -> BlockResult:
        y = batch.block.label
        s, pullback = batch.block.sums("log_mgf", self.margins(W, y))
        s += self._biases(batch, b)
        value, G = self.phi(batch, s)
        G *= batch.column
        return dot(batch.weight, value), self.from_margins(pullback(G), y), self._to_biases(batch, G)

    def _biases(self, batch: Batch, b: Array) -> Array:
        """The margins of the biases, one for all rows or one for each."""
        if not self.lifted:
            return self.margins(b[None], batch.block.label)
        return np.take(self.lift(b[None]), batch.target, axis=0)

    def _to_biases(self, batch: Batch, G: Array) -> Array:
        """The adjoint of `_biases`."""
        if not self.lifted:
            return self.from_margins(row_sum(G)[None], batch.block.label)[0]
        return self.unlift(np.bincount(batch.target, G[:, 0], self.n_classes)[:, None])[0]

    def expand(self, batch: Batch, W: Array, b: Array) -> tuple[float, Callable[[], Derivatives]]:
        y = batch.block.label
        block, T = batch.block, self.margins(W, y)
        sums = block.expanded(T) if isinstance(block, DenseBlock) else Expanded(block, T)
        value, G = self.phi(batch, sums.total + self._biases(batch, b))

        def derivatives() -> Derivatives:
            stiffness = self.stiffness(G) * batch.column
            gradient, bend, squares = sums.derivatives(G * batch.column, stiffness)
            squares += bend
            g_W, g_b = self.from_margins(gradient, y), self._to_biases(batch, G * batch.column)
            diagonal = self.squares_from_margins(squares, y)
            return g_W, g_b, diagonal, BlockHessian(self, batch, sums, G, bend, stiffness)

        return dot(batch.weight, value), derivatives


@dataclass(frozen=True)
class BlockHessian:
    """The second derivative of a block's loss at one point."""

    loss: MarginLoss
    batch: Batch
    sums: Expanded | DenseExpanded
    G: Array
    bend: Array  # the diagonal of sum_n G_n kappa'', like T
    stiffness: Array

    def product(self, V: Array, v_b: Array) -> tuple[Array, Array]:
        """Its product with a change (V, v_b) of the weights and biases."""
        y = self.batch.block.label
        T = self.loss.margins(V, y)
        ds = self.sums.along(T)
        ds += self.loss._biases(self.batch, v_b)
        dG = self.loss.respond(self.G, ds)
        dG *= self.batch.column
        image = self.sums.gradient(dG)
        self.sums.add_bent(image, T, self.bend)
        return self.loss.from_margins(image, y), self.loss._to_biases(self.batch, dG)

    @property
    def alone(self) -> Array:
        return self.loss.squares_from_margins(self.bend, self.batch.block.label)

    @property
    def bias_diagonal(self) -> Array:
        loss, batch = self.loss, self.batch
        if not loss.lifted:
            return loss.squares_from_margins(row_sum(self.stiffness)[None], batch.block.label)[0]
        by_class = np.bincount(batch.target, self.stiffness[:, 0], loss.n_classes)
        return loss.unlift_squares(by_class[:, None])[0]
