"""Boosted trees, the rival that takes missing values as they are: scikit-learn's HistGradientBoostingClassifier.

    Boosting(X, y, missing_rate=0.5).solve() -> Trees

The training rows are whole. A tree that never met a missing value sends it with the majority, so at
``missing_rate`` entries of them are marked as missing first, drawn by seed: the explicit corruption of this model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

TREES_A_CLASS = 50  # half of scikit-learn's default, for time


@dataclass(frozen=True)
class Trees:
    """A fitted model, with the names that a linear solution has."""

    model: Any
    n_iter: int
    objective: None = None
    converged: bool = True  # as many trees as were asked for

    def predict(self, X: Any) -> np.ndarray:
        """Class codes; NaN is missing."""
        return self.model.predict(X.toarray() if sp.issparse(X) else X)


class Boosting:
    """Boosted trees on one training set."""

    def __init__(self, X: Any, y: np.ndarray, seed: int = 0, missing_rate: float = 0.0) -> None:
        self.X, self.y = X.toarray() if sp.issparse(X) else X, y
        self.seed, self.missing_rate = seed, missing_rate

    def solve(self, l2: float = 0.0, *, start: Any = None, n_trees: int = TREES_A_CLASS) -> Trees:
        """Fit; ``start`` is ignored. ``l2`` is the trees' own penalty, of another scale than that of linear models."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        kept = np.random.default_rng(self.seed).random(self.X.shape, dtype=np.float32) >= self.missing_rate
        model = HistGradientBoostingClassifier(
            max_iter=n_trees, l2_regularization=l2, early_stopping=False, random_state=self.seed
        )
        model.fit(np.where(kept, self.X, np.nan), self.y)
        return Trees(model, int(model.n_iter_))
