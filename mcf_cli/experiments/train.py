"""``mcf train`` and ``mcf predict``: one chosen model fitted and saved with its metrics, then used on new rows.

The method is fixed; l2 and a level are chosen on validation rows. Predictions are CSV.
"""

import contextlib
import csv
import io
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from mcf_cli import datasets
from mcf_cli.core.estimators import MCFClassifier, MCFRegressor
from mcf_cli.core.missing import conditioning_of
from mcf_cli.core.model_file import NewerModelError, load, save_model_file
from mcf_cli.core.prediction import without_missing
from mcf_cli.datasets import userfile
from mcf_cli.datasets.dataset import Dataset, Examples, RowsOnDisk, by_pieces, missing_cells, row_pieces
from mcf_cli.datasets.formats.cells import plain_number
from mcf_cli.datasets.splits import train_test
from mcf_cli.errors import McfError
from mcf_cli.experiments.config import Config
from mcf_cli.experiments.evaluate import draw_of, squared_errors
from mcf_cli.experiments.learners import (
    applied,
    forget_problems,
    make_corruption,
    needs_preparation,
    preparation,
)
from mcf_cli.experiments.plan import Plan
from mcf_cli.experiments.run import MODEL, RunOutcome
from mcf_cli.experiments.trial import Trial, data_of
from mcf_cli.files import disk_explained
from mcf_cli.scale.fits import fit_rows
from mcf_cli.scale.largefile import is_large, read_in_chunks, sentence

METRICS = "metrics.json"


def check_one_model(plan: Plan) -> None:
    """``train`` fits one model that can be saved; anything else is refused before any fit."""
    count = len({trial.group for trial in plan.trials}) // plan.config.repeats
    if count != 1:
        raise McfError(
            f"train fits one model and this config asks for {count}: name one with --dataset, --loss, "
            "--corruption and --q, or use `mcf sweep-q`."
        )
    method = plan.trials[0].params["method"]
    if method["loss"] == "hinge" or method["penalty"] == "l1":
        raise McfError(
            "train saves marginalised and plain l2 models; hinge and l1 are baselines of `mcf nightmare`."
        )


def final_model(outcome: RunOutcome) -> tuple[Pipeline, Dataset, dict[str, Any]]:
    """The chosen model fitted to the training rows (with ``final: all`` to all rows), its data and its metrics.

    The errors are always those of a fit to the training rows; with repeats, choice and rows are the first one's.
    """
    error = error_name(outcome.plan.config)
    row = next(row for row in outcome.rows if row["metric"] == f"test_{error}")
    trial = next(trial for trial in outcome.plan.trials if _is(trial, row))
    forget_problems()
    dataset = data_of(trial.data)
    train, test = train_test(dataset, trial.params["evaluation"], draw_of(trial.params))
    rows = {"train": train, "test": test}
    missing = outcome.plan.config.missing
    model = fitted(trial, dataset, train, row["l2"], missing)
    metrics = {
        **{
            f"{name}_{what}": value
            for name in rows
            for what, value in _errors(model, dataset, rows[name]).items()
        },
        **_over_repeats(outcome, f"test_{error}"),
        f"validation_{error}": _value(outcome, f"validation_{error}"),
        "objective": float(model[-1].objective_),
        "chosen": {**trial.params["method"], "l2": row["l2"]},
        "edge": row["edge"],
        "n_iter": int(np.max(model[-1].n_iter_)),
        "converged": bool(model[-1].converged_),
        **_about_data(dataset, rows),
        "scale": model[0].scale,
        "missing_as": missing or "deleted",
        "fitted_to": outcome.plan.config.final or "train",
    }
    if metrics["fitted_to"] == "all":
        model = fitted(trial, dataset, np.arange(len(dataset.y)), row["l2"], missing)
        metrics["converged"] = metrics["converged"] and bool(model[-1].converged_)
    return model, dataset, metrics


def error_name(config: Config) -> str:
    """What metrics call the error: a share of wrong classes, or a mean squared error."""
    return "mse" if config.task == "regression" else "error"


def _about_data(dataset: Dataset, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "data_source": dataset.source,
        "data_sha256": dataset.sha256,
        "understood": dataset.understood,
        "notes": list(dataset.notes),
        "rows": {name: len(some) for name, some in rows.items()},
        "missing": {name: int(missing_cells(dataset.X[some]).sum()) for name, some in rows.items()},
    }


def _over_repeats(outcome: RunOutcome, metric: str) -> dict[str, Any]:
    errors = [row["value"] for row in outcome.rows if row["metric"] == metric]
    if len(errors) == 1:
        return {}
    spread = {
        "mean": float(np.mean(errors)),
        "deviation": float(np.std(errors, ddof=1)),
        "count": len(errors),
    }
    return {f"{metric}_over_repeats": spread}


def fitted(
    trial: Trial, dataset: Dataset, rows: np.ndarray, l2: float, missing: str | None = None
) -> Pipeline:
    """A preparation and a model, both of these rows; together they take the raw columns.

    Their missing cells count as deleted; `missing` is what they are in rows to predict.
    """
    if missing not in (None, "deleted") and isinstance(dataset.X, RowsOnDisk):
        raise McfError(
            f"--missing {missing} needs rows that fit in memory: leave it out, or give fewer rows."
        )
    params, ready = trial.params, dataset
    step = preparation(params, dataset, rows)
    if needs_preparation(params, dataset):
        params, ready = applied(step, params, dataset, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # among the metrics, which the command reads out
        model = fit_rows(make_model(params, dataset, l2), ready.X[rows], _labels(dataset, rows))
    if missing not in (None, "deleted"):
        step.missing, model.missing = "kept", missing
        model.conditioning_ = conditioning_of(step.transform(dataset.X[rows]), missing)
    return Pipeline([("prepare", step), ("model", model)])


def make_model(params: dict[str, Any], dataset: Dataset, l2: float) -> MCFClassifier | MCFRegressor:
    """The estimator that a trial's parameters describe."""
    method, corruption = params["method"], make_corruption(params["method"], dataset)
    if dataset.task == "regression":
        return MCFRegressor(corruption=corruption, l2=l2)
    return MCFClassifier(
        loss=method["loss"],
        corruption=corruption,
        l2=l2,
        surrogate=method.get("surrogate", "jensen"),
        multiclass=method.get("multiclass", "pairwise"),
        **params["fit"],
    )


def save_model(model: Pipeline, dataset: Dataset, metrics: dict[str, Any], folder: Path) -> None:
    """The model beside its rows, with the names of its columns; the file is always whole."""
    if dataset.feature_names is not None:
        model[0].feature_names_in_ = np.array(dataset.feature_names, dtype=object)
    about = {name: metrics[name] for name in ("dataset", "data_sha256", "fitted_to")}
    about |= {"label": dataset.label_name}
    with disk_explained(folder.parent):
        save_model_file(model, folder / MODEL, about)


def _is(trial: Trial, row: dict[str, Any]) -> bool:
    level = trial.chosen_level
    return trial.params["repeat"] == row["repeat"] and (level is None or trial.level == row[level])


def _value(outcome: RunOutcome, metric: str) -> float | None:
    return next((row["value"] for row in outcome.rows if row["metric"] == metric), None)


def _labels(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The names of the rows' classes, or their numbers."""
    y = dataset.y[rows]
    return y if dataset.task == "regression" else np.array(dataset.class_names)[y]


def _errors(model: Pipeline, dataset: Dataset, rows: np.ndarray) -> dict[str, float | None]:
    predicted, labels = by_pieces(model.predict, dataset.X[rows]), _labels(dataset, rows)
    if dataset.task == "regression":
        return squared_errors(predicted, labels)
    return {"error": float(np.mean(predicted != labels))}


def load_model(path: Path) -> Any:
    """A saved model, or an error that says what is wrong with the file."""
    try:
        return load(path)
    except FileNotFoundError:
        raise McfError(f"{path} does not exist: give the model.npz that `mcf train` wrote.") from None
    except NewerModelError as error:
        raise McfError(f"{error}.") from None
    except (OSError, ValueError, KeyError) as error:
        raise McfError(f"{path} is not a model that `mcf train` wrote ({error}).") from None


@contextlib.contextmanager
def opened_rows(
    data: str, model: Any, zero_based: bool | None = None, ignore_extra: bool = False
) -> Iterator[tuple[Any, list[str] | None, list[str]]]:
    """The rows of a file or of a named data set in the model's columns, their labels, and what to tell the user.

    Those of a large file are on disk, in a temporary folder.
    """
    if data in datasets.names() or not userfile.file_format(data) or not is_large([data]):
        yield rows_to_predict(data, model, zero_based, ignore_extra)
        return
    with tempfile.TemporaryDirectory(prefix="mcf-predict-") as folder:
        read = partial(read_in_chunks, Path(folder) / "chunks")
        X, labels, notices = rows_to_predict(data, model, zero_based, ignore_extra, read)
        yield X, labels, [sentence([data]), *notices]


def rows_to_predict(
    data: str,
    model: Any,
    zero_based: bool | None = None,
    ignore_extra: bool = False,
    read: Callable[..., list[Examples]] = userfile.read_examples,
) -> tuple[Any, list[str] | None, list[str]]:
    """What `opened_rows` gives, from whatever reads files."""
    names = getattr(model, "feature_names_in_", None)
    if data in datasets.names():
        dataset = datasets.load(data)
        X = _in_columns(dataset.X, dataset.feature_names, names, model.n_features_in_, data, ignore_extra)
        return X, [dataset.class_names[code] for code in dataset.y], []
    if not Path(data).exists():
        raise McfError(
            f"{data} does not exist: give a {userfile.PACKED_SUFFIXES} file, or the name of a data set."
        )
    examples = read(
        [Path(data)],
        label=getattr(model, "trained_on_", {}).get("label"),
        zero_based=zero_based,
        n_columns=model.n_features_in_,
        features=None if names is None else list(map(str, names)),
        ignore_extra=ignore_extra,
    )[0]
    notices = [_understood(data, examples)]
    if (names is None) != (examples.feature_names is None):
        nameless = data if examples.feature_names is None else "the model"
        notices.append(f"{nameless} names no columns, so columns are matched by their order.")
    if missing := userfile.missing_words(examples.X, examples.feature_names):
        notices.append(f"{data} has {missing[0]}: {_missing_words(model)}.")
    if examples.assumed_one_based:
        notices.append(
            f"{data} holds no column 0: its columns are taken to count from 1. If they count from 0, say --zero-based."
        )
    return examples.X, examples.labels, notices


def _in_columns(
    X: Any, have: Sequence[str] | None, want: Sequence[str] | None, width: int, data: str, ignore_extra: bool
) -> Any:
    """The columns of a data set in the model's order, by name where both name them."""
    if have is None or want is None or list(have) == list(want):
        if X.shape[1] != width:
            raise McfError(f"{data} has {X.shape[1]} features, and the model was trained on {width}.")
        return X
    place = {name: k for k, name in enumerate(have)}
    absent = [str(name) for name in want if name not in place]
    if absent or (len(have) > len(want) and not ignore_extra):
        raise McfError(
            f"{data} does not have the columns of the model: {len(absent):,} of {width:,} are absent"
            f"{f' ({absent[0]!r} is the first)' if absent else ''}, and it has {len(have):,}."
        )
    return X[:, [place[name] for name in want]]


def choose_missing(model: Any, missing: str | None) -> None:
    """Make a loaded model take missing cells in another way: as deleted, or the way that it was trained for."""
    step, inner = _step(model), _inner(model)
    if missing is None or missing == (inner.missing or "deleted"):
        return
    if missing != "deleted":
        raise McfError(f"this model was trained without --missing {missing}: train one with it.")
    inner.missing = "deleted"
    if step is not None:
        step.missing = "deleted"


def _missing_words(model: Any) -> str:
    """What missing cells are to the model."""
    words = {
        "mean": "they are replaced by the column's mean in training",
        "conditional": "they are inferred from the other cells of their row",
    }
    return words.get(_inner(model).missing, f"they count as deleted, which is {_neutral(model)}")


def _inner(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def _neutral(model: Any) -> str:
    """What a deleted value is to the model."""
    return "0" if getattr(_step(model), "centre_", None) is None else "the column's mean in training"


def _step(model: Any) -> Any:
    return model[0] if isinstance(model, Pipeline) else None


def _understood(data: str, examples: Examples) -> str:
    """How the file was read, in one line."""
    labels = examples.label_place if examples.labels else "no labels"
    words = [f"{userfile.shape_words(examples.X)}, {labels}"]
    return f"Data: {data} (your data): {'; '.join([*words, *examples.findings])}."


def write_predictions(write: Callable[[str], Any], model: Any, X: Any, probabilities: bool) -> np.ndarray:
    """Write the predictions as CSV, a piece of the rows at a time; the predictions."""
    found: list[np.ndarray] = []
    for piece in row_pieces(X):
        text, predicted = predictions_csv(model, piece, probabilities, sum(map(len, found)))
        write(text)
        found.append(predicted)
    return np.concatenate(found)


def predictions_csv(model: Any, X: Any, probabilities: bool, first: int = 0) -> tuple[str, np.ndarray]:
    """One line per row: its number, its prediction or predictions and, on request, the probability of each class.

    Names stand above the line of row 0.
    """
    X = X if _step(model) is not None or _inner(model).missing else without_missing(X)
    predicted = _on_matched(model.predict, X)
    targets = {"prediction": predicted}
    if predicted.ndim == 2:  # a regressor with several targets
        targets = {f"prediction_{k}": column for k, column in enumerate(predicted.T)}
    names = ["row", *targets]
    columns: list[Any] = [np.arange(first, first + len(predicted)), *targets.values()]
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise McfError("--probabilities needs a model with the logistic loss.")
        shares = _on_matched(model.predict_proba, X)
        names += [f"probability_{name}" for name in model.classes_]
        columns += [map(repr, map(float, shares[:, k])) for k in range(shares.shape[1])]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if first == 0:
        writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue(), predicted


def _on_matched(predict: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """The rows are in the model's columns already, which scikit-learn cannot see."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return predict(X)


def number_errors(mse: float, r2: float | None) -> str:
    """The errors of a regression in words; there is no R2 where all numbers are the same."""
    return f"mean squared error {mse:.4g}" + ("" if r2 is None else f", R2 {r2:.3f}")


def compared_numbers(predicted: np.ndarray, labels: list[str], data: str) -> str | None:
    """How far predictions are from the labels, where those are numbers, one per row."""
    numbers = [plain_number(label) for label in labels]
    if None in numbers or predicted.ndim != 1:
        return None
    errors: dict[str, Any] = squared_errors(predicted, np.array(numbers, dtype=float))
    return f"{number_errors(errors['mse'], errors['r2'])} against the labels in {data}."


def compared(predicted: np.ndarray, labels: list[str], classes: np.ndarray, data: str) -> str:
    """How many predictions differ from the labels, where the labels are the model's classes."""
    names = {str(name) for name in classes}
    foreign = sorted(set(labels) - names)
    if foreign:
        return (
            f"{data} labels its rows {', '.join(foreign[:5])}, but the model knows {', '.join(sorted(names)[:5])}: "
            "not compared."
        )
    wrong = sum(str(name) != label for name, label in zip(predicted, labels, strict=True))
    return f"{wrong} of {len(labels)} predictions differ from the labels in {data}."
