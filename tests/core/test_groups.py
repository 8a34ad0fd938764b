"""Features that are lost together, counts that lose units, noise in an interval: what is special about them."""

import numpy as np
import pytest
from mcf_cli import Dropout, Gaussian, GroupBlankout, GroupDropout, MCFClassifier, Thinning, Uniform
from mcf_cli.core.problem import Problem
from scipy import sparse
from scipy.integrate import quad

from tests.core.cases import COUNTS, LABELS, REALS

SENSORS, FEATURES = 12, 5


def machine(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sensors that each show one quantity, by features that share the sensor's drift: their differences tell."""
    y = rng.integers(0, 2, rows)
    shown = rng.normal(size=(rows, SENSORS, 1)) + 0.6 * (2 * y[:, None, None] - 1)
    drift = 2.0 * rng.normal(size=(rows, SENSORS, 1))
    noise = 0.3 * rng.normal(size=(rows, SENSORS, FEATURES))
    return (shown * np.linspace(-1, 1, FEATURES) + drift + noise).reshape(rows, -1), y


def test_it_is_better_than_plain_and_than_independent_dropout_when_whole_sensors_fail():
    """Accuracy on rows of which each sensor is dead with probability 0.5, over twenty seeded training sets.

    Where a sensor's features are noisy copies of each other it is the other way round: independent dropout averages
    the noise out (a gain of 0.4 to 1.2 points over groups when the drift above is left out).
    """
    models = {
        "plain": MCFClassifier(corruption=None, l2=1e-2, tol=1e-3),
        "alone": MCFClassifier(corruption=Dropout(0.5), l2=1e-2, tol=1e-3),
        "together": MCFClassifier(corruption=GroupDropout(FEATURES, 0.5), l2=1e-2, tol=1e-3),
    }
    accuracy = {name: [] for name in models}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = machine(100, rng)
        X_test, y_test = machine(2000, rng)
        X_test = GroupDropout(FEATURES, 0.5).sample(X_test, rng)
        for name, model in models.items():
            accuracy[name].append(model.fit(X, y).score(X_test, y_test))
    for rival in ("plain", "alone"):
        gain = np.array(accuracy["together"]) - accuracy[rival]
        assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain)) > 0


@pytest.mark.parametrize("family", [GroupDropout, GroupBlankout])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_groups_can_be_a_size_or_lists_or_numbers(family, container):
    ways = [2, [[0, 1], [2, 3]], np.array([0, 0, 1, 1]), [1, 1, 0, 0]]
    X, y, coef = container(REALS[:, :4]), LABELS[2], np.array([[0.3, -0.2, 0.5, 0.1]])
    values = [Problem(X, y).loss_gradient(family(way, 0.3), 0.0, coef, np.zeros(1))[0] for way in ways]
    np.testing.assert_allclose(values, values[0], rtol=1e-14)


@pytest.mark.parametrize(("group", "single"), [(GroupDropout, Dropout)])
def test_groups_of_one_column_are_lost_alone(group, single):
    problem, coef = Problem(REALS, LABELS[2]), np.linspace(-1, 1, 5)[None]
    ours = problem.loss_gradient(group(1, 0.4), 0.1, coef, np.zeros(1))
    for found, expected in zip(ours, problem.loss_gradient(single(0.4), 0.1, coef, np.zeros(1)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_a_drawn_copy_loses_whole_groups(container):
    X = np.full((200, 6), 2.0)
    copy = GroupDropout([[0, 4], [1, 2, 5]], 0.5).sample(container(X), np.random.default_rng(0))
    copy = copy.toarray() if sparse.issparse(copy) else copy
    assert (copy[:, 3] == 2.0).all()
    assert (copy[:, 0] == copy[:, 4]).all() and (copy[:, 1] == copy[:, 2]).all()
    assert 60 < (copy[:, 0] == 0).sum() < 140 and 60 < (copy[:, 1] != copy[:, 0]).sum() < 140


@pytest.mark.parametrize(
    ("groups", "q", "words"),
    [
        (None, 0.5, "groups=None"),
        (2, 0.5, "groups=2 columns do not divide 5"),
        ([[0, 1], [1, 2]], 0.5, "column of group 1 is in groups more than once"),
        ([[0, 5]], 0.5, "group 0: column 5 is outside the 5 columns"),
        ([0, 1], 0.5, "groups has 2 entries for 5 columns"),
        ([[0, 1], [2]], [0.1, 0.2, 1.0], "q must lie in"),
        ([[0, 1], [2]], [0.1], "q has 1 entries for 2 groups"),
    ],
)
def test_groups_that_will_not_do_are_named(groups, q, words):
    with pytest.raises(ValueError, match=words):
        MCFClassifier(corruption=GroupDropout(groups, q)).fit(REALS, LABELS[2])


def test_nothing_of_size_d_by_d_is_made_where_rows_are_few():
    """Three thousand columns in three hundred groups: the covariance has a block a group."""
    X = sparse.random_array((30, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    covariance = GroupDropout(10, 0.5).covariance_sum(X, np.ones(30))
    assert covariance.nnz <= 10 * 3000
    y = np.arange(30) % 2
    for loss in ("quadratic", "logistic"):
        assert (
            MCFClassifier(loss=loss, corruption=GroupDropout(10, 0.5), l2=0.1, tol=1e-3).fit(X, y).score(X, y)
            == 1
        )


# -- rates learnt from data ---------------------------------------------------------------------------------
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_rates_are_those_that_took_the_features_away(container):
    """A target whose features were deleted at known rates gives these rates back, within five standard errors."""
    rng, q = np.random.default_rng(0), np.array([0.0, 0.2, 0.5, 0.9])
    present = rng.random((20_000, 4)) < [0.9, 0.5, 0.3, 0.8]
    source, target = present[:10_000].astype(float), Dropout(q).sample(present[10_000:].astype(float), 1)
    found = Dropout.estimate(container(source), container(target)).q
    np.testing.assert_allclose(found, q, atol=0.05)
    composed = Dropout.estimate(container(source), container(target), base=0.5).q
    np.testing.assert_allclose(1 - composed, 0.5 * (1 - found), rtol=1e-12)
    missing = np.where(target == 0, np.nan, target)
    observed = Dropout.from_missing(container(missing)).q
    np.testing.assert_allclose(observed, (target == 0).mean(axis=0), rtol=1e-12)


def test_rates_of_what_is_never_seen_stay_below_one_and_are_smoothed():
    seen, gone = np.ones((4, 1)), np.zeros((4, 1))
    assert Dropout.estimate(seen, gone, pseudo_counts=0.0).q[0] == 0.8
    assert 0.5 < Dropout.estimate(seen, gone, pseudo_counts=2.0).q[0] < 0.9
    assert Dropout.estimate(gone, gone).q[0] == Dropout.estimate(gone, seen).q[0] == 0.0
    assert Dropout.from_missing(np.full((4, 1), np.nan)).q[0] == 0.8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.ones((2, 3)), np.ones((2, 4))), "3 columns and target 4"),
        ((np.ones((2, 3)), np.ones((2, 3)), -1.0), "pseudo_counts"),
        ((np.ones((2, 3)), np.ones((2, 3)), 1.0, 1.0), "base must lie in"),
    ],
)
def test_samples_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Dropout.estimate(*arguments)


# -- what stays in an interval ------------------------------------------------------------------------------
@pytest.mark.parametrize("t", [1e-9, 1e-3, 0.0999, 0.1001, 1.0, 30.0])
def test_uniform_noise_is_right_for_small_and_large_arguments(t):
    jet = Uniform(1.0).at_zero(np.array([t]))
    moments = [quad(lambda v, p=p: v**p * np.exp(t * (v - 1.0)), -1, 1, epsabs=1e-12)[0] for p in range(3)]
    mean = moments[1] / moments[0]
    expected = np.log(moments[0] / 2) + t, mean, moments[2] / moments[0] - mean**2
    if t < 1e-6:  # quadrature cannot see so little
        expected = t * t / 6, t / 3, 1 / 3
    np.testing.assert_allclose([part[0] for part in jet], expected, rtol=1e-9)


def test_uniform_noise_is_finite_for_any_weights():
    jet = Uniform(3.0).at_zero(np.array([-1e300, -800.0, 0.0, 800.0, 1e300]))
    assert all(np.isfinite(part).all() for part in jet)
    assert jet[1][0] == -3.0 and jet[1][2] == 0.0


def test_a_bounded_corruption_lies_below_the_gaussian_of_hoeffding():
    """Dropout of x is bounded on [0, x], thinning on [0, x], uniform noise on [x - a, x + a]."""
    x = np.array([1.0, 2.0, 5.0])
    t = np.repeat(np.linspace(-6, 6, 241)[:, None], 3, axis=1)
    for corruption, width in ((Dropout(0.3), x), (Thinning(0.8), x), (Uniform(0.7), np.full(3, 1.4))):
        ours = corruption.log_mgf(t, x)
        gaussian = Gaussian(sigma=width / 2).log_mgf(t, corruption.mean(x))
        assert (ours <= gaussian + 1e-12).all()
        assert (ours > gaussian - 0.2 * t**2 * width**2 - 1e-12).all()  # and no bound for nothing


def test_thinning_draws_from_whole_counts_alone():
    with pytest.raises(ValueError, match="whole numbers"):
        Thinning(0.5).sample(COUNTS + 0.5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="column 2"):
        MCFClassifier(corruption="thinning").fit(np.where(np.arange(5) == 2, -COUNTS - 1, COUNTS), LABELS[2])
