"""The references hold against each other and against adaptive quadrature before they judge the core."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm, uniform

from tests.core import reference as ref

X = np.array([0.7, 0.0, -1.2, 0.4])
COEF = np.array([[0.6, -0.4, 0.3, -0.2], [-0.1, 0.5, 0.2, 0.3], [0.2, 0.1, -0.6, 0.4]])
INTERCEPT = np.array([0.3, -0.2, 0.1])
FINITE_LAWS = {
    "blankout": [ref.blankout(d, x, 0.3) for d, x in enumerate(X)],
    "dropout": [ref.dropout(d, x, 0.7) for d, x in enumerate(X)],
    "bitswap": [ref.bit_swap(d, x, 0.2) for d, x in enumerate([1.0, 0.0, 0.0, 1.0])],
    "multinomial": [
        ref.multinomial([0, 2, 3], np.array([0, 1, 0]), ref.uniform_confusion(3, 0.4)),
        ref.blankout(1, 2.0, 0.6),
    ],
    "groups": [
        ref.group_loss([0, 2], X[[0, 2]], 0.3, 1.5),
        ref.thinning(1, 3.0, 0.4),
        ref.dropout(3, 0.4, 0.1),
    ],
}


@pytest.fixture(params=FINITE_LAWS.values(), ids=FINITE_LAWS.keys())
def law(request):
    return request.param


def test_probabilities_of_all_copies_sum_to_one(law):
    probabilities, _ = ref.corrupted_copies(law)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-14)


def test_moments_equal_those_of_all_copies(law):
    probabilities, copies = ref.corrupted_copies(law)
    mean = probabilities @ copies
    centred = copies - mean
    np.testing.assert_allclose(ref.mean(law), mean, atol=1e-13)
    np.testing.assert_allclose(
        ref.covariance(law), centred.T @ (probabilities[:, None] * centred), atol=1e-13
    )


def test_mgf_product_equals_all_copies(law):
    probabilities, copies = ref.corrupted_copies(law)
    t = COEF[0]
    assert np.exp(ref.log_mgf(law, t)) == pytest.approx(probabilities @ np.exp(copies @ t), rel=1e-13)


def test_mgf_gradient_equals_finite_differences(law):
    numeric = ref.central_difference(lambda t: ref.log_mgf(law, t), COEF[1], step=1e-3)
    np.testing.assert_allclose(ref.log_mgf_gradient(law, COEF[1]), numeric, atol=1e-10)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("label", [0, 1])
def test_closed_losses_equal_all_copies(law, outputs, label):
    y, coef, intercept = np.array([label]), COEF[:outputs], INTERCEPT[:outputs]
    targets = ref.one_vs_rest(y, max(2, outputs))
    quadratic = ref.quadratic([law], targets, coef, intercept)
    exponential = ref.exponential([law], y, coef, intercept)
    np.testing.assert_allclose(quadratic, ref.enumerated("quadratic", [law], y, coef, intercept), rtol=1e-12)
    np.testing.assert_allclose(
        exponential, ref.enumerated("exponential", [law], y, coef, intercept), rtol=1e-12
    )


@pytest.mark.parametrize("label", [0, 1])
def test_two_classes_are_one_weight_vector_of_differences(law, label):
    """Pairwise Jensen and variational with K = 2 are the binary forms at w_1 - w_0."""
    y, coef, intercept = np.array([label]), COEF[:2], INTERCEPT[:2]
    difference, bias = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    for bound in (ref.jensen, ref.variational):
        np.testing.assert_allclose(
            bound([law], y, coef, intercept), bound([law], y, difference, bias), rtol=1e-9
        )
    np.testing.assert_allclose(
        ref.quadratic_approximation([law], y, coef, intercept),
        ref.quadratic_approximation([law], y, difference, bias),
        rtol=1e-12,
    )


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
def test_variational_at_zero_is_jensen(law, multiclass):
    jensen = ref.jensen([law], np.array([1]), COEF, INTERCEPT, multiclass)[0]
    assert ref.variational_at(0.0, law, 1, COEF, INTERCEPT, multiclass) == pytest.approx(jensen, rel=1e-13)


def expectation(function, density):
    edges = [-40, -5, -3.6, 0.7, 5, 40]
    return sum(
        quad(lambda v: function(v) * density(v), a, b, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
        for a, b in pairwise(edges)
    )


@pytest.mark.parametrize(
    ("group", "density"),
    [
        (ref.gaussian(0, 0.7, 1.5), norm(0.7, 1.5).pdf),
        (ref.laplace(0, 0.7, 0.5), laplace(0.7, 0.5).pdf),
        (ref.uniform(0, 0.7, 4.3), uniform(-3.6, 8.6).pdf),
    ],
    ids=["gaussian", "laplace", "uniform"],
)
@pytest.mark.parametrize("t", [-1.2, 0.3, 1.1])
def test_quadrature_nodes_equal_adaptive_quadrature(group, density, t):
    mgf = expectation(lambda v: np.exp(t * v), density)
    assert np.exp(ref.log_mgf([group], np.array([t]))) == pytest.approx(mgf, rel=1e-10)
    assert ref.mean([group])[0] == pytest.approx(expectation(lambda v: v, density), abs=1e-10)
    variance = expectation(lambda v: (v - 0.7) ** 2, density)
    assert ref.covariance([group])[0, 0] == pytest.approx(variance, rel=1e-10)


def test_poisson_sum_is_complete():
    group = ref.poisson_noise(0, 6.5)
    assert group.probabilities.sum() == pytest.approx(1.0, abs=1e-14)
    assert ref.mean([group])[0] == pytest.approx(6.5, rel=1e-13)
    assert ref.covariance([group])[0, 0] == pytest.approx(6.5, rel=1e-12)
    assert ref.mean([ref.poisson_noise(0, 6.5, clip=2.0)])[0] == pytest.approx(2.0, rel=1e-13)


def test_quadratic_solution_is_a_stationary_point_of_the_reference_loss():
    rng = np.random.default_rng(0)
    laws = [[ref.blankout(d, x, 0.4) for d, x in enumerate(row)] for row in rng.normal(size=(7, 3))]
    targets = rng.normal(size=(7, 1))
    coef, intercept = ref.quadratic_solution(laws, targets, ridge=0.7)

    def total(theta):
        return ref.quadratic(laws, targets, theta[None, :3], theta[3:]).sum() + 0.7 * theta[:3] @ theta[:3]

    gradient = ref.central_difference(total, np.append(coef[0], intercept), step=1e-3)
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
