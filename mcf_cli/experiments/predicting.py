"""``mcf predict``: a saved model on new rows, as CSV."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from mcf_cli import datasets, load
from mcf_cli.datasets import userfile
from mcf_cli.errors import McfError


def load_model(path: Path) -> Any:
    """A saved model, or an error that says what is wrong with the file."""
    try:
        return load(path)
    except FileNotFoundError:
        raise McfError(f"{path} does not exist: give the model.npz that `mcf train` wrote.") from None
    except (OSError, ValueError, KeyError) as error:
        raise McfError(f"{path} is not a model that `mcf train` wrote ({error}).") from None


def read_rows(
    data: str, n_features: int, zero_based: bool | None = None
) -> tuple[Any, list[str] | None, list[str]]:
    """The rows of a file or of a named data set, their labels where it has them, and what to tell the user."""
    if data in datasets.names():
        dataset = datasets.load(data)
        if dataset.X.shape[1] != n_features:
            raise McfError(
                f"{data} has {dataset.X.shape[1]} features and the model was trained on {n_features}."
            )
        return dataset.X, [dataset.class_names[code] for code in dataset.y], []
    if not Path(data).exists():
        raise McfError(
            f"{data} does not exist: give a .svmlight, .csv or .npz file, or the name of a data set."
        )
    examples = userfile.read_examples([Path(data)], zero_based=zero_based, n_columns=n_features)[0]
    notices = []
    if examples.assumed_one_based:
        notices.append(
            f"{data} holds no column 0: its columns are taken to count from 1. If they do not, say --zero-based."
        )
    return examples.X, examples.labels, notices


def predictions_csv(model: Any, X: Any, probabilities: bool) -> tuple[str, np.ndarray]:
    """One line a row: its number, its prediction or predictions and, on request, the probability of each class."""
    predicted = model.predict(X)
    targets = {"prediction": predicted}
    if predicted.ndim == 2:  # a regressor with several targets
        targets = {f"prediction_{k}": column for k, column in enumerate(predicted.T)}
    names = ["row", *targets]
    columns = [np.arange(len(predicted)), *targets.values()]
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise McfError("--probabilities needs a model with the logistic loss.")
        shares = model.predict_proba(X)
        names += [f"probability_{name}" for name in model.classes_]
        columns += [map(repr, map(float, shares[:, k])) for k in range(shares.shape[1])]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue(), predicted


def compared(predicted: np.ndarray, labels: list[str], classes: np.ndarray, data: str) -> str:
    """How many predictions differ from the labels, where the labels are the model's classes."""
    names = {str(name) for name in classes}
    foreign = sorted(set(labels) - names)
    if foreign:
        return (
            f"{data} labels its rows {', '.join(foreign[:5])}, the model knows {', '.join(sorted(names)[:5])}: "
            "not compared."
        )
    wrong = sum(str(name) != label for name, label in zip(predicted, labels, strict=True))
    return f"{wrong} of {len(labels)} predictions differ from the labels in {data}."
