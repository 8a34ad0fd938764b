"""One training set, many fits: whatever fits can share is made once.

>>> import numpy as np
>>> from mcf_cli.core.corruptions import Blankout
>>> X, y = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.array([0, 0, 1, 1])
>>> problem = Problem(X, y, loss="logistic")
>>> path = [problem.solve(Blankout(q=q), l2=0.01) for q in (0.1, 0.5, 0.9)]
>>> [int(code) for code in path[0].predict(X)]
[0, 0, 1, 1]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.coding import CodeBook
from mcf_cli.core.corruptions import resolve
from mcf_cli.core.design import Design, structure
from mcf_cli.core.families import Array, Corruption, Identity, column_sums
from mcf_cli.core.leave_one_out import leave_one_out
from mcf_cli.core.lossbase import Batch, Loss
from mcf_cli.core.losses import PairwiseJensen, SharedJensen, make_loss
from mcf_cli.core.newton import newton
from mcf_cli.core.objective import Objective
from mcf_cli.core.solvers import QuadraticSystem, lbfgs

_INSIDE = 1.0 - 1e-6  # how much of a corruption's domain the optimiser may use


def codes_of(scores: Array) -> Array:
    """The class codes that scores stand for: N or N x 1 of them for two classes, else N x K."""
    one = scores.ndim == 1 or scores.shape[1] == 1
    return (scores.ravel() > 0.0).astype(np.int64) if one else scores.argmax(axis=1)


@dataclass(frozen=True)
class Solution:
    """A fitted linear model and how it was reached."""

    coef: Array  # C x D
    intercept: Array  # C
    objective: float
    n_iter: int
    converged: bool
    message: str
    labels: Array | None = None  # the class codes of the scores, where some classes were left out

    def decision(self, X: Any) -> Array:
        """w.x + b: N values for two classes or one target, else N x K."""
        scores = X @ self.coef.T + self.intercept
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Class codes."""
        best = codes_of(self.decision(X))
        return best if self.labels is None else self.labels[best]


class Problem:
    """Data, labels and a loss; `solve` fits it under any corruption and l2.

    y holds class codes 0 .. K-1, or the targets of a regression (loss="quadratic", n_classes=0).
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        loss: str = "logistic",
        surrogate: str = "jensen",
        multiclass: str = "pairwise",
        shared_lambda: bool = False,
        fit_intercept: bool = True,
        sample_weight: Array | None = None,
        n_classes: int | None = None,
        codes: CodeBook | None = None,
        reusable: bool = True,
        drop_absent: bool = False,
    ):
        """reusable=False drops the coding once a fit has its design: less memory, no cheap subsets.

        drop_absent=True leaves out classes that no row has. A bias could drive their scores, and with them the
        exponential loss of all others, to zero; predictions keep the codes of y.
        """
        self.X, self.y, self.sample_weight = _checked_data(X, y, sample_weight)
        if n_classes is None:
            n_classes = 0 if self.y.dtype.kind == "f" else int(self.y.max()) + 1
        self.labels, self.drop_absent = None, drop_absent
        if drop_absent and n_classes:
            present, codes_of_present = np.unique(self.y, return_inverse=True)
            if len(present) < n_classes:
                self.labels, self.y, n_classes = present, codes_of_present, len(present)
        if n_classes == 1 or (n_classes == 0 and loss != "quadratic"):
            raise ValueError(f"loss={loss!r} needs at least two classes in y, as integer codes 0, 1, ...")
        self.n_classes = n_classes
        self.options: dict[str, Any] = {
            "surrogate": surrogate,
            "multiclass": multiclass,
            "shared_lambda": shared_lambda,
        }
        self.loss_name, self.fit_intercept = loss, fit_intercept
        self.weights = self.sample_weight / self.sample_weight.sum()
        make_loss(loss, max(n_classes, 2), **self.options)
        self.codes = CodeBook() if codes is None else codes
        self.lifted_codes = CodeBook()
        self.reusable = reusable
        self._designs: dict[Any, Design] = {}
        self._fits: set[Any] = set()  # the domains that X is known to lie in
        self._systems: dict[Any, QuadraticSystem] = {}

    def subset(self, rows: Array) -> Problem:
        """The same problem on some rows, which share the coding of the whole."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        part = Problem(
            self.X[rows],
            self.y[rows],
            loss=self.loss_name,
            fit_intercept=self.fit_intercept,
            sample_weight=self.sample_weight[rows],
            n_classes=self.n_classes,
            codes=CodeBook(self.codes, rows),
            drop_absent=self.drop_absent,
            **self.options,
        )
        if part.n_classes == self.n_classes:
            part.lifted_codes = CodeBook(self.lifted_codes, rows)
        if self.labels is not None:
            part.labels = self.labels if part.labels is None else self.labels[part.labels]
        return part

    def solve(
        self,
        corruption: Corruption | str | None,
        l2: float,
        start: Solution | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        method: str = "auto",
    ) -> Solution:
        """Fit from `start`, unless zero weights are better: on rows it has not seen an exponential loss can be huge.

        `method`: "newton" or "lbfgs"; "direct" or "cg" for the quadratic loss; or "auto"."""
        corruption = self._checked(corruption)
        if self.loss_name == "quadratic":
            outcome, value = self._system(corruption).solve(corruption, _checked_l2(l2), method)
        else:
            objective = self._objective(corruption, l2)
            W, b = np.zeros(objective.shape), np.zeros(objective.shape[1])
            if start is not None and objective.value(start.coef.T, start.intercept) < objective.value(W, b):
                W, b = start.coef.T, start.intercept
            limit = self._weight_limit(corruption, objective.loss)
            smooth = objective.has_hessian and not np.isfinite(limit).any()
            if method == "newton" and not smooth:
                raise ValueError(
                    "method='newton' needs a loss and corruption with a second derivative: use 'lbfgs'"
                )
            if smooth and method in ("auto", "newton"):
                outcome = newton(objective, W, b, self.fit_intercept, max_iter, tol)
            else:
                scale = self._weight_scale(corruption, l2)
                outcome = lbfgs(objective, W, b, self.fit_intercept, limit, max_iter, tol, scale)
            if self.n_classes > 2:  # a shift of all biases changes nothing
                outcome = replace(outcome, b=outcome.b - outcome.b.mean())
            value = objective.loss_gradient(outcome.W, outcome.b)[0]
        how = outcome.n_iter, outcome.converged, outcome.message
        return Solution(outcome.W.T, outcome.b, value, *how, self.labels)

    def loss_gradient(
        self, corruption: Corruption | str | None, l2: float, coef: Array, intercept: Array
    ) -> tuple[float, Array, Array]:
        """Objective and its gradients in coef (C x D) and intercept (C)."""
        objective = self._objective(self._checked(corruption), l2)
        value, g_W, g_b = objective.loss_gradient(
            np.asarray(coef, dtype=float).T, np.asarray(intercept, dtype=float)
        )
        return value, g_W.T, g_b

    def loo(self, corruption: Corruption | str | None, l2: float, method: str = "exact") -> Array:
        """Leave-one-out predictions of the quadratic loss, N x C; `method` is "exact" or "paper"."""
        if self.loss_name != "quadratic":
            raise ValueError("leave-one-out predictions exist for loss='quadratic' only")
        return leave_one_out(
            self.X, self._targets(), self._checked(corruption), l2, self.fit_intercept, method
        )

    # -- pieces ---------------------------------------------------------------------------------------------
    def _checked(self, corruption: Corruption | str | None) -> Corruption:
        corruption = resolve(corruption)
        corruption.check_parameters(self.X.shape[1])
        domain = corruption.domain(self.X.shape[1])
        if domain not in self._fits:
            corruption.check_data(self.X)
            self._fits.add(domain)
        return corruption

    def _loss(self, corruption: Corruption) -> Loss:
        """The loss; every form of the logistic loss is the plain one when nothing is corrupted."""
        families = [family for _, family in corruption.split(self.X.shape[1])]
        if self.loss_name == "logistic" and all(isinstance(family, Identity) for family in families):
            return SharedJensen(self.n_classes) if self.n_classes > 2 else PairwiseJensen(self.n_classes)
        return make_loss(self.loss_name, self.n_classes, **self.options)

    def _objective(self, corruption: Corruption, l2: float) -> Objective:
        _checked_l2(l2)
        loss, X = self._loss(corruption), self.X
        families = corruption.split(X.shape[1])
        loss.lifted = loss.codes is not None and len(families) == 1 and not families[0][1].acts_on_zeros
        if loss.lifted:
            corruption = families[0][1].at(np.tile(np.arange(X.shape[1]), self.n_classes))
        shape = self.n_classes * X.shape[1] if loss.lifted else X.shape[1]
        key = (structure(corruption, shape), loss.lifted, loss.grouped, loss.width, loss.entrywise)
        if key not in self._designs:
            X = self._lifted() if loss.lifted else X
            labels = self.y if loss.grouped and not loss.lifted else None
            codes = self.lifted_codes if loss.lifted else self.codes
            self._designs[key] = Design(X, corruption, labels, loss.width, codes, loss.entrywise)
            if not self.reusable:
                codes.forget()
        targets = self._targets() if self.loss_name == "quadratic" else self.y
        batches = [
            Batch(block, self.weights[block.rows], targets[block.rows])
            for block in self._designs[key].blocks(corruption)
        ]
        means = self._class_means(corruption) if loss.uses_class_means else None
        return Objective(loss, batches, l2, means, self.X.shape[1])

    def _lifted(self) -> sp.csr_matrix:
        """X with a column for each (class, feature), y D + d: a row's entries stand in those of its class."""
        X, (N, D) = sp.csr_matrix(self.X), self.X.shape
        columns = np.repeat(self.y * D, np.diff(X.indptr)) + X.indices
        return sp.csr_matrix((X.data, columns, X.indptr), shape=(N, D * self.n_classes))

    def _targets(self) -> Array:
        """-1/+1, a column a class (one for two classes), or the regression's targets."""
        if self.n_classes == 0:
            return self.y.astype(float).reshape(len(self.y), -1)
        if self.n_classes == 2:
            return np.where(self.y == 1, 1.0, -1.0)[:, None]
        return np.where(self.y[:, None] == np.arange(self.n_classes), 1.0, -1.0)

    def _class_means(self, corruption: Corruption) -> Array:
        """sum_n weight_n E[x~_n] by class (D x K), and below them the weight of each class."""
        member = np.where(self.y[:, None] == np.arange(self.n_classes), self.weights[:, None], 0.0)
        offset, C = corruption.mean_map(self.X.shape[1])
        share = member.sum(axis=0)
        sums = C.T @ np.asarray(corruption.prepare(self.X).T @ member) + np.outer(offset, share)
        return np.vstack([sums, share])

    def _system(self, corruption: Corruption) -> QuadraticSystem:
        X = corruption.prepare(self.X)
        key = "as is" if X is self.X else structure(corruption, self.X.shape[1])
        if key not in self._systems:
            self._systems[key] = QuadraticSystem(X, self._targets(), self.weights, self.fit_intercept)
        return self._systems[key]

    def _weight_scale(self, corruption: Corruption, l2: float) -> Array:
        """1 / sqrt(curvature) of each weight, up to a factor: E[x~^2] over the rows, a quarter of it, plus l2."""
        X = corruption.prepare(self.X)
        moment = column_sums(X, self.weights, power=2)
        moment = moment + corruption.covariance_sum(X, self.weights).diagonal()
        curvature = 0.25 * moment + 2.0 * l2
        return 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))

    def _weight_limit(self, corruption: Corruption, loss: Loss) -> Array:
        limit = np.full(self.X.shape[1], np.inf)
        for columns, family in corruption.split(self.X.shape[1]):
            limit[columns] = family.weight_limit()
        return limit * (_INSIDE / loss.spread)


def _checked_l2(l2: float) -> float:
    if not 0.0 <= l2 < np.inf:
        raise ValueError(f"l2 must be a finite number of at least 0; got {l2!r}")
    return l2


def _checked_data(X: Any, y: Array, sample_weight: Array | None) -> tuple[Any, Array, Array]:
    """X as CSR or a float array, y and the weights of its rows; ValueError names what does not fit."""
    X = sp.csr_matrix(X) if sp.issparse(X) else np.asarray(X, dtype=float)
    y = np.asarray(y)
    if X.ndim != 2 or X.shape[0] != len(y) or not len(y):
        raise ValueError(
            f"X of shape {X.shape} and y of length {len(y)} do not fit: one label a row of X is needed"
        )
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError("X holds NaN or infinity; impute or drop those entries")
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if (
        weights.shape != (len(y),)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.any()
    ):
        raise ValueError(f"sample_weight must be {len(y)} finite numbers of at least 0, not all zero")
    return X, y, weights
