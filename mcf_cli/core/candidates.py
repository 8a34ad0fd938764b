"""What a search chooses from: families of corruption with their levels, penalties, and the score of each on a fold.

All candidates share one problem: the rows are checked, coded and divided once, and within a fold the fits run along
l2 from the strongest penalty to the weakest, each from the one before. No fit starts from a solution of another
fold: that one has seen the rows that test here, and a fit that ends early would still know them.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.utils.parallel import Parallel, delayed

from mcf_cli.core.corruptions.base import Array, Corruption, column_sums
from mcf_cli.core.corruptions.bounded import BitSwap
from mcf_cli.core.corruptions.columns import ColumnNames
from mcf_cli.core.corruptions.elementwise import Dropout
from mcf_cli.core.corruptions.multinomial import Multinomial
from mcf_cli.core.corruptions.per_feature import BY_NAME, resolve
from mcf_cli.core.model import class_weights
from mcf_cli.core.problem import Problem, Solution, codes_of
from mcf_cli.core.selection import Division, fits_along, fits_from

SELECTION_TOL = 1e-2  # of a first look at all candidates; those near the best go on to `tol`
NEAR = 0.02  # of the best error: how far from it a candidate may be at the first look
CLOSER = 0.01  # of tol: how precise the fits of those are that nearly tie
TIED = 1e-4  # of the best error: how far from it a candidate may be that nearly ties; or one test row
BYTES_OF_STARTS = 200_000_000  # of solutions, from which later fits start: more are not kept
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


def families_of(corruption: Any, qs: Any, X: Any, table: ColumnNames = ColumnNames()) -> list[Family]:  # noqa: B008
    """One family, or a list of them, each with its levels: `qs`, `qs[name]`, or automatic ones for the data.

    `table` has the column names that a family may speak of.
    """
    given = list(corruption) if isinstance(corruption, list | tuple) else [corruption]
    if not given:
        raise ValueError("corruption is an empty list; name at least one family, or None for the plain model")
    names = {cls: name for name, cls in BY_NAME.items()}
    families: list[Family] = []
    for one in given:
        family = None if one is None or one == "none" else resolve(one).named(table)
        name = "none" if family is None else names.get(type(family), type(family).__name__.lower())
        taken = sum(other.name.split("-")[0] == name for other in families)
        name = f"{name}-{taken + 1}" if taken else name
        own = qs.get(name) if isinstance(qs, dict) else qs
        level = _level_of(family, given=own is not None)
        if level is None:
            levels: tuple[float | None, ...] = (None,)
        else:
            levels = _levels(name, automatic_levels(family, level, X) if own is None else own)
        families.append(Family(name, family, level, levels))
    if isinstance(qs, dict) and (unknown := set(qs) - {family.name for family in families}):
        known = ", ".join(family.name for family in families)
        raise ValueError(f"qs names {sorted(unknown)[0]!r}, which is not a family of corruption={known}")
    return families


def _level_of(family: Corruption | None, given: bool) -> str | None:
    """The parameter that is a family's level; None where there is none to choose.

    One number a feature, as of `Dropout.from_missing`, stays as it is unless levels are given. A confusion matrix
    stands in the place of q.
    """
    parameters = {} if family is None else family.get_params(deep=False)
    level = next((name for name in _LEVEL_NAMES if name in parameters), None)
    fixed = level is not None and np.ndim(parameters[level]) > 0 and not given
    return None if fixed or parameters.get("confusion") is not None else level


def _levels(name: str, values: Any) -> tuple[float, ...]:
    levels = tuple(sorted(numbers(f"qs of {name}", values)))
    if not np.isfinite(levels).all():
        raise ValueError(f"qs of {name} must be one or more finite numbers; got {values!r}")
    return levels


def numbers(name: str, values: Any) -> set[float]:
    """The distinct numbers of a grid; ValueError where there are none, or something else."""
    try:
        found = {float(value) for value in np.atleast_1d(values)}
    except (TypeError, ValueError):
        found = set()
    if not found:
        raise ValueError(f"{name} must be one or more finite numbers; got {values!r}")
    return found


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

    def paths(self) -> list[tuple[Family, float | None]]:
        """Every corruption: the families with their levels, in the order that decides ties."""
        return [(family, level) for family in self.families for level in family.levels]

    def listed(self) -> list[tuple[int, int, int]]:
        """The candidates: the places of family, level and penalty. Along each path the penalty falls."""
        return [
            (number, place, at)
            for number, family in enumerate(self.families)
            for place in range(len(family.levels))
            for at in range(len(self.l2s))
        ]

    def on_fold(
        self, fold: int, division: Division, asked: Array, starts: dict[int, Solution], **fit: Any
    ) -> tuple[Array, Array, dict[int, Solution]]:
        """Of the candidates asked for (a mask) the errors, whether their fits converged, and the fits by candidate.

        A fit starts from the candidate's own solution among `starts`, else along the path.
        """
        train, test = division
        train = train[self.sample_weight[train] > 0.0]
        if self.labels is not None and len(np.unique(self.problem.y[train])) < 2:
            raise ValueError(
                f"fold {fold} trains on rows of one class; take a stratified splitter, or fewer folds"
            )
        problem = self.problem.subset(train, self._training_weight(train))
        measure = self._measure(fold, test)
        found: dict[int, Solution] = {}
        errors, converged = np.zeros(len(asked)), np.ones(len(asked), bool)
        for number, (family, level) in enumerate(self.paths()):
            first = number * len(self.l2s)
            at = (first + np.flatnonzero(asked[first : first + len(self.l2s)])).tolist()
            if not at:
                continue
            corruption, l2s = family.at_level(level), [self.l2s[candidate - first] for candidate in at]
            if all(candidate in starts for candidate in at):
                begin = [starts[candidate] for candidate in at]
                path = fits_from(problem, corruption, l2s, begin, **fit)
            else:
                path = fits_along(problem, corruption, l2s, ahead=True, **fit)
            solutions = [solution for _, solution in path]
            errors[at] = list(map(measure(corruption), solutions))
            converged[at] = [solution.converged for solution in solutions]
            found |= dict(zip(at, solutions, strict=True))
        return errors, converged, found

    def on_folds(
        self, divisions: list[Division], n_jobs: int | None, one_standard_error: bool = False
    ) -> tuple[Array, Array, Array]:
        """Errors (folds x candidates), whether the fits converged, and which candidates were fitted to `tol`.

        A first look at all of them takes fits to SELECTION_TOL. Those that come near the best of them are fitted to
        `tol` and measured again. Where the choice is still close, the candidates in question are fitted to a hundredth
        of `tol`, so that it does not depend on where their fits ended. How near is near follows from how far
        the errors moved when their fits went on.
        """
        search = _Search(self, divisions, n_jobs, one_standard_error)
        tol, everyone = self.fit.get("tol", 0.0), np.ones(len(self.listed()), bool)
        first = {} if self.problem.loss_name == "quadratic" else {"tol": max(tol, SELECTION_TOL)}
        search.measure(everyone, {**self.fit, **first})
        if not first:
            return search.errors, search.converged, everyone
        to_tol = search.refine(self.fit, NEAR, everyone) if tol < SELECTION_TOL else everyone
        converged = search.converged.copy()
        rows = sum(len(test) for _, test in divisions)
        if np.count_nonzero(search.close(TIED, to_tol, 1.0 / rows)) > 1:
            search.refine({**self.fit, "tol": CLOSER * tol}, TIED, to_tol, 1.0 / rows)
        return search.errors, converged, to_tol

    def _training_weight(self, rows: Array) -> Array:
        """The weight of each training row in fits."""
        weight, y = self.sample_weight[rows], self.problem.y[rows]
        if self.class_weight is None:
            return weight
        totals = np.bincount(y, weight, minlength=len(self.labels))
        return weight * class_weights(self.class_weight, self.labels, totals)[y]

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
        weighted = (weight != weight[0]).any() and _takes_weights(self.scoring.scorer)
        weights = {"sample_weight": weight} if weighted else {}
        if self.labels is None:
            if self.problem.y.ndim == 1:
                model.coef_, model.intercept_ = solution.coef[0], solution.intercept[0]
        else:
            y = self.labels[y]
            model.classes_ = self.labels if solution.labels is None else self.labels[solution.labels]
        return -float(self.scoring.scorer(model, X, y, **weights))

    def leave_one_out(self, n_jobs: int | None = None) -> Array:
        """The mistakes of every row by the model without it, rows x candidates."""
        if self.scoring.kind not in ("error", "mse"):
            raise ValueError("cv='loo' goes with scoring='error' or 'mse'; take folds for other scorings")
        if self.problem.loss_name != "quadratic":
            raise ValueError(
                f"cv='loo' needs loss='quadratic', whose leave-one-out is exact; this model has "
                f"loss={self.problem.loss_name!r}: give a number of folds"
            )
        if self.class_weight is not None or (self.sample_weight != self.sample_weight[0]).any():
            raise ValueError("cv='loo' takes no sample_weight and no class_weight; give a number of folds")
        paths = (delayed(self._left_out)(family.at_level(level)) for family, level in self.paths())
        return np.hstack(Parallel(n_jobs=n_jobs)(paths))

    def _left_out(self, corruption: Corruption | None) -> Array:
        """The mistakes of every row by the model without it, rows x l2s."""
        y, errors = self.problem.y, np.empty((len(self.problem.y), len(self.l2s)))
        for at, l2 in enumerate(self.l2s):
            scores = self.problem.loo(corruption, l2)
            wrong = (scores - y.reshape(len(y), -1)) ** 2 if self.labels is None else codes_of(scores) != y
            errors[:, at] = wrong.mean(axis=1) if wrong.ndim == 2 else wrong
        return errors


class _Search:
    """What is known of the candidates on every fold, and what their next fits can start from."""

    def __init__(
        self, trials: Trials, divisions: list[Division], n_jobs: int | None, one_standard_error: bool
    ):
        self.trials, self.divisions, self.n_jobs = trials, divisions, n_jobs
        self.one_standard_error = one_standard_error
        candidates, K = len(trials.listed()), trials.problem.n_classes
        self.errors = np.zeros((len(divisions), candidates))
        self.converged = np.ones(self.errors.shape, bool)
        self.keeps = self.errors.size * (K if K > 2 else 1) * trials.problem.X.shape[1] * 8 <= BYTES_OF_STARTS
        self.starts: list[dict[int, Solution]] = [{} for _ in divisions]

    def measure(self, asked: Array, fit: dict[str, Any]) -> None:
        """Fit the candidates asked for on every fold."""
        folds = enumerate(zip(self.divisions, self.starts, strict=True))
        of_folds = Parallel(n_jobs=self.n_jobs)(
            delayed(self.trials.on_fold)(fold, division, asked, starts, **fit)
            for fold, (division, starts) in folds
        )
        for fold, (errors, converged, solutions) in enumerate(of_folds):
            self.errors[fold, asked], self.converged[fold, asked] = errors[asked], converged[asked]
            self.starts[fold] |= solutions if self.keeps else {}

    def refine(self, fit: dict[str, Any], near: float, among: Array, least: float = 0.0) -> Array:
        """Fit further whatever may be the choice; returns which candidates these were.

        They are the best and all that are no further from it than a share `near` of its error, `least`, or what such
        fits have moved an error so far. With the one-standard-error rule they may be one standard error further away.
        """
        done, moved = np.zeros(len(among), bool), least
        while (asked := self.close(near, among, moved) & ~done).any():
            before = self._means()
            self.measure(asked, fit)
            after = self._means()
            known = asked & np.isfinite(before) & np.isfinite(after)
            moved, done = max(moved, np.abs(after[known] - before[known]).max(initial=0.0)), done | asked
        return done

    def close(self, near: float, among: Array, least: float) -> Array:
        """The candidates that may be the choice, the best one among them."""
        means = np.where(among, self._means(), np.inf)
        best = int(np.argmin(means))
        limit = means[best] + max(least, near * abs(means[best]))
        if self.one_standard_error:
            limit += self.errors[:, best].std(ddof=1) / np.sqrt(len(self.errors))
        return among & (means <= limit)

    def _means(self) -> Array:
        return np.where(np.isnan(self.errors), np.inf, self.errors).mean(axis=0)


def _takes_weights(scorer: Any) -> bool:
    """Whether a scorer, or the metric that it was made of, has a parameter sample_weight."""
    try:
        return "sample_weight" in signature(getattr(scorer, "_score_func", scorer)).parameters
    except (TypeError, ValueError):  # a callable that does not say
        return False


def log_losses(solution: Solution, X: Any, y: Array) -> Array:
    """-log p(y | x) of each row, in the log domain; a class that no training row had costs what 2^-52 would."""
    scores = np.asarray(solution.decision(X))
    scores = np.column_stack([np.zeros(len(y)), scores]) if scores.ndim == 1 else scores
    labels = np.arange(scores.shape[1]) if solution.labels is None else solution.labels
    column = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), column]
    return np.where(labels[column] == y, losses, -np.log(np.finfo(float).eps))
