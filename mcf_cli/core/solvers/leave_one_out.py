"""Leave-one-out predictions of the quadratic loss: the paper's formula, and the exact one.

The paper divides the residual by 1 - H_nn, which keeps example n's own variance in the system: exact only when the
regulariser does not depend on the data. Here `exact` removes the variance too, so it equals fitting again
without the example (mean loss over the other N - 1, same l2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.elementwise import Gaussian, Identity, Laplace
from mcf_cli.core.solvers import checked_l2, inverse_root, triangular, units, without
from mcf_cli.core.solvers.least_squares import SMALL, QuadraticSystem, certain
from mcf_cli.core.solvers.normal_equations import LinearFit, brought_near

_Along = Callable[[Array, Array, Array], tuple[Array, Array, Array]]
_Roots = tuple[Array, Array, Array]
_ROOM = 1 << 21  # numbers that some examples at a time may take


def leave_one_out(
    X: Any, Y: Array, corruption: Corruption, l2: float, fit_intercept: bool, method: str
) -> Array:
    """Predictions for each example by the model fitted to the others, N x C."""
    if method not in ("exact", "paper"):
        raise ValueError(f"method={method!r} is not known; give 'exact' or 'paper'")
    N, ridge = X.shape[0], checked_l2(l2)
    if N < 2:
        raise ValueError("leave-one-out needs at least two examples")
    acting = corruption
    constant = _constant_variance(corruption, X.shape[1])
    if method == "exact" and constant is not None:
        acting, ridge = Identity(), l2 + constant
        if ridge > 0.0 and X.shape[1] >= N:
            predictions, doubtful = ridge_loo(X, Y, (N - 1) * ridge, fit_intercept)
            return refit_without(doubtful, predictions, X, Y, corruption, l2, fit_intercept)
    system = _Inverse(X, Y, acting, (N if method == "paper" else N - 1) * ridge, fit_intercept)
    if not system.sound:
        warnings.warn(
            "leave-one-out: the system is nearly singular; drop copies of columns or raise l2",
            ConvergenceWarning,
            3,
        )
    if method == "paper":
        return hat_matrix_loo(system, Y)
    predictions, doubtful = removed_variance_loo(system, X, Y, acting)
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

    def forms(self) -> tuple[Array, Array, _Along]:
        """Of every example m' P m and x' P m, with its mean m and clean x; and for some examples, each with its
        directions F on a support, F' P F, F' P m and F' P x. As products of roots, where there is one: P itself is
        large."""
        if self.G is None:
            P_mean, P_clean = self.times(self.M.T), self.times(self.clean.T)
            own, cross = (self.M.T * P_mean).sum(axis=0), (self.clean.T * P_mean).sum(axis=0)

            def along(rows: Array, support: Array, F: Array) -> tuple[Array, Array, Array]:
                T, Ft = self.T.T[support].swapaxes(1, 2) @ F, F.swapaxes(1, 2)
                of_F = (Ft / self.r[support][:, None, :]) @ F - T.swapaxes(1, 2) @ T
                mean, clean = P_mean[support, rows[:, None]], P_clean[support, rows[:, None]]
                return of_F, _times(Ft, mean), _times(Ft, clean)

            return own, cross, along
        G, mean, clean = self.G, self.M @ self.G, self.clean @ self.G

        def along_root(rows: Array, support: Array, F: Array) -> tuple[Array, Array, Array]:
            root = F.swapaxes(1, 2) @ G[support]
            return root @ root.swapaxes(1, 2), _times(root, mean[rows]), _times(root, clean[rows])

        return (mean * mean).sum(axis=1), (clean * mean).sum(axis=1), along_root


def _times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def hat_matrix_loo(system: _Inverse, Y: Array) -> Array:
    """The paper's formula: (yhat - H_nn y) / (1 - H_nn)."""
    H = system.forms()[1] + system.bias
    return (system.predict_clean - H[:, None] * Y) / (1.0 - H)[:, None]


def removed_variance_loo(system: _Inverse, X: Any, Y: Array, corruption: Corruption) -> tuple[Array, Array]:
    """Example n's mean and covariance both leave the system, by two low-rank updates of P.

    Also says which examples cannot be left out that way, because a direction is theirs alone.
    """
    of_mean, of_both, along = system.forms()
    predictions, alone = np.empty_like(Y), np.zeros(len(Y), dtype=bool)
    for rows, support, F in _covariance_roots(corruption, X, system.R.diagonal()):
        own, f_mean, f_clean = along(rows, support, F)
        f_W = F.swapaxes(1, 2) @ system.W[support]
        solved = np.linalg.solve(np.eye(own.shape[1]) - own, np.dstack([f_mean, f_W]))
        s_mean, s_W = solved[:, :, 0], solved[:, :, 1:]
        h = of_mean[rows] + system.bias + (f_mean * s_mean).sum(axis=1)
        cross = (of_both[rows] + system.bias + (f_clean * s_mean).sum(axis=1))[:, None]
        at_mean = system.predict_mean[rows] + _times(s_W.swapaxes(1, 2), f_mean)
        at_clean = system.predict_clean[rows] + _times(s_W.swapaxes(1, 2), f_clean)
        alone[rows] = 1.0 - h < 1e-5
        left = at_mean - Y[rows] * h[:, None]
        predictions[rows] = at_clean - Y[rows] * cross + cross * left / np.maximum(1.0 - h, 1e-9)[:, None]
    return predictions, alone


def _covariance_roots(corruption: Corruption, X: Any, regulariser: Array) -> Iterator[_Roots]:
    """(examples, support, F) with Cov[x~] = F F' on the support of each example: some examples at a time where
    features are corrupted one by one, so that F is diagonal.

    A feature that only one example holds would keep no regulariser at all; it keeps a sliver, because its
    weight without the example is zero either way and the system stays solvable.
    """
    N, D = X.shape
    if any(family.couples for _, family in corruption.split(D)):
        for n in range(N):
            support, F = _covariance_root(corruption, X[n : n + 1], regulariser)
            yield np.array([n]), support[None], F[None]
        return
    variance: Array = np.broadcast_to(corruption.variance(X.toarray() if sp.issparse(X) else X), X.shape)
    size = np.sqrt(np.where(_alone(variance, regulariser), (1.0 - 1e-8) * variance, variance))
    count = max(1, _ROOM // max(1, D * int((size > 0.0).sum(axis=1).max())))
    for start in range(0, N, count):
        rows = np.arange(start, min(start + count, N))
        width = int((size[rows] > 0.0).sum(axis=1).max())
        support = np.argsort(size[rows] == 0.0, axis=1, kind="stable")[:, :width]
        yield rows, support, np.take_along_axis(size[rows], support, axis=1)[:, :, None] * np.eye(width)


def _alone(variance: Array, regulariser: Array) -> Array:
    """Which features only this example holds."""
    return variance > (1.0 - 1e-9) * regulariser


def _covariance_root(corruption: Corruption, x: Any, regulariser: Array) -> tuple[Array, Array]:
    """(support, F) of one example whose features are corrupted together."""
    covariance = sp.coo_matrix(corruption.covariance_sum(x, np.ones(1)))
    covariance.sum_duplicates()
    support = np.unique(covariance.row[covariance.data != 0.0])
    block = covariance.tocsr()[support][:, support].toarray()
    variance = np.diagonal(block).copy()
    shrink = np.where(_alone(variance, regulariser[support]), np.sqrt(1.0 - 1e-8), 1.0)
    if np.count_nonzero(block - np.diag(variance)) == 0:
        return support, np.diag(shrink * np.sqrt(variance))
    size = np.sqrt(np.where(variance > 0.0, variance, 1.0))  # columns differ in scale
    values, vectors = la.eigh(block / np.outer(size, size))
    kept = values > 1e-14 * values[-1]
    return support, (shrink * size)[:, None] * vectors[:, kept] * np.sqrt(values[kept])
