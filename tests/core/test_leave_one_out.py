"""Leave-one-out of the quadratic loss: `exact` equals refitting, `paper` the paper's formula and no more.

Refitting is what it says: the mean loss over the other N - 1 examples at the same l2, a ridge of (N - 1) l2
on their sum. The paper's formula keeps everything but n's m m': its variance, and the ridge N l2.
"""

import numpy as np
import pytest
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.core.solvers import leave_one_out
from mcf_cli.core.solvers.leave_one_out import ridge_loo
from scipy import sparse

from tests.core import reference as ref
from tests.core.cases import CASES, LABELS, REALS

RNG = np.random.default_rng(21)
TALL = RNG.poisson(1.5, size=(16, 5)).astype(float)
WIDE = RNG.poisson(0.6, size=(7, 18)).astype(float)
SHAPES = {"tall": TALL, "wide": WIDE}
FAMILIES = {
    "none": (None, ref.unchanged, ()),
    "blankout": (Blankout(0.6), ref.blankout, (0.6,)),
    "dropout": (Dropout(0.4), ref.dropout, (0.4,)),
    "poisson": (Poisson(), ref.poisson_noise, ()),
    "gaussian": (Gaussian(0.7), ref.gaussian, (0.7,)),
    "laplace": (Laplace(0.4), ref.laplace, (0.4,)),
}


def laws_of(X, noise, parameters):
    return [[noise(d, v, *parameters) for d, v in enumerate(x)] for x in X]


@pytest.mark.parametrize("X", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(("corruption", "noise", "parameters"), FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize("l2", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("classes", [2, 3])
def test_exact_equals_refitting(X, corruption, noise, parameters, l2, fit_intercept, classes):
    y = np.arange(len(X)) % classes
    problem = Problem(X, y, loss="quadratic", fit_intercept=fit_intercept, n_classes=classes)
    expected = ref.leave_one_out(
        laws_of(X, noise, parameters), X, ref.one_vs_rest(y, classes), (len(X) - 1) * l2, fit_intercept
    )
    np.testing.assert_allclose(problem.loo(corruption, l2, method="exact"), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_exact_equals_refitting_for_every_corruption(case, container):
    y, l2 = LABELS[3], 0.05
    problem = Problem(container(case.X), y, loss="quadratic", n_classes=3)
    expected = ref.leave_one_out(case.laws, case.X, ref.one_vs_rest(y, 3), (len(y) - 1) * l2)
    np.testing.assert_allclose(
        problem.loo(case.corruption, l2, method="exact"), expected, rtol=1e-7, atol=1e-8
    )


def test_exact_for_regression_targets():
    targets = RNG.normal(size=len(TALL))
    expected = ref.leave_one_out(
        laws_of(TALL, ref.blankout, (0.3,)), TALL, targets[:, None], (len(TALL) - 1) * 0.01
    )
    ours = Problem(TALL, targets, loss="quadratic").loo(Blankout(0.3), 0.01, method="exact")
    assert ours.shape == (len(TALL), 1)
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-9)


def paper_formula(laws, X, targets, ridge):
    """yhat_-n = (H_nn y_n - yhat_n) / (H_nn - 1), H = X Q^-1 E[x~]', all variances kept in Q; no bias."""
    means = np.array([ref.mean(law) for law in laws])
    system = means.T @ means + sum(ref.covariance(law) for law in laws) + ridge * np.eye(X.shape[1])
    hat = X @ np.linalg.solve(system, means.T)
    diagonal = np.diag(hat)[:, None]
    return (diagonal * targets - hat @ targets) / (diagonal - 1)


@pytest.mark.parametrize("X", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(("corruption", "noise", "parameters"), FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize("classes", [2, 3])
def test_paper_is_the_formula_of_the_paper(X, corruption, noise, parameters, classes):
    y, l2 = np.arange(len(X)) % classes, 0.02
    problem = Problem(X, y, loss="quadratic", fit_intercept=False, n_classes=classes)
    laws = laws_of(X, noise, parameters)
    expected = paper_formula(laws, X, ref.one_vs_rest(y, classes), len(X) * l2)
    np.testing.assert_allclose(problem.loo(corruption, l2, method="paper"), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize(
    ("corruption", "variance"), [(Gaussian(0.7), 0.49), (Laplace(0.5), 0.5), (None, 0.0)]
)
def test_paper_is_exact_where_the_variance_is_a_ridge(corruption, variance, fit_intercept):
    """Gaussian and Laplace noise only add a ridge N (variance + l2): it equals refits with that ridge."""
    y, l2 = np.arange(len(TALL)) % 2, 0.01
    problem = Problem(TALL, y, loss="quadratic", fit_intercept=fit_intercept)
    clean = laws_of(TALL, ref.unchanged, ())
    ridge = len(TALL) * (variance + l2)
    expected = ref.leave_one_out(clean, TALL, ref.one_vs_rest(y, 2), ridge, fit_intercept)
    np.testing.assert_allclose(problem.loo(corruption, l2, method="paper"), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("corruption", [Blankout(0.5), Poisson()], ids=["blankout", "poisson"])
def test_paper_is_not_exact_where_the_variance_depends_on_the_data(corruption):
    problem = Problem(TALL, np.arange(len(TALL)) % 2, loss="quadratic")
    difference = problem.loo(corruption, 0.01, method="paper") - problem.loo(corruption, 0.01, method="exact")
    assert np.abs(difference).max() > 0.01


def test_other_losses_and_unknown_methods_are_refused():
    y = np.arange(len(TALL)) % 2
    with pytest.raises(ValueError, match="quadratic"):
        Problem(TALL, y, loss="logistic").loo(Blankout(0.5), 0.1)
    with pytest.raises(ValueError, match="method"):
        Problem(TALL, y, loss="quadratic").loo(Blankout(0.5), 0.1, method="guess")


def test_families_that_touch_zeros_are_covered():
    """Bit-swap and multinomial noise give zeros a variance too, which the support of V must include."""
    for corruption, X in (
        (BitSwap(0.2), (TALL > 1).astype(float)),
        (
            Multinomial(q=0.3, blocks=2),
            np.hstack([np.eye(2)[(TALL[:, d] > 1).astype(int)] for d in range(3)]),
        ),
    ):
        y = np.arange(len(X)) % 2
        law = {
            "BitSwap": lambda x: [ref.bit_swap(d, v, 0.2) for d, v in enumerate(x)],
            "Multinomial": lambda x: [
                ref.multinomial([d, d + 1], x[d : d + 2], ref.uniform_confusion(2, 0.3)) for d in (0, 2, 4)
            ],
        }[type(corruption).__name__]
        expected = ref.leave_one_out([law(x) for x in X], X, ref.one_vs_rest(y, 2), (len(X) - 1) * 0.01)
        ours = Problem(X, y, loss="quadratic").loo(corruption, 0.01, method="exact")
        np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-8)


def test_a_row_of_zeros_is_predicted_by_the_others():
    """Row 4 of the real-valued data is all zeros: its prediction is the bias of a fit to the rest."""
    y = LABELS[2]
    ours = Problem(REALS, y, loss="quadratic").loo(Blankout(0.5), 0.1, method="exact")
    rest = np.delete(np.arange(6), 4)
    refit = Problem(REALS[rest], y[rest], loss="quadratic").solve(Blankout(0.5), 0.1)
    assert ours[4, 0] == pytest.approx(refit.intercept[0], rel=1e-9)


def test_one_example_cannot_be_left_out():
    with pytest.raises(ValueError, match="at least two"):
        Problem(TALL[:1], np.ones(1), loss="quadratic", n_classes=0).loo(Blankout(0.5), 0.1)
    two = Problem(TALL[:2], np.array([1.0, 3.0]), loss="quadratic", n_classes=0).loo(Blankout(0.5), 0.1)
    np.testing.assert_allclose(two[:, 0], [3.0, 1.0], atol=1e-9)


def test_exact_with_a_noise_of_its_own_for_every_feature():
    sigma = np.linspace(0.2, 1.2, WIDE.shape[1])
    laws = [[ref.gaussian(d, v, sigma[d]) for d, v in enumerate(x)] for x in WIDE]
    y = np.arange(len(WIDE)) % 2
    expected = ref.leave_one_out(laws, WIDE, ref.one_vs_rest(y, 2), (len(WIDE) - 1) * 0.01)
    ours = Problem(WIDE, y, loss="quadratic").loo(Gaussian(sigma), 0.01, method="exact")
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-8)


def test_columns_far_from_zero_are_left_out_as_precisely():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(12, 30)), rng.normal(size=12)
    near = Problem(X, y, loss="quadratic", n_classes=0).loo(None, 0.1)
    far = Problem(X + 1e5, y, loss="quadratic", n_classes=0).loo(None, 0.1)
    np.testing.assert_allclose(far, near, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_rows_whose_squares_would_drown_the_ridge(fit_intercept):
    X, y = 1e6 * TALL, RNG.normal(size=(16, 2))
    left_out, _ = ridge_loo(sparse.csr_matrix(X), y, 1.0, fit_intercept)
    for n in range(len(y)):
        others = np.arange(len(y)) != n
        centre = X[others].mean(axis=0) * fit_intercept, y[others].mean(axis=0) * fit_intercept
        rows, targets = X[others] - centre[0], y[others] - centre[1]
        W = np.linalg.lstsq(np.vstack([rows, np.eye(5)]), np.vstack([targets, np.zeros((5, 2))]), rcond=None)[
            0
        ]
        np.testing.assert_allclose(left_out[n], centre[1] + (X[n] - centre[0]) @ W, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("corruption", [Dropout(0.4), BitSwap(0.2), Poisson()], ids=str)
def test_rows_leave_alone_as_they_leave_together(monkeypatch, container, corruption):
    """Of all rows at a time or one by one; here each row holds other columns."""
    X = (RNG.random((40, 25)) < 0.2).astype(float)
    problem = Problem(container(X), np.arange(40) % 2, loss="quadratic")
    together = problem.loo(corruption, 0.01)
    monkeypatch.setattr(leave_one_out, "_ROOM", 1)
    np.testing.assert_allclose(problem.loo(corruption, 0.01), together, rtol=1e-8, atol=1e-10)


def test_a_penalty_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="l2 must be a finite number of at least 0; got 'a'"):
        Problem(TALL, np.arange(16) % 2, loss="quadratic").loo(None, "a")
