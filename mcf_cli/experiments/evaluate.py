"""The evaluation protocols: a trial's parameters and its data set in, result rows out.

l2 is chosen on validation rows: by k-fold cross-validation, a hold-out set, or leave-one-out. A result row holds
what differs within the trial (metric, value, the chosen l2, a deletion level or fold); the rest of a row comes
from the trial itself. Three protocols measure something other than test error: bounds (Figure 1), cost and
leave-one-out.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.elementwise import Blankout
from mcf_cli.core.label_noise import estimated_transitions
from mcf_cli.core.problem import Solution, codes_of
from mcf_cli.core.selection import Judge, Learner, Validated, first_best, validate
from mcf_cli.datasets.dataset import Dataset, by_pieces
from mcf_cli.datasets.splits import Draw, divide, first, folds, generator, train_test
from mcf_cli.experiments.aids import aid_of, aided, expected_losses, flipped, met_at_test, reduced
from mcf_cli.experiments.learners import (
    LearnerMatrix,
    make_corruption,
    make_learner,
    needs_preparation,
    prepared,
    shared_problem,
)
from mcf_cli.experiments.rows import EVIDENCE, Candidate, evidence_of
from mcf_cli.experiments.trial import Params, edge_of


@dataclass(frozen=True)
class Training:
    """The rows that a choice may look at."""

    learner: Learner
    X: LearnerMatrix
    y: np.ndarray
    groups: np.ndarray | None
    transitions: np.ndarray | None = None  # P(seen | true) of its labels, where the choice may know it


@dataclass(frozen=True)
class Choice:
    """The chosen l2, its validation error (None when there was nothing to choose) and the edge it sits on."""

    l2: float
    error: float | None = None
    edge: str = ""
    stronger: float | None = None  # the next stronger penalty, and a fit with it on some of the rows
    nearby: Solution | None = None
    validated: Validated | None = None  # what the choice was made from: the errors of every candidate

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every l2 that was tried, with its validation errors by fold."""
        if self.validated is None:
            return ()
        by_fold = self.validated.by_division.T.tolist()
        found = zip(self.validated.l2s, by_fold, strict=True)
        return tuple((None, l2, tuple(errors)) for l2, errors in found if np.isfinite(errors).all())


def choose_l2(training: Training, select: dict[str, Any], draw: Draw, purpose: str = "validation") -> Choice:
    """The l2 with the lowest validation error; ties go to the strongest penalty."""
    l2s = sorted(select["l2"], reverse=True)
    if select["by"] == "none":
        return Choice(l2s[0])
    validated = _VALIDATED[select["by"]](training, l2s, select, draw, purpose)
    choice = best_choice(validated)
    place = l2s.index(choice.l2)
    if place and validated.solutions:
        choice = replace(choice, stronger=l2s[place - 1], nearby=validated.solutions[place - 1])
    return choice


def best_choice(validated: Validated) -> Choice:
    """Penalties descend, so the first minimum is the strongest penalty among equals."""
    l2s, errors = validated.l2s, validated.pooled
    best = first_best(errors)
    return Choice(l2s[best], float(errors[best]), edge_of(l2s[best], l2s, "l2"), validated=validated)


def fit_chosen(learner: Learner, choice: Choice) -> Solution:
    """The fit at the chosen l2, reached as in validation: from the fit with the next stronger penalty.

    It matters at l2 = 0, where separable rows have no minimum and a solution is where its path led.
    """
    l2s = [choice.l2] if choice.stronger is None else [choice.stronger, choice.l2]
    return [solution for _, solution in learner.path(l2s, choice.nearby)][-1]


def predictions(solution: Solution, X: LearnerMatrix, y: np.ndarray) -> np.ndarray:
    """Class codes, or numbers where y holds numbers."""
    return by_pieces(solution.decision if y.dtype.kind == "f" else solution.predict, X)


def mistakes(predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What each row adds to the error: 0 or 1, or the square of how far a number is off."""
    return (predicted - y) ** 2 if y.dtype.kind == "f" else predicted != y


def expected_mistakes(predicted: np.ndarray, y: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """What each row adds to the error in wrong labels, so that its mean is the error in right ones: 1 - T^-1[y, k]."""
    return 1.0 - np.linalg.inv(transitions)[y, predicted]


def squared_errors(predicted: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    """The mean squared error of a regression, and R2, the share of the spread of y that it explains."""
    error, spread = float(np.mean((predicted - y) ** 2)), float(np.var(y))
    return {"mse": error, "r2": 1 - error / spread if spread else None}


def _judge(training: Training) -> Judge:
    """Of some rows: what measures a solution on them."""

    def on_rows(rows: np.ndarray) -> Callable[[Solution], float]:
        X, y, T = training.X[rows], training.y[rows], training.transitions
        counted = mistakes if T is None else partial(expected_mistakes, transitions=T)
        return lambda solution: float(np.sum(counted(predictions(solution, X, y), y)))

    return on_rows


def _by_folds(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> Validated:
    divisions = [
        division
        for again in _drawn(select.get("repeats", 1))
        for division in folds(
            len(training.y), select["folds"], training.groups, draw, f"{purpose} folds{again}"
        )
    ]
    return validate(training.learner, divisions, l2s, _judge(training))


def _by_holdout(training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str) -> Validated:
    everyone = np.arange(len(training.y))
    divisions = [
        divide(everyone, select["fraction"], training.groups, draw, f"{purpose} hold-out{again}")
        for again in _drawn(select.get("repeats", 1))
    ]
    return validate(training.learner, divisions, l2s, _judge(training))


def _drawn(times: int) -> list[str]:
    """What tells random draws of one kind apart; the first has the name that a single one has."""
    return ["", *(f" {number}" for number in range(2, times + 1))]


def _by_leaving_one_out(
    training: Training, l2s: list[float], select: dict, draw: Draw, purpose: str
) -> Validated:
    learner: Any = training.learner  # marginalised: configs refuse leave-one-out of others
    sums = np.array([[np.sum(mistakes(learner.loo(l2), training.y)) for l2 in l2s]], dtype=float)
    return Validated(l2s, sums, np.array([len(training.y)]), [])


_VALIDATED = {"cv": _by_folds, "holdout": _by_holdout, "loo": _by_leaving_one_out}
ResultRow = dict[str, Any]


def split(params: Params, dataset: Dataset) -> list[ResultRow]:
    """Choose l2 on the training rows, fit them all, test (Figures 3 to 7, Table 3)."""
    dataset, (train, test), choice, solution = _fitted(params, dataset)
    rows = metric_rows(choice, solution, dataset.X[test], dataset, test)
    if params["protocol"] == "expected-loss":
        rows += expected_losses(params, dataset, {"train": train, "test": test}, solution, choice.l2)
    if dataset.task == "regression":
        rows = _of_numbers(
            rows, squared_errors(by_pieces(solution.decision, dataset.X[test]), dataset.y[test])["r2"]
        )
    return rows


def _fitted(params: Params, dataset: Dataset) -> tuple[Dataset, list[np.ndarray], Choice, Solution]:
    """The data set as the method sees it, its training and test rows, and the model with the chosen l2."""
    draw = draw_of(params)
    everyone, test = train_test(dataset, params["evaluation"], draw)
    train = first(everyone, params.get("train_size"), draw, "learning curve")
    params, dataset = prepared(params, dataset, train)
    params, dataset = aided(params, dataset, train, test)
    given = {}
    if aid_of(params) == "unlabelled":
        given["unlabeled"] = dataset.X[np.setdiff1d(everyone, train)]
    training = training_on(dataset, train, make_learner(params, dataset, train, **given))
    choice = choose_l2(training, params["select"], draw)
    return dataset, [train, test], choice, fit_chosen(training.learner, choice)


def label_noise(params: Params, dataset: Dataset) -> list[ResultRow]:
    """Some training labels are wrong, those of the validation rows too; the test labels are right."""
    draw, aid = draw_of(params), aid_of(params)
    train, test = train_test(dataset, params["evaluation"], draw)
    params, dataset = prepared(params, dataset, train)
    seen, T = flipped(params, dataset, train, draw)
    if aid == "estimated-rates":
        T = _estimated_rates(params, seen, train, draw)
    given = T if aid else None
    learner = make_learner(params, seen, train, label_noise=given)
    training = replace(training_on(seen, train, learner), transitions=given)
    choice = choose_l2(training, params["select"], draw)
    rows = metric_rows(choice, fit_chosen(learner, choice), dataset.X[test], dataset, test)
    taken = {"metric": "rate_of_wrong_labels", "value": float(1 - np.diagonal(T).mean())}
    return [*rows, *([taken] if aid == "estimated-rates" else [])]


def _estimated_rates(params: Params, seen: Dataset, train: np.ndarray, draw: Draw) -> np.ndarray:
    """P(seen | true) from the labels as they are seen; labels whose rates cannot be told are taken for right."""
    blind = choose_l2(training_on(seen, train, make_learner(params, seen, train)), params["select"], draw)
    problem = shared_problem(params["method"], seen, train).problem
    try:
        return estimated_transitions(problem, make_corruption(params["method"], seen), blind.l2)
    except ValueError:
        return np.eye(len(seen.class_names))


def anytime(params: Params, dataset: Dataset) -> list[ResultRow]:
    """The test error of predictions that read some features only, and how many weights there are and how large."""
    dataset, (_, test), choice, solution = _fitted(params, dataset)
    X, size = dataset.X[test], np.linalg.norm(solution.coef, axis=0)
    results = metric_rows(choice, solution, X, dataset, test)[1:]
    orders = {
        "by-weight": np.argsort(-size, kind="stable"),
        "random-order": draw_of(params).shuffle(np.arange(len(size)), "order of features"),
    }
    unseen = replace(choice, validated=None)  # every line would repeat what was chosen from
    for name, order in orders.items():
        for count in [*(int(n) for n in params["evaluation"]["features"] if n < len(size)), len(size)]:
            coef = np.zeros_like(solution.coef)
            coef[:, order[:count]] = solution.coef[:, order[:count]]
            row = metric_rows(unseen, replace(solution, coef=coef), X, dataset, test)[0]
            results.append({**row, "features": count, "aid": name})
    weights = np.abs(solution.coef[np.abs(solution.coef) > 1e-9 * np.abs(solution.coef).max(initial=1e-300)])
    values = {
        "nonzero_weights": float(len(weights)),
        "effective_weights": float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0,
        "mean_weight": float(weights.mean()) if len(weights) else 0.0,
    }
    return [*results, *({"metric": name, "value": v, "l2": choice.l2} for name, v in values.items())]


def cross_validation(params: Params, dataset: Dataset) -> list[ResultRow]:
    """Every row tested once; l2 is chosen anew within the training part of each fold (Figure 8)."""
    draw = draw_of(params)
    rows = first(np.arange(len(dataset.y)), params["evaluation"]["train"], draw, "subset")
    groups = None if dataset.groups is None else dataset.groups[rows]
    whole = None if needs_preparation(params, dataset) else make_learner(params, dataset, rows)
    results = []
    for fold, (train, test) in enumerate(
        folds(len(rows), params["evaluation"]["folds"], groups, draw, "test folds")
    ):
        own, data = prepared(params, dataset, rows[train])
        learner = whole.subset(train) if whole else make_learner(own, data, rows[train])
        part = training_on(data, rows[train], learner)
        choice = choose_l2(part, params["select"], draw, f"fold {fold} validation")
        solution = fit_chosen(part.learner, choice)
        found = metric_rows(choice, solution, data.X[rows[test]], data, rows[test])
        results += [{**row, "fold": fold} for row in found]
    return results


def nightmare(params: Params, dataset: Dataset) -> list[ResultRow]:
    """One path of fits on clean rows; per deletion level the best l2 on rows deleted alike (Figure 9).

    What is deleted is drawn once for each mask: choices go by the errors of all masks together, and every mask has
    test errors of its own.
    """
    draw, evaluation, l2s = draw_of(params), params["evaluation"], params["select"]["l2"]
    train, test = train_test(dataset, evaluation, draw)
    params, dataset = prepared(params, dataset, train)
    kept, held = divide(train, evaluation["validation"], dataset.groups, draw, "validation rows")
    fits = list(make_learner(params, dataset, kept).path(l2s))
    descending = [l2 for l2, _ in fits]
    solutions = [reduced(params, dataset, kept, l2, solution) for l2, solution in fits]
    choices, damaged = [], met_at_test(params, dataset, kept, delete)
    masks, y = _drawn(evaluation["masks"]), dataset.y[held]
    for level in evaluation["deletion"]:
        sums = np.zeros((len(masks), len(solutions)))
        for mask, again in enumerate(masks):
            X = damaged(dataset.X[held], level, draw, f"deleted in validation{again}")
            sums[mask] = [np.sum(mistakes(predictions(solution, X, y), y)) for solution in solutions]
        choices.append(best_choice(Validated(descending, sums, np.full(len(masks), len(y)), [])))
    final = dict(zip(descending, solutions, strict=True))
    if evaluation["refit"]:
        path = make_learner(params, dataset, train).path(sorted({choice.l2 for choice in choices}))
        final = {l2: reduced(params, dataset, train, l2, solution) for l2, solution in path}
        damaged = met_at_test(params, dataset, train, delete)
    results = []
    for level, choice in zip(evaluation["deletion"], choices, strict=True):
        for mask, again in enumerate(masks):
            X = damaged(dataset.X[test], level, draw, f"deleted in test{again}")
            rows = metric_rows(choice, final[choice.l2], X, dataset, test)
            number = {"fold": mask} if len(masks) > 1 else {}
            results += [{**row, "deletion": level, **number} for row in rows]
    return results


def delete(X: LearnerMatrix, level: float, draw: Draw, purpose: str) -> LearnerMatrix:
    """Each value set to 0 with probability ``level``. A higher level deletes the same values and more."""
    random = generator(draw.seed, draw.dataset, draw.repeat, purpose)
    if sp.issparse(X):
        survives = random.random(X.nnz, dtype=np.float32) >= np.float32(level)
        return sp.csr_matrix((X.data * survives, X.indices, X.indptr), shape=X.shape)
    return X * (random.random(X.shape, dtype=np.float32) >= np.float32(level))


def _of_numbers(rows: list[ResultRow], r2: float | None) -> list[ResultRow]:
    """The rows of a regression: its errors are squares, so they have names of their own."""
    names = {"test_error": "test_mse", "validation_error": "validation_mse"}
    rows = [{**row, "metric": names.get(row["metric"], row["metric"])} for row in rows]
    return rows if r2 is None else [*rows, {**rows[0], "metric": "test_r2", "value": r2}]


def draw_of(params: Params) -> Draw:
    """The random choices that all methods of a repeat share."""
    return Draw(params["seed"], params["dataset"], params["repeat"])


def training_on(dataset: Dataset, rows: np.ndarray, learner: Learner) -> Training:
    """A learner with the rows it was made of."""
    groups = None if dataset.groups is None else dataset.groups[rows]
    return Training(learner, dataset.X[rows], dataset.y[rows], groups)


def metric_rows(
    choice: Choice, solution: Solution, X: LearnerMatrix, dataset: Dataset, test: np.ndarray
) -> list[ResultRow]:
    """Test error, validation error where something was chosen, and the objective.

    ``X`` holds the test rows as they are met, perhaps with deleted features. Beside a classification error stands
    its evidence, example by example.
    """
    y = dataset.y[test]
    wrong = mistakes(predictions(solution, X, y), y)
    common: ResultRow = {
        "l2": choice.l2,
        "n_iter": int(solution.n_iter),
        "converged": bool(solution.converged),
        "edge": choice.edge,
    }
    error: ResultRow = {"metric": "test_error", "value": float(np.mean(wrong)), **common}
    if wrong.dtype == bool:
        error[EVIDENCE] = evidence_of(wrong, test, (dataset.sha256, len(dataset.y)), choice.candidates)
    objective = None if solution.objective is None else float(solution.objective)  # trees have none
    others = {"validation_error": choice.error, "objective": objective}
    return [error, *({"metric": name, "value": v, **common} for name, v in others.items() if v is not None)]


def bounds(params: Params) -> list[ResultRow]:
    """The expected logistic loss of one blanked-out feature, or its variational bound at one lambda.

    The margin is y w x. ``lam`` None is the exact expectation, 0 is Jensen's bound.
    """
    lam, q = params["lam"], params["method"]["q"]
    z = np.array(params["margins"])
    if lam is None:
        values = q * np.log(2.0) + (1 - q) * np.logaddexp(0.0, -z / (1 - q))
    else:
        log_mgf = Blankout(q=q).log_mgf
        one = np.ones_like(z)
        values = np.logaddexp(log_mgf(lam * z, one), log_mgf((lam - 1) * z, one)) - lam * z
    metric = "expected_loss" if lam is None else "bound"
    return [
        {"metric": metric, "lam": lam, "margin": margin, "value": float(value)}
        for margin, value in zip(params["margins"], values, strict=True)
    ]


def cost(params: Params, dataset: Dataset) -> list[ResultRow]:
    """Seconds for one loss and gradient, with the corruption and without, and what a term-by-term sum costs.

    The values are times: the only rows that differ from run to run.
    """
    draw = draw_of(params)
    rows = first(np.arange(len(dataset.y)), params["evaluation"]["train"], draw, "subset")
    params, dataset = prepared(params, dataset, rows)
    method = params["method"]
    problem = shared_problem(method, dataset, rows).problem
    n_classes = problem.n_classes  # of those rows: a subset may lack some
    corruption = make_corruption(method, dataset)
    shape = (1 if n_classes == 2 else n_classes, dataset.X.shape[1])
    coef = 0.01 * generator(draw.seed, draw.dataset, draw.repeat, "weights").standard_normal(shape)
    intercept = np.zeros(shape[0])
    repetitions = params["evaluation"]["evaluations"]
    plain = _median_seconds(lambda: problem.loss_gradient(None, 0.0, coef, intercept), repetitions)
    ours = _median_seconds(lambda: problem.loss_gradient(corruption, 0.0, coef, intercept), repetitions)
    X = sp.csr_matrix(dataset.X[rows])
    terms = _median_seconds(lambda: _term_by_term(corruption, X, coef), min(3, repetitions))
    values = {
        "gradient_seconds": ours,
        "plain_gradient_seconds": plain,
        "gradient_ratio": ours / plain,
        "term_by_term_ratio": (plain + terms) / plain,
    }
    return [{"metric": name, "value": value} for name, value in values.items()]


def _median_seconds(call: Callable[[], Any], repetitions: int) -> float:
    call()  # the first call also pays for what is built once
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _term_by_term(corruption: Any, X: sp.csr_matrix, coef: np.ndarray) -> None:
    """The log-MGF and its derivative at every stored value and class, as the formulas are written down."""
    for weights in coef:
        t = weights[X.indices]
        np.add.reduceat(corruption.log_mgf(t, X.data), X.indptr[:-1].clip(max=len(X.data) - 1))
        np.bincount(X.indices, corruption.log_mgf_derivative(t, X.data), minlength=X.shape[1])


def leave_one_out_trial(params: Params, dataset: Dataset) -> list[ResultRow]:
    """The two formulas against refitting without each row in turn, at every l2."""
    train = train_test(dataset, {"train_fraction": 0.75, **params["evaluation"]}, draw_of(params))[0]
    params, dataset = prepared(params, dataset, train)
    method = params["method"]
    problem = shared_problem(method, dataset, train).problem
    X, y = dataset.X[train], problem.y
    if np.bincount(y).min() < 2:
        raise ValueError(
            "leave-one-out needs two training rows of every class; this data has a class with one"
        )
    corruption = make_corruption(method, dataset)
    results = []
    for l2 in params["select"]["l2"]:
        refitted = np.vstack([_without(problem, row, X, corruption, l2) for row in range(len(y))])
        values = {"loo_error_refitted": np.mean(codes_of(refitted) != y)}
        for formula in ("paper", "exact"):
            predicted = problem.loo(corruption, l2, method=formula)
            values[f"loo_error_{formula}"] = np.mean(codes_of(predicted) != y)
            values[f"largest_gap_{formula}"] = np.max(np.abs(predicted - refitted))
        results += [{"metric": name, "value": float(value), "l2": l2} for name, value in values.items()]
    return results


def _without(problem: Any, row: int, X: Any, corruption: Any, l2: float) -> np.ndarray:
    others = np.delete(np.arange(X.shape[0]), row)
    return np.reshape(problem.subset(others).solve(corruption, l2).decision(X[row : row + 1]), (1, -1))
