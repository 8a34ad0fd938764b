"""Every loss under every corruption equals brute force, and its gradient equals finite differences."""

import numpy as np
import pytest
from mcf_cli.core.problem import Problem
from scipy import sparse

from tests.core import reference as ref
from tests.core.cases import BY_NAME, CASES, LABELS, Case, weights
from tests.core.loss_cases import BINARY_AND_THREE, EVERY_CASE, EVERY_LOSS, SOME_CASES, Loss

L2 = 0.03


@EVERY_LOSS
@EVERY_CASE
def test_value_equals_brute_force(loss: Loss, case: Case, classes: int):
    y = LABELS[classes]
    coef, intercept = weights(case, classes)
    value, _, _ = loss.problem(case.X, y, classes).loss_gradient(case.corruption, L2, coef, intercept)
    expected = ref.objective(loss.value(case.laws, y, coef, intercept), coef, L2)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("loss", ["quadratic", "exponential"])
@pytest.mark.parametrize("case", [case for case in CASES if case.finite], ids=str)
@BINARY_AND_THREE
def test_exact_losses_equal_the_mean_over_all_corrupted_copies(loss: str, case: Case, classes: int):
    y = LABELS[classes]
    coef, intercept = weights(case, classes, seed=5)
    value, _, _ = Problem(case.X, y, loss=loss).loss_gradient(case.corruption, 0.0, coef, intercept)
    assert value == pytest.approx(ref.enumerated(loss, case.laws, y, coef, intercept).mean(), rel=1e-8)


@EVERY_LOSS
@EVERY_CASE
def test_gradient_equals_finite_differences(loss: Loss, case: Case, classes: int):
    problem = loss.problem(case.X, LABELS[classes], classes)
    coef, intercept = weights(case, classes, seed=1)
    _, grad_coef, grad_intercept = problem.loss_gradient(case.corruption, L2, coef, intercept)

    gradient = np.column_stack([grad_coef, grad_intercept])
    theta = np.column_stack([coef, intercept])

    def slope(direction):
        def value(step):
            moved = theta + step * direction
            return problem.loss_gradient(case.corruption, L2, moved[:, :-1], moved[:, -1])[0]

        return (value(1e-5) - value(-1e-5)) / 2e-5

    for direction in directions(loss, theta.shape):
        assert np.sum(gradient * direction) == pytest.approx(slope(direction), rel=1e-6, abs=1e-6)


def directions(loss: Loss, shape: tuple[int, int]) -> np.ndarray:
    """Every coordinate; for the variational bound, which searches for lambda each time, a mixture."""
    if loss.options.get("surrogate") == "variational":
        return np.random.default_rng(0).normal(size=(1, *shape))
    return np.eye(shape[0] * shape[1]).reshape(-1, *shape)


@EVERY_LOSS
@EVERY_CASE
def test_dense_and_sparse_input_give_the_same_numbers(loss: Loss, case: Case, classes: int):
    coef, intercept = weights(case, classes, seed=2)
    results = [
        loss.problem(X, LABELS[classes], classes).loss_gradient(case.corruption, L2, coef, intercept)
        for X in (case.X, sparse.csr_matrix(case.X))
    ]
    for dense, coded in zip(*results, strict=True):
        np.testing.assert_allclose(coded, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "container", [sparse.csc_matrix, sparse.coo_array, sparse.csr_array, np.asfortranarray]
)
def test_any_container_gives_the_same_numbers(container):
    case = BY_NAME["blankout"]
    coef, intercept = weights(case, 3)
    dense, other = (
        Problem(X, LABELS[3]).loss_gradient(case.corruption, L2, coef, intercept)
        for X in (case.X, container(case.X))
    )
    for left, right in zip(dense, other, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


@EVERY_LOSS
@SOME_CASES
def test_integer_weights_are_repeated_rows(loss: Loss, case: Case, classes: int):
    y, times = LABELS[classes], np.array([1, 3, 2, 1, 1, 4])
    coef, intercept = weights(case, classes, seed=3)
    weighted = loss.problem(case.X, y, classes, sample_weight=times.astype(float))
    repeated = loss.problem(np.repeat(case.X, times, axis=0), np.repeat(y, times), classes)
    ours = weighted.loss_gradient(case.corruption, L2, coef, intercept)
    theirs = repeated.loss_gradient(case.corruption, L2, coef, intercept)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
    expected = loss.value(case.laws, y, coef, intercept, sample_weight=times)
    assert ours[0] == pytest.approx(ref.objective(expected, coef, L2), rel=1e-8)


@EVERY_LOSS
def test_a_row_of_weight_zero_does_not_count(loss: Loss, classes: int):
    case, y = BY_NAME["blankout"], LABELS[classes]
    coef, intercept = weights(case, classes, seed=3)
    kept = np.array([1, 1, 1, 0, 1, 1.0])
    ours = loss.problem(case.X, y, classes, sample_weight=kept).loss_gradient(
        case.corruption, L2, coef, intercept
    )
    rows = kept > 0
    theirs = loss.problem(case.X[rows], y[rows], classes).loss_gradient(case.corruption, L2, coef, intercept)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@EVERY_LOSS
@SOME_CASES
def test_l2_adds_to_the_weights_and_never_to_the_bias(loss: Loss, case: Case, classes: int):
    problem = loss.problem(case.X, LABELS[classes], classes)
    coef, intercept = weights(case, classes, seed=4)
    value, grad_coef, grad_intercept = problem.loss_gradient(case.corruption, 0.0, coef, intercept)
    more = problem.loss_gradient(case.corruption, 0.7, coef, intercept)
    assert more[0] - value == pytest.approx(0.7 * np.sum(coef**2), rel=1e-9)
    np.testing.assert_allclose(more[1] - grad_coef, 1.4 * coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(more[2], grad_intercept)


@EVERY_CASE
def test_regression_targets(case: Case):
    """Quadratic loss with real targets: one output, any y."""
    targets = np.array([0.3, -2.0, 1.7, 0.0, 5.5, -0.4])
    coef, intercept = weights(case, 2, seed=6)
    problem = Problem(case.X, targets, loss="quadratic")
    value, grad_coef, grad_intercept = problem.loss_gradient(case.corruption, L2, coef, intercept)
    expected = ref.quadratic(case.laws, targets[:, None], coef, intercept)
    assert value == pytest.approx(ref.objective(expected, coef, L2), rel=1e-8)

    def reference(theta):
        values = ref.quadratic(case.laws, targets[:, None], theta[:, :-1], theta[:, -1])
        return ref.objective(values, theta[:, :-1], L2)

    numeric = ref.central_difference(reference, np.column_stack([coef, intercept]), step=1e-4)
    np.testing.assert_allclose(grad_coef, numeric[:, :-1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad_intercept, numeric[:, -1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
def test_weights_of_two_classes_agree_with_the_binary_form(multiclass: str):
    """A binary problem has one weight vector whatever `multiclass` says."""
    case = BY_NAME["blankout"]
    coef, intercept = weights(case, 2)
    problem = Problem(case.X, LABELS[2], loss="logistic", multiclass=multiclass)
    value, _, _ = problem.loss_gradient(case.corruption, 0.0, coef, intercept)
    assert value == pytest.approx(ref.jensen(case.laws, LABELS[2], coef, intercept).mean(), rel=1e-10)


@SOME_CASES
def test_pairwise_is_invariant_to_a_shift_of_all_classes(case: Case):
    problem = Problem(case.X, LABELS[3], loss="logistic", multiclass="pairwise")
    coef, intercept = weights(case, 3)
    shift = np.linspace(-1, 1, case.X.shape[1])
    first = problem.loss_gradient(case.corruption, 0.0, coef, intercept)
    second = problem.loss_gradient(case.corruption, 0.0, coef + shift, intercept + 2.5)
    for left, right in zip(first, second, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
