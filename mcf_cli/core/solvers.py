"""Solvers: L-BFGS for any objective, and the closed form of the quadratic loss. `newton` has the second-order one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.optimize import Bounds, minimize

from mcf_cli.core.families import Array, Corruption, column_sums
from mcf_cli.core.kernels import one_blas_thread, transposed_product
from mcf_cli.core.objective import Objective


@dataclass(frozen=True)
class Outcome:
    """Weights W (D x C) and biases b with how they were reached."""

    W: Array
    b: Array
    n_iter: int
    converged: bool
    message: str


def lbfgs(
    objective: Objective,
    W: Array,
    b: Array,
    fit_intercept: bool,
    limit: Any,
    max_iter: int,
    tol: float,
    scale: Array,
) -> Outcome:
    """Minimise the objective from (W, b); |W| stays within `limit`.

    The optimiser sees W / scale, one scale a feature: with word counts the curvatures of two features differ a
    thousandfold, and unscaled it takes many more iterations or stops at the first. It stops when no entry
    of the gradient in the scaled weights exceeds tol or 1e-7, or when a step changes the value by rounding alone:
    steps are judged by values, whose rounding hides a smaller gradient.
    """
    D, C = objective.shape
    column = np.asarray(scale, dtype=float)[:, None]

    def unpack(theta: Array) -> tuple[Array, Array]:
        return theta[: D * C].reshape(D, C) * column, theta[D * C :] if fit_intercept else np.zeros(C)

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        value, g_W, g_b = objective.loss_gradient(*unpack(theta))
        g_W = g_W * column
        return value, np.concatenate([g_W.ravel(), g_b]) if fit_intercept else g_W.ravel()

    W = W / column
    start = np.concatenate([W.ravel(), b]) if fit_intercept else W.ravel()
    bounds = None
    if np.isfinite(limit).any():
        reach = np.repeat(np.broadcast_to(limit, D) / column[:, 0], C)
        reach = np.concatenate([reach, np.full(C, np.inf)]) if fit_intercept else reach
        bounds = Bounds(-reach, reach)
        start = np.clip(start, -reach, reach)
    # Vectors of this length gain nothing from threads, and lose much where another process wants the other core.
    with one_blas_thread():
        result = minimize(
            value_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={
                "maxiter": max_iter,
                "gtol": max(tol, 1e-7),
                "ftol": 64 * np.finfo(float).eps,
                "maxls": 50,
            },
        )
    W, b = unpack(result.x)
    return Outcome(W, b, int(result.nit), bool(result.success), str(result.message))


class QuadraticSystem:
    """Least squares under corruption, Eq. optimal_w_lls, for many corruptions and l2 on the same data.

    With weights u_n^2 that sum to 1, mean m_n = x_n C + offset and R = sum_n u_n^2 Cov[x~_n] + l2 I, the solution is
    W = (A'A + R)^-1 A'Y with rows A_n = u_n (m_n - mean). The Gram matrix of X is made once; only C and R change.
    """

    def __init__(self, X: Any, Y: Array, weights: Array, fit_intercept: bool):
        self.X, self.Y, self.weights, self.fit_intercept = X, Y, weights, fit_intercept
        self.x_mean = np.asarray(X.T @ weights).ravel()
        self.y_mean = weights @ Y if fit_intercept else np.zeros(Y.shape[1])
        self.moment = np.asarray(X.T @ (weights[:, None] * (Y - self.y_mean)))

    @property
    def without_weights(self) -> tuple[Outcome, float]:
        """Zero weights and the best biases, with their objective: what a system beyond repair ends with."""
        W = np.zeros((self.X.shape[1], self.Y.shape[1]))
        message = "singular to working precision: scale the data or raise l2"
        objective = float(self.weights @ ((self.Y - self.y_mean) ** 2).sum(axis=1))
        return Outcome(W, self.y_mean.copy(), 0, False, message), objective

    @cached_property
    def gram(self) -> Array:
        """X' diag(weights) X, D x D. Dense chunks of rows go through BLAS unless X is very sparse."""
        X, D = self.X, self.X.shape[1]
        if sp.issparse(X) and X.nnz < 0.1 * X.shape[0] * D:
            return (X.T @ X.multiply(self.weights[:, None])).toarray()
        total = np.zeros((D, D))
        for start in range(0, X.shape[0], 2048):
            rows = slice(start, start + 2048)
            chunk = X[rows].toarray() if sp.issparse(X) else X[rows]
            total += chunk.T @ (self.weights[rows, None] * chunk)
        return total

    def outer(self, F: sp.csr_matrix) -> Array:
        """B B' with the rows B_n = u_n x_n F, N x N. Multiples of the identity share one product."""
        even = F.nnz == len(F.data) == F.shape[0] == F.shape[1] and (F.data == F.data[:1]).all()
        if even and (F.diagonal() == F.data).all():
            return F.data[0] ** 2 * self._outer
        return self._product(self.X @ F)

    @cached_property
    def _outer(self) -> Array:
        return self._product(self.X)

    def _product(self, B: Any) -> Array:
        u = np.sqrt(self.weights)[:, None]
        B = sp.csr_matrix(B).multiply(u).tocsr() if sp.issparse(B) else u * B
        K = B @ B.T
        return K.toarray() if sp.issparse(K) else K

    def solve(self, corruption: Corruption, l2: float, method: str = "auto") -> tuple[Outcome, float]:
        """The minimiser and its objective, by Cholesky of the smaller system ("direct") or conjugate gradients ("cg").

        Conjugate gradients stop at a relative residual of 1e-8. "auto" takes them for large sparse data, where the
        corruption itself makes the system well conditioned. Where the minimiser is not unique, the shortest one.
        """
        terms = _Terms(self, corruption, l2)
        if method == "auto":
            small = min(self.X.shape) <= 1024 or not sp.issparse(self.X)
            method = "direct" if small or not terms.diagonal or not terms.suits_conjugate_gradients else "cg"
        n_iter, converged, message = 1, True, "closed form"
        if method == "cg":
            W, n_iter, converged = terms.conjugate_gradients()
            message = f"conjugate gradients, {n_iter} iterations"
        elif self.X.shape[1] <= self.X.shape[0]:
            W = terms.primal()
        else:
            W = terms.dual()
        b = self.y_mean - terms.mean @ W if self.fit_intercept else np.zeros(W.shape[1])
        outcome, value = Outcome(W, b, n_iter, converged, message), terms.objective(W, b)
        zero, value_there = self.without_weights
        return (outcome, value) if value <= value_there * (1.0 + 1e-12) else (zero, value_there)


class _Terms:
    """The terms of one system: the mean map C, the shift of the rows of A, and the regulariser R."""

    def __init__(self, system: QuadraticSystem, corruption: Corruption, l2: float):
        self.system = system
        D = system.X.shape[1]
        offset, self.C = corruption.mean_map(D)
        through = system.x_mean @ self.C
        self.offset, self.mean = offset, through + offset
        self.shift = through if system.fit_intercept else -offset
        self.R = corruption.covariance_sum(system.X, system.weights) + l2 * sp.eye_array(D, format="csr")
        self.moment = self.C.T @ system.moment
        if not system.fit_intercept:
            self.moment = self.moment + np.outer(offset, system.weights @ system.Y)
        off_diagonal = sp.coo_matrix(self.R)
        self.diagonal = not (off_diagonal.row != off_diagonal.col).any() and self.C.nnz <= D
        self.scale = self.C.diagonal()

    def objective(self, W: Array, b: Array) -> float:
        """Mean loss + l2 ||W||^2, Eq. final_lls: the squared error of the mean, and W'RW."""
        system = self.system
        missed = system.X @ (self.C @ W)
        missed += self.offset @ W + b
        missed -= system.Y
        return float(np.einsum("n,nc,nc->", system.weights, missed, missed) + np.vdot(W, self.R @ W))

    @cached_property
    def column_squares(self) -> Array:
        """diag(A'A), for a diagonal C."""
        X, weights = self.system.X, self.system.weights
        through = self.system.x_mean * self.scale
        squares = column_sums(X, weights, power=2)
        return self.scale**2 * squares - 2 * self.shift * through + self.shift**2

    @property
    def suits_conjugate_gradients(self) -> bool:
        """Every column that varies is regularised, and enough so for a few hundred iterations to do.

        Scaled by its diagonal the system's smallest eigenvalue is at least the smallest share of R in the diagonal.
        A system too large to factorise has no choice, as long as its solution is unique.
        """
        varies = self.column_squares > 1e-14
        r = self.R.diagonal()[varies]
        share = (r / (r + self.column_squares[varies])).min(initial=1.0)
        return bool(share > 0.05 or (share > 0.0 and min(self.system.X.shape) > 16_384))

    def apply(self, V: Array) -> Array:
        """(A'A + R) V, for diagonal R and C."""
        scale = self.scale[:, None]
        scores = self.system.X @ (scale * V)
        scores -= self.shift @ V
        scores *= self.system.weights[:, None]
        image = self._transposed(scores)
        image *= scale
        image -= self.shift[:, None] * scores.sum(axis=0)
        image += self.R.diagonal()[:, None] * V
        return image

    def _transposed(self, scores: Array) -> Array:
        X = self.system.X
        if scores.shape[1] == 1 and sp.issparse(X) and X.format == "csr":
            return transposed_product(X, scores[:, 0])[:, None]
        return X.T @ scores

    def primal(self) -> Array:
        """D x D."""
        gram = self.system.gram
        A = self.C.T @ (self.C.T @ gram).T
        through = self.C.T @ self.system.x_mean
        A -= np.outer(through, self.shift)
        A -= np.outer(self.shift, through)
        A += np.outer(self.shift, self.shift)
        R = sp.coo_matrix(self.R)
        A[R.row, R.col] += R.data
        return solve_symmetric(A, self.moment)

    def rotated(self) -> tuple[sp.csr_matrix, Array]:
        """R = V diag(r) V': V is the identity unless blocks covary."""
        D = self.R.shape[0]
        if self.diagonal:
            return sp.eye_array(D, format="csr"), self.R.diagonal().copy()
        r = np.empty(D)
        blocks: list[Array] = []
        order: list[int] = []
        n_blocks, labels = sp.csgraph.connected_components(self.R, directed=False)
        for block in range(n_blocks):
            columns = np.flatnonzero(labels == block)
            values, vectors = la.eigh(self.R[columns][:, columns].toarray())
            r[len(order) : len(order) + len(columns)] = np.where(values > 1e-12 * values[-1], values, 0.0)
            blocks.append(vectors)
            order.extend(columns)
        V = sp.block_diag(blocks, format="csr")
        back = sp.csr_matrix((np.ones(D), (order, np.arange(D))), shape=(D, D))
        return back @ V, r

    def kernel(self, factor: sp.csr_matrix) -> tuple[Array, float]:
        """(A F)(A F)' for a matrix F of columns, and the largest squared row before centring."""
        u, through = np.sqrt(self.system.weights), self.C @ factor
        K = self.system.outer(through)
        size = float(K.diagonal().max(initial=0.0))
        shift = factor.T @ self.shift
        a = u * (self.system.X @ (through @ shift))
        rank_one = np.outer(a - 0.5 * (shift @ shift) * u, u)
        K -= rank_one
        K -= rank_one.T
        return K, size

    def dual(self) -> Array:
        """N x N, through Woodbury's identity: W = R^-1 A' alpha with (A R^-1 A' + I) alpha = Y.

        Directions without any regulariser are free: their weights G are the shortest least-squares fit of Y in
        the metric of the others, and the others fit what is left.
        """
        V, r = self.rotated()
        regularised = r > 1e-12 * r.max(initial=0.0)
        root = V[:, regularised] @ sp.diags_array(1.0 / np.sqrt(r[regularised]))
        K, _ = self.kernel(root)
        K[np.diag_indices_from(K)] += 1.0
        left, right = inverse_root(K)
        Y = np.sqrt(self.system.weights)[:, None] * (self.system.Y - self.system.y_mean)
        free = V[:, ~regularised]
        W = np.zeros_like(self.moment)
        K_free, size = self.kernel(free) if free.shape[1] else (K, 0.0)
        if size > 0.0:  # else no row holds a value in a free column
            half = left(left(K_free).T)
            beta = right(pseudo_solve(half, left(Y), 1e-12 * size))
            W += free @ (free.T @ self.adjoint(beta))
            Y = Y - K_free @ beta
        return W + root @ (root.T @ self.adjoint(right(left(Y))))

    def adjoint(self, alpha: Array) -> Array:
        """A' alpha."""
        scaled = np.sqrt(self.system.weights)[:, None] * alpha
        return self.C.T @ np.asarray(self.system.X.T @ scaled) - np.outer(self.shift, scaled.sum(axis=0))

    def conjugate_gradients(self) -> tuple[Array, int, bool]:
        """For diagonal R and C, in the smaller space: the rows' when they are fewer and R is nowhere zero."""
        r = self.R.diagonal()
        if self.system.X.shape[0] < len(r) and (r[self.column_squares > 1e-14] > 0.0).all():
            return self._conjugate_gradients_of_rows(r)
        diagonal = self.column_squares + r
        M = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
        return conjugate_gradients(self.apply, self.moment, M)

    def _conjugate_gradients_of_rows(self, r: Array) -> tuple[Array, int, bool]:
        """(A R^-1 A' + I) alpha = Y and W = R^-1 A' alpha: the same iterations on shorter vectors."""
        X, u = self.system.X, np.sqrt(self.system.weights)[:, None]
        inverse = np.divide(1.0, r, out=np.zeros_like(r), where=r > 0.0)
        own, cross = self.scale**2 * inverse, self.scale * self.shift * inverse
        fixed = float(self.shift @ (self.shift * inverse))

        def apply(V: Array) -> Array:
            p = u * V
            total = p.sum(axis=0)
            t = self._transposed(p)
            level = np.einsum("d,dc->c", cross, t) - fixed * total
            t *= own[:, None]
            t -= np.outer(cross, total)
            image = X @ t
            image -= level
            image *= u
            image += V
            return image

        Y = u * (self.system.Y - self.system.y_mean)
        alpha, n_iter, converged = conjugate_gradients(apply, Y, np.ones(len(Y)))
        return inverse[:, None] * self.adjoint(alpha), n_iter, converged


def conjugate_gradients(
    apply: Callable[[Array], Array], B: Array, M: Array, tol: float = 1e-8, max_iter: int = 2000
) -> tuple[Array, int, bool]:
    """A^-1 B for a positive definite A, all columns at once; M is the preconditioner's diagonal."""
    M = M[:, None]
    solution, residual = np.zeros_like(B), B.copy()
    direction = M * residual
    rz = np.einsum("dc,dc->c", residual, direction)
    stop = tol**2 * rz
    for n_iter in range(max_iter):
        if (rz <= stop).all():
            return solution, n_iter, True
        image = apply(direction)
        curvature = np.einsum("dc,dc->c", direction, image)
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=(curvature > 0.0) & (rz > stop))
        solution += step * direction
        image *= step
        residual -= image
        z = np.multiply(M, residual, out=image)
        rz, previous = np.einsum("dc,dc->c", residual, z), rz
        direction *= np.divide(rz, previous, out=np.zeros_like(rz), where=previous > 0.0)
        direction += z
    return solution, max_iter, False


def inverse_root(K: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Products with F' and F where F F' = K^-1, or its pseudo-inverse where rounding left K indefinite."""
    try:
        L = la.cholesky(K, lower=True, check_finite=False)
    except la.LinAlgError:
        values, vectors = la.eigh(K, check_finite=False)
        kept = values > 1e-13 * max(values[-1], 0.0)
        F = vectors[:, kept] / np.sqrt(values[kept])
        return (lambda B: F.T @ B), (lambda B: F @ B)
    return (
        lambda B: la.solve_triangular(L, B, lower=True, check_finite=False),
        lambda B: la.solve_triangular(L, B, lower=True, trans="T", check_finite=False),
    )


def solve_symmetric(A: Array, B: Array) -> Array:
    """A^-1 B for a positive semi-definite A: Cholesky, or the shortest least-squares solution when A is singular."""
    try:
        factor = la.cho_factor(A, lower=True, check_finite=False)
        pivots = np.diagonal(factor[0])
        if pivots.min() > 1e-6 * pivots.max():
            return la.cho_solve(factor, B, check_finite=False)
    except la.LinAlgError:
        pass
    return pseudo_solve(A, B, 1e-13 * float(np.diagonal(A).max(initial=0.0)))


def pseudo_solve(A: Array, B: Array, negligible: float) -> Array:
    """The pseudo-inverse of a symmetric A times B, eigenvalues up to `negligible` taken as zero."""
    values, vectors = la.eigh(A, check_finite=False)
    kept = values > max(negligible, 1e-13 * max(values[-1], 0.0))
    return vectors[:, kept] @ ((vectors[:, kept].T @ B) / values[kept, None])
