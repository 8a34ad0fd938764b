"""Labels that are wrong at known rates: the corrected loss is unbiased, and what cannot be corrected is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, MCFClassifier, fit_chunks, load
from mcf_cli.core.label_noise import transition_matrix
from mcf_cli.core.problem import Problem

from tests.core import reference as ref
from tests.core.cases import BY_NAME, LABELS, Case, weights
from tests.core.loss_cases import LOSSES, SOME_CASES, TWO_CLASSES_ONLY

THREE = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.0, 0.3, 0.7]])
NOISE = {2: np.array([[0.9, 0.1], [0.3, 0.7]]), 3: THREE}
LOGISTIC = [loss for loss in LOSSES if loss.options["loss"] == "logistic"]
EVERY = pytest.mark.parametrize(
    ("loss", "classes"),
    [
        pytest.param(loss, classes, id=f"{loss}-{classes}")
        for loss in LOGISTIC
        for classes in (2, 3)
        if classes == 2 or loss.options["surrogate"] not in TWO_CLASSES_ONLY
    ],
)


@EVERY
@SOME_CASES
def test_the_corrected_loss_adds_what_the_inverse_says(loss, case: Case, classes: int):
    """To any bound, z_y - sum_k (T^-1)[y, k] z_k at the mean: which sums the loss of all labels by T^-1."""
    y, T = LABELS[classes], NOISE[classes]
    coef, intercept = weights(case, classes)
    value, _, _ = loss.problem(case.X, y, classes, label_noise=T).loss_gradient(
        case.corruption, 0.1, coef, intercept
    )
    scores = np.array([ref.mean(law) for law in case.laws]) @ coef.T + intercept
    scores = np.column_stack([np.zeros(len(y)), scores]) if classes == 2 else scores
    rows = np.arange(len(y))
    extra = scores[rows, y] - (np.linalg.inv(T)[y] * scores).sum(axis=1)
    expected = ref.objective(loss.value(case.laws, y, coef, intercept), coef, 0.1) + extra.mean()
    assert value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("case", [BY_NAME["blankout"], BY_NAME["mixed-sequence"]], ids=str)
def test_two_classes_have_the_textbook_formula(case: Case):
    """log(1 + e^{-yz}) - c_y y z over all copies, with c_y = rho_y / (1 - rho+ - rho-)."""
    y, (plus, minus) = LABELS[2], (0.3, 0.1)
    coef, intercept = weights(case, 2)
    problem = Problem(case.X, y, surrogate="exact", label_noise=(plus, minus))
    values = []
    for law, label in zip(case.laws, y, strict=True):
        share, copies = ref.corrupted_copies(law)
        z, sign = copies @ coef[0] + intercept[0], 2 * label - 1
        c = (plus if label else minus) / (1 - plus - minus)
        values.append(share @ (np.logaddexp(0, -sign * z) - c * sign * z))
    value, _, _ = problem.loss_gradient(case.corruption, 0.0, coef, intercept)
    assert value == pytest.approx(np.mean(values), abs=1e-10)


@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_mean_over_what_is_seen_is_the_loss_of_the_truth(multiclass, classes):
    """Without corruption, where every form is the logistic loss itself; each row is seen with every label."""
    case, T = BY_NAME["blankout"], NOISE[classes]
    true, n = LABELS[classes], len(LABELS[classes])
    coef, intercept = weights(case, classes)
    seen = np.tile(np.arange(classes), n)
    noisy = Problem(
        np.repeat(case.X, classes, axis=0),
        seen,
        multiclass=multiclass,
        sample_weight=T[true].ravel(),
        label_noise=T,
    )
    clean = Problem(case.X, true, multiclass=multiclass)
    for ours, theirs in zip(
        noisy.loss_gradient(None, 0.1, coef, intercept),
        clean.loss_gradient(None, 0.1, coef, intercept),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@EVERY
def test_gradients_of_the_corrected_loss(loss, classes):
    case, step = BY_NAME["blankout"], 1e-5
    coef, intercept = weights(case, classes, seed=1)
    problem = loss.problem(case.X, LABELS[classes], classes, label_noise=NOISE[classes])
    _, grad_coef, grad_intercept = problem.loss_gradient(case.corruption, 0.1, coef, intercept)
    rng = np.random.default_rng(0)
    V, v = rng.normal(size=coef.shape), rng.normal(size=intercept.shape)
    up, down = (
        problem.loss_gradient(case.corruption, 0.1, coef + s * V, intercept + s * v)[0] for s in (step, -step)
    )
    assert (up - down) / (2 * step) == pytest.approx(
        np.sum(V * grad_coef) + v @ grad_intercept, rel=1e-6, abs=1e-6
    )


@EVERY
def test_fits_converge_where_nothing_is_lower(loss, classes):
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, 80)
    X = rng.poisson(0.5 + np.eye(6)[y])
    problem = loss.problem(X.astype(float), y, classes, label_noise=NOISE[classes])
    solution = problem.solve(Blankout(0.4), 0.05, tol=1e-6)
    assert solution.converged
    _, grad_coef, grad_intercept = problem.loss_gradient(
        Blankout(0.4), 0.05, solution.coef, solution.intercept
    )
    assert max(np.abs(grad_coef).max(), np.abs(grad_intercept).max()) < 1e-4


def noisy_rows(rows=1500, flips=(0.35, 0.1), seed=0):
    """Two overlapping classes of equal size, and labels of which a class keeps more than the other."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2, rows)
    X = rng.normal(size=(rows, 5)) + np.outer(2 * true - 1, [1.2, 0.8, 0.4, 0.0, 0.0])
    flipped = rng.random(rows) < np.where(true == 1, flips[0], flips[1])
    return X, true, np.where(flipped, 1 - true, true)


def test_a_model_that_knows_the_rates_is_that_of_the_true_labels():
    X, true, seen = noisy_rows()
    options = {"corruption": Blankout(0.2), "l2": 1e-2, "tol": 1e-6}
    clean = MCFClassifier(**options).fit(X, true)
    told = MCFClassifier(label_noise=(0.35, 0.1), **options).fit(X, seen)
    untold = MCFClassifier(**options).fit(X, seen)
    away = [np.linalg.norm(model.coef_ - clean.coef_) for model in (told, untold)]
    assert away[0] < 0.5 * away[1]
    assert abs(told.intercept_[0] - clean.intercept_[0]) < 0.5 * abs(
        untold.intercept_[0] - clean.intercept_[0]
    )
    assert told.score(X, true) > clean.score(X, true) - 0.01


def test_rates_are_estimated():
    X, _, seen = noisy_rows(rows=4000)
    model = MCFClassifier(corruption=None, l2=1e-2, tol=1e-3, label_noise="estimate").fit(X, seen)
    np.testing.assert_allclose(model.label_noise_, [[0.9, 0.1], [0.35, 0.65]], atol=0.06)
    np.testing.assert_allclose(model.label_noise_.sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="at least 5 rows of each class"):
        MCFClassifier(l2=0.1, label_noise="estimate").fit(X[:8], [0, 0, 0, 0, 0, 0, 0, 1])


def test_what_a_rate_stands_for():
    np.testing.assert_allclose(transition_matrix(0.2, 2), [[0.8, 0.2], [0.2, 0.8]])
    np.testing.assert_allclose(transition_matrix((0.3, 0.1), 2), [[0.9, 0.1], [0.3, 0.7]])
    np.testing.assert_allclose(transition_matrix(THREE.tolist(), 3), THREE)
    case = BY_NAME["blankout"]
    coef, intercept = weights(case, 2)
    same = [
        Problem(case.X, LABELS[2], label_noise=noise).loss_gradient(case.corruption, 0.1, coef, intercept)[0]
        for noise in (0.0, None)
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("noise", "classes", "words"),
    [
        (0.5, 2, "sum to 1 or more"),
        ((0.7, 0.3), 2, "sum to 1 or more"),
        ((0.8, 0.9), 2, "sum to 1 or more"),
        (-0.1, 2, "must not be negative"),
        (1.2, 3, "must not be negative"),
        ([[0.9, 0.2], [0.1, 0.9]], 2, "sum to 1"),
        ([[1.2, -0.2], [0.1, 0.9]], 2, "must not be negative"),
        (2 / 3, 3, "no inverse"),
        (0.9, 3, "number 0 and 1 are taken for each other"),
        ([[0.3, 0.7, 0.0], [0.8, 0.2, 0.0], [0.0, 0.0, 1.0]], 3, "number 0 and 1 are taken for each other"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], 3, "no inverse"),
        ((0.1, 0.2), 3, "3 x 3 matrix"),
        (np.eye(2), 3, "3 x 3 matrix"),
        ([[0.9, np.nan], [0.1, 0.9]], 2, "is not known"),
        (np.nan, 2, "is not known"),
        ("guess", 2, "'guess' is not known"),
        ([[1.0], [0.5, 0.5]], 2, "is not known"),
    ],
)
def test_noise_that_cannot_be_corrected_is_refused(noise, classes, words):
    case = BY_NAME["blankout"]
    with pytest.raises(ValueError, match=words):
        MCFClassifier(label_noise=noise, l2=0.1).fit(case.X, LABELS[classes])


def test_a_corrected_loss_that_is_exploited_is_said():
    """Sixty rows in sixty columns: whatever the labels are, weights can repeat them."""
    X, y = np.eye(60), np.arange(60) % 2
    with pytest.warns(UserWarning, match=r"never negative: at l2 = 1e-05 .* use a larger l2"):
        model = MCFClassifier(corruption=None, l2=1e-5, label_noise=0.3).fit(X, y)
    assert model.objective_ < -1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MCFClassifier(corruption=None, l2=1.0, label_noise=0.3).fit(X, y)
        MCFClassifier(corruption=None, l2=1e-5).fit(X, y)


@pytest.mark.parametrize("surrogate", ["exact", "gaussian", "quadratic", "jensen"])
def test_under_corruption_the_losses_without_a_bound_stay_unbiased(surrogate):
    case, T, y = BY_NAME["blankout"], NOISE[2], LABELS[2]
    point = case.corruption, 0.1, *weights(case, 2)
    options = {"surrogate": surrogate, "label_noise": T, "sample_weight": T[y].ravel()}
    noisy = Problem(np.repeat(case.X, 2, axis=0), np.tile([0, 1], len(y)), **options).loss_gradient(*point)[0]
    clean = Problem(case.X, y, surrogate=surrogate).loss_gradient(*point)[0]
    assert (abs(noisy - clean) < 1e-9) == (surrogate != "jensen")


def test_what_the_correction_needs_is_said():
    case = BY_NAME["blankout"]
    with pytest.raises(ValueError, match=r"label_noise needs l2 > 0.*no lower bound"):
        MCFClassifier(label_noise=0.1).fit(case.X, LABELS[2])
    for loss in ("quadratic", "exponential"):
        with pytest.raises(ValueError, match="works with loss='logistic' only"):
            MCFClassifier(loss=loss, label_noise=0.1, l2=0.1).fit(case.X, LABELS[2])


def test_chunks_and_model_files_keep_the_correction(tmp_path):
    X, _, seen = noisy_rows(rows=120)
    model = MCFClassifier(label_noise=(0.35, 0.1), l2=0.05, tol=1e-8).fit(sp.csr_matrix(X), seen)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").label_noise_, [[0.9, 0.1], [0.35, 0.65]])
    parts = [(X[k : k + 50], seen[k : k + 50]) for k in range(0, 120, 50)]
    chunked = fit_chunks(MCFClassifier(label_noise=(0.35, 0.1), l2=0.05, tol=1e-8), parts)
    np.testing.assert_allclose(chunked.coef_, model.coef_, atol=1e-5)
    with pytest.raises(ValueError, match="give the rates"):
        fit_chunks(MCFClassifier(label_noise="estimate", l2=0.05), parts)
    with pytest.raises(ValueError, match="needs l2 > 0"):
        fit_chunks(MCFClassifier(label_noise=0.1), parts)
