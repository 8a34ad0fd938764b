"""A few hundred of the random problems of `campaign`, and proof that it would notice a fault."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.core.campaign import SEED, findings, fitted, is_minimum, wrong
from tests.core.random_problems import CONTAINERS, FORMS, contained, draw


@pytest.fixture(scope="module")
def problems():
    return [draw(SEED, number) for number in range(300)]


def _takes_long(problem):
    """Fits in chunks that need many passes take up to 25 s each: `python -m tests.core.campaign` has them."""
    slow = ("exponential", "approximation", "variational-shared", "variational-pairwise")
    return problem.path == "chunks" and problem.form in slow


@pytest.mark.parametrize("first", range(0, 240, 20))
def test_no_fit_that_says_converged_is_beaten(first):
    drawn = (draw(SEED, number) for number in range(first, first + 20))
    judged = {str(problem): findings(problem) for problem in drawn if not _takes_long(problem)}
    assert not [f"{problem}: {found}" for problem, (found, _) in judged.items() if found]
    assert np.mean([converged for _, converged in judged.values()]) > 0.75, "few claims were put to the test"


@pytest.mark.parametrize("number", [240, 2116, 2367, 3653, 3700])
def test_no_valley_ends_a_fit_too_early(number):
    """2116 crept along one and was 3e-6 above its minimum, 240 and 3700 were 4e-6 and 2e-6; 2367 was 2% above, because
    one direction was taken for stiffer than it is; 3653 stood on the side of a lower valley."""
    found, converged = findings(draw(SEED, number))
    assert not found and (converged or number == 2116)


def test_another_valley_of_an_objective_that_is_not_convex_is_no_fault():
    problem = draw(SEED, 3680)  # scipy's first step leaves for a lower minimum
    fit, own = fitted(problem), problem.objective
    assert is_minimum(own, fit, problem.intercept) and not wrong(problem, own, fit)
    beside = replace(fit, W=fit.W + 0.05)
    assert not is_minimum(own, beside, problem.intercept)


@pytest.mark.parametrize("form", FORMS)
def test_our_own_gradient_is_that_of_our_own_value(form, problems):
    seen = 0
    for problem in problems:
        if problem.form != form or any(word in problem.traits for word in ("stress", "scales", "offset")):
            continue
        own, rng = problem.objective, np.random.default_rng(problem.number)
        size = np.sqrt(own.laws.mean.std(axis=0) ** 2 + own.laws.variance.mean(axis=0) + 1e-3)[:, None]
        reach = np.minimum(0.2 / size, 0.4 * problem.weight_limit[:, None])
        W, b = (rng.uniform(-reach, reach, (len(reach), problem.outputs)), rng.normal(size=problem.outputs))
        b -= own.laws.mean.mean(axis=0) @ W
        value, g_W, g_b = own(W, b)
        step_W, step_b = 1e-5 * rng.uniform(-reach, reach, W.shape), 1e-5 * rng.normal(size=b.shape)
        change = own(W + step_W, b + step_b)[0] - own(W - step_W, b - step_b)[0]
        slope = 2 * ((g_W * step_W).sum() + g_b @ step_b)
        assert change == pytest.approx(slope, rel=1e-5, abs=1e-11 * max(value, 1.0)), problem
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("form", FORMS)
def test_a_point_beside_the_optimum_is_found_out(form, problems):
    problem = next(
        p for p in problems if p.form == form and ", tiny" in p.traits and p.l2 > 1e-4 and p.outputs <= 3
    )
    own, fit = problem.objective, fitted(problem)
    assert fit.converged and not wrong(problem, own, fit)
    W = fit.W + 0.02 * np.random.default_rng(0).normal(size=fit.W.shape)
    moved = replace(fit, W=W, objective=own(W, fit.b)[0])
    assert any("beaten" in line for line in wrong(problem, own, moved))
    assert any(
        "objective" in line for line in wrong(problem, own, replace(fit, objective=fit.objective * 1.001))
    )
    assert wrong(problem, own, replace(fit, W=fit.W * np.nan)) == ["not finite"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_holds_the_same_numbers(container):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, (20, 6)) * rng.normal(size=(20, 6))
    held = contained(X, container, rng)
    np.testing.assert_array_equal(held.toarray() if sparse.issparse(held) else held, X)
    if "int64" in container:
        assert held.indices.dtype == held.indptr.dtype == np.int64
    if "duplicates" in container or "unsorted" in container:
        assert not held.has_sorted_indices
    if "duplicates" in container or "zeros" in container:
        assert held.nnz > np.count_nonzero(X)
