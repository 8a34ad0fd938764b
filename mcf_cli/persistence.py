"""Fitted models in one .npz file with a JSON header. Nothing is pickled, so a file can hold numbers and names only."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import numpy as np

from mcf_cli.core.corruptions import BY_NAME, PerFeature
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.families import Corruption
from mcf_cli.plain_npz import read_arrays

FORMAT = "mcf-model"
VERSION = 1
_MODELS = {"MCFClassifier": MCFClassifier, "MCFRegressor": MCFRegressor}
_CORRUPTIONS: dict[str, type[Corruption]] = {cls.__name__: cls for cls in BY_NAME.values()} | {
    "PerFeature": PerFeature
}
_FITTED = ("coef_", "intercept_", "classes_", "feature_names_in_")
_SCALARS = ("n_features_in_", "n_iter_", "objective_", "converged_", "message_")


def save(model: MCFClassifier | MCFRegressor, path: str | os.PathLike[str]) -> None:
    """Write the model; the file appears whole or not at all."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "model": type(model).__name__,
        "parameters": {name: _plain(value, arrays) for name, value in model.get_params(deep=False).items()},
        "fitted": {name: _plain(getattr(model, name), arrays) for name in _SCALARS if hasattr(model, name)},
    }
    for name in _FITTED:
        if hasattr(model, name):
            arrays[name] = _storable(np.asarray(getattr(model, name)), name)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            np.savez(file, **{"header": np.array(json.dumps(header)), **arrays})  # type: ignore[arg-type]
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str]) -> MCFClassifier | MCFRegressor:
    """Read a model that `save` wrote; ValueError when the file is anything else.

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
        arrays = read_arrays(path, compressed=False)
        header = json.loads(str(arrays.pop("header")))
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ValueError(
                f"format {header.get('format')!r} version {header.get('version')!r} is not known here"
            )
        model = _MODELS[header["model"]](**{k: _revived(v, arrays) for k, v in header["parameters"].items()})
        for name, value in header["fitted"].items():
            if name in _SCALARS:
                setattr(model, name, _revived(value, arrays))
        for name in _FITTED:
            if name in arrays:
                setattr(model, name, arrays[name] if arrays[name].ndim else arrays[name].item())
        _check_shapes(model)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)} is not a model file of mcf ({str(error)[:200]}); make one with save()"
        ) from error
    return model


def _check_shapes(model: Any) -> None:
    coef = np.atleast_2d(model.coef_)
    if coef.dtype.kind != "f" or not (np.isfinite(coef).all() and np.isfinite(model.intercept_).all()):
        raise ValueError("its weights are not finite numbers")
    if coef.shape[1] != model.n_features_in_ or np.size(model.intercept_) != len(coef):
        raise ValueError("its weights do not fit together")
    if isinstance(model, MCFClassifier) and len(coef) != (
        1 if len(model.classes_) == 2 else len(model.classes_)
    ):
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
    if "slice" in value:
        return slice(*value["slice"])
    return _CORRUPTIONS[value["corruption"]](
        **{k: _revived(v, arrays) for k, v in value["parameters"].items()}
    )
