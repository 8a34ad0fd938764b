"""Rows without labels: they join the regulariser, which is what corruption adds to a row's loss."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, MCFClassifier
from mcf_cli.core.missing import filled
from mcf_cli.core.problem import Problem

from tests.core import reference as ref
from tests.core.cases import CASES, LABELS, Case, weights

FINITE = pytest.mark.parametrize("case", [case for case in CASES if case.finite], ids=str)
SURROGATES = pytest.mark.parametrize("surrogate", ["exact", "gaussian", "quadratic"])
LABELLED = 4  # of the six rows


def expected_partition(surrogate: str, laws, coef, intercept) -> np.ndarray:
    """E log(1 + e^z), or what stands for it: the loss of label 0."""
    zeros = np.zeros(len(laws), dtype=int)
    function = {
        "exact": lambda *a: ref.enumerated("logistic", *a),
        "gaussian": ref.normal_score_logistic,
        "quadratic": ref.quadratic_approximation,
    }[surrogate]
    return function(laws, zeros, coef, intercept)


@FINITE
@SURROGATES
def test_the_objective_is_the_plain_loss_and_the_regulariser_of_all_rows(case: Case, surrogate: str):
    y, times = LABELS[2][:LABELLED], np.array([1.0, 2.0, 1.0, 3.0])
    coef, intercept = weights(case, 2)
    problem = Problem(
        case.X[:LABELLED],
        y,
        surrogate=surrogate,
        sample_weight=times,
        unlabeled=case.X[LABELLED:],
        n_classes=2,
    )
    scores = np.array([ref.mean(law) for law in case.laws]) @ coef[0] + intercept[0]
    plain = np.logaddexp(0, -(2 * y - 1) * scores[:LABELLED])
    added = expected_partition(surrogate, case.laws, coef, intercept) - np.logaddexp(0, scores)
    expected = np.average(plain, weights=times) + np.average(added, weights=np.append(times, [1.0, 1.0]))
    value, grad_coef, grad_intercept = problem.loss_gradient(case.corruption, 0.1, coef, intercept)
    assert value == pytest.approx(ref.objective(expected, coef, 0.1), abs=1e-9)

    def at(theta):
        return problem.loss_gradient(case.corruption, 0.1, theta[:, :-1], theta[:, -1])[0]

    numeric = ref.central_difference(at, np.column_stack([coef, intercept]), 1e-4)
    np.testing.assert_allclose(np.column_stack([grad_coef, grad_intercept]), numeric, atol=1e-6)


@SURROGATES
def test_labelled_rows_given_once_more_change_nothing(surrogate: str):
    """The mean of the regulariser over twice the same rows is that over the rows, so the loss is the usual one."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (40, 6)).astype(float), np.arange(40) % 2
    X[y == 1, 0] += 2.0
    model = MCFClassifier(corruption=Blankout(0.5), surrogate=surrogate, l2=0.05, tol=1e-6)
    usual = model.fit(X, y).coef_
    for container in (np.asarray, sp.csr_matrix):
        again = model.fit(container(X), y, X_unlabeled=container(X)).coef_
        np.testing.assert_allclose(again, usual, atol=1e-5)
    np.testing.assert_allclose(model.fit(X, y, X_unlabeled=sp.csr_matrix(X)).coef_, usual, atol=1e-5)


def test_without_corruption_there_is_nothing_to_learn_from_them():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = MCFClassifier(corruption=None, surrogate="gaussian", l2=0.05)
    np.testing.assert_allclose(model.fit(X, y, X_unlabeled=10 * X).coef_, model.fit(X, y).coef_, atol=1e-8)


def test_rows_that_drift_to_one_class_are_warned_of():
    """Common features that only rows without labels hold act like a bias, and a large one quiets the regulariser."""
    rng = np.random.default_rng(4)
    X, y = rng.poisson(1.0, (30, 8)).astype(float), np.arange(30) % 2
    X[y == 1, 0] += 1.0
    one_sided = np.column_stack([np.full(300, 4.0), rng.poisson(1.0, (300, 7))])
    model = MCFClassifier(corruption=Blankout(0.5), surrogate="gaussian", l2=1e-3)
    with pytest.warns(UserWarning, match="push scores to one side"):
        model.fit(X, y, X_unlabeled=one_sided)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, X_unlabeled=X)


def test_folds_keep_the_rows_without_labels():
    rng = np.random.default_rng(2)
    X, y, more = rng.poisson(1.0, (20, 4)), np.arange(20) % 2, rng.poisson(2.0, (9, 4))
    problem = Problem(X, y, surrogate="gaussian", unlabeled=more)
    direct = Problem(X[:10], y[:10], surrogate="gaussian", unlabeled=more)
    ours, theirs = (p.solve(Blankout(0.3), 0.1, tol=1e-6) for p in (problem.subset(np.arange(10)), direct))
    np.testing.assert_allclose(ours.coef, theirs.coef, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "classes", "unlabeled", "words"),
    [
        ({"surrogate": "jensen"}, 2, np.ones((2, 5)), "works only with loss='logistic'"),
        ({"surrogate": "variational"}, 2, np.ones((2, 5)), "works only with loss='logistic'"),
        ({"loss": "quadratic"}, 2, np.ones((2, 5)), "works only with loss='logistic'"),
        ({"surrogate": "quadratic"}, 3, np.ones((2, 5)), "Only binary classification"),
        ({"surrogate": "gaussian"}, 2, np.ones((2, 4)), "features"),
        ({"surrogate": "gaussian"}, 2, np.full((2, 5), np.nan), "NaN"),
        ({"surrogate": "gaussian"}, 2, np.ones(5), "2D array"),
        ({"surrogate": "gaussian"}, 2, np.full((2, 5), 1e200), "X_unlabeled"),
        ({"surrogate": "gaussian", "corruption": "poisson"}, 2, -np.ones((2, 5)), "Negative values"),
    ],
)
def test_what_cannot_join_is_refused(options, classes, unlabeled, words):
    X = np.abs(CASES[1].X)
    with pytest.raises(ValueError, match=words):
        MCFClassifier(l2=0.1, **options).fit(X, LABELS[classes], X_unlabeled=unlabeled)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("missing", ["deleted", "mean", "conditional"])
def test_unlabelled_rows_may_lack_values_and_are_filled_like_the_labelled_ones(container, missing):
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    y = (X[:, 0] > 0).astype(int)
    more[::2, 1] = np.nan
    options = {"corruption": Blankout(0.3), "surrogate": "gaussian", "l2": 0.1}
    model = MCFClassifier(missing=missing, **options).fit(container(X), y, X_unlabeled=container(more))
    known = filled(more, missing, model.conditioning_)
    same = MCFClassifier(**options).fit(X, y, X_unlabeled=known)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-8)
