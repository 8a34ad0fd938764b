"""Whatever the data: finite weights, the same ones every time, an objective no higher than at the start."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, MCFClassifier, Poisson
from mcf_cli.core.problem import Problem
from scipy import sparse

EXAMPLES = int(os.environ.get("MCF_EXAMPLES", 40))  # a campaign asks for thousands
LOSSES = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen": {"loss": "logistic"},
    "jensen-shared": {"loss": "logistic", "multiclass": "shared"},
    "variational": {"loss": "logistic", "surrogate": "variational"},
    "approximation": {"loss": "logistic", "surrogate": "quadratic"},
}
LEVELS = st.sampled_from([0.0, 1e-12, 0.1, 0.5, 0.9, 0.99, 0.9999])
CORRUPTIONS = st.one_of(
    st.none(),
    st.builds(Blankout, LEVELS),
    st.builds(Dropout, LEVELS),
    st.builds(Gaussian, st.sampled_from([1e-8, 1.0, 100.0])),
    st.builds(Laplace, st.sampled_from([1e-8, 0.1])),
    st.builds(Poisson),
    st.builds(BitSwap, LEVELS.filter(lambda q: q != 0.5)),
)
FLAWS = (
    "constant",
    "empty column",
    "duplicated",
    "empty row",
    "duplicated rows",
    "one value",
    "tiny beside huge",
)


@st.composite
def tables(draw):
    """A small table with any number of flaws, on any scale, sparse or dense, and its labels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(2, 12)), draw(st.integers(1, 15))  # often of deficient rank
    X = rng.poisson(1.0, (rows, columns)).astype(float)
    for flaw in draw(st.sets(st.sampled_from(FLAWS))):
        match flaw:
            case "constant":
                X[:, 0] = 1.0
            case "empty column":
                X[:, -1] = 0.0
            case "duplicated":
                X[:, columns // 2 :] = X[:, : columns - columns // 2]
            case "empty row":
                X[0] = 0.0
            case "duplicated rows":
                X[rows // 2 :] = X[: rows - rows // 2]
            case "one value":
                X[:] = 1.0
            case "tiny beside huge":
                X[:, 0] *= 1e-8
                X[:, -1] *= 1e8
    X *= 10.0 ** draw(st.sampled_from([-8, -3, 0, 3, 8]))
    classes = draw(st.integers(2, rows))  # up to one example per class
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    return (sparse.csr_matrix(X) if draw(st.booleans()) else X), y


def suits(options, corruption, X):
    """Bit swaps take bits; the quadratic approximation takes unbiased corruption only."""
    if isinstance(corruption, BitSwap):
        X = X.copy()
        (X.data if sparse.issparse(X) else X)[...] = ((X.data if sparse.issparse(X) else X) > 0).astype(float)
    biased = isinstance(corruption, BitSwap | Dropout)
    return X, not (options.get("surrogate") == "quadratic" and biased)


def fitted(options, corruption, l2, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return MCFClassifier(corruption=corruption, l2=l2, max_iter=20, **options).fit(X, y)


@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(table=tables(), corruption=CORRUPTIONS, l2=st.sampled_from([0.0, 1e-8, 1e-2, 1e3]))
def test_a_fit_on_any_table_is_finite_repeatable_and_downhill(options, table, corruption, l2):
    (X, possible), y = suits(options, corruption, table[0]), table[1]
    if not possible:
        return
    model = fitted(options, corruption, l2, X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.decision_function(X)).all()
    classes = len(model.classes_)
    outputs = 1 if classes == 2 else classes
    problem = Problem(X, y, n_classes=classes, **options)
    start = problem.loss_gradient(corruption, l2, np.zeros((outputs, X.shape[1])), np.zeros(outputs))[0]
    assert model.objective_ <= start * (1 + 1e-9) + 1e-12
    again = fitted(options, corruption, l2, X, y)
    assert np.array_equal(again.coef_, model.coef_) and np.array_equal(again.intercept_, model.intercept_)


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
