"""The paper's slips: each test shows the printed form to fail, by brute force, and ours to hold.

Equation and table names are the labels of the paper's source. docs/errata.md lists the entries in words.
"""

import numpy as np
import pytest
from mcf_cli import Blankout, Dropout, Gaussian, Laplace, Poisson
from mcf_cli.core.problem import Problem
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from tests.core import reference as ref

X = np.array([[0.7, 0.2, -1.2], [0.4, 2.0, 0.3], [-0.5, 0.9, 0.6], [1.1, -0.8, 0.5]])
COUNTS = np.array([[0, 3, 1], [1, 0, 2], [2, 1, 0], [4, 0, 1.0]])
Y = np.array([0, 1, 1, 0])
SIGNS = ref.signs(Y)
W = np.array([0.8, -0.5, 0.3])
Q = 0.4
NO_BIAS = np.zeros(1)


def laws_of(noise, *parameters, data=X):
    return [[noise(d, v, *parameters) for d, v in enumerate(x)] for x in data]


def core(corruption, w=W, data=X, y=Y, **options):
    """Value and gradient of the core without bias and l2."""
    problem = Problem(data, y, fit_intercept=False, **options)
    value, gradient, _ = problem.loss_gradient(
        corruption, 0.0, np.atleast_2d(w), np.zeros(len(np.atleast_2d(w)))
    )
    return value, gradient[0]


def differs(left, right, by=1e-2):
    return np.max(np.abs(np.asarray(left) - np.asarray(right))) > by


def test_erratum_01_quadratic_blankout_closed_form():
    """Section 3.1, "Blankout corruption": w* = (sum xx' + q(1-q) S)^-1 sum xy, "a factor (1+q-q^2)".

    The unbiased variance is x^2 q/(1-q), so the diagonal is multiplied by 1/(1-q).
    """
    gram, right = X.T @ X, X.T @ SIGNS
    diagonal = np.diag(np.diag(gram))
    printed = np.linalg.solve(gram + Q * (1 - Q) * diagonal, right)
    corrected = np.linalg.solve(gram + Q / (1 - Q) * diagonal, right)
    ours = Problem(X, Y, loss="quadratic", fit_intercept=False).solve(Blankout(Q), 0.0).coef[0]

    def expected_loss(w):
        return ref.enumerated("quadratic", laws_of(ref.blankout, Q), Y, w[None, :], NO_BIAS).mean()

    np.testing.assert_allclose(ours, corrected, rtol=1e-9)
    assert expected_loss(ours) < expected_loss(printed) - 1e-3
    np.testing.assert_allclose(ref.central_difference(expected_loss, ours, 1e-3), 0, atol=1e-9)
    assert differs(ref.central_difference(expected_loss, printed, 1e-3), 0)


def test_erratum_02_worked_exponential_blankout_is_the_biased_form():
    """Eq. exp_blankout: prod (q + (1-q) exp(-y w x)), where Table 2 has exp(-y w x / (1-q)).

    The worked equation (and the appendix's) is our Dropout, Table 2 our Blankout; they are different losses.
    """
    printed = np.prod(Q + (1 - Q) * np.exp(-SIGNS[:, None] * W * X), axis=1).mean()
    table = np.prod(Q + (1 - Q) * np.exp(-SIGNS[:, None] * W * X / (1 - Q)), axis=1).mean()
    blankout = ref.enumerated("exponential", laws_of(ref.blankout, Q), Y, W[None, :], NO_BIAS).mean()
    dropout = ref.enumerated("exponential", laws_of(ref.dropout, Q), Y, W[None, :], NO_BIAS).mean()
    assert differs(printed, blankout)
    assert printed == pytest.approx(dropout, rel=1e-12)
    assert table == pytest.approx(blankout, rel=1e-12)
    assert core(Blankout(Q), loss="exponential")[0] == pytest.approx(blankout, rel=1e-10)
    assert core(Dropout(Q), loss="exponential")[0] == pytest.approx(dropout, rel=1e-10)


@pytest.mark.parametrize("options", [{"loss": "exponential"}, {}, {"surrogate": "variational"}], ids=str)
def test_erratum_03_labels_zero_and_one_teach_nothing_of_class_zero(options):
    """Section 3.2, Eq. logistic and Appendix A's loss table: "Assuming a label variable y in {0, 1}".

    With y = 0 the factor exp(-y w.x) is 1 for every w, so half of the data has no gradient. With -1 it has.
    """
    zeros = Y == 0

    def printed(w):
        return np.mean(
            [np.exp(ref.log_mgf(law, -0.0 * w)) for law in laws_of(ref.blankout, Q, data=X[zeros])]
        )

    np.testing.assert_array_equal(ref.central_difference(printed, W), 0)
    _, gradient = core(Blankout(Q), data=X[zeros], y=Y[zeros], n_classes=2, **options)
    assert differs(gradient, 0)


def test_erratum_04_laplace_mgf_gradient():
    """Table 2, Laplace: -exp(-ywx) [(1-l^2 w^2)^-1 y x + 2 (1-l^2 w^2)^-2 l^2 w]: the + should be a -."""
    scale, x, w, y = 0.5, 0.7, 0.8, 1.0
    kept = 1 / (1 - scale**2 * w**2)
    printed = -np.exp(-y * w * x) * (kept * y * x + 2 * kept**2 * scale**2 * y**2 * w)
    corrected = -np.exp(-y * w * x) * (kept * y * x - 2 * kept**2 * scale**2 * y**2 * w)
    law = [ref.laplace(0, x, scale)]
    numeric = ref.central_difference(lambda v: np.exp(ref.log_mgf(law, -y * v)), np.array([w]), 1e-3)[0]
    assert differs(printed, numeric)
    assert corrected == pytest.approx(numeric, rel=1e-8)
    mgf = np.exp(Laplace(scale).log_mgf(np.array([-y * w]), np.array([[x]])))[0, 0]
    derivative = Laplace(scale).log_mgf_derivative(np.array([-y * w]), np.array([[x]]))[0, 0]
    assert -y * mgf * derivative == pytest.approx(numeric, rel=1e-8)


def test_erratum_05_poisson_logistic_gradient():
    """Gradient of Eq. logistic_poisson: exp(y w_d) should be exp(-y w_d); the numerator leaves out d."""
    rates = np.expm1(-SIGNS[:, None] * W) * COUNTS
    s = rates.sum(axis=1, keepdims=True)
    printed = -np.exp(s - rates) / (1 + np.exp(s)) * np.exp(SIGNS[:, None] * W) * SIGNS[:, None] * COUNTS
    corrected = -np.exp(s) / (1 + np.exp(s)) * np.exp(-SIGNS[:, None] * W) * SIGNS[:, None] * COUNTS
    laws = laws_of(ref.poisson_noise, data=COUNTS)
    numeric = ref.central_difference(lambda w: ref.jensen(laws, Y, w[None, :], NO_BIAS).mean(), W, 1e-3)
    assert differs(printed.mean(axis=0), numeric)
    np.testing.assert_allclose(corrected.mean(axis=0), numeric, atol=1e-9)
    np.testing.assert_allclose(core(Poisson(), data=COUNTS)[1], numeric, atol=1e-9)


def test_erratum_06_quadratic_approximation_gradient():
    """Appendix A, gradient table, "Log.-Quadr.": -y x + 2 sigma(w.x) - 1 + A'' V w + 1/2 A''' w'Vw.

    It needs sigma(2 w.x), and the second and the last term lack their x_n. (A(z) = log 2 cosh z, which is the
    usual logistic loss at 2 w: the core at 2 w is twice as steep in its own weights.)
    """
    laws = laws_of(ref.blankout, Q)
    variances = np.array([np.diag(ref.covariance(law)) for law in laws])

    def paper_loss(w):
        z = X @ w
        curvature = 4 * expit(2 * z) * expit(-2 * z)
        return np.mean(-SIGNS * z + np.logaddexp(z, -z) + curvature / 2 * (variances @ w**2))

    z = (X @ W)[:, None]
    second = 4 * expit(2 * z) * expit(-2 * z)
    third = -2 * second * (2 * expit(2 * z) - 1)
    spread = (variances @ W**2)[:, None]
    printed = -SIGNS[:, None] * X + 2 * expit(z) - 1 + second * variances * W + third / 2 * spread
    corrected = (-SIGNS[:, None] + 2 * expit(2 * z) - 1 + third / 2 * spread) * X + second * variances * W
    numeric = ref.central_difference(paper_loss, W, 1e-3)
    assert differs(printed.mean(axis=0), numeric)
    np.testing.assert_allclose(corrected.mean(axis=0), numeric, atol=1e-9)
    value, gradient = core(Blankout(Q), 2 * W, surrogate="quadratic")
    assert value == pytest.approx(paper_loss(W), rel=1e-10)
    np.testing.assert_allclose(2 * gradient, numeric, atol=1e-9)


def test_erratum_06_quadratic_approximation_is_neither_bound_nor_convex():
    """Section 4.2 presents Eq. quadratic_approx beside two bounds; it lies below the loss and bends down."""
    one = np.ones((2, 1))

    def approximation(w, q):
        return core(Blankout(q), np.array([w]), data=one, y=np.array([0, 1]), surrogate="quadratic")[0]

    laws = laws_of(ref.blankout, 0.5, data=one)
    expected = ref.enumerated("logistic", laws, [0, 1], np.array([[4.0]]), NO_BIAS).mean()
    assert approximation(4.0, 0.5) < expected - 0.1
    assert approximation(2.4, 0.8) > (approximation(1.2, 0.8) + approximation(3.6, 0.8)) / 2 + 0.1


def test_erratum_07_variational_gradient():
    """Appendix A, gradient table, "Log.-Variat.": at lambda = 0 it is not Jensen's gradient."""
    laws = laws_of(ref.blankout, Q)

    def printed_for(law, sign):
        once, twice = (np.exp(ref.log_mgf(law, -scale * sign * W)) for scale in (1, 2))
        own = np.exp([ref.group_log_mgf(group, -sign * W[[d]]) for d, group in enumerate(law)])
        slope = -sign * own * ref.log_mgf_gradient(law, -sign * W)
        return (once / own) / (1 + once) * slope * (once + np.exp(-1) * twice)

    printed = np.mean([printed_for(law, sign) for law, sign in zip(laws, SIGNS, strict=True)], axis=0)
    jensen = ref.central_difference(lambda w: ref.jensen(laws, Y, w[None, :], NO_BIAS).mean(), W, 1e-3)
    assert differs(printed, jensen)
    np.testing.assert_allclose(core(Blankout(Q))[1], jensen, atol=1e-9)
    numeric = ref.central_difference(lambda w: ref.variational(laws, Y, w[None, :], NO_BIAS).mean(), W, 1e-3)
    np.testing.assert_allclose(core(Blankout(Q), surrogate="variational")[1], numeric, atol=1e-6)


def test_erratum_08_one_lambda_or_one_per_example():
    """Eq. tighter_bound minimises one lambda outside the sum, Appendix A's table one inside it.

    These are two different bounds.
    """
    laws = laws_of(ref.blankout, Q)
    expected = ref.enumerated("logistic", laws, Y, 3 * W[None, :], NO_BIAS).mean()
    one = core(Blankout(Q), 3 * W, surrogate="variational", shared_lambda=True)[0]
    own = core(Blankout(Q), 3 * W, surrogate="variational", shared_lambda=False)[0]
    assert one == pytest.approx(ref.variational_shared_lambda(laws, Y, 3 * W[None, :], NO_BIAS), rel=1e-8)
    assert own == pytest.approx(ref.variational(laws, Y, 3 * W[None, :], NO_BIAS).mean(), rel=1e-8)
    assert expected <= own < one - 1e-3


def test_erratum_09_jensen_of_the_log_partition_is_variational_at_one_half():
    """Section 4.3 calls Eq. final_log "an alternative, somewhat simpler way to express" Eq. jensenA.

    It is another bound. On the usual scale (Eq. jensenA's w is half of ours), Eq. jensenA is the variational
    bound at lambda = 1/2, Eq. final_log the one at lambda = 0.
    """
    for law, label, sign in zip(laws_of(ref.blankout, Q), Y, SIGNS, strict=True):
        partition = np.logaddexp(ref.log_mgf(law, -W / 2), ref.log_mgf(law, W / 2))
        halved = partition - sign * W / 2 @ ref.mean(law)
        at_half = ref.variational_at(0.5, law, label, W[None, :], NO_BIAS, "pairwise")
        final_log = ref.jensen([law], [label], W[None, :], NO_BIAS)[0]
        assert halved == pytest.approx(at_half, rel=1e-12)
        assert differs(halved, final_log, by=1e-3)
    jensen = ref.jensen(laws_of(ref.blankout, Q), Y, W[None, :], NO_BIAS).mean()
    assert core(Blankout(Q))[0] == pytest.approx(jensen, rel=1e-10)


def test_erratum_10_appendix_multi_class_form():
    """Appendix B: -log [prod E exp(y'w x) / sum prod E exp(y'' w x)], the log-MGF in the numerator too.

    It lies below the expected loss and bends down; `pairwise` and `shared` lie above it.
    """

    def printed(law, label, coef):
        logits = np.array([ref.log_mgf(law, w) for w in coef])
        return logsumexp(logits) - logits[label]

    data, labels = np.array([[1.0], [1.0], [1.0]]), np.array([0, 1, 2])
    laws, coef = laws_of(ref.dropout, 0.5, data=data), np.array([[3.0], [-3.0], [-3.0]])
    expected = ref.enumerated("logistic", laws, labels, coef, np.zeros(3)).mean()
    assert np.mean([printed(law, k, coef) for law, k in zip(laws, labels, strict=True)]) < expected - 0.1
    for multiclass in ("pairwise", "shared"):
        problem = Problem(data, labels, loss="logistic", multiclass=multiclass)
        assert problem.loss_gradient(Dropout(0.5), 0.0, coef, np.zeros(3))[0] >= expected

    def along(w):
        return printed(laws[0], 0, np.array([[w], [0.0]]))

    assert along(-3.0) > (along(-6.0) + along(0.0)) / 2 + 0.05


def test_erratum_11_leave_one_out_depends_on_the_corruption():
    """Section 3.1, "Leave-one-out errors": "this property still holds ... irrespective of the corrupting
    distribution". The hat matrix keeps example n's variance, which a refit without n does not have."""
    data = np.random.default_rng(2).poisson(1.5, size=(12, 4)).astype(float)
    y = np.arange(12) % 2
    refits = ref.leave_one_out(laws_of(ref.blankout, Q, data=data), data, ref.one_vs_rest(y, 2), ridge=0.0)
    problem = Problem(data, y, loss="quadratic")
    assert differs(problem.loo(Blankout(Q), 0.0, method="paper"), refits)
    np.testing.assert_allclose(problem.loo(Blankout(Q), 0.0, method="exact"), refits, rtol=1e-8, atol=1e-9)
    ridge = ref.leave_one_out(laws_of(ref.unchanged, data=data), data, ref.one_vs_rest(y, 2), ridge=12 * 0.25)
    np.testing.assert_allclose(problem.loo(Gaussian(0.5), 0.0, method="paper"), ridge, rtol=1e-8, atol=1e-9)


def test_erratum_13_deleted_pixels_need_the_biased_form():
    """Section 5.4: test pixels are "randomly blanked out, i.e. set to zero" and not rescaled.

    The loss to expect at such a test is the Dropout loss, so Dropout's solution is its minimum; Blankout of
    the same q, the paper's unbiased corruption, ends elsewhere and pays for it. Digits show it too.
    """
    problem = Problem(X, Y, loss="quadratic", fit_intercept=False)
    biased, unbiased = (problem.solve(corruption(0.5), 0.0).coef for corruption in (Dropout, Blankout))

    def loss_under_deletion(coef):
        return ref.enumerated("quadratic", laws_of(ref.dropout, 0.5), Y, coef, NO_BIAS).mean()

    gradient = ref.central_difference(loss_under_deletion, biased, 1e-3)
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
    assert loss_under_deletion(unbiased) > loss_under_deletion(biased) + 0.01

    errors = {corruption: error_on_deleted_digits(corruption(0.5)) for corruption in (Dropout, Blankout)}
    assert errors[Dropout] < errors[Blankout] - 0.01
    assert errors[Dropout] < 0.8 * error_on_deleted_digits(None)


def error_on_deleted_digits(corruption):
    """Test error on 8 x 8 digits of which half of the pixels are set to zero, over five seeded deletions."""
    digits = load_digits()
    pixels, labels = digits.data / 16, digits.target
    solution = Problem(pixels[:1000], labels[:1000], loss="quadratic").solve(corruption, 1e-2)
    kept = np.random.default_rng(0).random((5, 797, 64)) >= 0.5
    return np.mean([solution.predict(pixels[1000:] * mask) != labels[1000:] for mask in kept])


@pytest.mark.parametrize("options", [{"loss": "quadratic"}, {"loss": "exponential"}, {}], ids=str)
def test_erratum_14_one_convention_of_l2_with_and_without_corruption(options):
    """The authors' code regularises its q = 0 baseline N times less than q > 0. Ours does not jump."""
    rng = np.random.default_rng(4)
    data = rng.normal(size=(40, 3))
    y = (data @ W + rng.normal(size=40) > 0).astype(int)
    problem, l2, tight = Problem(data, y, **options), 0.2, {"tol": 1e-9, "max_iter": 10000}
    baseline = problem.solve(None, l2, **tight).coef
    np.testing.assert_allclose(problem.solve(Blankout(0.0), l2, **tight).coef, baseline, atol=1e-6)
    np.testing.assert_allclose(problem.solve(Blankout(1e-7), l2, **tight).coef, baseline, atol=1e-5)
    weaker = problem.solve(None, l2 / len(y), **tight).coef
    assert differs(weaker, baseline)


def test_erratum_15_laplace_exponential_is_convex_only_inside_its_domain():
    """Section 3.2: "MCF exponential loss is convex for all corrupting distributions".

    Table 2's (1 - l^2 w^2)^-1 exp(-ywx) turns negative and concave past |w| = 1/l, where there is no
    expectation; the solver stays inside, where the loss is convex.
    """
    scale, x = 0.5, 1.0

    def printed(w):
        return np.exp(-w * x) / (1 - scale**2 * w**2)

    assert printed(3.0) < 0
    assert printed(3.0) > (printed(2.5) + printed(3.5)) / 2 + 1e-3
    inside = np.linspace(-1.9, 1.9, 39)
    alone = {"data": np.array([[x]]), "y": np.array([1]), "n_classes": 2, "loss": "exponential"}
    values = [core(Laplace(scale), np.array([w]), **alone)[0] for w in inside]
    np.testing.assert_allclose(values, printed(inside), rtol=1e-10)
    assert np.all(np.diff(values, 2) > 0)
    solution = Problem(np.array([[9.0], [-9.0]]), np.array([1, 0]), loss="exponential").solve(
        Laplace(scale), 0.0
    )
    assert 0 < solution.coef[0, 0] < 1 / scale


def test_the_minimised_variational_bound_is_not_convex():
    """Section 5.1 says so of (w, lambda) together. With lambda solved for each w it is not convex in w either.

    For a fixed lambda it is, and so is Jensen's bound.
    """
    q, chords = 0.9, 3 * np.random.default_rng(0).normal(size=(40, 2, 3))

    def bend(function, chord):
        return function(chord.mean(axis=0)) - (function(chord[0]) + function(chord[1])) / 2

    def bound(surrogate):
        return lambda w: core(Blankout(q), w, surrogate=surrogate)[0]

    minimised = np.array([bend(bound("variational"), chord) for chord in chords])
    assert minimised.max() > 0.1
    assert max(bend(bound("jensen"), chord) for chord in chords) < 1e-9
    laws = laws_of(ref.blankout, q)
    for lam in (0.1, 0.5, 0.9):

        def at(w, lam=lam):
            return np.mean([
                ref.variational_at(lam, law, label, w[None, :], NO_BIAS, "pairwise")
                for law, label in zip(laws, Y, strict=True)
            ])  # fmt: skip

        assert max(bend(at, chord) for chord in chords) < 1e-9


def test_erratum_18_nearest_neighbour_is_at_most_twice_the_bayes_error():
    """Section 1: "the error of a nearest neighbor classifier is twice the Bayes error"."""
    rng = np.random.default_rng(0)
    p, count = 0.3, 4000
    train, test = rng.random((count, 1)), rng.random((count, 1))
    labels = [
        (rng.random(count) < p).astype(int) for _ in range(2)
    ]  # class 0 everywhere, but for noise: Bayes is p
    neighbour = KNeighborsClassifier(1).fit(train, labels[0])
    error = np.mean(neighbour.predict(test) != labels[1])
    assert error == pytest.approx(2 * p * (1 - p), abs=0.04)
    assert error < 2 * p - 0.1


def test_erratum_19_the_constant_is_the_square_of_the_target():
    """Eq. final_lls ends in "+ 1": right for y = +-1, and wrong by y^2 - 1 for another target."""
    law = laws_of(ref.blankout, Q)[0]
    mean, second = ref.mean(law), ref.covariance(law)
    for y in (-1.0, 1.0, 2.0):
        printed = (W @ mean) ** 2 + W @ second @ W - 2 * y * (W @ mean) + 1
        expected = (W @ mean - y) ** 2 + W @ second @ W
        assert expected - printed == pytest.approx(y**2 - 1, abs=1e-12)


def test_erratum_20_a_biased_mean_can_change_the_class():
    """Section 5.3: "the unbiasedness assumption is only relevant to regression tasks"."""
    x = np.array([1.0, 0.0, 0.0])
    mean = ref.mean([ref.multinomial((0, 1, 2), x, ref.uniform_confusion(3, 0.9))])
    weights = np.array([1.0, -0.5, -0.5])
    assert np.linalg.matrix_rank(np.vstack([x, mean])) == 2  # no s(x) makes E[x~] = s(x) x
    assert weights @ x > 0 > weights @ mean


def test_erratum_21_convex_in_each_variable_is_not_convex():
    """Section 3.2: "f(x) is convex iff for all x: d2 f(x) / dx2 >= 0"."""
    hessian = np.array([[2.0, 3.0], [3.0, 2.0]])  # of x^2 + y^2 + 3xy
    assert (np.diag(hessian) > 0).all()
    assert np.linalg.eigvalsh(hessian).min() < 0


def test_erratum_22_laplace_location_noise_is_no_natural_exponential_family():
    """Sections 2 and 3.2. In such a family a log-likelihood ratio is linear in z: Gaussian noise has that."""
    z = np.linspace(-2, 3, 101)
    for law, linear in ((stats.norm, True), (stats.laplace, False)):
        ratio = law.logpdf(z, loc=1.0) - law.logpdf(z, loc=0.0)
        assert (np.abs(np.diff(ratio, 2)).max() < 1e-9) == linear
