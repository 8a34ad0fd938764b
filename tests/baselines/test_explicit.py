"""Explicit corruption: the copies, the moments, and the limit of many copies."""

import numpy as np
import pytest
from mcf_cli import Blankout, Gaussian, PerFeature, Poisson
from mcf_cli.baselines import explicit
from mcf_cli.baselines.explicit import Explicit, SecondMoments
from mcf_cli.core.problem import Problem, signed_targets
from scipy import sparse


def counts(classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, 60)
    rates = rng.gamma(1.0, 1.0, size=(classes, 8))
    return rng.poisson(rates[y]).astype(float), y


def stacked(problem, copies):
    drawn = [problem.copy(number) for number in range(copies)]
    return sparse.vstack(drawn).toarray() if sparse.issparse(drawn[0]) else np.vstack(drawn)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_moments_give_the_solution_on_the_stacked_copies(classes, kind):
    X, y = counts(classes)
    problem = Explicit(kind(X), y, Blankout(q=0.3), seed=7)
    ours = problem.solve(0.05, copies=5)
    whole = Problem(stacked(problem, 5), np.tile(y, 5), loss="quadratic").solve(None, 0.05)
    np.testing.assert_allclose(ours.coef, whole.coef, atol=1e-9)
    np.testing.assert_allclose(ours.intercept, whole.intercept, atol=1e-9)
    assert ours.objective == pytest.approx(whole.objective, rel=1e-9)


def test_copies_are_nested_whatever_the_order_of_asking():
    X, y = counts()
    growing = Explicit(X, y, Poisson(), seed=3)
    answers = {copies: growing.solve(0.1, copies) for copies in (1, 2, 4)}
    for copies, answer in reversed(answers.items()):
        fresh = Explicit(X, y, Poisson(), seed=3).solve(0.1, copies)
        np.testing.assert_array_equal(answer.coef, fresh.coef)
    np.testing.assert_array_equal(growing.solve(0.1, 2).coef, answers[2].coef)
    assert not np.array_equal(growing.copy(0), growing.copy(1))


@pytest.mark.parametrize("corruption", [Blankout(q=0.4), Poisson()])
def test_many_copies_approach_the_marginalised_model(corruption):
    X, y = counts()
    limit = Problem(X, y, loss="quadratic").solve(corruption, 0.1).coef
    problem = Explicit(X, y, corruption, seed=1)
    gaps = [np.linalg.norm(problem.solve(0.1, copies).coef - limit) for copies in (1, 16, 1024)]
    assert gaps[2] < 0.25 * gaps[1] < 0.25 * gaps[0]


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_other_losses_train_on_the_stacked_copies(loss):
    X, y = counts()
    problem = Explicit(sparse.csr_matrix(X), y, Blankout(q=0.2), loss=loss)
    ours = problem.solve(0.1, copies=3, tol=1e-8)
    whole = Problem(stacked(problem, 3), np.tile(y, 3), loss=loss).solve(None, 0.1, tol=1e-8)
    np.testing.assert_allclose(ours.coef, whole.coef, atol=1e-5)


def test_with_too_many_features_for_moments_the_answer_is_the_same(monkeypatch):
    X, y = counts()
    by_moments = Explicit(X, y, Poisson()).solve(0.1, copies=3)
    monkeypatch.setattr(explicit, "MOMENT_FEATURES", 1)
    by_rows = Explicit(X, y, Poisson()).solve(0.1, copies=3)
    assert by_rows.message != by_moments.message
    np.testing.assert_allclose(by_rows.coef, by_moments.coef, atol=1e-9)


def test_noise_on_zeros_may_make_sparse_input_dense():
    X, y = counts()
    solution = Explicit(sparse.csr_matrix(X), y, Gaussian(sigma=0.5), loss="logistic").solve(0.1, copies=2)
    assert solution.coef.shape == (1, 8)


def test_without_a_penalty_unseen_features_get_no_weight():
    X, y = counts()
    X[:, 3] = 0.0
    solution = Explicit(X, y, Blankout(q=0.5)).solve(0.0, copies=2)
    assert np.isfinite(solution.coef).all()
    assert solution.coef[0, 3] == pytest.approx(0.0, abs=1e-9)


def test_no_copies_at_all_are_refused():
    X, y = counts()
    with pytest.raises(ValueError, match="copies must be 1 or more"):
        Explicit(X, y, Poisson()).solve(0.1, copies=0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("flaw", ["copied column", "offset"])
def test_what_the_moments_cannot_settle_is_solved_from_the_rows(kind, flaw):
    X, y = counts()
    X = X + 1.0
    X[:, 1] = X[:, 0] if flaw == "copied column" else X[:, 1] + 1e8
    problem = Explicit(kind(X), y, PerFeature([([5], Blankout(q=0.3))]))
    ours = problem.solve(1e-12, copies=2)
    whole = Problem(stacked(problem, 2), np.tile(y, 2), loss="quadratic").solve(None, 1e-12)
    assert ours.objective == pytest.approx(whole.objective, rel=1e-7)
    assert ours.converged == whole.converged
    by_moments = "copies" in ours.message
    assert by_moments == (flaw == "offset" and kind is np.asarray), "dense rows are moved near zero first"


def test_the_centred_loss_is_the_mean_squared_error_at_the_best_bias():
    X, y = counts(3)
    moments = SecondMoments()
    targets = signed_targets(y, 3)
    moments.add(X[:20], targets[:20])
    moments.add(X[20:], targets[20:])
    weights = np.random.default_rng(0).normal(size=(8, 3))
    centred = moments.centred()
    value, gradient = centred.loss_gradient(weights)
    residual = X @ weights + centred.bias(weights) - targets
    assert value == pytest.approx(np.mean(np.sum(residual**2, axis=1)))
    np.testing.assert_allclose(residual.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(gradient, 2 * X.T @ residual / len(y), atol=1e-10)


def test_wide_data_needs_no_matrix_of_features_by_features():
    """A thousand gigabytes, were it allocated."""
    X = sparse.random(30, 400_000, density=1e-4, format="csr", random_state=0)
    y = np.arange(30) % 2
    solution = Explicit(X, y, Blankout(q=0.5), loss="quadratic").solve(l2=0.1, copies=2)
    assert solution.coef.shape == (1, 400_000)
