"""Leave-one-out predictions of the quadratic loss: the paper's formula, and the exact one.

The paper divides the residual by 1 - H_nn, which keeps example n's own variance in the system: exact only when the
regulariser does not depend on the data. Here `exact` removes the variance too, so it equals fitting again
without the example (mean loss over the other N - 1, same l2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.elementwise import Gaussian, Identity, Laplace
from mcf_cli.core.solvers import inverse_root, triangular, units, without
from mcf_cli.core.solvers.least_squares import SMALL, QuadraticSystem, certain
from mcf_cli.core.solvers.normal_equations import LinearFit, brought_near


def leave_one_out(
    X: Any, Y: Array, corruption: Corruption, l2: float, fit_intercept: bool, method: str
) -> Array:
    """Predictions for each example by the model fitted to the others, N x C."""
    if method not in ("exact", "paper"):
        raise ValueError(f"method={method!r} is not known; give 'exact' or 'paper'")
    N = X.shape[0]
    if N < 2:
        raise ValueError("leave-one-out needs at least two examples")
    constant = _constant_variance(corruption, X.shape[1])
    if method == "exact" and constant is not None and l2 + constant > 0.0 and X.shape[1] >= N:
        predictions, doubtful = ridge_loo(X, Y, (N - 1) * (l2 + constant), fit_intercept)
        return refit_without(doubtful, predictions, X, Y, corruption, l2, fit_intercept)
    kept_l2 = N * l2 if method == "paper" else (N - 1) * l2
    system = _Inverse(X, Y, corruption, kept_l2, fit_intercept)
    if not system.sound:
        warnings.warn(
            "leave-one-out: the system is nearly singular; drop copies of columns or raise l2",
            ConvergenceWarning,
            3,
        )
    if method == "paper":
        return hat_matrix_loo(system, Y)
    predictions, doubtful = removed_variance_loo(system, X, Y, corruption)
    return refit_without(doubtful, predictions, X, Y, corruption, l2, fit_intercept)


def _constant_variance(corruption: Corruption, n_features: int) -> float | None:
    """The variance of every feature of every example where that is one number: such a corruption is a ridge."""
    if all(isinstance(family, Identity) for _, family in corruption.split(n_features)):
        return 0.0
    if isinstance(corruption, Gaussian | Laplace) and np.ndim(corruption.moments().v0) == 0:
        return float(corruption.moments().v0)
    return None


def ridge_loo(X: Any, Y: Array, ridge: float, fit_intercept: bool) -> tuple[Array, Array]:
    """Where no variance depends on the data there is none to remove: yhat_-n = y_n - (B y)_n / B_nn, B = I - H.

    B comes from the spectrum of X X', so it stays accurate where H_nn is nearly 1, at small l2 with N <= D. Also says
    of which examples B_nn is lost in the rounding of the others.
    """
    rows = brought_near(X, np.full(X.shape[0], 1.0 / X.shape[0]))[0] if fit_intercept else X
    values, vectors = _row_spectrum(rows, ridge, fit_intercept)
    if fit_intercept:
        vectors = vectors - vectors.mean(axis=0)
    shares = ridge / (ridge + np.maximum(values, 0.0))
    B = (vectors * shares) @ vectors.T
    own = np.diagonal(B)
    return Y - (B @ Y) / own[:, None], own < 1e-8 * shares.max()


def _row_spectrum(rows: Any, ridge: float, centre: bool) -> tuple[Array, Array]:
    """The spectrum of X X' of the (centred) rows; from X itself where the rounding of squares would drown the ridge."""
    if not sp.issparse(rows):
        rows = rows - rows.mean(axis=0) if centre else rows
    K = (rows @ rows.T).toarray() if sp.issparse(rows) else rows @ rows.T
    if centre:
        K = K - K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
    values, vectors = la.eigh(K)
    if np.finfo(float).eps * values[-1] <= 1e-8 * ridge:
        return values, vectors
    dense = rows.toarray() if sp.issparse(rows) else rows
    N, D = dense.shape
    vectors, singular, _ = la.svd(dense - dense.mean(axis=0) if centre else dense, full_matrices=N > D)
    values = np.zeros(N)  # with more rows than columns the directions that X does not reach count too
    values[: len(singular)] = singular**2
    return values, vectors


def refit_without(
    doubtful: Array,
    predictions: Array,
    X: Any,
    Y: Array,
    corruption: Corruption,
    l2: float,
    fit_intercept: bool,
) -> Array:
    """Fit again where the shortest of many solutions changes in ways that no update of an inverse follows."""
    N = X.shape[0]
    for n in np.flatnonzero(doubtful):
        others = np.arange(N) != n
        system = QuadraticSystem(
            corruption.prepare(X[others]), Y[others], np.full(N - 1, 1.0 / (N - 1)), fit_intercept
        )
        fit = system.solve(corruption, l2)
        predictions[n] = np.asarray(X[n : n + 1] @ fit.W)[0] + fit.b
    return predictions


class _Inverse:
    """P = (A'A + R)^-1 and what the formulas need of it, with A the (centred) mean rows and R the regulariser."""

    def __init__(self, X: Any, Y: Array, corruption: Corruption, l2: float, fit_intercept: bool):
        N, D = X.shape
        near, reference = corruption.prepare(X), np.zeros(D)
        if fit_intercept:
            near, reference = brought_near(near, np.full(N, 1.0 / N))
        offset, C = corruption.mean_map(D)
        mean_rows = near @ C
        self.M = mean_rows.toarray() if sp.issparse(mean_rows) else np.array(mean_rows)
        self.clean = (X.toarray() if sp.issparse(X) else X) - (reference @ C if fit_intercept else 0.0)
        if fit_intercept:
            centre = self.M.mean(axis=0)
            self.M -= centre
            self.clean = self.clean - centre - offset
        else:
            self.M += offset
        self.bias = 1.0 / N if fit_intercept else 0.0
        self.R = (corruption.covariance_sum(X, np.ones(N)) + l2 * sp.eye_array(D)).tocsr()
        self.unit = units((self.M**2).sum(axis=0) + self.R.diagonal())
        y_mean = Y.mean(axis=0) if fit_intercept else np.zeros(Y.shape[1])
        precise = self._factor()
        self.sound = self._fitted(Y - y_mean)
        if not (precise and self.sound) and D <= SMALL:
            self._factor_rows()
            self.sound = self._fitted(Y - y_mean)
        self.predict_mean = self.M @ self.W + y_mean
        self.predict_clean = self.clean @ self.W + y_mean

    def _fitted(self, Y: Array) -> bool:
        """Set the weights; whether the data agrees that they are at the minimum."""
        self.W = self.times(self.M.T @ Y)
        missed = Y - self.M @ self.W
        slope = self.M.T @ missed - self.R @ self.W
        value = (missed**2).sum(axis=0) + (self.W * (self.R @ self.W)).sum(axis=0)
        gain = np.abs((slope * self.times(slope)).sum(axis=0))
        return self.certain and LinearFit(self.W, value, gain, (Y**2).sum(axis=0)).settled

    def _factor(self) -> bool:
        """The inverse by squares; whether it has digits to spare for the differences that the formulas take."""
        N, D = self.M.shape
        r = self.R.diagonal()
        r = np.where(
            (r <= 0.0) & ~self.M.any(axis=0), 1.0, r
        )  # what an empty column is divided by does not matter
        diagonal = sp.coo_matrix(self.R)
        plain = not (diagonal.row != diagonal.col).any() and bool((r > 0.0).all())
        self.G: Array | None = None  # P = G G'; without it P = 1/r - T'T
        self.certain = True
        if N < D and plain:  # Woodbury: P = 1/r - T'T with T = L^-1 A R^-1, N x D
            K = (self.M / r) @ self.M.T
            K[np.diag_indices(N)] += 1.0
            left, _ = inverse_root(K)
            self.T, self.r = left(self.M / r), r
            return bool(K.diagonal().max() < 1e8)
        unit = self.unit[:, None]
        S = unit * (self.M.T @ self.M + self.R.toarray()) * self.unit
        S[np.diag_indices(D)] += self.unit == 0.0
        try:
            L = la.cholesky(S, lower=True)
            if np.diagonal(L).min() > 1e-3:
                self.G = unit * la.solve_triangular(L, np.eye(D), lower=True).T
                return True
        except la.LinAlgError:
            pass
        values, vectors = la.eigh(S)
        kept = values > 1e-13 * values[-1]
        self.G = without(unit * (vectors[:, kept] / np.sqrt(values[kept])), vectors[:, ~kept], unit)
        return False

    def _factor_rows(self) -> None:
        """From the rows themselves and the root of R: no square is taken of a small number."""
        unit = self.unit[:, None]
        r, V = la.eigh(unit * self.R.toarray() * self.unit)
        root = np.sqrt(np.maximum(r, 0.0))[:, None] * V.T
        _, s, Vt = la.svd(triangular([root, self.M * self.unit]), full_matrices=False)
        kept, self.certain = s > 1e-13 * s[0], certain(s)
        self.G = without(unit * (Vt[kept].T / s[kept]), Vt[~kept].T, unit)

    def times(self, V: Array) -> Array:
        """P V."""
        if self.G is not None:
            return self.G @ (self.G.T @ V)
        return V / self.r[:, None] - self.T.T @ (self.T @ V)

    def forms(self) -> tuple[Array, Array, Callable[[int, Array, Array], tuple[Array, Array, Array]]]:
        """Of every example m' P m and x' P m, with its mean m and clean x; and for example n and directions F on a
        support F' P F, F' P m and F' P x. As products of roots, where there is one: P itself is large."""
        if self.G is None:
            P_mean, P_clean = self.times(self.M.T), self.times(self.clean.T)
            own, cross = (self.M.T * P_mean).sum(axis=0), (self.clean.T * P_mean).sum(axis=0)

            def along(n: int, support: Array, F: Array) -> tuple[Array, Array, Array]:
                T = self.T[:, support] @ F
                of_F = (F.T / self.r[support]) @ F - T.T @ T
                return of_F, F.T @ P_mean[support, n], F.T @ P_clean[support, n]

            return own, cross, along
        G, mean, clean = self.G, self.M @ self.G, self.clean @ self.G

        def along_root(n: int, support: Array, F: Array) -> tuple[Array, Array, Array]:
            root = G[support].T @ F
            return root.T @ root, root.T @ mean[n], root.T @ clean[n]

        return (mean * mean).sum(axis=1), (clean * mean).sum(axis=1), along_root


def hat_matrix_loo(system: _Inverse, Y: Array) -> Array:
    """The paper's formula: (yhat - H_nn y) / (1 - H_nn)."""
    H = system.forms()[1] + system.bias
    return (system.predict_clean - H[:, None] * Y) / (1.0 - H)[:, None]


def removed_variance_loo(system: _Inverse, X: Any, Y: Array, corruption: Corruption) -> tuple[Array, Array]:
    """Example n's mean and covariance both leave the system, by two low-rank updates of P.

    Also says which examples cannot be left out that way, because a direction is theirs alone.
    """
    of_mean, of_both, along = system.forms()
    left = system.R.diagonal()
    predictions, alone = np.empty_like(Y), np.zeros(len(Y), dtype=bool)
    for n in range(len(Y)):
        support, F = _covariance_root(corruption, X[n : n + 1], left)
        own, f_mean, f_clean = along(n, support, F)
        f_W, middle = F.T @ system.W[support], np.eye(own.shape[0]) - own
        solved = (
            np.linalg.solve(middle, np.column_stack([f_mean, f_W]))
            if len(own)
            else np.zeros((0, 1 + Y.shape[1]))
        )
        s_mean, s_W = solved[:, 0], solved[:, 1:]
        h = of_mean[n] + system.bias + f_mean @ s_mean
        cross = of_both[n] + system.bias + f_clean @ s_mean
        at_mean = system.predict_mean[n] + f_mean @ s_W
        at_clean = system.predict_clean[n] + f_clean @ s_W
        alone[n] = 1.0 - h < 1e-5
        predictions[n] = at_clean - Y[n] * cross + cross * (at_mean - Y[n] * h) / max(1.0 - h, 1e-9)
    return predictions, alone


def _covariance_root(corruption: Corruption, x: Any, regulariser: Array) -> tuple[Array, Array]:
    """(support, F) with Cov[x~] = F F' on the support.

    A feature that only this example holds would keep no regulariser at all; it keeps a sliver, because its
    weight without the example is zero either way and the system stays solvable.
    """
    covariance = sp.coo_matrix(corruption.covariance_sum(x, np.ones(1)))
    covariance.sum_duplicates()
    support = np.unique(covariance.row[covariance.data != 0.0])
    block = covariance.tocsr()[support][:, support].toarray()
    variance = np.diagonal(block).copy()
    alone = variance > (1.0 - 1e-9) * regulariser[support]
    shrink = np.where(alone, np.sqrt(1.0 - 1e-8), 1.0)
    if np.count_nonzero(block - np.diag(variance)) == 0:
        return support, np.diag(shrink * np.sqrt(variance))
    size = np.sqrt(np.where(variance > 0.0, variance, 1.0))  # columns differ in scale
    values, vectors = la.eigh(block / np.outer(size, size))
    kept = values > 1e-14 * values[-1]
    return support, (shrink * size)[:, None] * vectors[:, kept] * np.sqrt(values[kept])
