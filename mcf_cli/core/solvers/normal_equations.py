"""One least-squares system under corruption: its terms, products with it, and how good a solution is on the data.

Weights have units of their own, powers of two that give the system a diagonal of about one: what counts as zero does
not depend on the units of a column, and no digit is lost. The objective, its l2 and the corruption's variance are
those of the weights in the units of the data.

Columns that lie far from zero are brought near it before anything is squared: E[x^2] - E[x]^2 loses (mean / spread)^2
roundings of a column's spread, so an offset of 1e8 leaves nothing of a spread of 1. After one of its own values is
subtracted from it, the column keeps all its digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, column_sums
from mcf_cli.core.solvers import Inverse, units

if TYPE_CHECKING:
    from mcf_cli.core.solvers.least_squares import QuadraticSystem

FAR = 10.0  # a mean of so many spreads costs two digits of a square, which can be spared
_ROUNDINGS = 16 * np.finfo(float).eps
_VERY_SPARSE = 0.1  # share of non-zeros below which a sparse product beats BLAS
_ENTRIES = 1 << 17  # looked at together: they stay in the cache


def brought_near(X: Any, weights: Array, among: Array | None = None) -> tuple[Any, Array]:
    """X less a reference for each column, and the references: zero, and X itself, where no column lies far out.

    `among`: the columns that may be moved, as a mask; None for all.
    A sparse column that holds a zero varies as much as its values are large, so only full ones are moved and sparse
    stays sparse. A column that varies by a few roundings of its values counts as constant: no prediction could be
    computed from it. Constant columns become exact zeros.
    """
    reference = np.zeros(X.shape[1])
    full = _full_columns(X)
    full = full if among is None else full[among[full]]
    if not len(full):
        return X, reference
    held = _entries(X, full)
    own = _middle(held, weights)
    total, squares = np.zeros(len(full)), np.zeros(len(full))
    for rows in _row_slices(*held.shape):
        part = held[rows] - own
        total += weights[rows] @ part
        part *= part
        squares += weights[rows] @ part
    mean, spread = own + total, np.sqrt(np.maximum(squares - total**2, 0.0))
    far = np.abs(mean) > FAR * spread
    reference[full[far]] = own[far]
    constant = np.zeros(X.shape[1], dtype=bool)
    constant[full] = far & (spread <= _ROUNDINGS * np.abs(own))
    _warn_of_lost(full[constant[full] & (spread > 0.0)])
    return (_moved(X, reference, constant) if far.any() else X), reference


def _warn_of_lost(columns: Array) -> None:
    """Their differences may be no more than roundings, and may be all that they have to say."""
    if len(columns):
        warnings.warn(
            f"column {columns[0]} of X varies by no more than a few roundings of its values and counts as constant: "
            "take its offset off before it is stored as a float",
            UserWarning,
            stacklevel=2,
        )


def _middle(held: Array, weights: Array) -> Array:
    """A value of each column that lies in the midst of its others: their median over a hundred rows."""
    rows = np.flatnonzero(weights > 0.0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), 101)).astype(int)]
    return np.sort(held[rows], axis=0)[len(rows) // 2]


def _full_columns(X: Any) -> Array:
    """The columns without a zero of a sparse X; all of a dense one."""
    return np.flatnonzero(X.getnnz(axis=0) == X.shape[0]) if sp.issparse(X) else np.arange(X.shape[1])


def _row_slices(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // width)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _entries(X: Any, full: Array) -> Array:
    """The full columns as an array."""
    if not sp.issparse(X):
        return X if len(full) == X.shape[1] else X[:, full]
    X = X if X.has_sorted_indices else X.sorted_indices()
    chosen = np.zeros(X.shape[1], dtype=bool)
    chosen[full] = True
    return X.data[chosen[X.indices]].reshape(X.shape[0], -1)


def _moved(X: Any, reference: Array, constant: Array) -> Any:
    if not sp.issparse(X):
        moved = X - reference
        moved[:, constant] = 0.0
        return moved
    data = X.data - reference[X.indices]
    data[constant[X.indices]] = 0.0
    return type(X)((data, X.indices, X.indptr), shape=X.shape)


def gram_matrix(X: Any, weights: Array | None = None) -> Array:
    """X' diag(weights) X, D x D; weights of one if there are none.

    A sparse product wins only on very sparse data. Everything else goes through BLAS in dense chunks of rows.

    >>> gram_matrix(np.array([[1.0, 2.0], [3.0, 4.0]]), weights=np.array([0.5, 0.5]))
    array([[ 5.,  7.],
           [ 7., 10.]])
    """
    D = X.shape[1]
    if sp.issparse(X) and X.nnz < _VERY_SPARSE * X.shape[0] * D:
        return (X.T @ (X if weights is None else X.multiply(weights[:, None]))).toarray()
    total = np.zeros((D, D))
    for start in range(0, X.shape[0], 2048):
        rows = slice(start, start + 2048)
        chunk = X[rows].toarray() if sp.issparse(X) else X[rows]
        chunk = chunk if weights is None else np.sqrt(weights[rows])[:, None] * chunk
        total += chunk.T @ chunk
    return total


@dataclass(frozen=True)
class LinearFit:
    """Weights with what the data says of them, target by target."""

    W: Array
    value: Array  # the objective
    gain: Array  # how much lower the minimum may lie
    spread: Array  # the objective of zero weights

    @property
    def settled(self) -> bool:
        """Nothing to gain but roundings: of the objective, or where the fit is perfect of the targets."""
        return bool((self.gain <= 1e-7 * self.value + 1e-18 * self.spread).all())

    def doubted(self) -> LinearFit:
        """The same weights, with no promise that they are near the minimum: all of the objective may be to gain."""
        return replace(self, gain=self.value)


class Terms:
    """The mean map C, the shift of the rows of A, the regulariser R and the unit of each weight."""

    def __init__(self, system: QuadraticSystem, corruption: Corruption, l2: float):
        self.system, self.transposed = system, system.rows.T
        D = system.X.shape[1]
        offset, self.C = corruption.mean_map(D)
        through = system.x_mean @ self.C
        self.mean = through + system.reference @ self.C + offset
        self.shift = through if system.fit_intercept else -offset
        self.R = corruption.covariance_sum(system.X, system.weights) + l2 * sp.eye_array(D, format="csr")
        self.moment = self.C.T @ system.moment
        if not system.fit_intercept:
            self.moment = self.moment + np.outer(offset, system.weights @ system.targets)
        off_diagonal = sp.coo_matrix(self.R)
        self.diagonal = not (off_diagonal.row != off_diagonal.col).any() and self.C.nnz <= D
        self.scale = self.C.diagonal()
        self.column_squares = self._column_squares(through)
        size = self.column_squares + self.R.diagonal()
        self.unit = units(size)
        self.idle = self.unit == 0.0  # weights that can do nothing for the loss
        if self.diagonal:
            self.idle |= self.column_squares == 0.0

    def _column_squares(self, through: Array) -> Array:
        """diag(A'A), roundings of what cancels taken as zero."""
        system = self.system
        if self.C.nnz <= len(through):  # the mean map is diagonal
            squares = self.scale**2 * system.squares
        else:
            squares = column_sums(system.rows @ self.C, system.weights, power=2)
        centred = squares - 2 * self.shift * through + self.shift**2
        return np.where(centred > 1e-13 * squares, centred, 0.0)

    # -- products with A ------------------------------------------------------------------------------------
    def image(self, V: Array) -> Array:
        """A V before the rows' weights: the scores of the weights V."""
        scores = self.system.rows @ (self.scale[:, None] * V if self.diagonal else self.C @ V)
        scores -= self.shift @ V
        return scores

    def adjoint(self, G: Array) -> Array:
        """The gradient in the weights of sum(G * scores)."""
        image = np.asarray(self.transposed @ G)
        image = self.scale[:, None] * image if self.diagonal else self.C.T @ image
        image -= np.outer(self.shift, G.sum(axis=0))
        return image

    def apply(self, V: Array) -> Array:
        """(A'A + R) V."""
        return self.adjoint(self.system.weights[:, None] * self.image(V)) + self.R @ V

    # -- what the data says of a solution ---------------------------------------------------------------------
    def missed(self, W: Array) -> Array:
        """What the scores of W miss of the targets."""
        return self.system.targets - self.image(W)

    def value(self, W: Array, missed: Array) -> Array:
        """Mean loss + l2 ||w||^2 of each target, Eq. final_lls: the squared error of the mean, and w'Rw."""
        squared = np.einsum("n,nc,nc->c", self.system.weights, missed, missed)
        return squared + np.einsum("dc,dc->c", W, self.R @ W)

    def downhill(self, W: Array, missed: Array) -> Array:
        """Half the negative gradient, in units."""
        slope = self.adjoint(self.system.weights[:, None] * missed) - self.R @ W
        slope *= self.unit[:, None]
        slope[self.idle] = 0.0
        return slope

    def polished(self, W: Array, inverse: Inverse) -> LinearFit:
        """Steps by the inverse that W came from, as long as they gain something."""
        best: LinearFit | None = None
        for _ in range(4):
            missed = self.missed(W)
            slope = self.downhill(W, missed)
            step = inverse(slope)
            gain = np.abs(np.einsum("dc,dc->c", slope, step))
            fit = LinearFit(W, self.value(W, missed), gain, self.system.spread)
            if best is not None and not fit.value.sum() < best.value.sum():
                break
            best = fit
            if fit.settled:
                break
            W = W + self.unit[:, None] * step
        assert best is not None
        return best

    def rotated(self) -> tuple[sp.csr_matrix, Array]:
        """R in units = V diag(r) V': V is the identity unless blocks covary."""
        D = self.R.shape[0]
        if self.diagonal:
            return sp.eye_array(D, format="csr"), self.unit**2 * self.R.diagonal()
        R = (sp.diags_array(self.unit) @ self.R @ sp.diags_array(self.unit)).tocsr()
        r = np.empty(D)
        blocks: list[Array] = []
        order: list[int] = []
        n_blocks, labels = sp.csgraph.connected_components(R, directed=False)
        for block in range(n_blocks):
            columns = np.flatnonzero(labels == block)
            values, vectors = la.eigh(R[columns][:, columns].toarray())
            r[len(order) : len(order) + len(columns)] = np.where(values > 1e-12 * values[-1], values, 0.0)
            blocks.append(vectors)
            order.extend(columns)
        V = sp.block_diag(blocks, format="csr")
        back = sp.csr_matrix((np.ones(D), (order, np.arange(D))), shape=(D, D))
        return back @ V, r

    @property
    def share(self) -> float:
        """The smallest share of R in the diagonal: the system in units has no eigenvalue below it, but for a factor."""
        r, squares = self.R.diagonal()[~self.idle], self.column_squares[~self.idle]
        return float((r / (r + squares)).min(initial=1.0))
