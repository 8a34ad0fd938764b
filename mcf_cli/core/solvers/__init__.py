"""What the solvers share: what each needs of the loss and the corruption, how it ends, and their linear algebra.

>>> chosen_solver("auto", "logistic", second_derivatives=True)
'newton'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import scipy.linalg as la

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.objective import Minimand

# What each solver needs; "auto" takes the first whose needs are met.
NEEDS = {
    "direct": ("the quadratic loss",),
    "cg": ("the quadratic loss",),
    "newton": ("a loss other than the quadratic one", "second derivatives"),
    "lbfgs": ("a loss other than the quadratic one",),
}


def chosen_solver(method: str, loss: str, second_derivatives: bool) -> str:
    """The solver that `method` names; "auto" stays for the quadratic loss, whose system chooses by its shape.

    ValueError says what the loss and the corruption lack.
    """
    if method not in ("auto", *NEEDS):
        raise ValueError(f"method={method!r} is not known; give one of auto, {', '.join(NEEDS)}")
    quadratic = loss == "quadratic"
    met = {
        "the quadratic loss": quadratic,
        "a loss other than the quadratic one": not quadratic,
        "second derivatives": second_derivatives,
    }
    fitting = [name for name, needs in NEEDS.items() if all(met[need] for need in needs)]
    if method == "auto":
        return "auto" if quadratic else fitting[0]
    if method not in fitting:
        lacking = next(need for need in NEEDS[method] if not met[need])
        raise ValueError(
            f"method={method!r} needs {lacking}, which this loss and corruption do not offer: "
            f"use {' or '.join(map(repr, fitting))}"
        )
    return method


def checked_l2(l2: float) -> float:
    """The penalty itself; ValueError where it is none."""
    if not isinstance(l2, Real) or not 0.0 <= l2 < np.inf:
        raise ValueError(f"l2 must be a finite number of at least 0; got {l2!r}")
    return l2


def check_ending(max_iter: int, tol: float) -> None:
    """ValueError where a fit could not tell when to end."""
    if not isinstance(max_iter, Integral) or max_iter < 0:
        raise ValueError(f"max_iter must be a whole number of at least 0; got {max_iter!r}")
    if not isinstance(tol, Real) or not 0.0 <= tol < np.inf:
        raise ValueError(f"tol must be a finite number of at least 0; got {tol!r}")


ROUNDING = 1e-13  # of the objective: what its values cannot tell
_ROOM = 1 << 19  # numbers that residuals may take


@dataclass(frozen=True)
class Outcome:
    """Weights W (D x C) and biases b with how they were reached."""

    W: Array
    b: Array
    n_iter: int
    converged: bool
    message: str
    value: float  # the objective there


class Residuals:
    """Residuals of earlier iterations of conjugate gradients, kept where there is room for them.

    In exact arithmetic a new one is orthogonal to them. Rounding grows so fast that without their help two ways to sum
    the same rows end in different places.
    """

    def __init__(self, size: int, most: int):
        room = (most, size) if size * most <= _ROOM else (0, size)
        self.n, self._residuals, self._images = 0, np.empty(room), np.empty(room)

    def add(self, residual: Array, z: Array, rz: float) -> None:
        """Keep a residual with its preconditioned image z and their product."""
        if self.n < len(self._residuals) and rz > 0.0:
            np.divide(residual.ravel(), rz, out=self._residuals[self.n])
            self._images[self.n] = z.ravel()
            self.n += 1

    def clear(self, residual: Array) -> None:
        """Take out of a residual what lies along earlier ones."""
        if not self.n:
            return
        flat = residual.reshape(-1)
        flat -= (self._images[: self.n] @ flat) @ self._residuals[: self.n]


def negligible_gain(objective: Minimand, value: float, tol: float) -> float:
    """What a whole step may promise at the end of a fit, never below rounding.

    Anything, once a loss without penalty is rounding beside the 1 or log 2 that it began with: larger weights would
    make it smaller for ever.
    """
    if not objective.l2 and not objective.loss.unbounded and value <= ROUNDING:
        return np.inf
    return max(5.0 * (tol * objective.loss.scale(value)) ** 2, ROUNDING * abs(value))


def promised(promise: float, value: float) -> str:
    """The message of a fit that has ended."""
    return f"a further step would lower the objective by {promise / max(abs(value), 1e-300):.0e} of itself"


Inverse = Callable[[Array], Array]  # of a matrix, or what comes near it


class Iterated(NamedTuple):
    """What conjugate gradients end with."""

    solution: Array
    n_iter: int
    converged: bool
    least: Array  # of each column: the least eigenvalue of M A that its iterations met


def _least_eigenvalue(steps: Array, ratios: Array) -> float:
    """Of the tridiagonal matrix that conjugate gradients have made on their way."""
    taken = np.argmin(steps > 0.0) if (steps <= 0.0).any() else len(steps)
    if not taken:
        return 1.0
    steps, ratios = steps[:taken], ratios[: taken - 1]
    diagonal = 1.0 / steps
    diagonal[1:] += ratios / steps[:-1]
    beside = np.sqrt(ratios) / steps[:-1]
    return float(la.eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))[0])


def triangular(parts: Iterable[Array]) -> Array:
    """The triangular factor of a matrix whose rows come in parts."""
    factor = np.empty((0, 0))
    for part in parts:
        stacked = np.vstack([factor, part]) if len(factor) else part
        factor = la.qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][: stacked.shape[1]]
    return factor


def symmetric_inverse(S: Array, safe: float = 1e-5) -> tuple[Inverse, Array]:
    """The inverse of a positive semi-definite S with a unit diagonal, and the directions taken as null, D x k.

    Cholesky, or the pseudo-inverse where a pivot below `safe` says that S may be singular.
    """
    try:
        factor = la.cho_factor(S, lower=True, check_finite=False)
        if np.diagonal(factor[0]).min(initial=1.0) > safe:
            return (lambda B: la.cho_solve(factor, B, check_finite=False)), np.empty((len(S), 0))
    except la.LinAlgError:
        pass
    values, vectors = la.eigh(S, check_finite=False)
    kept = values > 1e-13 * max(values[-1], 0.0)
    V, inverse = vectors[:, kept], 1.0 / values[kept, None]
    return (lambda B: V @ (inverse * (V.T @ B))), vectors[:, ~kept]


def without(W: Array, null: Array, unit: Array) -> Array:
    """The shortest W: less its part in null directions, which are given in units."""
    if not null.shape[1]:
        return W
    # What is rounding in units can be the largest entry out of them.
    directions = unit * np.where(np.abs(null) > 1e-12, null, 0.0)
    Q, _ = la.qr(directions, mode="economic", check_finite=False)
    return W - Q @ (Q.T @ W)


def units(squares: Array) -> Array:
    """1 / sqrt(squares) to the next power of two, which costs no digit; zero for zero."""
    _, exponent = np.frexp(np.sqrt(squares))
    return np.where(squares > 0.0, np.ldexp(1.0, -exponent), 0.0)


def conjugate_gradients(
    apply: Callable[[Array], Array], B: Array, M: Array, tol: float = 1e-8, max_iter: int = 2000
) -> Iterated:
    """A^-1 B for a positive definite A, all columns at once; M is the preconditioner's diagonal."""
    M = M[:, None]
    solution, residual = np.zeros_like(B), B.copy()
    direction = M * residual
    rz = np.einsum("dc,dc->c", residual, direction)
    stop = tol**2 * rz
    steps, ratios, n_iter = [], [], 0
    while n_iter < max_iter and not (rz <= stop).all():
        image = apply(direction)
        curvature = np.einsum("dc,dc->c", direction, image)
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=(curvature > 0.0) & (rz > stop))
        solution += step * direction
        image *= step
        residual -= image
        z = np.multiply(M, residual, out=image)
        rz, previous = np.einsum("dc,dc->c", residual, z), rz
        ratio = np.divide(rz, previous, out=np.zeros_like(rz), where=previous > 0.0)
        direction *= ratio
        direction += z
        steps.append(step)
        ratios.append(ratio)
        n_iter += 1
    least = np.array(
        [_least_eigenvalue(*pair) for pair in zip(np.transpose(steps), np.transpose(ratios), strict=True)]
    )
    return Iterated(solution, n_iter, bool((rz <= stop).all()), least if n_iter else np.ones(B.shape[1]))


def inverse_root(K: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Products with F' and F where F F' = K^-1, or its pseudo-inverse where rounding left K indefinite."""
    try:
        L = la.cholesky(K, lower=True, check_finite=False)
    except la.LinAlgError:
        values, vectors = la.eigh(K, check_finite=False)
        kept = values > 1e-13 * max(values[-1], 0.0)
        F = vectors[:, kept] / np.sqrt(values[kept])
        return (lambda B: F.T @ B), (lambda B: F @ B)
    return (
        lambda B: la.solve_triangular(L, B, lower=True, check_finite=False),
        lambda B: la.solve_triangular(L, B, lower=True, trans="T", check_finite=False),
    )
