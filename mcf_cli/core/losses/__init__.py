"""The losses: quadratic, exponential and logistic, each marginalised over the corruption.

Every logistic variant is on the scale of log(1 + e^{-y w.x}).
"""

from __future__ import annotations

from mcf_cli.core.losses.base import Loss
from mcf_cli.core.losses.expected import Exact, GaussianScore
from mcf_cli.core.losses.margin import Exponential, PairwiseJensen, SharedJensen
from mcf_cli.core.losses.quadratic import Quadratic, QuadraticApproximation
from mcf_cli.core.losses.variational import Variational

LOSSES = ("quadratic", "exponential", "logistic")
TWO_CLASS_SURROGATES = ("gaussian", "exact")
SURROGATES = ("jensen", "variational", "quadratic", *TWO_CLASS_SURROGATES)
MULTICLASS = ("pairwise", "shared")


def make_loss(
    loss: str,
    n_classes: int,
    surrogate: str,
    multiclass: str,
    shared_lambda: bool,
) -> Loss:
    """The loss by its names; ValueError lists the names there are."""
    for name, value, known in (
        ("loss", loss, LOSSES),
        ("surrogate", surrogate, SURROGATES),
        ("multiclass", multiclass, MULTICLASS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not known; give one of {', '.join(known)}")
    if loss == "quadratic":
        return Quadratic(n_classes)
    if loss == "exponential":
        return Exponential(n_classes)
    if surrogate == "variational":
        return Variational(n_classes, multiclass, shared_lambda)
    if surrogate == "quadratic":
        return QuadraticApproximation(n_classes)
    if surrogate in TWO_CLASS_SURROGATES:
        return Exact(n_classes) if surrogate == "exact" else GaussianScore(n_classes)
    return SharedJensen(n_classes) if multiclass == "shared" and n_classes > 2 else PairwiseJensen(n_classes)
