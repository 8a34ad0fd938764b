"""What the estimators share: checks of the input, weights of rows, and what a fit stores and reports."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.bounded import Thinning
from mcf_cli.core.corruptions.columns import ColumnNames, shortened
from mcf_cli.core.corruptions.elementwise import Poisson
from mcf_cli.core.corruptions.per_feature import resolve
from mcf_cli.core.kernels.dispatch import within_reach
from mcf_cli.core.label_noise import warn_if_far_below_zero
from mcf_cli.core.missing import LinearRows, checked_rows
from mcf_cli.core.problem import Solution


class LinearModel(LinearRows, BaseEstimator):
    """What the classifier and the regressor share."""

    corruption: Any
    l2: float
    verbose: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters; the name of a corruption becomes the corruption where one of its parameters is set.

        Parameters
        ----------
        **params : parameters of the estimator, and of its corruption as `corruption__q`

        Returns
        -------
        self

        Examples
        --------
        >>> from mcf_cli import MCFClassifier
        >>> MCFClassifier(corruption="dropout").set_params(corruption__q=0.2).corruption
        Dropout(q=0.2)
        """
        if any(name.startswith("corruption__") for name in params):
            corruption = params.pop("corruption", self.corruption)
            corruption = resolve(corruption) if isinstance(corruption, str) else corruption
            if not isinstance(corruption, Corruption):
                name = next(name for name in params if name.startswith("corruption__"))
                raise ValueError(
                    f"corruption={shortened(corruption)} has no parameter for {name}; set corruption to one, "
                    "for example 'dropout'"
                )
            self.corruption = corruption
        return super().set_params(**params)

    def _checked_input(
        self, X: Any, y: Any, sample_weight: Any, **options: Any
    ) -> tuple[Any, Array, Array | None]:
        table = ColumnNames.of(X)
        X, y = checked_rows(self, X, y, dtype=np.float64, **options)
        self.corruption_ = resolve(self.corruption).named(table)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (sample_weight < 0).any() or not sample_weight.any():
                raise ValueError("sample_weight must not be negative, and not all zero")
            kept = sample_weight > 0
            if not kept.all():  # a weight of zero is the same as no row at all
                X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
        return X, y, sample_weight

    def _keep(self, solution: Solution) -> None:
        self.coef_, self.intercept_ = solution.coef, solution.intercept
        self.objective_, self.n_iter_ = solution.objective, solution.n_iter
        self.converged_, self.message_ = solution.converged, solution.message
        if self.verbose:
            sys.stdout.write(
                f"{type(self).__name__}: objective {self.objective_:.6g} after {self.n_iter_} iterations "
                f"({self.message_})\n"
            )
        if not solution.bounded:
            warnings.warn(
                "the classes are separable and l2 = 0, so the objective has no minimum: it falls as the weights grow, "
                f"here up to {np.abs(self.coef_).max():.2g}. Use l2 > 0",
                ConvergenceWarning,
                stacklevel=3,
            )
        if getattr(self, "label_noise", None) is not None:
            warn_if_far_below_zero(self.objective_, self.l2)
        if not self.converged_:
            raised = "l2" if getattr(self, "loss", "quadratic") == "quadratic" else "max_iter, tol or l2"
            warnings.warn(
                f"the fit did not converge ({self.message_}; {self.n_iter_} iterations): raise {raised}, or scale the "
                "columns of X",
                ConvergenceWarning,
                stacklevel=3,
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one .npz file, which `mcf_cli.load` reads back; nothing is pickled.

        Parameters
        ----------
        path : the file; it appears whole or not at all

        Examples
        --------
        >>> import tempfile
        >>> from mcf_cli import MCFRegressor, load
        >>> model = MCFRegressor(corruption="poisson").fit([[0.0], [2.0]], [0.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.npz")
        ...     load(f"{folder}/model.npz")
        MCFRegressor(corruption='poisson')
        """
        from mcf_cli.core.model_file import save_model_file

        check_is_fitted(self)
        save_model_file(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing is not None
        if self.corruption in ("poisson", "thinning") or isinstance(self.corruption, Poisson | Thinning):
            tags.input_tags.positive_only = True
        return tags


def class_weights(class_weight: Any, classes: Array, totals: Array) -> Array:
    """The weight of each class: a dict by label (1 where it has none), "balanced", or None for 1.

    "balanced" gives all classes the same total; `totals` are the rows' weights added up by class, so that a row of
    weight 2 counts as two rows.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        present = totals > 0.0
        return np.divide(totals.sum() / present.sum(), totals, out=np.ones(len(totals)), where=present)
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} is not known; give a dict, 'balanced' or None")
    weights = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (np.isfinite(weights) & (weights > 0.0)).all():
        raise ValueError("class_weight must hold numbers above 0; to exclude a class, remove its rows")
    return within_reach(np.asarray(weights, dtype=float))
