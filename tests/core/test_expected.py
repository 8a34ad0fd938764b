"""The expected logistic loss itself: against enumeration, at large weights, and what is predicted with it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout, Gaussian, Laplace, MCFClassifier, Poisson, Thinning
from mcf_cli.core.corruptions.elementwise import Linear
from mcf_cli.core.losses.expected import normal_softplus
from mcf_cli.core.prediction import expected_loss
from mcf_cli.core.problem import Problem
from scipy.integrate import quad
from scipy.special import expit

from tests.core import reference as ref
from tests.core.cases import CASES, LABELS, REALS, Case, weights
from tests.core.loss_cases import EVERY_CASE

FINITE = pytest.mark.parametrize("case", [case for case in CASES if case.finite], ids=str)


@FINITE
@pytest.mark.parametrize("scale", [0.01, 3.0, 40.0])
def test_the_exact_loss_is_the_mean_over_all_copies_at_any_size_of_the_weights(case: Case, scale: float):
    """A fixed step of the quadrature would be wrong at the largest."""
    coef, intercept = weights(case, 2, seed=3, scale=scale)
    expected = ref.enumerated("logistic", case.laws, LABELS[2], coef, intercept).mean()
    value, gradient, _ = Problem(case.X, LABELS[2], surrogate="exact").loss_gradient(
        case.corruption, 0.0, coef, intercept
    )
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert expected_loss(coef, intercept, case.X, LABELS[2], case.corruption) == pytest.approx(
        value, rel=1e-12
    )
    assert np.isfinite(gradient).all()


@EVERY_CASE
def test_the_exact_loss_is_below_every_bound(case: Case):
    coef, intercept = weights(case, 2, seed=4)
    exact, jensen, variational = (
        Problem(case.X, LABELS[2], surrogate=name).loss_gradient(case.corruption, 0.0, coef, intercept)[0]
        for name in ("exact", "jensen", "variational")
    )
    assert exact <= variational + 1e-10 <= jensen + 2e-10


def test_a_factor_that_vanishes_leaves_the_gradient_right():
    """Half of the mass at 0 and half at pi / t makes the characteristic function zero at t."""
    X, y, noise = np.array([[1.0, 2.0], [1.0, 0.5]]), np.array([0, 1]), Dropout(0.5)
    problem = Problem(X, y, surrogate="exact")
    for w in (1.0, 5.0, 20.0):
        coef, intercept = np.array([[w, -w]]), np.zeros(1)
        _, gradient, _ = problem.loss_gradient(noise, 0.0, coef, intercept)
        laws = [[ref.dropout(d, v, 0.5) for d, v in enumerate(x)] for x in X]
        numeric = ref.central_difference(
            lambda c, laws=laws: ref.enumerated("logistic", laws, y, c, np.zeros(1)).mean(), coef, 1e-3
        )
        np.testing.assert_allclose(gradient, numeric, atol=1e-9)


def test_scores_beyond_any_integral_give_an_upper_bound():
    X, y, laws = np.array([[1.0]]), np.array([0]), [[ref.dropout(0, 1.0, 0.5)]]
    for w in (3e4, 1e9, 1e100):
        coef, intercept = np.array([[w]]), np.zeros(1)
        value, gradient, _ = Problem(X, y, surrogate="exact", n_classes=2).loss_gradient(
            Dropout(0.5), 0.0, coef, intercept
        )
        expected = ref.enumerated("logistic", laws, y, coef, intercept)[0]
        assert expected <= value <= expected * (1 + 1e-3)
        assert gradient[0, 0] == pytest.approx(0.5, abs=1e-6)
    with pytest.raises(ValueError, match="too far to integrate"):
        expected_loss([1e100], 0.0, X, y, Dropout(0.5))


@pytest.mark.parametrize("mean", [-300.0, -40.0, -2.0, 0.0, 0.3, 60.0])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.99, 1.01, 5.0, 300.0])
def test_moments_of_a_normal_score(mean: float, spread: float):
    found = [values[0] for values in normal_softplus(np.array([mean]), np.array([spread**2]))]
    functions = [lambda z: np.logaddexp(0, z), expit, lambda z: expit(z) * expit(-z)]
    for value, function in zip(found, functions, strict=True):
        points = np.clip([-mean / max(spread, 1e-9)], -11, 11)  # where the functions turn

        def integrand(u, function=function):
            return np.exp(-(u**2) / 2) * function(mean + spread * u) / np.sqrt(2 * np.pi)

        expected = quad(integrand, -12, 12, epsabs=1e-13, limit=1000, points=points)[0]
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("corruption", [Gaussian(0.7), Gaussian(0.0), None], ids=str)
def test_a_score_that_is_normal_has_one_expected_loss(corruption):
    coef, intercept = np.array([[0.5, -2.0, 1.0, 0.3, 0.0]]), np.array([0.2])
    exact, normal = (
        Problem(REALS, LABELS[2], surrogate=name).loss_gradient(corruption, 0.1, coef, intercept)
        for name in ("exact", "gaussian")
    )
    for left, right in zip(exact, normal, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)


@pytest.mark.parametrize("surrogate", ["gaussian", "exact"])
@pytest.mark.parametrize(
    "corruption", [Blankout(0.5), Gaussian(1.0), Laplace(0.4), Poisson()], ids=lambda c: type(c).__name__
)
def test_fits_end_where_the_gradient_vanishes_and_nothing_beats_them(surrogate, corruption):
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (60, 4)).astype(float)
    y = (X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=60) > 0.5).astype(int)
    problem = Problem(sp.csr_matrix(X), y, surrogate=surrogate)
    solution = problem.solve(corruption, 1e-3, tol=1e-9)
    assert solution.converged
    _, grad_coef, grad_intercept = problem.loss_gradient(corruption, 1e-3, solution.coef, solution.intercept)
    assert max(np.abs(grad_coef).max(), np.abs(grad_intercept).max()) < 1e-6
    other = Problem(X, y, surrogate="jensen").solve(corruption, 1e-3, tol=1e-6)
    assert solution.objective < problem.loss_gradient(corruption, 1e-3, other.coef, other.intercept)[0]


@FINITE
def test_probabilities_are_the_mean_over_all_copies(case: Case):
    model = MCFClassifier(corruption=case.corruption, l2=0.01).fit(case.X, LABELS[2])
    expected = []
    for law in case.laws:
        share, copies = ref.corrupted_copies(law)
        expected.append(share @ expit(copies @ model.coef_[0] + model.intercept_[0]))
    for X in (case.X, sp.csr_matrix(case.X)):
        found = model.predict_proba(X, marginalize=True, method="exact")
        np.testing.assert_allclose(found[:, 1], expected, atol=1e-10)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_probabilities_of_many_words_are_those_of_a_large_sample():
    rng = np.random.default_rng(1)
    X = sp.random(40, 300, density=0.2, random_state=2, format="csr")
    model = MCFClassifier(corruption=Blankout(0.5), l2=1e-3).fit(X, rng.integers(0, 2, 40))
    exact = model.predict_proba(X, marginalize=True)
    np.testing.assert_array_equal(exact, model.predict_proba(X, marginalize=True, random_state=1))
    sample = model.predict_proba(X, marginalize=True, method="sample", n_samples=4000)
    np.testing.assert_allclose(sample, exact, atol=0.03)


class Unknown(Linear):
    """A corruption without a characteristic function."""

    def draw(self, X, rng):
        return X


def test_what_cannot_be_integrated_is_said():
    with pytest.raises(ValueError, match="does not support Unknown"):
        MCFClassifier(surrogate="exact", corruption=Unknown(), l2=0.1).fit(REALS, LABELS[2])
    for surrogate in ("exact", "gaussian"):
        with pytest.raises(ValueError, match=r"Only binary .* y has 3 classes"):
            MCFClassifier(surrogate=surrogate).fit(REALS, LABELS[3])
    model = MCFClassifier(corruption=Unknown(), l2=0.1).fit(REALS, LABELS[2])
    with pytest.warns(UserWarning, match="Unknown has no characteristic function .* of 2 corrupted copies"):
        sampled = model.predict_proba(REALS, marginalize=True, n_samples=2)
    np.testing.assert_allclose(sampled, model.predict_proba(REALS))


def counts_and_model(corruption, n_classes=2, **options):
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (60, 14)).astype(float)
    return X, MCFClassifier(corruption=corruption, l2=1e-3, **options).fit(X, np.arange(60) % n_classes)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("far", [1e3, 1e7])
def test_a_row_has_its_own_probability_whatever_its_neighbours(container, far):
    """A single entry of 1e7 once had all rows sampled, without a word."""
    X, model = counts_and_model(Blankout(0.5))
    alone = model.predict_proba(container(X), marginalize=True, method="exact")
    spoilt = X.copy()
    spoilt[7, 3] = far
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.predict_proba(container(spoilt), marginalize=True)
        own = model.predict_proba(container(spoilt[7:8]), marginalize=True)
    np.testing.assert_allclose(np.delete(found, 7, 0), np.delete(alone, 7, 0), rtol=0, atol=1e-11)
    np.testing.assert_allclose(found[7:8], own, rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", ["auto", "sample", "bound"])
def test_neighbours_do_not_matter_with_three_classes(method):
    X, model = counts_and_model(Dropout(0.5), 3)
    X[::2, 5:] = 0.0  # some rows are enumerated, the others sampled
    options = {"marginalize": True, "method": method, "n_samples": 5}
    whole = model.predict_proba(X, **options)
    for row in (0, 1, 7):
        np.testing.assert_allclose(model.predict_proba(X[[row]], **options)[0], whole[row], atol=1e-12)


def test_a_score_too_far_to_integrate_over_is_sampled_with_a_warning_or_refused():
    X, model = counts_and_model(Blankout(0.5))
    X[7, 3] = 1e7
    with pytest.warns(UserWarning, match=r"scores of 1 rows \(first: row 7\) reach too far .* 200 corrupted"):
        model.predict_proba(X, marginalize=True)
    with pytest.raises(ValueError, match="reach too far to integrate over") as refused:
        model.predict_proba(X, marginalize=True, method="exact")
    assert "classes" not in str(refused.value)


@pytest.mark.parametrize("corruption", [Poisson(), Thinning(0.5)], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_score_far_on_one_side_needs_no_sample(corruption, sign):
    X, model = counts_and_model(corruption)
    column = int(np.argmax(sign * model.coef_[0]))
    X[7, column] = 1e8
    found = model.predict_proba(X, marginalize=True, method="exact")
    np.testing.assert_allclose(found[7], [0, 1] if sign > 0 else [1, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5, True, None])
@pytest.mark.parametrize("method", ["auto", "sample"])
def test_a_number_of_samples_is_one_or_more(n_samples, method):
    X, model = counts_and_model(Dropout(0.5), 3)
    with pytest.raises(ValueError, match="n_samples must be a whole number, at least 1"):
        model.predict_proba(X, marginalize=True, method=method, n_samples=n_samples)


@pytest.mark.parametrize(
    "arguments",
    [
        ([1.0, 2.0], 0.0, REALS, LABELS[2]),
        (np.ones(5), [0.0, 1.0], REALS, LABELS[2]),
        (np.ones(5), 0.0, REALS, LABELS[2][:3]),
        (np.ones(5), 0.0, REALS, LABELS[3]),
    ],
)
def test_a_loss_of_what_does_not_fit_is_refused(arguments):
    with pytest.raises(ValueError, match="expected_loss takes"):
        expected_loss(*arguments, Blankout(0.5))
