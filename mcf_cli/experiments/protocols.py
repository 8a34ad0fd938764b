"""The evaluation protocols: a trial's parameters and its data set in, result rows out.

A result row holds what differs within the trial (metric, value, the chosen l2, a deletion level or fold); the
rest of a row comes from the trial itself.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.problem import Solution
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.methods import Learner, Matrix, make_learner
from mcf_cli.experiments.seeds import generator
from mcf_cli.experiments.selection import Choice, Training, best_choice, choose_l2, error_rate, fit_chosen
from mcf_cli.experiments.splits import Draw, divide, first, folds, train_test

Params = dict[str, Any]
Row = dict[str, Any]


def split(params: Params, dataset: Dataset) -> list[Row]:
    """Choose l2 on the training rows, fit them all, test (Figures 3 to 7, Table 3)."""
    draw = draw_of(params)
    train, test = train_test(dataset, params["evaluation"], draw)
    train = first(train, params.get("train_size"), draw, "learning curve")
    training = training_on(dataset, train, make_learner(params, dataset, train))
    choice = choose_l2(training, params["select"], draw)
    solution = fit_chosen(training.learner, choice)
    return metric_rows(choice, solution, error_rate(solution, dataset.X[test], dataset.y[test]))


def cross_validation(params: Params, dataset: Dataset) -> list[Row]:
    """Every row tested once; l2 is chosen anew within the training part of each fold (Figure 8)."""
    draw = draw_of(params)
    rows = first(np.arange(len(dataset.y)), params["evaluation"]["train"], draw, "subset")
    whole = training_on(dataset, rows, make_learner(params, dataset, rows))
    results = []
    for fold, (train, test) in enumerate(
        folds(len(rows), params["evaluation"]["folds"], whole.groups, draw, "test folds")
    ):
        groups = None if whole.groups is None else whole.groups[train]
        part = Training(whole.learner.subset(train), whole.X[train], whole.y[train], groups)
        choice = choose_l2(part, params["select"], draw, f"fold {fold} validation")
        solution = fit_chosen(part.learner, choice)
        error = error_rate(solution, whole.X[test], whole.y[test])
        results += [{**row, "fold": fold} for row in metric_rows(choice, solution, error)]
    return results


def nightmare(params: Params, dataset: Dataset) -> list[Row]:
    """One path of fits on clean rows; per deletion level the best l2 on rows deleted alike (Figure 9)."""
    draw, evaluation, l2s = draw_of(params), params["evaluation"], params["select"]["l2"]
    train, test = train_test(dataset, evaluation, draw)
    kept, held = divide(train, evaluation["validation"], dataset.groups, draw, "validation rows")
    fits = list(make_learner(params, dataset, kept).path(l2s))
    descending, solutions = [l2 for l2, _ in fits], [solution for _, solution in fits]
    choices = []
    for level in evaluation["deletion"]:
        X = delete(dataset.X[held], level, draw, "deleted in validation")
        errors = np.array([error_rate(solution, X, dataset.y[held]) for solution in solutions])
        choices.append(best_choice(descending, errors))
    final = dict(fits)
    if evaluation["refit"]:
        final = dict(make_learner(params, dataset, train).path(l2s))
    results = []
    for level, choice in zip(evaluation["deletion"], choices, strict=True):
        X = delete(dataset.X[test], level, draw, "deleted in test")
        solution = final[choice.l2]
        rows = metric_rows(choice, solution, error_rate(solution, X, dataset.y[test]))
        results += [{**row, "deletion": level} for row in rows]
    return results


def delete(X: Matrix, level: float, draw: Draw, purpose: str) -> Matrix:
    """Each value set to 0 with probability ``level``. A higher level deletes the same values and more."""
    random = generator(draw.seed, draw.dataset, draw.repeat, purpose)
    if sp.issparse(X):
        survives = random.random(X.nnz, dtype=np.float32) >= np.float32(level)
        return sp.csr_matrix((X.data * survives, X.indices, X.indptr), shape=X.shape)
    return X * (random.random(X.shape, dtype=np.float32) >= np.float32(level))


def draw_of(params: Params) -> Draw:
    """The random choices that all methods of a repeat share."""
    return Draw(params["seed"], params["dataset"], params["repeat"])


def training_on(dataset: Dataset, rows: np.ndarray, learner: Learner) -> Training:
    """A learner with the rows it was made of."""
    groups = None if dataset.groups is None else dataset.groups[rows]
    return Training(learner, dataset.X[rows], dataset.y[rows], groups)


def metric_rows(choice: Choice, solution: Solution, test_error: float) -> list[Row]:
    """Test error, validation error where something was chosen, and the objective."""
    values = {
        "test_error": test_error,
        "validation_error": choice.error,
        "objective": float(solution.objective),
    }
    common = {"l2": choice.l2, "n_iter": int(solution.n_iter), "converged": bool(solution.converged)}
    common["edge"] = choice.edge
    return [{"metric": name, "value": value, **common} for name, value in values.items() if value is not None]
