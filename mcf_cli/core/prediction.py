"""What stands after and before a linear model.

After: predictions averaged over the corruption, the paper's graphical model (Figure 2), E[p(y | x~)].
Before: columns on one scale, and missing values as deleted ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import product
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, ndtr, softmax
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.characteristic import has_characteristic
from mcf_cli.core.corruptions.elementwise import Coded, Gaussian, Identity
from mcf_cli.core.corruptions.per_feature import resolve
from mcf_cli.core.corruptions.rates import has_missing, missing_by_column
from mcf_cli.core.design.blocks import Block, Design
from mcf_cli.core.design.coding import CodeBook
from mcf_cli.core.kernels.dispatch import canonical
from mcf_cli.core.losses.base import Batch
from mcf_cli.core.losses.expected import Exact, certain_sigmoid, mean_sigmoid_at, reach, reaches
from mcf_cli.core.losses.margin import PairwiseJensen

SCALES = ("standard", "max", "none")
_INTEGRABLE = 65536.0  # what scores may reach: an integral over them takes 1.7 nodes for each unit
_ENUMERABLE = 10  # corrupted entries of an example that are summed over exactly
_SURE = 1e-6  # what a probability may be off where a score too far to integrate over has one sign as good as surely
_DRAWN = 1 << 22  # values of corrupted copies in memory at a time
METHODS = ("auto", "exact", "bound", "sample")


def plain_probabilities(scores: Array) -> Array:
    """Softmax of the scores; two columns for two classes."""
    if scores.shape[1] == 1:
        p = expit(scores[:, 0])
        return np.column_stack([expit(-scores[:, 0]), p])
    return softmax(scores, axis=1)


def marginal_probabilities(
    X: Any,
    coef: Array,
    intercept: Array,
    corruption: Corruption,
    method: str,
    n_samples: int,
    random_state: int,
) -> Array:
    """E[p(y | x~)] for each row of X, by the named method; what a row has does not depend on its neighbours."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; give 'auto', 'exact', 'bound' or 'sample'")
    check_samples(n_samples)
    if method == "bound":
        return bounded(X, coef, intercept, corruption)
    if method == "sample":
        return sampled(X, coef, intercept, corruption, n_samples, random_state)
    p = exact(X, coef, intercept, corruption)
    left = np.flatnonzero(np.isnan(p[:, 0]))
    if not len(left):
        return p
    reason = _why_not_exact(coef, corruption, left)
    if method == "exact":
        raise ValueError(f"no exact marginal prediction: {reason}; use method='sample' or 'bound'")
    if len(coef) == 1:
        warnings.warn(
            f"{reason}; their probabilities are means of {n_samples} corrupted copies",
            UserWarning,
            stacklevel=3,
        )
    p[left] = sampled(X[left], coef, intercept, corruption, n_samples, random_state)
    return p


def check_samples(n_samples: Any) -> None:
    """ValueError where n_samples is no number of samples."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be a whole number, at least 1; got {n_samples!r}")


def _why_not_exact(coef: Array, corruption: Corruption, rows: Array) -> str:
    if len(coef) > 1:
        return (
            f"more than two classes need rows of no more than {_ENUMERABLE} entries, corrupted by deletion; "
            f"row {rows[0]} is none"
        )
    if _integrable(corruption, coef.shape[1]):
        return (
            f"the scores of {len(rows)} rows (first: row {rows[0]}) reach too far to integrate over "
            "(scale the columns of X)"
        )
    return f"{type(corruption).__name__} has no characteristic function to integrate over"


def _integrable(corruption: Corruption, n_features: int) -> bool:
    return all(has_characteristic(family) for _, family in corruption.split(n_features))


def exact(X: Any, coef: Array, intercept: Array, corruption: Corruption) -> Array:
    """In closed form, by a one-dimensional integral (two classes) or by enumeration; NaN in rows where none applies."""
    families = [family for _, family in corruption.split(X.shape[1])]
    if all(isinstance(family, Identity) for family in families):
        return plain_probabilities(np.asarray(X @ coef.T) + intercept)
    if isinstance(corruption, Gaussian) and len(coef) == 1:
        return _gaussian(X, coef, intercept, corruption)
    result = np.full((X.shape[0], max(2, len(coef))), np.nan)
    integrable = len(coef) == 1 and _integrable(corruption, X.shape[1])
    if integrable:
        result[:, 1] = _integrated(X, coef, intercept, corruption)
    if all(isinstance(family, Identity | Coded) for family in families):
        listed = sp.csr_matrix(X)
        few = np.flatnonzero(np.isnan(result[:, 1]) & (np.diff(listed.indptr) <= _ENUMERABLE))
        if len(few):
            result[few] = _enumerated(listed[few], coef, intercept, corruption)
    left = np.flatnonzero(np.isnan(result[:, 1]))
    if integrable and len(left):
        for block, W in _blocks(X[left], coef, corruption):
            result[left[block.rows], 1] = certain_sigmoid(block, W, intercept, _SURE)
    if len(coef) == 1:
        result[:, 0] = 1.0 - result[:, 1]
    return result


def _integrated(X: Any, coef: Array, intercept: Array, corruption: Corruption) -> Array:
    """E sigma(z) of each row; NaN where its score reaches too far.

    Rows of about the same reach are integrated together, so that one long row does not give all others its nodes.
    """
    p, far = np.full(X.shape[0], np.nan), np.empty(X.shape[0])
    for block, W in _blocks(X, coef, corruption):
        far[block.rows] = reaches(block, W, intercept)
    size = np.ceil(np.log2(far))
    for power in np.unique(size[far <= _INTEGRABLE]):
        rows = np.flatnonzero(size == power)
        for block, W in _blocks(X[rows], coef, corruption):
            p[rows[block.rows]] = mean_sigmoid_at(block, W, intercept)
    return p


def expected_loss(
    coef: Array, intercept: Array, X: Any, y: Array, corruption: Corruption | str | None = None
) -> float:
    """The mean of E log(1 + e^{-y z}) over rows, exactly: what every bound on the logistic loss of two classes bounds.

    Parameters
    ----------
    coef, intercept : a linear model of two classes: (1, D) or (D,) weights and a bias
    X, y : rows, and their class codes 0 and 1
    corruption : a corruption, its name, or None for the plain logistic loss

    Returns
    -------
    the mean loss, without l2

    Examples
    --------
    >>> from mcf_cli import Blankout
    >>> from mcf_cli.core.prediction import expected_loss
    >>> round(expected_loss([1.0, -1.0], 0.0, [[2.0, 0.0], [0.0, 1.0]], [1, 0], Blankout(q=0.5)), 4)
    0.3828
    """
    coef, intercept = (
        np.atleast_2d(np.asarray(coef, dtype=float)),
        np.atleast_1d(np.asarray(intercept, float)),
    )
    X, y, corruption = canonical(X), np.asarray(y), resolve(corruption)
    if coef.shape != (1, X.shape[1]) or intercept.shape != (1,) or y.shape != X.shape[:1]:
        raise ValueError(
            f"coef {coef.shape}, intercept {intercept.shape} and y {y.shape} do not fit X {X.shape}: "
            "expected_loss takes (1, D) weights, one bias and one label for each row"
        )
    if not np.isin(y, (0, 1)).all() or not len(y):
        raise ValueError("expected_loss takes the class codes 0 and 1")
    corruption.check_parameters(X.shape[1])
    corruption.check_data(X)
    loss, total = Exact(2), 0.0
    for block, W in _blocks(X, coef, corruption):
        if not (far := reach(block, W, intercept)) <= _INTEGRABLE:
            raise ValueError(
                f"scores reach {far:.3g}, too far to integrate over; scale the weights or X down"
            )
        mean = block.sums("mean", W)[0][:, 0] + intercept[0]
        total += float((loss.values(Batch(block, mean, y), W, intercept) - y[block.rows] * mean).sum())
    return total / len(y)


def _blocks(X: Any, coef: Array, corruption: Corruption) -> list[tuple[Block, Array]]:
    """The rows in blocks, each with its weights."""
    design = Design(X, corruption, None, Exact(2).width, CodeBook())
    return [(block, coef.T[block.columns]) for block in design.blocks(corruption)]


def _gaussian(X: Any, coef: Array, intercept: Array, corruption: Gaussian) -> Array:
    """The score is normal: integrate the sigmoid over it."""
    spread = float(np.sqrt((corruption.moments().v0 * coef[0] ** 2).sum()))
    p = mean_sigmoid(np.asarray(X @ coef[0]) + intercept[0], spread)
    return np.column_stack([1.0 - p, p])


def mean_sigmoid(score: Array, spread: float) -> Array:
    """E sigma(score + spread Z) for a normal Z, to 1e-12 at any spread.

    sigma(z) is the chance that a logistic variable L is below z, so the mean is that of Phi((score - L) / spread) too.
    The first integrand is smooth where the spread is small, the second where it is large, and the trapezoidal rule
    on a smooth integrand that vanishes at both ends errs by e^(-40) at these steps.
    """
    if spread <= 1.0:
        nodes = np.arange(-9.0, 9.125, 0.25)
        weights = np.exp(-0.5 * nodes**2)
    else:
        nodes = np.arange(-38.0, 38.25, 0.5)
        weights = expit(nodes) * expit(-nodes)
    total = np.zeros_like(score)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * (expit(score + spread * node) if spread <= 1.0 else ndtr((score - node) / spread))
    return total


def _enumerated(X: sp.csr_matrix, coef: Array, intercept: Array, corruption: Corruption) -> Array:
    """Every subset of the non-zeros, weighed by its probability."""
    keep, kept = np.zeros(X.shape[1]), np.ones(X.shape[1])
    for columns, family in corruption.split(X.shape[1]):
        q = family._q() if isinstance(family, Coded) else 0.0
        keep[columns] = 1.0 - q
        kept[columns] = family.survivor(q) if isinstance(family, Coded) else 1.0
    result = []
    for n in range(X.shape[0]):
        entries = slice(X.indptr[n], X.indptr[n + 1])
        features = X.indices[entries]
        masks = np.array(list(product((0.0, 1.0), repeat=len(features))))
        weight = np.where(masks > 0, keep[features], 1.0 - keep[features]).prod(axis=1)
        scores = (masks * (X.data[entries] * kept[features])) @ coef[:, features].T + intercept
        result.append(weight @ plain_probabilities(scores))
    return np.array(result)


def sampled(
    X: Any, coef: Array, intercept: Array, corruption: Corruption, n_samples: int, seed: int
) -> Array:
    """The mean over seeded corrupted copies, drawn anew for each row."""
    result = np.empty((X.shape[0], max(2, len(coef))))
    at_once = max(1, _DRAWN // max(X.shape[1], 1))
    for row in range(X.shape[0]):
        rng, total = np.random.default_rng(seed), np.zeros(result.shape[1])
        for start in range(0, n_samples, at_once):
            copies = X[np.full(min(at_once, n_samples - start), row)]
            scores = np.asarray(corruption.sample(copies, rng) @ coef.T) + intercept
            total += plain_probabilities(scores).sum(axis=0)
        result[row] = total / n_samples
    return result


def bounded(X: Any, coef: Array, intercept: Array, corruption: Corruption) -> Array:
    """The lower bounds 1 / (1 + sum_j E e^{(w_j - w_k).x~}) of Eq. bayes_net, divided by their sum."""
    K = max(2, len(coef))
    loss = PairwiseJensen(K)
    codes = CodeBook()
    log_bound = np.empty((X.shape[0], K))
    for label in range(K):
        design = Design(X, corruption, np.full(X.shape[0], label), loss.width, codes)
        for block in design.blocks(corruption):
            batch = Batch(block, np.empty(0), np.empty(0))
            log_bound[block.rows, label] = -loss.values(batch, coef.T[block.columns], intercept)
    return softmax(log_bound, axis=1)


_ONE_SIDED = 0.2  # how far the share of a class may move from rows with labels to rows without


def warn_if_one_sided(labels: Array, predicted: Array) -> None:
    """Warn where rows without labels have drifted to one class; both hold class codes 0 and 1.

    A regulariser of rows without labels is small where all scores are far from zero, on whichever side.
    """
    seen, found = float(np.mean(labels)), float(np.mean(predicted))
    if abs(seen - found) > _ONE_SIDED:
        warnings.warn(
            f"the second class has {seen:.0%} of the labelled rows and {found:.0%} of the predictions on X_unlabeled: "
            "the rows without labels push scores to one side; raise l2, or fit without them",
            UserWarning,
            stacklevel=3,
        )


# -- before the model ---------------------------------------------------------------------------------------
class Preparation(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide each column by its size in the training rows; then set what is missing (NaN) to 0.

    A corruption that deletes sets a value to 0, so a missing value is a deleted one. On dense data "standard"
    moves each column's mean to 0 first, and deleted then means "at the mean". Sparse data stays sparse: its
    columns are divided by their standard deviation and not moved.

    Parameters
    ----------
    scale : "standard" (mean 0, standard deviation 1), "max" (largest absolute value 1) or "none"
    missing : "deleted", or "kept" for a model that takes NaN itself

    Attributes
    ----------
    centre_, divisor_ : what is subtracted from each column and what it is divided by; None where nothing is
    missing_ : the share of each column that is missing in the training rows

    >>> import numpy as np
    >>> from mcf_cli.core.prediction import Preparation
    >>> X = np.array([[1.0, 200.0], [3.0, np.nan]])
    >>> step = Preparation("standard").fit(X)
    >>> step.transform(X), step.missing_
    (array([[-1.,  0.],
           [ 1.,  0.]]), array([0. , 0.5]))
    """

    def __init__(self, scale: str = "none", missing: str = "deleted"):
        self.scale = scale
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the size of each column and how often it is missing."""
        return self.fit_pieces([X])

    def fit_pieces(self, pieces: Iterable[Any]) -> Self:
        """`fit` to rows that come some at a time."""
        if self.scale not in SCALES:
            raise ValueError(f"scale is {self.scale!r}; choose one of {', '.join(SCALES)}")
        rows, sizes = 0, None
        missing: Any = 0.0
        for piece in pieces:
            X = self._checked(piece, reset=rows == 0)
            sizes = sizes or _Sizes(self.scale, sp.issparse(X))
            sizes.add(X)
            rows, missing = rows + X.shape[0], missing + missing_by_column(X)
        assert sizes is not None, "X has no rows"
        self.missing_ = missing / rows
        self.centre_, self.divisor_ = sizes.found()
        return self

    def transform(self, X: Any) -> Any:
        """The rows as a model takes them."""
        check_is_fitted(self)
        scaled = self._scaled(self._checked(X, reset=False))
        return scaled if self.missing == "kept" else without_missing(scaled)

    def _scaled(self, X: Any) -> Any:
        if self.divisor_ is None:
            return X
        if not sp.issparse(X):
            return (X if self.centre_ is None else X - self.centre_) / self.divisor_
        if self.centre_ is not None:  # learnt from dense rows: what is not stored is 0, and 0 is not the mean
            return self._scaled(X.toarray())
        return type(X)((X.data / self.divisor_[X.indices], X.indices, X.indptr), shape=X.shape)

    def _checked(self, X: Any, reset: bool) -> Any:
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "reset": reset}
        return validate_data(self, X, ensure_all_finite="allow-nan", **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


def without_missing(X: Any) -> Any:
    """The same rows with 0 for NaN."""
    if not has_missing(X):
        return X
    if not sp.issparse(X):
        return np.nan_to_num(X, nan=0.0)
    X = type(X)((np.nan_to_num(X.data, nan=0.0), X.indices, X.indptr), shape=X.shape, copy=True)
    X.eliminate_zeros()
    return X


class _Sizes:
    """The centre and the divisor of each column, from all rows that are added."""

    def __init__(self, scale: str, sparse: bool):
        self.centred = scale == "standard" and not sparse
        makers = {"standard": lambda: StandardScaler(with_mean=self.centred), "max": MaxAbsScaler}
        self.scaler = makers[scale]() if scale in makers else None

    def add(self, X: Any) -> None:
        if self.scaler is not None:
            with np.errstate(invalid="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
                self.scaler.partial_fit(X)

    def found(self) -> tuple[Array | None, Array | None]:
        """(centre, divisor); of a column without any value 0 and 1, None where nothing is to be done."""
        if self.scaler is None:
            return None, None
        centre = _usable(self.scaler.mean_, 0.0) if self.centred else None
        return centre, _usable(self.scaler.scale_, 1.0)


def _usable(values: Array, otherwise: float) -> Array:
    return np.where(np.isfinite(values), values, otherwise)
