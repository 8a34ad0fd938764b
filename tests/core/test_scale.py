"""Data of every size give the same numbers: the loss of many rows is the mean of those of a few at a time.

The core lays large data out differently from the small that brute force can judge: tables that outgrow the
cache, values that hardly repeat, columns that few rows hold, many classes. The mean loss is additive over
rows, so the whole is held against small pieces of itself, each of which takes the plain path.
"""

import numpy as np
import pytest
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, PerFeature, Poisson
from mcf_cli.core.problem import Problem
from scipy import sparse

RNG = np.random.default_rng(31)


def counts(rows, columns, density, largest):
    """Sparse counts 1 .. largest, at random places."""
    held = sparse.random(rows, columns, density, format="csr", random_state=RNG)
    held.data = RNG.integers(1, largest + 1, size=held.nnz).astype(float)
    return held


def symbols(rows, blocks, letters):
    codes = RNG.integers(letters, size=(rows, blocks))
    return np.eye(letters)[codes].reshape(rows, blocks * letters)


DATA = {
    # the distinct (feature, value) pairs, times three classes, outgrow the cache and still recur often
    "recurring-counts": counts(600, 700, 0.45, 64),
    # hardly a value occurs twice
    "measurements": RNG.normal(size=(500, 90)),
    # values recur, but hardly in the same column
    "rare-pairs": counts(120, 900, 0.4, 200),
    # most columns are empty in most rows
    "long-documents": counts(150, 20000, 0.004, 120),
}
FAMILIES = {
    "none": None,
    "blankout": Blankout(0.4),
    "dropout-per-feature": Dropout,  # made for the number of columns
    "poisson": Poisson(),
    "gaussian": Gaussian(0.1),
    "mixed": PerFeature,
}
OPTIONS = {
    "exponential": {"loss": "exponential"},
    "quadratic": {"loss": "quadratic"},
    "jensen-pairwise": {"multiclass": "pairwise"},
    "jensen-shared": {"multiclass": "shared"},
    "quadratic-approximation": {"surrogate": "quadratic"},
}


def made_for(family, columns):
    if family is Dropout:
        return Dropout(np.linspace(0, 0.9, columns))
    if family is PerFeature:
        odd, even = np.arange(1, columns, 2), np.arange(0, columns, 2)
        return PerFeature([(odd, Blankout(np.linspace(0, 0.8, len(odd)))), (even, Gaussian(0.2))])
    return family


def whole_and_parts(X, corruption, options, classes, rows_at_once):
    """(value, coef gradient, intercept gradient) of all rows, and the weighted mean of those of its parts."""
    rng = np.random.default_rng(classes)
    y = rng.permutation(np.arange(X.shape[0]) % classes)
    times = rng.uniform(0.5, 2.0, size=X.shape[0])
    outputs = 1 if classes == 2 else classes
    scale = np.sqrt(np.asarray(abs(X).sum(axis=1)).max() * abs(X).max())
    coef, intercept = rng.normal(size=(outputs, X.shape[1])) / scale, rng.normal(size=outputs)

    def evaluate(rows):
        problem = Problem(X[rows], y[rows], n_classes=classes, sample_weight=times[rows], **options)
        return problem.loss_gradient(corruption, 0.0, coef, intercept)

    parts = [np.arange(start, min(start + rows_at_once, len(y))) for start in range(0, len(y), rows_at_once)]
    shares = [times[rows].sum() / times.sum() for rows in parts]
    of_parts = [evaluate(rows) for rows in parts]
    mean = [sum(share * part[i] for share, part in zip(shares, of_parts, strict=True)) for i in range(3)]
    return evaluate(np.arange(len(y))), mean


def assert_same(whole, parts):
    for left, right in zip(whole, parts, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12 * np.max(np.abs(right)))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize("X", DATA.values(), ids=DATA.keys())
def test_many_rows_are_the_mean_of_a_few_at_a_time(X, family, options):
    if isinstance(family, Poisson):
        X = abs(X)
    corruption = made_for(family, X.shape[1])
    assert_same(*whole_and_parts(X, corruption, options, classes=3, rows_at_once=30))


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
@pytest.mark.parametrize("name", ["measurements", "rare-pairs"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_variational_bound_of_many_rows(name, multiclass, classes):
    options = {"surrogate": "variational", "multiclass": multiclass}
    assert_same_to_search(*whole_and_parts(DATA[name], Blankout(0.4), options, classes, rows_at_once=30))


def assert_same_to_search(whole, parts):
    """Each lambda is found by a search, so the gradients agree to its tolerance."""
    assert whole[0] == pytest.approx(parts[0], rel=1e-9)
    for left, right in zip(whole[1:], parts[1:], strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6 * np.max(np.abs(right)))


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
@pytest.mark.parametrize("corruption", [Blankout(0.5), Poisson(), Laplace(0.01)], ids=str)
def test_many_classes(corruption, multiclass):
    X = counts(200, 300, 0.3, 40)
    assert_same(*whole_and_parts(X, corruption, {"multiclass": multiclass}, classes=40, rows_at_once=40))


@pytest.mark.parametrize("options", [{"multiclass": "shared"}, {"surrogate": "quadratic"}], ids=str)
def test_rows_that_outgrow_the_cache_with_many_classes(options):
    """Neither the table nor the scores fit: the product itself is done in pieces."""
    X = counts(6000, 60, 0.3, 100)
    assert_same(*whole_and_parts(X, Blankout(0.5), options, classes=30, rows_at_once=1000))


@pytest.mark.parametrize(
    ("corruption", "X"),
    [
        (BitSwap(0.1), (RNG.random((300, 400)) < 0.2).astype(float)),
        (Multinomial(q=0.2, blocks=8), symbols(300, 60, 8)),
    ],
    ids=["bitswap", "multinomial"],
)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_noise_that_reaches_zeros(corruption, X, options, container):
    assert_same(*whole_and_parts(container(X), corruption, options, classes=3, rows_at_once=25))


@pytest.mark.parametrize("method", ["direct", "cg"])
@pytest.mark.parametrize("corruption", [Blankout(0.6), Poisson(), Gaussian(0.5), Dropout(0.3)], ids=str)
@pytest.mark.parametrize("shape", [(900, 300), (150, 1200)], ids=["tall", "wide"])
def test_both_quadratic_solvers_reach_the_minimum(corruption, shape, method):
    X = counts(*shape, 0.05, 6)
    problem = Problem(X, np.arange(shape[0]) % 3, loss="quadratic")
    solution = problem.solve(corruption, 1e-3, method=method)
    _, grad_coef, grad_intercept = problem.loss_gradient(corruption, 1e-3, solution.coef, solution.intercept)
    np.testing.assert_allclose(grad_coef, 0, atol=1e-8)
    np.testing.assert_allclose(grad_intercept, 0, atol=1e-8)


def test_large_sparse_systems_are_left_to_conjugate_gradients():
    """Where the corruption regularises every column; dense data of the same size is solved in closed form."""
    X, y = counts(1030, 1050, 0.01, 6), np.arange(1030) % 2
    sparse_fit = Problem(X, y, loss="quadratic").solve(Blankout(0.6), 1e-3)
    dense_fit = Problem(X.toarray(), y, loss="quadratic").solve(Blankout(0.6), 1e-3)
    assert sparse_fit.message.startswith("conjugate gradients")
    assert dense_fit.message == "closed form"
    np.testing.assert_allclose(sparse_fit.coef, dense_fit.coef, atol=1e-6)
