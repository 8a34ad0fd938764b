"""How often each feature is deleted, learnt from data: from what is missing, or from two samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from mcf_cli.core.corruptions.base import Array


def missing_rates(missing: Array, n_rows: int) -> Array:
    """The q of each column from the share of it that is missing; of a column that never occurs, just below 1."""
    return np.minimum(missing, n_rows / (n_rows + 1))


def missing_by_column(X: Any) -> Array:
    """How many values of each column are NaN."""
    if not has_missing(X):
        return np.zeros(X.shape[1])
    if sp.issparse(X):
        return np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1]).astype(float)
    return np.isnan(X).sum(axis=0).astype(float)


def has_missing(X: Any) -> bool:
    """Whether any value is NaN."""
    values = X.data if sp.issparse(X) else X
    return bool(np.isnan(np.min(values, initial=0.0)))  # which makes no copy of the table


def table_of(X: Any) -> Any:
    """X as a float array or CSR; it may hold NaN."""
    return check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan")


def adaptation_rates(source: Any, target: Any, pseudo_counts: float, base: Any) -> Array:
    """1 - (1 - q_d)(1 - base) with q_d = max(0, 1 - zeta_d / eta_d), zeta and eta the presence in target and source.

    A value is present where it is neither 0 nor NaN. Both rates are smoothed as if the two samples together had been
    seen `pseudo_counts` times more, so that a rare feature is not believed to be gone.
    """
    source, target = table_of(source), table_of(target)
    if source.shape[1] != target.shape[1]:
        raise ValueError(
            f"source has {source.shape[1]} columns and target {target.shape[1]}: give samples of the same features"
        )
    base = np.asarray(base, dtype=float)
    if not (np.isfinite(base) & (base >= 0.0) & (base < 1.0)).all() or base.shape not in (
        (),
        (source.shape[1],),
    ):
        raise ValueError("base must lie in [0, 1), one number or one per feature")
    if not 0.0 <= pseudo_counts < np.inf:
        raise ValueError(f"pseudo_counts must be a finite number of at least 0; got {pseudo_counts!r}")
    here, there = _present(source), _present(target)
    both = (here + there) / (source.shape[0] + target.shape[0])
    eta = (here + pseudo_counts * both) / (source.shape[0] + pseudo_counts)
    zeta = (there + pseudo_counts * both) / (target.shape[0] + pseudo_counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        gone = np.where(eta > 0.0, np.clip(1.0 - zeta / eta, 0.0, None), 0.0)
    return 1.0 - (1.0 - missing_rates(gone, target.shape[0])) * (1.0 - base)


def _present(X: Any) -> Array:
    """How many values of each column are neither 0 nor NaN."""
    if not sp.issparse(X):
        return ((X != 0.0) & ~np.isnan(X)).sum(axis=0).astype(float)
    held = (X.data != 0.0) & ~np.isnan(X.data)
    return np.bincount(X.indices[held], minlength=X.shape[1]).astype(float)
