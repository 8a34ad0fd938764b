"""On random problems bounds are bounds, tighter ones tighter, convex ones convex; and what is not, is not."""

import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from mcf_cli import BitSwap, Blankout, Dropout, Multinomial
from mcf_cli.core.losses import increasing_root
from mcf_cli.core.problem import Problem
from scipy.special import logsumexp

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
    root, _ = increasing_root(function, np.full(50, 0.5), ends[1] - ends[0])
    np.testing.assert_allclose(root, np.clip(np.log1p(targets * np.expm1(1.0)), 0.0, 1.0), atol=1e-9)
    assert len(calls) <= 10
