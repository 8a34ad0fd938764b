"""L-BFGS, for losses and rows that give only values and gradients; conjugate gradients confirm that it has ended."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.objective import Minimand
from mcf_cli.core.kernels.threads import one_blas_thread
from mcf_cli.core.solvers import Outcome, Residuals, negligible_gain, promised

_MEMORY = 10  # pairs of steps and changes of the gradient
_NUDGE = 1e-7  # how far scores move for a difference of gradients, and how precise the difference is
_MILESTONES = (16, 32, 64, 128, 256)  # iterations of a proof


@one_blas_thread()
def lbfgs(
    objective: Minimand, W: Array, b: Array, fit_intercept: bool, moments: Array, max_iter: int, tol: float
) -> Outcome:
    """Minimise an objective by its gradients, under the rule of `newton`; `moments` are E[x~^2], feature by feature.

    Its own estimate of the curvature says what a step promises. That is no proof: beside a flat valley it has not
    seen the valley. So where it promises nothing, conjugate gradients on differences of gradients have to agree. If
    they do not, L-BFGS takes their step and goes on. Proofs take at most max_iter gradients in all.
    """
    search = _Search(
        objective, np.vstack([W, b if fit_intercept else np.zeros_like(b)]), fit_intercept, moments
    )
    left, hoped = max_iter, np.inf  # gradients for proofs; what has to be promised for the next one
    for n_iter in range(max_iter):
        negligible = 0.1 * negligible_gain(
            objective, search.value, tol
        )  # a proof may miss some of what is left
        direction = search.solved(-search.gradient)
        promise = -0.5 * float(np.vdot(search.gradient, direction))
        if promise <= min(negligible, hoped) and left > 0:
            proof = search.proof(negligible, min(_MILESTONES[-1], left))
            left -= proof.products
            if proof.promise > promise:
                direction = proof.step
            if proof.holds:
                before = search.value
                search.move(direction)
                # A fall of more than that has left for a lower valley, and ended on the way down.
                if before - search.value <= negligible:
                    return search.outcome(n_iter, True, promised(proof.promise, search.value))
                continue
            hoped = 0.1 * promise
        if not search.move(direction) and not search.forgets():
            return search.outcome(n_iter, False, "no step lowers the objective further")
    return search.outcome(max_iter, False, "the limit of iterations was reached")


class _Proof(NamedTuple):
    """Whether no step promises more than it may; the best one that was found, its promise, and what it took."""

    holds: bool
    step: Array
    promise: float
    products: int


class _Search:
    """A point with its gradient, and what L-BFGS remembers of the way there. Biases are the row below the weights."""

    def __init__(self, objective: Minimand, point: Array, fit_intercept: bool, moments: Array):
        self.objective, self.fit_intercept, self.moments = objective, fit_intercept, moments
        self.point = point
        self.value, self.gradient = self._at(point)
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)

    def _at(self, point: Array) -> tuple[float, Array]:
        value, g_W, g_b = self.objective.loss_gradient(point[:-1], point[-1])
        return value, np.vstack([g_W, g_b if self.fit_intercept else np.zeros_like(g_b)])

    @property
    def curvature(self) -> Array:
        """About the second derivative in each weight, D + 1 rows and one column."""
        curvature = self.objective.loss.stiffest(self.value) * np.append(self.moments, 1.0)
        curvature[:-1] += 2.0 * self.objective.l2
        return np.where(curvature > 0.0, curvature, 1.0)[:, None]

    def solved(self, right: Array) -> Array:
        """The inverse of the curvature that the remembered steps have shown, times a right-hand side."""
        result, shares = right.copy(), []
        for step, change, bend in reversed(self.pairs):
            shares.append(float(np.vdot(step, result)) / bend)
            result -= shares[-1] * change
        curvature = self.curvature
        result /= curvature
        if self.pairs:
            _, change, bend = self.pairs[-1]
            result *= bend / float(np.vdot(change, change / curvature))
        for (step, change, bend), share in zip(self.pairs, reversed(shares), strict=True):
            result += (share - float(np.vdot(change, result)) / bend) * step
        return result

    def move(self, direction: Array, most: int = 40) -> bool:
        """Go along the direction until value and slope have fallen (Wolfe's conditions); False where no step does."""
        slope = float(np.vdot(self.gradient, direction))
        if not slope < 0.0:
            return False
        share, low, high = 1.0 if self.pairs else self._first_share(direction), 0.0, np.inf
        best = None
        for _ in range(most):
            point = self.point + share * direction
            inside = self.objective.inside(point[:-1])
            value, gradient = self._at(point) if inside else (np.inf, self.gradient)
            if not value <= self.value + 1e-4 * share * slope:
                high = share
            else:
                best = share, point, value, gradient
                if float(np.vdot(gradient, direction)) >= 0.9 * slope:
                    break
                low = share
            share = 0.5 * (low + high) if np.isfinite(high) else 2.0 * share
        if best is None:
            return False
        self._remember(best[1] - self.point, best[3] - self.gradient)
        _, self.point, self.value, self.gradient = best
        return True

    def _first_share(self, direction: Array) -> float:
        """Without any memory the curvature is a guess: scores shall not move by more than about 1."""
        squared = float(np.vdot(direction, self.curvature * direction))
        length = np.sqrt(squared / self.objective.loss.stiffest(self.value))
        return min(1.0, 1.0 / length) if length > 0.0 else 1.0

    def _remember(self, step: Array, change: Array) -> None:
        bend = float(np.vdot(step, change))
        if bend > 1e-12 * float(np.vdot(step, self.curvature * step)):
            self.pairs.append((step, change, bend))

    def forgets(self) -> bool:
        """Give up what is remembered: along the gradient itself there may be a way on."""
        held = bool(self.pairs)
        self.pairs.clear()
        return held

    def proof(self, negligible: float, most: int) -> _Proof:
        """The most that a Newton step promises, by conjugate gradients preconditioned by what is remembered.

        It holds where the residual is a tenth of the gradient; or where twice as many iterations could not promise too
        much if they added as much again as the last half of them did, twice.
        """
        step, residual = np.zeros_like(self.gradient), -self.gradient
        z = self.solved(residual)
        direction, rz = z.copy(), float(np.vdot(residual, z))
        past = Residuals(residual.size, most)
        first, gained, before, size = rz, 0.0, 0.0, rz
        for n in range(1, most + 1):
            image = self._product(direction)
            bend = float(np.vdot(direction, image))
            if bend <= _NUDGE * size:  # flat, or bent downwards, as far as differences can tell
                return _Proof(rz == 0.0, step if n > 1 else z, max(gained, rz), n)
            rate = rz / bend
            step += rate * direction
            past.add(residual, z, rz)
            residual -= rate * image
            past.clear(residual)
            gained += 0.5 * rate * rz
            z = self.solved(residual)
            rz, previous = float(np.vdot(residual, z)), rz
            if gained > 10.0 * negligible:
                return _Proof(False, step, gained, n)
            if rz <= 0.01 * first:
                # What is remembered may take a direction for stiffer than it is: so much the residual itself promises.
                least = 0.5 * float(np.vdot(residual, residual / self.curvature))
                return _Proof(max(gained, 0.1 * least) <= negligible, step, gained, n)
            if n in _MILESTONES:
                if n > _MILESTONES[0] and gained + 2.0 * (gained - before) <= negligible:
                    return _Proof(True, step, gained, n)
                before = gained
            direction *= rz / previous
            direction += z
            size = rz + (rz / previous) ** 2 * size
        return _Proof(False, step, gained, most)

    def _product(self, V: Array) -> Array:
        """The second derivative times V, from a difference of gradients."""
        stiffest = self.objective.loss.stiffest(self.value)
        length = float(np.vdot(V, self.curvature * V))
        share = _NUDGE * np.sqrt(stiffest / length) if length > 0.0 else 1.0
        if not self.objective.inside(self.point[:-1] + share * V[:-1]):
            share = -share
        return (self._at(self.point + share * V)[1] - self.gradient) / share

    def outcome(self, n_iter: int, converged: bool, message: str) -> Outcome:
        return Outcome(self.point[:-1], self.point[-1], n_iter, converged, message, self.value)
