"""Predictions averaged over the corruption: the paper's graphical model (Figure 2), E[p(y | x~)]."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax

from mcf_cli.core.coding import CodeBook
from mcf_cli.core.corruptions import Gaussian
from mcf_cli.core.design import Design
from mcf_cli.core.families import Array, Coded, Corruption, Identity
from mcf_cli.core.lossbase import Batch
from mcf_cli.core.losses import PairwiseJensen

_ENUMERABLE = 10  # corrupted entries of an example that are summed over exactly
_QUADRATURE = 64  # Gauss-Hermite nodes


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
    """E[p(y | x~)] for each row of X, by the named method."""
    if method == "bound":
        return bounded(X, coef, intercept, corruption)
    if method == "sample":
        return sampled(X, coef, intercept, corruption, n_samples, random_state)
    if method not in ("auto", "exact"):
        raise ValueError(f"method={method!r} is not known; give 'auto', 'exact', 'bound' or 'sample'")
    probabilities = exact(X, coef, intercept, corruption)
    if probabilities is not None:
        return probabilities
    if method == "exact":
        raise ValueError(
            f"no exact marginal prediction for {type(corruption).__name__} on rows with more than {_ENUMERABLE} "
            "corrupted entries; use method='sample' or 'bound'"
        )
    return sampled(X, coef, intercept, corruption, n_samples, random_state)


def exact(X: Any, coef: Array, intercept: Array, corruption: Corruption) -> Array | None:
    """In closed form, by one-dimensional quadrature or by enumeration; None where none of them applies."""
    families = [family for _, family in corruption.split(X.shape[1])]
    if all(isinstance(family, Identity) for family in families):
        return plain_probabilities(np.asarray(X @ coef.T) + intercept)
    if isinstance(corruption, Gaussian) and len(coef) == 1:
        return _gaussian(X, coef, intercept, corruption)
    if all(isinstance(family, Identity | Coded) for family in families):
        listed = sp.csr_matrix(X)
        if np.diff(listed.indptr).max(initial=0) <= _ENUMERABLE:
            return _enumerated(listed, coef, intercept, corruption)
    return None


def _gaussian(X: Any, coef: Array, intercept: Array, corruption: Gaussian) -> Array:
    """The score is normal: integrate the sigmoid over it."""
    spread = float(np.sqrt((corruption.moments().v0 * coef[0] ** 2).sum()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE)
    scores = np.asarray(X @ coef[0]) + intercept[0]
    p = expit(scores[:, None] + spread * nodes) @ (weights / weights.sum())
    return np.column_stack([1.0 - p, p])


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
        masks = np.array(list(product((0.0, 1.0), repeat=len(features)))).reshape(-1, len(features))
        weight = np.where(masks > 0, keep[features], 1.0 - keep[features]).prod(axis=1)
        scores = (masks * (X.data[entries] * kept[features])) @ coef[:, features].T + intercept
        result.append(weight @ plain_probabilities(scores))
    return np.array(result)


def sampled(
    X: Any, coef: Array, intercept: Array, corruption: Corruption, n_samples: int, seed: int
) -> Array:
    """The mean over seeded corrupted copies."""
    rng = np.random.default_rng(seed)
    total: Any = 0.0
    for _ in range(n_samples):
        total = total + plain_probabilities(np.asarray(corruption.sample(X, rng) @ coef.T) + intercept)
    return total / n_samples


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
