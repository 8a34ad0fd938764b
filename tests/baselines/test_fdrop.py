"""FDROP: the inner maximum, the objective and its minimiser."""

from itertools import combinations

import numpy as np
import pytest
from mcf_cli.baselines.fdrop import (
    BatchRows,
    Fdrop,
    compiled_worst_case,
    doublings,
    largest_positive_sum,
    loss_gradient,
    worst_case_loss,
)
from mcf_cli.core.kernels.dispatch import unsigned
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC


def rows_of(X, y):
    return BatchRows.of(sparse.csr_matrix(X), np.asarray(y), np.arange(len(y)))


def enumerated_loss(x, label, weights, bias, deletions):
    """Crammer-Singer hinge loss after the worst of all deletions of at most ``deletions`` features."""
    worst = 0.0
    for count in range(deletions + 1):
        for gone in combinations(range(len(x)), count):
            left = np.array(x)
            left[list(gone)] = 0.0
            scores = weights @ left + bias
            rivals = scores - scores[label] + 1.0
            worst = max(worst, np.delete(rivals, label).max())
    return worst


@pytest.mark.parametrize("deletions", [0, 1, 2, 3, 9])
def test_the_inner_maximum_equals_enumeration_over_all_deletions(deletions):
    rng = np.random.default_rng(deletions)
    X = rng.normal(size=(12, 7)) * (rng.random((12, 7)) < 0.7)
    y = rng.integers(0, 3, 12)
    weights, bias = rng.normal(size=(3, 7)), rng.normal(size=3)
    loss, _, _ = worst_case_loss(rows_of(X, y), weights, bias, deletions)
    expected = [
        enumerated_loss(x, label, weights, bias, min(deletions, 7)) for x, label in zip(X, y, strict=True)
    ]
    np.testing.assert_allclose(loss, expected, atol=1e-12)


def test_what_survives_realises_the_loss():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 9)), rng.integers(0, 4, 30)
    weights, bias = rng.normal(size=(4, 9)), rng.normal(size=4)
    batch = rows_of(X, y)
    loss, worst, kept = worst_case_loss(batch, weights, bias, 3)
    scores = kept @ weights.T + bias
    everyone = np.arange(30)
    realised = np.where(worst == y, 0.0, 1.0 - scores[everyone, y] + scores[everyone, worst])
    np.testing.assert_allclose(loss, realised, atol=1e-12)
    assert ((kept == 0).sum(axis=1) <= 3).all()


def test_the_sum_of_the_largest_positive_entries_ignores_negative_ones():
    contributions = np.array([[3.0, -1.0, 2.0, 0.5], [-1.0, -2.0, -3.0, 0.1]])
    np.testing.assert_allclose(largest_positive_sum(contributions, 2), [5.0, 0.1])
    np.testing.assert_allclose(largest_positive_sum(contributions, 0), [0.0, 0.0])
    np.testing.assert_allclose(largest_positive_sum(contributions, 99), [5.5, 0.1])


def test_the_subgradient_matches_finite_differences_away_from_kinks():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 6)), rng.integers(0, 3, 20)
    weights, bias = rng.normal(size=(3, 6)), rng.normal(size=3)
    batch = rows_of(X, y)
    _, by_weights, by_bias = loss_gradient(batch, weights, bias, 2)
    step, direction, shift = 1e-7, rng.normal(size=(3, 6)), rng.normal(size=3)
    ahead, _, _ = loss_gradient(batch, weights + step * direction, bias + step * shift, 2)
    behind, _, _ = loss_gradient(batch, weights - step * direction, bias - step * shift, 2)
    slope = np.sum(by_weights * direction) + np.sum(by_bias * shift)
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("budget", [0, 1, 3, 99])
def test_compiled_loops_give_the_same_loss_and_subgradient(budget):
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    rng = np.random.default_rng(5)
    X = sparse.csr_matrix(rng.normal(size=(40, 12)) * (rng.random((40, 12)) < 0.5))
    y, weights, bias = rng.integers(0, 4, 40), rng.normal(size=(4, 12)), rng.normal(size=4)
    rows, by_weights, by_bias = rng.permutation(40)[:25], np.zeros((4, 12)), np.zeros(4)
    entries = unsigned(X.indptr), unsigned(X.indices), X.data, y
    total = compiled_worst_case(X)(*entries, rows, weights, bias, budget, 1 / 25, by_weights, by_bias)
    loss, of_weights, of_bias = loss_gradient(BatchRows.of(X, y, rows), weights, bias, budget)
    assert total / 25 == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(by_weights, of_weights, atol=1e-12)
    np.testing.assert_allclose(by_bias, of_bias, atol=1e-12)


def test_the_loss_grows_with_the_budget_and_is_convex_along_a_line():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(25, 8)), rng.integers(0, 3, 25)
    problem = Fdrop(X, y)
    ends = rng.normal(size=(2, 3, 9))
    by_budget = [problem.objective(ends[0], 0.1, budget) for budget in range(9)]
    assert (np.diff(by_budget) >= 0).all()
    middle = problem.objective(ends.mean(axis=0), 0.1, 3)
    assert middle <= np.mean([problem.objective(end, 0.1, 3) for end in ends]) + 1e-12


def noisy_classes(classes, seed=3):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 10))
    y = rng.integers(0, classes, 300)
    return centres[y] + 1.5 * rng.normal(size=(300, 10)), y


@pytest.mark.parametrize("classes", [2, 4])
def test_without_deletions_it_is_the_hinge_solution(classes):
    X, y = noisy_classes(classes)
    ours = Fdrop(X, y).solve(0.01, deletions=0, max_iter=256, tol=1e-4)
    reference = LinearSVC(
        loss="hinge",
        C=1 / (2 * 0.01 * len(y)),
        multi_class="ovr" if classes == 2 else "crammer_singer",  # of two classes the margin is the same
        intercept_scaling=10.0,
        max_iter=50000,
        tol=1e-3,
    ).fit(X, y)
    assert ours.coef.shape == reference.coef_.shape
    scores = reference.decision_function(X)
    if classes == 2:
        losses = 1 - np.where(y, scores, -scores)
    else:
        others = np.where(np.arange(classes) == y[:, None], -np.inf, scores)
        losses = 1 - scores[np.arange(len(y)), y] + others.max(axis=1)
    objective = np.maximum(losses, 0).mean() + 0.01 * np.sum(reference.coef_**2)
    assert ours.objective == pytest.approx(objective, rel=5e-3)


def test_dense_and_sparse_input_give_the_same_weights():
    X, y = noisy_classes(3)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = Fdrop(X, y).solve(0.01, deletions=2, max_iter=4)
    packed = Fdrop(sparse.csr_matrix(X), y).solve(0.01, deletions=2, max_iter=4)
    np.testing.assert_array_equal(dense.coef, packed.coef)


def test_the_bias_is_never_deleted():
    """Labels that only a bias can explain stay predictable under any budget."""
    X, y = np.ones((40, 3)), np.zeros(40, dtype=int)
    y[:2] = 1
    solution = Fdrop(X, y).solve(0.1, deletions=3, max_iter=64)
    assert (solution.predict(X) == 0).all()
    assert solution.objective < 0.2


def test_a_negative_budget_is_refused():
    with pytest.raises(ValueError, match="deletions must be 0 or more"):
        Fdrop(np.ones((2, 2)), [0, 1]).solve(0.1, deletions=-1)


def test_checks_double_and_end_at_the_limit():
    assert doublings(1) == [1]
    assert doublings(6) == [1, 2, 4, 6]
    assert doublings(0) == []


def test_on_digits_it_resists_deletion_better_than_the_hinge_loss():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    train, test = np.arange(0, 1200), np.arange(1200, len(y))
    deleted = X[test] * (np.random.default_rng(0).random(X[test].shape) >= 0.5)
    hinge = Fdrop(X[train], y[train]).solve(1e-3, deletions=0)
    robust = Fdrop(X[train], y[train]).solve(1e-3, deletions=4, start=hinge)
    assert np.mean(robust.predict(X[test]) != y[test]) < 0.15
    assert np.mean(robust.predict(deleted) != y[test]) < np.mean(hinge.predict(deleted) != y[test]) - 0.02


@pytest.mark.parametrize("budget", [2, 4])
def test_a_path_of_penalties_ends_as_low_as_one_long_fit(budget):
    """What steps far from a good start have not yet regained is no convergence."""
    X, y = load_digits(return_X_y=True)
    problem, solution = Fdrop(X[:1200] / 16.0, y[:1200]), None
    for l2 in (1.0, 0.1, 1e-2, 1e-3, 1e-4):
        solution = problem.solve(l2, deletions=budget, start=solution)
    long = problem.solve(1e-4, deletions=budget, max_iter=512, tol=0.0)
    assert solution.objective == pytest.approx(long.objective, rel=0.05)


def test_a_solve_is_deterministic_and_a_warm_start_is_no_worse_than_its_start():
    X, y = noisy_classes(3)
    problem = Fdrop(X, y)
    first, second = (problem.solve(0.01, deletions=2, max_iter=8) for _ in range(2))
    np.testing.assert_array_equal(first.coef, second.coef)
    assert first.n_iter <= 8
    further = problem.solve(0.01, deletions=2, max_iter=8, start=first)
    assert further.objective <= first.objective
