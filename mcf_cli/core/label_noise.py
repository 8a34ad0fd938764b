"""Labels that are wrong at known rates, and a loss whose mean over the wrong labels is that over the true ones.

With T[i, j] = P(seen j | true i), the loss sum_k (T^-1)[y, k] loss_k of a seen label y is unbiased: its mean over
what is seen of a true label i is loss_i. The logistic loss is log sum_k e^{z_k} - z_y, and rows of T^-1 sum to 1, so
the corrected loss is log sum_k e^{z_k} - sum_k (T^-1)[y, k] z_k: only the linear term changes. It stays convex, an
evaluation costs the same, and every bound on the expected loss under corruption stays one. For two classes with flip
rates rho+ and rho- it is log(1 + e^{-yz}) - c_y y z with c_y = rho_y / (1 - rho+ - rho-).

It is unbiased where the losses of two labels differ by their scores alone: the plain loss, and under corruption the
surrogates "exact", "gaussian" and "quadratic", and `shared`. Jensen's and the variational bound of pairs of classes
lack this; corrected, they are bounds on an unbiased loss, and not unbiased themselves.

The loss of a single example has no lower bound: without l2 there need not be a minimum, and with little l2 the minimum
lies far below zero at large weights that repeat the wrong labels.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.model_selection import StratifiedKFold

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.solvers import checked_l2

if TYPE_CHECKING:
    from mcf_cli.core.problem import Problem

ESTIMATE = "estimate"
_FOLDS = 5
_SURE = 0.2  # the share of a class's predictions, the surest ones, that are taken for true
_FEWEST = 10  # of them
_FAR_BELOW = float(np.log(2.0))  # as far below zero as the loss of zero weights is above
_SINGULAR = 1e8  # a condition number from which on the seen labels tell nothing


def transition_matrix(label_noise: Any, n_classes: int) -> Array:
    """T[i, j] = P(seen j | true i) from one rate, a pair (rho+, rho-) for two classes, or T itself.

    One rate is the probability of a wrong label, all wrong ones alike. ValueError says what is wrong with it.

    >>> transition_matrix((0.1, 0.3), 2)
    array([[0.7, 0.3],
           [0.1, 0.9]])
    >>> transition_matrix(0.2, 3)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    try:
        given = np.asarray(label_noise, dtype=float)
    except (TypeError, ValueError):
        given = np.full(3, np.nan)
    if given.ndim == 0:
        T = np.full((n_classes, n_classes), given / (n_classes - 1))
        np.fill_diagonal(T, 1.0 - given)
    elif given.shape == (2,) and n_classes == 2:
        T = np.array([[1.0 - given[1], given[1]], [given[0], 1.0 - given[0]]])
    else:
        T = given
    if T.shape != (n_classes, n_classes) or not np.isfinite(T).all():
        raise ValueError(
            f"label_noise={_shown(label_noise)} is not known; give a rate of wrong labels, "
            + ("a pair (rho+, rho-), " if n_classes == 2 else "")
            + f"a {n_classes} x {n_classes} matrix P(seen | true), or 'estimate'"
        )
    if (T < 0).any() or not np.allclose(T.sum(axis=1), 1.0, rtol=0, atol=1e-6):
        raise ValueError(
            f"label_noise={_shown(label_noise)}: probabilities must not be negative, and each row of the matrix "
            "P(seen | true) must sum to 1"
        )
    wrong = 1.0 - np.diagonal(T)
    if n_classes == 2 and wrong.sum() >= 1.0:
        raise ValueError(
            f"label_noise: the flip rates {wrong[1]:g} and {wrong[0]:g} sum to 1 or more, so the labels "
            "say nothing about the classes, or the reverse of the truth; give rates with a sum below 1"
        )
    if np.linalg.cond(T) > _SINGULAR:
        raise ValueError(
            "label_noise: the matrix P(seen | true) has no inverse, so some true classes cannot be told apart"
        )
    kept, swapped = np.add.outer(np.diagonal(T), np.diagonal(T)), T + T.T
    np.fill_diagonal(swapped, 0.0)
    if (swapped >= kept).any():
        i, j = np.argwhere(swapped >= kept)[0]
        raise ValueError(
            f"label_noise: classes number {i} and {j} are taken for each other at least as often as seen right, "
            "so their labels say the opposite; give rates below that"
        )
    return T


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def warn_if_far_below_zero(objective: float, l2: float) -> None:
    """Warn where a corrected loss was exploited: a mean loss of the true labels is never negative."""
    if objective < -_FAR_BELOW:
        warnings.warn(
            f"the objective with label_noise is {objective:.3g}, and a loss of right labels is never negative: at l2 = "
            f"{l2:g} the fit repeats wrong labels with large weights, and takes long; use a larger l2",
            UserWarning,
            stacklevel=4,
        )


def check_regularised(l2: float) -> None:
    """ValueError where a corrected loss has no l2 term to bound it."""
    if not checked_l2(l2) > 0.0:
        raise ValueError(
            "label_noise needs l2 > 0: the corrected loss of single examples has no lower bound, so that without l2 "
            "there may be no minimum; give l2, for example 1e-3"
        )


def corrected_noise(loss: str, label_noise: Any, n_classes: int) -> Array:
    """`transition_matrix` for a loss that can be corrected, which is the logistic one."""
    if loss != "logistic":
        raise ValueError(f"label_noise works with loss='logistic' only, not with loss={loss!r}")
    return transition_matrix(label_noise, n_classes)


def settle_noise(
    problem: Problem, label_noise: Any, corruption: Corruption | str | None, l2: float
) -> Array | None:
    """Tell a problem how wrong its labels are, and return T; "estimate" finds it out, None is not wrong at all."""
    if label_noise is None:
        return None
    check_regularised(l2)
    if isinstance(label_noise, str) and label_noise == ESTIMATE:
        label_noise = estimated_transitions(problem, corruption, l2)
    problem.label_noise = corrected_noise(problem.loss_name, label_noise, problem.n_classes)
    return problem.label_noise


def estimated_transitions(problem: Problem, corruption: Corruption | str | None, l2: float) -> Array:
    """T from cross-validated confusion: what is seen where a model that has not seen the row is surest of a class.

    Of the rows that are predicted as class i, the surest fifth is taken as truly i. The model's own errors among these
    rows count as noise, so that the rates are a little too large where classes overlap.
    """
    K, y = problem.n_classes, problem.y[: len(problem.sample_weight)]  # of rows with labels
    if np.bincount(y, minlength=K).min() < _FOLDS:
        raise ValueError(f"label_noise='estimate' needs at least {_FOLDS} rows of each class; give the rates")
    p = np.empty((len(y), K))
    for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(y, y):
        scores = problem.subset(train).solve(corruption, l2, tol=1e-3).decision(problem.X[test])
        p[test] = (
            softmax(scores, axis=1) if scores.ndim > 1 else np.column_stack([expit(-scores), expit(scores)])
        )
    predicted, T = p.argmax(axis=1), np.empty((K, K))
    for label in range(K):
        rows = np.flatnonzero(predicted == label)
        count = max(int(_SURE * len(rows)), _FEWEST)
        if len(rows) < count:
            raise ValueError(
                f"label_noise='estimate': class number {label} is predicted for only {len(rows)} rows, too few to "
                "tell how often its labels are wrong; give the rates"
            )
        surest = rows[np.argsort(-p[rows, label], kind="stable")[:count]]
        T[label] = np.bincount(y[surest], problem.sample_weight[surest], K)
        T[label] /= T[label].sum()
    return transition_matrix(T, K)
