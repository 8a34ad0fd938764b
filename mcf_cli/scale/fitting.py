"""What a fit in chunks and a fit on a cluster share: from an estimator to a task, and from a solution back."""

from functools import reduce
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from mcf_cli.core.chunks import Task
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.problem import Solution

Model = MCFClassifier | MCFRegressor
Fitted = TypeVar("Fitted", bound=Model)


class Targets:
    """The labels of a classification as codes, or the targets of a regression as numbers."""

    def __init__(self, classify: bool, found: list[np.ndarray]):
        """found: `distinct` of each chunk."""
        self.classes = reduce(np.union1d, found) if classify else None
        self.flat = found[0].ndim == 1
        self.n_outputs = 1 if self.flat else found[0].shape[1]
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError(
                    f"MCFClassifier needs at least two classes; all chunks hold {self.classes[0]!r} alone"
                )
            self.n_outputs = 1 if len(self.classes) == 2 else len(self.classes)

    def encode(self, y: np.ndarray) -> np.ndarray:
        if self.classes is None:
            return np.asarray(y, dtype=float)
        return np.searchsorted(self.classes, y.astype(self.classes.dtype))


def distinct(y: np.ndarray, classify: bool) -> np.ndarray:
    """The classes of a chunk; for a regression one row, which tells the number of targets."""
    if not classify:
        return np.asarray(y[:1], dtype=float)
    check_classification_targets(y)
    if y.ndim > 1:
        raise ValueError(f"y has shape {y.shape}; a classifier needs one label a row")
    return np.unique(y)


def task_of(model: Model, n_features: int, targets: Targets) -> Task:
    """What the estimator's parameters ask for."""
    names = ("loss", "surrogate", "multiclass", "shared_lambda")
    options: dict[str, Any] = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return Task.checked(
        model.corruption,
        n_features=n_features,
        n_classes=0 if targets.classes is None else len(targets.classes),
        n_outputs=targets.n_outputs,
        l2=model.l2,
        fit_intercept=model.fit_intercept,
        options=options or {"loss": "quadratic"},
    )


def how(model: Model, n_features: int, targets: Targets) -> dict[str, Any]:
    """The optimiser's parameters; a warm start is a start from the previous fit."""
    if not isinstance(model, MCFClassifier):
        return {}
    start = None
    if model.warm_start and np.array_equal(getattr(model, "classes_", ()), targets.classes):
        start = model._previous(n_features)
    return {"start": start, "max_iter": model.max_iter, "tol": model.tol}


def finish(model: Fitted, solution: Solution, n_features: int, targets: Targets) -> Fitted:
    """The estimator, fitted."""
    model._keep(solution)
    model.n_features_in_ = n_features
    if targets.classes is not None:
        model.classes_ = targets.classes
    elif targets.flat:
        model.coef_, model.intercept_ = model.coef_[0], model.intercept_[0]
    return model
