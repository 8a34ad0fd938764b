"""The edge of what can be fitted: many classes, huge values and weights; random problems are in test_differential."""

import tracemalloc
import warnings

import numpy as np
import pytest
from mcf_cli import (
    BitSwap,
    Blankout,
    Dropout,
    Gaussian,
    MCFClassifier,
    MCFClassifierCV,
    MCFRegressor,
    MCFRegressorCV,
    PerFeature,
    Poisson,
    fit_chunks,
)
from mcf_cli.baselines.fdrop import Fdrop
from mcf_cli.baselines.linear import Hinge
from mcf_cli.core.kernels import dispatch as kernels
from mcf_cli.core.problem import Problem
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.base import clone

from tests.core.random_problems import draw

LOSSES = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen": {"loss": "logistic"},
    "jensen-shared": {"loss": "logistic", "multiclass": "shared"},
    "variational": {"loss": "logistic", "surrogate": "variational"},
    "approximation": {"loss": "logistic", "surrogate": "quadratic"},
}


@pytest.mark.parametrize("name", ["quadratic", "exponential", "jensen-shared"])
def test_a_thousand_classes_with_one_example_each(name):
    rng = np.random.default_rng(7)
    X, y = sparse.csr_matrix(rng.poisson(0.1, (1000, 30)).astype(float)), np.arange(1000)
    model = MCFClassifier(corruption=Blankout(0.5), l2=0.1, max_iter=3, **LOSSES[name]).fit(X, y)
    assert model.coef_.shape == (1000, 30)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.objective_)


@pytest.mark.parametrize(
    ("X", "y", "corruption", "words"),
    [
        (np.array([[np.nan], [1.0]]), [0, 1], Blankout(), "NaN"),
        (np.array([[np.inf], [1.0]]), [0, 1], Blankout(), "infinity"),
        (np.array([[1e300], [1.0]]), [0, 1], Blankout(), "largest value of X is 1e\\+300.*multiply X"),
        (sparse.csr_matrix([[-1e160], [1.0]]), [0, 1], Blankout(), "largest value of X"),
        (np.array([[1e-300], [0.0]]), [0, 1], Blankout(), "largest value of X is 1e-300"),
        (np.ones((2, 1)), [0, 0], Blankout(), "class"),
        (np.ones((0, 1)), [], Blankout(), "0 sample"),
        (np.ones((2, 0)), [0, 1], Blankout(), "0 feature"),
        (np.array([[-1.0], [1.0]]), [0, 1], Poisson(), "Negative values"),
        (np.array([[0.5], [1.0]]), [0, 1], BitSwap(0.1), "needs 0/1 data"),
        (np.ones((2, 1)), [0, 1], Blankout(q=1.0), "q"),
        (np.ones((2, 1)), [0, 1], Blankout(q=[0.1, 0.2]), "q|feature"),
        (np.ones((2, 1)), [0, 1], Gaussian(sigma=-1.0), "sigma"),
    ],
)
def test_what_cannot_be_fitted_is_a_sensible_error(X, y, corruption, words):
    with pytest.raises(ValueError, match=words) as refusal:
        MCFClassifier(corruption=corruption).fit(X, y)
    assert len(str(refusal.value)) < 700


def test_a_target_whose_square_is_infinite_is_refused():
    with pytest.raises(ValueError, match="largest value of y is 1e\\+200"):
        MCFRegressor().fit(np.eye(2), [1e200, 0.0])


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("size", [1e308, 1e-308], ids=["huge", "tiny"])
def test_weights_of_rows_count_by_their_ratios_at_any_size(options, size):
    rng = np.random.default_rng(5)
    X, y, ratios = rng.poisson(1.0, (30, 4)).astype(float), np.arange(30) % 3, rng.uniform(0.1, 1.0, 30)
    model = MCFClassifier(corruption=Blankout(0.3), l2=0.1, **options)
    near = model.fit(X, y, sample_weight=ratios).coef_
    assert np.abs(near).max() > 0.01
    np.testing.assert_allclose(model.fit(X, y, sample_weight=size * ratios).coef_, near, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [1e308, 1e-308], ids=["huge", "tiny"])
def test_balanced_classes_and_searches_take_weights_of_any_size(size):
    rng = np.random.default_rng(5)
    X, y, ratios = rng.poisson(1.0, (30, 4)).astype(float), np.arange(30) % 3, rng.uniform(0.1, 1.0, 30)
    search = {"corruption": "blankout", "qs": [0.1, 0.3], "l2s": [0.1], "cv": 3}
    for model in (
        MCFClassifier(l2=0.1, class_weight="balanced"),
        MCFClassifier(l2=0.1, class_weight={0: size, 1: 0.5 * size, 2: 0.2 * size}),
        MCFClassifierCV(**search),
        MCFRegressorCV(**search),
    ):
        near = model.fit(X, y, sample_weight=ratios).coef_
        far = model.fit(X, y, sample_weight=size * ratios).coef_
        np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-7)


def test_weights_in_chunks_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="chunk 0: sample_weight must be 2 finite numbers from 0 to 1e100"):
        fit_chunks(MCFRegressor(), [(np.eye(2), [1.0, 0.0], [1e308, 1e308])])


@pytest.mark.parametrize("rival", [Hinge, Fdrop])
def test_rivals_refuse_values_whose_square_is_infinite(rival):
    with pytest.raises(ValueError, match="largest value of X is 1e\\+300"):
        rival(np.array([[1e300], [1.0]]), np.array([0, 1]))


@pytest.mark.parametrize(
    "fit_to", [MCFClassifier(loss="quadratic"), MCFClassifier()], ids=["quadratic", "logistic"]
)
def test_a_column_that_its_offset_has_rounded_away_is_told(fit_to):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)) + [1e15, 0.0], np.arange(40) % 2
    with pytest.warns(UserWarning, match="column 0 of X varies by no more than a few roundings"):
        clone(fit_to).set_params(corruption=Gaussian(0.1), l2=0.1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X[:, 0] = 1e15  # nothing is lost of a constant
        clone(fit_to).set_params(corruption=Gaussian(0.1), l2=0.1).fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "corruption", [Blankout(0.5), Dropout(0.3), PerFeature([([0], Dropout(0.3))])], ids=repr
)
@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
def test_rows_of_zeros_have_no_weights(options, corruption, container, classes):
    X, y = container(np.zeros((5, 2))), np.arange(5) % classes
    model = MCFClassifier(corruption=corruption, **options).fit(X, y)
    assert model.converged_ and not model.coef_.any()


@pytest.mark.parametrize("swapped", [False, True], ids=["widest first", "widest last"])
@pytest.mark.parametrize("shared_lambda", [False, True], ids=["a lambda each", "one lambda"])
def test_classes_that_hold_different_columns_add_up_in_compiled_loops(shared_lambda, swapped, monkeypatch):
    """Columns of a class that holds nearly all of them are a slice, those of the other are listed."""
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    monkeypatch.setattr(kernels, "_WORTH_COMPILING", 1)
    rng = np.random.default_rng(4)
    X, y = rng.poisson(2.0, (40, 12)).astype(float), np.repeat([0, 1], 20)
    X[20:, 6:] = 0.0
    problem = Problem(
        sparse.csr_matrix(X), 1 - y if swapped else y, surrogate="variational", shared_lambda=shared_lambda
    )
    point, found = (0.1 * rng.normal(size=(1, 12)), np.zeros(1)), []
    for numba in "10":
        monkeypatch.setenv("MCF_NUMBA", numba)
        found.append(problem.loss_gradient(Blankout(0.3), 0.01, *point))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-6, atol=1e-8)  # what lambda's search may leave


def test_memory_of_the_quadratic_surrogate_does_not_grow_with_the_pairs_of_classes():
    """500 classes have 124,750 pairs; a table of them all would take 50 MB for these few rows alone."""
    rng = np.random.default_rng(2)
    X, y, coef = rng.poisson(1.0, (50, 6)).astype(float), rng.integers(0, 500, 50), rng.normal(size=(500, 6))
    problem = Problem(X, y, surrogate="quadratic", n_classes=500)
    problem.loss_gradient(Blankout(0.5), 0.0, coef, np.zeros(500))  # what is coded once is not counted
    tracemalloc.start()
    value = problem.loss_gradient(Blankout(0.5), 0.0, coef, np.zeros(500))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
    scores = X @ coef.T
    p = softmax(scores, axis=1)
    spread = (
        p @ coef**2 - (p @ coef) ** 2
    )  # of the weights over the classes; the variance of x under q = 1/2 is x^2
    expected = logsumexp(scores, axis=1) - scores[np.arange(50), y] + 0.5 * (X**2 * spread).sum(axis=1)
    assert value == pytest.approx(expected.mean(), rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_compiled_loops_agree_with_numpy_on_random_problems_of_any_size_and_storage(seed, monkeypatch):
    """Problems this small go to numpy otherwise. `make test-bounds` sees to it that no loop leaves its arrays."""
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    monkeypatch.setattr(kernels, "_WORTH_COMPILING", 1)
    monkeypatch.setattr(kernels, "_WORTH_SHARING", 1)
    for number in range(40):
        drawn = draw(seed, number)
        rng, largest = np.random.default_rng(number), np.abs(drawn.X).max()
        reach = np.minimum(1.0 / max(largest, 1.0), 0.4 * drawn.weight_limit)
        point = rng.uniform(-reach, reach, (drawn.outputs, len(reach))), rng.normal(size=drawn.outputs)
        found = []
        for numba in "10":
            monkeypatch.setenv("MCF_NUMBA", numba)
            problem = Problem(drawn.X, drawn.y, n_classes=drawn.classes, **drawn.options)
            found.append(problem.loss_gradient(drawn.corruption, drawn.l2, *point))
        for compiled, plain in zip(*found, strict=True):
            size = np.abs(plain).max()
            np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-9 * size, err_msg=str(drawn))
