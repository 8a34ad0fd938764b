"""Dense rows whose values do not repeat, under blankout or dropout, with one weight per feature.

A (feature, value) pair that occurs once is not worth a number. Each entry is evaluated where it stands: value and
slope of kappa(t) = log(q + (1-q) e^u) come from one exponential, and the slopes, a matrix like X, make the gradient
and every product of a Newton step a plain product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.corruptions.elementwise import Coded
from mcf_cli.core.design.blocks import Block
from mcf_cli.core.kernels.dispatch import blankout_rows

_BLOCKS = 16  # for all rows: enough for two cores to share, whatever the classes
_FEWEST = 1024  # rows of a block
_ENTRIES = 1 << 15  # looked at together: they stay in the cache
_LOOKED_AT = 9  # columns


def hardly_repeats(X: Any, n_classes: int) -> bool:
    """Whether X is dense and half of some of its columns hold values that occur fewer than four times on average.

    With many classes of a few rows blocks would be too short to gain anything.
    """
    if sp.issparse(X) or (n_classes > 2 and 64 * n_classes > X.shape[0]):
        return False
    columns = np.unique(np.linspace(0, X.shape[1] - 1, _LOOKED_AT).astype(int))
    distinct = [len(np.unique(X[:, column])) for column in columns]
    return bool(4 * np.median(distinct) > X.shape[0])


class Room:
    """Memory for a block's slopes, made when they are first needed and left behind when the block travels."""

    def __init__(self) -> None:
        self._held = np.empty((0, 0))

    def __reduce__(self) -> tuple[type[Room], tuple[()]]:
        return Room, ()

    def like(self, X: Array) -> Array:
        if self._held.shape != X.shape:
            self._held = np.empty(X.shape)
        return self._held


@dataclass(frozen=True)
class DenseBlock(Block):
    """Rows of one class, for losses of one margin: a block without a table."""

    X: Array = field(kw_only=True)
    family: Coded = field(kw_only=True)
    room: Room = field(kw_only=True, default_factory=Room)  # until the block is evaluated again

    def sums(self, what: str, T: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The log-MGF sums, n x 1, and their pullback to T."""
        assert what == "log_mgf"
        expanded = self.expanded(T)
        return expanded.total, expanded.gradient

    def expanded(self, T: Array) -> DenseExpanded:
        """The log-MGF sums and their derivatives, in the room of the block."""
        q = np.broadcast_to(np.asarray(self.family._q(), dtype=float), len(T))
        scale = np.ascontiguousarray(np.broadcast_to(self.family.survivor(q), len(T)))
        sums = np.empty(len(self.X))
        slope = self.room.like(self.X)
        blankout_rows(self.X, np.ascontiguousarray(T[:, 0]), scale, q, slope, sums)
        return DenseExpanded(self.X, scale, slope, sums[:, None])


@dataclass(frozen=True)
class DenseExpanded:
    """What `Expanded` is for a `Block`."""

    X: Array
    scale: Array  # u = t x scale
    slope: Array
    total: Array

    def along(self, V: Array) -> Array:
        """The change of the sums when T changes by V."""
        return self.slope @ V

    def gradient(self, G: Array) -> Array:
        """The gradient in T of sum(G * sums)."""
        return self.slope.T @ G

    def derivatives(self, G: Array, C: Array) -> tuple[Array, Array, Array]:
        """Of sum(G * sums): gradient and diagonal second derivative; and sum_n C_n (d sums_n / d T)^2."""
        width = len(self.scale)
        bend, squares = np.zeros(width), np.zeros(width)
        step = max(1, _ENTRIES // max(width, 1))
        for start in range(0, len(self.X), step):
            rows = slice(start, start + step)
            slope = self.slope[rows]
            square = slope * slope
            squares += C[rows, 0] @ square
            curvature = self.X[rows] * self.scale  # with the sigmoid s: u^2 s (1 - s), the slope being u s
            curvature *= slope
            curvature -= square
            bend += G[rows, 0] @ curvature
        return self.gradient(G), bend[:, None], squares[:, None]

    def add_bent(self, image: Array, V: Array, bend: Array) -> None:
        """Add the second derivative of sum(G * sums), whose diagonal is `bend`, times a change V of T."""
        image += bend * V


class DenseDesign:
    """The rows of a dense X in blocks; the parameters of the corruption may change freely."""

    def __init__(self, X: Array, labels: Array):
        size = max(_FEWEST, -(-len(X) // _BLOCKS))
        self._layout: list[tuple[Array, int, Array, Room]] = []
        for label in np.unique(labels):
            of_class = np.flatnonzero(labels == label)
            for start in range(0, len(of_class), size):
                rows = of_class[start : start + size]
                self._layout.append((rows, int(label), np.ascontiguousarray(X[rows]), Room()))

    def blocks(self, corruption: Coded) -> list[Block]:
        """The blocks with the corruption's current parameters."""
        return [
            DenseBlock(rows, label, slice(None), [], X=X, family=corruption, room=room)
            for rows, label, X, room in self._layout
        ]
