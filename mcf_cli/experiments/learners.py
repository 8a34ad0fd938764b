"""Every method behind one interface: a learner on some rows, which can be cut to a fold and fitted along l2.

    learner = make_learner(params, dataset, rows)
    for l2, solution in learner.subset(fold).path([1, 0.1, 0]): ...

A path runs from the strongest penalty to the weakest, each fit starting from the one before, the first from
zero or from a solution on some of the rows. The order is part of the method: it makes the numbers of a trial
independent of what was computed elsewhere or earlier.

`prepared` is what is done to the data before a method sees it, learnt from the training rows of the trial alone.
Every protocol calls it once its training rows are known, cross-validation once a fold. The folds in which
l2 and q are chosen lie within those rows and share their scale: the choice may look at it, the test rows never do.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from mcf_cli.baselines.boosting import Boosting
from mcf_cli.baselines.explicit import Explicit
from mcf_cli.baselines.fdrop import Fdrop
from mcf_cli.baselines.linear import Hinge, Penalised
from mcf_cli.core.corruptions import BY_NAME
from mcf_cli.core.corruptions.rates import has_missing, missing_rates
from mcf_cli.core.prediction import Preparation
from mcf_cli.core.problem import Problem, Solution, codes_of
from mcf_cli.core.selection import Learner, fits_along
from mcf_cli.datasets.dataset import Dataset, RowsOnDisk, fingerprint, row_pieces
from mcf_cli.datasets.splits import bit_stream
from mcf_cli.errors import McfError, nearest
from mcf_cli.experiments.config import GROUPED
from mcf_cli.experiments.trial import Params
from mcf_cli.scale.fits import ChunkedProblem
from mcf_cli.yamlfile import OBSERVED

ZERO_STAYS_ZERO = ("none", "blankout", "dropout", "poisson")
RECENT = 2  # training and validation rows of one repeat
KEPT_BYTES = 50_000_000  # bytes of rows: folds of more are made anew for each trial, not kept side by side
_recent: dict[tuple, "SharedProblem"] = {}
LearnerMatrix: TypeAlias = Any  # an array, a CSR matrix or RowsOnDisk; scipy has no types


@dataclass(frozen=True)
class Marginalised:
    """MCF, or the plain model when the corruption is None. The problem is shared by all that use its rows."""

    shared: "SharedProblem"
    corruption: Any
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "Marginalised":
        return replace(self, shared=self.shared.subset(rows))

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        start = start if _same_classes(start, self.shared.problem) else None
        return fits_along(self.shared.problem, self.corruption, l2s, start, **self.fit)

    def loo(self, l2: float) -> np.ndarray:
        """The class codes, or the numbers, that leave-one-out predicts (quadratic loss)."""
        problem = self.shared.problem
        scores = problem.loo(self.corruption, l2)
        if problem.n_classes == 0:
            return scores[:, 0]
        codes = codes_of(scores)
        return codes if problem.labels is None else problem.labels[codes]


@dataclass(frozen=True)
class BaselineLearner:
    """A method of mcf_cli.baselines: ``make(X, y)`` gives a problem, its ``solve(l2, start=...)`` a fit."""

    make: Callable[[LearnerMatrix, np.ndarray], Any]
    X: LearnerMatrix
    y: np.ndarray
    fit: dict[str, Any] = field(default_factory=dict)

    def subset(self, rows: np.ndarray) -> "BaselineLearner":
        return replace(self, X=self.X[rows], y=self.y[rows])

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        problem, solution = self.make(self.X, self.y), start
        for l2 in sorted(l2s, reverse=True):
            solution = problem.solve(l2, start=solution, **self.fit)
            yield l2, solution


@dataclass(frozen=True)
class L1:
    """A plain model with an l1 penalty, on the Problem that the l2 model uses too."""

    shared: "SharedProblem"
    fit: dict[str, Any]

    def subset(self, rows: np.ndarray) -> "L1":
        return replace(self, shared=self.shared.subset(rows))

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        model = Penalised(self.shared.problem)
        solution = start if _same_classes(start, self.shared.problem) else None
        for strength in sorted(l2s, reverse=True):
            solution = model.solve(strength, start=solution, **self.fit)
            yield strength, solution


@dataclass(frozen=True)
class OnSeenFeatures:
    """A learner on the features that occur in its rows. The others' weights are 0, and cost nothing this way.

    A hundred documents hold a tenth of a vocabulary, and the optimiser's own work grows with the weights.
    """

    inner: Marginalised | L1
    columns: np.ndarray
    n_features: int

    def subset(self, rows: np.ndarray) -> "OnSeenFeatures":
        return replace(self, inner=self.inner.subset(rows))

    def path(self, l2s: Sequence[float], start: Solution | None = None) -> Iterator[tuple[float, Solution]]:
        if start is not None:
            start = replace(start, coef=start.coef[:, self.columns])
        for l2, solution in self.inner.path(l2s, start):
            coef = np.zeros((len(solution.coef), self.n_features))
            coef[:, self.columns] = solution.coef
            yield l2, replace(solution, coef=coef)

    def loo(self, l2: float) -> np.ndarray:
        assert isinstance(self.inner, Marginalised)  # an l1 penalty has no leave-one-out
        return self.inner.loo(l2)


def _same_classes(start: Solution | None, problem: Problem) -> bool:
    """A fold may lack a class that the whole has; its solution is then no place to begin."""
    if start is None:
        return False
    ours, theirs = problem.labels, start.labels
    return ours is theirs or (ours is not None and theirs is not None and np.array_equal(ours, theirs))


def make_learner(params: dict[str, Any], dataset: Dataset, rows: np.ndarray, **given: Any) -> Learner:
    """The learner of a trial on some rows of its data set.

    ``given`` is what a problem may know besides: ``label_noise`` (P(seen | true)) or ``unlabeled`` (rows).
    """
    method, fit = params["method"], params["fit"]
    if method["loss"] in ("hinge", "boosting") or params.get("copies") is not None:
        return _baseline(params, dataset, rows)
    # Rows without labels may hold features that no labelled row has.
    columns = None if "unlabeled" in given else seen_features(method, dataset.X[rows])
    shared = shared_problem(method, dataset, rows, columns, **given)
    corruption = make_corruption(method, dataset)
    learner = L1(shared, fit) if method["penalty"] == "l1" else Marginalised(shared, corruption, fit)
    return learner if columns is None else OnSeenFeatures(learner, columns, dataset.X.shape[1])


def seen_features(method: dict[str, Any], X: LearnerMatrix) -> np.ndarray | None:
    """The columns with any value, where leaving the others out changes nothing and is worth it; else None."""
    by_column = np.ndim(method.get("q", 0.0))
    if not sp.issparse(X) or method["corruption"] not in ZERO_STAYS_ZERO or by_column:
        return None
    columns = np.flatnonzero(X.getnnz(axis=0))
    return columns if len(columns) < 0.9 * X.shape[1] else None


def _baseline(params: dict[str, Any], dataset: Dataset, rows: np.ndarray) -> BaselineLearner:
    """Hinge, FDROP, trees or explicit copies. FDROP counts passes and not iterations, and keeps its own limits."""
    method, fit, n_classes = params["method"], params["fit"], len(dataset.class_names)
    make: Callable[..., Any]
    stream = bit_stream(params["seed"], params["dataset"], params["repeat"], "baseline")
    seed = int(stream.random_raw() % 2**31)
    if method["corruption"] == "fdrop":
        make, fit = partial(Fdrop, n_classes=n_classes, seed=seed), {"deletions": method["budget"]}
    elif method["loss"] == "hinge":
        make = partial(Hinge, seed=seed)
    elif method["loss"] == "boosting":
        make, fit = partial(Boosting, seed=seed, missing_rate=method.get("q", 0.0)), {}
    else:
        corruption = make_corruption(method, dataset)
        make = partial(Explicit, corruption=corruption, loss=method["loss"], n_classes=n_classes, seed=seed)
        fit = {**fit, "copies": params["copies"]}
    return BaselineLearner(make, dataset.X[rows], dataset.y[rows], fit)


class SharedProblem:
    """A Problem and its folds, kept with their coding and Gram matrices for later trials on the same rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._subsets: dict[bytes, SharedProblem] = {}

    def subset(self, rows: np.ndarray) -> "SharedProblem":
        if _bytes_of(self.problem) > KEPT_BYTES:
            return SharedProblem(self.problem.subset(rows))
        key = rows.tobytes()
        if key not in self._subsets:
            self._subsets[key] = SharedProblem(self.problem.subset(rows))
        return self._subsets[key]


def forget_problems() -> None:
    """Let go of what was kept for later trials."""
    _recent.clear()


def _bytes_of(problem: Problem | ChunkedProblem) -> int:
    """What the rows take in memory."""
    if isinstance(problem, ChunkedProblem):
        return 0
    X = problem.X
    return X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes


def shared_problem(
    method: dict[str, Any],
    dataset: Dataset,
    rows: np.ndarray,
    columns: np.ndarray | None = None,
    **given: Any,
) -> SharedProblem:
    """The problem of a trial's rows and loss; it depends on neither the corruption's level nor l2."""
    form = {"surrogate": "jensen", "multiclass": "pairwise"}
    form |= {name: method[name] for name in ("loss", "surrogate", "multiclass") if name in method}
    # Rows without labels are those of the data set that a curve keeps back, so their number says which.
    beside = [(n, v.shape[0] if n == "unlabeled" else v.tobytes()) for n, v in given.items() if v is not None]
    seen = hashlib.sha256(rows.tobytes()).digest()
    key = (dataset.sha256, seen, columns is None, *form.values(), *beside)
    if key not in _recent:
        while len(_recent) >= RECENT:
            _recent.pop(next(iter(_recent)))
        X = dataset.X[rows] if columns is None else dataset.X[rows][:, columns]
        make: Callable[..., Any] = (
            ChunkedProblem if isinstance(X, RowsOnDisk) else partial(Problem, drop_absent=True)
        )
        problem = make(X, dataset.y[rows], n_classes=len(dataset.class_names), **form, **given)
        _recent[key] = SharedProblem(problem)
    return _recent[key]


def make_corruption(method: dict[str, Any], dataset: Dataset | None = None) -> Any:
    """The corruption object of a method, None for the plain model. Blocks and groups are those of the data set."""
    name = method["corruption"]
    if name == "none":
        return None
    names = ("q", "sigma", "scale", "a", "clip")
    parameters = {key: method[key] for key in names if key in method}
    if name == "multinomial" and dataset is not None:
        parameters["blocks"] = dataset.blocks
    if name in GROUPED and dataset is not None:
        parameters["groups"] = columns_together(method["column_groups"], dataset)
    return BY_NAME[name](**parameters)


def columns_together(groups: str, dataset: Dataset) -> int | list[list[int]]:
    """What a config says of columns that are lost together, as `GroupDropout` takes it."""
    names, width = dataset.feature_names or (), dataset.X.shape[1]
    place = {name: number for number, name in enumerate(names)}
    if groups.isdecimal() and groups not in place:
        return int(groups)
    return [_columns(group, place, width) for group in groups.split(";")]


def _columns(group: str, place: dict[str, int], width: int) -> list[int]:
    """One group: names, numbers from 1, ranges of either, and patterns of names."""
    columns: list[int] = []
    for word in map(str.strip, group.split(",")):
        if word in place:
            columns.append(place[word])
        elif set("*?") & set(word):
            columns += (matching := [number for name, number in place.items() if fnmatchcase(name, word)])
            if not matching:
                raise McfError(f"no column has a name like {word}")
        else:
            first, colon, last = word.partition(":")
            start = _column(first.strip(), place, width)
            end = _column(last.strip(), place, width) if colon else start
            if end < start:
                raise McfError(f"the range {word} runs backwards")
            columns += range(start, end + 1)
    return columns


def _column(word: str, place: dict[str, int], width: int) -> int:
    if word in place:
        return place[word]
    if word.isdecimal() and 1 <= int(word) <= width:
        return int(word) - 1
    raise McfError(f"there is no column {word}{nearest(word, place)}")


AT_ONCE = 2**22  # entries: their squares take room beside the data
FAR_APART = 100.0  # two orders of magnitude


def prepared(params: Params, dataset: Dataset, rows: np.ndarray) -> tuple[Params, Dataset]:
    """The parameters and the data set as the method takes them; both as they are where nothing is to be done."""
    if not needs_preparation(params, dataset):
        return params, dataset
    return applied(preparation(params, dataset, rows), params, dataset, rows)


def needs_preparation(params: Params, dataset: Dataset) -> bool:
    """Whether the method takes other columns than the data set holds."""
    return scale_of(params) != "none" or _has_missing(dataset)


def _has_missing(dataset: Dataset) -> bool:
    if isinstance(dataset.X, RowsOnDisk):
        return bool(dataset.missing.any())  # counted once
    return has_missing(dataset.X)


def scale_of(params: Params) -> str:
    """standard, max or none."""
    return params.get("prepare", {}).get("scale", "none")


def preparation(params: Params, dataset: Dataset, rows: np.ndarray) -> Preparation:
    """The step from raw columns to those of the method, fitted to ``rows``."""
    return Preparation(scale_of(params)).fit_pieces(row_pieces(dataset.X[rows]))


def applied(step: Preparation, params: Params, dataset: Dataset, rows: np.ndarray) -> tuple[Params, Dataset]:
    """All rows of the data set after the step, and the parameters with the levels that it observed."""
    # What is cached by the data's hash must not meet the raw columns, nor those scaled by other rows.
    sha256 = fingerprint(dataset.sha256, step.scale, hashlib.sha256(rows.tobytes()).hexdigest())
    X = dataset.X
    ready = X.mapped(step.transform) if isinstance(X, RowsOnDisk) else step.transform(X)
    dataset = replace(dataset, X=ready, sha256=sha256)
    if params["method"].get("q") == OBSERVED:
        params = {**params, "method": {**params["method"], "q": missing_rates(step.missing_, len(rows))}}
    return params, dataset


def column_sizes(X: Any) -> np.ndarray:
    """The root mean square of what is not 0 in each column; columns of nothing but 0 are left out."""
    squares, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for piece in row_pieces(X):
        if isinstance(piece, np.ndarray):
            filled = np.nan_to_num(piece, nan=0.0)
            squares += (filled**2).sum(axis=0)
            counts += np.count_nonzero(filled, axis=0)
            continue
        for start in range(0, piece.nnz, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            own, columns = np.nan_to_num(piece.data[some], nan=0.0) ** 2, piece.indices[some]
            squares += np.bincount(columns, weights=own, minlength=X.shape[1])
            counts += np.bincount(columns, weights=own > 0, minlength=X.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = np.sqrt(squares / counts)
    return sizes[np.isfinite(sizes) & (sizes > 0)]


def notices_about(dataset: Dataset, scale: str | None, corrupted: bool, observed: bool) -> list[str]:
    """What a user must know of how these columns are prepared. ``scale`` is None where nobody chose one."""
    X = dataset.X
    sparse = X.sparse if isinstance(X, RowsOnDisk) else not isinstance(X, np.ndarray)
    said = []
    if scale == "standard" and sparse:
        said.append(
            f"{dataset.name} is sparse and stays sparse: its columns are divided by their standard deviation, "
            "not centred."
        )
    if _has_missing(dataset):
        neutral = "the column's mean" if scale == "standard" and not sparse else "0"
        said.append(_missing_notice(dataset, neutral, observed))
    if scale is None and corrupted and dataset.source == "user":
        sizes = column_sizes(dataset.X)
        if len(sizes) and sizes.max() > FAR_APART * sizes.min():
            said.append(
                f"warning: the columns of {dataset.name} differ in size by a factor of "
                f"{sizes.max() / sizes.min():,.0f}, and the penalty and the corruption treat all of them the same. "
                "Try --scale standard (or max); --scale none silences this warning."
            )
    return said


def _missing_notice(dataset: Dataset, neutral: str, observed: bool) -> str:
    rates = (
        "q is the missing rate of each column"
        if observed
        else "--q observed takes the missing rate of each column as its q"
    )
    return f"{dataset.name}: missing cells count as deleted, which is {neutral}; {rates}."
