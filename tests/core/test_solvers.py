"""Solutions solve: normal equations in primal and dual, minima of the reference loss, folds, warm starts."""

import re

import numpy as np
import pytest
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.core.solvers import inverse_root
from mcf_cli.core.solvers.least_squares import QuadraticSystem
from mcf_cli.core.solvers.normal_equations import Terms
from scipy import sparse
from scipy.optimize import minimize

from tests.core import reference as ref
from tests.core.cases import BY_NAME, CASES, LABELS
from tests.core.loss_cases import BINARY_AND_THREE, EVERY_CASE, EVERY_LOSS, LOSSES, SOME_CASES, Loss

TIGHT = {"max_iter": 20000, "tol": 1e-9}
CONVEX = [
    loss for loss in LOSSES if loss.name in ("quadratic", "exponential", "jensen-pairwise", "jensen-shared")
]
SHAPES = {"tall": 3, "wide": 0.5}  # rows per case row: 18 rows beat any case's columns, 3 rows never do


def rows_of(case, factor):
    """More or fewer rows of a case than it has columns, with their labels for 2 and 3 classes."""
    rows = np.arange(int(len(case.X) * factor)) % len(case.X)
    shuffled = np.random.default_rng(1).permutation(len(rows))
    return case.X[rows], {classes: y[rows][shuffled] for classes, y in LABELS.items()}


@EVERY_CASE
@BINARY_AND_THREE
@pytest.mark.parametrize("factor", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("l2", [0.0, 1e-6, 0.1])
def test_closed_form_has_no_gradient_and_equals_least_squares(case, classes, factor, l2):
    """Zero gradient everywhere, and of many minima the one with the smallest weights.

    Two classes go through dense data, three through sparse.
    """
    X, labels = rows_of(case, factor)
    data = X if classes == 2 else sparse.csr_matrix(X)
    problem = Problem(data, labels[classes], loss="quadratic", n_classes=classes)
    solution = problem.solve(case.corruption, l2)
    value, grad_coef, grad_intercept = problem.loss_gradient(
        case.corruption, l2, solution.coef, solution.intercept
    )
    np.testing.assert_allclose(grad_coef, 0, atol=1e-8)
    np.testing.assert_allclose(grad_intercept, 0, atol=1e-8)
    assert solution.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert solution.converged

    targets = ref.one_vs_rest(labels[classes], classes)
    coef, intercept = ref.quadratic_solution([case.law(x) for x in X], targets, ridge=len(X) * l2)
    np.testing.assert_allclose(solution.coef, coef, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(solution.intercept, intercept, rtol=1e-5, atol=1e-6)


WIDE = np.random.default_rng(8).poisson(0.4, size=(14, 60)).astype(float)
WIDE_CASES = {
    "none": (None, WIDE),
    "blankout": (Blankout(0.7), WIDE),
    "dropout": (Dropout(0.4), WIDE),
    "gaussian": (Gaussian(0.5), WIDE),
    "poisson": (Poisson(), WIDE),
    "bitswap": (BitSwap(0.1), (WIDE > 0).astype(float)),
    "multinomial": (
        Multinomial(q=0.2, blocks=4),
        np.hstack([np.eye(4)[column] for column in np.random.default_rng(9).integers(4, size=(15, 14))]),
    ),
}


@pytest.mark.parametrize(("corruption", "X"), WIDE_CASES.values(), ids=WIDE_CASES.keys())
@pytest.mark.parametrize("l2", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
def test_the_dual_of_a_wide_problem_has_no_gradient(corruption, X, l2, fit_intercept):
    y = np.arange(14) % 3
    problem = Problem(sparse.csr_matrix(X), y, loss="quadratic", fit_intercept=fit_intercept)
    solution = problem.solve(corruption, l2)
    _, grad_coef, grad_intercept = problem.loss_gradient(corruption, l2, solution.coef, solution.intercept)
    np.testing.assert_allclose(grad_coef, 0, atol=1e-8)
    if fit_intercept:
        np.testing.assert_allclose(grad_intercept, 0, atol=1e-8)


@pytest.mark.parametrize("shape", [(40, 300), (300, 40)], ids=["wide", "tall"])
@pytest.mark.parametrize("corruption", [Blankout(0.5), Dropout(0.3), Poisson(), Gaussian(0.7)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
def test_conjugate_gradients_end_where_the_closed_form_is(shape, corruption, fit_intercept):
    X = sparse.random(*shape, density=0.2, random_state=4, format="csr")
    X.data = np.ceil(5 * X.data)
    problem = Problem(X, np.arange(shape[0]) % 3, loss="quadratic", fit_intercept=fit_intercept)
    direct, iterated = (problem.solve(corruption, 1e-3, method=method) for method in ("direct", "cg"))
    assert iterated.converged and "conjugate gradients" in iterated.message
    np.testing.assert_allclose(iterated.coef, direct.coef, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(iterated.intercept, direct.intercept, rtol=1e-6, atol=1e-7)


def test_a_grid_on_one_problem_equals_fresh_problems():
    """What is reused over (q, l2) and over losses' corruptions never leaks from one solve into the next."""
    y = np.arange(14) % 2
    problem = Problem(WIDE, y, loss="quadratic")
    for q in (0.0, 0.3, 0.9, 0.3):
        for l2 in (1e-4, 1.0):
            fresh = Problem(WIDE, y, loss="quadratic").solve(Blankout(q), l2)
            again = problem.solve(Blankout(q), l2)
            np.testing.assert_allclose(again.coef, fresh.coef, rtol=1e-10, atol=1e-12)
    for corruption in (Poisson(), Gaussian(1.0), Blankout(np.full(60, 0.3))):
        fresh = Problem(WIDE, y, loss="quadratic").solve(corruption, 1e-2)
        np.testing.assert_allclose(problem.solve(corruption, 1e-2).coef, fresh.coef, rtol=1e-10, atol=1e-12)


@EVERY_LOSS
@SOME_CASES
def test_a_subset_equals_a_fresh_problem_of_its_rows(loss: Loss, case, classes):
    X, labels = rows_of(case, 3)
    y = labels[classes]
    times = np.linspace(0.5, 2.0, len(y))
    rows = np.array([0, 3, 4, 7, 11, 12, 16])
    part = loss.problem(X, y, classes, sample_weight=times).subset(rows)
    fresh = loss.problem(X[rows], y[rows], classes, sample_weight=times[rows])
    rng = np.random.default_rng(0)
    outputs = 1 if classes == 2 else classes
    coef, intercept = rng.uniform(-0.5, 0.5, (outputs, X.shape[1])), rng.uniform(-1, 1, outputs)
    ours = part.loss_gradient(case.corruption, 0.1, coef, intercept)
    theirs = fresh.loss_gradient(case.corruption, 0.1, coef, intercept)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", CONVEX, ids=str)
def test_a_subset_is_solved_like_a_fresh_problem_of_its_rows(loss: Loss):
    case, rows = BY_NAME["blankout-counts"], np.array([0, 1, 3, 5])
    part = loss.problem(case.X, LABELS[3], 3).subset(rows).solve(case.corruption, 0.1, **TIGHT)
    fresh = loss.problem(case.X[rows], LABELS[3][rows], 3).solve(case.corruption, 0.1, **TIGHT)
    np.testing.assert_allclose(part.coef, fresh.coef, atol=1e-6)


def test_subsets_of_a_wide_quadratic_problem_share_the_gram_matrix_rightly():
    problem = Problem(sparse.csr_matrix(WIDE), np.arange(14) % 3, loss="quadratic")
    for rows in (np.arange(9), np.arange(5, 14), np.array([0, 13, 2, 7])):
        for corruption in (None, Blankout(0.5), Poisson()):
            part = problem.subset(rows).solve(corruption, 0.01)
            fresh = Problem(WIDE[rows], np.arange(14)[rows] % 3, loss="quadratic", n_classes=3)
            np.testing.assert_allclose(part.coef, fresh.solve(corruption, 0.01).coef, rtol=1e-8, atol=1e-10)


@EVERY_LOSS
@pytest.mark.parametrize("case", [BY_NAME["blankout"], BY_NAME["poisson-clip"]], ids=str)
def test_the_optimiser_reaches_a_stationary_point_and_reports_it(loss: Loss, case, classes):
    problem = loss.problem(case.X, LABELS[classes], classes)
    solution = problem.solve(case.corruption, 0.05, **TIGHT)
    value, grad_coef, grad_intercept = problem.loss_gradient(
        case.corruption, 0.05, solution.coef, solution.intercept
    )
    assert solution.objective == pytest.approx(value, rel=1e-10)
    assert solution.converged
    assert solution.n_iter >= 0
    np.testing.assert_allclose(grad_coef, 0, atol=1e-5)
    np.testing.assert_allclose(grad_intercept, 0, atol=1e-5)


@pytest.mark.parametrize("loss", CONVEX, ids=str)
@pytest.mark.parametrize("name", ["blankout", "poisson", "mixed-sequence"])
@BINARY_AND_THREE
def test_the_solution_is_the_minimum_of_the_reference_loss(loss: Loss, name, classes):
    """The brute-force loss is flat there; these losses are convex, so no other point lies lower."""
    case, y, l2 = BY_NAME[name], LABELS[classes], 0.1
    solution = loss.problem(case.X, y, classes).solve(case.corruption, l2, **TIGHT)
    reference = reference_objective(loss, case, y, l2)
    ours = np.column_stack([solution.coef, solution.intercept])
    assert reference(ours) == pytest.approx(solution.objective, rel=1e-9)
    np.testing.assert_allclose(ref.central_difference(reference, ours, step=1e-4), 0, atol=1e-5)


@pytest.mark.parametrize("loss", CONVEX, ids=str)
def test_no_other_optimiser_finds_a_lower_reference_loss(loss: Loss):
    """scipy's L-BFGS with numerical gradients, on the brute-force loss, ends where the core ends."""
    case, y, l2 = BY_NAME["blankout"], LABELS[2], 0.1
    solution = loss.problem(case.X, y, 2).solve(case.corruption, l2, **TIGHT)
    reference = reference_objective(loss, case, y, l2)
    found = minimize(
        lambda theta: reference(theta[None, :]), np.zeros(case.X.shape[1] + 1), method="L-BFGS-B"
    )
    assert found.success
    assert solution.objective == pytest.approx(found.fun, rel=1e-7)


def reference_objective(loss: Loss, case, y, l2):
    """The brute-force objective as a function of the rows (coef, intercept)."""
    laws = case.laws

    def objective(theta):
        coef, intercept = theta[:, :-1], theta[:, -1]
        return ref.objective(loss.value(laws, y, coef, intercept), coef, l2)

    return objective


@pytest.mark.parametrize("loss", CONVEX, ids=str)
@BINARY_AND_THREE
def test_a_warm_start_reaches_the_same_optimum(loss: Loss, classes):
    case = BY_NAME["blankout-counts"]
    problem = loss.problem(case.X, LABELS[classes], classes)
    cold = problem.solve(Blankout(0.5), 0.01, **TIGHT)
    near = problem.solve(Blankout(0.4), 0.02, **TIGHT)
    warm = problem.solve(Blankout(0.5), 0.01, start=near, **TIGHT)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-10)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-5)


def test_starting_at_the_solution_needs_next_to_no_iterations():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    y = (X @ rng.normal(size=20) + rng.normal(size=200) > 0).astype(int)
    problem = Problem(X, y, loss="logistic")
    cold = problem.solve(Blankout(0.5), 1e-3)
    again = problem.solve(Blankout(0.5), 1e-3, start=cold)
    assert again.n_iter <= 1 < cold.n_iter


def test_an_exhausted_budget_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 30))
    y = (X[:, 0] > 0).astype(int)
    solution = Problem(X, y, loss="logistic").solve(None, 1e-6, max_iter=2, tol=1e-12)
    assert not solution.converged
    assert solution.n_iter <= 2
    assert solution.message


@BINARY_AND_THREE
def test_decisions_and_predictions_use_the_clean_features(classes):
    case = BY_NAME["dropout"]
    solution = Problem(case.X, LABELS[classes]).solve(case.corruption, 0.1)
    scores = case.X @ solution.coef.T + solution.intercept
    for X in (case.X, sparse.csr_matrix(case.X)):
        np.testing.assert_allclose(solution.decision(X), scores[:, 0] if classes == 2 else scores, atol=1e-12)
        codes = (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
        np.testing.assert_array_equal(solution.predict(X), codes)


def test_a_single_class_is_refused():
    with pytest.raises(ValueError, match="class"):
        Problem(BY_NAME["blankout"].X, np.zeros(6, dtype=int), loss="logistic").solve(Blankout(0.5), 0.1)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_real_targets_are_left_to_the_quadratic_loss(loss):
    with pytest.raises(ValueError, match="two classes"):
        Problem(BY_NAME["blankout"].X, np.linspace(0.0, 1.0, 6), loss=loss)


def test_every_family_of_the_case_list_is_solved_in_closed_form():
    """Guards the list: a family added to the cases is solved above, or this fails."""
    solved = {type(case.corruption).__name__ for case in CASES}
    assert solved >= {
        "Blankout",
        "Dropout",
        "Gaussian",
        "Laplace",
        "Poisson",
        "BitSwap",
        "Multinomial",
        "PerFeature",
    }


@pytest.mark.parametrize("corruption", [Blankout(0.5), Dropout(0.3), Poisson(), BitSwap(0.2)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
def test_the_preconditioner_is_the_diagonal_of_the_system(corruption, fit_intercept):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix((rng.random((30, 6)) < 0.4).astype(float))
    system = QuadraticSystem(X, rng.normal(size=(30, 2)), rng.dirichlet(np.ones(30)), fit_intercept)
    terms = Terms(system, corruption, 0.1)
    columns = terms.apply(np.eye(6))
    np.testing.assert_allclose(terms.column_squares + terms.R.diagonal(), np.diagonal(columns), rtol=1e-10)


def test_the_root_of_a_matrix_that_rounding_left_indefinite_is_that_of_its_pseudo_inverse():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    K = (vectors * [3.0, 2.0, 1.0, 1e-3, -1e-16, -1e-14]) @ vectors.T
    K = (K + K.T) / 2 - 1e-15 * np.eye(6)
    forward, back = inverse_root(K)
    expected = (vectors[:, :4] / [3.0, 2.0, 1.0, 1e-3]) @ vectors[:, :4].T
    np.testing.assert_allclose(back(forward(np.eye(6))), expected, rtol=1e-8, atol=1e-8)


def test_features_on_very_different_scales_cost_few_iterations_more():
    X = sparse.random(200, 50, density=0.3, random_state=4, format="csr")
    y = np.arange(200) % 2
    far = sparse.csr_matrix(X @ sparse.diags_array(np.logspace(-2, 3, 50)))
    plain, scaled = (
        Problem(matrix, y, loss="quadratic").solve(Blankout(0.5), 0.0, method="cg").n_iter
        for matrix in (X, far)
    )
    assert scaled <= plain + 5


@pytest.mark.parametrize("reusable", [True, False])
def test_the_coding_is_kept_for_subsets_only_where_they_are_wanted(reusable):
    X = sparse.random(40, 8, density=0.4, random_state=0, format="csr")
    problem = Problem(X, np.arange(40) % 2, reusable=reusable)
    problem.solve(Blankout(0.5), 0.1)
    assert bool(problem.codes._codes or problem.lifted_codes._codes) == reusable


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_a_weight_may_use_the_whole_domain_of_its_corruption(loss):
    """e^{-wx} / (1 - b^2 w^2) is least where x (1 - b^2 w^2) = 2 b^2 w, here beyond half of 1/b."""
    solution = Problem(np.array([[-40.0], [40.0]]), np.array([0, 1]), loss=loss).solve(
        Laplace(20.0), 0.0, tol=1e-9
    )
    assert solution.coef[0, 0] == pytest.approx((np.sqrt(5) - 1) / 40, rel=1e-5)


def test_conjugate_gradients_of_rows_leave_an_empty_column_alone():
    X = sparse.random(20, 60, density=0.3, random_state=1, format="lil")
    X[:, 7] = 0.0
    solution = Problem(sparse.csr_matrix(X), np.arange(20) % 2, loss="quadratic").solve(
        Poisson(), 0.0, method="cg"
    )
    assert solution.converged and np.isfinite(solution.coef).all()
    assert solution.coef[0, 7] == 0.0


@pytest.mark.parametrize(("rows", "message"), [(1024, "closed form"), (1025, "conjugate gradients")])
def test_iterations_begin_where_a_system_is_large(rows, message):
    X = sparse.random(rows, 1100, density=0.01, random_state=0, format="csr")
    X.data = np.ceil(3 * X.data)
    solution = Problem(X, np.arange(rows) % 2, loss="quadratic").solve(Blankout(0.5), 1e-2)
    assert solution.message.startswith(message)


def test_lbfgs_sees_features_of_very_different_scales_alike():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8))
    y = (X @ rng.normal(size=8) + rng.normal(size=150) > 0).astype(int)
    near, far = (
        Problem(X * scale, y).solve(Gaussian(1e-3), 1e-9, method="lbfgs").n_iter
        for scale in (1.0, np.logspace(-3, 3, 8))
    )
    assert far <= 2 * near


@pytest.mark.parametrize(
    ("loss", "method", "words"),
    [
        ("logistic", "direct", "method='direct' needs the quadratic loss"),
        ("quadratic", "newton", "method='newton' needs a loss other than the quadratic one"),
        ("logistic", "nowton", "method='nowton' is not known; give one of auto, direct, cg, newton, lbfgs"),
    ],
)
def test_a_solver_that_does_not_suit_is_refused_with_what_it_needs(loss, method, words):
    X, y = np.array([[1.0], [0.0], [2.0], [0.0]]), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match=re.escape(words)):
        Problem(X, y, loss=loss).solve(Blankout(q=0.5), 0.1, method=method)


def test_a_solver_without_the_second_derivatives_it_needs_names_another():
    X, y = np.array([[1.0], [0.0], [2.0], [0.0]]), np.array([0, 1, 2, 1])
    problem = Problem(X, y, surrogate="variational", shared_lambda=True)
    with pytest.raises(ValueError, match=r"needs second derivatives.*use 'lbfgs'"):
        problem.solve(Blankout(q=0.5), 0.1, method="newton")
