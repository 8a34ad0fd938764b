"""Learners: what they leave out changes nothing."""

import weakref
from dataclasses import replace

import numpy as np
import pytest
from mcf_cli.core.problem import Problem
from mcf_cli.datasets import load
from mcf_cli.errors import McfError
from mcf_cli.experiments import learners as methods
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.learners import OnSeenFeatures, columns_together, make_corruption, make_learner
from mcf_cli.experiments.run import run_plan

from tests.experiments.tiny import Recorder, tiny_plan

FIT = {"max_iter": 300, "tol": 1e-6}


@pytest.mark.parametrize("loss", ["quadratic", "exponential", "logistic"])
@pytest.mark.parametrize("corruption", ["none", "blankout", "poisson"])
def test_features_that_never_occur_are_left_out_and_the_fit_is_the_same(loss, corruption):
    dataset, rows = load("builtin-topics", n_train=60, n_test=40), np.arange(60)
    method = {"loss": loss, "corruption": corruption, "penalty": "l2"}
    method |= {"q": 0.4} if corruption == "blankout" else {}
    learner = make_learner({"method": method, "fit": FIT}, dataset, rows)
    assert isinstance(learner, OnSeenFeatures)
    whole = make_learner({"method": method, "fit": FIT}, _dense(dataset), rows)
    assert not isinstance(whole, OnSeenFeatures)
    for (l2, ours), (_, theirs) in zip(learner.path([0.1, 0.01]), whole.path([0.1, 0.01]), strict=True):
        assert ours.coef.shape == theirs.coef.shape, l2
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
        np.testing.assert_allclose(ours.coef, theirs.coef, atol=2e-3 * np.abs(theirs.coef).max())


def _dense(dataset):
    return replace(dataset, X=dataset.X.toarray(), sha256="dense")


def test_folds_of_large_data_are_not_kept_beside_each_other(monkeypatch):
    """Five folds of a large problem would take five times its room; those of a small one are shared by trials."""
    X, y = np.eye(6), np.arange(6) % 2
    shared = methods.SharedProblem(Problem(X, y))
    rows = np.arange(4)
    assert shared.subset(rows) is shared.subset(rows)
    monkeypatch.setattr(methods, "KEPT_BYTES", X.nbytes - 1)
    large = methods.SharedProblem(Problem(X, y))
    gone = weakref.ref(large.subset(rows))
    assert gone() is None


@pytest.fixture
def named():
    """Data whose eight columns have names, one of them with a colon in it."""
    digits = load("builtin-digits")
    names = ("a1", "a2", "a3", "b:x", "b:y", "c1", "c2", "8")
    return replace(digits, X=np.asarray(digits.X[:, 20:28]), feature_names=names)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("4", 4),
        ("a1, a2; c1", [[0, 1], [5]]),
        ("a1:a3; 4:5", [[0, 1, 2], [3, 4]]),
        ("b:x, c1:c2", [[3, 5, 6]]),
        ("a*; b*; c?", [[0, 1, 2], [3, 4], [5, 6]]),
        ("8", [[7]]),
        ("2:a3, 8", [[1, 2, 7]]),
    ],
)
def test_columns_are_grouped_by_names_numbers_ranges_and_patterns(named, groups, expected):
    assert columns_together(groups, named) == expected


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("a1:d1", "no column d1"),
        ("9", "9 columns do not divide 8"),
        ("a1, 9", "no column 9"),
        ("a3:a1", "runs backwards"),
        ("z*", "no column has a name like"),
        ("a1, a2; a2", "in groups more than once"),
        ("0:2", "no column 0"),
    ],
)
def test_groups_that_the_columns_do_not_have_are_refused(named, groups, words):
    with pytest.raises((McfError, ValueError), match=words):
        method = {"corruption": "group_dropout", "q": 0.5, "column_groups": groups}
        make_corruption(method, named).check_parameters(8)


def test_uniform_noise_and_groups_run_like_any_family(tmp_path):
    data = [{"name": "builtin-digits", "column_groups": 8}]
    grid = [
        {"loss": "quadratic", "corruption": ["group_dropout", "group_blankout"], "q": [0.3]},
        {"loss": "quadratic", "corruption": "dropout", "q": [0.3]},
        {"loss": "quadratic", "corruption": "uniform"},
    ]
    select = {"l2": [0.01, 0.1], "a": [0.1, 0.5], "by": "holdout"}
    plan = tiny_plan(datasets=data, grid=grid, select=select)
    outcome = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    assert outcome.ok
    tests = {row["corruption"]: row for row in outcome.rows if row["metric"] == "test_error"}
    assert list(tests) == ["group_dropout", "group_blankout", "dropout", "uniform"]
    assert tests["group_dropout"]["column_groups"] == "8" and "column_groups" not in tests["dropout"]
    assert tests["uniform"]["a"] in (0.1, 0.5)
    heading, *lines = (tmp_path / "tiny/rows.csv").read_text().splitlines()
    assert heading.endswith(",a,column_groups") and lines[0].endswith(",,8")
    other = tiny_plan(
        datasets=[{**data[0], "column_groups": [[*range(1, 9)], "9:16"]}], grid=grid, select=select
    )
    keys, others = ({trial.key for trial in each.trials} for each in (plan, other))
    assert len(keys - others) == 2  # those of the groups, and no other trial


def test_groups_that_do_not_fit_the_data_are_refused_before_any_fit():
    grid = [{"loss": "quadratic", "corruption": "group_dropout", "q": 0.3}]
    for groups, words in (
        (None, "give --column-groups"),
        (7, "7 columns do not divide 64"),
        ("pixel*; 65", "datasets.0.column_groups"),
        ([True], "datasets.0.column_groups: expected groups"),
    ):
        with pytest.raises(McfError, match=words):
            tiny_plan(datasets=[{"name": "builtin-digits", "column_groups": groups}], grid=grid)
    twice = [{"name": "builtin-digits", "column_groups": size} for size in (8, 16)]
    with pytest.raises(McfError, match="twice with different groups"):
        tiny_plan(datasets=twice, grid=grid)
