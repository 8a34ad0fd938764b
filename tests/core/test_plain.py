"""Without corruption the models are the plain ones that scikit-learn fits; Gaussian quadratic is ridge."""

import numpy as np
import pytest
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, PerFeature, Poisson
from mcf_cli.core.problem import Problem
from scipy import sparse
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

L2 = 0.01
TIGHT = {"max_iter": 20000, "tol": 1e-9}
RNG = np.random.default_rng(5)
REALS = RNG.normal(size=(30, 4))
BITS = (RNG.random((30, 4)) < 0.5).astype(float)
ONE_HOT = np.hstack([np.eye(2)[RNG.integers(2, size=30)] for _ in range(2)])
NOTHING = {
    "blankout": (Blankout(0.0), REALS),
    "dropout": (Dropout(0.0), REALS),
    "gaussian": (Gaussian(0.0), REALS),
    "laplace": (Laplace(0.0), REALS),
    "bitswap": (BitSwap(0.0), BITS),
    "multinomial": (Multinomial(q=0.0, blocks=2), ONE_HOT),
    "identity-confusion": (Multinomial(blocks=2, confusion=np.eye(2)), ONE_HOT),
    "mixed": (PerFeature([([0, 1], Blankout(0.0)), ([3], Gaussian(0.0))]), REALS),
}
OPTIONS = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen-pairwise": {"multiclass": "pairwise"},
    "jensen-shared": {"multiclass": "shared"},
    "variational": {"surrogate": "variational"},
    "quadratic-approximation": {"surrogate": "quadratic"},
}
LOGISTIC = {name: options for name, options in OPTIONS.items() if "loss" not in options}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize(("corruption", "X"), NOTHING.values(), ids=NOTHING.keys())
@pytest.mark.parametrize("classes", [2, 3])
def test_no_noise_equals_the_plain_model(options, corruption, X, classes):
    rng = np.random.default_rng(1)
    outputs = 1 if classes == 2 else classes
    problem = Problem(X, np.arange(30) % classes, n_classes=classes, **options)
    coef, intercept = rng.normal(size=(outputs, 4)), rng.normal(size=outputs)
    noiseless = problem.loss_gradient(corruption, L2, coef, intercept)
    plain = problem.loss_gradient(None, L2, coef, intercept)
    for left, right in zip(noiseless, plain, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", LOGISTIC.values(), ids=LOGISTIC.keys())
@pytest.mark.parametrize("classes", [2, 3])
def test_all_logistic_variants_meet_without_corruption(options, classes):
    rng = np.random.default_rng(2)
    outputs = 1 if classes == 2 else classes
    coef, intercept = rng.normal(size=(outputs, 4)), rng.normal(size=outputs)
    y = np.arange(30) % classes
    value = Problem(REALS, y, **options).loss_gradient(None, L2, coef, intercept)[0]
    scores = REALS @ coef.T + intercept
    if classes == 2:
        scores = np.column_stack([np.zeros(30), scores[:, 0]])
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(30), y]
    assert value == pytest.approx(losses.mean() + L2 * np.sum(coef**2), rel=1e-12)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("l2", [1e-3, 1e-1])
def test_plain_logistic_equals_scikit_learn_binary(container, l2):
    X, y = make_classification(200, 8, flip_y=0.2, random_state=0)
    ours = Problem(container(X), y, loss="logistic").solve(None, l2, **TIGHT)
    theirs = LogisticRegression(C=1 / (2 * len(y) * l2), tol=1e-10, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.coef, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
@pytest.mark.parametrize("l2", [1e-3, 1e-1])
def test_plain_logistic_equals_scikit_learn_multinomial(multiclass, l2):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = Problem(X, y, loss="logistic", multiclass=multiclass).solve(None, l2, **TIGHT)
    theirs = LogisticRegression(C=1 / (2 * len(y) * l2), tol=1e-10, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.coef, theirs.coef_, atol=1e-5)
    # A common shift of the biases changes nothing, so only their differences are defined.
    np.testing.assert_allclose(
        ours.intercept - ours.intercept.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=1e-5
    )


@pytest.mark.parametrize("shape", [(40, 6), (10, 25)], ids=["N>D", "N<D"])
@pytest.mark.parametrize(
    ("corruption", "variance"),
    [(Gaussian(0.7), 0.49), (Laplace(0.5), 0.5), (None, 0.0)],
    ids=["gaussian", "laplace", "none"],
)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
def test_quadratic_with_constant_variance_is_ridge(shape, corruption, variance, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape) + 1.0, rng.normal(size=shape[0])
    ours = Problem(X, y, loss="quadratic", fit_intercept=fit_intercept).solve(corruption, L2)
    theirs = Ridge(alpha=len(y) * (variance + L2), fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef[0], theirs.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 6), (10, 25)], ids=["N>D", "N<D"])
def test_plain_quadratic_without_l2_is_the_least_squares_solution_of_smallest_norm(shape):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape) + 1.0, rng.normal(size=shape[0])
    ours = Problem(X, y, loss="quadratic").solve(None, 0.0)
    theirs = LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef[0], theirs.coef_, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, rtol=1e-7, atol=1e-8)


def test_without_an_intercept_the_intercept_stays_zero():
    y = np.arange(30) % 2
    for options in OPTIONS.values():
        solution = Problem(REALS + 1.0, y, fit_intercept=False, **options).solve(Blankout(0.3), L2)
        np.testing.assert_array_equal(solution.intercept, 0)


LAPLACE_PROBLEMS = {
    "exponential": ({"loss": "exponential"}, 2),
    "exponential-3": ({"loss": "exponential"}, 3),
    "jensen": ({}, 2),
    "jensen-pairwise": ({"multiclass": "pairwise"}, 3),
    "jensen-shared": ({"multiclass": "shared"}, 3),
    "variational": ({"surrogate": "variational"}, 2),
    "variational-pairwise": ({"surrogate": "variational", "multiclass": "pairwise"}, 3),
}


def log_mgf_arguments(options, coef):
    """The t at which Laplace's log-MGF is taken, (count, D)."""
    classes = len(coef)
    if classes == 1:
        return coef
    if options.get("loss") == "exponential":
        code = np.where(np.eye(classes, dtype=bool), 1.0, -1.0 / (classes - 1))
        return code @ coef
    if options.get("multiclass") == "shared":
        return coef
    return (coef[:, None, :] - coef[None, :, :]).reshape(-1, coef.shape[1])


@pytest.mark.parametrize(("options", "classes"), LAPLACE_PROBLEMS.values(), ids=LAPLACE_PROBLEMS.keys())
@pytest.mark.parametrize("scale", [0.5, np.array([0.1, 2.0, 0.7, 5.0])], ids=["scalar", "per-feature"])
def test_laplace_stays_inside_its_domain(options, classes, scale):
    """Separable data pull the weights outwards; |t| < 1 / scale must still hold at the solution."""
    X = REALS.copy()
    y = np.digitize(X[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    X[:, 0] *= 20
    solution = Problem(X, y, **options).solve(Laplace(scale), 0.0)
    arguments = np.abs(log_mgf_arguments(options, solution.coef))
    assert np.isfinite(solution.objective)
    assert np.all(arguments * np.broadcast_to(scale, 4) < 1)
    start = Problem(X, y, **options).loss_gradient(
        Laplace(scale), 0.0, np.zeros_like(solution.coef), np.zeros(len(solution.coef))
    )[0]
    assert solution.objective < start


def test_poisson_leaves_absent_words_alone():
    """A word that never occurs has variance zero under Poisson, and no weight once l2 is positive."""
    X = np.column_stack([RNG.poisson(2.0, 30), np.zeros(30)]).astype(float)
    for options in OPTIONS.values():
        solution = Problem(X, np.arange(30) % 2, **options).solve(Poisson(), L2)
        assert np.abs(solution.coef[0, 1]) < 1e-12
