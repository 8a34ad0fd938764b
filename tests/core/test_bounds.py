"""On random problems bounds are bounds, tighter ones tighter, convex ones convex; and what is not, is not."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Multinomial
from mcf_cli.core.losses.variational import increasing_root
from mcf_cli.core.problem import Problem
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from tests.core import reference as ref

ROWS, COLUMNS = 4, 4


class RandomProblem:
    """A few rows, a corruption with finitely many copies, and weights, from one seed and a few numbers."""

    def __init__(self, family: str, q: float, classes: int, scale: float, seed: int):
        self.description = f"{family} q={q} classes={classes} scale={scale} seed={seed}"
        rng = np.random.default_rng(seed)
        self.y = rng.permutation(np.arange(ROWS) % classes)
        outputs = 1 if classes == 2 else classes
        self.classes, self.rng, self.scale = classes, rng, scale
        self.shape = (outputs, COLUMNS)
        self.coef, self.intercept = self.draw_weights()
        self.corruption, self.X, law = FAMILIES[family](rng, q)
        self.laws = [law(x) for x in self.X]

    def __repr__(self) -> str:
        return self.description

    def draw_weights(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scale * self.rng.normal(size=self.shape), self.rng.normal(size=self.shape[0])

    def problem(self, **options) -> Problem:
        return Problem(self.X, self.y, loss="logistic", n_classes=self.classes, **options)

    def value(self, **options) -> float:
        return self.problem(**options).loss_gradient(self.corruption, 0.0, self.coef, self.intercept)[0]

    def expected_loss(self) -> float:
        return float(ref.enumerated("logistic", self.laws, self.y, self.coef, self.intercept).mean())


def real_features(rng, q, corruption, noise):
    X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.8)
    return corruption(q), X, lambda x: [noise(d, v, q) for d, v in enumerate(x)]


def bits(rng, q):
    X = (rng.random((ROWS, COLUMNS)) < 0.5).astype(float)
    return BitSwap(q), X, lambda x: [ref.bit_swap(d, v, q) for d, v in enumerate(x)]


def one_hot_blocks(rng, q):
    X = np.hstack([np.eye(2)[rng.integers(2, size=ROWS)] for _ in range(2)])
    confusion = ref.uniform_confusion(2, q)
    law = lambda x: [ref.multinomial([d, d + 1], x[d : d + 2], confusion) for d in (0, 2)]  # noqa: E731
    return Multinomial(q=q, blocks=2), X, law


FAMILIES = {
    "blankout": lambda rng, q: real_features(rng, q, Blankout, ref.blankout),
    "dropout": lambda rng, q: real_features(rng, q, Dropout, ref.dropout),
    "bitswap": bits,
    "multinomial": one_hot_blocks,
}
PROBLEMS = st.builds(
    RandomProblem,
    family=st.sampled_from(sorted(FAMILIES)),
    q=st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]),
    classes=st.sampled_from([2, 3, 4]),
    scale=st.sampled_from([0.01, 0.3, 1.0, 3.0, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
SLACK = 1e-9
MULTICLASS = pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
THOROUGH = settings(max_examples=600, deadline=None, derandomize=True, database=None)
BRIEF = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def allowance(*values: float) -> float:
    return SLACK * (1 + max(abs(value) for value in values))


@MULTICLASS
@THOROUGH
@given(random=PROBLEMS)
def test_jensen_is_never_below_the_expected_logistic_loss(multiclass, random):
    bound, expected = random.value(multiclass=multiclass), random.expected_loss()
    assert bound >= expected - allowance(bound)


@MULTICLASS
@BRIEF
@given(random=PROBLEMS)
def test_variational_lies_between_the_expected_loss_and_jensen(multiclass, random):
    """And a lambda per example is at least as tight as one for all."""
    jensen = random.value(multiclass=multiclass)
    own = random.value(multiclass=multiclass, surrogate="variational")
    one = random.value(multiclass=multiclass, surrogate="variational", shared_lambda=True)
    slack = allowance(jensen)
    assert random.expected_loss() - slack <= own <= one + slack
    assert one <= jensen + slack


@MULTICLASS
@THOROUGH
@given(random=PROBLEMS, fraction=st.floats(0, 1))
def test_jensen_is_convex_along_chords(multiclass, random, fraction):
    problem = random.problem(multiclass=multiclass)
    other, other_intercept = random.draw_weights()

    def along(step):
        coef = (1 - step) * random.coef + step * other
        intercept = (1 - step) * random.intercept + step * other_intercept
        return problem.loss_gradient(random.corruption, 0.0, coef, intercept)[0]

    first, second = along(0.0), along(1.0)
    chord = (1 - fraction) * first + fraction * second
    assert along(fraction) <= chord + allowance(first, second)


# What the forms do not promise --------------------------------------------------------------------------


def one_feature(corruption, loss_options, w, x=1.0):
    problem = Problem(np.array([[x], [x]]), np.array([0, 1]), loss="logistic", **loss_options)
    return problem.loss_gradient(corruption, 0.0, np.array([[w]]), np.zeros(1))[0]


def test_the_quadratic_approximation_is_not_a_bound():
    """One feature, blankout at q = 0.5, w = 4: the approximation lies below the enumerated loss."""
    value = one_feature(Blankout(0.5), {"surrogate": "quadratic"}, 4.0)
    laws = [[ref.blankout(0, 1.0, 0.5)]] * 2
    expected = ref.enumerated("logistic", laws, [0, 1], np.array([[4.0]]), np.zeros(1)).mean()
    assert value < expected - 0.1


def test_the_quadratic_approximation_is_not_convex():
    """Its regulariser p(1-p) w^2 rises and falls again, so a chord from w = 1.2 to w = 3.6 runs below it."""
    low, middle, high = (one_feature(Blankout(0.8), {"surrogate": "quadratic"}, w) for w in (1.2, 2.4, 3.6))
    assert middle > (low + high) / 2 + 0.1


def appendix_form(law, label, coef):
    """The appendix's multi-class formula: the log-MGF stands in the numerator too."""
    logits = np.array([ref.log_mgf(law, w) for w in coef])
    return logsumexp(logits) - logits[label]


def test_the_appendix_form_is_not_a_bound_but_ours_are():
    law, coef = [ref.dropout(0, 1.0, 0.5)], np.array([[3.0], [-3.0]])
    expected = ref.enumerated("logistic", [law], [0], coef, np.zeros(2))[0]
    assert appendix_form(law, 0, coef) < expected - 0.1
    for multiclass in ("pairwise", "shared"):
        assert ref.jensen([law], [0], coef, np.zeros(2), multiclass)[0] >= expected


def test_the_appendix_form_is_not_convex():
    law = [ref.dropout(0, 1.0, 0.5)]

    def value(w):
        return appendix_form(law, 0, np.array([[w], [0.0]]))

    assert value(-3.0) > (value(-6.0) + value(0.0)) / 2 + 0.05


def test_a_smooth_root_is_found_in_few_evaluations():
    """Bisection alone would take 24 for the same tolerance."""
    targets, calls = np.linspace(-0.2, 0.9, 50), []

    def function(lam):
        calls.append(lam)
        return np.expm1(lam) / np.expm1(1.0) - targets

    ends = function(np.zeros(50)), function(np.ones(50))
    root, _ = increasing_root(function, np.full(50, 0.5), ends[1] - ends[0], np.full(50, 1e-14))
    np.testing.assert_allclose(root, np.clip(np.log1p(targets * np.expm1(1.0)), 0.0, 1.0), atol=1e-9)
    assert len(calls) <= 10


@pytest.mark.parametrize("shared", [False, True], ids=["one-each", "one-for-all"])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("corruption", [Gaussian(0.1), Blankout(0.3), Blankout(0.9)], ids=repr)
def test_lambda_is_the_minimiser_at_any_weights(corruption, scale, shared):
    """Large weights make its derivative a step: flat, then steep. Sought from the roots at smaller weights, too."""
    for seed in (7, 8):
        rng = np.random.default_rng(seed)
        X, y = rng.poisson(1.0, (12, 5)).astype(float), np.arange(12) % 2
        coef, intercept = scale * rng.normal(size=(1, 5)), rng.normal(size=1)
        bound = variational_bound(corruption, X, 2.0 * y - 1.0, coef[0], intercept[0])
        objective = Problem(X, y, surrogate="variational", shared_lambda=shared)._objective(corruption, 0.0)
        for share in (0.01, 0.3, 1.0):
            value, _, _ = objective.loss_gradient(share * coef.T, share * intercept)
        rows = [slice(None)] if shared else [slice(n, n + 1) for n in range(12)]
        least = sum(lowest(bound, own) for own in rows) / 12
        assert value == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e9])
def test_a_step_is_found_whatever_the_slope_was_before(rate):
    """A root at 0.7 where the function jumps; a slope from elsewhere makes steps that are far too short or too long."""

    def function(lam):
        return np.tanh(1e5 * (lam - 0.7)) + 1e-3 * (lam - 0.7)

    root, _ = increasing_root(function, np.array([0.2, 0.9]), np.full(2, rate), np.full(2, 1e-12))
    np.testing.assert_allclose(root, 0.7, atol=1e-7)


def variational_bound(corruption, X, sign, w, b):
    def bound(lam, rows):
        ends = [
            corruption.log_mgf(np.outer(t * sign[rows], w), X[rows]).sum(axis=1) + t * sign[rows] * b
            for t in (lam, lam - 1.0)
        ]
        return np.logaddexp(*ends) - lam * sign[rows] * (corruption.mean(X[rows]) @ w + b)

    return bound


def lowest(bound, rows):
    """The minimum over lambda of a convex bound: where a grid has it, then between the neighbours."""
    grid = np.linspace(0.0, 1.0, 101)
    values = [bound(lam, rows).sum() for lam in grid]
    best = int(np.argmin(values))
    around = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    options = {"xatol": 1e-13}
    found = minimize_scalar(
        lambda lam: bound(lam, rows).sum(), bounds=around, method="bounded", options=options
    )
    return min(found.fun, *values)


def test_a_gaussian_variational_loss_leaves_sparse_rows_sparse():
    X = sparse.random(1_000, 5_000, density=1e-3, random_state=0, format="csr")
    rng = np.random.default_rng(0)
    coef, y = rng.normal(size=(1, 5_000)), np.arange(1_000) % 2
    problem = Problem(X, y, surrogate="variational")
    tracemalloc.start()
    try:
        value, gradient, _ = problem.loss_gradient(Gaussian(0.02), 0.0, coef, np.zeros(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6  # X has 60 kB; with all its zeros it has 40 MB
    few = slice(0, 6)
    bound = variational_bound(Gaussian(0.02), X[few].toarray(), 2.0 * y[few] - 1.0, coef[0], 0.0)
    part = problem.subset(np.arange(6)).loss_gradient(Gaussian(0.02), 0.0, coef, np.zeros(1))[0]
    least = np.mean([lowest(bound, slice(n, n + 1)) for n in range(6)])
    assert part == pytest.approx(least, rel=1e-9)
    assert np.isfinite(gradient).all() and np.isfinite(value)


@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
@pytest.mark.parametrize(
    "corruption", [Blankout(0.3), Blankout(np.linspace(0.05, 0.9, 60))], ids=["one", "each"]
)
@pytest.mark.parametrize(("multiclass", "classes"), [("pairwise", 2), ("pairwise", 3), ("shared", 3)])
def test_compiled_rows_of_the_variational_bound_are_those_of_numpy(
    corruption, scale, multiclass, classes, monkeypatch
):
    """Lambda, gradient and second derivative; with a row of zeros, and from the lambda of other weights."""
    rng = np.random.default_rng(3)
    X = sparse.csr_matrix(rng.poisson(1.0, (900, 60)) * (np.arange(900) != 7)[:, None])
    y, options = rng.integers(classes, size=900), {"surrogate": "variational", "multiclass": multiclass}
    problem, columns = Problem(X, y, **options), 1 if classes == 2 else 3
    W, V = scale * rng.normal(size=(2, 60, columns))
    b = np.arange(1.0, columns + 1.0)
    found = []
    for numba in ("1", "0"):
        monkeypatch.setenv("MCF_NUMBA", numba)
        objective = problem._objective(corruption, 0.0)
        objective.loss_gradient(0.3 * V, b)
        value, derivatives = objective.expand(W, b)
        g_W, g_b, hessian = derivatives()
        found.append((np.array([value]), g_W, g_b, *hessian.product(V, b), *hessian.diagonal()))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5 * np.abs(plain).max())
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-11)
