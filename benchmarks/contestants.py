"""What a user would pick instead of marginalising: models that see corrupted copies of the training rows.

Each rival is run for one seed at a time and yields points (amount, seconds, error): the amount is a number of corrupted
copies, or of passes that each see a fresh one. Drawing the corruption is part of the time, testing is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from mcf_cli import MCFClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier

from benchmarks.tasks import Part

TOL, MAX_ITER = (
    1e-4,
    1000,
)  # scikit-learn's default tolerance, and ours set to the same: no gradient entry above it
MOST_ENTRIES = 2e8  # non-zeros of the stacked copies, some 2.4 GB: no more copies are made
DENSE = 0.1  # share of non-zeros from which PyTorch is given dense batches
BATCH = 128


class Settings(NamedTuple):
    """What is fixed before anyone is timed; only PyTorch has a learning rate."""

    corruption: Any
    l2: float
    rate: float | None = None


class Point(NamedTuple):
    amount: int
    seconds: float
    error: float


def marginalised(loss: str, settings: Settings) -> MCFClassifier:
    return MCFClassifier(loss, settings.corruption, settings.l2, tol=TOL, max_iter=MAX_ITER)


# -- scikit-learn; every l2 is on the scale of mean loss + l2 ||w||^2 ----------------------------------------
def logistic_lbfgs(rows: int, l2: float, seed: int = 0) -> Any:
    return LogisticRegression(C=1.0 / (2.0 * rows * l2), tol=TOL, max_iter=MAX_ITER)


def logistic_liblinear(rows: int, l2: float, seed: int) -> Any:
    """liblinear penalises the bias as well; with its column scaled up that hardly counts."""
    C = 1.0 / (2.0 * rows * l2)
    return LogisticRegression(C=C, solver="liblinear", intercept_scaling=10.0, tol=TOL, max_iter=MAX_ITER)


def logistic_sgd(rows: int, l2: float, seed: int) -> Any:
    return SGDClassifier(loss="log_loss", alpha=2.0 * l2, random_state=seed)


def ridge(rows: int, l2: float, seed: int) -> Any:
    return RidgeClassifier(alpha=rows * l2, tol=TOL)


@dataclass(frozen=True)
class OnCopies:
    """A scikit-learn model on 1, 2, 4, ... corrupted copies; the copies of M = 2 are the first two of M = 4.

    A point's time is that of its own number of copies alone, as if the right number had been known.
    """

    name: str
    loss: str
    make: Callable[..., Any]
    unit: str = "copies"
    rates: tuple[float | None, ...] = (None,)
    tried: int = 4  # copies with which settings are judged on the validation part

    def run(self, train: Part, test: Part, settings: Settings, seed: int) -> Iterator[Point]:
        copies = 1
        while True:
            start = perf_counter()
            drawn = [settings.corruption.sample(train.X, generator(seed, number)) for number in range(copies)]
            X, y = sp.vstack(drawn, format="csr"), np.tile(train.y, copies)
            model = fitted(self.make(len(y), settings.l2, seed), X, y)
            yield Point(copies, perf_counter() - start, test.error(model))
            copies *= 2
            if 2 * X.nnz > MOST_ENTRIES:
                return


@dataclass(frozen=True)
class OnFreshCopies:
    """scikit-learn's stochastic gradient descent with a new corrupted copy for every pass."""

    name: str = "SGDClassifier, fresh copy a pass"
    loss: str = "logistic"
    unit: str = "passes"
    rates: tuple[float | None, ...] = (None,)
    tried: int = 10

    def run(self, train: Part, test: Part, settings: Settings, seed: int) -> Iterator[Point]:
        model, classes, seconds = logistic_sgd(len(train.y), settings.l2, seed), np.unique(train.y), 0.0
        for number in count(1):
            start = perf_counter()
            copy = settings.corruption.sample(train.X, generator(seed, number))
            model.partial_fit(copy, train.y, classes)
            seconds += perf_counter() - start
            yield Point(number, seconds, test.error(model))


def generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number])


def fitted(model: Any, X: Any, y: np.ndarray) -> Any:
    """A fit that ends at its limit of iterations is judged by its error like any other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


# -- PyTorch --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TorchDropout:
    """Logistic regression behind input dropout: Adam on mini-batches, float32, weights from zero."""

    name: str = "PyTorch, input dropout, Adam"
    loss: str = "logistic"
    unit: str = "passes"
    rates: tuple[float | None, ...] = (1e-1, 1e-2, 1e-3)
    tried: int = 10

    def run(self, train: Part, test: Part, settings: Settings, seed: int) -> Iterator[Point]:
        import torch

        torch.manual_seed(seed)
        start = perf_counter()
        model = TorchModel(train, settings)
        seconds = perf_counter() - start
        for number in count(1):
            start = perf_counter()
            for rows in torch.randperm(len(train.y)).split(BATCH):
                model.step(rows)
            seconds += perf_counter() - start
            yield Point(number, seconds, test.error(model))


class TorchModel:
    """Weights, optimiser and batches. Sparse rows go through an embedding bag, which never makes them dense."""

    def __init__(self, train: Part, settings: Settings) -> None:
        import torch

        self.q = float(settings.corruption.q)
        self.survivor = float(settings.corruption.survivor(self.q))
        X, classes = train.X.astype(np.float32), int(train.y.max()) + 1
        self.dense = X.nnz > DENSE * X.shape[0] * X.shape[1]
        self.X = torch.from_numpy(X.toarray()) if self.dense else X
        self.y = torch.from_numpy(train.y.astype(np.float32 if classes == 2 else np.int64))
        width = 1 if classes == 2 else classes
        self.weight = torch.zeros(X.shape[1], width, requires_grad=True)
        self.bias = torch.zeros(width, requires_grad=True)
        penalised = {"params": [self.weight], "weight_decay": 2.0 * settings.l2}
        self.optimiser = torch.optim.Adam([penalised, {"params": [self.bias]}], lr=settings.rate)

    def step(self, rows: Any) -> None:
        from torch.nn import functional

        scores, y = self._scores(rows) + self.bias, self.y[rows]
        if scores.shape[1] == 1:
            loss = functional.binary_cross_entropy_with_logits(scores[:, 0], y)
        else:
            loss = functional.cross_entropy(scores, y)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def _scores(self, rows: Any) -> Any:
        import torch

        if self.dense:
            return self._corrupted(self.X[rows]) @ self.weight
        batch = self.X[rows.numpy()]
        return torch.nn.functional.embedding_bag(
            torch.from_numpy(batch.indices.astype(np.int64)),
            self.weight,
            torch.from_numpy(batch.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=self._corrupted(torch.from_numpy(batch.data)),
        )

    def _corrupted(self, values: Any) -> Any:
        """PyTorch's dropout divides the survivors by 1 - q; the biased form takes that back."""
        from torch.nn import functional

        return functional.dropout(values, self.q) * ((1.0 - self.q) * self.survivor)

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        scores = X @ self.weight.detach().numpy() + self.bias.detach().numpy()
        return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


Rival = OnCopies | OnFreshCopies | TorchDropout


def rivals(n_classes: int) -> list[Rival]:
    """Who competes; liblinear has no multinomial form."""
    liblinear = [OnCopies("LogisticRegression, liblinear", "logistic", logistic_liblinear)]
    return [
        OnCopies("LogisticRegression, lbfgs", "logistic", logistic_lbfgs),
        *(liblinear if n_classes == 2 else []),
        OnCopies("SGDClassifier", "logistic", logistic_sgd),
        OnFreshCopies(),
        TorchDropout(),
        OnCopies("RidgeClassifier", "quadratic", ridge),
    ]


def why_not(rival: Rival) -> str | None:
    """The reason for which a rival cannot compete here."""
    if isinstance(rival, TorchDropout) and find_spec("torch") is None:
        return "PyTorch is not installed (the extra `torch`)"
    return None
