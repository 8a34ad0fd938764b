"""A fit from the sums of chunks is the fit to all rows at once."""

from dataclasses import replace

import numpy as np
import pytest
from mcf_cli import Blankout, Dropout, Gaussian, Laplace, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.scale.sums import Chunk, SummedObjective, Task, added, chunk_moments, minimise_quadratic, solve
from scipy import sparse

from tests.core.cases import CASES, LABELS, weights
from tests.core.loss_cases import TWO_CLASSES_ONLY

OPTIONS = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen-pairwise": {"multiclass": "pairwise"},
    "jensen-shared": {"multiclass": "shared"},
    "quadratic-approximation": {"surrogate": "quadratic"},
    "gaussian": {"surrogate": "gaussian"},
    "exact": {"surrogate": "exact"},
}
FAMILIES = {
    "none": None,
    "blankout": Blankout(0.4),
    "dropout-per-feature": Dropout(np.linspace(0.0, 0.9, 30)),
    "poisson-clip": Poisson(clip=2.0),
    "gaussian": Gaussian(0.3),
    "laplace": Laplace(0.8),  # its bound on the weights is reached
}
CUTS = [slice(0, 7), slice(7, 8), slice(8, 60), slice(60, 150)]


def task_of(corruption, n_features, classes, l2=0.0, **options):
    return Task.checked(
        corruption,
        n_features=n_features,
        n_classes=classes,
        n_outputs=1 if classes <= 2 else classes,
        l2=l2,
        options={"loss": "logistic"} | options,
    )


def counts_and_labels(classes):
    """Counts whose first columns depend on the class; the first chunk lacks some classes."""
    rng = np.random.default_rng(classes)
    y = np.sort(rng.integers(0, classes, size=150))
    rate = 0.3 + 0.5 * np.eye(30)[:classes][y]
    return rng.poisson(rate).astype(float), y


EVERY_OPTION = pytest.mark.parametrize(
    ("options", "classes"),
    [
        pytest.param(options, classes, id=f"{name}-{classes}")
        for name, options in OPTIONS.items()
        for classes in (2, 3)
        if classes == 2 or options.get("surrogate") not in TWO_CLASSES_ONLY
    ],
)


@EVERY_OPTION
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_solution_is_that_of_all_rows(family, options, classes):
    """Two classes go through dense data, three through sparse."""
    X, y = counts_and_labels(classes)
    X = X if classes == 2 else sparse.csr_matrix(X)
    task = task_of(family, 30, classes, 0.01, **options)
    chunks = [Chunk(X[rows], y[rows], task) for rows in CUTS]
    moments = sum(chunk_moments(X[rows], task) for rows in CUTS)
    ours = solve(
        task, 150, moments, lambda W, b: added(chunk.sums(W, b) for chunk in chunks), max_iter=9999, tol=1e-9
    )
    method = "direct" if options.get("loss") == "quadratic" else "lbfgs"
    problem = Problem(X, y, n_classes=classes, **options)
    whole = problem.solve(family, 0.01, max_iter=9999, tol=1e-9, method=method)
    np.testing.assert_allclose(ours.coef, whole.coef, atol=1e-6)
    np.testing.assert_allclose(ours.intercept, whole.intercept, atol=1e-6)
    assert ours.objective == pytest.approx(whole.objective, abs=1e-10)
    assert ours.converged


@EVERY_OPTION
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_chunk_on_copied_arrays_gives_the_same_sums(case, options, classes):
    y, task = LABELS[classes], task_of(case.corruption, case.X.shape[1], classes, **options)
    chunk = Chunk(sparse.csr_matrix(case.X), y, task)
    coef, intercept = weights(case, classes)
    copied = chunk.with_arrays([array.copy() for array in chunk.arrays])
    value, g_W, g_b = copied.sums(coef.T, intercept)
    problem = Problem(case.X, y, n_classes=classes, **options)
    whole = problem.loss_gradient(case.corruption, 0.0, coef, intercept)
    np.testing.assert_allclose(value / len(y), whole[0])
    np.testing.assert_allclose(g_W.T / len(y), whole[1], atol=1e-12)
    np.testing.assert_allclose(g_b / len(y), whole[2], atol=1e-12)


def test_a_chunk_uses_the_arrays_that_it_is_given():
    X, y = counts_and_labels(2)
    chunk = Chunk(sparse.csr_matrix(X), y, task_of(Poisson(), 30, 2))
    emptied = chunk.with_arrays([np.zeros_like(array) for array in chunk.arrays])
    W, b = np.ones((30, 1)), np.ones(1)
    assert emptied.sums(W, b)[0] != pytest.approx(chunk.sums(W, b)[0])


def test_several_targets_of_a_regression():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(150, 30)), rng.normal(size=(150, 2))
    task = Task.checked(
        Gaussian(0.5), n_features=30, n_classes=0, n_outputs=2, l2=0.1, options={"loss": "quadratic"}
    )
    chunks = [Chunk(X[rows], Y[rows], task) for rows in CUTS]
    moments = sum(chunk_moments(X[rows], task) for rows in CUTS)
    ours = solve(task, 150, moments, lambda W, b: added(chunk.sums(W, b) for chunk in chunks))
    whole = Problem(X, Y, loss="quadratic", n_classes=0).solve(Gaussian(0.5), 0.1)
    np.testing.assert_allclose(ours.coef, whole.coef, atol=1e-8)
    np.testing.assert_allclose(ours.intercept, whole.intercept, atol=1e-8)


@pytest.mark.parametrize(
    ("corruption", "options", "message"),
    [
        ("blankout", {"l2": -1.0}, "l2"),
        ("blankout", {"l2": np.inf}, "l2"),
        ("blankout", {"loss": "hinge"}, "hinge"),
        (Blankout(np.full(29, 0.5)), {}, "29 entries for 30 features"),
        (Blankout(1.5), {}, "q must lie"),
        ("blankout", {"surrogate": "variational", "shared_lambda": True}, "shared_lambda=False"),
    ],
)
def test_a_wrong_parameter_is_refused_before_any_chunk_is_made(corruption, options, message):
    with pytest.raises(ValueError, match=message):
        task_of(corruption, 30, 2, **options)


def fit_in_chunks(task, X, y, **more):
    chunks = [Chunk(X[rows], y[rows], task) for rows in CUTS]
    moments = sum(chunk_moments(X[rows], task) for rows in CUTS)
    return solve(task, len(y), moments, lambda W, b: added(chunk.sums(W, b) for chunk in chunks), **more)


@pytest.mark.parametrize(
    "options",
    [{"loss": "exponential"}, {}, {"multiclass": "shared"}, {"surrogate": "quadratic"}],
    ids=["exponential", "pairwise", "shared", "approximation"],
)
@pytest.mark.parametrize("offset", [1e5, 1e8])
def test_a_column_far_from_zero(offset, options):
    """It ties its weight to the bias: without a centre a fit ends at once, and says that it converged.

    Rounding of the scores may keep the fit from proving that it is at the minimum; it then says so.
    """
    X, y = counts_and_labels(3)
    X[:, 0] = offset + y + np.random.default_rng(0).normal(size=len(y))
    noise = Gaussian(0.5)
    most = 1000 if offset == 1e5 else 100
    ours = fit_in_chunks(task_of(noise, 30, 3, 0.01, **options), X, y, tol=1e-6, max_iter=most)
    whole = Problem(X, y, **options).solve(noise, 0.01, tol=1e-6)
    assert ours.objective == pytest.approx(whole.objective, rel=1e-6 if offset == 1e5 else 1e-5)
    assert ours.converged or "limit of iterations" in ours.message or offset > 1e5


@pytest.mark.parametrize("loss", ["quadratic", "logistic"])
def test_a_fit_without_intercept(loss):
    X, y = counts_and_labels(3)
    task = replace(task_of(Blankout(0.4), 30, 3, 0.01, loss=loss), fit_intercept=False)
    ours = fit_in_chunks(task, X, y, tol=1e-8)
    whole = Problem(X, y, loss=loss, fit_intercept=False).solve(Blankout(0.4), 0.01, tol=1e-8)
    np.testing.assert_allclose(ours.coef, whole.coef, atol=1e-6)
    np.testing.assert_array_equal(ours.intercept, 0)


@pytest.mark.parametrize("loss", ["quadratic", "logistic"])
def test_every_pass_is_told_with_its_number_and_objective(loss):
    X, y = counts_and_labels(2)
    told = []
    solution = fit_in_chunks(
        task_of(Blankout(0.4), 30, 2, 0.01, loss=loss), X, y, on_pass=lambda *what: told.append(what)
    )
    assert [number for number, _ in told] == list(range(1, len(told) + 1))
    assert told[-1][1] == solution.objective


def test_a_fit_goes_on_from_its_start():
    X, y = counts_and_labels(3)
    task = task_of(Blankout(0.4), 30, 3, 0.01)
    cold = fit_in_chunks(task, X, y)
    again = fit_in_chunks(task, X, y, start=cold)
    assert again.n_iter <= 1 < cold.n_iter
    np.testing.assert_allclose(again.coef, cold.coef, atol=1e-3)


@pytest.mark.parametrize("loss", ["quadratic", "logistic"])
def test_a_feature_that_never_occurs_has_no_weight(loss):
    X, y = counts_and_labels(2)
    X[:, 4] = 0.0
    solution = fit_in_chunks(task_of(Blankout(0.4), 30, 2, 0.0, loss=loss), X, y, max_iter=20)
    assert np.isfinite(solution.coef).all()
    assert solution.coef[0, 4] == 0.0


def test_conjugate_gradients_that_run_out_of_iterations_say_so():
    X, y = counts_and_labels(3)
    task = task_of(Blankout(0.4), 30, 3, 0.01, loss="quadratic")
    chunk = Chunk(X, y, task)
    objective, curvature = SummedObjective(task, 150, chunk.sums), chunk_moments(X, task)[0] / 75
    short = minimise_quadratic(objective, True, curvature, max_iter=2)
    assert (short.n_iter, short.converged) == (2, False)
    assert minimise_quadratic(objective, True, curvature).converged
