"""A corruption's moments and log-MGF equal brute force, its sampler follows them, and bad data is refused."""

import numpy as np
import pytest
from mcf_cli import (
    BitSwap,
    Blankout,
    Dropout,
    Gaussian,
    Laplace,
    MCFClassifier,
    Multinomial,
    PerFeature,
    Poisson,
    Thinning,
)
from mcf_cli.core.corruptions.characteristic import log_cf_table
from mcf_cli.core.problem import Problem
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

from tests.core import reference as ref
from tests.core.cases import BITS, BY_NAME, CORRUPTED, COUNTS, ONE_HOT, REALS, weights

EVERY_CORRUPTION = pytest.mark.parametrize("case", CORRUPTED, ids=str)


@EVERY_CORRUPTION
def test_mean(case):
    expected = [ref.mean(law) for law in case.laws]
    np.testing.assert_allclose(case.corruption.mean(case.X), expected, rtol=1e-8, atol=1e-10)


@EVERY_CORRUPTION
def test_variance(case):
    expected = [np.diag(ref.covariance(law)) for law in case.laws]
    np.testing.assert_allclose(case.corruption.variance(case.X), expected, rtol=1e-8, atol=1e-10)


@EVERY_CORRUPTION
@pytest.mark.parametrize("seed", range(3))
def test_log_mgf(case, seed):
    """Entries add up over a row; a block of one-hot columns may share its entry among them as it likes."""
    t = weights(case, 2, seed, scale=1.0)[0][0]
    expected = [ref.log_mgf(law, t) for law in case.laws]
    np.testing.assert_allclose(
        case.corruption.log_mgf(t, case.X).sum(axis=1), expected, rtol=1e-8, atol=1e-10
    )


@EVERY_CORRUPTION
@pytest.mark.parametrize("seed", range(3))
def test_log_mgf_derivative(case, seed):
    t = weights(case, 2, seed, scale=1.0)[0][0]
    expected = [ref.log_mgf_gradient(law, t) for law in case.laws]
    np.testing.assert_allclose(case.corruption.log_mgf_derivative(t, case.X), expected, rtol=1e-8, atol=1e-10)


@EVERY_CORRUPTION
def test_log_mgf_at_zero_is_zero_and_its_slope_the_mean(case):
    t = np.zeros(case.X.shape[1])
    np.testing.assert_allclose(case.corruption.log_mgf(t, case.X), 0, atol=1e-14)
    np.testing.assert_allclose(
        case.corruption.log_mgf_derivative(t, case.X), case.corruption.mean(case.X), rtol=1e-13, atol=1e-15
    )


def fourth_central_moments(law: ref.Law) -> np.ndarray:
    moments = np.zeros(ref.width(law))
    for group in law:
        centred = group.values - group.probabilities @ group.values
        moments[list(group.columns)] = group.probabilities @ centred**4
    return moments


def zeros_stay_zero(case) -> bool:
    return not any(
        np.diag(ref.covariance(law))[x == 0].any() for x, law in zip(case.X, case.laws, strict=True)
    )


@EVERY_CORRUPTION
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_sampler_has_the_stated_mean_and_variance(case, container):
    """Seeded draws stay within six standard errors of the law; sparse stays sparse where zeros stay zero."""
    draws = 4000
    X = container(np.repeat(case.X, draws, axis=0))
    sampled = case.corruption.sample(X, np.random.default_rng(7))
    if zeros_stay_zero(case):
        assert sparse.issparse(sampled) == sparse.issparse(X)
    assert sampled.shape == X.shape
    dense = sampled.toarray() if sparse.issparse(sampled) else sampled
    for row, law in zip(dense.reshape(len(case.X), draws, -1), case.laws, strict=True):
        variance = np.diag(ref.covariance(law))
        spread = np.sqrt(np.clip(fourth_central_moments(law) - variance**2, 0, None) / draws)
        assert np.all(np.abs(row.mean(axis=0) - ref.mean(law)) <= 6 * np.sqrt(variance / draws) + 1e-12)
        slack = 36 * variance / draws
        assert np.all(np.abs(row.var(axis=0) - variance) <= 6 * spread + slack + 1e-12)


@EVERY_CORRUPTION
def test_sampler_repeats_with_its_seed_and_leaves_its_input_alone(case):
    before = case.X.copy()
    first = case.corruption.sample(case.X, np.random.default_rng(3))
    second = case.corruption.sample(case.X, np.random.default_rng(3))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(case.X, before)


@pytest.mark.parametrize("case", [case for case in CORRUPTED if case.finite], ids=str)
def test_sampler_draws_only_possible_copies(case):
    sampled = case.corruption.sample(np.repeat(case.X, 50, axis=0), np.random.default_rng(0))
    for rows, law in zip(sampled.reshape(len(case.X), 50, -1), case.laws, strict=True):
        probabilities, copies = ref.corrupted_copies(law)
        copies = copies[probabilities > 0]
        distance = np.abs(rows[:, None, :] - copies[None, :, :]).max(axis=2).min(axis=1)
        assert distance.max() < 1e-12


@EVERY_CORRUPTION
def test_is_a_clonable_estimator(case):
    copy = clone(case.corruption)
    assert type(copy) is type(case.corruption)
    np.testing.assert_array_equal(copy.mean(case.X), case.corruption.mean(case.X))


# Bad data and bad parameters: the error names the parameter or the column --------------------------------

LABELS = np.array([0, 1, 1, 0, 1, 0])


def evaluate(corruption, X, y=LABELS):
    problem = Problem(X, y, loss="logistic")
    return problem.loss_gradient(corruption, 0.0, np.zeros((1, X.shape[1])), np.zeros(1))


def with_entry(X, row, column, value):
    changed = X.copy()
    changed[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("corruption", "X", "named"),
    [
        (Blankout(1.0), REALS, "q"),
        (Blankout(-0.1), REALS, "q"),
        (Blankout(np.nan), REALS, "q"),
        (Blankout(np.array([0.1, 0.2, 1.5, 0.0, 0.0])), REALS, "q"),
        (Dropout(1.2), REALS, "q"),
        (Dropout(np.full(4, 0.5)), REALS, "q"),
        (Gaussian(-1.0), REALS, "sigma"),
        (Gaussian(np.ones(3)), REALS, "sigma"),
        (Laplace(-0.5), REALS, "scale"),
        (Laplace(np.ones((2, 2))), REALS, "scale"),
        (Poisson(clip=-1.0), COUNTS, "clip"),
        (BitSwap(1.0), BITS, "q"),
        (BitSwap(-0.2), BITS, "q"),
        (Multinomial(q=1.5, blocks=3), ONE_HOT, "q"),
        (Multinomial(q=0.1, blocks=4), ONE_HOT, "blocks"),
        (Multinomial(q=0.1, blocks=[[0, 1, 9], [2, 3]]), ONE_HOT, "blocks"),
        (Multinomial(blocks=3, confusion=np.ones((3, 3))), ONE_HOT, "confusion"),
        (Multinomial(blocks=3, confusion=np.eye(4)), ONE_HOT, "confusion"),
        (PerFeature([([0, 1], Blankout(2.0))]), REALS, "q"),
        (PerFeature([([0, 17], Blankout(0.5))]), REALS, "17"),
        (PerFeature([([0, 1], Blankout(0.5)), ([1, 2], Gaussian(0.5))]), REALS, "1"),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value).replace("\n", "")[:60],
)
def test_a_bad_parameter_is_refused_by_name(corruption, X, named):
    with pytest.raises(ValueError, match=rf"\b{named}\b"):
        evaluate(corruption, X)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("corruption", "X", "column"),
    [
        (Poisson(), with_entry(COUNTS, 2, 3, -1.0), 3),
        (BitSwap(0.1), with_entry(BITS, 1, 4, 2.0), 4),
        (BitSwap(0.1), with_entry(BITS, 1, 2, 0.5), 2),
        (PerFeature([([0, 1], Gaussian(1.0)), ([2, 3], Poisson())]), with_entry(COUNTS, 2, 3, -1.0), 3),
    ],
    ids=["negative-count", "two-as-bit", "half-as-bit", "negative-count-in-a-mix"],
)
def test_a_value_outside_the_domain_is_refused_with_its_column(corruption, X, column, container):
    with pytest.raises(ValueError, match=rf"column {column}\b"):
        evaluate(corruption, container(X))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [0.5, 2.0], ids=["half", "two"])
def test_a_block_that_is_not_one_hot_is_refused(value, container):
    hot = int(np.argmax(ONE_HOT[3, 3:])) + 3
    X = with_entry(ONE_HOT, 3, hot, value)
    with pytest.raises(ValueError, match=r"row 3 of X is not one-hot in the block that starts at column 3\b"):
        evaluate(Multinomial(q=0.1, blocks=3), container(X))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=["nan", "infinity"])
@pytest.mark.parametrize(
    "corruption", [None, Blankout(0.5), Gaussian(1.0)], ids=["none", "blankout", "gaussian"]
)
def test_nan_and_infinity_are_refused(corruption, bad, container):
    with pytest.raises(ValueError, match=r"(?i)nan|infinit|finite"):
        evaluate(corruption, container(with_entry(REALS, 0, 1, bad)))


def test_unknown_names_are_refused():
    for name, value in (("loss", "hinge"), ("surrogate", "newton"), ("multiclass", "crammer")):
        with pytest.raises(ValueError, match=name):
            Problem(REALS, LABELS, **{name: value})
    with pytest.raises(ValueError, match="corruption"):
        evaluate("salt-and-pepper", REALS)


def test_mismatched_lengths_are_refused():
    with pytest.raises(ValueError, match=r"\b5\b"):
        Problem(REALS, LABELS[:5])
    with pytest.raises(ValueError, match="sample_weight"):
        Problem(REALS, LABELS, sample_weight=np.ones(5))


@pytest.mark.parametrize("bad", [-1.0, np.nan], ids=["negative", "nan"])
def test_bad_sample_weights_are_refused(bad):
    with pytest.raises(ValueError, match="sample_weight"):
        Problem(REALS, LABELS, sample_weight=np.full(6, bad))


@pytest.mark.parametrize("loss", ["quadratic", "logistic"])
def test_a_negative_l2_is_refused(loss):
    with pytest.raises(ValueError, match="l2"):
        Problem(REALS, LABELS, loss=loss).solve(Blankout(0.5), -0.1)


@pytest.mark.parametrize("columns", [slice(1, 3), np.array([False, True, True, False, False])], ids=str)
def test_columns_can_be_a_slice_or_a_mask(columns):
    named = PerFeature([([1, 2], Blankout(0.5))]).variance(REALS)
    np.testing.assert_array_equal(PerFeature([(columns, Blankout(0.5))]).variance(REALS), named)


@pytest.mark.parametrize("column", [-1, 5])
def test_a_column_outside_the_data_is_refused(column):
    with pytest.raises(ValueError, match=f"column {column} is outside"):
        evaluate(PerFeature([([0, column], Blankout(0.5))]), REALS)


@pytest.mark.parametrize("columns", [[], (), np.zeros(5, dtype=bool), slice(2, 2)], ids=str)
def test_a_part_without_columns_changes_nothing(columns):
    mixed = PerFeature([(columns, Gaussian(0.5)), ([1], Blankout(0.5))])
    alone = PerFeature([([1], Blankout(0.5))])
    np.testing.assert_array_equal(mixed.variance(REALS), alone.variance(REALS))
    assert evaluate(mixed, REALS)[0] == evaluate(alone, REALS)[0]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([([True, False], Blankout())], "a mask of 2 entries for 5 columns"),
        ([([True] * 6, Blankout())], "a mask of 6 entries for 5 columns"),
        ([(2, Blankout())], "columns 2 must be a list of column numbers"),
        ([("size", Blankout())], "columns 'size' must be a list of column numbers"),
        ([(["size", "age"], Blankout())], "must be a list of column numbers"),
        ([({0, 1}, Blankout())], "columns {0, 1} must be a list of column numbers"),
        ([([0.0, 1.0], Blankout())], "must be a list of column numbers"),
        ([([[0, 1]], Blankout())], "must be a list of column numbers"),
        ([([[0], [1, 2]], Blankout())], "must be a list of column numbers"),
        ([(slice("a", "b"), Blankout())], "must be a list of column numbers"),
        ([(None, Blankout())], "columns None must be a list of column numbers"),
        ([Blankout()], r"a list of pairs, \[\(columns, corruption\), ...\]; got Blankout\("),
        (Blankout(), r"a list of pairs"),
        ([([0], Blankout(), 3)], r"a list of pairs"),
        ([([0], "blank")], "corruption='blank' is not known"),
        ([([0, 1], Blankout(q=[0.1, 0.2, 0.3]))], "q has 3 entries for 2 features"),
        ([([0, 1], PerFeature([([2], Blankout())]))], "column 2 is outside the 2 columns"),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, list) else "",
)
def test_parts_that_name_no_columns_are_refused_in_one_line(parts, words):
    with pytest.raises(ValueError, match=words) as refusal:
        evaluate(PerFeature(parts), REALS)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    "container", [np.asarray, sparse.csr_matrix, sparse.csc_matrix], ids=lambda c: c.__name__
)
@pytest.mark.parametrize("case", [BY_NAME["poisson-clip-per-feature"], BY_NAME["mixed-nested"]], ids=str)
def test_clipped_counts_are_the_same_in_every_container(case, container):
    """Covariances, means and samples of what is cut at a number a column, also within a mix of mixes."""
    X, family, row_weights = container(case.X), case.corruption, np.linspace(0.5, 2.0, len(case.X))
    covariance = sum(w * ref.covariance(law) for w, law in zip(row_weights, case.laws, strict=True))
    np.testing.assert_allclose(family.covariance_sum(X, row_weights).toarray(), covariance, atol=1e-8)
    offset, C = family.mean_map(X.shape[1])
    np.testing.assert_allclose(
        offset + family.prepare(X) @ C.toarray(), [ref.mean(law) for law in case.laws], atol=1e-8
    )
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(4000):
        total = total + family.sample(X, rng)
    total = total.toarray() if sparse.issparse(total) else total
    np.testing.assert_allclose(total / 4000, family.mean(case.X), atol=0.15)


def test_a_symbol_may_always_be_misread():
    """q = 1 is in the domain of multinomial noise, as it is not for blankout."""
    mean = Multinomial(q=1.0, blocks=3).mean(ONE_HOT)
    np.testing.assert_allclose(mean, (1.0 - ONE_HOT) / 2.0, atol=1e-15)
    assert np.isfinite(evaluate(Multinomial(q=1.0, blocks=3), ONE_HOT)[0])


def test_a_negative_count_is_found_in_the_whole_of_a_mix():
    """Columns are numbered as in X, also where the mix is a part of a mix."""
    inner = PerFeature([([1], Poisson())])
    with pytest.raises(ValueError, match=r"column 3\b"):
        evaluate(PerFeature([([2, 3], inner)]), with_entry(COUNTS, 2, 3, -1.0))


@pytest.mark.parametrize(
    "case", [case for case in CORRUPTED if isinstance(case.corruption, Multinomial)], ids=str
)
def test_the_covariance_of_one_row_of_symbols(case):
    for x, law in zip(case.X, case.laws, strict=True):
        np.testing.assert_allclose(
            case.corruption.covariance_sum(x[None, :], np.ones(1)).toarray(), ref.covariance(law), atol=1e-14
        )


def test_a_sparse_sample_of_symbols_is_the_dense_one():
    corruption = Multinomial(q=0.4, blocks=3)
    dense, packed = (
        corruption.sample(X, np.random.default_rng(0)) for X in (ONE_HOT, sparse.csr_matrix(ONE_HOT))
    )
    assert sparse.issparse(packed)
    np.testing.assert_array_equal(packed.toarray(), dense)
    np.testing.assert_array_equal(dense.reshape(len(dense), -1, 3).sum(axis=2), 1.0)


@pytest.mark.parametrize(
    "corruption", [Gaussian(0.7), Laplace(0.3), Poisson(), BitSwap(0.2), Gaussian([0.5, 1.0, 2.0])], ids=repr
)
@pytest.mark.parametrize("part", ["at_zero", "per_unit"])
def test_jets_are_derivatives_of_each_other(corruption, part):
    t, step = np.array([[-0.9, 0.2, 1.1], [0.0, -0.4, 2.0]]), 1e-6
    jet = getattr(corruption, part)
    _, slope, curvature = jet(t)
    ahead, behind = jet(t + step), jet(t - step)
    np.testing.assert_allclose(slope, (ahead[0] - behind[0]) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(curvature, (ahead[1] - behind[1]) / (2 * step), atol=1e-7)


def test_a_wrong_parameter_is_named_with_its_feature_where_it_has_one():
    with pytest.raises(ValueError, match=r"got 1\.5$"):
        Blankout(1.5).variance([1.0, 1.0])
    with pytest.raises(ValueError, match=r"got 1\.5 at feature 1$"):
        Blankout([0.5, 1.5]).variance([1.0, 1.0])
    with pytest.raises(ValueError, match=r"got an array of 2 axes$"):
        Blankout(np.full((2, 2), 0.5)).variance([1.0, 1.0])


def test_log_mgfs_of_symbols_take_one_row_as_well_as_many():
    corruption, t = Multinomial(q=0.3, blocks=3), np.linspace(-1.0, 1.0, ONE_HOT.shape[1])
    for function in (corruption.log_mgf, corruption.log_mgf_derivative, lambda t, x: corruption.mean(x)):
        rows = np.array([function(t, row) for row in ONE_HOT])
        np.testing.assert_allclose(function(t, ONE_HOT), rows)
        np.testing.assert_allclose(function(t, ONE_HOT[None])[0], rows)


def test_poisson_keeps_its_digits_at_counts_of_ten_thousand_millions():
    """x (e^t - 1) with weights of 1e-10: the difference has to be taken before it is rounded."""
    t, x = np.array([1e-10, -3e-11, 2e-12]), np.array([1e10, 3e10, 5e11])
    np.testing.assert_allclose(Poisson().log_mgf(t, x), x * np.expm1(t), rtol=1e-14)
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (40, 3)) * 1e10, np.arange(40) % 2
    X[:, 0] *= 1.0 + y

    def objective(theta):
        sign = 1.0 - 2.0 * y
        return np.logaddexp(
            0.0, (X * np.expm1(np.outer(sign, theta[:3] / 1e10))).sum(axis=1) + sign * theta[3]
        ).mean()

    found = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    model = MCFClassifier(corruption=Poisson()).fit(X, y)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-9)


def test_huge_counts_keep_their_digits_when_units_are_lost():
    """kappa(t) = x log(1 + p (e^t - 1)): at t = 1 / x the value is near p, and a rounding of 1 would be 1e-4 of it."""
    x, p = 1e12, 0.7
    for t in (1.0 / x, -3.0 / x):
        exact = x * (p * t + 0.5 * p * (1.0 - p) * t * t)
        assert Thinning(q=1.0 - p).log_mgf([t], [x])[0] == pytest.approx(exact, rel=1e-12)
    t = np.array([[1e-8]])
    for family, mean, variance in ((Thinning(q=1.0 - p), p, p * (1.0 - p)), (Poisson(), 1.0, 1.0)):
        table = log_cf_table(family, t, None)[1]
        np.testing.assert_allclose(table, [[-0.5e-16 * variance, 1e-8 * mean]], rtol=1e-7)
