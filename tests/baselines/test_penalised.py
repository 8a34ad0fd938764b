"""Plain losses with l1 and l2, held against scikit-learn and the subgradient conditions."""

import numpy as np
import pytest
from mcf_cli.baselines import linear as penalised
from mcf_cli.baselines.linear import Penalised, subgradient_violation
from mcf_cli.core.problem import Problem
from scipy import sparse
from sklearn.linear_model import Lasso, LogisticRegression

LOSSES = ("quadratic", "logistic", "exponential")


def examples(classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, 150)
    X = 0.7 * np.eye(classes, 12)[y] + rng.normal(size=(150, 12)) * (rng.random((150, 12)) < 0.6)
    return X, y


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_l1_meets_the_subgradient_conditions(loss, classes, kind):
    X, y = examples(classes)
    problem = Problem(kind(X), y, loss=loss)
    solution = Penalised(problem).solve(0.06, tol=1e-6)
    value, by_coef, by_intercept = problem.loss_gradient(None, 0.0, solution.coef, solution.intercept)
    assert solution.converged
    assert solution.objective == pytest.approx(value + 0.06 * np.abs(solution.coef).sum(), rel=1e-9)
    assert subgradient_violation(solution.coef, by_coef, 0.06).max() < 1e-5
    assert np.abs(by_intercept).max() < 1e-5
    assert 0 < np.count_nonzero(solution.coef) < solution.coef.size


@pytest.mark.parametrize("classes", [2, 3])
def test_quadratic_l1_is_one_lasso_a_class(classes):
    X, y = examples(classes)
    solution = Penalised(Problem(X, y, loss="quadratic")).solve(0.1, tol=1e-9)
    for code, weights in zip(range(1, 2) if classes == 2 else range(classes), solution.coef, strict=True):
        lasso = Lasso(alpha=0.05, tol=1e-12, max_iter=100000).fit(X, np.where(y == code, 1.0, -1.0))
        np.testing.assert_allclose(weights, lasso.coef_, atol=1e-6)


def test_logistic_l1_is_scikit_learns():
    X, y = examples()
    ours = Penalised(Problem(X, y, loss="logistic")).solve(0.03, tol=1e-8)
    model = LogisticRegression(l1_ratio=1.0, solver="saga", C=1 / (0.03 * len(y)), tol=1e-10, max_iter=20000)
    model.fit(X, y)
    np.testing.assert_allclose(ours.coef, model.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept, model.intercept_, atol=1e-4)


def test_multi_class_logistic_l1_reaches_scikit_learns_objective():
    X, y = examples(3)
    problem = Problem(X, y, loss="logistic")
    ours = Penalised(problem).solve(0.03, tol=1e-8)
    model = LogisticRegression(l1_ratio=1.0, solver="saga", C=1 / (0.03 * len(y)), tol=1e-10, max_iter=20000)
    model.fit(X, y)
    value, _, _ = problem.loss_gradient(None, 0.0, model.coef_, model.intercept_)
    assert ours.objective == pytest.approx(value + 0.03 * np.abs(model.coef_).sum(), abs=1e-6)


def test_moments_and_rows_give_the_same_lasso(monkeypatch):
    X, y = examples(3)
    problem = Problem(X, y, loss="quadratic")
    by_moments = Penalised(problem).solve(0.05, tol=1e-9)
    monkeypatch.setattr(penalised, "MOMENT_FEATURES", 1)
    by_rows = Penalised(problem).solve(0.05, tol=1e-9)
    np.testing.assert_allclose(by_rows.coef, by_moments.coef, atol=1e-6)
    np.testing.assert_allclose(by_rows.intercept, by_moments.intercept, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_warm_start_changes_the_road_and_not_the_place(loss):
    X, y = examples()
    model = Penalised(Problem(X, y, loss=loss))
    cold = model.solve(0.02, tol=1e-8)
    warm = model.solve(0.02, start=model.solve(0.1, tol=1e-8), tol=1e-8)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-5)
