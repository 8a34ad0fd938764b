"""Leave-one-out predictions of the quadratic loss: the paper's formula, and the exact one.

The paper divides the residual by 1 - H_nn, which keeps example n's own variance in the system: exact only when the
regulariser does not depend on the data. Here `exact` removes the variance too, so it equals fitting again
without the example (mean loss over the other N - 1, same l2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from mcf_cli.core.corruptions import Gaussian, Laplace
from mcf_cli.core.families import Array, Corruption, Identity
from mcf_cli.core.solvers import QuadraticSystem


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
        return ridge_loo(X, Y, (N - 1) * (l2 + constant), fit_intercept)
    kept_l2 = N * l2 if method == "paper" else (N - 1) * l2
    system = _Inverse(X, Y, corruption, kept_l2, fit_intercept)
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


def ridge_loo(X: Any, Y: Array, ridge: float, fit_intercept: bool) -> Array:
    """Where no variance depends on the data there is none to remove: yhat_-n = y_n - (B y)_n / B_nn, B = I - H.

    B comes from the spectrum of X X', so it stays accurate where H_nn is nearly 1, at small l2 with N <= D.
    """
    if sp.issparse(X):
        K = (X @ X.T).toarray()
    else:  # centred before they are multiplied: columns may lie far from 0
        rows = X - X.mean(axis=0) if fit_intercept else X
        K = rows @ rows.T
    if fit_intercept:  # of the centred rows
        K = K - K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
    values, vectors = la.eigh(K)
    if fit_intercept:
        vectors = vectors - vectors.mean(axis=0)
    B = (vectors * (ridge / (ridge + np.maximum(values, 0.0)))) @ vectors.T
    return Y - (B @ Y) / np.diagonal(B)[:, None]


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
        fit, _ = system.solve(corruption, l2)
        predictions[n] = np.asarray(X[n : n + 1] @ fit.W)[0] + fit.b
    return predictions


class _Inverse:
    """P = (A'A + R)^-1 and what the formulas need of it, with A the (centred) mean rows and R the regulariser."""

    def __init__(self, X: Any, Y: Array, corruption: Corruption, l2: float, fit_intercept: bool):
        N, D = X.shape
        prepared = corruption.prepare(X)
        offset, C = corruption.mean_map(D)
        R = corruption.covariance_sum(X, np.ones(N)) + l2 * sp.eye_array(D)
        mean_rows = prepared @ C
        self.M = (mean_rows.toarray() if sp.issparse(mean_rows) else np.asarray(mean_rows)) + offset
        self.clean = X.toarray() if sp.issparse(X) else X
        self.centre = self.M.mean(axis=0) if fit_intercept else np.zeros(D)
        self.bias = 1.0 / N if fit_intercept else 0.0
        self.M -= self.centre
        self.clean = self.clean - self.centre
        self.R = R.tocsr()
        self._factor()
        y_mean = Y.mean(axis=0) if fit_intercept else np.zeros(Y.shape[1])
        self.W = self.times(self.M.T @ (Y - y_mean))
        self.predict_mean = self.M @ self.W + y_mean
        self.predict_clean = self.clean @ self.W + y_mean

    def _factor(self) -> None:
        N, D = self.M.shape
        r = self.R.diagonal()
        r = np.where(
            (r <= 0.0) & ~self.M.any(axis=0), 1.0, r
        )  # what an empty column is divided by does not matter
        diagonal = sp.coo_matrix(self.R)
        plain = not (diagonal.row != diagonal.col).any() and bool((r > 0.0).all())
        if N < D and plain:  # Woodbury: P = 1/r - T'T with T = L^-1 A R^-1, N x D
            K = (self.M / r) @ self.M.T
            K[np.diag_indices(N)] += 1.0
            L = la.cholesky(K, lower=True)
            self.T, self.r, self.P = la.solve_triangular(L, self.M / r, lower=True), r, None
        else:
            values, vectors = la.eigh(self.M.T @ self.M + self.R.toarray())
            kept = values > 1e-13 * values[-1]
            self.P = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    def times(self, V: Array) -> Array:
        """P V."""
        if self.P is not None:
            return self.P @ V
        return V / self.r[:, None] - self.T.T @ (self.T @ V)

    def on(self, support: Array) -> Array:
        """P[support, support]."""
        if self.P is not None:
            return self.P[np.ix_(support, support)]
        T = self.T[:, support]
        return np.diag(1.0 / self.r[support]) - T.T @ T


def hat_matrix_loo(system: _Inverse, Y: Array) -> Array:
    """The paper's formula: (yhat - H_nn y) / (1 - H_nn)."""
    H = (system.clean.T * system.times(system.M.T)).sum(axis=0) + system.bias
    return (system.predict_clean - H[:, None] * Y) / (1.0 - H)[:, None]


def removed_variance_loo(system: _Inverse, X: Any, Y: Array, corruption: Corruption) -> tuple[Array, Array]:
    """Example n's mean and covariance both leave the system, by two low-rank updates of P.

    Also says which examples cannot be left out that way, because a direction is theirs alone.
    """
    P_mean, P_clean = system.times(system.M.T), system.times(system.clean.T)
    left = system.R.diagonal()
    predictions, alone = np.empty_like(Y), np.zeros(len(Y), dtype=bool)
    for n in range(len(Y)):
        support, F = _covariance_root(corruption, X[n : n + 1], left)
        own = F.T @ system.on(support) @ F
        middle = np.eye(own.shape[0]) - own
        f_mean, f_clean, f_W = F.T @ P_mean[support, n], F.T @ P_clean[support, n], F.T @ system.W[support]
        solved = (
            np.linalg.solve(middle, np.column_stack([f_mean, f_W]))
            if len(own)
            else np.zeros((0, 1 + Y.shape[1]))
        )
        s_mean, s_W = solved[:, 0], solved[:, 1:]
        h = system.M[n] @ P_mean[:, n] + system.bias + f_mean @ s_mean
        cross = system.clean[n] @ P_mean[:, n] + system.bias + f_clean @ s_mean
        at_mean = system.predict_mean[n] + f_mean @ s_W
        at_clean = system.predict_clean[n] + f_clean @ s_W
        alone[n] = 1.0 - h < 1e-9
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
    values, vectors = la.eigh(block * np.outer(shrink, shrink))
    kept = values > 1e-14 * values[-1]
    return support, vectors[:, kept] * np.sqrt(values[kept])
