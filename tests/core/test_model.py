"""What estimators share: columns by name, weights of classes, precision, nested parameters, what a fit says."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from mcf_cli import (
    Blankout,
    Dropout,
    Gaussian,
    GroupDropout,
    MCFClassifier,
    MCFRegressor,
    Multinomial,
    PerFeature,
    Poisson,
    load,
)
from mcf_cli.core.prediction import Preparation
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from tests.core.cases import CORRUPTED, COUNTS

TIGHT = {"l2": 1e-2, "tol": 1e-8}


def table(rows=80, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.poisson(2.0, (rows, 5)).astype(float), columns=["age", "left", "right", "front", "back"]
    )
    return X, (X.to_numpy() @ rng.normal(size=(5, classes)) + rng.normal(size=(rows, classes))).argmax(axis=1)


# -- columns by name ----------------------------------------------------------------------------------------
WAYS = {
    "names": ["left", "right"],
    "a slice of which the end counts": slice("left", "right"),
    "a selector": make_column_selector(pattern="left|right"),
    "a function": lambda X: [name for name in X.columns if name.endswith("t") and name != "front"],
}


@pytest.mark.parametrize("columns", WAYS.values(), ids=WAYS.keys())
def test_columns_by_name_are_those_by_number(columns, tmp_path):
    X, y = table()
    X["back"] = X["back"].astype("int64")
    by_name = MCFClassifier(corruption=PerFeature([(columns, Dropout(0.4)), (["age"], "gaussian")]), **TIGHT)
    by_number = MCFClassifier(corruption=PerFeature([([1, 2], Dropout(0.4)), ([0], Gaussian())]), **TIGHT)
    by_name.fit(X, y), by_number.fit(X.to_numpy(), y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    expected = by_number.predict_proba(X.to_numpy(), marginalize=True)
    np.testing.assert_array_equal(by_name.predict_proba(X, marginalize=True), expected)
    by_name.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(X, marginalize=True), expected)
    assert list(again.feature_names_in_) == list(X.columns)


def test_names_reach_groups_and_nested_parts():
    X, y = table()
    groups = GroupDropout([["left", "right"], slice("front", "back")], q=[0.2, 0.4])
    nested = PerFeature([(slice("left", "back"), groups)])
    ours = MCFClassifier(corruption=nested, **TIGHT).fit(X, y)
    numbers = MCFClassifier(corruption=GroupDropout([[1, 2], [3, 4]], q=[0.2, 0.4]), **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.coef_, numbers.coef_, atol=1e-12)
    assert nested.parts[0][1] is groups and groups.groups[0] == ["left", "right"]  # left as they were given


@pytest.mark.parametrize(
    ("columns", "frame", "words"),
    [
        (["left", "up"], True, "X has no column 'up'"),
        (["left"], False, "X has no column names; fit to a DataFrame"),
        (make_column_selector(), False, "a selector of columns needs a DataFrame"),
    ],
    ids=["a name that is not there", "names without a frame", "a selector without a frame"],
)
def test_names_that_are_not_there_are_said(columns, frame, words):
    X, y = table()
    with pytest.raises(ValueError, match=words):
        MCFClassifier(corruption=PerFeature([(columns, Dropout())])).fit(X if frame else X.to_numpy(), y)


def test_a_preparation_keeps_names_and_gives_frames():
    X, y = table()
    step = Preparation("standard").set_output(transform="pandas")
    assert list(step.fit_transform(X).columns) == list(X.columns)
    model = make_pipeline(step, MCFClassifier(corruption=PerFeature([(["age"], Gaussian())]), l2=0.1)).fit(
        X, y
    )
    assert list(model[-1].feature_names_in_) == list(X.columns)


# -- weights ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["logistic", "exponential", "quadratic"])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}], ids=str)
def test_a_class_weight_is_a_weight_of_rows(loss, class_weight):
    X, y = table(classes=3)
    y = np.where(np.arange(len(y)) % 4 == 0, y, 1)
    factors = len(y) / (3 * np.bincount(y)) if class_weight == "balanced" else np.array([3.0, 1.0, 0.5])
    ours = MCFClassifier(loss=loss, class_weight=class_weight, **TIGHT).fit(X, y)
    rows = MCFClassifier(loss=loss, **TIGHT).fit(X, y, sample_weight=factors[y])
    np.testing.assert_allclose(ours.coef_, rows.coef_, atol=1e-12)
    plain = MCFClassifier(loss=loss, **TIGHT).fit(X, y)
    assert np.abs(ours.coef_ - plain.coef_).max() > 1e-3


def test_balanced_weights_count_a_row_of_weight_two_twice():
    X, y = table()
    y[: len(y) // 2] = 0
    weight = 1 + np.arange(len(y)) % 3
    model = MCFClassifier(class_weight="balanced", **TIGHT)
    weighted = model.fit(X, y, sample_weight=weight).coef_
    np.testing.assert_allclose(
        weighted, model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).coef_, atol=1e-7
    )


def test_balanced_plain_models_are_those_of_scikit_learn():
    X, y = table()
    y[: len(y) // 2] = 0
    ours = MCFClassifier(corruption=None, class_weight="balanced", **TIGHT).fit(X, y)
    C = 1 / (2 * TIGHT["l2"] * len(y))
    theirs = LogisticRegression(C=C, class_weight="balanced", tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


@pytest.mark.parametrize("bad", ["even", {0: 0.0}, {0: -1.0}, {7: 2.0}], ids=str)
def test_class_weights_that_will_not_do_are_refused(bad):
    X, y = table()
    with pytest.raises(ValueError, match=r"class_weight|classes"):
        MCFClassifier(class_weight=bad).fit(X, y)


def test_sample_weight_is_routed_to_the_model():
    X, y = table()
    weight = np.random.default_rng(0).uniform(0.1, 5.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = MCFClassifier(**TIGHT).set_fit_request(sample_weight=True)
        routed = make_pipeline(Preparation("max"), model).fit(X, y, sample_weight=weight)
    direct = MCFClassifier(**TIGHT).fit(Preparation("max").fit_transform(X), y, sample_weight=weight)
    np.testing.assert_array_equal(routed[-1].coef_, direct.coef_)


# -- parameters ---------------------------------------------------------------------------------------------
def test_a_grid_reaches_the_parameter_of_a_corruption_given_by_name():
    X, y = table(200)
    grid = {"corruption": ["dropout", "blankout", Blankout(0.9)], "corruption__q": [0.1, 0.3]}
    search = GridSearchCV(MCFClassifier(l2=0.1, tol=1e-3), grid, cv=2).fit(X, y)
    tried = [(str(p["corruption"]), p["corruption__q"]) for p in search.cv_results_["params"]]
    assert len(tried) == 6 and search.best_estimator_.corruption.q in (0.1, 0.3)
    by_hand = GridSearchCV(
        MCFClassifier(l2=0.1, tol=1e-3), {"corruption": [Dropout(0.1), Dropout(0.3)]}, cv=2
    ).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"][:2], by_hand.cv_results_["mean_test_score"]
    )
    with pytest.raises(ValueError, match="corruption='salt' is not known"):
        MCFClassifier().set_params(corruption="salt", corruption__q=0.1)


# -- precision and containers -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "container", [np.asarray, sp.csr_array, sp.csr_matrix], ids=["dense", "array", "matrix"]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_float32_rows_have_float32_scores(container, classes):
    X, y = table(classes=classes)
    model = MCFClassifier(**TIGHT).fit(X.to_numpy(), y)
    narrow = container(X.to_numpy(dtype=np.float32))
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        found, expected = getattr(model, method)(narrow), getattr(model, method)(X.to_numpy())
        assert (found.dtype, expected.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    regression = MCFRegressor(l2=0.1).fit(narrow, y.astype(float))
    assert regression.predict(narrow).dtype == np.float32 and regression.coef_.dtype == np.float64


def test_logarithms_of_tiny_probabilities_are_finite():
    model = MCFClassifier(corruption=None, l2=1e-3).fit([[0.0], [1.0]], [0, 1])
    log_p = model.predict_log_proba([[1e6]])
    assert np.isfinite(log_p).all() and log_p[0, 0] < -1e4
    X, y = table(classes=3)
    model = MCFClassifier(**TIGHT).fit(X, y)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("case", CORRUPTED, ids=str)
def test_a_seed_will_do_to_draw_a_copy_and_a_sparse_array_stays_one(case):
    drawn = case.corruption.sample(case.X, 3)
    np.testing.assert_array_equal(drawn, case.corruption.sample(case.X, np.random.default_rng(3)))
    assert case.corruption.sample(case.X).shape == case.X.shape
    for container in (sp.csr_array, sp.csr_matrix):
        copy = case.corruption.sample(container(case.X), 3)
        assert not sp.issparse(copy) or type(copy) is container


def test_sparse_arrays_go_through_a_preparation():
    assert isinstance(Preparation("max").fit_transform(sp.csr_array(COUNTS)), sp.csr_array)
    assert isinstance(Preparation("max").fit_transform(sp.csr_matrix(COUNTS)), sp.csr_matrix)


# -- what a fit says ----------------------------------------------------------------------------------------
def test_a_fit_says_a_line_where_it_is_asked_to(capsys):
    X, y = table()
    MCFClassifier(corruption=Poisson(), l2=0.1).fit(X, y)
    assert capsys.readouterr().out == ""
    model = MCFClassifier(corruption=Poisson(), l2=0.1, verbose=True).fit(X, y)
    line = capsys.readouterr().out
    assert f"MCFClassifier: objective {model.objective_:.6g} after {model.n_iter_} iterations" in line
    assert line.count("\n") == 1


def test_a_corruption_shows_its_parameters_wherever_it_is_printed():
    assert repr(MCFClassifier(corruption=Blankout(q=0.5))) == "MCFClassifier(corruption=Blankout(q=0.5))"
    grid = GridSearchCV(make_pipeline(MCFClassifier(corruption=PerFeature([([0], Dropout())]))), {})
    assert "Dropout(q=0.5)" in repr(grid) and "l2" not in repr(grid)
    assert str(signature(Dropout)) == "(q: 'Any' = 0.5)"  # help still tells the default
    assert repr(clone(Dropout())) == "Dropout(q=0.5)"


@pytest.mark.parametrize("corruption", [None, [None, "dropout"]], ids=["none", "a list"])
def test_what_is_no_corruption_has_no_level_to_set(corruption):
    with pytest.raises(ValueError, match="no parameter for corruption__q; set corruption to one"):
        MCFClassifier(corruption=corruption).set_params(corruption__q=0.1)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_float32_rows_have_float32_copies_and_marginal_probabilities(container):
    X, y = table(classes=2)
    rows = container(X.to_numpy().astype(np.float32))
    assert Dropout(q=0.3).sample(rows, 0).dtype == Poisson().sample(rows, 0).dtype == np.float32
    assert Dropout(q=0.3).sample(rows.astype(np.int64), 0).dtype == np.float64
    model = MCFClassifier(corruption=Dropout(q=0.3), **TIGHT).fit(rows, y)
    for method in ("exact", "bound", "sample"):
        options = {"marginalize": True, "method": method, "n_samples": 5}
        single, double = (model.predict_proba(each, **options) for each in (rows, rows.astype(np.float64)))
        assert single.dtype == np.float32 and double.dtype == np.float64
        np.testing.assert_allclose(single, double, rtol=1e-5)


def test_a_copy_of_a_frame_may_speak_of_its_columns():
    X, _ = table()
    by_name = PerFeature([(["left"], Dropout(q=0.5))]).sample(X, 0)
    np.testing.assert_array_equal(by_name, PerFeature([([1], Dropout(q=0.5))]).sample(X.to_numpy(), 0))


def test_blocks_of_symbols_may_be_given_by_name():
    symbols = np.random.default_rng(0).integers(0, 2, (60, 2))
    X = pd.DataFrame(np.column_stack([symbols == 0, symbols == 1]).astype(float), columns=list("abcd"))
    y = symbols[:, 0]
    named = MCFClassifier(corruption=Multinomial(blocks=[["a", "c"], ["b", "d"]]), **TIGHT).fit(X, y)
    numbered = MCFClassifier(corruption=Multinomial(blocks=[[0, 2], [1, 3]]), **TIGHT).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
    for blocks, rows, words in [
        ([["a", "c"], ["b", "d"]], X.to_numpy(), "gives columns by name, and X has no column names"),
        (["a", "b", "c", "d"], X, "give a list a block"),
        (None, X, "give the number of symbols of each block"),
    ]:
        with pytest.raises(ValueError, match=words):
            MCFClassifier(corruption=Multinomial(blocks=blocks)).fit(rows, y)
