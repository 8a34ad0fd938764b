"""The generic l1 solver against scikit-learn's and against the subgradient conditions."""

import numpy as np
import pytest
from mcf_cli.baselines.linear import minimise_l1, subgradient_violation
from scipy.special import expit
from sklearn.linear_model import Lasso


def regression(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 15))
    truth = np.where(np.arange(15) < 4, 1.0, 0.0)
    return X, X @ truth + 0.3 * rng.normal(size=60) + 2.0


def squares(X, y):
    design = np.c_[X, np.ones(len(X))]

    def smooth(point):
        residual = design @ point - y
        return residual @ residual / len(y), 2 * design.T @ residual / len(y)

    return smooth


@pytest.mark.parametrize("l1", [0.0, 0.01, 0.1, 1.0, 100.0])
def test_on_squares_it_is_the_lasso(l1):
    X, y = regression()
    free_bias = np.arange(16) < 15
    ours = minimise_l1(squares(X, y), np.zeros(16), l1, free_bias, tol=1e-9)
    # scikit-learn minimises half the mean square + alpha |w|, so alpha is half of our l1.
    lasso = Lasso(alpha=max(l1 / 2, 1e-10), tol=1e-12, max_iter=100000).fit(X, y)
    assert ours.success
    np.testing.assert_allclose(ours.x[:15], lasso.coef_, atol=1e-5)
    assert ours.x[15] == pytest.approx(lasso.intercept_, abs=1e-5)
    np.testing.assert_array_equal(ours.x[:15] == 0, np.abs(lasso.coef_) < 1e-7)


def test_the_subgradient_conditions_hold_for_a_logistic_loss():
    X, y = regression(1)
    signs = np.sign(y - 2.0)

    def smooth(point):
        margins = signs * (X @ point)
        return np.logaddexp(0, -margins).mean(), -(X.T @ (signs * expit(-margins))) / len(signs)

    result = minimise_l1(smooth, np.ones(15), 0.05, tol=1e-7)
    violation = subgradient_violation(result.x, smooth(result.x)[1], 0.05)
    assert violation.max() <= 1e-6
    assert 0 < np.count_nonzero(result.x) < 15


def test_the_answer_does_not_depend_on_the_start():
    X, y = regression(2)
    penalised = np.arange(16) < 15
    starts = [np.zeros(16), np.full(16, 5.0), np.linspace(-3, 3, 16)]
    answers = [minimise_l1(squares(X, y), start, 0.2, penalised, tol=1e-9).x for start in starts]
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-6)
    np.testing.assert_allclose(answers[2], answers[0], atol=1e-6)


def test_an_unfinished_search_says_so_and_a_negative_penalty_is_refused():
    X, y = regression()
    assert not minimise_l1(squares(X, y), np.zeros(16), 0.01, max_iter=1, tol=1e-12).success
    with pytest.raises(ValueError, match="l1 must be 0 or more"):
        minimise_l1(squares(X, y), np.zeros(16), -1.0)


def test_violation_knows_the_three_cases():
    x, gradient = np.array([0.0, 0.0, 2.0, -1.0]), np.array([0.3, 0.8, -0.5, 0.2])
    np.testing.assert_allclose(subgradient_violation(x, gradient, 0.5), [0.0, 0.3, 0.0, 0.3])
    free = np.array([True, True, True, False])
    np.testing.assert_allclose(subgradient_violation(x, gradient, 0.5, free), [0.0, 0.3, 0.0, 0.2])
