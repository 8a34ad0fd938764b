"""Newton's method: its second derivatives are those of the gradient, and it ends where L-BFGS ends."""

from dataclasses import replace

import numpy as np
import pytest
from mcf_cli import Blankout, Multinomial, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.core.solvers.newton import _Model, _shorter, correlations, newton
from scipy import sparse
from sklearn.datasets import load_digits

from tests.core.cases import BY_NAME, CASES, LABELS
from tests.core.loss_cases import BINARY_AND_THREE, EVERY_CASE, LOSSES

SMOOTH = [loss for loss in LOSSES if loss.name in ("exponential", "jensen-pairwise", "jensen-shared")]
EVERY_SMOOTH_LOSS = pytest.mark.parametrize("loss", SMOOTH, ids=str)


def objective_at(loss, case, classes, l2=0.1, data=None):
    X = case.X if data is None else data
    problem = loss.problem(X, LABELS[classes], classes)
    objective = problem._objective(problem._checked(case.corruption), l2)
    random = np.random.default_rng(7)
    W = 0.4 * random.normal(size=objective.shape)
    return objective, W, 0.3 * random.normal(size=objective.shape[1]), random


@EVERY_SMOOTH_LOSS
@EVERY_CASE
@BINARY_AND_THREE
def test_products_with_the_second_derivative_are_differences_of_gradients(loss, case, classes):
    objective, W, b, random = objective_at(loss, case, classes)
    assert objective.has_hessian
    V, v_b = random.normal(size=W.shape), random.normal(size=b.shape)
    step = 1e-6
    ahead = objective.loss_gradient(W + step * V, b + step * v_b)
    behind = objective.loss_gradient(W - step * V, b - step * v_b)
    value, derivatives = objective.expand(W, b)
    g_W, g_b, hessian = derivatives()
    product, product_b = hessian.product(V, v_b)
    np.testing.assert_allclose(product, (ahead[1] - behind[1]) / (2 * step), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(product_b, (ahead[2] - behind[2]) / (2 * step), rtol=1e-5, atol=1e-7)
    plain = objective.loss_gradient(W, b)
    assert value == pytest.approx(plain[0], rel=1e-12)
    np.testing.assert_allclose(g_W, plain[1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(g_b, plain[2], rtol=1e-12, atol=1e-14)


@EVERY_SMOOTH_LOSS
@EVERY_CASE
def test_the_diagonal_of_two_classes_is_exact(loss, case):
    """With more classes the cross terms of a class with itself are left out."""
    objective, W, b, _ = objective_at(loss, case, 2)
    hessian = objective.expand(W, b)[1]()[2]
    diagonal, diagonal_b = hessian.diagonal()
    for d in range(len(W)):
        unit = np.zeros_like(W)
        unit[d] = 1.0
        assert diagonal[d, 0] == pytest.approx(hessian.product(unit, np.zeros(1))[0][d, 0], rel=1e-10)
    assert diagonal_b[0] == pytest.approx(hessian.product(np.zeros_like(W), np.ones(1))[1][0], rel=1e-10)


@EVERY_CASE
def test_the_diagonal_of_the_exponential_loss_is_exact_with_more_classes_too(case):
    objective, W, b, _ = objective_at(SMOOTH[0], case, 3)
    hessian = objective.expand(W, b)[1]()[2]
    diagonal = hessian.diagonal()[0]
    for place in np.ndindex(W.shape):
        unit = np.zeros_like(W)
        unit[place] = 1.0
        assert diagonal[place] == pytest.approx(hessian.product(unit, np.zeros(3))[0][place], rel=1e-10)


@EVERY_SMOOTH_LOSS
@EVERY_CASE
@BINARY_AND_THREE
def test_newton_and_lbfgs_agree(loss, case, classes):
    data = sparse.csr_matrix(case.X)
    problem = loss.problem(data, LABELS[classes], classes)
    newton = problem.solve(case.corruption, 0.05, tol=1e-8, method="newton")
    lbfgs = problem.solve(case.corruption, 0.05, tol=1e-8, max_iter=20000, method="lbfgs")
    assert newton.converged
    np.testing.assert_allclose(newton.coef, lbfgs.coef, atol=2e-6)
    np.testing.assert_allclose(newton.intercept, lbfgs.intercept, atol=2e-6)


@pytest.mark.parametrize(
    "options", [{"surrogate": "variational", "shared_lambda": True}, {"surrogate": "quadratic"}]
)
def test_losses_without_second_derivatives_are_left_to_lbfgs(options):
    case = BY_NAME["blankout"]
    problem = Problem(case.X, LABELS[2], n_classes=2, **options)
    with pytest.raises(ValueError, match="lbfgs"):
        problem.solve(case.corruption, 0.1, method="newton")
    assert problem.solve(case.corruption, 0.1).converged


FORMS = pytest.mark.parametrize(("multiclass", "classes"), [("pairwise", 2), ("pairwise", 3), ("shared", 3)])


@EVERY_CASE
@FORMS
def test_the_variational_bound_has_its_second_derivative(case, multiclass, classes):
    """Lambda follows the weights: the product is the change of the gradient, whose lambda is sought anew."""
    options = {"surrogate": "variational", "multiclass": multiclass}
    problem = Problem(sparse.csr_matrix(case.X), LABELS[classes], n_classes=classes, **options)
    objective = problem._objective(problem._checked(case.corruption), 0.05)
    couples = any(family.couples for batch in objective.batches for _, family in batch.block.parts)
    assert objective.has_hessian != couples
    if couples:
        return
    random = np.random.default_rng(5)
    W, V = 0.2 * random.normal(size=(2, *objective.shape))
    b, v_b = random.normal(size=(2, objective.shape[1]))
    value, derivatives = objective.expand(W, b)
    g_W, g_b, hessian = derivatives()
    again = objective.loss_gradient(W, b)
    assert value == pytest.approx(again[0], rel=1e-12)
    np.testing.assert_allclose(g_W, again[1], atol=1e-7)
    up, down = (objective.loss_gradient(W + step * V, b + step * v_b) for step in (1e-3, -1e-3))
    assert np.vdot(g_W, V) + g_b @ v_b == pytest.approx((up[0] - down[0]) / 2e-3, abs=1e-5)
    image, image_b = hessian.product(V, v_b)
    np.testing.assert_allclose(image, (up[1] - down[1]) / 2e-3, atol=1e-4)
    np.testing.assert_allclose(image_b, (up[2] - down[2]) / 2e-3, atol=1e-4)


@EVERY_CASE
@FORMS
def test_newton_and_lbfgs_find_the_same_variational_bound(case, multiclass, classes):
    """Or L-BFGS ends in a higher minimum, as with bits of three classes: the bound is not convex."""
    options = {"surrogate": "variational", "multiclass": multiclass}
    problem = Problem(sparse.csr_matrix(case.X), LABELS[classes], n_classes=classes, **options)
    newton = problem.solve(case.corruption, 0.05, tol=1e-7)
    lbfgs = problem.solve(case.corruption, 0.05, tol=1e-7, max_iter=20000, method="lbfgs")
    assert newton.converged
    assert newton.objective <= lbfgs.objective * (1.0 + 1e-9)
    if newton.objective > lbfgs.objective * (1.0 - 1e-9) or classes == 2:
        np.testing.assert_allclose(newton.coef, lbfgs.coef, atol=1e-5)


def test_a_limit_of_iterations_is_reported():
    random = np.random.default_rng(0)
    problem = Problem(random.poisson(1.0, (30, 8)), random.integers(3, size=30))
    solution = problem.solve(Poisson(), 1e-4, max_iter=1)
    assert not solution.converged
    assert solution.n_iter == 1


def test_a_loss_without_minimum_ends_all_the_same():
    """Separable data without a penalty: weights grow until the gradient is below tol."""
    X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    for corruption in (None, Blankout(0.5)):
        solution = Problem(X, np.array([0, 0, 1, 1])).solve(corruption, 0.0, tol=1e-6)
        assert solution.converged
        assert np.isfinite(solution.coef).all()
        assert not solution.bounded
        assert Problem(X, np.array([0, 0, 1, 1])).solve(corruption, 0.01, tol=1e-6).bounded


def test_an_exponential_loss_that_many_classes_make_tiny_is_minimised_all_the_same():
    random = np.random.default_rng(3)
    X, y = random.poisson(0.3, size=(120, 40)).astype(float), np.arange(120) % 20
    problem = Problem(X, y, loss="exponential")
    nearby = problem.solve(Blankout(q=0.1), 1e-6, tol=1e-3)
    loose = problem.solve(Blankout(q=0.1), 1e-8, start=nearby, tol=1e-3)
    tight = problem.solve(Blankout(q=0.1), 1e-8, tol=1e-9)
    assert tight.objective < 1e-3
    assert loose.objective == pytest.approx(tight.objective, rel=1e-3)


def test_classes_without_rows_are_left_out():
    """A class that no row has would let the exponential loss fall to zero through the biases alone."""
    random = np.random.default_rng(3)
    X, y = random.poisson(1.0, (40, 6)).astype(float), random.choice([0, 2, 3], size=40)
    problem = Problem(X, y, loss="exponential", n_classes=5, drop_absent=True)
    solution = problem.solve(Blankout(0.3), 0.01)
    assert solution.coef.shape == (3, 6)
    assert solution.objective > 0.1
    assert set(solution.predict(X)) <= {0, 2, 3}
    part = problem.subset(y != 2).solve(Blankout(0.3), 0.01)
    assert set(part.predict(X)) == {0, 3}


def test_multinomial_and_blankout_share_a_problem():
    """The same data solved by both methods in turn: neither leaves anything behind in the other's buffers."""
    random = np.random.default_rng(5)
    X = np.eye(3)[random.integers(3, size=(24, 2))].reshape(24, 6)
    problem = Problem(X, random.integers(3, size=24))
    first = problem.solve(Blankout(0.3), 0.01)
    problem.solve(Multinomial(0.2, blocks=3), 0.01)
    np.testing.assert_array_equal(problem.solve(Blankout(0.3), 0.01).coef, first.coef)


def test_a_start_that_is_worse_than_none_is_left():
    random = np.random.default_rng(3)
    X, y = random.poisson(0.5, size=(80, 30)).astype(float), random.integers(0, 3, 80)
    problem = Problem(X, y, loss="exponential")
    alone = problem.solve(Blankout(q=0.3), 1e-2)
    far = replace(alone, coef=30.0 * random.normal(size=alone.coef.shape))
    led_astray = problem.solve(Blankout(q=0.3), 1e-2, start=far)
    assert led_astray.n_iter == alone.n_iter
    assert "start" in led_astray.message and "start" not in alone.message
    near = problem.solve(Blankout(q=0.3), 1e-2, start=alone)
    assert near.n_iter < alone.n_iter


@pytest.mark.parametrize("reach", [0.05, 0.5, 2.0])
def test_a_step_cut_off_at_its_reach_keeps_its_promise(reach):
    """Within reach the model falls by what the step promises, and a shorter step never gains more."""
    objective, W, b, _ = objective_at(SMOOTH[1], CASES[1], 2)
    point = np.vstack([W, b])
    model = _Model(objective, point, True).differentiated()
    hessian, gradient = model.hessian, model.gradient
    step, promised, *_ = model.step(1e-8, reach)
    bent = np.vstack(hessian.product(step[:-1], step[-1]))
    assert model.length(step) <= reach * (1 + 1e-9)
    assert promised == pytest.approx(-np.vdot(gradient, step) - 0.5 * np.vdot(step, bent), rel=1e-9)
    model.hessian = hessian
    shorter = model.step(1e-8, 0.7 * reach).promise
    assert 0.0 < shorter <= promised * (1 + 1e-12)


def test_a_fit_that_is_cut_short_is_close_to_the_whole_one():
    X = np.random.default_rng(0).normal(size=(60, 5))
    y = (X[:, 0] + 1.0 > 0).astype(int)
    problem = Problem(X, y)
    whole = problem.solve(Blankout(0.2), 0.1, tol=1e-9)
    cut = problem.solve(Blankout(0.2), 0.1, tol=1e-9, max_iter=whole.n_iter - 1)
    assert not cut.converged
    np.testing.assert_allclose(cut.coef, whole.coef, atol=1e-3)
    np.testing.assert_allclose(cut.intercept, whole.intercept, atol=1e-3)


@pytest.mark.parametrize("growth", [2.0, 5.0, 10.0, 20.0, 100.0])
def test_a_step_that_overshoots_an_exponential_is_cut_to_its_minimum(growth):
    """Where that is not below a tenth of the step; on the line the value is a tangent and an exponential above it."""
    slope, tangent = -3.0, np.expm1(growth) - growth
    share = _shorter(1.0, -slope * tangent / growth**2, -slope)
    assert share == pytest.approx(max(0.1, np.log1p(growth) / growth), rel=1e-6)


@pytest.mark.parametrize("excess", [np.inf, np.nan])
def test_a_step_into_overflow_is_cut_too(excess):
    assert 0.0 < _shorter(0.5, excess, 1.0) <= 0.25


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
def test_separable_rows_of_several_classes_end_next_to_a_loss_of_zero(multiclass):
    """A step by the curvature of rows on the wrong side, which have next to none, went to weights of 1e11."""
    X, y = load_digits(return_X_y=True)
    found = Problem(X[::2] / 16, y[::2], multiclass=multiclass).solve(None, 0.0, tol=1e-4)
    assert abs(found.objective) < 1e-12
    assert np.abs(found.coef).max() < 1e5


@pytest.mark.parametrize("corruption", [None, Blankout(0.3)], ids=["plain", "blankout"])
def test_symbols_of_several_classes_end_at_the_minimum_in_few_steps(corruption):
    """Rare symbols and shifts of all classes make flat valleys, which a step that stops early never leaves."""
    random = np.random.default_rng(2)
    share = random.dirichlet([5.0] * 4 + [0.05] * 4, size=12)
    X = np.hstack([np.eye(8)[random.choice(8, size=1500, p=p)] for p in share])
    y = (X @ random.normal(size=(96, 3)) + random.gumbel(size=(1500, 3))).argmax(axis=1)
    problem = Problem(sparse.csr_matrix(X), y)
    default = problem.solve(corruption, 1e-6, tol=1e-4)
    best = problem.solve(corruption, 1e-6, tol=1e-9)
    assert default.converged and default.n_iter < 40
    assert default.objective == pytest.approx(best.objective, rel=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_correlated_features_change_the_way_and_not_the_end(loss):
    random = np.random.default_rng(4)
    X = random.normal(size=(1200, 4)) @ random.normal(size=(4, 40)) + 0.05 * random.normal(size=(1200, 40))
    y = (X[:, :3] + random.gumbel(size=(1200, 3))).argmax(axis=1)
    problem = Problem(X, y, loss=loss)
    objective = problem._objective(problem._checked(Blankout(0.1)), 1e-4)
    start = np.zeros(objective.shape), np.zeros(3)
    with_them = newton(objective, *start, True, 100, 1e-6, problem._correlations)
    without = newton(objective, *start, True, 100, 1e-6)
    R = correlations(X, problem.weights)
    norms = np.sqrt((X * X).sum(axis=0))
    np.testing.assert_allclose(R[:-1, :-1], X.T @ X / np.outer(norms, norms), atol=0.2)  # from a sample
    assert with_them.converged and without.converged
    assert with_them.value == pytest.approx(without.value, rel=1e-9)
