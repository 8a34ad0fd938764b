"""Brute-force references for the core, written from the mathematics alone; nothing here imports mcf_cli.

A corrupted example is a list of independent `Group`s: some columns, and the atoms (probability, value) that
they take together. Blankout, dropout (of one feature or a group), thinning, bit-swap and multinomial noise have
finitely many atoms, so theirs are exact; Poisson noise is a sum cut off far in its tail; Gaussian, Laplace and
uniform noise are quadrature rules whose nodes act as atoms (test_reference.py holds them against scipy's adaptive
quadrature).

Losses take `laws`, one list of groups per example, integer class codes `y`, `coef` of shape (1, D) when
binary and (K, D) otherwise, and `intercept`. They return one value per example; `objective` takes the mean
and adds l2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import binom, poisson


@dataclass(frozen=True)
class Group:
    """Columns corrupted together, and the atoms that they take: values has shape (atoms, columns)."""

    columns: tuple[int, ...]
    probabilities: np.ndarray
    values: np.ndarray


Law = list[Group]


def atoms(column: int, probabilities: Sequence[float], values: Sequence[float]) -> Group:
    return Group((column,), np.asarray(probabilities, float), np.asarray(values, float)[:, None])


def unchanged(column: int, x: float) -> Group:
    return atoms(column, [1.0], [x])


def blankout(column: int, x: float, q: float) -> Group:
    return atoms(column, [q, 1 - q], [0.0, x / (1 - q)])


def dropout(column: int, x: float, q: float) -> Group:
    return atoms(column, [q, 1 - q], [0.0, x])


def bit_swap(column: int, x: float, q: float) -> Group:
    return atoms(column, [1 - q, q], [x, 1 - x])


def group_loss(columns: Sequence[int], x: np.ndarray, q: float, survivor: float = 1.0) -> Group:
    """All of the columns are lost with probability q, else multiplied by `survivor`."""
    return Group(tuple(columns), np.array([q, 1 - q]), np.vstack([np.zeros(len(columns)), survivor * x]))


def thinning(column: int, x: float, q: float) -> Group:
    counts = np.arange(int(x) + 1)
    return atoms(column, binom.pmf(counts, int(x), 1 - q), counts)


def uniform(column: int, x: float, a: float, count: int = 40) -> Group:
    points, weights = np.polynomial.legendre.leggauss(count)
    return atoms(column, weights / 2, x + a * points)


@cache
def normal_nodes(count: int = 80) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    return weights / np.sqrt(2 * np.pi), points


@cache
def laplace_nodes(panels: int = 40, count: int = 16, reach: float = 120.0) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on panels of each half-line, which follows exp(t x~) up to |t| of about 0.7 / scale."""
    points, weights = np.polynomial.legendre.leggauss(count)
    edges = np.linspace(0.0, reach, panels + 1)
    half = (edges[1:] - edges[:-1]) / 2
    z = (edges[:-1, None] + half[:, None] * (1 + points)).ravel()
    p = 0.5 * np.exp(-z) * (half[:, None] * weights).ravel()
    return np.concatenate([p, p]), np.concatenate([z, -z])


def gaussian(column: int, x: float, sigma: float) -> Group:
    probabilities, points = normal_nodes()
    return atoms(column, probabilities, x + sigma * points)


def laplace(column: int, x: float, scale: float) -> Group:
    probabilities, points = laplace_nodes()
    return atoms(column, probabilities, x + scale * points)


def poisson_noise(column: int, x: float, clip: float = np.inf, tail: float = 60.0) -> Group:
    rate = min(x, clip)
    counts = np.arange(int(rate + 30 * np.sqrt(rate) + tail))
    return atoms(column, poisson.pmf(counts, rate), counts)


def multinomial(columns: Sequence[int], x: np.ndarray, confusion: np.ndarray) -> Group:
    """The block shows symbol j with probability confusion[i, j] when its clean symbol is i."""
    symbol = int(np.argmax(x))
    return Group(tuple(columns), np.asarray(confusion, float)[symbol], np.eye(len(columns)))


def uniform_confusion(symbols: int, q: float) -> np.ndarray:
    off = np.full((symbols, symbols), q / (symbols - 1))
    np.fill_diagonal(off, 1 - q)
    return off


# What a law implies -----------------------------------------------------------------------------------------


def width(law: Law) -> int:
    return sum(len(group.columns) for group in law)


def mean(law: Law) -> np.ndarray:
    result = np.zeros(width(law))
    for group in law:
        result[list(group.columns)] = group.probabilities @ group.values
    return result


def covariance(law: Law) -> np.ndarray:
    """The full D x D covariance; independent groups leave it block-diagonal."""
    result = np.zeros((width(law), width(law)))
    for group in law:
        centred = group.values - group.probabilities @ group.values
        result[np.ix_(group.columns, group.columns)] = centred.T @ (group.probabilities[:, None] * centred)
    return result


def group_log_mgf(group: Group, t: np.ndarray) -> float:
    exponents = group.values @ t
    top = exponents.max()
    return float(top + np.log(group.probabilities @ np.exp(exponents - top)))


def log_mgf(law: Law, t: np.ndarray) -> float:
    """log E exp(t . x~): one factor per independent group."""
    return sum(group_log_mgf(group, t[list(group.columns)]) for group in law)


def log_mgf_gradient(law: Law, t: np.ndarray) -> np.ndarray:
    """E[x~ exp(t . x~)] / E[exp(t . x~)], the mean of the tilted law."""
    result = np.zeros(width(law))
    for group in law:
        columns = list(group.columns)
        tilted = group.probabilities * np.exp(group.values @ t[columns] - group_log_mgf(group, t[columns]))
        result[columns] = tilted @ group.values
    return result


def corrupted_copies(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Every corrupted copy of an example and its probability: (copies,), (copies, D)."""
    choices = np.indices([len(group.probabilities) for group in law]).reshape(len(law), -1)
    probabilities = np.ones(choices.shape[1])
    copies = np.zeros((choices.shape[1], width(law)))
    for group, choice in zip(law, choices, strict=True):
        probabilities *= group.probabilities[choice]
        copies[:, list(group.columns)] = group.values[choice]
    return probabilities, copies


# Losses -----------------------------------------------------------------------------------------------------


def signs(y: np.ndarray) -> np.ndarray:
    return 2.0 * np.asarray(y) - 1.0


def one_vs_rest(y: np.ndarray, classes: int) -> np.ndarray:
    """Targets (N, 1) when binary, else (N, K), of +1 and -1."""
    if classes == 2:
        return signs(y)[:, None]
    return np.where(np.arange(classes) == np.asarray(y)[:, None], 1.0, -1.0)


def exponential_code(label: int, classes: int) -> np.ndarray:
    return np.where(np.arange(classes) == label, 1.0, -1.0 / (classes - 1))


def plain_quadratic(scores: np.ndarray, label: int) -> np.ndarray:
    """Loss of score rows (M, K or 1) for one label; so are the next two."""
    classes = max(2, scores.shape[1])
    return ((scores - one_vs_rest(np.array([label]), classes)[0]) ** 2).sum(axis=1)


def plain_exponential(scores: np.ndarray, label: int) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.exp(-(2 * label - 1) * scores[:, 0])
    return np.exp(-scores @ exponential_code(label, scores.shape[1]))


def plain_logistic(scores: np.ndarray, label: int) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.logaddexp(0, -(2 * label - 1) * scores[:, 0])
    return logsumexp(scores, axis=1) - scores[:, label]


PLAIN = {"quadratic": plain_quadratic, "exponential": plain_exponential, "logistic": plain_logistic}


def enumerated(
    loss: str, laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """The expected loss itself: every corrupted copy, one by one."""
    values = []
    for law, label in zip(laws, y, strict=True):
        probabilities, copies = corrupted_copies(law)
        values.append(probabilities @ PLAIN[loss](copies @ coef.T + intercept, int(label)))
    return np.array(values)


def quadratic(laws: list[Law], targets: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Eq. final_lls with a bias: (w.m + b - y)^2 + w' V w, summed over the outputs."""
    values = []
    for law, target in zip(laws, targets, strict=True):
        m, v = mean(law), covariance(law)
        values.append(
            sum((w @ m + b - t) ** 2 + w @ v @ w for w, b, t in zip(coef, intercept, target, strict=True))
        )
    return np.array(values)


def exponential(laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Eq. final_exp, binary or with Zhu's code vectors."""
    values = []
    for law, label in zip(laws, y, strict=True):
        code = signs(label)[None] if len(coef) == 1 else exponential_code(label, len(coef))
        values.append(np.exp(log_mgf(law, -code @ coef) - code @ intercept))
    return np.array(values)


def jensen_terms(law: Law, label: int, coef: np.ndarray, intercept: np.ndarray, multiclass: str) -> float:
    if len(coef) == 1:
        sign = signs(label)
        return float(np.logaddexp(0, log_mgf(law, -sign * coef[0]) - sign * intercept[0]))
    if multiclass == "pairwise":
        logits = [
            log_mgf(law, w - coef[label]) + b - intercept[label] for w, b in zip(coef, intercept, strict=True)
        ]
        return float(logsumexp(logits))
    logits = [log_mgf(law, w) + b for w, b in zip(coef, intercept, strict=True)]
    return float(logsumexp(logits) - coef[label] @ mean(law) - intercept[label])


def jensen(
    laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray, multiclass: str = "pairwise"
) -> np.ndarray:
    """Eq. final_log; several classes: the pairwise or the shared bound."""
    return np.array(
        [
            jensen_terms(law, int(label), coef, intercept, multiclass)
            for law, label in zip(laws, y, strict=True)
        ]
    )


def variational_at(
    lam: float, law: Law, label: int, coef: np.ndarray, intercept: np.ndarray, multiclass: str
) -> float:
    """The bound of Eq. tighter_bound at one lambda for one example."""
    m = mean(law)
    if len(coef) == 1:
        sign = signs(label)
        w, b = sign * coef[0], sign * intercept[0]
        up = log_mgf(law, lam * w) + lam * b
        down = log_mgf(law, (lam - 1) * w) + (lam - 1) * b
        return float(np.logaddexp(up, down) - lam * (w @ m + b))
    if multiclass == "pairwise":
        others = np.arange(len(coef)) != label
        weights = np.where(others, lam / (len(coef) - 1), 1 - lam)
    else:
        weights = np.full(len(coef), lam / len(coef))
    r, b_r = weights @ coef, weights @ intercept
    logits = [log_mgf(law, w - r) + b - b_r for w, b in zip(coef, intercept, strict=True)]
    return float(logsumexp(logits) - (coef[label] - r) @ m - (intercept[label] - b_r))


def minimise_on_unit_interval(function: Callable[[float], float]) -> float:
    """The smallest value on [0, 1] of a convex function, its ends included."""
    inner = minimize_scalar(function, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    return min(inner.fun, function(0.0), function(1.0))


def variational(
    laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray, multiclass: str = "pairwise"
) -> np.ndarray:
    """One lambda per example, each minimised."""
    return np.array(
        [
            minimise_on_unit_interval(
                lambda lam, law=law, label=int(label): variational_at(
                    lam, law, label, coef, intercept, multiclass
                )
            )
            for law, label in zip(laws, y, strict=True)
        ]
    )


def variational_shared_lambda(
    laws: list[Law],
    y: np.ndarray,
    coef: np.ndarray,
    intercept: np.ndarray,
    multiclass: str = "pairwise",
    sample_weight: np.ndarray | None = None,
) -> float:
    """One lambda for the data set, minimising the (weighted) mean of the bound; returns that mean."""

    def average(lam: float) -> float:
        values = [
            variational_at(lam, law, int(label), coef, intercept, multiclass)
            for law, label in zip(laws, y, strict=True)
        ]
        return float(np.average(values, weights=sample_weight))

    return minimise_on_unit_interval(average)


def quadratic_approximation(
    laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Eq. quadratic_approx on the usual logistic scale, expanded around the mean of the corrupted example."""
    values = []
    for law, label in zip(laws, y, strict=True):
        m, v = mean(law), covariance(law)
        scores = coef @ m + intercept
        clean = plain_logistic(scores[None, :], int(label))[0]
        if len(coef) == 1:
            p = 1 / (1 + np.exp(-scores[0]))
            curvature = p * (1 - p) * coef[0] @ v @ coef[0]
        else:
            p = np.exp(scores - logsumexp(scores))
            hessian = np.diag(p) - np.outer(p, p)
            curvature = np.trace(hessian @ (coef @ v @ coef.T))
        values.append(clean + curvature / 2)
    return np.array(values)


def score_atoms(law: Law, w: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The independent terms of the score w.x~: probabilities and values of each."""
    return [(group.probabilities, group.values @ w[list(group.columns)]) for group in law]


def expected_logistic(laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """E log(1 + e^{-yz}) of two classes: over all copies, or by adaptive quadrature over the score's spectrum."""
    if max(np.prod([float(len(group.probabilities)) for group in law]) for law in laws) < 1e4:
        return enumerated("logistic", laws, y, coef, intercept)
    values = []
    for law, sign in zip(laws, signs(y), strict=True):
        terms = score_atoms(law, coef[0])

        def integrand(t: float, terms=terms) -> float:
            phi = np.exp(1j * t * intercept[0]) * np.prod([p @ np.exp(1j * t * v) for p, v in terms])
            return (1.0 - phi.real) / (t * np.sinh(np.pi * t))

        centre, start = coef[0] @ mean(law) + intercept[0], 1e-4
        second_moment = centre**2 + coef[0] @ covariance(law) @ coef[0]  # the integrand is this / (2 pi) at 0
        integral = quad(integrand, start, 12.0, epsabs=1e-10, epsrel=1e-10, limit=500)[0]
        values.append(np.log(2.0) - sign * centre / 2 + integral + start * second_moment / (2 * np.pi))
    return np.array(values)


def normal_score_logistic(
    laws: list[Law], y: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """E log(1 + e^{-yz}) of two classes for z ~ N(w.m + b, w'Vw), by adaptive quadrature."""
    values = []
    for law, sign in zip(laws, signs(y), strict=True):
        centre, w = coef[0] @ mean(law) + intercept[0], coef[0]
        spread = np.sqrt(max(w @ covariance(law) @ w, 0.0))

        def integrand(u: float, centre=centre, spread=spread, sign=sign) -> float:
            return np.exp(-(u**2) / 2) * np.logaddexp(0, -sign * (centre + spread * u))

        values.append(quad(integrand, -12, 12, epsabs=1e-12, limit=200)[0] / np.sqrt(2 * np.pi))
    return np.array(values)


def objective(
    values: np.ndarray | float, coef: np.ndarray, l2: float, sample_weight: np.ndarray | None = None
) -> float:
    """(Weighted) mean loss plus l2 ||w||^2, the bias left out."""
    average = values if np.isscalar(values) else np.average(values, weights=sample_weight)
    return float(average + l2 * np.sum(coef**2))


# The quadratic solution -------------------------------------------------------------------------------------


def least_squares(
    means: np.ndarray, penalty: np.ndarray, targets: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise |means w + b - targets|^2 + w' penalty w as one augmented system; of many solutions, the one
    with the smallest w. Returns coef (outputs, D) and intercept (outputs,)."""
    centre = means.mean(axis=0) if fit_intercept else np.zeros(means.shape[1])
    offset = targets.mean(axis=0) if fit_intercept else np.zeros(targets.shape[1])
    eigenvalues, vectors = np.linalg.eigh(penalty)
    # Rounding must not stand in for a penalty where there is none: its root would be far above rounding.
    eigenvalues[eigenvalues < 1e-13 * max(eigenvalues.max(), 1.0)] = 0.0
    roots = np.sqrt(eigenvalues)[:, None] * vectors.T
    system = np.vstack([means - centre, roots])
    right = np.vstack([targets - offset, np.zeros((len(roots), targets.shape[1]))])
    coef = np.linalg.lstsq(system, right, rcond=1e-11)[0].T
    return coef, offset - coef @ centre


def moments(laws: list[Law]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([mean(law) for law in laws]), np.array([covariance(law) for law in laws])


def quadratic_solution(
    laws: list[Law], targets: np.ndarray, ridge: float, fit_intercept: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of the summed quadratic loss + ridge ||w||^2."""
    means, covariances = moments(laws)
    return least_squares(
        means, covariances.sum(axis=0) + ridge * np.eye(means.shape[1]), targets, fit_intercept
    )


def leave_one_out(
    laws: list[Law], X: np.ndarray, targets: np.ndarray, ridge: float, fit_intercept: bool = True
) -> np.ndarray:
    """Refit without each example in turn, the ridge kept, and predict it on its clean features."""
    means, covariances = moments(laws)
    predictions = []
    for n in range(len(laws)):
        rest = np.arange(len(laws)) != n
        penalty = covariances[rest].sum(axis=0) + ridge * np.eye(X.shape[1])
        coef, intercept = least_squares(means[rest], penalty, targets[rest], fit_intercept)
        predictions.append(coef @ X[n] + intercept)
    return np.array(predictions)


def central_difference(
    function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Fourth-order central differences of a scalar function."""
    gradient = np.zeros(at.shape)
    for index in np.ndindex(at.shape):
        shift = np.zeros(at.shape)
        shift[index] = step
        near = function(at + shift) - function(at - shift)
        far = function(at + 2 * shift) - function(at - 2 * shift)
        gradient[index] = (8 * near - far) / (12 * step)
    return gradient
