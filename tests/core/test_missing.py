"""Marked missing features: the reduced model, the integrals over it, and what is learnt from incomplete rows."""

import mcf_cli
import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout, Gaussian, MCFClassifier, MCFClassifierCV, MCFRegressor, Multinomial
from mcf_cli.core import missing
from mcf_cli.core.missing import Conditioning, conditioning_of
from scipy.integrate import quad
from scipy.special import expit, softmax
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

D = 7
rng = np.random.default_rng(3)
MIX = rng.standard_normal((D, D)) * 0.7 + np.eye(D)
X = rng.standard_normal((90, D)) @ MIX + rng.standard_normal(D)
NUMBERS = X @ rng.standard_normal(D) + rng.standard_normal(90)
CODES = np.digitize(NUMBERS, np.quantile(NUMBERS, [0.3, 0.6]))
GONE = np.array([1, 4, 5])
OBSERVED = np.array([0, 2, 3, 6])
LOW_RANK = Conditioning(X.mean(axis=0), X.std(axis=0), loadings=0.4 * rng.uniform(-1, 1, (D, 3)))


def with_nan(rows: np.ndarray, gone: np.ndarray = GONE) -> np.ndarray:
    rows = rows.copy()
    rows[:, gone] = np.nan
    return rows


def covariance(conditioning: Conditioning) -> np.ndarray:
    """S, spelt out."""
    if conditioning.precision is not None:
        R = np.linalg.inv(conditioning.precision)
    else:
        F = conditioning.loadings
        R = F @ F.T + np.diag(1.0 - (F**2).sum(axis=1))
    return R * np.outer(conditioning.scale, conditioning.scale)


def gaussian(conditioning: Conditioning, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of x_u given x_o by the textbook's formula."""
    S, mu = covariance(conditioning), conditioning.mean
    through = S[np.ix_(GONE, OBSERVED)] @ np.linalg.inv(S[np.ix_(OBSERVED, OBSERVED)])
    mean = mu[GONE] + through @ (row[OBSERVED] - mu[OBSERVED])
    return mean, S[np.ix_(GONE, GONE)] - through @ S[np.ix_(OBSERVED, GONE)]


BOTH_FORMS = pytest.mark.parametrize(
    "conditioning", [conditioning_of(X, "conditional"), LOW_RANK], ids=["full", "low rank"]
)


@BOTH_FORMS
def test_the_reduced_model_and_the_imputation_are_those_of_the_conditional_gaussian(conditioning):
    coef, row = rng.standard_normal((3, D)), X[0]
    mean, spread = gaussian(conditioning, row)
    weights, shift, scores = conditioning.reduced(coef, GONE)
    assert not weights[:, GONE].any()
    whole = row.copy()
    whole[GONE] = mean
    np.testing.assert_allclose(weights[:, OBSERVED] @ row[OBSERVED] + shift, coef @ whole, rtol=1e-10)
    np.testing.assert_allclose(scores, coef[:, GONE] @ spread @ coef[:, GONE].T, rtol=1e-9)
    np.testing.assert_allclose(conditioning.expected(with_nan(X[:1]), GONE)[0], mean, rtol=1e-10)


def test_a_small_table_keeps_its_own_covariance_up_to_the_shrinkage():
    many = rng.standard_normal((200_000, 3)) @ MIX[:3, :3]
    np.testing.assert_allclose(
        covariance(conditioning_of(many, "conditional")), np.cov(many.T), rtol=0.02, atol=0.01
    )
    noise = conditioning_of(rng.standard_normal((12, 10)), "conditional")
    shrunk = covariance(noise) / np.outer(noise.scale, noise.scale)
    assert (
        np.abs(shrunk - np.eye(10)).max() < 0.5
    )  # of independent columns in 12 rows chance makes 0.6 and more


@pytest.mark.parametrize("corruption", [None, Dropout(q=0.3), Gaussian(sigma=0.4), Blankout(q=0.2)], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_quadratic_loss_becomes_the_fit_to_the_observed_columns(corruption, fit_intercept):
    options = {"corruption": corruption, "l2": 0.05, "fit_intercept": fit_intercept}
    model = MCFRegressor(missing="conditional", **options).fit(X, NUMBERS)
    again = MCFRegressor(**options).fit(X[:, OBSERVED], NUMBERS)
    np.testing.assert_allclose(model.predict(with_nan(X)), again.predict(X[:, OBSERVED]), atol=1e-8)
    classifier = MCFClassifier(loss="quadratic", missing="conditional", **options).fit(X, CODES)
    refitted = MCFClassifier(loss="quadratic", **options).fit(X[:, OBSERVED], CODES)
    found = classifier.decision_function(with_nan(X))
    np.testing.assert_allclose(found, refitted.decision_function(X[:, OBSERVED]), atol=1e-8)


def test_the_fit_to_the_observed_columns_holds_for_copies_constants_and_coupled_features():
    doubled = np.column_stack([X, X[:, 0], np.full(90, 3.0)])
    model = MCFRegressor(corruption=None, missing="conditional").fit(doubled, NUMBERS)
    plain = MCFRegressor(corruption=None).fit(X, NUMBERS)
    np.testing.assert_allclose(model.predict(with_nan(doubled, [0, 8])), plain.predict(X), atol=1e-5)
    one_hot = np.eye(3)[rng.integers(3, size=(90, 2))].reshape(90, 6)
    model = MCFRegressor(corruption=Multinomial(q=0.2, blocks=3), l2=0.1, missing="conditional")
    model.fit(one_hot, NUMBERS)
    block = MCFRegressor(corruption=Multinomial(q=0.2, blocks=3), l2=0.1).fit(one_hot[:, :3], NUMBERS)
    got = model.predict(with_nan(one_hot, [3, 4, 5]))
    np.testing.assert_allclose(got, block.predict(one_hot[:, :3]), atol=1e-8)


def test_two_classes_integrate_the_sigmoid_over_the_score():
    model = MCFClassifier(corruption=None, l2=0.001, missing="conditional").fit(X, CODES > 0)
    mean, spread = gaussian(model.conditioning_, X[0])
    w = model.coef_[0]
    centre = w[OBSERVED] @ X[0, OBSERVED] + w[GONE] @ mean + model.intercept_[0]
    deviation = np.sqrt(w[GONE] @ spread @ w[GONE])
    assert deviation > 0.5

    def density(z: float) -> float:
        return float(expit(centre + deviation * z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))

    expected = quad(density, -12, 12, epsabs=1e-12)[0]
    found = model.predict_proba(with_nan(X[:1]))
    np.testing.assert_allclose(found, [[1 - expected, expected]], atol=1e-9)
    assert abs(expected - expit(centre)) > 0.001  # the probability of the mean is another


def test_more_classes_average_the_softmax_over_correlated_scores():
    model = MCFClassifier(corruption=None, l2=0.001, missing="conditional").fit(X, CODES)
    mean, spread = gaussian(model.conditioning_, X[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)  # a grid over the three missing features
    Z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3
    rows = np.tile(X[0], (len(Z), 1))
    rows[:, GONE] = mean + Z @ np.linalg.cholesky(spread).T
    expected = weight @ softmax(rows @ model.coef_.T + model.intercept_, axis=1)
    found = model.predict_proba(with_nan(X[:1]), n_samples=4096)[0]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_array_equal(found, model.predict_proba(with_nan(X[:1]), n_samples=4096)[0])
    np.testing.assert_allclose(model.predict_proba(with_nan(X[:1]))[0], expected, atol=0.02)


@pytest.mark.parametrize("how", missing.WAYS)
def test_whole_rows_sparse_rows_and_mixed_patterns_agree(how):
    model = MCFClassifier(corruption=Dropout(q=0.2), l2=0.01, missing=how).fit(X, CODES)
    plain = MCFClassifier(corruption=Dropout(q=0.2), l2=0.01).fit(X, CODES)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    rows = np.where(np.random.default_rng(1).random(X.shape) < 0.4, np.nan, X)
    alone = np.array([model.decision_function(row[None])[0] for row in rows])
    np.testing.assert_allclose(model.decision_function(rows), alone, atol=1e-10)
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(rows)), alone, atol=1e-10)
    np.testing.assert_allclose(
        model.predict_proba(rows), model.predict_proba(sp.coo_matrix(rows)), atol=1e-12
    )


def test_deleted_is_zero_and_mean_is_the_mean():
    for how, value in (("deleted", np.zeros(D)), ("mean", X.mean(axis=0))):
        model = MCFClassifier(l2=0.01, missing=how).fit(X, CODES)
        rows = np.where(np.arange(D) < 3, value, X)
        found = model.predict_proba(with_nan(X, [0, 1, 2]))
        np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-12)
        found = model.predict_proba(with_nan(X, [0, 1, 2]), marginalize=True)
        np.testing.assert_allclose(found, model.predict_proba(rows, marginalize=True), atol=1e-12)


@pytest.mark.parametrize("how", missing.WAYS)
def test_training_rows_with_nan_are_filled_as_predictions_are(how):
    rows = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    model = MCFClassifier(corruption=None, l2=0.01, missing=how).fit(rows, CODES)
    whole = missing.filled(rows, how, model.conditioning_)
    assert not np.isnan(whole).any()
    np.testing.assert_array_equal(whole[~np.isnan(rows)], rows[~np.isnan(rows)])
    np.testing.assert_allclose(
        model.coef_, MCFClassifier(corruption=None, l2=0.01).fit(whole, CODES).coef_, atol=1e-9
    )
    sparse = MCFClassifier(corruption=None, l2=0.01, missing=how).fit(sp.csr_matrix(rows), CODES)
    np.testing.assert_allclose(sparse.coef_, model.coef_, atol=1e-8)


@pytest.mark.parametrize("full", [0, 1000], ids=["low rank", "full"])
def test_statistics_of_incomplete_rows_are_near_those_of_the_whole(full, monkeypatch):
    monkeypatch.setattr(missing, "FULL_COVARIANCE", full)
    factors = np.random.default_rng(5).standard_normal((20_000, 2))
    whole = factors @ np.array([[1.0, 2.0, 0.0, 1.0, -1.0], [0.0, 1.0, 1.0, -1.0, 3.0]])
    whole += 0.5 * np.random.default_rng(6).standard_normal(whole.shape) + 2.0
    rows = np.where(np.random.default_rng(7).random(whole.shape) < 0.3, np.nan, whole)
    S = np.cov(whole.T)
    found = conditioning_of(rows, "conditional")
    np.testing.assert_allclose(found.mean, whole.mean(axis=0), atol=0.05)
    assert np.abs(covariance(found) - S).max() < 0.1 * np.abs(S).max()


def test_many_features_take_a_low_rank_that_finds_the_factors():
    loadings = np.random.default_rng(8).standard_normal((2, 1500))
    factors = np.random.default_rng(9).standard_normal((300, 2))
    rows = factors @ loadings + 0.1 * np.random.default_rng(10).standard_normal((300, 1500))
    found = conditioning_of(rows, "conditional")
    assert found.precision is None and found.loadings.shape == (1500, 100)
    gone = np.arange(0, 1500, 2)
    guess = found.expected(rows, gone)
    assert np.sqrt(np.mean((guess - rows[:, gone]) ** 2)) < 0.15  # the noise alone is 0.1, the features 1.4


@pytest.mark.parametrize("how", ["mean", "conditional"])
@pytest.mark.parametrize("width", [D, 1200], ids=["full", "low rank"])
def test_a_saved_model_fills_the_same(how, width, tmp_path):
    wide = np.random.default_rng(2).standard_normal((90, width)) + NUMBERS[:, None]
    for model in (MCFClassifier(l2=0.01, missing=how), MCFRegressor(l2=0.01, missing=how)):
        model.fit(wide, CODES)
        model.save(tmp_path / "model.npz")
        again = mcf_cli.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(again.predict(with_nan(wide)), model.predict(with_nan(wide)))
        again.missing = None
        with pytest.raises(ValueError, match="NaN"):
            again.predict(with_nan(wide))


def test_statistics_that_are_no_covariance_are_not_loaded(tmp_path):
    model = MCFClassifier(l2=0.01, missing="conditional").fit(X, CODES)
    good = model.conditioning_
    bad = [
        Conditioning(good.mean, good.scale, precision=-good.precision),
        Conditioning(good.mean[:3], good.scale, precision=good.precision),
        Conditioning(good.mean, good.scale, loadings=np.ones((D, 2))),
        Conditioning(good.mean, good.scale * np.nan, precision=good.precision),
        Conditioning(good.mean, good.scale),
    ]
    for conditioning in bad:
        model.conditioning_ = conditioning
        model.save(tmp_path / "model.npz")
        with pytest.raises(ValueError, match="statistics of missing features"):
            mcf_cli.load(tmp_path / "model.npz")


def test_what_cannot_be_done_is_refused_clearly():
    model, advice = (
        MCFClassifier(l2=0.01, tol=1e-2).fit(X, CODES),
        "Input X contains NaN: give .*missing='mean'",
    )
    for refused in (
        lambda: MCFClassifier().fit(with_nan(X), CODES),
        lambda: MCFRegressor().fit(with_nan(X), NUMBERS),
        lambda: model.predict(with_nan(X)),
        lambda: MCFClassifier(surrogate="gaussian").fit(X, CODES > 0, X_unlabeled=with_nan(X)),
    ):
        with pytest.raises(ValueError, match=advice):
            refused()
    search = MCFClassifierCV(qs=[0.5], l2s=[0.1], cv=2, tol=1e-2).fit(X, CODES)
    with pytest.raises(ValueError, match="contains NaN") as error:
        search.predict(with_nan(X))
    assert "missing='mean'" not in str(error.value)  # it has no such parameter
    with pytest.raises(ValueError, match="missing='zero' is not known"):
        MCFClassifier(missing="zero").fit(X, CODES)
    with pytest.raises(NotFittedError):
        MCFClassifier(missing="mean").predict(with_nan(X))
    model = MCFClassifier(l2=0.01, missing="conditional").fit(X, CODES)
    with pytest.raises(ValueError, match="marginalize"):
        model.predict_proba(with_nan(X), marginalize=True)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.where(np.isnan(with_nan(X)), np.inf, X))
    by_chunks = mcf_cli.fit_chunks(MCFClassifier(l2=0.01, missing="mean"), [(X, CODES)])
    with pytest.raises(ValueError, match="has no statistics"):
        by_chunks.predict(with_nan(X))


@parametrize_with_checks(
    [
        MCFClassifier(l2=1e-3, missing="conditional"),
        MCFClassifier(loss="quadratic", l2=1e-3, missing="conditional"),
        MCFRegressor(l2=1e-3, missing="mean"),
    ]
)
def test_scikit_learn_compliance_with_missing_features(estimator, check):
    check(estimator)


@BOTH_FORMS
def test_a_row_with_nothing_observed_has_the_mean_and_the_whole_spread(conditioning):
    coef = np.random.default_rng(11).standard_normal((2, D))
    weights, shift, spread = conditioning.reduced(coef, np.arange(D))
    assert not weights.any()
    np.testing.assert_allclose(shift, coef @ conditioning.mean, rtol=1e-10)
    np.testing.assert_allclose(spread, coef @ covariance(conditioning) @ coef.T, rtol=1e-8)


def test_constant_and_empty_columns_say_nothing_and_break_nothing():
    rows = np.column_stack([X, np.full(90, 4.0), np.full(90, np.nan)])
    model = MCFClassifier(corruption=None, l2=0.01, missing="conditional").fit(rows, CODES)
    changed = rows.copy()
    changed[:, 7] = np.nan
    found, same = model.predict_proba(changed), model.predict_proba(rows)
    np.testing.assert_allclose(found, same, atol=1e-10)
