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

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, column_sums
from mcf_cli.core.corruptions.elementwise import Coded, Identity
from mcf_cli.core.corruptions.per_feature import resolve
from mcf_cli.core.design.blocks import Block, Design, structure
from mcf_cli.core.design.coding import CodeBook
from mcf_cli.core.design.dense import DenseDesign, hardly_repeats
from mcf_cli.core.design.objective import Objective
from mcf_cli.core.kernels.dispatch import canonical, check_size
from mcf_cli.core.label_noise import check_regularised, corrected_noise
from mcf_cli.core.losses import make_loss
from mcf_cli.core.losses.base import Batch, Loss, MarginLoss
from mcf_cli.core.losses.expected import Decomposed
from mcf_cli.core.losses.margin import PairwiseGaussian, PairwiseJensen, SharedJensen
from mcf_cli.core.solvers import check_ending, checked_l2, chosen_solver
from mcf_cli.core.solvers.lbfgs import lbfgs
from mcf_cli.core.solvers.least_squares import QuadraticSystem
from mcf_cli.core.solvers.leave_one_out import leave_one_out
from mcf_cli.core.solvers.newton import correlations, newton
from mcf_cli.core.solvers.normal_equations import brought_near

_FAR = 2.0**20  # times the weights: a single row on the wrong side would cost more there than all rows gain


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
    bounded: bool = (
        True  # False: a million times the weights would be better still, so that none are the best
    )

    def decision(self, X: Any) -> Array:
        """w.x + b: N values for two classes or one target, else N x K."""
        scores = X @ self.coef.T + self.intercept
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def moved(self, reference: Array) -> Solution:
        """The same model on rows less the reference."""
        return replace(self, intercept=self.intercept + self.coef @ reference)

    def predict(self, X: Any) -> Array:
        """Class codes."""
        best = codes_of(self.decision(X))
        return best if self.labels is None else self.labels[best]


class Problem:
    """Data, labels and a loss; `solve` fits it under any corruption and l2.

    y holds class codes 0 .. K-1, or the targets of a regression (loss="quadratic", n_classes=0).
    """

    regularised: Array | None = None  # the weights of rows in the regulariser, where some have no labels

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
        label_noise: Array | None = None,
        unlabeled: Any = None,
    ):
        """reusable=False drops the coding once a fit has its design: less memory, no cheap subsets.

        drop_absent=True leaves out classes that no row has. A bias could drive their scores, and with them the
        exponential loss of all others, to zero; predictions keep the codes of y.

        label_noise is P(seen | true) of the labels, K x K. Rows without labels join the regulariser of `Decomposed`.
        """
        self.X, self.y, self.sample_weight = _checked_data(X, y, sample_weight)
        if n_classes is None:
            n_classes = 0 if self.y.dtype.kind == "f" else int(self.y.max()) + 1
        self.labels, self.drop_absent = None, drop_absent
        if drop_absent and n_classes and label_noise is None:  # wrong labels may hide a class
            present, codes_of_present = np.unique(self.y, return_inverse=True)
            if len(present) < n_classes:
                self.labels, self.y, n_classes = present, codes_of_present, len(present)
        if n_classes == 1 or (n_classes == 0 and loss != "quadratic"):
            raise ValueError(f"loss={loss!r} needs at least two classes in y, as integer codes 0, 1, ...")
        self.n_classes, self.label_noise, self.unlabeled = n_classes, label_noise, unlabeled
        self.options: dict[str, Any] = {
            "surrogate": surrogate,
            "multiclass": multiclass,
            "shared_lambda": shared_lambda,
        }
        self.loss_name, self.fit_intercept = loss, fit_intercept
        if label_noise is not None:
            self.label_noise = corrected_noise(loss, label_noise, n_classes)
        self.weights = _shares(self.sample_weight)
        if unlabeled is not None:
            self._add_unlabeled(unlabeled)
        make_loss(loss, max(n_classes, 2), **self.options)
        self.codes = CodeBook() if codes is None else codes
        self.lifted_codes = CodeBook()
        self.reusable = reusable
        self._designs: dict[Any, Design] = {}
        self._fits: set[Any] = set()  # the domains that X is known to lie in
        self._systems: dict[Any, QuadraticSystem] = {}
        self._correlated: list[Array | None] = []
        self._nears: dict[bytes, tuple[Problem, Array]] = {}

    def subset(self, rows: Array, sample_weight: Array | None = None) -> Problem:
        """The same problem on some rows, of their own or of other weights, which share the coding of the whole."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        part = Problem(
            self.X[rows],
            self.y[rows],
            loss=self.loss_name,
            fit_intercept=self.fit_intercept,
            sample_weight=self.sample_weight[rows] if sample_weight is None else sample_weight,
            n_classes=self.n_classes,
            codes=None if self.unlabeled is not None else CodeBook(self.codes, rows),
            drop_absent=self.drop_absent,
            label_noise=self.label_noise,
            unlabeled=self.unlabeled,
            **self.options,
        )
        if part.n_classes == self.n_classes and self.unlabeled is None:
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
        check_ending(max_iter, tol)
        corruption = self._checked(corruption)
        if self.label_noise is not None:
            check_regularised(l2)
        near, reference = self._near(corruption)
        if near is not self:
            start = None if start is None else start.moved(reference)
            return near.solve(corruption, l2, start, max_iter, tol, method).moved(-reference)
        if self.loss_name == "quadratic":
            method = chosen_solver(method, self.loss_name, second_derivatives=True)
            outcome = self._system(corruption).solve(corruption, checked_l2(l2), method)
            how = outcome.value, outcome.n_iter, outcome.converged, outcome.message
            return Solution(outcome.W.T, outcome.b, *how, self.labels)
        return self._minimised(corruption, self._objective(corruption, l2), start, max_iter, tol, method)

    def _minimised(
        self,
        corruption: Corruption,
        objective: Objective,
        start: Solution | None,
        max_iter: int,
        tol: float,
        method: str,
    ) -> Solution:
        """By Newton's method or L-BFGS, from the start or from zero."""
        W, b, beside = np.zeros(objective.shape), np.zeros(objective.shape[1]), ""
        if start is not None:
            if objective.value(start.coef.T, start.intercept) < objective.value(W, b):
                W, b = start.coef.T, start.intercept
            else:
                beside = "; from zero, because the start given was worse"
        if chosen_solver(method, self.loss_name, objective.has_hessian) == "newton":
            outcome = newton(objective, W, b, self.fit_intercept, max_iter, tol, self._correlations)
        else:
            weights = self.weights if self.regularised is None else self.regularised
            moments = second_moments(self.X, corruption, weights)
            outcome = lbfgs(objective, W, b, self.fit_intercept, moments, max_iter, tol)
        W, b = outcome.W, outcome.b
        bounded = bool(objective.l2) or not objective.value(_FAR * W, _FAR * b) < outcome.value
        if not bounded:
            beside += "; larger weights are always better, so there is no minimum: use l2 > 0"
        if self.n_classes > 2:  # a shift of all biases changes nothing
            b = b - b.mean()
        how = outcome.value, outcome.n_iter, outcome.converged, outcome.message + beside
        return Solution(W.T, b, *how, self.labels, bounded)

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

    def inverse_gram(self, corruption: Corruption | str | None, l2: float) -> tuple[Array, Array, Array]:
        """The inverse of the quadratic loss's matrix (D x D) in units, the units, and the mean of E[x~]."""
        corruption = self._checked(corruption)
        return self._system(corruption).inverse_gram(corruption, checked_l2(l2))

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
        K, families = self.n_classes, [family for _, family in corruption.split(self.X.shape[1])]
        if self.loss_name == "logistic" and all(isinstance(family, Identity) for family in families):
            loss: Loss = SharedJensen(K, plain=True) if K > 2 else PairwiseJensen(K)
        else:
            loss = make_loss(self.loss_name, K, **self.options)
            if (
                isinstance(loss, PairwiseJensen)
                and K > 2
                and all(f.quadratic_variance() is not None for f in families)
            ):
                loss = PairwiseGaussian(K)
            loss = loss if self.regularised is None else Decomposed(loss)
        loss.unbounded = self.label_noise is not None
        return loss

    def _objective(self, corruption: Corruption, l2: float) -> Objective:
        checked_l2(l2)
        loss, X = self._loss(corruption), self.X
        families = corruption.split(X.shape[1])
        one = families[0][1] if len(families) == 1 else None
        if isinstance(one, Coded) and isinstance(loss, MarginLoss) and loss.width == 1 and self._dense:
            return self._assembled(loss, self._dense.blocks(one), l2, corruption)
        loss.lifted = loss.codes is not None and one is not None and not one.acts_on_zeros and not one.couples
        acting = corruption
        if loss.lifted and one is not None:
            acting = one.at(np.tile(np.arange(X.shape[1]), self.n_classes))
        shape = self.n_classes * X.shape[1] if loss.lifted else X.shape[1]
        key = (structure(acting, shape), loss.lifted, loss.grouped, loss.width, loss.entrywise)
        if key not in self._designs:
            X = self._lifted() if loss.lifted else X
            labels = self.y if loss.grouped and not loss.lifted else None
            codes = self.lifted_codes if loss.lifted else self.codes
            self._designs[key] = Design(X, acting, labels, loss.width, codes, loss.entrywise)
            if not self.reusable:
                codes.forget()
        return self._assembled(loss, self._designs[key].blocks(acting), l2, corruption)

    def _assembled(self, loss: Loss, blocks: list[Block], l2: float, corruption: Corruption) -> Objective:
        """The objective of the blocks; the corruption is given as it acts on X."""
        batches = [self._batch(loss, block) for block in blocks]
        limit = self._limit(corruption.split(self.X.shape[1]))
        return Objective(loss, batches, l2, self._class_means(corruption, loss), self.X.shape[1], limit)

    @cached_property
    def _dense(self) -> DenseDesign | None:
        """Where the values of X are not worth a coding."""
        return DenseDesign(self.X, self.y) if hardly_repeats(self.X, self.n_classes) else None

    def _correlations(self) -> Array | None:
        """Those of the features, made once."""
        if not self._correlated:
            self._correlated.append(correlations(self.X, self.weights))
        return self._correlated[0]

    def _batch(self, loss: Loss, block: Block) -> Batch:
        if isinstance(loss, Decomposed):
            assert self.regularised is not None
            weight = self.regularised[block.rows]
            return Batch(block, weight, np.zeros(len(weight), dtype=int), self.weights[block.rows] - weight)
        targets = self._targets() if self.loss_name == "quadratic" else self.y
        return Batch(block, self.weights[block.rows], targets[block.rows])

    def _add_unlabeled(self, unlabeled: Any) -> None:
        """Rows below those with labels, whose own weight is 0; `regularised` has the weights of all of them."""
        Decomposed(make_loss(self.loss_name, self.n_classes, **self.options))
        rows = canonical(unlabeled)
        if rows.ndim != 2 or rows.shape[1] != self.X.shape[1]:
            raise ValueError(f"X_unlabeled of shape {rows.shape} does not fit X of {self.X.shape[1]} columns")
        check_size(rows.data if sp.issparse(rows) else rows, "X_unlabeled")
        if sp.issparse(self.X) or sp.issparse(rows):
            self.X = canonical(sp.vstack([self.X, rows], format="csr"))
        else:
            self.X = np.vstack([self.X, rows])
        self.y = np.append(self.y, np.zeros(rows.shape[0], dtype=self.y.dtype))
        self.weights = np.append(self.weights, np.zeros(rows.shape[0]))
        self.regularised = _shares(np.append(self.sample_weight, np.ones(rows.shape[0])))

    def _lifted(self) -> sp.csr_matrix:
        """X with a column for each (class, feature), y D + d: a row's entries stand in those of its class."""
        X, (N, D) = sp.csr_matrix(self.X), self.X.shape
        columns = np.repeat(self.y * D, np.diff(X.indptr)) + X.indices
        return sp.csr_matrix((X.data, columns, X.indptr), shape=(N, D * self.n_classes))

    def _targets(self) -> Array:
        """-1/+1, one column per class (one for two classes), or the regression's targets."""
        if self.n_classes == 0:
            return self.y.astype(float).reshape(len(self.y), -1)
        return signed_targets(self.y, self.n_classes)

    def _class_means(self, corruption: Corruption, loss: Loss) -> Array | None:
        """sum_n weight_n E[x~_n] by class (D x C), and below them the weight of each class; of two, the second.

        Where labels are wrong, a row belongs to each class by its share in T^-1; less its label's own, which other
        losses than those that use class means hold already.
        """
        if not loss.uses_class_means and self.label_noise is None:
            return None
        offset, C = corruption.mean_map(self.X.shape[1])
        member = np.where(self.y[:, None] == np.arange(self.n_classes), self.weights[:, None], 0.0)
        sums, share = np.asarray(corruption.prepare(self.X).T @ member), member.sum(axis=0)
        if self.label_noise is not None:
            shares = np.linalg.inv(self.label_noise)
            shares -= 0.0 if loss.uses_class_means else np.eye(self.n_classes)
            sums, share = sums @ shares, share @ shares
        if self.n_classes == 2:
            sums, share = sums[:, 1:], share[1:]
        return np.vstack([C.T @ sums + np.outer(offset, share), share])

    def _near(self, corruption: Corruption) -> tuple[Problem, Array]:
        """The same problem with columns far from zero brought near it, and by how much: the biases take that up.

        An offset of 1e8 leaves solvers no digit of what the column has to say beside the bias. Only columns whose
        corruption moves along with them can be moved; least squares sees to its own.
        """
        among = np.zeros(self.X.shape[1], dtype=bool)
        for columns, family in corruption.split(len(among)):
            among[columns] = family.moves_along
        if self.loss_name == "quadratic" or not self.fit_intercept or not among.any():
            return self, np.zeros(len(among))
        key = among.tobytes()
        if key not in self._nears:
            X, reference = brought_near(self.X, self.weights, among)
            near = self if X is self.X else copy(self)
            if near is not self:
                near.X, near.codes, near.lifted_codes = X, CodeBook(), CodeBook()
                near._correlated = []
                near._designs, near._fits, near._nears = {}, set(), {key: (near, np.zeros(len(among)))}
                near.__dict__.pop("_dense", None)
            self._nears[key] = near, reference
        return self._nears[key]

    def _system(self, corruption: Corruption) -> QuadraticSystem:
        X = corruption.prepare(self.X)
        key = "as is" if X is self.X else structure(corruption, self.X.shape[1])
        if key not in self._systems:
            self._systems[key] = QuadraticSystem(X, self._targets(), self.weights, self.fit_intercept)
        return self._systems[key]

    def _limit(self, families: list[tuple[Array | slice, Corruption]]) -> Array | None:
        """What |t| has to stay below, feature by feature; None where nothing bounds it."""
        limit = np.full(self.X.shape[1], np.inf)
        for columns, family in families:
            limit[columns] = family.weight_limit()
        return limit if np.isfinite(limit).any() else None


def signed_targets(y: Array, n_classes: int) -> Array:
    """Class codes as -1/+1: one column for two classes, else one per class."""
    classes = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(y[:, None] == classes, 1.0, -1.0)


def second_moments(X: Any, corruption: Corruption, weights: Array) -> Array:
    """sum_n weight_n E[x~_nd^2] of each feature, or what stands for it: it scales the weights for an optimiser."""
    X = corruption.prepare(X)
    return column_sums(X, weights, power=2) + corruption.covariance_sum(X, weights).diagonal()


def _shares(sample_weight: Array) -> Array:
    """The weights divided by their sum. A power of two, which costs no digit, keeps the sum a number."""
    _, exponent = np.frexp(sample_weight.max())
    scaled = np.ldexp(sample_weight, -int(exponent))
    return scaled / scaled.sum()


def _checked_data(X: Any, y: Array, sample_weight: Array | None) -> tuple[Any, Array, Array]:
    """X in its canonical form, y and the weights of its rows; ValueError names what does not fit."""
    X = canonical(X)
    y = np.asarray(y)
    if X.ndim != 2 or X.shape[0] != len(y) or not len(y):
        raise ValueError(
            f"X has shape {X.shape} and y has length {len(y)}: y needs one label for each row of X"
        )
    check_size(X.data if sp.issparse(X) else X, "X")
    if y.dtype.kind == "f":
        check_size(y, "y")
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if (
        weights.shape != (len(y),)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.any()
    ):
        raise ValueError(f"sample_weight must be {len(y)} finite numbers of at least 0, not all zero")
    return X, y, weights
