"""Nothing overflows or warns: huge weights, scores and counts, and blankout levels close to one."""

import warnings

import numpy as np
import pytest
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, PerFeature, Poisson
from mcf_cli.core.problem import Problem
from scipy import sparse

from tests.core.cases import LABELS

RNG = np.random.default_rng(11)
REALS = RNG.normal(size=(6, 6)) * 10.0 ** RNG.integers(-3, 4, size=(6, 6))
COUNTS = np.floor(10.0 ** RNG.uniform(0, 6, size=(6, 6))) * (RNG.random((6, 6)) < 0.7)
COUNTS[0, 0] = 1e6
BITS = (COUNTS > 0).astype(float)
ONE_HOT = np.hstack([np.eye(3)[RNG.integers(3, size=6)] for _ in range(2)])

LOSSES = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen-pairwise": {"multiclass": "pairwise"},
    "jensen-shared": {"multiclass": "shared"},
    "variational-pairwise": {"surrogate": "variational", "multiclass": "pairwise"},
    "variational-shared": {"surrogate": "variational", "multiclass": "shared"},
    "variational-one-lambda": {"surrogate": "variational", "shared_lambda": True},
    "quadratic-approximation": {"surrogate": "quadratic"},
}
EXTREMES = {
    "none": (None, REALS),
    "blankout-0.999": (Blankout(0.999), REALS),
    "blankout-0.999-counts": (Blankout(0.999), COUNTS),
    "blankout-tiny": (Blankout(1e-12), COUNTS),
    "dropout-0.999": (Dropout(0.999), COUNTS),
    "gaussian": (Gaussian(1.0), REALS),
    "gaussian-wide": (Gaussian(100.0), REALS),
    "poisson": (Poisson(), COUNTS),
    "poisson-clip": (Poisson(clip=1e3), COUNTS),
    "bitswap-0.999": (BitSwap(0.999), BITS),
    "multinomial-0.999": (Multinomial(q=0.999, blocks=3), ONE_HOT),
    "mixed": (PerFeature([([0, 1], Blankout(0.999)), ([2, 3], Poisson()), ([4], Gaussian(10.0))]), COUNTS),
}


def evaluate(options, corruption, X, y, classes, coef, intercept):
    with np.errstate(over="raise", divide="raise", invalid="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        return Problem(X, y, n_classes=classes, **options).loss_gradient(corruption, 1e-3, coef, intercept)


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize(("corruption", "X"), EXTREMES.values(), ids=EXTREMES.keys())
@pytest.mark.parametrize("size", [1.0, 1e2, 1e5], ids=lambda size: f"w{size:g}")
def test_value_and_gradient_stay_finite_and_silent(options, corruption, X, size):
    rng = np.random.default_rng(3)
    for classes in (2, 3):
        outputs = 1 if classes == 2 else classes
        coef, intercept = size * rng.normal(size=(outputs, X.shape[1])), size * rng.normal(size=outputs)
        data = X if classes == 2 else sparse.csr_matrix(X)
        value, grad_coef, grad_intercept = evaluate(
            options, corruption, data, LABELS[classes], classes, coef, intercept
        )
        assert np.isfinite(value)
        assert np.all(np.isfinite(grad_coef))
        assert np.all(np.isfinite(grad_intercept))


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
def test_laplace_stays_finite_close_to_its_edge(options):
    """Pairs of weights that differ by almost 1 / scale."""
    scale = 0.5
    for classes in (2, 3):
        coef = np.zeros((1 if classes == 2 else classes, 6))
        coef[0] = (1 - 1e-9) / scale
        args = (np.asarray(REALS), LABELS[classes], classes, coef, np.zeros(len(coef)))
        value, grad_coef, _ = evaluate(options, Laplace(scale), *args)
        assert np.isfinite(value)
        assert np.all(np.isfinite(grad_coef))


@pytest.mark.parametrize(
    "corruption", [None, Blankout(0.999), Dropout(0.5)], ids=["none", "blankout", "dropout"]
)
def test_a_score_of_1e5_on_the_wrong_side_costs_1e5(corruption):
    """The logistic loss is linear far out: its value there is the score that the kept feature gives."""
    X, y = np.array([[1.0], [1.0]]), np.array([0, 1])
    value, gradient, _ = evaluate({}, corruption, X, y, 2, np.array([[1e5]]), np.zeros(1))
    kept = 1.0 if corruption is None else 1.0 - corruption.q
    reached = 1e5 / kept if isinstance(corruption, Blankout) else 1e5
    # The right side costs log(1 + q), for the feature may be lost; the wrong side reached + log kept.
    right_side = np.log1p(0.0 if corruption is None else corruption.q)
    expected = (reached + np.log(kept) + right_side) / 2 + 1e-3 * 1e10
    assert value == pytest.approx(expected, rel=1e-12)
    slope = reached / 1e5 / 2 + 2e-3 * 1e5
    assert gradient[0, 0] == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize(
    ("corruption", "log_loss"),
    [
        (None, lambda w: 2 * w),
        (Dropout(0.25), lambda w: np.logaddexp(np.log(0.25), np.log(0.75) + 2 * w)),
        (Gaussian(1.0), lambda w: 2 * w + w**2 / 2),
        (Poisson(), lambda w: 2 * np.expm1(w)),
    ],
    ids=["none", "dropout", "gaussian", "poisson"],
)
def test_exponential_loss_is_exact_up_to_exponent_200_and_convex_beyond(corruption, log_loss):
    """One example on the wrong side; past exponent 200 the loss goes on without a kink and keeps rising."""
    X, y = np.array([[2.0]]), np.array([0])

    def loss(w):
        value, gradient, _ = evaluate(
            {"loss": "exponential"}, corruption, X, y, 2, np.array([[w]]), np.zeros(1)
        )
        return value - 1e-3 * w**2, gradient[0, 0] - 2e-3 * w

    sizes = np.concatenate([np.linspace(0.1, 5, 50), np.linspace(5.5, 300, 100)])
    values, slopes = np.array([loss(w) for w in sizes]).T
    exact = np.array([log_loss(w) < 199 for w in sizes])
    np.testing.assert_allclose(values[exact], np.exp([log_loss(w) for w in sizes[exact]]), rtol=1e-9)
    assert np.all(np.diff(values) > 0)
    assert np.all(np.diff(slopes) >= -1e-9 * slopes[:-1])


def test_a_fit_of_huge_counts_is_silent():
    with np.errstate(over="raise", divide="raise", invalid="raise"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for options in LOSSES.values():
            for corruption in (Blankout(0.999), Poisson()):
                solution = Problem(COUNTS, LABELS[2], **options).solve(corruption, 1e-3, max_iter=15)
                assert np.all(np.isfinite(solution.coef))
                assert np.isfinite(solution.objective)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("corruption", [None, Gaussian(0.3), Laplace(0.1), Blankout([0.0, 0.4])], ids=str)
@pytest.mark.parametrize(
    "options", [options for name, options in LOSSES.items() if name != "quadratic"], ids=str
)
def test_an_offset_of_a_column_is_one_of_the_biases(options, corruption, container):
    """1e8 leaves the values their last eight digits."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(60, 2)) * 1024) / 1024  # exact after the offset, too
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=60), [-0.4, 0.4])
    offset = np.array([1e8, 0.0])
    near = Problem(X, y, **options).solve(corruption, 0.01, tol=1e-8)
    problem = Problem(container(X + offset), y, **options)
    far = problem.solve(corruption, 0.01, tol=1e-8)
    assert near.converged and far.converged and np.abs(near.coef).max() > 0.1
    np.testing.assert_allclose(far.coef, near.coef, atol=1e-6)
    assert far.objective == pytest.approx(near.objective, rel=1e-8)
    scores = far.decision(X + offset) - near.decision(X)
    np.testing.assert_allclose(scores - scores[:, :1], 0.0, atol=1e-5)  # a shift of all classes says nothing
    again = problem.solve(corruption, 0.01, tol=1e-8, start=far)
    assert again.n_iter <= 2 and again.objective == pytest.approx(far.objective, rel=1e-8)


def test_a_row_that_lacks_a_column_does_not_hide_its_offset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)
    X[0] = -1e8, 0.0, 0.0
    near, far = (
        Problem(X + offset, y).solve(Gaussian(0.1), 1e-3, tol=1e-8) for offset in ([0, 0, 0], [1e8, 0, 0])
    )
    assert near.converged and far.converged
    assert far.objective == pytest.approx(near.objective, rel=1e-8)
