"""Newton's method for any objective that knows its second derivative."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.objective import Hessian, Objective
from mcf_cli.core.kernels.threads import one_blas_thread
from mcf_cli.core.solvers import ROUNDING, Outcome

_HALVINGS = 60  # of a step that leaves the domain


@one_blas_thread()
def newton(
    objective: Objective, W: Array, b: Array, fit_intercept: bool, max_iter: int, tol: float
) -> Outcome:
    """Minimise the objective from (W, b) by truncated Newton steps.

    Each step solves for its direction by conjugate gradients, preconditioned by the diagonal and only as
    precisely as pays, with products from the table of the gradient.

    The rule that ends it is that of every solver, and what `tol` means everywhere: no weight, changed alone, could
    lower the objective by more than tol^2 / 2 times the square of the loss's scale (`Loss.scale`: for a logistic loss
    1 nat, for the exponential loss the objective itself). It bounds the gradient in weights scaled by
    1 / sqrt(curvature).
    """
    point = np.vstack([W, b if fit_intercept else np.zeros_like(b)])
    model = _Model(objective, point, fit_intercept).differentiated()
    reach, first = np.inf, model.decrement
    for n_iter in range(max_iter):
        if model.steepest <= tol * objective.loss.scale(model.value):
            return Outcome(point[:-1], point[-1], n_iter, True, f"gradient below {tol:g}", model.value)
        step, expected = model.step(min(0.25, (model.decrement / first) ** 0.25), reach)
        rounding = expected <= ROUNDING * abs(model.value)
        share, moved = _shortened(objective, point, step, model, rounding)
        if moved is None:
            message = "no step lowers the objective further"
            return Outcome(point[:-1], point[-1], n_iter, rounding, message, model.value)
        length = model.length(step)
        quality = (model.value - moved.value) / expected
        if share < 1.0 or quality < 0.25:
            reach = 0.5 * length if share == 1.0 else share * length
        elif quality > 0.75:
            reach = max(reach, 3.0 * length)
        point += share * step
        model = moved
    converged = model.steepest <= tol * objective.loss.scale(model.value)
    message = f"gradient below {tol:g}" if converged else "the limit of iterations was reached"
    return Outcome(point[:-1], point[-1], max_iter, converged, message, model.value)


def _shortened(
    objective: Objective, point: Array, step: Array, model: _Model, rounding: bool
) -> tuple[float, _Model | None]:
    """The share of the step that lowers the objective enough, and the model there; None when none does.

    Where the step promises less than the value's rounding error, the gradient has to fall instead.
    """
    slope, share, value = float(np.vdot(model.gradient, step)), 1.0, model.value
    for _ in range(_HALVINGS):  # no more: a step that is no number would never get inside
        if objective.inside(point[:-1] + share * step[:-1]):
            break
        share *= 0.5
    for _ in range(1 if rounding else 40):
        trial = _Model(objective, point + share * step, model.fit_intercept)
        if rounding:
            better = trial.differentiated().steepest < model.steepest
        else:
            better = trial.value <= value + 1e-4 * share * slope
        if better:
            return share, trial.differentiated()
        excess = trial.value - value - share * slope
        share *= min(0.5, max(0.1, -0.5 * share * slope / excess)) if excess > 0.0 else 0.5
    return 0.0, None


class _Model:
    """The quadratic model of an objective at one point; weights are D rows and the biases one below them."""

    gradient: Array
    diagonal: Array
    hessian: Hessian | None = None

    def __init__(self, objective: Objective, point: Array, fit_intercept: bool):
        self.fit_intercept = fit_intercept
        self.value, self._derivatives = objective.expand(point[:-1], point[-1])

    def differentiated(self) -> _Model:
        """The same with its derivatives: a point that is not accepted does without."""
        if self.hessian is None:
            g_W, g_b, self.hessian = self._derivatives()
            del self._derivatives
            self.gradient = self._stacked(g_W, g_b)
            diagonal = self._stacked(*self.hessian.diagonal())
            self.diagonal = np.maximum(diagonal, max(1e-12 * diagonal.max(initial=0.0), 1e-300))
        return self

    def _stacked(self, of_W: Array, of_b: Array) -> Array:
        return np.vstack([of_W, of_b if self.fit_intercept else np.zeros_like(of_b)])

    @cached_property
    def decrement(self) -> float:
        """The squared gradient in scaled weights: twice what a step could gain were the features independent."""
        return float(np.vdot(self.gradient, self.gradient / self.diagonal))

    @property
    def steepest(self) -> float:
        return float(np.sqrt(np.max(self.gradient**2 / self.diagonal, initial=0.0)))

    def length(self, step: Array) -> float:
        return float(np.sqrt(np.vdot(step, self.diagonal * step)))

    def step(self, precision: float, reach: float, most: int = 250) -> tuple[Array, float]:
        """A minimiser of the model within `reach`, up to a relative residual, and the decrease it promises.

        Far from the minimum it stops where another iteration would add little to the decrease so far, and anywhere
        where the objective is flat to rounding: a shift of all biases, say, must not become a step of 1e16.
        """
        assert self.hessian is not None
        hessian, self.hessian = self.hessian, None  # the next model needs the room
        step, residual = np.zeros_like(self.gradient), -self.gradient
        z = residual / self.diagonal
        direction, rz = z.copy(), float(np.vdot(residual, z))
        stop, gained, size = precision**2 * rz, 0.0, rz  # size: the direction's squared length
        for n in range(1, most + 1):
            image = self._stacked(*hessian.product(direction[:-1], direction[-1]))
            bend = float(np.vdot(direction, image))
            if bend <= 1e-14 * size:
                return (step if n > 1 else z), max(gained, rz)
            rate = rz / bend
            if np.isfinite(reach) and (beyond := self._share_within(step, direction, reach)) < rate:
                step += beyond * direction
                return step, gained + beyond * rz - 0.5 * beyond**2 * bend
            step += rate * direction
            residual -= rate * image
            gained += (gain := 0.5 * rate * rz)
            np.divide(residual, self.diagonal, out=z)
            rz, previous = float(np.vdot(residual, z)), rz
            if rz <= stop or (precision > 0.01 and n * gain < 0.3 * gained):
                break
            direction *= rz / previous
            direction += z
            size = rz + (rz / previous) ** 2 * size
        return step, gained

    def _share_within(self, step: Array, direction: Array, reach: float) -> float:
        """How far along the direction the step stays within reach."""
        scaled = self.diagonal * direction
        a, b = float(np.vdot(direction, scaled)), float(np.vdot(step, scaled))
        room = max(reach**2 - self.length(step) ** 2, 0.0)
        return (np.sqrt(b * b + a * room) - b) / a if a > 0.0 else np.inf
