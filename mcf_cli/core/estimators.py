"""MCFClassifier and MCFRegressor: thin scikit-learn fronts over `Problem`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.corruptions.per_feature import resolve
from mcf_cli.core.corruptions.rates import has_missing
from mcf_cli.core.kernels.dispatch import canonical, within_reach
from mcf_cli.core.label_noise import settle_noise
from mcf_cli.core.losses import TWO_CLASS_SURROGATES
from mcf_cli.core.missing import (
    checked_rows,
    conditional_probabilities,
    filled,
    learnt,
    of_quadratic_loss,
)
from mcf_cli.core.model import LinearModel, class_weights
from mcf_cli.core.prediction import marginal_probabilities, plain_probabilities, warn_if_one_sided
from mcf_cli.core.problem import Problem, Solution, codes_of


def _is_logistic(self: MCFClassifier) -> bool:
    if self.loss != "logistic":
        raise AttributeError(f"predict_proba needs loss='logistic', this model has loss={self.loss!r}")
    return True


class MCFClassifier(ClassifierMixin, LinearModel):
    """A linear classifier trained on its expected loss under corruption of the features.

    Parameters
    ----------
    loss : "logistic", "exponential" or "quadratic"
    corruption : a corruption, its name ("blankout", "dropout", "gaussian", ...), or None for the plain model
    l2 : the objective is the mean loss + l2 ||w||^2; the bias is neither corrupted nor regularised
    surrogate : what stands in for the expected logistic loss: "jensen" or "variational" (bounds), "quadratic" (an
        expansion); for two classes also "gaussian" (a normal score of the same mean and variance) or "exact" (the
        expected loss itself, by its characteristic function: slow, for reference)
    multiclass : "pairwise" (the true Jensen bound) or "shared" (looser, K times fewer tables)
    shared_lambda : one variational parameter for all examples instead of one each
    fit_intercept, max_iter, warm_start : as in scikit-learn
    missing : how to treat NaN, in training and in prediction. None refuses it; "deleted" takes 0 (what `Dropout`
        trains for); "mean" takes the column's mean in training; "conditional" takes its distribution given the other
        values of the row, from the mean and covariance of the training rows, and averages probabilities over it. With
        the quadratic loss and up to 1,000 features "conditional" gives the model of a fit to the observed columns
    tol : the fit ends when a step would lower the objective by at most 5 tol^2 of its value, whichever solver runs.
        It does not bound the gradient, so unlike in LogisticRegression the units of features do not matter. The
        default leaves less than a millionth of the objective on common data; 1e-3 is enough for most predictions. A
        fit that does not get there raises a ConvergenceWarning
    class_weight : a dict with a factor for the rows of each class, or "balanced", which gives all classes the same
        total weight
    verbose : True writes a line about each fit
    label_noise : how often labels are wrong, for the logistic loss: the probability of a wrong label, a pair
        (rho+, rho-) of flip rates for two classes (the second of `classes_` is +), a matrix P(seen | true) with classes
        in order, or "estimate" (from cross-validated confusion). The corrected plain loss has the mean that the true
        labels would give; under corruption Jensen's and the variational bound, corrected, are bounds on such a loss but
        not unbiased. Needs l2 > 0, and enough: where the objective falls far below 0 a warning says so

    Attributes
    ----------
    coef_ : (1, D) for two classes, else (K, D)
    intercept_, classes_ : one bias for two classes, else K; the labels in order
    objective_ : mean loss + l2 ||w||^2 at the solution
    n_iter_, converged_, message_ : how the solver ended
    n_features_in_, feature_names_in_ : the columns of X, and their names if it was a DataFrame
    label_noise_ : P(seen | true), None without label_noise
    corruption_ : the corruption, with column numbers for names

    Notes
    -----
    A fit computes in float64. Scores and probabilities of float32 rows are float32, without a copy of the rows.
    `fit_chunks` trains on rows that do not fit in memory and gives the solution of `fit`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mcf_cli import MCFClassifier, Blankout
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MCFClassifier(corruption=Blankout(q=0.3), l2=1e-3).fit(X[:1000] / 16, y[:1000])
    >>> bool(model.score(X[1000:] / 16, y[1000:]) > 0.9)
    True
    """

    def __init__(
        self,
        loss: str = "logistic",
        corruption: Corruption | str | None = "blankout",
        l2: float = 0.0,
        surrogate: str = "jensen",
        multiclass: str = "pairwise",
        shared_lambda: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        missing: str | None = None,
        class_weight: Any = None,
        verbose: Any = False,
        label_noise: Any = None,
    ):
        self.loss = loss
        self.corruption = corruption
        self.l2 = l2
        self.surrogate = surrogate
        self.multiclass = multiclass
        self.shared_lambda = shared_lambda
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.missing = missing
        self.class_weight = class_weight
        self.verbose = verbose
        self.label_noise = label_noise

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_unlabeled: Any = None) -> Self:
        """Fit to rows and labels, and to rows without labels if there are any.

        Parameters
        ----------
        X, y, sample_weight : rows (dense or sparse; sparse stays sparse), their labels and, if any, their weights
        X_unlabeled : rows without labels, for two classes and surrogate "gaussian", "exact" or "quadratic". The
            objective is then the mean plain loss of the labelled rows at their corrupted mean, plus the mean over all
            rows of E[A(z~)] - A(E z~) with A(z) = log(1 + e^z): what corruption adds to the loss of a row does not
            depend on its label. Unlabelled rows have weight 1. With few labels this term can push all scores to one
            side: a warning says so. Compare with a fit without these rows

        Returns
        -------
        self
        """
        X, y, sample_weight = self._checked_input(X, y, sample_weight)
        check_classification_targets(y)
        X, self.conditioning_ = learnt(X, self.missing)
        if X_unlabeled is not None:
            X_unlabeled = checked_rows(self, X_unlabeled, dtype=np.float64, reset=False)
            if self.missing is not None:  # filled as the labelled rows were, by the statistics of those
                X_unlabeled = filled(X_unlabeled, self.missing, self.conditioning_)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"MCFClassifier needs at least two classes in y; got one class: {self.classes_[0]!r}. "
                "Check the labels, or how the data was split"
            )
        if self.class_weight is not None:
            rows = np.ones(len(codes)) if sample_weight is None else within_reach(sample_weight)
            factors = class_weights(self.class_weight, self.classes_, np.bincount(codes, rows))
            sample_weight = rows * factors[codes]
        problem = Problem(
            X,
            codes,
            loss=self.loss,
            surrogate=self.surrogate,
            multiclass=self.multiclass,
            shared_lambda=self.shared_lambda,
            fit_intercept=self.fit_intercept,
            sample_weight=sample_weight,
            n_classes=len(self.classes_),
            reusable=False,
            unlabeled=X_unlabeled,
        )
        self.label_noise_ = settle_noise(problem, self.label_noise, self.corruption_, self.l2)
        start = self._previous(X.shape[1]) if self.warm_start else None
        self._keep(problem.solve(self.corruption_, self.l2, start, self.max_iter, self.tol))
        if X_unlabeled is not None:
            warn_if_one_sided(codes, codes_of(self._linear(X_unlabeled)))
        if self.loss == "quadratic":
            self.conditioning_ = of_quadratic_loss(problem, self.corruption_, self.l2, self.conditioning_)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = (
            self.loss != "logistic" or self.surrogate not in TWO_CLASS_SURROGATES
        )
        return tags

    def _previous(self, n_features: int) -> Solution | None:
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        if getattr(self, "coef_", np.empty(0)).shape != (rows, n_features):
            return None
        return Solution(
            self.coef_, self.intercept_, self.objective_, self.n_iter_, self.converged_, self.message_
        )

    def decision_function(self, X: Any) -> Array:
        """The scores w.x + b of the clean rows.

        Parameters
        ----------
        X : rows, dense or sparse

        Returns
        -------
        (N,) for two classes, else (N, K)
        """
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """The class with the largest score on the clean row.

        Parameters
        ----------
        X : rows, dense or sparse

        Returns
        -------
        (N,) labels
        """
        codes = codes_of(self._linear(X))
        return self.classes_[codes]

    @available_if(_is_logistic)
    def predict_proba(
        self,
        X: Any,
        marginalize: bool = False,
        method: str = "auto",
        n_samples: int = 200,
        random_state: int = 0,
    ) -> Array:
        """Class probabilities of x, or with marginalize=True their mean over the corruption, E[p(y | x~)].

        Parameters
        ----------
        X : rows, dense or sparse
        marginalize : average over the corruption
        method : "exact" (two classes; for more, the uncorrupted model and few corrupted entries), "bound" (the
            paper's lower bound, Eq. bayes_net, normalised), "sample", or "auto": row by row exact where possible, else
            sampled. Of two classes a row is sampled only where its score reaches beyond 65,536, with a warning
        n_samples, random_state : number of corrupted copies in a sample, and their seed; with missing="conditional"
            and three or more classes also those of the draws for missing values

        Returns
        -------
        (N, K) probabilities, columns in the order of `classes_`

        Examples
        --------
        >>> from mcf_cli import Dropout, MCFClassifier
        >>> X, y = [[3.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 3.0]], ["a", "a", "b", "b"]
        >>> model = MCFClassifier(corruption=Dropout(q=0.5), l2=0.01).fit(X, y)
        >>> model.predict_proba([[3.0, 0.0]]).round(2)
        array([[0.87, 0.13]])
        >>> model.predict_proba([[3.0, 0.0]], marginalize=True).round(2)
        array([[0.68, 0.32]])
        """
        X = self._rows(X)
        if not marginalize:
            if not has_missing(X):
                return plain_probabilities(self._scores(X))
            model = self.coef_, self.intercept_, self.conditioning_
            return conditional_probabilities(X, *model, n_samples, random_state)
        if has_missing(X):
            raise ValueError(
                "marginalize=True does not take NaN with missing='conditional': leave it out, or use "
                "missing='deleted' or 'mean'"
            )
        rows, corruption = canonical(X), resolve(getattr(self, "corruption_", self.corruption))
        corruption.check_data(rows)
        model = self.coef_, self.intercept_, corruption
        return marginal_probabilities(rows, *model, method, n_samples, random_state).astype(
            X.dtype, copy=False
        )

    @available_if(_is_logistic)
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of the probabilities of x, to full precision where a probability is tiny.

        Parameters
        ----------
        X : rows, dense or sparse

        Returns
        -------
        (N, K) logarithms, columns in the order of `classes_`

        Examples
        --------
        >>> from mcf_cli import Dropout, MCFClassifier
        >>> X, y = [[3.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 3.0]], ["a", "a", "b", "b"]
        >>> MCFClassifier(corruption=Dropout(q=0.5), l2=0.01).fit(X, y).predict_log_proba([[30.0, 0.0]]).round(1)
        array([[ -0. , -18.7]])
        """
        X = self._rows(X)
        if has_missing(X):
            return np.log(self.predict_proba(X))
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return np.column_stack([log_expit(-scores[:, 0]), log_expit(scores[:, 0])])
        return log_softmax(scores, axis=1)

    def loo_error(self, X: Any, y: Any, method: str = "exact") -> float:
        """The leave-one-out error of the quadratic loss; needs no `fit`.

        Parameters
        ----------
        X, y : rows and labels
        method : "exact" (equals refitting) or "paper" (the paper's formula)

        Returns
        -------
        the share of rows that the model without them gets wrong

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mcf_cli import Blankout, MCFClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MCFClassifier(loss="quadratic", corruption=Blankout(q=0.1))
        >>> round(model.loo_error(X - X.mean(axis=0), y), 2)
        0.17
        """
        X, y, _ = self._checked_input(X, y, None)
        X = learnt(X, self.missing)[0]
        classes, codes = np.unique(y, return_inverse=True)
        problem = Problem(X, codes, loss=self.loss, fit_intercept=self.fit_intercept, n_classes=len(classes))
        return float(np.mean(codes_of(problem.loo(self.corruption_, self.l2, method)) != codes))


class MCFRegressor(RegressorMixin, LinearModel):
    """Least squares under corruption of the features, in closed form (Eq. optimal_w_lls).

    Parameters
    ----------
    corruption : a corruption, its name, or None for ridge regression
    l2 : the objective is the mean loss + l2 ||w||^2; the bias is neither corrupted nor regularised
    fit_intercept : whether there is a bias
    missing : how to treat NaN, as in `MCFClassifier`
    verbose : True writes a line about each fit

    Attributes
    ----------
    coef_, intercept_ : (D,) and a number, or (targets, D) and (targets,) for several columns of targets
    objective_, n_iter_, converged_, message_, n_features_in_, feature_names_in_, corruption_ : as in `MCFClassifier`

    Examples
    --------
    >>> from mcf_cli import MCFRegressor, Gaussian
    >>> MCFRegressor(corruption=Gaussian(sigma=1.0)).fit([[0.0], [2.0]], [0.0, 2.0]).coef_
    array([0.5])
    """

    def __init__(
        self,
        corruption: Corruption | str | None = "blankout",
        l2: float = 0.0,
        fit_intercept: bool = True,
        missing: str | None = None,
        verbose: Any = False,
    ):
        self.corruption = corruption
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows and targets.

        Parameters
        ----------
        X, y, sample_weight : rows (dense or sparse), one or several columns of targets and, if any, weights

        Returns
        -------
        self
        """
        X, y, sample_weight = self._checked_input(X, y, sample_weight, multi_output=True)
        y = np.asarray(y, dtype=float)
        X, self.conditioning_ = learnt(X, self.missing)
        problem = self._problem(X, y, sample_weight)
        self._keep(problem.solve(self.corruption_, self.l2))
        self.conditioning_ = of_quadratic_loss(problem, self.corruption_, self.l2, self.conditioning_)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def _problem(self, X: Any, y: Array, sample_weight: Any = None) -> Problem:
        return Problem(
            X, y, loss="quadratic", fit_intercept=self.fit_intercept, sample_weight=sample_weight, n_classes=0
        )

    def predict(self, X: Any) -> Array:
        """The values w.x + b of the clean rows.

        Parameters
        ----------
        X : rows, dense or sparse

        Returns
        -------
        (N,) or (N, targets)
        """
        return self._linear(X)

    def loo_error(self, X: Any, y: Any, method: str = "exact") -> float:
        """The leave-one-out error; needs no `fit`.

        Parameters
        ----------
        X, y : rows and targets
        method : "exact" (equals refitting) or "paper" (the paper's formula)

        Returns
        -------
        the mean squared error of every row by the model without it

        Examples
        --------
        >>> from mcf_cli import Gaussian, MCFRegressor
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
        >>> [round(MCFRegressor(corruption=Gaussian(sigma=s)).loo_error(X, y), 3) for s in (0.0, 0.5, 1.0)]
        [0.0, 0.153, 0.754]
        """
        X, y, _ = self._checked_input(X, y, None, multi_output=True)
        X, y = learnt(X, self.missing)[0], np.asarray(y, dtype=float)
        predictions = self._problem(X, y).loo(self.corruption_, self.l2, method)
        return float(np.mean((predictions - y.reshape(len(y), -1)) ** 2))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
