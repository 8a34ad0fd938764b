"""The corruptions: one class each, by name in `BY_NAME`."""

from mcf_cli.core.corruptions.base import Corruption
from mcf_cli.core.corruptions.bounded import BitSwap, Thinning, Uniform
from mcf_cli.core.corruptions.elementwise import (
    Blankout,
    Dropout,
    Gaussian,
    Identity,
    Laplace,
    Poisson,
)
from mcf_cli.core.corruptions.groups import GroupBlankout, GroupDropout
from mcf_cli.core.corruptions.multinomial import Multinomial
from mcf_cli.core.corruptions.per_feature import BY_NAME, PerFeature, resolve

__all__ = [
    "BY_NAME",
    "BitSwap",
    "Blankout",
    "Corruption",
    "Dropout",
    "Gaussian",
    "GroupBlankout",
    "GroupDropout",
    "Identity",
    "Laplace",
    "Multinomial",
    "PerFeature",
    "Poisson",
    "Thinning",
    "Uniform",
    "resolve",
]
