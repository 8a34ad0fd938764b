"""The hinge baseline on the project's scale of l2."""

import numpy as np
import pytest
from mcf_cli.baselines.linear import SMALLEST_L2, Hinge
from scipy import sparse
from scipy.optimize import linprog, minimize


def two_blobs(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 120)
    return rng.normal(size=(120, 4)) + 0.8 * (2 * y[:, None] - 1), y


def test_c_follows_from_l2_so_that_the_objective_is_minimal():
    """A derivative-free search from the solution gains no more than the bias's small share."""
    X, y = two_blobs()
    problem = Hinge(X, y)
    solution = problem.solve(0.05, max_iter=50000, tol=1e-8)
    assert solution.converged

    def objective(point):
        return problem.objective(point[None, :4], point[4:], 0.05)

    start = np.append(solution.coef.ravel(), solution.intercept)
    found = minimize(
        objective, start, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-8, "fatol": 1e-10}
    )
    assert solution.objective == pytest.approx(found.fun, rel=2e-3)


def test_a_small_l2_separates_what_can_be_separated():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1, 1])
    signs = 2 * y - 1
    margins = linprog(
        np.zeros(3), A_ub=-signs[:, None] * np.c_[X, np.ones(4)], b_ub=-np.ones(4), bounds=(None, None)
    )
    assert margins.success
    assert (Hinge(X, y).solve(1e-4, max_iter=100000).predict(X) == y).all()


def test_three_classes_give_three_rows_and_dense_equals_sparse():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 90)
    X = np.eye(3)[y] + 0.3 * rng.normal(size=(90, 3))
    dense = Hinge(X, y).solve(0.01)
    packed = Hinge(sparse.csr_matrix(X), y).solve(0.01)
    assert dense.coef.shape == (3, 3)
    np.testing.assert_allclose(dense.coef, packed.coef, atol=1e-6)
    assert np.mean(dense.predict(X) == y) > 0.9


def test_no_penalty_is_the_smallest_one_and_an_unfinished_fit_says_so():
    X, y = two_blobs()
    free, smallest = (Hinge(X, y).solve(l2, max_iter=50) for l2 in (0.0, SMALLEST_L2))
    np.testing.assert_array_equal(free.coef, smallest.coef)
    assert not free.converged
    assert "50 passes" in free.message


def test_a_negative_l2_is_refused():
    X, y = two_blobs()
    with pytest.raises(ValueError, match="l2 must be 0 or more"):
        Hinge(X, y).solve(-0.1)


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_an_absent_class_leaves_the_codes_of_the_others(absent):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 90)
    X = np.eye(3)[y] + 0.1 * rng.normal(size=(90, 3))
    X, y = X[y != absent], y[y != absent]
    solution = Hinge(X, y).solve(0.01)
    np.testing.assert_array_equal(solution.predict(X), y)
    assert solution.objective < 0.7  # 1 is that of zero weights
