"""Newton's method for any objective that knows its second derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.design.objective import Hessian, Objective
from mcf_cli.core.kernels.threads import one_blas_thread
from mcf_cli.core.solvers import ROUNDING, Outcome, Residuals, negligible_gain, promised

_HALVINGS = 60  # of a step that leaves the domain
_PRECISE = 0.1  # of the gradient: a residual that makes its step tell what was left on the way
_DOUBT = 0.02, 0.3  # the error of a model of which nothing, and of which the worst, is known
_SLOW = 20  # iterations of a step after which correlations of features are worth their price
_FEW_FEATURES = 1500  # with more, a factor of their correlations costs more than it saves
_ROWS_A_FEATURE = 8  # of a sample that tells correlations well enough
_MANY_ROWS = 1000  # with fewer, a fit takes no time worth saving
_LEFT = 0.02  # of what a step may promise at the end: what that step may leave
_AT_MOST = 20.0  # times that: what it may leave in valleys that no iteration has met
_PROBES = 40  # iterations more that look for a valley where nothing rules one out
_FEW_UNKNOWNS = 100  # so few have a second derivative that is soon written out
_FLAT = 1e-14  # of a weight's own curvature: what rounding leaves of a direction without any
_ENOUGH = 0.2  # of what the slope promises a shortened step must keep: half is what a quadratic keeps
_LOST = 1e-10  # of a weight's largest curvature: with less, rows on the wrong side would look flat
_AT_ONCE = 1 << 14  # numbers of a vector that pass through the cache together


@one_blas_thread()
def newton(
    objective: Objective,
    W: Array,
    b: Array,
    fit_intercept: bool,
    max_iter: int,
    tol: float,
    correlation: Callable[[], Array | None] = lambda: None,
) -> Outcome:
    """Minimise the objective from (W, b) by truncated Newton steps.

    Each step solves for its direction by conjugate gradients with products from the table of the gradient. They end
    where as many iterations again would add less than the last step's promise was wrong by: far from the minimum the
    model is not worth a precise answer, near it nothing less ends the fit. The preconditioner is the diagonal, and
    where that takes many iterations the diagonal with the features' `correlation`.

    The rule that ends it is that of every solver, and what `tol` means everywhere: a whole step promises no more than
    5 tol^2 of the objective, or of 1 where that is less (`Loss.scale`). That step is still taken.
    """
    point = np.vstack([W, b if fit_intercept else np.zeros_like(b)])
    centre(point, objective.flat_rows)
    model = _Model(objective, point, fit_intercept).differentiated()
    reach, doubt, R, slack, gained = np.inf, _DOUBT[1], None, 0.0, np.inf
    for n_iter in range(max_iter):
        negligible = negligible_gain(objective, model.value, tol)
        step = model.step(doubt, reach, negligible, R, slack)
        slack = max(slack, step.slack)
        if R is None and step.products > _SLOW:
            R, correlation = correlation(), lambda: None
            slack = slack if R is None else 0.0  # of another preconditioner
        share, moved = _shortened(objective, point, step, model)
        ended = step.whole and step.promise <= negligible
        if step.proven and 0.5 * gained < step.promise > 0.01 * negligible:
            ended = False  # it creeps along a bent valley: as many steps again would gain as much again
        if moved is None:
            message = promised(step.promise, model.value) if ended else "no step lowers the objective further"
            return Outcome(point[:-1], point[-1], n_iter, ended, message, model.value)
        point += share * step.change
        gained = model.value - moved.value
        if ended and gained <= 10.0 * negligible:  # more: it has left for a lower valley
            message = promised(step.promise, moved.value)
            return Outcome(point[:-1], point[-1], n_iter + 1, True, message, moved.value)
        length, quality = model.length(step.change), gained / step.promise
        if share < 1.0 or quality < 0.25:
            reach = 0.5 * length
        elif quality > 0.75:
            reach = 3.0 * length if n_iter == 0 else max(reach, 3.0 * length)
        doubt = float(np.clip(abs(1.0 - quality), *_DOUBT))
        model = moved.differentiated(model.scale)
    message = "the limit of iterations was reached"
    return Outcome(point[:-1], point[-1], max_iter, False, message, model.value)


def correlations(X: Any, weights: Array) -> Array | None:
    """Of features and a bias, without their means taken off: (D + 1) x (D + 1), from a sample of rows.

    None where there are too many features, or too few rows.
    """
    N, D = X.shape
    if D > _FEW_FEATURES or max(D, _MANY_ROWS) > N:
        return None
    rows = np.arange(0, N, max(1, N // (_ROWS_A_FEATURE * D)))
    sample = X[rows].toarray() if sp.issparse(X) else X[rows]
    sample = np.hstack([sample, np.ones((len(rows), 1))])
    sample *= np.sqrt(weights[rows])[:, None]
    R = sample.T @ sample
    norm = np.sqrt(np.diagonal(R))
    unit = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0.0)
    R *= unit
    R *= unit[:, None]
    return R


def centre(change: Array, rows: slice) -> None:
    """Take the mean over classes off some rows of weights: there a shift of all classes changes no loss."""
    among = change[rows]
    if len(among):
        among -= among.mean(axis=1, keepdims=True)


class _Step(NamedTuple):
    """A change of the weights with the decrease it promises, and what it took."""

    change: Array
    promise: float
    whole: bool  # neither its length nor a flat direction cut it off
    products: int
    slack: float = 0.0  # of residuals on its way, if it is precise: what was left over their squared length
    proven: bool = False  # by the whole second derivative: no step promises more


def _ended(change: Array, gained: float, n: int, course: list[tuple[float, float]]) -> _Step:
    """A whole step; the `course` of gains and squared residuals on its way is that of a precise one."""
    return _Step(change, gained, True, n, max(((gained - g) / squared for g, squared in course), default=0.0))


def _shortened(objective: Objective, point: Array, step: _Step, model: _Model) -> tuple[float, _Model | None]:
    """The share of the step that lowers the objective enough, and the model there; None when none does.

    Where the step promises less than the value's rounding error, the gradient has to fall instead.
    """
    change, rounding = step.change, step.promise <= ROUNDING * abs(model.value)
    slope, share, value = float(np.vdot(model.gradient, change)), 1.0, model.value
    for _ in range(_HALVINGS):  # no more: a step that is no number would never get inside
        if objective.inside(point[:-1] + share * change[:-1]):
            break
        share *= 0.5
    for _ in range(1 if rounding else 40):
        trial = _Model(objective, point + share * change, model.fit_intercept)
        if rounding:
            better = trial.differentiated(model.scale).steepest < model.steepest
        else:
            better = trial.value <= value + _ENOUGH * share * slope
        if better:
            return share, trial
        share = _shorter(share, trial.value - value - share * slope, -slope)
    return 0.0, None


def _shorter(share: float, excess: float, bend: float) -> float:
    """The next share of a step whose value at `share` is too far above its tangent.

    Losses are sums of exponentials, so the curvature is taken to grow as one along the step: at t the value is
    bend (exp(k t) - 1 - k t) / k^2 above the tangent. The excess tells k, and the minimum is at log(1 + k) / k.
    """
    if not 0.5 * share**2 * bend < excess < np.inf:
        return 0.1 * share if excess == np.inf else 0.5 * share
    low, high = 1e-3 / share, 700.0 / share
    for _ in range(40):
        k = np.sqrt(low * high)
        low, high = (k, high) if (np.expm1(k * share) - k * share) * bend < excess * k * k else (low, k)
    return float(np.clip(np.log1p(k) / k, 0.1 * share, 0.7 * share))


class _Model:
    """The quadratic model of an objective at one point; weights are D rows and the biases one below them."""

    gradient: Array
    diagonal: Array
    scale: Array  # the largest diagonal so far
    hessian: Hessian | None = None

    def __init__(self, objective: Objective, point: Array, fit_intercept: bool):
        self.fit_intercept, self.flat_rows = fit_intercept, objective.flat_rows
        self.value, self._derivatives = objective.expand(point[:-1], point[-1])

    def differentiated(self, scale: Array | None = None) -> _Model:
        """The same with its derivatives: a point that is not accepted does without.

        ``scale`` is that of the model before: the largest curvature that each weight has had. It measures lengths,
        because rows far on the wrong side have next to none, and a step by their curvature alone has no bound.
        """
        if self.hessian is None:
            g_W, g_b, self.hessian = self._derivatives()
            del self._derivatives
            self.gradient = self._stacked(g_W, g_b)
            diagonal = self._stacked(*self.hessian.diagonal())
            self.scale = diagonal if scale is None else np.maximum(diagonal, scale)
            # Row by row: columns may differ by any factor in size.
            floor = np.maximum(1e-12 * diagonal.max(axis=1, keepdims=True), _LOST * self.scale)
            self.diagonal = np.maximum(diagonal, np.maximum(floor, 1e-300))
        return self

    def _stacked(self, of_W: Array, of_b: Array) -> Array:
        return np.vstack([of_W, of_b if self.fit_intercept else np.zeros_like(of_b)])

    @property
    def steepest(self) -> float:
        return float(np.sqrt(np.max(self.gradient**2 / self.diagonal, initial=0.0)))

    def length(self, step: Array) -> float:
        return float(np.sqrt(np.vdot(step, self.scale * step)))

    def step(self, doubt: float, reach: float, negligible: float = 0.0, *rest: Any) -> _Step:
        """A minimiser of the model within `reach`, precise up to the `doubt` in the model.

        One that would end a fit of a few unknowns is compared with the exact one.
        """
        assert self.hessian is not None
        hessian, self.hessian = self.hessian, None  # the next model needs the room
        step = self._iterated(hessian, doubt, reach, negligible, *rest)
        if step.whole and step.promise <= negligible and step.change.size <= _FEW_UNKNOWNS:
            change, promise = self._exact(hessian)
            if promise > negligible:
                share = min(1.0, reach / self.length(change))
                promise *= share * (2.0 - share)
                return _Step(share * change, promise, share == 1.0, step.products + change.size)
            step = step._replace(promise=max(step.promise, promise), proven=True)
        return step

    def _exact(self, hessian: Hessian) -> tuple[Array, float]:
        """The minimiser of the model, but for what is flat to rounding, and its promise, by the whole matrix."""
        root, unit = np.sqrt(self.diagonal), np.zeros(self.gradient.size)
        matrix = np.empty((unit.size, unit.size))
        for number, row in enumerate(matrix):
            unit[number] = 1.0
            direction = unit.reshape(root.shape) / root
            row[:] = (self._stacked(*hessian.product(direction[:-1], direction[-1])) / root).ravel()
            unit[number] = 0.0
        bends, ways = np.linalg.eigh(0.5 * (matrix + matrix.T))
        share = ways.T @ (self.gradient / root).ravel()
        share[bends <= unit.size * _FLAT * bends[-1]] = 0.0
        solved = np.divide(share, bends, out=np.zeros_like(share), where=share != 0.0)
        return -(ways @ solved).reshape(root.shape) / root, 0.5 * float(share @ solved)

    def _iterated(
        self,
        hessian: Hessian,
        doubt: float,
        reach: float,
        negligible: float = 0.0,
        correlation: Array | None = None,
        slack: float = 0.0,
        most: int = 250,
    ) -> _Step:
        """`step`, by conjugate gradients.

        A step that promises next to nothing ends the fit. So one that seems `negligible` goes on until the residual is
        3% of the gradient: beside a flat valley the first iterations have not seen the valley. It may end before where
        earlier steps were precise, the `slack` of their residuals says that next to nothing is left, and no valley can
        hide much more. Where neither l2 nor a corruption rules a valley out, iterations go on and look for one: the
        step changes only if they find one. It stops anywhere where the objective is flat to rounding: a shift of all
        biases, say, must not become a step of 1e16.
        """
        precondition = self._preconditioner(hessian, correlation)
        step, residual, z = np.zeros_like(self.gradient), -self.gradient, np.empty_like(self.gradient)
        rz = precondition(residual, z)
        direction, size = z.copy(), float(np.vdot(z, self.diagonal * z))
        past, course, ended = Residuals(residual.size, most), [], None
        first, gained, much = rz, 0.0, _AT_MOST * negligible
        for n in range(1, most + 1):
            image = self._stacked(*hessian.product(direction[:-1], direction[-1]))
            bend = float(np.vdot(direction, image))
            flat = bend <= _FLAT * size
            if ended is not None and (flat or n > ended.products + _PROBES or rz <= 2.0 * _FLAT * much):
                return ended
            if flat:
                if n == 1 and (length := self.length(z)) > reach:
                    z *= reach / length
                return _Step(step if n > 1 else z, max(gained, rz), rz <= 0.01 * first, n)
            rate = rz / bend
            if np.isfinite(reach) and (beyond := self._share_within(step, direction, reach)) < rate:
                if ended is not None and 0.5 * rate * rz <= much:
                    return ended
                step += beyond * direction
                return _Step(step, gained + beyond * rz - 0.5 * beyond**2 * bend, False, n)
            course.append((gained, rz))
            past.add(residual, z, rz)
            _advance(rate, (step, direction), (residual, image))
            past.clear(residual)
            gained += (gain := 0.5 * rate * rz)
            rz, previous = precondition(residual, z), rz
            small = 0.03 if gained <= negligible else doubt
            enough = rz <= small**2 * first or (n * gain < doubt * gained and gained > negligible)
            if ended is None and enough and gained <= negligible:
                ended = _ended(step.copy(), gained, n, course if rz <= _PRECISE**2 * first else [])
            if enough if ended is None else gained > ended.promise + much:
                break
            little = gained <= negligible and slack > 0.0 and 2.0 * slack * rz <= _LEFT * negligible
            if (little or ended is not None) and self._most(hessian, residual) <= much:
                break
            size = self._turned(direction, rz / previous, z)
        course = course if rz <= _PRECISE**2 * first else []
        return ended if ended and gained <= ended.promise + much else _ended(step, gained, n, course)

    def _most(self, hessian: Hessian, residual: Array) -> float:
        """What no step from here can promise more than: the model bends at least as each weight does alone."""
        alone = np.vstack([hessian.alone(), self.diagonal[-1]])
        return 0.5 * float((residual**2 / np.maximum(alone, 1e-300)).sum())

    def _turned(self, direction: Array, turn: float, z: Array) -> float:
        """The next direction in the place of the last, and its squared length."""
        size = 0.0
        for rows in _in_turn(direction):
            own = direction[rows]
            own *= turn
            own += z[rows]
            size += float(np.vdot(own, self.diagonal[rows] * own))
        return size

    def _preconditioner(self, hessian: Hessian, correlation: Array | None) -> Callable[[Array, Array], float]:
        """What stands for the inverse of the second derivative, without shifts of all classes that change nothing.

        It fills its second argument with that of its first, and returns the product of the two. With correlations R: in
        weights scaled to a unit diagonal, R but for the share of the diagonal that each weight has alone, which its
        corruption and l2 make. One factor serves all classes.
        """
        if correlation is None:
            return self._by_diagonal
        root = np.sqrt(self.diagonal)
        alone = self._stacked(hessian.alone(), np.zeros(root.shape[1]))
        share = np.sqrt(np.clip(1.0 - alone / self.diagonal, 0.0, 1.0).mean(axis=1))
        M = share[:, None] * correlation * share
        M[np.diag_indices_from(M)] = 1.001  # a sample may show dependence that is not there
        factor = la.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)

        def precondition(residual: Array, z: Array) -> float:
            z[:] = residual
            centre(z, self.flat_rows)
            z /= root
            np.divide(la.cho_solve(factor, z, check_finite=False), root, out=z)
            centre(z, self.flat_rows)
            return float(np.vdot(residual, z))

        return precondition

    def _by_diagonal(self, residual: Array, z: Array) -> float:
        """The diagonal as a preconditioner."""
        product, last = 0.0, len(residual) - 1
        for rows in _in_turn(residual):
            own = z[rows]
            own[:] = residual[rows]
            among = self.flat_rows
            if among.start == -1 and rows.stop <= last:
                among = slice(0, 0)  # the biases come last
            centre(own, among)
            own /= self.diagonal[rows]
            centre(own, among)
            product += float(np.vdot(residual[rows], own))
        return product

    def _share_within(self, step: Array, direction: Array, reach: float) -> float:
        """How far along the direction the step stays within reach."""
        scaled = self.scale * direction
        a, b = float(np.vdot(direction, scaled)), float(np.vdot(step, scaled))
        room = max(reach**2 - self.length(step) ** 2, 0.0)
        return (np.sqrt(b * b + a * room) - b) / a if a > 0.0 else np.inf


def _in_turn(vector: Array) -> Iterator[slice]:
    """Rows that pass through the cache together: several operations in turn then read memory once."""
    height = max(1, _AT_ONCE // vector.shape[1])
    for start in range(0, len(vector), height):
        yield slice(start, min(start + height, len(vector)))


def _advance(rate: float, step_along: tuple[Array, Array], residual_less: tuple[Array, Array]) -> None:
    """step += rate direction; residual -= rate image."""
    (step, direction), (residual, image) = step_along, residual_less
    for rows in _in_turn(step):
        step[rows] += rate * direction[rows]
        residual[rows] -= rate * image[rows]
