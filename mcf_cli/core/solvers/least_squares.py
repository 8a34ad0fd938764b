"""The closed form of the quadratic loss: least squares under corruption, for columns of any scale and any offset.

Columns are brought near zero before they are squared (`brought_near`), every system is solved in units that give it a
diagonal of about one (`normal_equations`), and every solution is checked against the data: it has converged when its
gradient promises no more than a rounding of the objective.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, column_sums
from mcf_cli.core.solvers import (
    Inverse,
    Outcome,
    conjugate_gradients,
    inverse_root,
    symmetric_inverse,
    triangular,
    without,
)
from mcf_cli.core.solvers.normal_equations import LinearFit, Terms, brought_near, gram_matrix

_EPS = float(np.finfo(float).eps)
_FREE = 1e-12  # a regulariser below this share of the diagonal is none: in the dual it would drown all others
SMALL = 4096  # columns: a factor of them all takes 128 MB
_BLAS = 10.0  # operations of a factorisation in the time of one of a sparse product


class QuadraticSystem:
    """Least squares under corruption, Eq. optimal_w_lls, for many corruptions and l2 on the same data.

    With weights u_n^2 that sum to 1, mean m_n = x_n C + offset and R = sum_n u_n^2 Cov[x~_n] + l2 I, the solution is
    W = (A'A + R)^-1 A'Y with rows A_n = u_n (m_n - mean). The Gram matrix of X is made once; only C and R change.
    """

    def __init__(self, X: Any, Y: Array, weights: Array, fit_intercept: bool):
        if not weights.all():
            kept = np.flatnonzero(weights)
            X, Y, weights = X[kept], Y[kept], weights[kept]
        self.X, self.weights, self.fit_intercept = X, weights, fit_intercept
        self.rows, self.reference = X, np.zeros(X.shape[1])  # X = rows + reference
        self.y_mean, self.targets = np.zeros(Y.shape[1]), Y
        if fit_intercept:
            self.rows, self.reference = brought_near(X, weights)
            self.y_mean = weights @ Y
            rest = weights @ (Y - self.y_mean)  # what rounding left in the mean
            self.y_mean, self.targets = self.y_mean + rest, Y - self.y_mean - rest
        self.x_mean = column_sums(self.rows, weights)
        self.moment = np.asarray(self.rows.T @ (weights[:, None] * self.targets))
        self.spread = weights @ self.targets**2  # the objective of zero weights, target by target

    @property
    def without_weights(self) -> Outcome:
        """Zero weights and the best biases: what a system beyond repair ends with."""
        W = np.zeros(self.moment.shape)
        message = "singular to working precision: scale the data or raise l2"
        return Outcome(W, self.y_mean.copy(), 0, False, message, float(self.spread.sum()))

    @cached_property
    def squares(self) -> Array:
        """The diagonal of the Gram matrix."""
        return column_sums(self.rows, self.weights, power=2)

    @cached_property
    def gram(self) -> Array:
        """rows' diag(weights) rows, D x D."""
        return gram_matrix(self.rows, self.weights)

    def outer(self, F: sp.csr_matrix) -> Array:
        """B B' with the rows B_n = u_n x_n F, N x N. Multiples of the identity on what X holds share one product."""
        held = np.diff(F.indptr)
        alike = F.nnz == F.shape[1] == held.sum() == held.astype(bool).sum() and (F.data == F.data[:1]).all()
        if F.nnz and alike and F.nnz == len(np.unique(F.indices)) and not self.squares[held == 0].any():
            return F.data[0] ** 2 * self._outer
        return self._product(self.rows @ F)

    @cached_property
    def _outer(self) -> Array:
        return self._product(self.rows)

    def _product(self, B: Any) -> Array:
        u = np.sqrt(self.weights)[:, None]
        B = sp.csr_matrix(B).multiply(u).tocsr() if sp.issparse(B) else u * B
        K = B @ B.T
        return K.toarray() if sp.issparse(K) else K

    def solve(self, corruption: Corruption, l2: float, method: str = "auto") -> Outcome:
        """The minimiser, by Cholesky of the smaller system ("direct") or conjugate gradients ("cg").

        "auto" takes conjugate gradients for large sparse data, where the corruption itself makes the system well
        conditioned. Where the minimiser is not unique, the shortest one.
        """
        terms = Terms(self, corruption, l2)
        fit, n_iter, message = None, 1, "closed form"
        most = worthwhile_iterations(terms) if method == "auto" else 2000
        if method == "cg" or (method == "auto" and most):
            fit, n_iter = _Iterated(terms).fit(most)
            message = f"conjugate gradients, {n_iter} iterations"
            if method == "auto" and most < 2000 and not fit.settled:
                fit, n_iter, message = None, 1, "closed form"
        if fit is not None:
            method = "cg"
        elif self.X.shape[1] <= self.X.shape[0]:
            fit = _Primal(terms).fit()
        else:
            fit = _Dual(terms).fit()
        if method != "cg" and not fit.settled and self.X.shape[1] <= SMALL:
            careful = _Primal(terms).careful_fit()
            fit = careful if careful.settled or careful.value.sum() < fit.value.sum() else fit
        if not fit.settled:
            message += ", maybe short of the minimum: the system is nearly singular; drop copies of columns or raise l2"
        b = self.y_mean - terms.mean @ fit.W if self.fit_intercept else np.zeros(fit.W.shape[1])
        outcome = Outcome(fit.W, b, n_iter, fit.settled, message, float(fit.value.sum()))
        zero = self.without_weights
        return outcome if outcome.value <= zero.value * (1.0 + 1e-12) else zero

    def inverse_gram(self, corruption: Corruption, l2: float) -> tuple[Array, Array, Array]:
        """(A'A + R)^-1 in units, the unit of each weight, and the mean that A is less of: zero without a bias."""
        terms = Terms(self, corruption, l2)
        values, vectors = la.eigh(_Primal(terms)._matrix(), check_finite=False)
        inverse = (
            vectors / np.maximum(values, 1e-9)
        ) @ vectors.T  # shorter directions than this are roundings
        return inverse, terms.unit, terms.mean if self.fit_intercept else np.zeros(len(terms.mean))


class _Primal:
    """D x D."""

    def __init__(self, terms: Terms):
        self.terms = terms

    def fit(self) -> LinearFit:
        """Cholesky where it is safe, else the spectrum."""
        terms = self.terms
        S = self._matrix()
        B = terms.unit[:, None] * terms.moment
        B[terms.idle] = 0.0
        inverse, null = symmetric_inverse(S)
        fit = self._shortest(terms.polished(terms.unit[:, None] * inverse(B), inverse), null, inverse)
        return fit if self._is_null(null, inverse) else fit.doubted()

    def _is_null(self, directions: Array, inverse: Inverse) -> bool:
        """Whether the data, too, has nothing along directions that its squares have lost.

        A step by the inverse first frees them of what rounding has mixed in of the others.
        """
        terms, u = self.terms, np.sqrt(self.terms.system.weights)[:, None]
        unit = terms.unit[:, None]
        for start in range(0, directions.shape[1], 64):
            V = directions[:, start : start + 64]
            V = unit * (V - inverse(unit * terms.apply(unit * V)))
            squares = ((u * terms.image(V)) ** 2).sum(axis=0) + (V * (terms.R @ V)).sum(axis=0)
            if squares.max() > rounding(len(unit)):
                return False
        return True

    def _matrix(self) -> Array:
        """A'A + R in units; a unit diagonal where a weight is idle."""
        terms = self.terms
        unit = terms.unit
        if terms.diagonal:
            left = terms.scale * unit
            S = left[:, None] * terms.system.gram
            S *= left
        else:
            C = terms.C @ sp.diags_array(unit)
            S = C.T @ (C.T @ terms.system.gram).T
        through, shift = unit * (terms.C.T @ terms.system.x_mean), unit * terms.shift
        S -= np.outer(through, through)
        if not terms.system.fit_intercept:
            S += np.outer(through - shift, through - shift)
        R = sp.coo_matrix(terms.R)
        S[R.row, R.col] += unit[R.row] * R.data * unit[R.col]
        if terms.idle.any():
            S[terms.idle] = 0.0
            S[:, terms.idle] = 0.0
            S[terms.idle, terms.idle] = 1.0
        return S

    def _shortest(self, fit: LinearFit, null: Array, inverse: Inverse) -> LinearFit:
        """The fit less its part in the null directions, orthogonal to them as the weights are, not in units."""
        terms = self.terms
        if not null.shape[1]:
            return fit
        short = terms.polished(without(fit.W, null, terms.unit[:, None]), inverse)
        return short if (short.value <= fit.value * (1.0 + 1e-9) + 1e-18 * fit.spread).all() else fit

    def careful_fit(self) -> LinearFit:
        """From a triangular factor of the rows and the regulariser's root: no square is taken of a small number."""
        terms = self.terms
        D = len(terms.unit)
        factor = triangular(self._stacked_rows())
        U, s, Vt = la.svd(factor[:D, :D], check_finite=False)
        kept = s > 1e-13 * s[0]
        V, inverse = Vt[kept].T, 1.0 / s[kept, None]
        W = terms.unit[:, None] * (V @ (inverse * (U[:, kept].T @ factor[:D, D:])))

        def of_squares(B: Array) -> Array:
            return V @ (inverse**2 * (V.T @ B))

        fit = self._shortest(terms.polished(W, of_squares), Vt[~kept].T, of_squares)
        return fit if certain(s) else fit.doubted()

    def _stacked_rows(self) -> Iterator[Array]:
        """Rows in units with their targets, and below them the root of R: their least-squares solution is W / unit."""
        terms = self.terms
        system, D = terms.system, len(terms.unit)
        C, u = terms.C @ sp.diags_array(terms.unit), np.sqrt(system.weights)[:, None]
        shift = terms.unit * terms.shift
        V, r = terms.rotated()
        root = (V * np.sqrt(r)).T if not sp.issparse(V) else (V @ sp.diags_array(np.sqrt(r))).T.toarray()
        root[terms.idle, terms.idle] = 1.0
        yield np.hstack([root, np.zeros((D, system.targets.shape[1]))])
        step = max(2048, 2 * D)
        for start in range(0, len(u), step):
            rows = slice(start, start + step)
            part = system.rows[rows] @ C
            part = (part.toarray() if sp.issparse(part) else part) - shift
            part[:, terms.idle] = 0.0
            yield u[rows] * np.hstack([part, system.targets[rows]])


class _Dual:
    """N x N, through Woodbury's identity: W = R^-1 A' alpha with (A R^-1 A' + I) alpha = Y.

    Directions without any regulariser are free: their weights are the shortest least-squares fit of Y in the metric
    of the others, and the others fit what is left.
    """

    def __init__(self, terms: Terms):
        self.terms, self.u = terms, np.sqrt(terms.system.weights)[:, None]
        V, r = terms.rotated()
        held = np.asarray((sp.diags_array(terms.unit) @ abs(V)).sum(axis=0)).ravel() > 0.0
        regularised = r > _FREE
        self.root = sp.csr_matrix(V[:, regularised] @ sp.diags_array(1.0 / np.sqrt(r[regularised])))
        self.free = sp.csr_matrix(V[:, held & ~regularised])  # orthonormal, in units
        self.certain = True  # that nothing free was lost to squares
        K, _ = self._kernel(self._in_weights(self.root))
        K[np.diag_indices_from(K)] += 1.0
        self.left, self.right = inverse_root(K)
        if self.free.shape[1]:
            self._factor_free()

    def _in_weights(self, F: sp.csr_matrix) -> sp.csr_matrix:
        return sp.csr_matrix(sp.diags_array(self.terms.unit) @ F)

    def _kernel(self, factor: sp.csr_matrix) -> tuple[Array, float]:
        """(A F)(A F)' for a matrix F of columns, and the largest squared row before centring."""
        terms = self.terms
        u, through = np.sqrt(terms.system.weights), terms.C @ factor
        K = terms.system.outer(through)
        size = float(K.diagonal().max(initial=0.0))
        shift = factor.T @ terms.shift
        a = u * (terms.system.rows @ (through @ shift))
        rank_one = np.outer(a - 0.5 * (shift @ shift) * u, u)
        K -= rank_one
        K -= rank_one.T
        return K, size

    def _factor_free(self) -> None:
        """The free directions as long as the weights are, so that the shortest fit is that of the weights.

        Columns a million times smaller than the largest count as larger: they would drown.
        """
        lengths = np.sqrt(np.asarray(self._in_weights(self.free).power(2).sum(axis=0)).ravel())
        self.metric = sp.csr_matrix(
            self.free @ sp.diags_array(np.maximum(1.0 / lengths, 1e-6 / lengths.min()))
        )
        K, size = self._kernel(self._in_weights(self.metric))
        values, vectors = la.eigh(self.left(self.left(K).T), check_finite=False)
        kept = values > max(1e-13 * size, 1e-13 * values[-1])
        self.values, self.vectors = values[kept, None], vectors[:, kept]
        self.certain = self._is_null(vectors[:, ~kept], size)

    def _is_null(self, lost: Array, size: float) -> bool:
        """As in the primal, for directions among the rows."""
        for start in range(0, lost.shape[1], 64):
            V = lost[:, start : start + 64]
            image = self.left(self._scores(self.metric, self._pulled(self.metric, self.right(V))))
            V = V - self.vectors @ ((self.vectors.T @ image) / self.values)
            along = self._pulled(self.metric, self.right(V))
            if (along**2).sum(axis=0).max() > rounding(len(along)) * size:
                return False
        return True

    # -- rows and directions ----------------------------------------------------------------------------------
    def _scores(self, F: sp.csr_matrix, v: Array) -> Array:
        terms = self.terms
        return self.u * terms.image(terms.unit[:, None] * (F @ v))

    def _pulled(self, F: sp.csr_matrix, alpha: Array) -> Array:
        terms = self.terms
        return F.T @ (terms.unit[:, None] * terms.adjoint(self.u * alpha))

    def fit(self) -> LinearFit:
        terms, system = self.terms, self.terms.system
        Y = self.u * system.targets
        step: Any = 0.0
        if self.free.shape[1]:
            beta = self.right(self.vectors @ ((self.vectors.T @ self.left(Y)) / self.values))
            free = self._pulled(self.metric, beta)
            step = self.metric @ free
            Y = Y - self._scores(self.metric, free)
        alpha = self._through(Y)
        W = terms.unit[:, None] * (step + self.root @ self._pulled(self.root, alpha))
        W[terms.idle] = 0.0
        if not self.free.shape[1]:
            missed = terms.missed(W)
            gain = ((self.u * missed - alpha) ** 2).sum(axis=0)
            fit = LinearFit(W, terms.value(W, missed), gain, system.spread)
            if fit.settled:
                return fit
        fit = terms.polished(W, self.inverse)
        return fit if self.certain else fit.doubted()

    def inverse(self, slope: Array) -> Array:
        """The inverse of the system in units, by elimination of what is regularised."""
        g, step = self.root.T @ slope, 0.0 * slope
        if self.free.shape[1]:
            rest = self._through(self._scores(self.root, g))
            rest = self.metric.T @ slope - self._pulled(self.metric, rest)
            half = (self.vectors.T @ self.left(self._scores(self.metric, rest))) / self.values**2
            free = self._pulled(self.metric, self.right(self.vectors @ half))
            step = self.metric @ free
            g = g - self._pulled(self.root, self._scores(self.metric, free))
        g = g - self._pulled(self.root, self._through(self._scores(self.root, g)))
        return step + self.root @ g

    def _through(self, rows: Array) -> Array:
        return self.right(self.left(rows))


class _Iterated:
    """Conjugate gradients, in the smaller space."""

    def __init__(self, terms: Terms):
        self.terms = terms

    def fit(self, most: int = 2000) -> tuple[LinearFit, int]:
        """In the smaller space: the rows' when they are fewer and each weight has a regulariser of its own.

        In the columns' no eigenvalue is below `share`. Where that is little the least that was met stands for it, and
        the residual has to get smaller: the smaller an eigenvalue, the more a residual can hide. Where it is nothing
        there may be eigenvalues that no residual shows.
        """
        terms = self.terms
        system, share = terms.system, terms.share if terms.diagonal else 0.0
        if system.X.shape[0] < len(terms.unit) and share > 0.0:
            return self._by_rows(most)
        size = terms.column_squares + terms.R.diagonal()
        M = np.where(terms.idle, 0.0, 1.0 / np.where(terms.idle, 1.0, size))
        found = conjugate_gradients(terms.apply, terms.moment, M, 1e-8 if share > 0.05 else 1e-12, most)
        missed = terms.missed(found.solution)
        slope = terms.adjoint(system.weights[:, None] * missed) - terms.R @ found.solution
        gain = np.einsum("dc,dc,d->c", slope, slope, M) / np.maximum(0.1 * found.least, max(share, _EPS))
        fit = LinearFit(found.solution, terms.value(found.solution, missed), gain, system.spread)
        return fit if share > _EPS else fit.doubted(), found.n_iter

    def _by_rows(self, most: int) -> tuple[LinearFit, int]:
        """(A R^-1 A' + I) alpha = Y and W = R^-1 A' alpha: the same iterations on shorter vectors.

        What W's scores and alpha leave of Y bounds the gain: no eigenvalue is below 1.
        """
        terms = self.terms
        X, u, r = terms.system.rows, np.sqrt(terms.system.weights)[:, None], terms.R.diagonal()
        inverse = np.divide(1.0, r, out=np.zeros_like(r), where=~terms.idle)
        own, cross = terms.scale**2 * inverse, terms.scale * terms.shift * inverse
        fixed = float(terms.shift @ (terms.shift * inverse))

        def apply(V: Array) -> Array:
            p = u * V
            total = p.sum(axis=0)
            t = terms.transposed @ p
            level = np.einsum("d,dc->c", cross, t) - fixed * total
            t *= own[:, None]
            t -= np.outer(cross, total)
            image = X @ t
            image -= level
            image *= u
            image += V
            return image

        alpha, n_iter, *_ = conjugate_gradients(apply, u * terms.system.targets, np.ones(len(u)), 1e-8, most)
        W = inverse[:, None] * terms.adjoint(u * alpha)
        missed = terms.missed(W)
        gain = ((u * missed - alpha) ** 2).sum(axis=0)
        return LinearFit(W, terms.value(W, missed), gain, terms.system.spread), n_iter


def worthwhile_iterations(terms: Terms) -> int:
    """How many conjugate gradients to try before a factorisation; 2000 stands for "as many as it takes".

    All of them where every column that varies is regularised enough for a few hundred to do, or where the system is too
    large to factorise. Noise of one size for all columns, as Gaussian corruption adds, is little beside frequent
    words, and yet few eigenvalues of text are large: there as many as take the time of the N x N factorisation.
    """
    share, (N, D) = terms.share, terms.system.X.shape
    if min(N, D) <= 1024 or not sp.issparse(terms.system.X) or not terms.diagonal or not share > 0.0:
        return 0
    if share > 0.05 or min(N, D) > 16_384:
        return 2000
    of_products = _BLAS * 4.0 * terms.system.X.nnz * terms.moment.shape[1]
    return int(min(N**3 / 3.0 / of_products, 1999)) if N < D else 0


def rounding(n_columns: int) -> float:
    """What may be left, of a square that should be zero, where the squares of columns are about one."""
    return (8.0 * _EPS) ** 2 * n_columns


def certain(singular: Array) -> bool:
    """Whether every singular value is clearly there or clearly rounding."""
    there = singular / singular[0]
    return not ((there > np.sqrt(rounding(len(singular)))) & (there <= 1e-13)).any()
