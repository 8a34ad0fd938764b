"""What a choice is made from: families of corruption with their levels, penalties, and what each scores on a fold.

All candidates share one problem: the rows are checked, coded and divided once, and within a fold the fits run along
l2 from the strongest penalty to the weakest, each from the one before. No fit starts from a solution of another fold:
that one has seen the rows which test here, and a fit that ends early would still know them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.utils.parallel import Parallel, delayed

from mcf_cli.core.corruptions.base import Array, Corruption, column_sums
from mcf_cli.core.corruptions.bounded import BitSwap
from mcf_cli.core.corruptions.elementwise import Dropout
from mcf_cli.core.corruptions.multinomial import Multinomial
from mcf_cli.core.corruptions.per_feature import BY_NAME, resolve
from mcf_cli.core.model import class_weights
from mcf_cli.core.problem import Problem, Solution, codes_of
from mcf_cli.core.selection import Division, fits_along, path_errors

SELECTION_TOL = 1e-2  # of a first look at all candidates; those near the best go on to `tol`
NEAR = 0.02  # of the best error, and its standard error: how far from it a candidate may be at the first look
DELETIONS = 5  # draws of the deleted features of each test row
_LEVEL_NAMES = ("q", "sigma", "scale", "a")
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)  # of values that are lost
_FLIPS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)  # of values that turn into another
_SPREADS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # of noise, in standard deviations of the columns


@dataclass(frozen=True)
class Family:
    """A family of corruption with the levels to choose from."""

    name: str
    corruption: Corruption | None
    level: str | None  # the parameter that is its level; None where there is none
    levels: tuple[float | None, ...]  # ascending

    def at_level(self, value: float | None) -> Corruption | None:
        """The corruption at a level."""
        if self.corruption is None or self.level is None:
            return self.corruption
        return clone(self.corruption).set_params(**{self.level: value})


def families_of(corruption: Any, qs: Any, X: Any) -> list[Family]:
    """One family, or a list of them, each with its levels: `qs`, `qs[name]`, or automatic ones for the data."""
    given = list(corruption) if isinstance(corruption, list | tuple) else [corruption]
    if not given:
        raise ValueError("corruption is an empty list; name at least one family, or None for the plain model")
    names = {cls: name for name, cls in BY_NAME.items()}
    families: list[Family] = []
    for one in given:
        family = None if one is None or one == "none" else resolve(one)
        name = "none" if family is None else names.get(type(family), type(family).__name__.lower())
        taken = sum(other.name.split("-")[0] == name for other in families)
        name = f"{name}-{taken + 1}" if taken else name
        parameters = {} if family is None else family.get_params(deep=False)
        level = next((own for own in _LEVEL_NAMES if own in parameters), None)
        own = qs.get(name) if isinstance(qs, dict) else qs
        if level is None:
            levels: tuple[float | None, ...] = (None,)
        else:
            levels = _levels(name, automatic_levels(family, level, X) if own is None else own)
        families.append(Family(name, family, level, levels))
    if isinstance(qs, dict) and (unknown := set(qs) - {family.name for family in families}):
        known = ", ".join(family.name for family in families)
        raise ValueError(f"qs names {sorted(unknown)[0]!r}, which is no family of corruption={known}")
    return families


def _levels(name: str, values: Any) -> tuple[float, ...]:
    levels = tuple(sorted({float(value) for value in np.atleast_1d(values)}))
    if not levels or not np.isfinite(levels).all():
        raise ValueError(f"qs of {name} must be one or more finite numbers; got {values!r}")
    return levels


def automatic_levels(family: Any, level: str, X: Any) -> tuple[float, ...]:
    """Shares of lost or flipped values; of noise, multiples of the columns' root mean square deviation."""
    if level == "q":
        return _FLIPS if isinstance(family, BitSwap | Multinomial) else _SHARES
    size = float(np.sqrt(np.mean(column_variances(X)))) or 1.0
    unit = {"sigma": 1.0, "scale": np.sqrt(0.5), "a": np.sqrt(3.0)}[level]  # of one standard deviation
    return tuple(float(f"{share * size * unit:.3g}") for share in _SPREADS)


def automatic_l2s(X: Any, loss: str) -> list[float]:
    """Half decades from the largest variance of a column down to a millionth of it.

    The quadratic loss has a minimum without a penalty too, so 0 is among its candidates.
    """
    largest = float(column_variances(X).max(initial=0.0)) or 1.0
    top = round(2.0 * np.log10(largest)) / 2.0
    l2s = [float(f"{10.0**exponent:.3g}") for exponent in top - 0.5 * np.arange(13)]
    return [*l2s, 0.0] if loss == "quadratic" else l2s


def column_variances(X: Any) -> Array:
    """Of each column, over the rows."""
    share = np.full(X.shape[0], 1.0 / X.shape[0])
    return np.maximum(column_sums(X, share, power=2) - column_sums(X, share) ** 2, 0.0)


@dataclass(frozen=True)
class Scoring:
    """What a candidate's error on test rows is; `sign` turns errors into the scores that users see."""

    kind: str  # error, log_loss, mse, deletion or scorer
    rate: float = 0.0
    scorer: Any = None
    seed: int = 0

    @classmethod
    def of(cls, scoring: Any, loss: str, regression: bool, seed: int) -> Scoring:
        """From the parameter `scoring`; ValueError where it does not go with the model."""
        own = ("mse",) if regression else ("error", "log_loss")
        if scoring is None or (isinstance(scoring, str) and scoring in own):
            if scoring == "log_loss" and loss != "logistic":
                raise ValueError(
                    f"scoring='log_loss' needs probabilities, so loss='logistic'; this model has loss={loss!r}"
                )
            return cls(scoring or own[0])
        if isinstance(scoring, tuple | list) and len(scoring) == 2 and scoring[0] == "deletion":
            rate = float(scoring[1])
            if not 0.0 <= rate < 1.0:
                raise ValueError(f"scoring=('deletion', rate) needs a rate in [0, 1); got {scoring[1]!r}")
            return cls("deletion", rate=rate, seed=seed)
        if callable(scoring):
            return cls("scorer", scorer=scoring)
        try:
            return cls("scorer", scorer=get_scorer(scoring))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"scoring={scoring!r} is not known; give one of {', '.join(own)}, ('deletion', rate), the name of a "
                "scikit-learn scorer, or a callable scorer(model, X, y)"
            ) from error

    @property
    def sign(self) -> float:
        """-1 where a larger score is the better one, as of scikit-learn's scorers."""
        return -1.0 if self.kind == "scorer" else 1.0


@dataclass(frozen=True)
class Trials:
    """What the folds need: all rows as one problem, the candidates, and how they are measured."""

    problem: Problem
    sample_weight: Array
    families: list[Family]
    l2s: list[float]  # descending
    scoring: Scoring
    fit: dict[str, Any]
    model: Any  # the estimator that a scorer sees
    labels: Any  # what it predicts: the classes in the order of their codes; None for a regression
    class_weight: Any = None  # of fits, by the rows that train

    def candidates(self) -> Iterator[tuple[int, int, Family, float | None]]:
        for number, family in enumerate(self.families):
            for place, level in enumerate(family.levels):
                yield number, place, family, level

    def on_fold(
        self, fold: int, division: Division, asked: list[Array], **fit: Any
    ) -> tuple[list[Array], list[Array]]:
        """Of each family the errors (levels x l2s) of the candidates asked for, and whether their fits converged."""
        train, test = division
        train = train[self.sample_weight[train] > 0.0]
        if self.labels is not None and len(np.unique(self.problem.y[train])) < 2:
            raise ValueError(
                f"fold {fold} trains on rows of one class; take a stratified splitter, or fewer folds"
            )
        problem = self.problem.subset(train, self._training_weight(train))
        measure = self._measure(fold, test)
        shapes = [(len(family.levels), len(self.l2s)) for family in self.families]
        errors, converged = [np.zeros(shape) for shape in shapes], [np.ones(shape, bool) for shape in shapes]
        for number, place, family, level in self.candidates():
            at = np.flatnonzero(asked[number][place])
            if not len(at):
                continue
            corruption = family.at_level(level)
            path = fits_along(problem, corruption, [self.l2s[penalty] for penalty in at], **fit)
            row, solutions = path_errors(path, measure(corruption), len(at), patient=True)
            errors[number][place, at] = row
            converged[number][place, at] = [solution.converged for solution in solutions]
        return errors, converged

    def on_folds(self, divisions: list[Division], n_jobs: int | None) -> tuple[Array, Array, Array]:
        """Errors (folds x candidates), whether the fits converged, and which candidates were fitted to `tol`.

        A first look at all of them takes fits to SELECTION_TOL. Those that come near the best of them are fitted to
        `tol` and measured again: the choice is among these.
        """
        shapes = [(len(family.levels), len(self.l2s)) for family in self.families]
        everyone, tol = [np.ones(shape, bool) for shape in shapes], self.fit.get("tol", 0.0)
        if tol >= SELECTION_TOL or self.problem.loss_name == "quadratic":
            return *self._scored(divisions, everyone, self.fit, n_jobs), _flat(everyone)
        errors, converged = self._scored(divisions, everyone, {**self.fit, "tol": SELECTION_TOL}, n_jobs)
        means = np.where(np.isnan(errors), np.inf, errors).mean(axis=0)
        best = int(np.argmin(means))
        spread = errors[:, best].std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
        near = means <= means[best] + spread + NEAR * abs(means[best])
        ends = np.cumsum([levels * penalties for levels, penalties in shapes])[:-1]
        asked = [part.reshape(shape) for part, shape in zip(np.split(near, ends), shapes, strict=True)]
        again, settled = self._scored(divisions, asked, self.fit, n_jobs)
        errors[:, near], converged[:, near] = again[:, near], settled[:, near]
        return errors, converged, near

    def _training_weight(self, rows: Array) -> Array:
        """The weight of each training row in fits."""
        weight, y = self.sample_weight[rows], self.problem.y[rows]
        if self.class_weight is None:
            return weight
        totals = np.bincount(y, weight, minlength=len(self.labels))
        return weight * class_weights(self.class_weight, self.labels, totals)[y]

    def _scored(
        self, divisions: list[Division], asked: list[Array], fit: dict[str, Any], n_jobs: int | None
    ) -> tuple[Array, Array]:
        of_folds = Parallel(n_jobs=n_jobs)(
            delayed(self.on_fold)(fold, division, asked, **fit) for fold, division in enumerate(divisions)
        )
        errors, converged = zip(*of_folds, strict=True)
        return np.array([_flat(found) for found in errors]), np.array([_flat(found) for found in converged])

    def _measure(self, fold: int, test: Array) -> Any:
        """Of a corruption: what measures a solution that was fitted under it on the test rows."""
        X, y, weight = self.problem.X[test], self.problem.y[test], self.sample_weight[test]
        if not weight.any():
            raise ValueError(f"fold {fold} tests on rows whose sample_weight is 0 only")
        if self.scoring.kind == "scorer":
            return lambda corruption: lambda solution: self._by_scorer(solution, corruption, X, y, weight)
        if self.scoring.kind == "deletion":
            rng, deleting = np.random.default_rng([self.scoring.seed, fold]), Dropout(q=self.scoring.rate)
            parts = [deleting.sample(X, rng) for _ in range(DELETIONS)]
            X = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)
            y, weight = np.concatenate([y] * DELETIONS), np.tile(weight, DELETIONS)
        return lambda _: lambda solution: float(np.average(self._mistakes(solution, X, y), weights=weight))

    def _mistakes(self, solution: Solution, X: Any, y: Array) -> Array:
        """What each row adds: 0 or 1, its squared error, or -log p of its class."""
        if self.labels is None:
            missed = np.asarray(solution.decision(X)).reshape(len(y), -1) - y.reshape(len(y), -1)
            return (missed**2).mean(axis=1)
        if self.scoring.kind != "log_loss":
            return solution.predict(X) != y
        return log_losses(solution, X, y)

    def _by_scorer(self, solution: Solution, corruption: Any, X: Any, y: Array, weight: Array) -> float:
        model = clone(self.model).set_params(corruption=corruption)
        model.coef_, model.intercept_, model.n_features_in_ = solution.coef, solution.intercept, X.shape[1]
        weights = {"sample_weight": weight} if (weight != weight[0]).any() else {}
        if self.labels is None:
            if self.problem.y.ndim == 1:
                model.coef_, model.intercept_ = solution.coef[0], solution.intercept[0]
        else:
            y = self.labels[y]
            model.classes_ = self.labels if solution.labels is None else self.labels[solution.labels]
        return -float(self.scoring.scorer(model, X, y, **weights))

    def leave_one_out(self) -> list[Array]:
        """Of each family the mistakes of every row by the model without it, rows x levels x l2s."""
        if self.scoring.kind not in ("error", "mse"):
            raise ValueError("cv='loo' goes with scoring='error' or 'mse'; take folds for other scorings")
        if self.problem.loss_name != "quadratic":
            raise ValueError(
                f"cv='loo' needs loss='quadratic', whose leave-one-out is exact; this model has "
                f"loss={self.problem.loss_name!r}: give a number of folds"
            )
        if self.class_weight is not None or (self.sample_weight != self.sample_weight[0]).any():
            raise ValueError("cv='loo' takes no sample_weight and no class_weight; give a number of folds")
        y = self.problem.y
        shapes = [(len(y), len(family.levels), len(self.l2s)) for family in self.families]
        errors = [np.empty(shape) for shape in shapes]
        for number, place, family, level in self.candidates():
            for at, l2 in enumerate(self.l2s):
                scores = self.problem.loo(family.at_level(level), l2)
                wrong = (
                    (scores - y.reshape(len(y), -1)) ** 2 if self.labels is None else codes_of(scores) != y
                )
                errors[number][:, place, at] = wrong.mean(axis=1) if wrong.ndim == 2 else wrong
        return errors


def _flat(of_families: list[Array]) -> Array:
    return np.concatenate([found.ravel() for found in of_families])


def log_losses(solution: Solution, X: Any, y: Array) -> Array:
    """-log p(y | x) of each row, in the log domain; a class that no training row had costs what 2^-52 would."""
    scores = np.asarray(solution.decision(X))
    scores = np.column_stack([np.zeros(len(y)), scores]) if scores.ndim == 1 else scores
    labels = np.arange(scores.shape[1]) if solution.labels is None else solution.labels
    column = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), column]
    return np.where(labels[column] == y, losses, -np.log(np.finfo(float).eps))
