"""Learners: what they leave out changes nothing."""

import weakref

import numpy as np
import pytest
from mcf_cli.core.problem import Problem
from mcf_cli.datasets import load
from mcf_cli.experiments import learners as methods
from mcf_cli.experiments.learners import OnSeenFeatures, make_learner

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
    from dataclasses import replace

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
