"""Choosing l2 on validation rows: by k-fold cross-validation, a hold-out set, or leave-one-out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcf_cli.core.problem import Solution
from mcf_cli.experiments.methods import Learner, Matrix
from mcf_cli.experiments.rows import edge_of
from mcf_cli.experiments.splits import Draw, divide, folds


@dataclass(frozen=True)
class Training:
    """The rows that a choice may look at."""

    learner: Learner
    X: Matrix
    y: np.ndarray
    groups: np.ndarray | None


@dataclass(frozen=True)
class Choice:
    """The chosen l2, its validation error (None when there was nothing to choose) and the edge it sits on."""

    l2: float
    error: float | None = None
    edge: str = ""


def choose_l2(training: Training, select: dict[str, Any], draw: Draw, purpose: str = "validation") -> Choice:
    """The l2 with the lowest validation error; ties go to the strongest penalty."""
    l2s = sorted(select["l2"], reverse=True)
    if select["by"] == "none":
        return Choice(l2s[0])
    errors = _ERRORS[select["by"]](training, l2s, select, draw, purpose)
    return best_choice(l2s, errors)


def best_choice(l2s: list[float], errors: np.ndarray) -> Choice:
    """``l2s`` descend, so the first minimum is the strongest penalty among equals."""
    best = int(np.argmin(errors))
    return Choice(l2s[best], float(errors[best]), edge_of(l2s[best], l2s, "l2"))


def fit_at(learner: Learner, l2: float, l2s: list[float]) -> Solution:
    """The fit at the chosen l2, reached along the same path as in validation where that matters."""
    for value, solution in learner.path([l2] if learner.closed_form else [v for v in l2s if v >= l2]):
        if value == l2:
            return solution
    raise ValueError(f"l2 = {l2} is not on the path")


def error_rate(solution: Solution, X: Matrix, y: np.ndarray) -> float:
    """The share of wrong predictions."""
    return float(np.mean(solution.predict(X) != y))


def _path_mistakes(training: Training, train: np.ndarray, test: np.ndarray, l2s: list[float]) -> np.ndarray:
    X, y = training.X[test], training.y[test]
    return np.array([np.sum(s.predict(X) != y) for _, s in training.learner.subset(train).path(l2s)])


def _cv_errors(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> np.ndarray:
    divisions = folds(len(training.y), select["folds"], training.groups, draw, f"{purpose} folds")
    return sum(_path_mistakes(training, *division, l2s) for division in divisions) / len(training.y)


def _holdout_errors(
    training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str
) -> np.ndarray:
    everyone = np.arange(len(training.y))
    train, test = divide(everyone, select["fraction"], training.groups, draw, f"{purpose} hold-out")
    return _path_mistakes(training, train, test, l2s) / len(test)


def _loo_errors(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> np.ndarray:
    return np.array([np.mean(loo_classes(training.learner.loo(l2)) != training.y) for l2 in l2s])


def loo_classes(values: np.ndarray) -> np.ndarray:
    """Class codes from leave-one-out decision values."""
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)


_ERRORS = {"cv": _cv_errors, "holdout": _holdout_errors, "loo": _loo_errors}
