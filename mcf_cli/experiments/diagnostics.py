"""The items that measure something other than test error: bounds (Figure 1), cost, leave-one-out."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions import Blankout
from mcf_cli.core.problem import codes_of
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.methods import make_corruption, shared_problem
from mcf_cli.experiments.protocols import Params, Row, draw_of
from mcf_cli.experiments.seeds import generator
from mcf_cli.experiments.splits import first, train_test


def bounds(params: Params) -> list[Row]:
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


def cost(params: Params, dataset: Dataset) -> list[Row]:
    """Seconds for one loss and gradient, with the corruption and without, and what a term-by-term sum costs.

    The values are times: the only rows that differ from run to run.
    """
    draw, method = draw_of(params), params["method"]
    rows = first(np.arange(len(dataset.y)), params["evaluation"]["train"], draw, "subset")
    problem = shared_problem(method, dataset, rows).problem
    n_classes = problem.n_classes  # of those rows: a subset may lack some
    corruption = make_corruption(method, dataset.blocks)
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


def leave_one_out(params: Params, dataset: Dataset) -> list[Row]:
    """The two formulas against refitting without each row in turn, at every l2."""
    draw, method = draw_of(params), params["method"]
    train = train_test(dataset, {"train_fraction": 0.75, **params["evaluation"]}, draw)[0]
    problem = shared_problem(method, dataset, train).problem
    X, y = dataset.X[train], problem.y
    if np.bincount(y).min() < 2:
        raise ValueError(
            "leaving one out needs two training rows of every class; this data has a class with one"
        )
    corruption = make_corruption(method, dataset.blocks)
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
