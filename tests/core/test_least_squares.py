"""Least squares on columns of any scale and any offset: the minimum of a reference in long double, or no claim to it.

The reference knows nothing of Gram matrices: twice orthogonalised columns of the augmented, centred, scaled system.
"""

import warnings

import numpy as np
import pytest
from mcf_cli import Blankout, Dropout, Gaussian, MCFClassifier, MCFRegressor, Multinomial, PerFeature, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.core.solvers.normal_equations import brought_near, gram_matrix
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

LONG = np.longdouble


class Reference:
    """The objective of each target and its least value, with the bias at its best."""

    def __init__(self, X, Y, weights, corruption, l2, bias):
        X, Y, w = X.astype(LONG), Y.astype(LONG), weights.astype(LONG) / weights.astype(LONG).sum()
        self.M, variance = X, np.zeros_like(X)
        if corruption is not None:
            m = corruption.moments()
            self.M, variance = m.offset + m.scale * X, m.v0 + m.v1 * X + m.v2 * X * X
        self.w, self.r, self.Y = w, w @ variance + LONG(l2), Y
        for _ in range(2 if bias else 0):  # the second time what rounding left
            self.M, self.Y = self.M - w @ self.M, self.Y - w @ self.Y
        self.spread = w @ self.Y**2

    def value(self, W):
        W = W.astype(LONG)
        return self.w @ (self.M @ W - self.Y) ** 2 + self.r @ W**2

    def least(self):
        """What is left of the targets once every column is taken from them, the longest first."""
        u = np.sqrt(self.w)[:, None]
        A, Y = np.vstack([u * self.M, np.diag(np.sqrt(self.r))]), u * self.Y
        Y = np.vstack([Y, np.zeros((len(self.r), Y.shape[1]), LONG)])
        size = np.sqrt((A**2).sum(axis=0))
        A = A[:, size > 0] / size[size > 0]
        while A.shape[1]:
            lengths = np.sqrt((A**2).sum(axis=0))
            k = int(lengths.argmax())
            if lengths[k] < 3e-14:  # no double precision number tells this column from the others
                break
            q, A = A[:, k] / lengths[k], np.delete(A, k, axis=1)
            for _ in range(2):
                A, Y = A - np.outer(q, q @ A), Y - np.outer(q, q @ Y)
        return (Y**2).sum(axis=0)

    def rounding(self, W):
        """What the rounding of the weights alone may cost."""
        return 1e-24 * (self.w @ (np.abs(self.M) @ np.abs(W)) ** 2)


def random_problem(seed, number):
    """Scales from 1e-8 to 1e8, offsets up to 1e8 spreads, copies of columns exact and near, constants, empty rows."""
    rng = np.random.default_rng([seed, number])
    N, D, C = rng.integers(3, 30), rng.integers(1, 20), rng.integers(1, 4)
    X = rng.normal(size=(N, D)) if rng.random() < 0.5 else rng.poisson(1.0, (N, D)).astype(float)

    def now_and_then(share):
        return rng.random() < share

    if now_and_then(0.6):
        X *= 10.0 ** rng.uniform(-8, 8, D)
    if now_and_then(0.4):
        X += 10.0 ** rng.uniform(0, 8) * (rng.random(D) < 0.7) * np.abs(X).max(axis=0)
    if now_and_then(0.3) and D > 1:
        X[:, D // 2 :] = X[:, : D - D // 2]
    if now_and_then(0.2):
        X[:, -1] = X[:, 0] * rng.choice([1.0, 1024.0, 2.0**-20])
    if now_and_then(0.2):
        X[:, -1] = X[:, 0] + rng.normal(size=N) * np.abs(X[:, 0]).max() * 10.0 ** rng.uniform(-8, -3)
    if now_and_then(0.3):
        X[:, 0] = rng.choice([1.0, 1e8, 0.1])
    if now_and_then(0.2):
        X[rng.integers(N)] = 0.0
    spread = X.std(axis=0)
    standard = np.divide(
        X - X.mean(axis=0), spread, out=np.zeros_like(X), where=spread > 1e-12 * np.abs(X).max(axis=0)
    )
    noise = rng.normal(size=(N, C)) * 10.0 ** rng.uniform(-4, 1)
    Y = (standard @ rng.normal(size=(D, C)) * rng.integers(0, 2) + noise) * 10.0 ** rng.uniform(-4, 4, C)
    Y += rng.choice([0.0, 0.0, 1e6]) * Y.std(axis=0)
    weights = np.ones(N) if now_and_then(0.6) else 10.0 ** rng.uniform(-4, 4, N)
    corruption = [
        *(None, None, Dropout(0.3), Blankout(float(rng.choice([1e-9, 0.1, 0.5, 0.99])))),
        *(Gaussian(10.0 ** rng.uniform(-8, 3)), Blankout(rng.choice([0.0, 0.3], D))),
    ][rng.integers(6)]
    l2 = float(rng.choice([0.0, 0.0, 1e-12, 1e-6, 1e-2, 1e3]))
    return X, Y, weights, corruption, l2, bool(now_and_then(0.7))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(("method", "reaches"), [("direct", 0.97), ("cg", 0.6)])
def test_no_fit_that_converged_is_beaten_by_the_reference(method, reaches, container):
    """And most converge. Conjugate gradients make no claim where nothing is regularised."""
    problems, converged, beaten = 150, 0, []
    for number in range(problems):
        X, Y, weights, corruption, l2, bias = random_problem(1, number)
        problem = Problem(
            container(X), Y, loss="quadratic", n_classes=0, sample_weight=weights, fit_intercept=bias
        )
        fit = problem.solve(corruption, l2, method=method)
        reference = Reference(X, Y, weights, corruption, l2, bias)
        ours, least = reference.value(fit.coef.T), reference.least()
        room = least + 1e-12 * reference.spread + 1e6 * reference.rounding(fit.coef.T)
        converged += fit.converged
        if fit.converged and ((ours - least) > 1e-6 * room).any():
            beaten.append((number, ours, least))
        assert (ours.sum() <= reference.spread.sum() * (1 + 1e-9)) or not fit.converged
    assert not beaten
    assert converged >= reaches * problems


def test_a_small_column_keeps_its_weight_beside_a_large_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 1] > 0).astype(int)
    for corruption in (None, Blankout(0.1)):
        for scales in ([1e6, 1.0], [1.0, 1e-6], [1e8, 1e-8]):
            model = MCFClassifier(loss="quadratic", corruption=corruption).fit(X * scales, y)
            assert model.score(X * scales, y) > 0.95 and model.converged_


@pytest.mark.parametrize("shape", [(400, 5), (30, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_an_offset_costs_no_accuracy(shape, container):
    rng = np.random.default_rng(1)
    X = rng.normal(size=shape)
    y = X @ rng.normal(size=shape[1]) + 0.05 * rng.normal(size=shape[0])
    far = X + 1e8
    model = MCFRegressor(corruption=None, l2=0.0).fit(container(far), y)
    theirs = LinearRegression().fit(far, y).score(far, y)
    assert model.converged_ and model.score(container(far), y) >= theirs - 1e-6
    near = MCFRegressor(corruption=Gaussian(0.3), l2=0.1).fit(X, y)
    moved = MCFRegressor(corruption=Gaussian(0.3), l2=0.1).fit(container(far), y)
    np.testing.assert_allclose(moved.coef_, near.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "corruption"),
    [((60, 8), None), ((60, 8), Blankout(0.4)), ((8, 20), Blankout(0.4)), ((8, 20), Dropout(0.2))],
    ids=str,
)
def test_powers_of_two_of_the_columns_change_no_digit(shape, corruption):
    """Without l2 the units of a column are no part of the problem."""
    rng = np.random.default_rng(2)
    X, Y, scales = (
        rng.normal(size=shape),
        rng.normal(size=(shape[0], 2)),
        2.0 ** rng.integers(-40, 40, shape[1]),
    )
    near, far = (
        Problem(data, Y, loss="quadratic", n_classes=0).solve(corruption, 0.0) for data in (X, X * scales)
    )
    np.testing.assert_array_equal(far.coef * scales, near.coef)
    assert near.converged and far.converged


@pytest.mark.parametrize("method", ["direct", "cg"])
def test_l2_and_the_variance_are_those_of_the_weights_as_they_are(method):
    """The objective, evaluated by the loss itself, is flat at the solution on any scale."""
    rng = np.random.default_rng(3)
    scales = np.logspace(-4, 4, 6)
    X, y = rng.poisson(2.0, (50, 6)) * scales, rng.normal(size=50)
    noise = PerFeature([([0, 1], Poisson()), ([2, 3], Gaussian(0.5)), ([4], Dropout(0.3))])
    problem = Problem(X, y, loss="quadratic", n_classes=0)
    solution = problem.solve(noise, 1e-3, method=method)
    value, slope, slope_b = problem.loss_gradient(noise, 1e-3, solution.coef, solution.intercept)
    assert solution.converged and solution.objective == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(slope[0] / scales, 0, atol=1e-8)
    np.testing.assert_allclose(slope_b, 0, atol=1e-8)


def test_a_grid_on_shifted_data_equals_fresh_problems():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(40, 6)) * np.logspace(-3, 3, 6) + 1e7, rng.normal(size=40)
    problem = Problem(X, y, loss="quadratic", n_classes=0)
    for corruption in (Gaussian(0.1), Blankout(1e-9), None, Dropout(0.1), Gaussian(0.1)):
        for l2 in (0.0, 1e-3):
            fresh = Problem(X, y, loss="quadratic", n_classes=0).solve(corruption, l2)
            np.testing.assert_array_equal(problem.solve(corruption, l2).coef, fresh.coef)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e8])
def test_a_constant_column_has_no_weight_beside_a_bias(container, value):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    X[:, 2] = value
    fit = Problem(container(X), y, loss="quadratic", n_classes=0).solve(None, 0.0)
    others = Problem(np.delete(X, 2, axis=1), y, loss="quadratic", n_classes=0).solve(None, 0.0)
    assert fit.coef[0, 2] == 0.0 and fit.converged
    np.testing.assert_allclose(np.delete(fit.coef, 2), others.coef[0], rtol=1e-9)


def test_sparse_columns_far_out_stay_sparse():
    X = sparse.random(200, 50, density=0.1, random_state=0, format="lil")
    X[:, 3] = 1e6 + np.arange(200)
    X = sparse.csr_matrix(X)
    near, reference = brought_near(X, np.full(200, 1 / 200))
    assert sparse.issparse(near) and near.nnz == X.nnz
    assert np.flatnonzero(reference).tolist() == [3]
    np.testing.assert_array_equal((near.toarray() + reference), X.toarray())
    same, nothing = brought_near(X[:, :3], np.full(200, 1 / 200))
    assert same.shape == (200, 3) and not nothing.any()


def test_columns_that_no_double_tells_apart_are_not_called_converged():
    """The targets lie along the difference of two columns that agree to 14 digits."""
    rng = np.random.default_rng(6)
    a, y = rng.uniform(1.0, 2.0, 40), rng.choice([-1.0, 1.0], 40)
    X = np.column_stack([a, a * (1 + 3e-14 * y)])
    model = MCFRegressor(corruption=None, l2=0.0, fit_intercept=False).fit(X, y)
    assert not model.converged_ and "raise l2" in model.message_
    raised = MCFRegressor(corruption=None, l2=1e-3, fit_intercept=False).fit(X, y)
    assert raised.converged_


def test_of_many_solutions_the_shortest_whatever_the_scales():
    """Copies at scales of 1 and 2^12: as l2 goes to zero the weights go as the scales."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=30), rng.normal(size=30)
    for X in (np.column_stack([x, 4096 * x]), np.column_stack([x, 4096 * x, rng.normal(size=30)])):
        fit = Problem(X, y, loss="quadratic", n_classes=0).solve(None, 0.0)
        assert fit.converged
        assert fit.coef[0, 0] * 4096 == pytest.approx(fit.coef[0, 1], rel=1e-6)


def test_rows_without_weight_do_not_exist():
    rng = np.random.default_rng(8)
    X, y, weights = rng.normal(size=(20, 3)), rng.normal(size=20), np.repeat([1.0, 0.0], 10)
    X[10:] = 1e9
    part = Problem(X, y, loss="quadratic", n_classes=0, sample_weight=weights).solve(Blankout(0.2), 0.1)
    fresh = Problem(X[:10], y[:10], loss="quadratic", n_classes=0).solve(Blankout(0.2), 0.1)
    np.testing.assert_allclose(part.coef, fresh.coef, rtol=1e-12)


# -- leave-one-out -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(25, 6), (9, 20)], ids=["tall", "wide"])
@pytest.mark.parametrize("method", ["exact", "paper"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_leave_one_out_does_not_see_an_offset(shape, method, container):
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    for corruption in (None, Gaussian(0.4), Gaussian(np.linspace(0.1, 1.0, shape[1]))):
        near, far = (
            Problem(container(data), Y, loss="quadratic", n_classes=0).loo(corruption, 0.1, method=method)
            for data in (X, X + 1e8)
        )
        np.testing.assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize("method", ["exact", "paper"])
@pytest.mark.parametrize("corruption", [None, Blankout(0.3), Dropout(0.3)], ids=str)
def test_leave_one_out_does_not_see_the_units_of_a_column(method, corruption):
    rng = np.random.default_rng(10)
    X, Y = rng.normal(size=(25, 6)), rng.normal(size=(25, 2))
    near, far = (
        Problem(data, Y, loss="quadratic", n_classes=0).loo(corruption, 0.0, method=method)
        for data in (X, X * np.logspace(-8, 8, 6))
    )
    np.testing.assert_allclose(far, near, rtol=1e-8, atol=1e-10)


def test_leave_one_out_equals_refitting_on_any_scale_or_warns():
    right = 0
    for number in range(60):
        X, Y, _, corruption, l2, bias = random_problem(2, number)
        Y = Y / np.abs(Y - Y.mean(axis=0)).max(axis=0)
        problem = Problem(X, Y, loss="quadratic", n_classes=0, fit_intercept=bias)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = problem.loo(corruption, l2)
        refits, certain = np.empty_like(ours), True
        for n in range(len(X)):
            rest = np.arange(len(X)) != n
            fit = problem.subset(rest).solve(corruption, l2)
            centre = X[rest] if corruption is None else corruption.mean(X[rest])
            centre, level = (centre.mean(axis=0), Y[rest].mean(axis=0)) if bias else (0.0, 0.0)
            refits[n], certain = (X[n] - centre) @ fit.coef.T + level, certain and fit.converged
        close = (np.abs(ours - refits) <= 1e-3 * (1 + np.abs(refits) + np.abs(Y))).all()
        assert close or not certain or any(issubclass(w.category, ConvergenceWarning) for w in caught), number
        right += close
    assert right >= 54


def test_leave_one_out_of_one_hot_blocks_beside_columns_of_any_scale():
    """Blocks that covary and a column of 1e-6: what counts as nothing in one is all of the other."""
    rng = np.random.default_rng(11)
    one_hot = np.eye(3)[rng.integers(3, size=24)]
    X, y = np.hstack([one_hot, rng.normal(size=(24, 1)) * 1e-6]), rng.normal(size=24)
    noise = PerFeature([([0, 1, 2], Multinomial(q=0.2, blocks=3)), ([3], Blankout(0.3))])
    problem = Problem(X, y, loss="quadratic", n_classes=0)
    ours = problem.loo(noise, 1e-16)
    for n in range(len(X)):
        rest = np.arange(len(X)) != n
        refit = problem.subset(rest).solve(noise, 1e-16)
        assert ours[n, 0] == pytest.approx(float(refit.decision(X[n : n + 1])[0]), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("density", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gram_matrix_is_the_same_by_either_product(density, weighted):
    X = sparse.random(5000, 12, density=density, format="csr", random_state=0)
    weights = np.random.default_rng(0).random(5000) if weighted else None
    dense = X.toarray()
    expected = np.einsum("n,ni,nj->ij", np.ones(5000) if weights is None else weights, dense, dense)
    np.testing.assert_allclose(gram_matrix(X, weights), expected, atol=1e-9)
    np.testing.assert_allclose(gram_matrix(dense, weights), expected, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 100.0], ids=["factorised", "iterated"])
def test_noise_on_sparse_text_ends_at_the_closed_form(sigma):
    """Conjugate gradients are tried as long as a factorisation would take; either way the minimum is the same."""
    rng = np.random.default_rng(0)
    X = sparse.random(1_200, 3_000, density=0.01, format="csr", random_state=0)
    X.data = np.ceil(3.0 * X.data)
    X = sparse.csr_matrix(X @ sparse.diags_array(np.geomspace(1e-3, 1e3, 3_000)))
    problem = Problem(X, rng.integers(0, 3, 1_200), loss="quadratic")
    found, exact = (problem.solve(Gaussian(sigma), 1e-8, method=method) for method in ("auto", "direct"))
    assert found.converged
    assert found.message.startswith("closed form" if sigma < 1 else "conjugate gradients")
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-6 * np.abs(exact.coef).max())
