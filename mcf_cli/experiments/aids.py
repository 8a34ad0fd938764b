"""What a method is given besides labelled training rows, the damage that it is given for, and the loss that it bounds.

| aid | the method knows |
|---|---|
| known-rates, estimated-rates | how often labels are wrong, or what it makes of the labels that it sees |
| unlabelled | the training rows whose labels a learning curve keeps back |
| mean, conditional, reduced | which values are missing at test time |
| target-rates | rows of the test domain without labels, beside the test rows: how often each feature occurs |
| presence | nothing: features that occur count as 1, the plain model beside the next two |
| autoencoder | the same rows of the test domain: features learnt from them and the training rows |
| autoencoder-test | the test rows too, without labels (transductive) |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.autoencoder import MarginalizedAutoencoder
from mcf_cli.core.corruptions.elementwise import Dropout
from mcf_cli.core.corruptions.rates import adaptation_rates
from mcf_cli.core.label_noise import transition_matrix
from mcf_cli.core.missing import (
    FULL_COVARIANCE,
    Conditioning,
    conditional_scores,
    conditioning_of,
    filled,
    of_quadratic_loss,
)
from mcf_cli.core.prediction import expected_loss
from mcf_cli.core.problem import Solution, codes_of
from mcf_cli.datasets.dataset import Dataset, fingerprint
from mcf_cli.datasets.splits import Draw, generator
from mcf_cli.experiments.learners import LearnerMatrix, make_corruption, shared_problem
from mcf_cli.experiments.trial import Params

MARKED = ("mean", "conditional", "reduced")


def aid_of(params: Params) -> str:
    """The aid of a trial's method, "" where it has none."""
    return params["method"].get("aid", "")


# -- labels -------------------------------------------------------------------------------------------------------
def flipped(params: Params, dataset: Dataset, train: np.ndarray, draw: Draw) -> tuple[Dataset, np.ndarray]:
    """The data set with some training labels wrong, and P(seen | true). A higher rate flips the same ones and more."""
    rate, tilt, n_classes = params["flips"], params["evaluation"]["tilt"], len(dataset.class_names)
    T = transition_matrix((rate * (1 - tilt), rate * (1 + tilt)) if n_classes == 2 else rate, n_classes)
    random = generator(draw.seed, draw.dataset, draw.repeat, "wrong labels")
    chance = random.random(len(dataset.y))
    other = (dataset.y + random.integers(1, n_classes, len(dataset.y))) % n_classes
    y = dataset.y.copy()
    y[train] = np.where(chance < 1 - np.diagonal(T)[y], other, y)[train]
    # What is cached by the data's hash must not meet the right labels.
    sha256 = fingerprint(dataset.sha256, "flips", rate, tilt, draw.seed, draw.repeat)
    return replace(dataset, y=y, sha256=sha256), T


# -- the loss that a bound bounds ---------------------------------------------------------------------------------
def expected_losses(
    params: Params, dataset: Dataset, parts: dict[str, np.ndarray], solution: Solution, l2: float
) -> list[dict[str, Any]]:
    """Rows with the mean of E log(1 + e^{-y z}) on each part, exact and without l2; none of a plain model."""
    if params["method"]["corruption"] == "none":
        return []
    model = solution.coef, solution.intercept
    corruption = make_corruption(params["method"], dataset)
    values = {
        part: expected_loss(*model, dataset.X[rows], dataset.y[rows], corruption)
        for part, rows in parts.items()
    }
    return [
        {"metric": f"{part}_expected_loss", "value": value, "l2": l2, "converged": bool(solution.converged)}
        for part, value in values.items()
    ]


# -- another domain -----------------------------------------------------------------------------------------------
def aided(params: Params, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> tuple[Params, Dataset]:
    """The parameters and the data set as the method sees them; both as they are without such an aid."""
    aid = aid_of(params)
    if aid == "presence":
        return params, replace(dataset, X=occurring(dataset.X), sha256=fingerprint(dataset.sha256, aid))
    if aid == "target-rates":
        method = params["method"]
        rates = adaptation_rates(
            dataset.X[train], dataset.X[_others(dataset, train, test)], pseudo_counts=10.0, base=method["q"]
        )
        return {**params, "method": {**method, "q": rates}}, dataset
    if aid.startswith("autoencoder"):
        return params, _stacked(params, dataset, train, test)
    return params, dataset


def _others(dataset: Dataset, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The rows that neither train nor test: of a shift between domains, reviews of the target."""
    others = np.setdiff1d(np.arange(dataset.X.shape[0]), np.concatenate([train, test]))
    if not len(others):
        raise ValueError(
            f"{dataset.name} has no rows besides those that train and test; this aid learns from such rows"
        )
    return others


def occurring(X: Any) -> Any:
    """1 for each feature that occurs."""
    if not sp.issparse(X):
        return (X != 0).astype(float)
    X = sp.csr_matrix(X, copy=True)
    X.data = (X.data != 0).astype(float)
    return X


def _stacked(params: Params, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> Dataset:
    """Which features occur, and an autoencoder's layers beside them; rows that neither train nor test are empty."""
    recipe, X = params["autoencoder"], sp.csr_matrix(occurring(dataset.X))
    learn_from = np.concatenate([train, _others(dataset, train, test)])
    if aid_of(params) == "autoencoder-test":
        learn_from = np.concatenate([learn_from, test])
    model = MarginalizedAutoencoder(
        Dropout(q=recipe["q"]), n_layers=recipe["layers"], n_frequent=recipe["frequent"]
    ).fit(X[np.sort(learn_from)])
    used = np.sort(np.concatenate([train, test]))
    stacked = model.transform(X[used])
    features = np.zeros(
        (X.shape[0], stacked.shape[1])
    )  # half of it is dense, and products of such sparse rows are slow
    features[used] = stacked.toarray()
    sha256 = fingerprint(dataset.sha256, aid_of(params), recipe, len(train), int(train.sum()), len(test))
    return replace(dataset, X=features, sha256=sha256, feature_names=None)


# -- features that are missing at test time -----------------------------------------------------------------------
@dataclass(frozen=True)
class ReducedModel:
    """A quadratic solution that meets rows with marks as the fit to their observed columns would."""

    solution: Solution
    conditioning: Conditioning

    def predict(self, X: LearnerMatrix) -> np.ndarray:
        """Class codes; NaN is missing."""
        scores = conditional_scores(X, self.solution.coef, self.solution.intercept, self.conditioning)
        best, labels = codes_of(scores), self.solution.labels
        return best if labels is None else labels[best]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solution, name)


def reduced(params: Params, dataset: Dataset, rows: np.ndarray, l2: float, solution: Solution) -> Any:
    """The solution as the aid makes it predict: another model for each pattern of missing features, or as it is."""
    if aid_of(params) != "reduced":
        return solution
    method = params["method"]
    problem, n_features = shared_problem(method, dataset, rows).problem, dataset.X.shape[1]
    if n_features > FULL_COVARIANCE:
        raise ValueError(
            f"{dataset.name} has {n_features:,} features: a reduced model takes up to {FULL_COVARIANCE:,}"
        )
    # Of the statistics that stand here before, the loss's own matrix takes the place.
    before = Conditioning(np.zeros(n_features), np.zeros(n_features), precision=np.eye(n_features))
    found = of_quadratic_loss(problem, make_corruption(method, dataset), l2, before)
    assert found is not None
    return ReducedModel(solution, found)


def met_at_test(
    params: Params, dataset: Dataset, rows: np.ndarray, unmarked: Callable[..., Any]
) -> Callable[..., Any]:
    """How the method meets rows that lose features: zeros, or what it makes of marks with statistics of ``rows``."""
    aid = aid_of(params)
    if params["method"]["loss"] == "boosting" or aid == "reduced":
        return marked
    if aid not in MARKED:
        return unmarked
    conditioning = conditioning_of(dataset.X[rows], aid)
    return lambda *damage: filled(marked(*damage), aid, conditioning)


def marked(X: LearnerMatrix, level: float, draw: Draw, purpose: str) -> np.ndarray:
    """Each value NaN with probability ``level``: of a dense table, those that are 0 without a mark."""
    X = X.toarray() if sp.issparse(X) else X
    random = generator(draw.seed, draw.dataset, draw.repeat, purpose)
    return np.where(random.random(X.shape, dtype=np.float32) >= np.float32(level), X, np.nan)
