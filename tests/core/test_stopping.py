"""Where fits end: one meaning of tol for every solver and path, proof before "converged", a warning without it."""

import warnings

import numpy as np
import pytest
from mcf_cli import (
    Blankout,
    Dropout,
    Gaussian,
    Laplace,
    MCFClassifier,
    MCFRegressor,
    Multinomial,
    Poisson,
    fit_chunks,
)
from mcf_cli.core.problem import Problem
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

FORMS = {
    "exponential": {"loss": "exponential"},
    "pairwise": {},
    "shared": {"multiclass": "shared"},
    "variational": {"surrogate": "variational"},
    "one-lambda": {"surrogate": "variational", "shared_lambda": True},
    "approximation": {"surrogate": "quadratic"},
}
CORRUPTIONS = [Blankout(0.3), Dropout(0.6), Gaussian(0.5), Laplace(0.4), Poisson()]


def counts(rows, columns, classes, seed=0):
    """Counts whose columns differ a hundredfold in how often they occur, and labels that depend on some of them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(rows) % classes)
    rate = np.geomspace(3.0, 0.03, columns) * (1.0 + 2.0 * np.eye(columns)[y % columns])
    return rng.poisson(rate).astype(float), y


def in_chunks(model, X, y):
    cuts = np.array_split(np.arange(len(y)), 2)
    return fit_chunks(model, [(X[rows], y[rows]) for rows in cuts])


def beaten_by(problem, corruption, l2, solution):
    """The share of the objective that scipy's L-BFGS, begun anew, still finds below a solution."""
    objective, shape = problem._objective(corruption, l2), solution.coef.shape

    def function(theta):
        W, b = theta[: -shape[0]].reshape(shape).T, theta[-shape[0] :]
        value, g, g_b = objective.loss_gradient(W, b)
        return value / solution.objective, np.append(g.T.ravel(), g_b) / solution.objective

    theta = np.append(solution.coef.ravel(), solution.intercept)
    options = {"maxiter": 80, "gtol": 0.0, "ftol": 1e-15}
    again = minimize(function, theta, jac=True, method="L-BFGS-B", options=options)
    return 1.0 - min(again.fun, 1.0)


@pytest.mark.parametrize(("classes", "columns"), [(20, 40), (100, 60)])
def test_the_exponential_loss_of_many_classes_is_the_same_in_chunks(classes, columns):
    """Its value is tiny: what is left to gain counts relative to it, on every path."""
    rng = np.random.default_rng(3)
    X, y = rng.poisson(0.3, (5 * classes, columns)).astype(float), np.arange(5 * classes) % classes
    model = MCFClassifier(loss="exponential", corruption=Blankout(0.1), l2=1e-10)
    whole = model.fit(X, y).objective_
    assert whole < 1e-5
    chunked = in_chunks(model, sparse.csr_matrix(X), y)
    assert chunked.converged_
    assert chunked.objective_ == pytest.approx(whole, rel=1e-7)


@pytest.mark.parametrize("form", ["exponential", "pairwise", "shared"])
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=repr)
@pytest.mark.parametrize("l2", [1e-2, 1e-5])
def test_every_path_ends_at_the_same_objective(form, corruption, l2):
    X, y = counts(90, 12, 3)
    model = MCFClassifier(corruption=corruption, l2=l2, **FORMS[form])
    newton = model.fit(X, y).objective_
    assert in_chunks(model, X, y).objective_ == pytest.approx(newton, rel=1e-5)
    solution = Problem(X, y, **FORMS[form]).solve(corruption, l2, tol=1e-11, method="lbfgs")
    assert solution.objective == pytest.approx(newton, rel=1e-7)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tol", [1e-3, 1e-11])
def test_a_solver_without_second_derivatives_says_converged_only_where_it_is(form, tol):
    """Columns that hardly occur make flat valleys: a gradient that is small everywhere proves nothing."""
    for seed, l2 in ((0, 1e-3), (1, 1e-6)):
        X, y = counts(40, 30 if seed else 10, 2 if seed else 3, seed)
        problem = Problem(X, y, **FORMS[form])
        solution = problem.solve(Blankout(0.4), l2, tol=tol, method="lbfgs")
        assert solution.converged, (form, seed, solution.message)
        allowed = 1e-6 if tol < 1e-6 else 10 * tol**2 / min(solution.objective, 1.0)
        assert beaten_by(problem, Blankout(0.4), l2, solution) < allowed, (form, seed, solution.message)


def test_blocks_of_symbols_are_minimised_by_newton_and_lbfgs_alike():
    rng = np.random.default_rng(0)
    X, y = np.eye(4)[rng.integers(4, size=(60, 5))].reshape(60, 20), np.arange(60) % 3
    for form in ("pairwise", "shared", "exponential"):
        problem, corruption = Problem(X, y, **FORMS[form]), Multinomial(0.2, blocks=4)
        newton, lbfgs = (problem.solve(corruption, 1e-3, tol=1e-9, method=m) for m in ("newton", "lbfgs"))
        assert newton.converged and lbfgs.converged
        np.testing.assert_allclose(newton.coef, lbfgs.coef, atol=1e-5)
        assert beaten_by(problem, corruption, 1e-3, newton) < 1e-9


@pytest.mark.parametrize("method", ["newton", "lbfgs"])
def test_weights_of_several_classes_may_use_all_of_a_domain(method):
    """w_k - w_l has to stay below 1/b: with w = (a, -a/2, -a/2) a single weight may then exceed 1/(2b)."""
    X = np.vstack([np.full((10, 1), 6.0), np.full((20, 1), -6.0)])
    y = np.repeat([0, 1, 2], 10)
    solution = Problem(X, y).solve(Laplace(1.0), 1e-7, tol=1e-8, method=method)
    assert solution.converged
    assert np.ptp(solution.coef) < 1.0
    assert np.abs(solution.coef).max() > 0.51


@pytest.mark.parametrize("fit", [MCFClassifier.fit, in_chunks], ids=["fit", "chunks"])
@pytest.mark.parametrize("form", ["pairwise", "exponential", "variational"])
def test_a_fit_that_is_cut_short_warns_and_says_what_to_do(fit, form):
    X, y = counts(60, 10, 2)
    with pytest.warns(ConvergenceWarning, match="raise max_iter, tol or l2"):
        model = fit(MCFClassifier(max_iter=2, **FORMS[form]), X, y)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(MCFClassifier(l2=1e-2, **FORMS[form]), X, y).converged_


def test_a_regression_beyond_repair_warns():
    X = np.array([[1.0, 1.0 + 1e-15], [2.0, 2.0 - 1e-15], [3.0, 3.0]]) * 1e90
    model = MCFRegressor(corruption=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, [0.0, 1.0, 5.0])
    assert model.converged_ != any(issubclass(one.category, ConvergenceWarning) for one in caught)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_separable_rows_without_a_penalty_warn_that_there_is_no_minimum(loss):
    X, y = counts(60, 10, 2)
    separable = np.column_stack([X, 2.0 * y - 1.0])
    with pytest.warns(ConvergenceWarning, match="separable.*Use l2 > 0"):
        model = MCFClassifier(loss=loss, corruption=None).fit(separable, y)
    assert model.score(separable, y) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MCFClassifier(loss=loss, corruption=None, l2=1e-3).fit(separable, y)
        MCFClassifier(loss=loss, corruption=None).fit(X, np.random.default_rng(1).integers(2, size=60))


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("ending", [{"tol": 0.5}, {"max_iter": 1}], ids=["tol", "max_iter"])
def test_a_fit_that_ends_early_does_not_call_its_classes_separable(loss, ending):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MCFClassifier(loss=loss, corruption=None, **ending).fit(X, y)
    assert not any("separable" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"max_iter": -5}, "max_iter must be a whole number of at least 0; got -5"),
        ({"max_iter": 2.5}, "max_iter must be a whole number"),
        ({"tol": -1}, "tol must be a finite number of at least 0; got -1"),
        ({"tol": "fine"}, "tol must be a finite number"),
        ({"l2": "a"}, "l2 must be a finite number of at least 0; got 'a'"),
        ({"l2": "a", "loss": "quadratic"}, "l2 must be a finite number"),
        ({"l2": "a", "label_noise": 0.1}, "l2 must be a finite number"),
    ],
    ids=str,
)
def test_what_ends_a_fit_is_checked_in_memory_and_in_chunks(bad, words):
    X, y = np.eye(4), np.arange(4) % 2
    for fit in (lambda model: model.fit(X, y), lambda model: fit_chunks(model, [(X, y)])):
        with pytest.raises(ValueError, match=words):
            fit(MCFClassifier(**bad))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares_in_chunks_says_converged_only_where_all_rows_at_once_end(seed, intercept):
    """Columns that point the same way make a valley, of which the first residual shows next to nothing."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(60, 3)) + [0.0, 1e8, 1e8 / 3]) * [1e-3, 1.0, 1e3]
    t = rng.normal(size=60) + 1e6 * (seed % 2)
    whole = MCFRegressor(corruption=None, l2=1e-6, fit_intercept=intercept).fit(X, t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = in_chunks(MCFRegressor(corruption=None, l2=1e-6, fit_intercept=intercept), X, t)
    assert whole.converged_
    assert not model.converged_ or model.objective_ <= whole.objective_ * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_least_squares_in_chunks_goes_on_until_no_valley_can_hide_more(seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(60, 3)) + [0.0, 1e3, 1e3 / 3]) * [1e-3, 1.0, 1e3]
    t = rng.normal(size=60) + 1e6
    whole = MCFRegressor(corruption=None, fit_intercept=False).fit(X, t)
    model = in_chunks(MCFRegressor(corruption=None, fit_intercept=False), X, t)
    assert model.converged_
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("apart", [1e-2, 1e-4])
def test_nearly_collinear_columns_end_where_independent_ones_do(apart, classes, loss):
    """[b, b + apart n] spans what [b, n] does, but what it has to say of n lies in a valley."""
    rng = np.random.default_rng(classes)
    b, n, more = rng.normal(size=(300, 1)), rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
    scores = np.hstack([b + n, more - n, more - b])[:, :classes] + rng.gumbel(size=(300, classes))
    y = scores.argmax(axis=1)
    best = MCFClassifier(loss=loss, corruption=None, tol=1e-8).fit(np.hstack([b, n, more]), y)
    model = MCFClassifier(loss=loss, corruption=None).fit(np.hstack([b, b + apart * n, more]), y)
    assert best.converged_ and model.converged_
    assert model.objective_ == pytest.approx(best.objective_, rel=2e-6)
