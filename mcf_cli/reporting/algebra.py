"""Statements that need no data: computed by enumeration, algebra or small fits whenever a report is written.

Each check returns a number and words. For a formula the number is the largest gap between what the paper prints and the
expectation that it stands for, by enumeration of all corrupted copies; for a property (a bound, convexity) it is the
largest violation, or how much of the property there is. docs/errata.md has the corrected forms, and
tests/core/test_errata.py their tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import numpy as np
from scipy.special import expit, logsumexp

from mcf_cli.core.corruptions import Blankout, Corruption, Dropout, Gaussian, Laplace, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.reporting.statistics import Estimate

Answer = tuple[float | Estimate, str]
_BUILT_IN_SETS = ("builtin-reviews", "builtin-topics", "builtin-digits", "builtin-splice", "builtin-textures")
X = np.array([[0.7, 0.2, -1.2], [0.4, 2.0, 0.3], [-0.5, 0.9, 0.6], [1.1, -0.8, 0.5]])
COUNTS = np.array([[0, 3, 1], [1, 0, 2], [2, 1, 0], [4, 0, 1.0]])
Y = np.array([0, 1, 1, 0])
SIGNS = 2.0 * Y - 1
W = np.array([0.8, -0.5, 0.3])
Q = 0.4
_SEED = 2013


def _copies(x: np.ndarray, q: float, unbiased: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Every copy of an example that blankout can make, with its probability."""
    kept = np.array(list(product([0.0, 1.0], repeat=len(x))))
    chances = np.prod(np.where(kept > 0, 1 - q, q), axis=1)
    return kept * x / (1 - q if unbiased else 1.0), chances


def _expected(loss: Callable[[np.ndarray, float], np.ndarray], unbiased: bool = True) -> float:
    """The mean over examples of the expected loss of score and label, by enumeration."""
    found = [(_copies(x, Q, unbiased), y) for x, y in zip(X, SIGNS, strict=True)]
    return float(np.mean([chances @ loss(copies @ W, y) for (copies, chances), y in found]))


def _slope(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    moves = step * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * step) for move in moves])


def _value(corruption: Corruption, w: np.ndarray, data: np.ndarray = X, **options: object) -> float:
    problem = Problem(data, Y, fit_intercept=False, **options)  # type: ignore[arg-type]
    return float(problem.loss_gradient(corruption, 0.0, np.atleast_2d(w), np.zeros(1))[0])


def _gap(printed: np.ndarray | float, right: np.ndarray | float, what: str) -> Answer:
    gap = float(np.max(np.abs(np.asarray(printed) - np.asarray(right))))
    return gap, f"{what}: off by {gap:.3g}" if gap > 1e-8 else f"{what}: equal"


def _worst_chord(
    function: Callable[[np.ndarray], float],
    draw: Callable[[np.random.Generator], np.ndarray],
    chords: int = 60,
) -> tuple[float, int]:
    """By how much a function lies above its chords at their middle, at most, and on how many it does."""
    random = np.random.default_rng(_SEED)
    excess = []
    for _ in range(chords):
        a, b = draw(random), draw(random)
        excess.append(function((a + b) / 2) - (function(a) + function(b)) / 2)
    found = np.array(excess)
    return float(found.max()), int((found > 1e-9).sum())


def _kappa(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The log-MGF of unbiased blankout, summed over features."""
    return np.log(Q + (1 - Q) * np.exp(t * x / (1 - Q))).sum(axis=-1)


def tighter() -> Answer:
    """The variational bound with lambda solved, against Jensen's and the expectation."""
    random, above, gains, below = np.random.default_rng(_SEED), [], [], []
    for _ in range(100):
        w = 3 * random.normal(size=3)
        jensen, bound = (_value(Blankout(Q), w, surrogate=name) for name in ("jensen", "variational"))
        exact = float(
            np.mean([c @ np.logaddexp(0, -y * (z @ w)) for (z, c), y in
                     zip((_copies(x, Q) for x in X), SIGNS, strict=True)])
        )  # fmt: skip
        above.append(bound - jensen)
        below.append(exact - bound)
        gains.append(jensen - bound)
    worst = max(*above, *below)
    words = (
        f"at 100 random weights never above Jensen's bound nor below the expectation (worst {worst:.1g}); "
    )
    return worst, words + f"tighter by {np.mean(gains):.3g} on average"


def quadratic_convex() -> Answer:
    """The smallest eigenvalue of the quadratic loss's matrix, under every corruption."""
    lowest = []
    for corruption, data in _CORRUPTED:
        mean, variance = corruption.mean(data), corruption.variance(data)
        lowest.append(np.linalg.eigvalsh(mean.T @ mean + np.diag(variance.sum(axis=0))).min())
    return max(0.0, -min(lowest)), f"smallest eigenvalue of its matrix {min(lowest):.3g}"


_CORRUPTED: list[tuple[Corruption, np.ndarray]] = [
    *((Blankout(Q), X), (Dropout(Q), X), (Gaussian(0.7), X), (Laplace(0.2), X), (Poisson(), COUNTS)),
]


def _loss_at(corruption: Corruption, data: np.ndarray, options: dict[str, object], w: np.ndarray) -> float:
    return _value(corruption, w, data, **options)


def _convex(**options: object) -> Answer:
    worst, wrong, total = 0.0, 0, 0
    for corruption, data in _CORRUPTED:
        loss = partial(_loss_at, corruption, data, options)
        found = _worst_chord(loss, lambda random: random.uniform(-2, 2, 3))
        worst, wrong, total = max(worst, found[0]), wrong + found[1], total + 60
    return max(
        0.0, worst
    ), f"{wrong} of {total} random chords violate it, under {len(_CORRUPTED)} corruptions"


def exponential_convex() -> Answer:
    """Chords of the exponential loss, Laplace inside its domain."""
    return _convex(loss="exponential")


def jensen_convex() -> Answer:
    """Chords of Eq. final_log."""
    return _convex(surrogate="jensen")


def _variational(w: np.ndarray, lam: float) -> float:
    t = SIGNS[:, None] * w
    a, c = _kappa(lam * t, X), _kappa((lam - 1) * t, X)
    return float(np.mean(np.logaddexp(a, c) - lam * SIGNS * (X @ w)))


def variational_not_jointly_convex() -> Answer:
    """Chords in (w, lambda) together."""
    worst, wrong = _worst_chord(
        lambda v: _variational(v[:3], v[3]), lambda r: np.append(r.uniform(-5, 5, 3), r.uniform(0, 1)), 1000
    )
    return max(0.0, worst), f"{wrong} of 1,000 random chords violate convexity, by up to {worst:.2g}"


def _ridge(corruption: Corruption, strength: float) -> Answer:
    ours = Problem(X, Y, loss="quadratic", fit_intercept=False).solve(corruption, 0.0).coef[0]
    ridge = np.linalg.solve(X.T @ X + len(X) * strength * np.eye(3), X.T @ SIGNS)
    return _gap(ours, ridge, f"weights against ridge regression with {strength:g} for each example")


def gaussian_is_ridge() -> Answer:
    """Gaussian corruption with sigma is ridge with sigma^2."""
    return _ridge(Gaussian(0.7), 0.49)


def laplace_is_ridge() -> Answer:
    """Laplace corruption with scale b is ridge with 2 b^2."""
    return _ridge(Laplace(0.3), 0.18)


def undertraining() -> Answer:
    """How evenly weights are used, with blankout and without, on the five built-in data sets.

    The measure is (sum |w|)^2 / (D sum w^2), by class: 1 where all weights are equal, 1/D where one carries
    everything. The interval is Student's, over the data sets.
    """
    from mcf_cli import datasets

    shares: dict[bool, list[float]] = {False: [], True: []}
    for name in _BUILT_IN_SETS:
        data = datasets.load(name)
        problem = Problem(data.X, data.y)
        for corrupted, found in shares.items():
            w = np.abs(problem.solve(Blankout(0.5) if corrupted else None, 1e-4).coef)
            found.append(float(np.mean(w.sum(axis=1) ** 2 / (w.shape[1] * (w**2).sum(axis=1)))))
    gains = 100 * (np.array(shares[True]) - np.array(shares[False]))
    words = ", ".join(
        f"{name.removeprefix('builtin-')} {with_it:.0%} with blankout and {without:.0%} without"
        for name, with_it, without in zip(_BUILT_IN_SETS, shares[True], shares[False], strict=True)
    )
    return Estimate.student(gains), f"how evenly weights are used: {words}"


def _with_outliers() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Counts of two classes, one training row in fifty a hundred times too large."""
    random = np.random.default_rng(_SEED)
    rates = np.vstack([np.linspace(1, 3, 12), np.linspace(3, 1, 12)])
    y = np.arange(1400) % 2
    data = random.poisson(rates[y]).astype(float)
    data[:400:50] *= 100
    return data[:400], y[:400], data[400:], y[400:]


def _outlier_error(corruption: Corruption | None) -> float:
    train, y, test, y_test = _with_outliers()
    solution = Problem(train, y, loss="quadratic").solve(corruption, 1e-3)
    return float(np.mean(solution.predict(test) != y_test))


def poisson_outliers() -> Answer:
    """How much of the Poisson penalty comes from the outliers among counts."""
    train, *_ = _with_outliers()
    share = float(train[::50].sum() / train.sum())
    return share - 1 / 50, f"2% of the rows, 100 times too large, are {share:.0%} of the penalty"


def clip_helps() -> Answer:
    """The test error of Poisson corruption beside outliers, without a cutoff and with one."""
    without, with_clip = _outlier_error(Poisson()), _outlier_error(Poisson(clip=8.0))
    return 100 * (without - with_clip), f"test error {with_clip:.1%} with the cutoff, {without:.1%} without"


def erratum_01() -> Answer:
    """The closed form of quadratic blankout."""
    gram = X.T @ X
    printed = np.linalg.solve(gram + Q * (1 - Q) * np.diag(np.diag(gram)), X.T @ SIGNS)
    ours = Problem(X, Y, loss="quadratic", fit_intercept=False).solve(Blankout(Q), 0.0).coef[0]
    return _gap(printed, ours, "printed weights against the minimum of the expected loss")


def erratum_02() -> Answer:
    """The worked exponential loss under blankout against Table 2's corruption."""
    printed = np.prod(Q + (1 - Q) * np.exp(-SIGNS[:, None] * W * X), axis=1).mean()
    return _gap(
        printed, _expected(lambda z, y: np.exp(-y * z)), "worked loss against that of Table 2's blankout"
    )


def erratum_03() -> Answer:
    """Labels 0 and 1: how large the gradient of class 0 should be, where the printed loss has none."""
    rows = X[Y == 0]
    right = _slope(lambda w: float(np.exp(_kappa(w, rows)).mean()), W)
    return _gap(np.zeros(3), right, "gradient of examples with y = 0")


def erratum_04() -> Answer:
    """The gradient of the Laplace MGF."""
    scale, x, w = 0.5, 0.7, 0.8
    kept = 1 / (1 - scale**2 * w**2)
    printed = -np.exp(-w * x) * (kept * x + 2 * kept**2 * scale**2 * w)
    right = _slope(lambda v: float(np.exp(-v[0] * x) / (1 - scale**2 * v[0] ** 2)), np.array([w]))[0]
    return _gap(printed, right, "printed derivative against differences")


def erratum_05() -> Answer:
    """The gradient of the Poisson logistic loss."""
    t = SIGNS[:, None] * W
    rates = np.expm1(-t) * COUNTS
    s = rates.sum(axis=1, keepdims=True)
    printed = (-np.exp(s - rates) / (1 + np.exp(s)) * np.exp(t) * SIGNS[:, None] * COUNTS).mean(axis=0)
    right = _slope(lambda w: _value(Poisson(), w, COUNTS), W)
    return _gap(printed, right, "printed gradient against differences")


def erratum_06() -> Answer:
    """The gradient of the quadratic approximation, on the paper's scale."""
    variance = X**2 * Q / (1 - Q)

    def loss(w: np.ndarray) -> float:
        z = X @ w
        return float(
            np.mean(-SIGNS * z + np.logaddexp(z, -z) + 2 * expit(2 * z) * expit(-2 * z) * (variance @ w**2))
        )

    z = (X @ W)[:, None]
    second = 4 * expit(2 * z) * expit(-2 * z)
    third = -2 * second * (2 * expit(2 * z) - 1)
    spread = (variance @ W**2)[:, None]
    printed = -SIGNS[:, None] * X + 2 * expit(z) - 1 + second * variance * W + third / 2 * spread
    return _gap(printed.mean(axis=0), _slope(loss, W), "printed gradient against differences")


def erratum_07() -> Answer:
    """The printed gradient of the variational bound at lambda = 0, where the bound is Jensen's."""
    t = -SIGNS[:, None] * W
    own = Q + (1 - Q) * np.exp(t * X / (1 - Q))
    once, twice = np.exp(_kappa(t, X))[:, None], np.exp(_kappa(2 * t, X))[:, None]
    slope = -SIGNS[:, None] * X * np.exp(t * X / (1 - Q))
    printed = (once / own / (1 + once) * slope * (once + np.exp(-1) * twice)).mean(axis=0)
    return _gap(printed, _slope(lambda w: _value(Blankout(Q), w), W), "printed gradient against Jensen's")


def erratum_08() -> Answer:
    """One lambda for all examples against one for each."""
    one, own = (
        _value(Blankout(Q), 3 * W, surrogate="variational", shared_lambda=shared) for shared in (True, False)
    )
    return _gap(one, own, "the equation's bound against the table's")


def erratum_09() -> Answer:
    """Eq. jensenA against Eq. final_log."""
    half = np.logaddexp(_kappa(-W / 2, X), _kappa(W / 2, X)) - SIGNS * (X @ W) / 2
    return _gap(float(half.mean()), _value(Blankout(Q), W), "Eq. jensenA against Eq. final_log")


def erratum_10() -> Answer:
    """The appendix's multi-class form: by how much it lies below the loss that it should bound."""
    coef = np.array([3.0, -3.0, -3.0])
    logits = np.log(0.5 + 0.5 * np.exp(coef))
    printed = np.mean([logsumexp(logits) - logits[k] for k in range(3)])
    exact = 0.5 * np.log(3) + 0.5 * np.mean([logsumexp(coef) - coef[k] for k in range(3)])
    return float(max(0.0, exact - printed)), f"lies {exact - printed:.3g} below the expected loss"


def erratum_15() -> Answer:
    """The printed Laplace exponential loss beyond |w| = 1/b: by how much it lies above a chord."""

    def printed(w: float) -> float:
        return float(np.exp(-w) / (1 - 0.25 * w**2))

    bend = printed(3.0) - (printed(2.5) + printed(3.5)) / 2
    return max(
        0.0, bend
    ), f"at w = 3, beyond 1/b = 2, it lies {bend:.2g} above its chord and is {printed(3.0):.2g}"


def erratum_16() -> Answer:
    """The losses that the caption of Figure 3 names for its three rows: how many of three are missing."""
    caption = "l2-regularized quadratic, exponential, and quadratic loss functions"
    named = [name for name in ("quadratic", "exponential", "logistic") if name in caption]
    return float(
        3 - len(named)
    ), f"its three rows are called {caption.partition(' ')[2]}: {len(named)} losses"


def erratum_18() -> Answer:
    """The nearest neighbour's limiting error, 2p(1-p) where the Bayes error is p everywhere, against twice p."""
    p = 0.2
    limit = 2 * p * (1 - p)
    return _gap(
        limit, 2 * p, f"limiting error {limit:.2f} at a Bayes error of {p:g}, twice which is {2 * p:g}"
    )


def erratum_19() -> Answer:
    """Eq. final_lls for a target that is not +-1."""
    y, x = 2.0, X[0]
    copies, chances = _copies(x, Q)
    right = chances @ (copies @ W - y) ** 2
    printed = (x @ W) ** 2 + (x**2 * Q / (1 - Q)) @ W**2 - 2 * y * (x @ W) + 1
    return _gap(float(printed), float(right), "the printed loss at y = 2 against the expected square")


def erratum_20() -> Answer:
    """A biased corruption in classification: E[x~] is no multiple of x, and the two can lie on different sides.

    Multinomial noise on one block of three symbols, q = 0.9: its mean favours the wrong symbols.
    """
    mean = np.array([0.1, 0.45, 0.45])
    w = np.array([1.0, -0.5, -0.5])
    share = float(np.linalg.norm(mean - mean[0] * np.array([1.0, 0, 0])))
    return (
        share,
        f"E[x~] is {share:.2f} away from every multiple of x; the score {w[0]:+.2f} becomes {w @ mean:+.2f}",
    )


def erratum_21() -> Answer:
    """A function that is convex in each variable alone and not convex: x^2 + y^2 + 3xy."""
    lowest = float(np.linalg.eigvalsh(np.array([[2.0, 3.0], [3.0, 2.0]])).min())
    return max(
        0.0, -lowest
    ), f"x^2 + y^2 + 3xy passes the criterion in x and in y, and has the curvature {lowest:g}"


def erratum_22() -> Answer:
    """In a natural exponential family log p(z | x1) - log p(z | x2) is linear in z; of Laplace noise it is not."""
    z = np.linspace(-2, 3, 51)
    bend = float(np.abs(np.diff(np.abs(z - 1.0) - np.abs(z), 2)).max())
    return bend, f"log p(z | 0) - log p(z | 1) has second differences up to {bend:.2g}"


ALGEBRA: dict[str, Callable[[], Answer]] = {
    check.__name__: check
    for check in (
        *(tighter, quadratic_convex, exponential_convex, jensen_convex, variational_not_jointly_convex),
        *(gaussian_is_ridge, laplace_is_ridge, undertraining, poisson_outliers, clip_helps),
        *(erratum_01, erratum_02, erratum_03, erratum_04, erratum_05, erratum_06, erratum_07, erratum_08),
        *(
            erratum_09,
            erratum_10,
            erratum_15,
            erratum_16,
            erratum_18,
            erratum_19,
            erratum_20,
            erratum_21,
            erratum_22,
        ),
    )
}


@cache
def answer_to(name: str) -> Answer:
    """The answer of a check, computed once a process: it depends on nothing but the code."""
    return ALGEBRA[name]()
