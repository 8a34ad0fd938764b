"""Every objective once more, in plain numpy from the log-MGFs of the method; nothing here imports mcf_cli.

Rows are dense and every entry is evaluated on its own: no tables, no coding, no classes of rows. Weights are W (D x C)
and b (C), with one column for two classes; inside, two classes have the scores 0 and w.x, so that one formula serves
any number of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

Array = np.ndarray


@dataclass(frozen=True)
class Leaf:
    """Columns of X under one family, with a parameter for each column, or the blocks of multinomial noise."""

    family: str
    columns: Array
    parameter: Array = field(default_factory=lambda: np.zeros(0))
    blocks: tuple[tuple[Array, Array], ...] = ()  # columns, and their confusion matrix (held x read)


class Laws:
    """The laws of all corrupted rows."""

    def __init__(self, X: Array, leaves: list[Leaf]):
        self.X, self.leaves = X, leaves
        self.mean, self.variance = X.copy(), np.zeros_like(X)  # of columns that no leaf names
        self.blocks: list[tuple[Array, Array]] = []  # columns, and the symbols' probabilities in each row
        for leaf in leaves:
            if leaf.family == "multinomial":
                for columns, confusion in leaf.blocks:
                    p = X[:, columns] @ confusion
                    self.mean[:, columns] = p
                    self.blocks.append((columns, p))
            else:
                x = X[:, leaf.columns]
                self.mean[:, leaf.columns], self.variance[:, leaf.columns] = _moments(leaf, x)

    def log_mgf(self, T: Array) -> tuple[Array, Array]:
        """sum_d kappa_d(T_nd.) for T of shape N x D x J (N x J), and its derivative in T."""
        kappa, slope = T * self.X[:, :, None], np.broadcast_to(self.X[:, :, None], T.shape).copy()
        for leaf in self.leaves:
            if leaf.family != "multinomial":
                x, columns = self.X[:, leaf.columns, None], leaf.columns
                kappa[:, columns], slope[:, columns] = _log_mgf(leaf, T[:, columns], x)
        total = kappa.sum(axis=1)
        for columns, p in self.blocks:
            with np.errstate(divide="ignore"):
                exponents = np.log(p)[:, :, None] + T[:, columns]
            total += logsumexp(exponents, axis=1) - kappa[:, columns].sum(axis=1)
            slope[:, columns] = softmax(exponents, axis=1)
        return total, slope

    def spread(self, W: Array) -> tuple[Array, Array]:
        """w' Cov[x~_n] w for the columns of W (N x J), and half its derivative in w (N x D x J)."""
        image = self.variance[:, :, None] * W
        for columns, p in self.blocks:
            own = W[columns]
            image[:, columns] = p[:, :, None] * (own - (p @ own)[:, None, :])
        return np.einsum("dj,ndj->nj", W, image), image


def _moments(leaf: Leaf, x: Array) -> tuple[Array, Array]:
    p = leaf.parameter
    match leaf.family:
        case "blankout":
            return x, x**2 * p / (1 - p)
        case "dropout":
            return (1 - p) * x, p * (1 - p) * x**2
        case "gaussian":
            return x, np.broadcast_to(p**2, x.shape)
        case "laplace":
            return x, np.broadcast_to(2 * p**2, x.shape)
        case "poisson":
            return np.minimum(x, p), np.minimum(x, p)
        case "bitswap":
            return x + p - 2 * p * x, np.broadcast_to(p * (1 - p), x.shape)
    raise AssertionError(leaf.family)


def _log_mgf(leaf: Leaf, t: Array, x: Array) -> tuple[Array, Array]:
    p = leaf.parameter[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        match leaf.family:
            case "blankout" | "dropout":
                rate = x / (1 - p) if leaf.family == "blankout" else x
                u = t * rate
                odds = np.log1p(-p) - np.log(p)
                kappa = np.where(p > 0, np.logaddexp(np.log(p), np.log1p(-p) + u), u)
                return kappa, rate * np.where(p > 0, expit(u + odds), 1.0)
            case "gaussian":
                return t * x + p**2 * t**2 / 2, x + p**2 * t
            case "laplace":
                room = 1 - p**2 * t**2
                return np.where(room > 0, t * x - np.log(room), np.inf), x + 2 * p**2 * t / room
            case "poisson":
                c = np.minimum(x, p)
                return c * np.expm1(t), c * np.exp(t)
            case "bitswap":
                stays, leaves = np.log1p(-p) + t * x, np.log(p) + t * (1 - x)
                kappa = np.logaddexp(stays, leaves)
                return kappa, x * np.exp(stays - kappa) + (1 - x) * np.exp(leaves - kappa)
    raise AssertionError(leaf.family)


@dataclass(frozen=True)
class OwnObjective:
    """Weighted mean loss + l2 ||W||^2: `form` is one of FORMS."""

    laws: Laws
    y: Array  # class codes, or N x C targets
    weights: Array  # of the rows, with the sum 1
    form: str
    classes: int  # 0: regression
    l2: float

    def __call__(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        """Value, gradient in W and gradient in b."""
        if self.form == "quadratic":
            value, g_W, g_b = self._quadratic(W, b)
        else:
            binary = self.classes == 2
            scores = (np.column_stack([0 * W, W]), np.append(0.0, b)) if binary else (W, b)
            value, g_W, g_b = FORMS[self.form](self, *scores)
            if binary:
                g_W, g_b = g_W[:, 1:], g_b[1:]
        return float(value + self.l2 * (W * W).sum()), g_W + 2 * self.l2 * W, g_b

    def _quadratic(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        targets = self.y
        if self.classes:
            targets = np.where(self.y[:, None] == np.arange(self.classes), 1.0, -1.0)
            targets = targets[:, 1:] if self.classes == 2 else targets
        error, (spread, image) = self.laws.mean @ W + b - targets, self.laws.spread(W)
        G = 2 * self.weights[:, None] * error
        g_W = self.laws.mean.T @ G + 2 * np.einsum("n,ndj->dj", self.weights, image)
        return self.weights @ (error**2 + spread).sum(axis=1), g_W, G.sum(axis=0)

    @property
    def own(self) -> Array:
        """One-hot rows of the classes."""
        return np.eye(self.classes)[self.y]

    def _exponential(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        codes = self.own - (1 - self.own) / (self.classes - 1)
        s, slope = self.laws.log_mgf(-(codes @ W.T)[:, :, None])
        with np.errstate(over="ignore"):
            each = self.weights * np.exp(s[:, 0] - codes @ b)
        return each.sum(), -np.einsum("n,nd,nk->dk", each, slope[:, :, 0], codes), -each @ codes

    def _from_margins(self, G_T: Array, G_b: Array) -> tuple[Array, Array]:
        """Gradients in W and b from those in W - w_y and b - b_y."""
        g_W = G_T.sum(axis=0) - np.einsum("nd,nk->dk", G_T.sum(axis=2), self.own)
        return g_W, G_b.sum(axis=0) - G_b.sum(axis=1) @ self.own

    def _pairwise(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        s, slope = self.laws.log_mgf(W[None] - (self.own @ W.T)[:, :, None])
        s = s + b - b[self.y][:, None]
        G = self.weights[:, None] * softmax(s, axis=1)
        return self.weights @ logsumexp(s, axis=1), *self._from_margins(slope * G[:, None], G)

    def _shared(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        s, slope = self.laws.log_mgf(np.broadcast_to(W, (len(self.y), *W.shape)))
        s = s + b
        G, member = self.weights[:, None] * softmax(s, axis=1), self.weights[:, None] * self.own
        value = self.weights @ logsumexp(s, axis=1) - (member * (self.laws.mean @ W + b)).sum()
        return (
            value,
            np.einsum("ndk,nk->dk", slope, G) - self.laws.mean.T @ member,
            (G - member).sum(axis=0),
        )

    def _approximation(self, W: Array, b: Array) -> tuple[float, Array, Array]:
        first, second = np.triu_indices(self.classes, k=1)
        a = self.laws.mean @ W + b
        p, (spread, image) = softmax(a, axis=1), self.laws.spread(W[:, first] - W[:, second])
        weight = self.weights[:, None] * p[:, first] * p[:, second]
        value = (
            self.weights @ (logsumexp(a, axis=1) - a[np.arange(len(a)), self.y])
            + 0.5 * (weight * spread).sum()
        )
        G, bend = self.weights[:, None] * (p - self.own), 0.5 * weight * spread
        for pair, (k, j) in enumerate(zip(first, second, strict=True)):
            G[:, k] += bend[:, pair]
            G[:, j] += bend[:, pair]
        G -= 2 * p * bend.sum(axis=1, keepdims=True)
        g_W, through = self.laws.mean.T @ G, np.einsum("nj,ndj->dj", weight, image)
        for pair, (k, j) in enumerate(zip(first, second, strict=True)):
            g_W[:, k] += through[:, pair]
            g_W[:, j] -= through[:, pair]
        return value, g_W, G.sum(axis=0)

    def _variational(
        self, W: Array, b: Array, one_lambda: bool, from_zero: bool
    ) -> tuple[float, Array, Array]:
        """log sum_k E e^{(w_k - r).x~} + (r - w_y).m with the reference r = start - lam Q."""
        K, own = self.classes, self.own
        start = (
            np.zeros_like(own) if from_zero and K > 2 else own
        )  # r at lambda = 0, as a combination of classes
        q = np.full(own.shape, -1.0 / K) if from_zero and K > 2 else own - (1 - own) / (K - 1)
        P, Q = W[None] - (start @ W.T)[:, :, None], q @ W.T
        biases, linear = b - (start @ b)[:, None], (self.laws.mean * Q).sum(axis=1)

        def at(lam: Array) -> tuple[Array, Array, Array]:
            s, slope = self.laws.log_mgf(P + lam[:, None, None] * Q[:, :, None])
            share = softmax(s + biases, axis=1)
            return s + biases, slope * share[:, None], share

        def rising(lam: Array) -> Array:
            through = np.einsum("ndk,nd->n", at(lam)[1], Q) - linear
            return np.full(len(lam), self.weights @ through) if one_lambda else through

        lam = _root(rising, len(own))
        s, flow, share = at(lam)
        beside = own - start  # what is left of w_y.m
        value = logsumexp(s, axis=1) - lam * linear - ((self.laws.mean @ W + b) * beside).sum(axis=1)
        weight = self.weights
        flow, share = flow * weight[:, None, None], share * weight[:, None]
        to_Q = lam[:, None] * (flow.sum(axis=2) - weight[:, None] * self.laws.mean)
        g_W = (
            flow.sum(axis=0)
            - flow.sum(axis=2).T @ start
            + to_Q.T @ q
            - self.laws.mean.T @ (weight[:, None] * beside)
        )
        g_b = share.sum(axis=0) - share.sum(axis=1) @ start - weight @ beside
        return weight @ value, g_W, g_b


def _root(rising: Callable[[Array], Array], n: int) -> Array:
    """Where each increasing function crosses zero in [0, 1], or the end nearer to it, by bisection."""
    low, high = np.zeros(n), np.ones(n)
    low[rising(high) <= 0] = 1.0
    high[rising(np.zeros(n)) >= 0] = 0.0
    low = np.minimum(low, high)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = rising(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


FORMS: dict[str, Callable[..., tuple[float, Array, Array]]] = {
    "quadratic": OwnObjective._quadratic,
    "exponential": OwnObjective._exponential,
    "pairwise": OwnObjective._pairwise,
    "shared": OwnObjective._shared,
    "approximation": OwnObjective._approximation,
    "variational-pairwise": lambda own, W, b: own._variational(W, b, one_lambda=False, from_zero=False),
    "variational-shared": lambda own, W, b: own._variational(W, b, one_lambda=False, from_zero=True),
    "variational-pairwise-one": lambda own, W, b: own._variational(W, b, one_lambda=True, from_zero=False),
    "variational-shared-one": lambda own, W, b: own._variational(W, b, one_lambda=True, from_zero=True),
}
CONVEX = ("quadratic", "exponential", "pairwise", "shared")


def descend(
    own: OwnObjective, W: Array, b: Array, intercept: bool, max_iter: int = 400
) -> tuple[float, Array, Array]:
    """scipy's minimum from (W, b).

    scipy sees columns that are centred and scaled, so that neither an offset nor a scale hides a lower point. Where a
    log-MGF does not exist it sees a value that is merely too high, from which its line search can find back.
    """
    D, C = W.shape
    mean, rows = own.laws.mean, own.weights[:, None]
    centre = own.weights @ mean if intercept else np.zeros(D)
    variance = own.laws.variance + sum((_at(columns, p * (1 - p), D) for columns, p in own.laws.blocks), 0.0)
    size = np.sqrt((rows * ((mean - centre) ** 2 + variance)).sum(axis=0) + own.l2)
    size = np.where(size > 0, size, 1.0)[:, None]
    ceiling = 0.0

    def unpack(theta: Array) -> tuple[Array, Array]:
        W = theta[: D * C].reshape(D, C) / size
        return W, theta[D * C :] - centre @ W if intercept else np.zeros(C)

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        nonlocal ceiling
        with np.errstate(invalid="ignore", over="ignore"):
            value, g_W, g_b = own(*unpack(theta))
        if not np.isfinite(value):
            return 2 * ceiling + 1, np.zeros_like(theta)
        ceiling = max(ceiling, abs(value))
        if not intercept:
            return value, (g_W / size).ravel()
        return value, np.concatenate([((g_W - np.outer(centre, g_b)) / size).ravel(), g_b])

    start = (W * size).ravel()
    start = np.concatenate([start, b + centre @ W]) if intercept else start
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "maxcor": 40, "ftol": 1e-16, "gtol": 1e-14}
    result = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    W, b = unpack(result.x)
    return own(W, b)[0], W, b


def _at(columns: Array, values: Array, width: int) -> Array:
    result = np.zeros((len(values), width))
    result[:, columns] = values
    return result
