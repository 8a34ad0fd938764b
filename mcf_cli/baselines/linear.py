"""The linear baselines: the hinge loss, and plain losses with an l1 penalty.

The hinge loss is scikit-learn's ``LinearSVC`` on the project's scale of l2.

    Hinge(X, y).solve(l2=1e-4) -> Solution

LinearSVC minimises ||w||^2 / 2 + C * (sum of losses), so "mean loss + l2 ||w||^2" is C = 1 / (2 l2 N). More
than two classes take one machine per class against the rest: LIBLINEAR's default, so probably the one behind the
paper's curve.

LIBLINEAR regularises the bias; ``BIAS_SCALE`` makes that share of the penalty b^2 / BIAS_SCALE^2, small
enough not to matter and large enough for its coordinate descent to converge.

With an l1 penalty: mean loss + l1 |w|, the bias left free.

    Penalised(problem).solve(0.001) -> Solution

The losses are the core's own (``Problem`` without corruption), so a difference between MCF and a baseline is
never a difference between two implementations. ``minimise_l1`` adds the penalty to any smooth function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult, minimize

from mcf_cli.baselines.explicit import MOMENT_FEATURES, Centred, SecondMoments
from mcf_cli.core.kernels.dispatch import check_size
from mcf_cli.core.problem import Problem, Solution, signed_targets

BIAS_SCALE = 10.0
SMALLEST_L2 = 1e-6  # stands for l2 = 0, where C would be infinite and LIBLINEAR never converge


class Hinge:
    """The support vector machine on one training set: ``X`` dense or sparse, ``y`` class codes, some maybe absent."""

    def __init__(self, X: np.ndarray | sparse.spmatrix, y: np.ndarray, seed: int = 0) -> None:
        check_size(np.asarray(X.data if sparse.issparse(X) else X), "X")
        present, codes = np.unique(y, return_inverse=True)
        self.X, self.y = X, codes
        self.labels = None if len(present) == present[-1] + 1 else present
        self.seed = seed

    def solve(
        self, l2: float, *, start: Solution | None = None, max_iter: int = 1000, tol: float = 1e-2
    ) -> Solution:
        """Fit; ``tol`` is LIBLINEAR's own measure, and ``start`` is ignored: it always starts from 0."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        if l2 < 0:
            raise ValueError(f"l2 must be 0 or more, not {l2}")
        machine = LinearSVC(
            loss="hinge",
            C=1.0 / (2.0 * max(l2, SMALLEST_L2) * len(self.y)),
            intercept_scaling=BIAS_SCALE,
            max_iter=max_iter,
            tol=tol,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # recorded in the Solution instead
            machine.fit(self.X, self.y)
        n_iter = int(np.max(machine.n_iter_))
        converged = n_iter < max_iter
        return Solution(
            coef=machine.coef_,
            intercept=machine.intercept_,
            objective=self.objective(machine.coef_, machine.intercept_, l2),
            n_iter=n_iter,
            converged=converged,
            message="converged" if converged else f"stopped after {max_iter} passes",
            labels=self.labels,
        )

    def objective(self, coef: np.ndarray, intercept: np.ndarray, l2: float) -> float:
        """Mean hinge loss, summed over the machines, + l2 ||W||^2, without the bias."""
        scores = np.asarray(self.X @ coef.T) + intercept
        signs = signed_targets(self.y, max(2, len(coef)))
        losses = np.maximum(0.0, 1.0 - signs * scores).sum(axis=1)
        return float(losses.mean() + l2 * np.sum(coef**2))


Smooth = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Penalised:
    """A plain model of classes with an l1 penalty, on one training set."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._cached: Centred | None = None

    def solve(
        self, l1: float, *, start: Solution | None = None, max_iter: int = 1000, tol: float = 1e-4
    ) -> Solution:
        if self.problem.loss_name == "quadratic" and self.problem.X.shape[1] <= MOMENT_FEATURES:
            return self._from_moments(l1, start, max_iter, tol)
        return self._from_rows(l1, start, max_iter, tol)

    def _from_rows(self, l1: float, start: Solution | None, max_iter: int, tol: float) -> Solution:
        """Any loss: weights and bias together, every evaluation a pass over the data."""
        shape = (self._outputs(), self.problem.X.shape[1] + 1)
        point = np.zeros(shape) if start is None else np.column_stack([start.coef, start.intercept])
        penalised = np.ones(shape, dtype=bool)
        penalised[:, -1] = False

        def smooth(point: np.ndarray) -> tuple[float, np.ndarray]:
            table = point.reshape(shape)
            value, by_coef, by_intercept = self.problem.loss_gradient(None, 0.0, table[:, :-1], table[:, -1])
            return value, np.column_stack([by_coef, by_intercept]).ravel()

        result = minimise_l1(smooth, point.ravel(), l1, penalised.ravel(), max_iter=max_iter, tol=tol)
        table = result.x.reshape(shape)
        return self._solution(table[:, :-1].copy(), table[:, -1].copy(), result)

    def _from_moments(self, l1: float, start: Solution | None, max_iter: int, tol: float) -> Solution:
        """The quadratic loss: its moments are gathered once, and no evaluation looks at the data again."""
        moments = self._centred()
        shape = (self.problem.X.shape[1], self._outputs())
        point = np.zeros(shape) if start is None else start.coef.T

        def smooth(point: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = moments.loss_gradient(point.reshape(shape))
            return value, gradient.ravel()

        result = minimise_l1(smooth, point.ravel(), l1, max_iter=max_iter, tol=tol)
        weights = result.x.reshape(shape)
        return self._solution(weights.T.copy(), moments.bias(weights), result)

    def _centred(self) -> Centred:
        if self._cached is None:
            moments = SecondMoments()
            moments.add(self.problem.X, signed_targets(self.problem.y, self.problem.n_classes))
            self._cached = moments.centred()
        return self._cached

    def _outputs(self) -> int:
        return 1 if self.problem.n_classes <= 2 else self.problem.n_classes

    def _solution(self, coef: np.ndarray, intercept: np.ndarray, result: OptimizeResult) -> Solution:
        how = int(result.nit), bool(result.success), str(result.message)
        return Solution(coef, intercept, float(result.fun), *how, self.problem.labels)


def minimise_l1(
    smooth: Smooth,
    start: np.ndarray,
    l1: float,
    penalised: np.ndarray | None = None,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
) -> OptimizeResult:
    """Minimise smooth(x) + l1 * sum |x_i| over the ``penalised`` coordinates (all, when None).

    Writes x = u - v with u, v >= 0, which makes the penalty linear and the constraints plain bounds, and
    leaves the rest to L-BFGS-B. Its projected gradient is then the violation of the subgradient conditions,
    and it stops when the largest is below ``tol``. Zeros come out exact. Returns scipy's result with ``x``,
    ``fun`` and ``success`` in terms of the original problem.
    """
    if l1 < 0:
        raise ValueError(f"l1 must be 0 or more, not {l1}")
    start = np.asarray(start, dtype=float)
    split = np.ones(start.size, dtype=bool) if penalised is None else penalised
    count = int(split.sum())

    def join(parts: np.ndarray) -> np.ndarray:
        x = np.empty(start.size)
        x[split] = parts[:count] - parts[count : 2 * count]
        x[~split] = parts[2 * count :]
        return x

    def objective(parts: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = smooth(join(parts))
        inner = gradient[split]
        slope = np.concatenate([inner + l1, l1 - inner, gradient[~split]])
        return value + l1 * parts[: 2 * count].sum(), slope

    pieces = [np.maximum(start[split], 0.0), np.maximum(-start[split], 0.0), start[~split]]
    bounds = [(0.0, None)] * (2 * count) + [(None, None)] * (start.size - count)
    result = minimize(
        objective,
        np.concatenate(pieces),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        # ftol far below tol: the subgradient conditions, not a slow step, should end the search.
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter + 20,
            "gtol": tol,
            "ftol": 1e-7 * tol,
            "maxcor": 10,
        },
    )
    result.x = join(result.x)
    value, gradient = smooth(result.x)
    result.fun = value + l1 * np.abs(result.x[split]).sum()
    result.success = bool(result.success or subgradient_violation(result.x, gradient, l1, split).max() <= tol)
    return result


def subgradient_violation(
    x: np.ndarray, gradient: np.ndarray, l1: float, penalised: np.ndarray | None = None
) -> np.ndarray:
    """How far each coordinate is from optimal: 0 lies in gradient + l1 * d|x| exactly when all are 0."""
    weight = np.where(np.ones_like(x, dtype=bool) if penalised is None else penalised, l1, 0.0)
    at_zero = np.maximum(np.abs(gradient) - weight, 0.0)
    return np.where(x == 0.0, at_zero, np.abs(gradient + weight * np.sign(x)))
