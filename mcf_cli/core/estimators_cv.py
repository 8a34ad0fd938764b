"""MCFClassifierCV and MCFRegressorCV: the family of corruption, its level and l2 chosen by validation."""

from __future__ import annotations

import os
import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mcf_cli.core.candidates import Scoring, Trials, automatic_l2s, families_of, numbers
from mcf_cli.core.corruptions.base import Array
from mcf_cli.core.corruptions.columns import ColumnNames
from mcf_cli.core.corruptions.elementwise import Poisson
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.kernels.dispatch import within_reach
from mcf_cli.core.problem import Problem
from mcf_cli.core.selection import Division, first_best, strongest_within

_FROM_FIT = ("coef_", "intercept_", "objective_", "n_iter_", "converged_", "message_")


class _Chooses:
    """What the two estimators share: candidates, folds, the choice, and the fit of the chosen model."""

    corruption: Any
    missing: str | None = None  # NaN is refused: fill it before, or in a pipeline

    def __init__(
        self,
        qs: Any,
        l2s: Any,
        cv: Any,
        scoring: Any,
        one_standard_error: bool,
        refit: bool,
        n_jobs: int | None,
        random_state: Any,
        **model: Any,
    ):
        super().__init__(**model)
        self.qs = qs
        self.l2s = l2s
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _weights(self, X: Any, sample_weight: Any) -> Array:
        weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any() or not weight.any():
            raise ValueError("sample_weight must not be negative, and not all zero")
        return within_reach(weight)

    def _penalties(self, problem: Problem) -> list[float]:
        values = automatic_l2s(problem.X, problem.loss_name) if self.l2s is None else self.l2s
        l2s = sorted(numbers("l2s", values), reverse=True)
        if not np.isfinite(l2s).all() or l2s[-1] < 0.0:
            raise ValueError(f"l2s must be one or more finite numbers of at least 0; got {self.l2s!r}")
        return l2s

    def _divisions(self, X: Any, y: Array, groups: Any, classifier: bool) -> list[Division]:
        cv = self.cv
        if groups is not None and isinstance(cv, int | np.integer):
            cv = (StratifiedGroupKFold if classifier else GroupKFold)(n_splits=int(cv))
        divisions = list(check_cv(cv, y, classifier=classifier).split(X, y, groups))
        if self.one_standard_error and len(divisions) < 2:
            raise ValueError("one_standard_error=True needs at least two folds")
        rows = np.arange(X.shape[0])  # a splitter may give masks
        return [(rows[train], rows[test]) for train, test in divisions]

    def _choose(self, trials: Trials, y: Array, groups: Any) -> dict[str, Any]:
        """Measure every candidate, keep what was found, and return the parameters of the best."""
        if isinstance(self.cv, str) and self.cv == "loo":
            if groups is not None:
                raise ValueError("cv='loo' leaves out single rows, not groups; give a number of folds")
            flat = trials.leave_one_out(self.n_jobs)
            converged, settled = np.ones(flat.shape, bool), np.ones(flat.shape[1], bool)
        else:
            divisions = self._divisions(trials.problem.X, y, groups, trials.labels is not None)
            flat, converged, settled = trials.on_folds(divisions, self.n_jobs, self.one_standard_error)
        listed = trials.listed()
        means = np.where(settled, flat.mean(axis=0), np.inf)
        if not np.isfinite(means).any():
            raise ValueError(f"no candidate has a finite score with scoring={self.scoring!r}")
        best = first_best(means)
        if self.one_standard_error:
            own = [c for c, key in enumerate(listed) if key[0] == listed[best][0] and settled[c]]
            best = strongest_within(flat, best, sorted(own, key=lambda c: (-listed[c][1], listed[c][2])))
        self._keep_scores(trials, listed, flat, best)
        self.cv_results_["fitted_to_tol"] = settled
        if not converged[:, best].all():
            warnings.warn(
                "on some folds the fit of the chosen candidate did not converge: raise max_iter or l2s, or scale the "
                "columns of X",
                ConvergenceWarning,
                stacklevel=4,
            )
        return {"corruption": self.corruption_, "l2": self.l2_}

    def _keep_scores(self, trials: Trials, listed: list[Any], flat: Array, best: int) -> None:
        """The attributes that say what was tried and what was chosen."""
        families, scores = trials.families, trials.scoring.sign * flat
        number, place, at = listed[best]
        self.family_, self.q_ = families[number].name, families[number].levels[place]
        self.corruption_, self.l2_ = families[number].at_level(self.q_), trials.l2s[at]
        self.best_params_ = {"corruption": self.corruption_, "l2": self.l2_}
        self.best_index_, self.best_score_ = best, float(scores[:, best].mean())
        self.l2s_ = np.array(trials.l2s)
        self.qs_ = {family.name: np.array(family.levels, dtype=float) for family in families}
        ends = np.cumsum([len(family.levels) * len(trials.l2s) for family in families])[:-1]
        self.scores_path_ = {
            family.name: part.reshape(len(part), len(family.levels), -1)
            for family, part in zip(families, np.split(scores, ends, axis=1), strict=True)
        }
        params = [
            {"corruption": families[f].at_level(families[f].levels[level]), "l2": trials.l2s[penalty]}
            for f, level, penalty in listed
        ]
        means = flat.mean(axis=0)
        self.cv_results_ = {
            "param_family": np.array([families[f].name for f, _, _ in listed]),
            "param_q": np.array([families[f].levels[level] for f, level, _ in listed], dtype=float),
            "param_l2": np.array([trials.l2s[penalty] for *_, penalty in listed]),
            "params": params,
            **(
                {f"split{fold}_test_score": row for fold, row in enumerate(scores)}
                if self.cv != "loo"
                else {}
            ),
            "mean_test_score": scores.mean(axis=0),
            "std_test_score": scores.std(axis=0),
            "rank_test_score": np.array([1 + int((means < mean * (1.0 - 1e-12)).sum()) for mean in means]),
        }

    def _refitted(self, model: Any, X: Any, y: Array, sample_weight: Any) -> None:
        """The chosen model on all rows; its weights are those of this estimator."""
        self.best_estimator_ = model.fit(X, y, sample_weight)
        for name in (*_FROM_FIT, "conditioning_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # refit=False leaves scores, but no model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen model to one .npz file, as an `MCFClassifier` or `MCFRegressor`.

        Parameters
        ----------
        path : the file; it appears whole or not at all
        """
        from mcf_cli.core.model_file import save_model_file

        check_is_fitted(self)
        save_model_file(self.best_estimator_, path)

    def loo_error(self, X: Any, y: Any, method: str = "exact") -> float:
        """The leave-one-out error of the chosen model, see `MCFClassifier.loo_error`.

        Parameters
        ----------
        X, y : rows and labels or targets
        method : "exact" (equals refitting) or "paper" (the paper's formula)

        Returns
        -------
        the mean error of every row by the model without it
        """
        check_is_fitted(self)
        return float(self.best_estimator_.loo_error(X, y, method))

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the mean score of every family against its level, at the best l2 of each level.

        Bars are one standard error over the folds; a ring marks the choice.

        Parameters
        ----------
        ax : matplotlib's axes to draw on; new ones by default

        Returns
        -------
        the axes
        """
        check_is_fitted(self, "scores_path_")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        larger = Scoring.of(
            self.scoring, getattr(self, "loss", "quadratic"), not hasattr(self, "classes_"), 0
        )
        for name, scores in self.scores_path_.items():
            means, error = scores.mean(axis=0), scores.std(axis=0) / np.sqrt(len(scores))
            rows, at = np.arange(len(means)), np.argmin(larger.sign * means, axis=1)
            levels = np.nan_to_num(self.qs_[name])  # a family without a level stands at 0
            ax.errorbar(levels, means[rows, at], error[rows, at], marker=".", capsize=2, label=name)
        ax.plot([self.q_ or 0.0], [self.best_score_], "o", markersize=11, fillstyle="none", color="black")
        ax.set_xlabel("level of the corruption")
        ax.set_ylabel(f"score: {self.scoring or larger.kind}")
        ax.legend()
        return ax

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        given = self.corruption if isinstance(self.corruption, list | tuple) else [self.corruption]
        poisson = [one == "poisson" or isinstance(one, Poisson) for one in given]
        tags.input_tags.positive_only = any(poisson)
        return tags


class MCFClassifierCV(_Chooses, MCFClassifier):
    """An `MCFClassifier` that chooses the family of corruption, its level and l2 by validation.

    The candidates and folds are those of a `GridSearchCV`, and so is the choice where its fits are precise enough to
    tell the candidates apart. The rows are checked and coded once, and the fits of a fold run along l2. A first look
    fits all candidates to a `tol` of 1e-2. Those within 2% of the best error are then fitted to `tol` and measured
    again; the choice is among them. Candidates that nearly tie (one row, or 1e-4 of the error) are fitted to a
    hundredth of `tol`. Both margins widen to the largest change that further fits made to an error. Equal scores go to
    the family named first, then to the weakest corruption, then to the strongest penalty: to the first in the order of
    `cv_results_`, as in a grid search.

    Parameters
    ----------
    loss : "logistic", "exponential" or "quadratic"
    corruption : a family ("blankout", a corruption object, None for the plain model), or a list of families
    qs : levels to try of each family's own parameter (q; sigma of Gaussian, scale of Laplace, a of Uniform), or a
        dict of them by the family's name. None: shares from 0 to 0.95 of lost values, 0 to 0.4 of flipped ones, and
        of noise 0 to 2 standard deviations of the columns
    l2s : penalties to try. None: half decades from the largest variance of a column to a millionth of it, and 0 with
        the quadratic loss
    cv : a number of folds (stratified, and kept within `groups` if `fit` is given them), a splitter, an iterable of
        divisions, or "loo": exact leave-one-out, with the quadratic loss
    scoring : "error" (the default), "log_loss", ("deletion", rate): the error when each feature of the test rows is
        lost with that probability, or the name of a scikit-learn scorer or a callable scorer(model, X, y). Scorers
        that take sample_weight are given it
    one_standard_error : take the strongest corruption, then the strongest penalty, of the best family whose mean score
        is within one standard error of the best
    refit : fit the chosen model to all rows; without, there are scores but no predictions
    n_jobs : number of folds to fit at a time, as in joblib; with "loo" of corruptions
    surrogate, multiclass, shared_lambda, fit_intercept, max_iter, tol : as in `MCFClassifier`
    random_state : seed of the deleted features
    class_weight : as in `MCFClassifier`; "balanced" counts the training rows of each fold. Fits are weighted, scores
        are not
    verbose : True writes a line about the chosen model

    Attributes
    ----------
    best_params_, best_score_, best_index_ : what was chosen, its mean score, and its place in `cv_results_`
    corruption_, family_, q_, l2_ : the chosen corruption, its family's name, its level (None without one), the penalty
    scores_path_ : the scores of each family, folds x levels x l2s (with "loo", rows x levels x l2s)
    qs_, l2s_ : the levels of each family and the penalties, in the order of `scores_path_`
    cv_results_ : a dict of columns as in `GridSearchCV`. Lower errors are better, and so are higher scikit-learn
        scores; `rank_test_score` is 1 for the best either way. Scores of candidates that are not `fitted_to_tol` are
        those of the first look
    best_estimator_ : the chosen `MCFClassifier`, fitted to all rows
    coef_, intercept_, classes_, objective_, n_iter_, converged_, message_ : as in `MCFClassifier`, of that model

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mcf_cli import MCFClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = MCFClassifierCV(corruption=["dropout", None], qs=[0.2, 0.5], l2s=[1e-2, 1e-3], cv=3,
    ...                          scoring=("deletion", 0.5), random_state=0).fit(X[:300] / 16, y[:300])
    >>> search.corruption_, search.l2_
    (Dropout(q=0.5), 0.001)
    >>> search.scores_path_["dropout"].shape
    (3, 2, 2)
    """

    def __init__(
        self,
        loss: str = "logistic",
        corruption: Any = "blankout",
        qs: Any = None,
        l2s: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        one_standard_error: bool = False,
        refit: bool = True,
        n_jobs: int | None = None,
        surrogate: str = "jensen",
        multiclass: str = "pairwise",
        shared_lambda: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: Any = None,
        class_weight: Any = None,
        verbose: Any = False,
    ):
        search = qs, l2s, cv, scoring, one_standard_error, refit, n_jobs, random_state
        super().__init__(
            *search,
            loss=loss,
            corruption=corruption,
            surrogate=surrogate,
            multiclass=multiclass,
            shared_lambda=shared_lambda,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            class_weight=class_weight,
            verbose=verbose,
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose, and fit the choice to all rows.

        Parameters
        ----------
        X, y, sample_weight : rows (dense or sparse), their labels and, if any, their weights, in fits and scores
        groups : rows of one group stay on one side of every division, if `cv` is a number or heeds groups

        Returns
        -------
        self
        """
        table = ColumnNames.of(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        weight = self._weights(X, sample_weight)
        self.classes_ = np.unique(y[weight > 0.0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes in y; got one class: {self.classes_[0]!r}. "
                "Check the labels, or how the data was split"
            )
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        form = {name: getattr(self, name) for name in ("surrogate", "multiclass", "shared_lambda")}
        form |= {"loss": self.loss, "fit_intercept": self.fit_intercept}
        problem = Problem(
            X, codes, sample_weight=weight, n_classes=len(self.classes_), drop_absent=True, **form
        )
        trials = Trials(
            problem,
            weight,
            families_of(self.corruption, self.qs, problem.X, table),
            self._penalties(problem),
            Scoring.of(self.scoring, self.loss, False, _seed(self.random_state)),
            {"max_iter": self.max_iter, "tol": self.tol},
            MCFClassifier(**form),
            self.classes_,
            self.class_weight,
        )
        chosen = self._choose(trials, y, groups)
        if self.refit:
            form |= {name: getattr(self, name) for name in ("max_iter", "tol", "class_weight", "verbose")}
            self._refitted(MCFClassifier(**form, **chosen), X, y, sample_weight)
        return self


class MCFRegressorCV(_Chooses, MCFRegressor):
    """An `MCFRegressor` that chooses the family of corruption, its level and l2 by validation.

    Parameters
    ----------
    corruption, qs, l2s, one_standard_error, refit, n_jobs, random_state : as in `MCFClassifierCV`
    cv : a number of folds, a splitter, an iterable of divisions, or "loo": exact leave-one-out
    scoring : "mse" (the default), ("deletion", rate): the mean squared error when each feature of the test rows is lost
        with that probability, or the name of a scikit-learn scorer or a callable scorer(model, X, y)
    fit_intercept : whether there is a bias
    verbose : True writes a line about the chosen model

    Attributes
    ----------
    best_params_, best_score_, best_index_, corruption_, family_, q_, l2_ : as in `MCFClassifierCV`
    scores_path_, qs_, l2s_, cv_results_, best_estimator_ : as in `MCFClassifierCV`
    coef_, intercept_, objective_, n_iter_, converged_, message_ : as in `MCFRegressor`, of the chosen model

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mcf_cli import MCFRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = MCFRegressorCV(corruption="blankout", qs=[0.0, 0.1, 0.3], l2s=[0.0], cv="loo")
    >>> search = search.fit(X[:60], y[:60])
    >>> search.corruption_
    Blankout(q=0.1)
    """

    def __init__(
        self,
        corruption: Any = "blankout",
        qs: Any = None,
        l2s: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        one_standard_error: bool = False,
        refit: bool = True,
        n_jobs: int | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
        verbose: Any = False,
    ):
        search = qs, l2s, cv, scoring, one_standard_error, refit, n_jobs, random_state
        super().__init__(*search, corruption=corruption, fit_intercept=fit_intercept, verbose=verbose)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose, and fit the choice to all rows.

        Parameters
        ----------
        X, y, sample_weight : rows (dense or sparse), one or several columns of targets and, if any, weights
        groups : rows of one group stay on one side of every division, if `cv` is a number or heeds groups

        Returns
        -------
        self
        """
        table = ColumnNames.of(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
        y, weight = np.asarray(y, dtype=float), self._weights(X, sample_weight)
        form: dict[str, Any] = {"fit_intercept": self.fit_intercept}
        problem = Problem(X, y, loss="quadratic", sample_weight=weight, n_classes=0, **form)
        trials = Trials(
            problem,
            weight,
            families_of(self.corruption, self.qs, problem.X, table),
            self._penalties(problem),
            Scoring.of(self.scoring, "quadratic", True, _seed(self.random_state)),
            {},
            MCFRegressor(**form),
            None,
        )
        chosen = self._choose(trials, y, groups)
        if self.refit:
            self._refitted(MCFRegressor(**form, **chosen, verbose=self.verbose), X, y, sample_weight)
        return self


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
