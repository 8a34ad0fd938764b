"""Marginalised corrupted features: linear models trained on the expected loss under feature corruption.

The public names are imported on first use, so that ``mcf --help`` does not pay for scikit-learn.
"""

import importlib

from mcf_cli.version import __version__

_PUBLIC = {
    "MCFClassifier": "mcf_cli.core.estimators",
    "MCFRegressor": "mcf_cli.core.estimators",
    "MCFClassifierCV": "mcf_cli.core.estimators_cv",
    "MCFRegressorCV": "mcf_cli.core.estimators_cv",
    "MarginalizedAutoencoder": "mcf_cli.core.autoencoder",
    "Chunks": "mcf_cli.scale.pieces",
    "fit_chunks": "mcf_cli.scale.fits",
    "fit_dask": "mcf_cli.scale.fits",
    "load": "mcf_cli.core.model_file",
    "Blankout": "mcf_cli.core.corruptions",
    "Dropout": "mcf_cli.core.corruptions",
    "Gaussian": "mcf_cli.core.corruptions",
    "Laplace": "mcf_cli.core.corruptions",
    "Poisson": "mcf_cli.core.corruptions",
    "BitSwap": "mcf_cli.core.corruptions",
    "Multinomial": "mcf_cli.core.corruptions",
    "GroupDropout": "mcf_cli.core.corruptions",
    "GroupBlankout": "mcf_cli.core.corruptions",
    "Thinning": "mcf_cli.core.corruptions",
    "Uniform": "mcf_cli.core.corruptions",
    "PerFeature": "mcf_cli.core.corruptions",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
