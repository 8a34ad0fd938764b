"""Choosing l2 on validation rows: by k-fold cross-validation, a hold-out set, or leave-one-out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcf_cli.core.problem import Solution
from mcf_cli.experiments.methods import Learner, Matrix
from mcf_cli.experiments.rows import edge_of
from mcf_cli.experiments.splits import Draw, divide, folds

PATIENCE = 2


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
    stronger: float | None = None  # the next stronger penalty, and a fit with it on some of the rows
    nearby: Solution | None = None


Errors = tuple[
    np.ndarray, list[Solution]
]  # an error per l2, and fits in their order, as far as there are any


def choose_l2(training: Training, select: dict[str, Any], draw: Draw, purpose: str = "validation") -> Choice:
    """The l2 with the lowest validation error; ties go to the strongest penalty."""
    l2s = sorted(select["l2"], reverse=True)
    if select["by"] == "none":
        return Choice(l2s[0])
    errors, solutions = _ERRORS[select["by"]](training, l2s, select, draw, purpose)
    choice = best_choice(l2s, errors)
    place = l2s.index(choice.l2)
    return (
        replace(choice, stronger=l2s[place - 1], nearby=solutions[place - 1])
        if place and solutions
        else choice
    )


def best_choice(l2s: list[float], errors: np.ndarray) -> Choice:
    """``l2s`` descend, so the first minimum is the strongest penalty among equals."""
    best = int(np.argmin(errors))
    return Choice(l2s[best], float(errors[best]), edge_of(l2s[best], l2s, "l2"))


def fit_chosen(learner: Learner, choice: Choice) -> Solution:
    """The fit at the chosen l2, reached as in validation: from the fit with the next stronger penalty.

    It matters at l2 = 0, where separable rows have no minimum and a solution is where its path led.
    """
    l2s = [choice.l2] if choice.stronger is None else [choice.stronger, choice.l2]
    return [solution for _, solution in learner.path(l2s, choice.nearby)][-1]


def error_rate(solution: Solution, X: Matrix, y: np.ndarray) -> float:
    """The share of wrong predictions."""
    return float(np.mean(solution.predict(X) != y))


def _cv_errors(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> Errors:
    divisions = folds(len(training.y), select["folds"], training.groups, draw, f"{purpose} folds")
    total, first = np.zeros(len(l2s)), []
    for train, test in divisions:
        solutions = [solution for _, solution in training.learner.subset(train).path(l2s)]
        total += [np.sum(s.predict(training.X[test]) != training.y[test]) for s in solutions]
        first = first or solutions
    return total / len(training.y), first


def _holdout_errors(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> Errors:
    """Weaker penalties cost the most: the path is left once two in a row were worse than the best before them."""
    everyone = np.arange(len(training.y))
    train, test = divide(everyone, select["fraction"], training.groups, draw, f"{purpose} hold-out")
    errors, solutions, worse = np.full(len(l2s), np.inf), [], 0
    for place, (_, solution) in enumerate(training.learner.subset(train).path(l2s)):
        errors[place] = error_rate(solution, training.X[test], training.y[test])
        solutions.append(solution)
        worse = worse + 1 if errors[place] > errors[:place].min(initial=np.inf) else 0
        if worse == PATIENCE:
            break
    return errors, solutions


def _loo_errors(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> Errors:
    return np.array([np.mean(training.learner.loo(l2) != training.y) for l2 in l2s]), []


_ERRORS = {"cv": _cv_errors, "holdout": _holdout_errors, "loo": _loo_errors}
