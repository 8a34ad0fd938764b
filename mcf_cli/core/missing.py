"""Missing features that are marked: what a linear model does with NaN.

MCF trains for damage that nobody marks. Whoever knows which features are missing can do better: with the mean mu and
the covariance S of the training rows, Gaussian features give

    x_u | x_o ~ N(mu_u + S_uo S_oo^-1 (x_o - mu_o),  S_uu - S_uo S_oo^-1 S_ou)

for the missing features u and the observed ones o. The score w.x + b is then Gaussian too, and its mean is linear in
x_o. So each pattern of missing features has a linear model of its own, on the observed features alone. With
P = S^-1 its weights are w_o - P_ou P_uu^-1 w_u, and the score's variance is w_u' P_uu^-1 w_u. With P the inverse of
the regularised Gram matrix of a quadratic loss, the same formula is the model that a fit to the observed columns gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.utils.validation import check_is_fitted, validate_data

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.rates import has_missing
from mcf_cli.core.prediction import check_samples, mean_sigmoid, plain_probabilities, without_missing
from mcf_cli.core.problem import Problem

WAYS = ("deleted", "mean", "conditional")
FULL_COVARIANCE = (
    1000  # features: their whole covariance takes 8 MB; beyond, a low rank plus a diagonal stands for it
)
LOW_RANK = 100
_FLOOR = 1e-6  # of a correlation matrix, the least variance in any direction


@dataclass(frozen=True)
class Conditioning:
    """What is known of missing features from observed ones, in units that give each feature a variance of 1.

    Either `precision` is the inverse P of the correlation matrix, or `loadings` F (D x rank) stand for it: the
    correlation is F F' + diag(psi), with psi such that the diagonal is 1. No columns of F: features are independent.

    Parameters
    ----------
    mean, scale : (D,) centre and unit of each feature; a unit of 0 marks a constant
    precision, loadings : one of them, the other is None
    """

    mean: Array
    scale: Array
    precision: Array | None = None
    loadings: Array | None = None

    def reduced(self, coef: Array, gone: Array) -> tuple[Array, Array, Array]:
        """The linear model on observed features alone.

        Parameters
        ----------
        coef : (C, D) weights of the whole model
        gone : the missing features, as indices

        Returns
        -------
        weights (C, D), zero where missing; what to add to the biases (C,); the covariance (C, C) of the scores
        """
        V = coef * self.scale
        if self.precision is not None:
            factor = la.cho_factor(self.precision[np.ix_(gone, gone)], lower=True)
            solved = la.cho_solve(factor, V[:, gone].T)
            inner = V - (self.precision[:, gone] @ solved).T
            covariance = V[:, gone] @ solved
        else:
            F, psi, factor = self._posterior(gone)
            through = V[:, gone] @ F[gone]
            solved = la.cho_solve(factor, through.T)
            inner = V + (F @ solved).T / psi
            covariance = through @ solved + (V[:, gone] * psi[gone]) @ V[:, gone].T
        # What is left of a constant is its own weight; no other feature says anything of it.
        weights = np.divide(inner, self.scale, out=coef.copy(), where=self.scale > 0.0)
        weights[:, gone] = 0.0
        return weights, (coef - weights) @ self.mean, covariance

    def expected(self, X: Array, gone: Array) -> Array:
        """The mean of the missing features given the others, for rows that miss the same ones.

        Parameters
        ----------
        X : (N, D) rows; what they hold at `gone` does not matter
        gone : the missing features, as indices

        Returns
        -------
        (N, number of missing features)
        """
        Z = np.divide(X - self.mean, self.scale, out=np.zeros(X.shape), where=self.scale > 0.0)
        Z[:, gone] = 0.0
        if self.precision is not None:
            factor = la.cho_factor(self.precision[np.ix_(gone, gone)], lower=True)
            found = -la.cho_solve(factor, self.precision[gone] @ Z.T).T
        else:
            F, psi, factor = self._posterior(gone)
            found = la.cho_solve(factor, (Z / psi @ F).T).T @ F[gone].T
        return self.mean[gone] + found * self.scale[gone]

    def _posterior(self, gone: Array) -> tuple[Array, Array, Any]:
        """F, psi and a factor of I + F_o' psi_o^-1 F_o, the precision of the factors given what is observed."""
        assert self.loadings is not None
        F = self.loadings
        psi = 1.0 - (F**2).sum(axis=1)
        observed = np.ones(len(F), dtype=bool)
        observed[gone] = False
        inner = np.eye(F.shape[1]) + F[observed].T @ (F[observed] / psi[observed, None])
        return F, psi, la.cho_factor(inner, lower=True)


# -- learning it ----------------------------------------------------------------------------------------------
def conditioning_of(X: Any, missing: str) -> Conditioning:
    """The statistics that `missing` needs, from the observed entries of X.

    Up to `FULL_COVARIANCE` features and with more rows than features, the correlation matrix is that of the rows,
    shrunk towards the identity by Ledoit and Wolf's estimate. Else its `LOW_RANK` largest eigenvectors and a
    diagonal stand for it. Entries that are missing in X count as missing at random.

    Parameters
    ----------
    X : rows, dense or sparse, with NaN where a value is missing; sparse stays sparse
    missing : "mean" or "conditional"

    Returns
    -------
    Conditioning
    """
    counts, mean, scale = _moments(X)
    if missing == "mean":
        return Conditioning(mean, scale, loadings=np.zeros((X.shape[1], 0)))
    if X.shape[1] <= FULL_COVARIANCE and X.shape[0] > X.shape[1]:
        return Conditioning(mean, scale, precision=positive_inverse(_correlation(X, mean, scale), _FLOOR))
    return Conditioning(mean, scale, loadings=_loadings(X, counts, mean, scale))


def positive_inverse(S: Array, floor: float) -> Array:
    """The inverse of a symmetric matrix whose eigenvalues count as `floor` at least."""
    values, vectors = la.eigh(S, check_finite=False)
    return (vectors / np.maximum(values, floor)) @ vectors.T


def _moments(X: Any) -> tuple[Array, Array, Array]:
    """How often each column is observed, its mean and its standard deviation."""
    N, D = X.shape
    if sp.issparse(X):
        gone = np.isnan(X.data)
        counts = N - np.bincount(X.indices[gone], minlength=D)
        total, squares = (
            np.bincount(X.indices, weights=np.where(gone, 0.0, X.data**p), minlength=D) for p in (1, 2)
        )
        mean = total / np.maximum(counts, 1)
        variance = squares / np.maximum(counts, 1) - mean**2
        variance[variance <= 1e-12 * squares / np.maximum(counts, 1)] = 0.0
        return counts, mean, np.sqrt(variance)
    counts = N - np.isnan(X).sum(axis=0)
    mean = np.nansum(X, axis=0) / np.maximum(counts, 1)
    scale = np.sqrt(np.nansum((X - mean) ** 2, axis=0) / np.maximum(counts, 1))
    scale[scale <= 1e-12 * np.abs(mean)] = 0.0
    return counts, mean, scale


def _in_units(X: Any, mean: Array, scale: Array) -> tuple[Array, Array]:
    """Dense rows with mean 0 and variance 1, 0 where missing or constant, and which entries are observed."""
    X = X.toarray() if sp.issparse(X) else X
    observed = ~np.isnan(X)
    Z = np.divide(X - mean, scale, out=np.zeros(X.shape), where=observed & (scale > 0.0))
    return Z, observed


def _correlation(X: Any, mean: Array, scale: Array) -> Array:
    """The correlations of pairs observed together, shrunk so far that their squared error is expected to be least."""
    D = X.shape[1]
    products, fourth, pairs = np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D))
    complete, spread = not has_missing(X), 0.0
    for start in range(0, X.shape[0], 4096):
        Z, observed = _in_units(X[start : start + 4096], mean, scale)
        products += Z.T @ Z
        if complete:  # the sum over all pairs is all that is needed, and cheap
            spread += float(((Z**2).sum(axis=1) ** 2).sum())
            continue
        seen = observed.astype(float)
        pairs += seen.T @ seen
        fourth += (Z**2).T @ Z**2
    pairs = np.full((D, D), float(X.shape[0])) if complete else np.maximum(pairs, 1.0)
    R = products / pairs
    if complete:
        noise = (spread / X.shape[0] - float((R**2).sum())) / X.shape[0]
    else:
        noise = float(((fourth / pairs - R**2) / pairs).sum())
    np.fill_diagonal(R, 1.0)
    signal = float((R**2).sum()) - D  # the squared distance from the identity
    share = 1.0 if signal <= 0.0 else float(np.clip(noise / signal, 0.0, 1.0))
    R *= 1.0 - share
    np.fill_diagonal(R, 1.0)
    return R


def _loadings(X: Any, counts: Array, mean: Array, scale: Array) -> Array:
    """The leading eigenvectors of the correlation matrix, times the root of their eigenvalue less the noise's.

    The noise is the mean of the other eigenvalues, as in probabilistic principal components. They come from a
    seeded subspace iteration, which takes products with X alone.
    """
    N, D = X.shape
    rank = min(LOW_RANK, D - 1, N - 1)
    if rank < 1:
        return np.zeros((D, 0))
    # Missing entries count as means; a column seen in a share p of the rows has its products divided by p.
    unit = np.divide(1.0, scale, out=np.zeros(D), where=scale > 0.0) * N / np.maximum(counts, 1)
    filled = filled_with(X, mean)
    shift = unit * mean

    def forward(V: Array) -> Array:
        return np.asarray(filled @ (unit[:, None] * V)) - shift @ V

    def back(U: Array) -> Array:
        return unit[:, None] * np.asarray(filled.T @ U) - np.outer(shift, U.sum(axis=0))

    V = np.random.default_rng(0).standard_normal((D, min(rank + 10, D)))
    for _ in range(5):
        V = la.qr(back(forward(V)) / N, mode="economic")[0]
    values, rotation = la.eigh(_gram(forward(V)) / N)
    values, V = values[::-1][:rank], (V @ rotation)[:, ::-1][:, :rank]
    n_active = int((scale > 0.0).sum())
    trace = float((N / np.maximum(counts, 1))[scale > 0.0].sum())
    rest = max(trace - float(values.sum()), 0.0) / max(min(n_active, N - 1) - rank, 1)
    F = V * np.sqrt(np.maximum(values - rest, 0.0))
    size = (F**2).sum(axis=1)
    return F * np.sqrt(np.minimum(1.0, (1.0 - 1e-3) / np.maximum(size, 1e-300)))[:, None]


def _gram(B: Array) -> Array:
    return B.T @ B


# -- using it -------------------------------------------------------------------------------------------------
def filled_with(X: Any, values: Array) -> Any:
    """The same rows with values[d] for NaN in column d; a sparse matrix stays sparse."""
    if not has_missing(X):
        return X
    if not sp.issparse(X):
        return np.where(np.isnan(X), values, X)
    data = np.where(np.isnan(X.data), values[X.indices], X.data)
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)


def filled(X: Any, missing: str, conditioning: Conditioning | None) -> Any:
    """The rows without NaN: 0, the column's mean, or the mean given what the row holds.

    Parameters
    ----------
    X : rows, dense or sparse; sparse stays sparse
    missing : one of `WAYS`
    conditioning : the training rows' statistics; "deleted" needs none

    Returns
    -------
    rows of the same form
    """
    if missing == "deleted" or not has_missing(X):
        return without_missing(X)
    assert conditioning is not None
    if missing == "mean":
        return filled_with(X, conditioning.mean)
    X = X.copy()
    for gone, rows in patterns(X):
        part = X[rows].toarray() if sp.issparse(X) else X[rows]
        values = conditioning.expected(part, gone)
        if not sp.issparse(X):
            X[np.ix_(rows, gone)] = values
            continue
        for row, found in zip(rows, values, strict=True):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            inside = np.flatnonzero(np.isnan(X.data[entries]))
            X.data[entries.start + inside] = found[np.searchsorted(gone, X.indices[entries][inside])]
    return X


def patterns(X: Any) -> Iterator[tuple[Array, Array]]:
    """The sets of missing features that occur, and the rows of each."""
    found: dict[bytes, list[int]] = {}
    if sp.issparse(X):
        entries = np.flatnonzero(np.isnan(X.data))
        rows = np.searchsorted(X.indptr, entries, side="right") - 1
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        for row, columns in zip(rows[starts], np.split(X.indices[entries], starts[1:]), strict=True):
            found.setdefault(np.sort(columns).astype(np.int64).tobytes(), []).append(int(row))
    else:
        gone = np.isnan(X)
        for row in np.flatnonzero(gone.any(axis=1)):
            found.setdefault(np.flatnonzero(gone[row]).tobytes(), []).append(int(row))
    for key, members in found.items():
        yield np.frombuffer(key, dtype=np.int64), np.array(members)


def conditional_scores(X: Any, coef: Array, intercept: Array, conditioning: Conditioning) -> Array:
    """E[w.x + b | what the row holds], N x C."""
    clean = without_missing(X)
    scores = np.asarray(clean @ coef.T) + intercept
    for gone, rows in patterns(X):
        weights, shift, _ = conditioning.reduced(coef, gone)
        scores[rows] = np.asarray(clean[rows] @ weights.T) + intercept + shift
    return scores


def conditional_probabilities(
    X: Any, coef: Array, intercept: Array, conditioning: Conditioning, n_samples: int, random_state: int
) -> Array:
    """E[p(y | x) | what the row holds]: the scores are Gaussian given the observed features.

    Two classes: a one-dimensional integral, to 1e-12. More: the mean over a seeded, scrambled Sobol sequence of
    normal vectors, the same for all rows; their number is the next power of two of `n_samples`.
    """
    clean = without_missing(X)
    result = plain_probabilities(np.asarray(clean @ coef.T) + intercept)
    normals = None if len(coef) == 1 else _normals(len(coef), n_samples, random_state)
    for gone, rows in patterns(X):
        weights, shift, covariance = conditioning.reduced(coef, gone)
        scores = np.asarray(clean[rows] @ weights.T) + intercept + shift
        if normals is None:
            p = mean_sigmoid(scores[:, 0], float(np.sqrt(max(covariance[0, 0], 0.0))))
            result[rows] = np.column_stack([1.0 - p, p])
            continue
        values, vectors = la.eigh(covariance)
        steps = normals @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        for row, score in zip(rows, scores, strict=True):
            result[row] = plain_probabilities(score + steps).mean(axis=0)
    return result


def _normals(width: int, n_samples: int, seed: int) -> Array:
    check_samples(n_samples)
    points = qmc.Sobol(width, seed=seed).random_base2((n_samples - 1).bit_length())
    return ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))


# -- in an estimator ------------------------------------------------------------------------------------------
def checked_rows(model: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data` of rows, sparse ones as CSR; NaN is refused with advice."""
    options["ensure_all_finite"] = model.missing is None or "allow-nan"
    try:
        return validate_data(model, X, *y, accept_sparse="csr", **options)
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN") or "missing" not in model.get_params(deep=False):
            raise
        ways = ", ".join(f"missing={way!r}" for way in WAYS)
        raise ValueError(f"Input X contains NaN: give the model {ways}, or fill X before") from None


class LinearRows:
    """The scores of a linear estimator's rows, NaN among them as its parameter `missing` says."""

    missing: str | None
    coef_: Array
    intercept_: Array
    conditioning_: Any

    def _rows(self, X: Any) -> Any:
        """Rows to predict, float32 as they are: NaN stays where `missing` is "conditional", which needs to know it."""
        check_is_fitted(self)
        X = checked_rows(self, X, dtype=(np.float64, np.float32), reset=False)
        if self.missing is None or not has_missing(X):
            return X
        X = X.astype(np.float64, copy=False)
        conditioning = getattr(self, "conditioning_", None)  # a fit by chunks leaves none
        if self.missing != "deleted" and conditioning is None:
            raise ValueError(
                f"this model has no statistics of its training rows; train it with missing={self.missing!r} "
                "and `fit`, not from chunks"
            )
        return X if self.missing == "conditional" else filled(X, self.missing, conditioning)

    def _linear(self, X: Any) -> Array:
        return self._scores(self._rows(X))

    def _scores(self, X: Any) -> Array:
        """In the precision of X, which is not copied."""
        if not has_missing(X):
            weights = np.asarray(self.coef_.T).astype(X.dtype, copy=False)
            return np.asarray(X @ weights) + np.asarray(self.intercept_).astype(X.dtype, copy=False)
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        scores = conditional_scores(X, coef, intercept, self.conditioning_)
        return scores[:, 0] if np.ndim(self.coef_) == 1 else scores


def learnt(X: Any, missing: str | None) -> tuple[Any, Conditioning | None]:
    """Training rows without NaN, and the statistics that filled them and serve predictions.

    Parameters
    ----------
    X : rows, dense or sparse, with NaN only where `missing` is set
    missing : one of `WAYS`, or None

    Returns
    -------
    the rows filled as predictions fill them, and a `Conditioning`, or None where nothing is to be known
    """
    if missing is None:
        return X, None
    if missing not in WAYS:
        raise ValueError(f"missing={missing!r} is not known; give {', '.join(map(repr, WAYS))} or None")
    conditioning = None if missing == "deleted" else conditioning_of(X, missing)
    return filled(X, missing, conditioning), conditioning


def of_quadratic_loss(
    problem: Problem, corruption: Corruption | str | None, l2: float, found: Conditioning | None
) -> Conditioning | None:
    """The statistics with which a quadratic loss becomes the fit to the observed columns, where they are small enough.

    Parameters
    ----------
    problem, corruption, l2 : the fit
    found : the statistics of its rows; None or those of "mean" stay what they are

    Returns
    -------
    Conditioning whose precision is the inverse of the loss's own matrix; what was found, of more than
    `FULL_COVARIANCE` features
    """
    if (
        found is None
        or len(found.mean) > FULL_COVARIANCE
        or (found.loadings is not None and not found.loadings.shape[1])
    ):
        return found
    inverse, unit, mean = problem.inverse_gram(corruption, l2)
    scale = np.divide(1.0, unit, out=np.zeros(len(unit)), where=unit > 0.0)
    return Conditioning(mean, scale, precision=inverse)
