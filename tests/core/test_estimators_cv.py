"""Choosing the family, its level and l2: compliance, the choice of a grid search, scorings, rules and bad input."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from mcf_cli import (
    Blankout,
    Dropout,
    Gaussian,
    GroupDropout,
    MCFClassifier,
    MCFClassifierCV,
    MCFRegressor,
    MCFRegressorCV,
    Multinomial,
    PerFeature,
    load,
)
from mcf_cli.core.candidates import automatic_l2s, families_of
from mcf_cli.core.model_file import save_model_file
from mcf_cli.core.prediction import Preparation
from mcf_cli.core.problem import Problem
from mcf_cli.core.selection import fits_along
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

SMALL: dict = {"qs": [0.2, 0.6], "l2s": [1e-1, 1e-3], "cv": 3}
CHECKED = [
    MCFClassifierCV(**SMALL),
    MCFClassifierCV(
        loss="quadratic", corruption=["dropout", "gaussian", None], one_standard_error=True, **SMALL
    ),
    MCFRegressorCV(**SMALL),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learn_compliance(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, [3, 5, 8, 9]))[:240]  # the four that are easily confused
    return X[rows] / 16, y[rows]


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, scaled=False)


def grid_of(search):
    """The candidates of a fitted search, one by one and in its order, for a grid search of the plain estimator."""
    return [{name: [value] for name, value in params.items()} for params in search.cv_results_["params"]]


@pytest.mark.parametrize("loss", ["logistic", "quadratic"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_choice_is_that_of_a_grid_search(digits, loss, container):
    X, y = container(digits[0]), digits[1]
    search = MCFClassifierCV(loss, ["blankout", None], qs=[0.2, 0.6, 0.9], l2s=[1e-1, 1e-2, 1e-4], cv=3).fit(
        X, y
    )
    grid = GridSearchCV(MCFClassifier(loss, tol=1e-6), grid_of(search), cv=3).fit(X, y)
    assert repr(search.best_params_) == repr(grid.best_params_)
    found, to_tol = 1.0 - search.cv_results_["mean_test_score"], search.cv_results_["fitted_to_tol"]
    expected = grid.cv_results_["mean_test_score"]
    np.testing.assert_allclose(found[to_tol], expected[to_tol], atol=0.0045)  # one row of 240
    np.testing.assert_allclose(found, expected, atol=0.03)  # a first look
    assert search.best_score_ == pytest.approx(1.0 - grid.best_score_, abs=0.005)
    np.testing.assert_array_equal(
        search.predict(X), MCFClassifier(loss, **search.best_params_).fit(X, y).predict(X)
    )


def test_candidates_that_nearly_tie_are_fitted_until_their_scores_are_settled(digits):
    """However loose `tol` is, those that may be the choice score as fits to 1e-7 do, each from zero."""
    X, y = digits
    search = MCFClassifierCV(tol=1e-2, qs=[0.1, 0.3], l2s=[3e-3, 1e-3, 3e-4], cv=2).fit(X, y)
    grid = GridSearchCV(MCFClassifier(tol=1e-7), grid_of(search), cv=2).fit(X, y)
    settled, found = 1.0 - grid.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    near = found <= found.min() + 1.0 / len(y) + 1e-12
    assert near.sum() > 1
    np.testing.assert_allclose(found[near], settled[near], atol=1e-12)
    assert repr(search.best_params_) == repr(grid.best_params_)


def test_a_path_that_looks_ahead_ends_at_the_same_minima(digits):
    problem = Problem(digits[0], np.unique(digits[1], return_inverse=True)[1], loss="exponential")
    l2s = [1.0, 0.1, 0.03, 1e-3]
    for (l2, ours), (_, theirs) in zip(
        fits_along(problem, Dropout(q=0.3), l2s, ahead=True, tol=1e-6),
        fits_along(problem, Dropout(q=0.3), l2s, tol=1e-6),
        strict=True,
    ):
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-9), l2
        assert ours.converged


def test_a_regression_chooses_as_a_grid_search_does(diabetes):
    X, y = diabetes
    X = X / X.std(axis=0)
    search = MCFRegressorCV(
        ["blankout", "gaussian"], qs={"blankout": [0.01, 0.1]}, l2s=[1.0, 0.01], cv=4
    ).fit(X, y)
    folds = KFold(4)
    grid = GridSearchCV(MCFRegressor(), grid_of(search), cv=folds, scoring="neg_mean_squared_error").fit(X, y)
    assert repr(search.best_params_) == repr(grid.best_params_)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], -grid.cv_results_["mean_test_score"], rtol=1e-7
    )
    by_r2 = clone(search).set_params(scoring="r2").fit(X, y)
    model = MCFRegressor(**by_r2.best_params_)
    scores = [model.fit(X[train], y[train]).score(X[test], y[test]) for train, test in folds.split(X)]
    assert by_r2.best_score_ == pytest.approx(np.mean(scores), rel=1e-9)
    assert by_r2.best_score_ == by_r2.cv_results_["mean_test_score"].max()


def test_what_was_tried_is_kept_in_order(digits):
    search = MCFClassifierCV(corruption=[None, "dropout"], qs=[0.5, 0.1], l2s=[1e-3, 1e-1, 1e-2], cv=3).fit(
        *digits
    )
    assert {name: scores.shape for name, scores in search.scores_path_.items()} == {
        "none": (3, 1, 3),
        "dropout": (3, 2, 3),
    }
    assert search.qs_["dropout"].tolist() == [0.1, 0.5]
    assert search.l2s_.tolist() == [1e-1, 1e-2, 1e-3]
    columns = search.cv_results_
    stacked = np.concatenate([scores.reshape(3, -1) for scores in search.scores_path_.values()], axis=1)
    np.testing.assert_array_equal(stacked, [columns[f"split{fold}_test_score"] for fold in range(3)])
    np.testing.assert_array_equal(stacked.mean(axis=0), columns["mean_test_score"])
    assert columns["rank_test_score"][search.best_index_] == 1
    assert columns["mean_test_score"][columns["fitted_to_tol"]].min() == search.best_score_
    assert columns["params"][search.best_index_] == search.best_params_
    assert {len(column) for column in columns.values()} == {9}
    assert columns["fitted_to_tol"][search.best_index_]


def test_equal_scores_go_to_the_weakest_corruption_and_the_strongest_penalty():
    X = np.repeat(np.array([[3.0, 0.0], [0.0, 3.0]]), 12, axis=0)
    y = np.repeat([0, 1], 12)
    search = MCFClassifierCV(qs=[0.4, 0.1], l2s=[1e-3, 1e-1], cv=3).fit(X, y)
    assert (search.best_score_, search.q_, search.l2_) == (0.0, 0.1, 1e-1)
    simplest = MCFClassifierCV(qs=[0.4, 0.1], l2s=[1e-3, 1e-1], cv=3, one_standard_error=True).fit(X, y)
    assert (simplest.q_, simplest.l2_) == (0.4, 1e-1)


def test_the_one_standard_error_rule_takes_the_strongest_that_is_nearly_as_good(digits):
    search = MCFClassifierCV("quadratic", qs=[0.1, 0.3, 0.5, 0.7, 0.95], l2s=[1.0, 1e-2, 1e-4], cv=4).fit(
        *digits
    )
    simple = clone(search).set_params(one_standard_error=True).fit(*digits)
    scores = search.scores_path_["blankout"]
    best = scores.mean(axis=0).min()
    slack = scores[:, *np.argwhere(scores.mean(axis=0) == best)[0]].std(ddof=1) / 2.0
    near = scores.mean(axis=0) <= best + slack
    level = np.flatnonzero(near.any(axis=1))[-1]
    assert simple.q_ == search.qs_["blankout"][level]
    assert simple.l2_ == search.l2s_[np.flatnonzero(near[level])[0]]
    assert (simple.q_, simple.l2_) != (search.q_, search.l2_)


def test_leaving_one_out_is_refitting_without_each_row(diabetes):
    X, y = diabetes[0][:40], diabetes[1][:40]
    form = {"qs": [0.05, 0.3], "l2s": [1.0, 0.0]}
    ours, refits = (
        MCFRegressorCV(cv="loo", **form).fit(X, y),
        MCFRegressorCV(cv=LeaveOneOut(), **form).fit(X, y),
    )
    np.testing.assert_allclose(ours.scores_path_["blankout"], refits.scores_path_["blankout"], rtol=1e-6)
    assert ours.best_params_["l2"] == refits.best_params_["l2"]
    labels = y > np.median(y)
    ours = MCFClassifierCV("quadratic", cv="loo", **form).fit(X, labels)
    assert ours.best_score_ == pytest.approx(ours.loo_error(X, labels))


def test_log_loss_is_that_of_the_probabilities(digits):
    X, y = digits
    search = MCFClassifierCV(qs=[0.3], l2s=[1e-2], cv=3, scoring="log_loss").fit(X, y)
    named = MCFClassifierCV(qs=[0.3], l2s=[1e-2], cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_score_ == pytest.approx(-named.best_score_, rel=1e-12)
    scores = [
        -get_scorer("neg_log_loss")(
            MCFClassifier(corruption=Blankout(q=0.3), l2=1e-2).fit(X[train], y[train]), X[test], y[test]
        )
        for train, test in StratifiedKFold(3).split(X, y)
    ]
    assert search.best_score_ == pytest.approx(np.mean(scores), rel=1e-3)


def test_deletion_asks_for_more_corruption_than_whole_rows_do(digits):
    form = {
        "corruption": "dropout",
        "qs": [0.0, 0.2, 0.5, 0.8],
        "l2s": [1e-2, 1e-4],
        "cv": 3,
        "random_state": 0,
    }
    whole, deleted = (
        MCFClassifierCV(scoring=scoring, **form).fit(*digits) for scoring in ("error", ("deletion", 0.7))
    )
    assert deleted.q_ > whole.q_
    assert deleted.best_score_ > whole.best_score_
    again = MCFClassifierCV(scoring=("deletion", 0.7), **form).fit(sp.csr_matrix(digits[0]), digits[1])
    assert again.q_ > whole.q_
    none = MCFClassifierCV(scoring=("deletion", 0.0), **form).fit(*digits)
    np.testing.assert_allclose(none.scores_path_["dropout"], whole.scores_path_["dropout"])


def test_groups_stay_together_and_a_callable_scores():
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(60, 4)), np.arange(60) % 2, np.arange(60) // 6
    met = []

    def accuracy(model, X, y):
        met.append(len(y))
        return model.score(X, y)

    search = MCFClassifierCV(qs=[0.3], l2s=[0.1], cv=5, scoring=accuracy).fit(X, y, groups=groups)
    assert set(met) == {12}  # two whole groups
    assert search.best_score_ > 0.0
    by_name = MCFClassifierCV(qs=[0.3], l2s=[0.1], cv=5, scoring="accuracy").fit(X, y, groups=groups)
    assert by_name.best_score_ == search.best_score_


def test_weights_count_in_fits_and_scores():
    """A row of weight 2 is two rows, and a row of weight 0 is none, in folds that keep copies together."""
    rng = np.random.default_rng(1)
    X, weight = rng.normal(size=(90, 3)), rng.integers(0, 3, size=90)
    y, fold = (X[:, 0] + rng.normal(size=90) > 0).astype(int), np.arange(90) % 3
    rows = np.repeat(np.arange(90), weight)

    def divisions(of):
        return [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(3)]

    form = {"qs": [0.1, 0.5], "l2s": [1e-1, 1e-3], "tol": 1e-6}
    for scoring in ("error", "log_loss", "neg_log_loss"):
        weighted = MCFClassifierCV(cv=divisions(fold), scoring=scoring, **form).fit(X, y, weight)
        copied = MCFClassifierCV(cv=divisions(fold[rows]), scoring=scoring, **form).fit(X[rows], y[rows])
        a, b = weighted.scores_path_["blankout"], copied.scores_path_["blankout"]
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-12)
        np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-5)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0}], ids=["balanced", "dict"])
def test_class_weights_are_those_of_a_grid_search(class_weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = (X[:, 0] + rng.normal(size=300) > 1.2).astype(int)
    form = {"class_weight": class_weight, "tol": 1e-6}
    search = MCFClassifierCV(qs=[0.1, 0.4], l2s=[1e-1, 1e-2], cv=3, scoring="f1", **form).fit(X, y)
    grid = GridSearchCV(MCFClassifier(**form), grid_of(search), cv=3, scoring="f1").fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"])
    np.testing.assert_allclose(search.coef_, grid.best_estimator_.coef_, atol=1e-8)


def test_folds_in_parallel_change_nothing(digits):
    one, two = (MCFClassifierCV(n_jobs=n_jobs, **SMALL).fit(*digits) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.scores_path_["blankout"], two.scores_path_["blankout"])
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_the_chosen_model_predicts_and_is_saved_as_itself(digits, tmp_path):
    X, y = digits
    search = MCFClassifierCV(corruption=Dropout(), **SMALL).fit(X, y)
    search.save(tmp_path / "model.npz")
    model = load(tmp_path / "model.npz")
    assert isinstance(model, MCFClassifier)
    assert repr(model.corruption) == repr(search.corruption_)
    for marginalize in (False, True):
        found = search.predict_proba(X[:5], marginalize=marginalize)
        np.testing.assert_array_equal(found, model.predict_proba(X[:5], marginalize=marginalize))
    np.testing.assert_array_equal(search.decision_function(X), model.decision_function(X))
    save_model_file(make_pipeline(Preparation("max"), search).fit(X, y), tmp_path / "pipeline.npz")
    assert isinstance(load(tmp_path / "pipeline.npz")[-1], MCFClassifier)


def test_without_a_refit_there_are_scores_and_no_model(digits):
    search = MCFClassifierCV(refit=False, **SMALL).fit(*digits)
    assert search.q_ in SMALL["qs"]
    with pytest.raises(NotFittedError):
        search.predict(digits[0])


def test_automatic_grids_follow_the_scale_of_the_data(digits):
    X, y = digits
    for factor in (1.0, 100.0):
        (noise,) = families_of("gaussian", None, factor * X)
        spread = np.sqrt((factor * X).var(axis=0).mean())
        assert noise.levels[0] == 0.0
        assert noise.levels[-1] == pytest.approx(2.0 * spread, rel=0.01)
        l2s = automatic_l2s(factor * X, "logistic")
        assert 0.5 < l2s[0] / (factor * X).var(axis=0).max() < 2.0
        np.testing.assert_allclose(np.diff(np.log10(l2s)), -0.5, atol=0.002)
    assert automatic_l2s(X, "quadratic")[-1] == 0.0
    assert automatic_l2s(sp.csr_array(X), "logistic") == automatic_l2s(X, "logistic")
    search = MCFClassifierCV("quadratic", ["blankout", "poisson", "bitswap"], cv=2).fit(
        (X > 0.5).astype(float), y
    )
    assert [len(levels) for levels in search.qs_.values()] == [9, 1, 8]
    assert 1.0 - search.score((X > 0.5).astype(float), y) < search.best_score_ < 0.2


def test_fits_that_do_not_converge_are_not_chosen_in_silence(digits):
    with pytest.warns(ConvergenceWarning, match="chosen candidate"):
        MCFClassifierCV(qs=[0.3], l2s=[1e-4], cv=2, max_iter=1).fit(*digits)


def test_the_path_is_drawn_with_its_choice(digits):
    pytest.importorskip("matplotlib").use("Agg")
    search = MCFClassifierCV(corruption=["blankout", Gaussian(), None], **SMALL).fit(*digits)
    ax = search.plot_path()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["blankout", "gaussian", "none"]
    ring = ax.get_lines()[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (search.q_ or 0.0, search.best_score_)
    assert search.plot_path(ax) is ax


def test_families_may_speak_of_columns_by_name(digits):
    frame = pd.DataFrame(digits[0][:, 20:28], columns=[*("a1", "a2", "a3"), *("b1", "b2", "b3", "b4", "b5")])
    families = [
        PerFeature([(["a1"], Dropout(q=0.3)), (make_column_selector(pattern="b"), Gaussian(0.1))]),
        GroupDropout([["a1", "a2", "a3"], slice("b1", "b5")]),
    ]
    search = MCFClassifierCV("quadratic", families, qs=[0.5], l2s=[0.1], cv=2).fit(frame, digits[1])
    names = list(search.scores_path_)
    by_name = MCFClassifier("quadratic", families[names.index(search.family_)], l2=0.1).fit(frame, digits[1])
    assert len(names) == 2
    np.testing.assert_allclose(search.coef_, by_name.coef_)
    regression = MCFRegressorCV(families, qs=[0.5], l2s=[0.1], cv=2).fit(frame, digits[1])
    assert list(regression.feature_names_in_) == list(frame)


def test_one_level_a_feature_stays_unless_levels_are_given(digits):
    X, y = digits
    own = Dropout(q=np.linspace(0.0, 0.5, X.shape[1]))
    search = MCFClassifierCV(corruption=[own, "blankout"], l2s=[1e-2], cv=2, qs={"blankout": [0.9]}).fit(X, y)
    assert search.corruption_ is own and search.q_ is None
    np.testing.assert_allclose(search.coef_, MCFClassifier(corruption=own, l2=1e-2).fit(X, y).coef_)
    confused = families_of(Multinomial(blocks=2, confusion=[[0.9, 0.1], [0.2, 0.8]]), None, X)
    assert confused[0].levels == (None,)
    assert families_of(own, [0.1, 0.3], X)[0].levels == (0.1, 0.3)


@pytest.mark.parametrize(
    "scoring",
    [
        lambda model, X, y: model.score(X, y),
        make_scorer(lambda y, found: np.mean(y == found)),
        "neg_max_error",
    ],
    ids=["callable", "a plain function", "a metric"],
)
def test_scorers_that_take_no_weights_get_none(digits, scoring):
    X, y = digits
    weight, cv = np.random.default_rng(0).uniform(0.5, 2.0, len(y)), KFold(2)
    grid = {"qs": [0.2], "l2s": [0.1], "cv": cv, "scoring": scoring}
    if scoring == "neg_max_error":
        search, model = MCFRegressorCV(**grid), MCFRegressor(corruption=Blankout(0.2), l2=0.1)
    else:
        search, model = MCFClassifierCV(**grid), MCFClassifier(corruption=Blankout(0.2), l2=0.1)
    scorer, scores = get_scorer(scoring), []
    for train, test in cv.split(X):
        scores.append(scorer(model.fit(X[train], y[train], weight[train]), X[test], y[test]))
    assert search.fit(X, y, sample_weight=weight).best_score_ == pytest.approx(np.mean(scores), rel=1e-3)


def test_leaving_one_out_in_parallel_changes_nothing_and_keeps_no_groups(diabetes):
    X, y = diabetes[0][:50], diabetes[1][:50]
    one, two = (
        MCFRegressorCV(qs=[0.1, 0.3], l2s=[0.1, 1.0], cv="loo", n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.scores_path_["blankout"], two.scores_path_["blankout"])
    with pytest.raises(ValueError, match="leaves out single rows, not groups"):
        MCFRegressorCV(cv="loo").fit(X, y, groups=np.arange(50) % 5)


BAD = {
    "levels that are no numbers": (dict(qs="a"), "qs of blankout must be one or more finite numbers"),
    "penalties that are no numbers": (dict(l2s="a"), "l2s must be one or more finite numbers"),
    "iterations below zero": (dict(max_iter=-5), "max_iter must be a whole number"),
    "no family": (dict(corruption=[]), "empty list"),
    "unknown family": (dict(corruption=["blankout", "salt"]), "corruption='salt'"),
    "level out of range": (dict(qs=[0.2, 1.0]), r"q must lie in \[0, 1\)"),
    "no level": (dict(qs=[]), "qs of blankout"),
    "levels of nobody": (dict(qs={"dropout": [0.1]}), "qs names 'dropout'"),
    "negative l2": (dict(l2s=[-1.0]), "l2s must be"),
    "unknown scoring": (dict(scoring="beauty"), "scoring='beauty'.*log_loss"),
    "deletion of all": (dict(scoring=("deletion", 1.0)), r"rate in \[0, 1\)"),
    "log-loss of squares": (dict(loss="quadratic", scoring="log_loss"), "needs probabilities"),
    "leave-one-out of another loss": (dict(cv="loo"), "cv='loo' needs loss='quadratic'"),
    "leave-one-out of deletion": (dict(loss="quadratic", cv="loo", scoring=("deletion", 0.1)), "take folds"),
    "one fold": (dict(cv=[(np.arange(20), np.arange(20, 30))], one_standard_error=True), "two folds"),
    "a fold of one class": (dict(cv=[(np.arange(0, 30, 2), np.arange(1, 30, 2))]), "fold 0.*one class"),
    "no number": (dict(scoring=make_scorer(lambda y, p: float("nan"))), "no candidate has a finite score"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_its_fix(name):
    parameters, message = BAD[name]
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    with pytest.raises(ValueError, match=message):
        MCFClassifierCV(**{"qs": [0.2], "l2s": [0.1], "cv": 3, **parameters}).fit(X, y)
