"""Fitted models in one .npz file with a JSON header. Nothing is pickled, so a file can hold numbers and names only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mcf_cli.core.corruptions.base import Corruption
from mcf_cli.core.corruptions.per_feature import BY_NAME, PerFeature
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.missing import Conditioning
from mcf_cli.core.prediction import Preparation
from mcf_cli.files import read_arrays, whole_file
from mcf_cli.version import __version__

MODEL_FORMAT = "mcf-model"
MODEL_VERSION = 1
PREPARED = 2  # of files with a preparation: a reader that knows none must not leave it out
_MODELS = {"MCFClassifier": MCFClassifier, "MCFRegressor": MCFRegressor}
_CORRUPTIONS: dict[str, type[Corruption]] = {cls.__name__: cls for cls in BY_NAME.values()} | {
    "PerFeature": PerFeature
}
_FITTED = ("coef_", "intercept_", "classes_", "label_noise_")
_NAMES = "feature_names_in_"
_CONDITIONING = ("mean", "scale", "precision", "loadings")
_PREPARATION = ("centre_", "divisor_", "missing_")
_SCALARS = ("n_features_in_", "n_iter_", "objective_", "converged_", "message_")


class NewerModelError(ValueError):
    """The file holds a model, in a format that only a newer version reads."""


def save_model_file(
    model: Any, path: str | os.PathLike[str], trained_on: dict[str, Any] | None = None
) -> None:
    """Write the model, or a pipeline of a `Preparation` and a model; the file appears whole or not at all.

    A preparation that leaves the columns as they are is left out. `trained_on` says what the model was made of,
    in plain values; `load` gives it back as `trained_on_`.
    """
    step, model = (model[0], model[-1]) if isinstance(model, Pipeline) else (None, model)
    model = getattr(model, "best_estimator_", model)  # what a search has chosen
    names = getattr(model if step is None else step, "feature_names_in_", None)
    if step is not None and step.scale == "none":
        step = None
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": MODEL_FORMAT,
        "version": MODEL_VERSION if step is None else PREPARED,
        "mcf": __version__,
        "model": type(model).__name__,
        "parameters": {name: _plain(value, arrays) for name, value in _parameters(model).items()},
        "fitted": {name: _plain(getattr(model, name), arrays) for name in _SCALARS if hasattr(model, name)},
        "trained_on": trained_on or {},
    }
    if step is not None:
        fitted = {name: _plain(getattr(step, name), arrays) for name in _PREPARATION}
        header["prepare"] = {"scale": step.scale, "missing": step.missing, **fitted}
    if getattr(model, "conditioning_", None) is not None:
        header["conditioning"] = {
            name: _plain(getattr(model.conditioning_, name), arrays) for name in _CONDITIONING
        }
    for name in _FITTED:
        if getattr(model, name, None) is not None:
            arrays[name] = _storable(np.asarray(getattr(model, name)), name)
    if names is not None:
        arrays[_NAMES] = _storable(np.asarray(names), _NAMES)
    with whole_file(Path(path)) as part, open(part, "wb") as file:
        np.savez(file, **{"header": np.array(json.dumps(header)), **arrays})  # type: ignore[arg-type]


def _parameters(model: Any) -> dict[str, Any]:
    """The parameters; a corruption of named columns goes with the numbers that they had in the fit."""
    parameters = model.get_params(deep=False)
    if isinstance(parameters["corruption"], Corruption) and hasattr(model, "corruption_"):
        parameters["corruption"] = model.corruption_
    return parameters


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `MCFClassifier.save`, `MCFRegressor.save` or `mcf train` wrote.

    Parameters
    ----------
    path : the .npz file

    Returns
    -------
    the estimator, fitted; a model of scaled columns comes as a scikit-learn pipeline, which takes raw ones

    Raises
    ------
    ValueError
        when the file is anything else; nothing in it is unpickled

    Examples
    --------
    >>> import tempfile
    >>> from mcf_cli import Blankout, MCFClassifier, load
    >>> model = MCFClassifier(corruption=Blankout(q=0.3)).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.npz")
    ...     again = load(f"{folder}/model.npz")
    >>> again.corruption, bool((again.coef_ == model.coef_).all())
    (Blankout(q=0.3), True)
    """
    try:
        # The header first: what else a newer file holds is not known here.
        header = json.loads(str(read_arrays(path, compressed=False, names=("header",)).get("header", "{}")))
        _refuse_newer(path, header)
        arrays = read_arrays(path, compressed=False, dates=True)
        if header.get("format") != MODEL_FORMAT or header.get("version") not in (MODEL_VERSION, PREPARED):
            raise ValueError(
                f"format {header.get('format')!r} version {header.get('version')!r} is not known here"
            )
        model = _MODELS[header["model"]](**{k: _revived(v, arrays) for k, v in header["parameters"].items()})
        for name, value in header["fitted"].items():
            if name in _SCALARS:
                setattr(model, name, _revived(value, arrays))
        for name in (*_FITTED, _NAMES):
            if name in arrays:
                setattr(model, name, arrays[name] if arrays[name].ndim else arrays[name].item())
        _check_shapes(model)
        if "conditioning" in header:
            model.conditioning_ = _conditioning(header["conditioning"], arrays, model.n_features_in_)
        if "prepare" in header:
            model = _prepared(header["prepare"], arrays, model)
        model.trained_on_ = dict(header.get("trained_on", {}))
    except (OSError, NewerModelError):
        raise
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)} is not a model file of mcf ({str(error)[:200]}); make one with save()"
        ) from error
    return model


def _refuse_newer(path: str | os.PathLike[str], header: dict[str, Any]) -> None:
    version, writer = header.get("version"), header.get("mcf")
    if header.get("format") == MODEL_FORMAT and type(version) is int and version > PREPARED:
        by = f" ({writer[:40]})" if isinstance(writer, str) else ""
        raise NewerModelError(
            f"{os.fspath(path)} was written by a newer version of mcf{by}: its model format is {version}, and "
            f"{__version__} reads up to {PREPARED}. Upgrade mcf, or save the model with the version installed here"
        )


def _prepared(facts: dict[str, Any], arrays: dict[str, np.ndarray], model: Any) -> Pipeline:
    """The model behind its preparation, which is the one that sees the names of the raw columns."""
    step = Preparation(facts["scale"], facts.get("missing", "deleted"))
    step.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        step.feature_names_in_ = model.feature_names_in_
        del model.feature_names_in_
    for name in _PREPARATION:
        value = _revived(facts[name], arrays)
        if value is not None and (value.shape != (model.n_features_in_,) or not np.isfinite(value).all()):
            raise ValueError("its preparation does not fit its weights")
        setattr(step, name, value)
    if step.divisor_ is not None and not step.divisor_.all():
        raise ValueError("its preparation divides by 0")
    return Pipeline([("prepare", step), ("model", model)])


def _conditioning(facts: dict[str, Any], arrays: dict[str, np.ndarray], n_features: int) -> Conditioning:
    """The statistics of the training rows; those that would not be a covariance are refused."""
    mean, scale, precision, loadings = (_revived(facts[name], arrays) for name in _CONDITIONING)
    if (precision is None) == (loadings is None):
        raise ValueError("its statistics of missing features are incomplete")
    matrix = loadings if precision is None else precision
    width = (n_features,)
    if (mean.shape, scale.shape, matrix.shape[:1]) != (width, width, width) or matrix.ndim != 2:
        raise ValueError("its statistics of missing features do not fit its weights")
    if precision is not None and matrix.shape != width * 2:
        raise ValueError("its statistics of missing features do not fit its weights")
    numbers = all(part.dtype.kind == "f" and np.isfinite(part).all() for part in (mean, scale, matrix))
    spread = 1.0 - (matrix**2).sum(axis=1) if precision is None else matrix.diagonal()
    if not numbers or (scale < 0.0).any() or (spread <= 0.0).any():
        raise ValueError("its statistics of missing features are not a covariance")
    return Conditioning(mean, scale, precision, loadings)


def _check_shapes(model: Any) -> None:
    """Refuse weights that no fit leaves: prediction trusts their shapes."""
    coef, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    for values in (coef, intercept):
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise ValueError("its weights are not finite numbers")
    if coef.shape[-1:] != (model.n_features_in_,) or intercept.shape != coef.shape[:-1]:
        raise ValueError("its weights do not fit together")
    names = getattr(model, _NAMES, None)
    if names is not None and np.shape(names) != (model.n_features_in_,):
        raise ValueError("its column names do not fit its weights")
    if not isinstance(model, MCFClassifier):
        if coef.ndim > 2:
            raise ValueError("its weights do not fit together")
        return
    classes = np.asarray(model.classes_)
    if classes.ndim != 1 or coef.ndim != 2 or len(coef) != (1 if len(classes) == 2 else len(classes)):
        raise ValueError("its weights do not fit its classes")


def _storable(value: np.ndarray, name: str) -> np.ndarray:
    if value.dtype.kind == "O":
        if not all(isinstance(item, str) for item in value.ravel()):
            raise ValueError(
                f"cannot save {name}: mixed types; use labels that are all numbers or all strings"
            )
        return value.astype(str)
    return value


def _plain(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A parameter as JSON; arrays go beside it, corruptions become their name and parameters."""
    if isinstance(value, Corruption):
        parameters = value.get_params(deep=False)
        return {
            "corruption": type(value).__name__,
            "parameters": {k: _plain(v, arrays) for k, v in parameters.items()},
        }
    if isinstance(value, np.ndarray) and value.ndim:
        name = f"array{len(arrays)}"
        arrays[name] = _storable(value, name)
        return {"array": name}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, dict):
        return {"dict": [[_plain(k, arrays), _plain(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.item()
    return value


def _revived(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_revived(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "dict" in value:
        return {_revived(k, arrays): _revived(v, arrays) for k, v in value["dict"]}
    if "slice" in value:
        return slice(*value["slice"])
    return _CORRUPTIONS[value["corruption"]](
        **{k: _revived(v, arrays) for k, v in value["parameters"].items()}
    )
