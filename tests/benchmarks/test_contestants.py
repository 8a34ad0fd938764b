"""The rivals minimise what MCF minimises: with nothing corrupted, the same l2 gives everyone the same weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.contestants import (
    OnCopies,
    Settings,
    TorchModel,
    logistic_lbfgs,
    logistic_liblinear,
    logistic_sgd,
    marginalised,
    ridge,
)
from benchmarks.tasks import Part
from mcf_cli import Blankout, Dropout

L2 = 0.05


def data(n_classes, rows=300, features=6):
    rng = np.random.default_rng(n_classes)
    y = np.arange(rows) % n_classes
    X = rng.poisson(np.where(np.arange(features) % n_classes == y[:, None], 1.5, 0.7)).astype(float)
    return Part(sp.csr_matrix(X), y)


def weights(loss, part):
    return marginalised(loss, Settings(None, L2)).fit(part.X, part.y).coef_


@pytest.mark.parametrize(
    ("make", "loss", "n_classes", "tolerance"),
    [
        (logistic_lbfgs, "logistic", 2, 1e-3),
        (logistic_lbfgs, "logistic", 3, 1e-3),
        (logistic_liblinear, "logistic", 2, 1e-3),
        (logistic_sgd, "logistic", 2, 0.03),
        (ridge, "quadratic", 2, 1e-3),
        (ridge, "quadratic", 3, 1e-3),
    ],
)
def test_scikit_learn_has_the_same_penalty(make, loss, n_classes, tolerance):
    part = data(n_classes)
    model = make(len(part.y), L2, seed=0).fit(part.X, part.y)
    np.testing.assert_allclose(np.atleast_2d(model.coef_), weights(loss, part), atol=tolerance)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dense", [True, False])
def test_pytorch_has_the_same_penalty_and_its_two_kinds_of_batches_agree(n_classes, dense):
    torch = pytest.importorskip("torch")
    part = data(n_classes)
    if not dense:  # columns that are never used
        part = Part(sp.hstack([part.X, sp.csr_matrix((300, 60))], format="csr"), part.y)
    model = TorchModel(part, Settings(Blankout(q=0.0), L2, rate=0.02))
    assert model.dense == dense
    for _ in range(600):
        model.step(torch.arange(300))
    np.testing.assert_allclose(model.weight.detach().numpy().T, weights("logistic", part), atol=2e-3)


@pytest.mark.parametrize("corruption", [Blankout(q=0.3), Dropout(q=0.3)])
def test_pytorch_corrupts_as_mcf_does(corruption):
    torch = pytest.importorskip("torch")
    model = TorchModel(data(2), Settings(corruption, L2, rate=0.02))
    drawn = model._corrupted(torch.full((20_000,), 2.0)).numpy()
    survivor = corruption.survivor(0.3) * 2.0
    np.testing.assert_allclose(np.unique(drawn), [0.0, survivor], rtol=1e-6)
    assert np.mean(drawn == 0.0) == pytest.approx(0.3, abs=0.02)


def test_copies_double_and_a_seed_gives_the_same_errors_again():
    part, settings = data(3), Settings(Blankout(q=0.5), L2)
    rival = OnCopies("", "logistic", logistic_lbfgs)
    first, again = (
        [next(points) for _ in range(4)] for points in (rival.run(part, part, settings, seed=1) for _ in "ab")
    )
    assert [point.amount for point in first] == [1, 2, 4, 8]
    assert [point.error for point in first] == [point.error for point in again]
