"""The one list of losses that the core's tests run through, each with its reference; and cases of corruptions."""

from dataclasses import dataclass

import numpy as np
import pytest
from mcf_cli.core.problem import Problem

from tests.core import reference as ref
from tests.core.cases import BY_NAME, CASES


@dataclass(frozen=True)
class Loss:
    """A loss of the core by its options, and its reference."""

    name: str
    options: dict

    def __str__(self) -> str:
        return self.name

    def problem(self, X, y, classes, **more) -> Problem:
        return Problem(X, y, n_classes=classes, **self.options, **more)

    def value(self, laws, y, coef, intercept, sample_weight=None) -> float:
        """The reference objective without l2."""
        loss, surrogate = self.options["loss"], self.options.get("surrogate", "jensen")
        arguments = (laws, y, coef, intercept)
        if loss == "quadratic":
            targets = ref.one_vs_rest(y, max(2, len(coef)))
            values = ref.quadratic(laws, targets, coef, intercept)
        elif loss == "exponential":
            values = ref.exponential(*arguments)
        elif surrogate == "exact":
            values = ref.expected_logistic(*arguments)
        elif surrogate == "gaussian":
            values = ref.normal_score_logistic(*arguments)
        elif surrogate == "quadratic":
            values = ref.quadratic_approximation(*arguments)
        elif surrogate == "jensen":
            values = ref.jensen(*arguments, self.options.get("multiclass", "pairwise"))
        elif self.options.get("shared_lambda"):
            return ref.variational_shared_lambda(*arguments, self.options["multiclass"], sample_weight)
        else:
            values = ref.variational(*arguments, self.options["multiclass"])
        return float(np.average(values, weights=sample_weight))


def logistic(surrogate: str, multiclass: str, shared_lambda: bool = False) -> Loss:
    name = f"{surrogate}-{multiclass}" + ("-one-lambda" if shared_lambda else "")
    options = {"surrogate": surrogate, "multiclass": multiclass, "shared_lambda": shared_lambda}
    return Loss(name, {"loss": "logistic", **options})


LOSSES = [
    Loss("quadratic", {"loss": "quadratic"}),
    Loss("exponential", {"loss": "exponential"}),
    logistic("jensen", "pairwise"),
    logistic("jensen", "shared"),
    logistic("variational", "pairwise"),
    logistic("variational", "shared"),
    logistic("variational", "pairwise", shared_lambda=True),
    logistic("variational", "shared", shared_lambda=True),
    logistic("quadratic", "pairwise"),
    logistic("gaussian", "pairwise"),
    logistic("exact", "pairwise"),
]
TWO_CLASSES_ONLY = ("gaussian", "exact")
# With two classes there is one weight vector, and `pairwise` and `shared` are the same.
EVERY_LOSS = pytest.mark.parametrize(
    ("loss", "classes"),
    [
        pytest.param(loss, classes, id=f"{loss}-{classes}")
        for loss in LOSSES
        for classes in (2, 3)
        if (classes == 3 or loss.options.get("multiclass") != "shared")
        and (classes == 2 or loss.options.get("surrogate") not in TWO_CLASSES_ONLY)
    ],
)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
BINARY_AND_THREE = pytest.mark.parametrize("classes", [2, 3])
# One case of each kind of code path: sparse tables, base of zeros, linear in x, blocks, mixes.
SOME_CASES = pytest.mark.parametrize(
    "case",
    [BY_NAME[n] for n in ("none", "blankout", "gaussian", "poisson-clip", "bitswap", "mixed-sequence")],
    ids=str,
)
