"""``mcf train``: one method, l2 and level chosen on validation rows, fitted and saved with its metrics."""

from typing import Any

import numpy as np

from mcf_cli.core.estimators import MCFClassifier
from mcf_cli.errors import McfError
from mcf_cli.experiments.files import disk_explained
from mcf_cli.experiments.methods import make_corruption
from mcf_cli.experiments.plan import Plan, load_data
from mcf_cli.experiments.protocols import draw_of
from mcf_cli.experiments.run import Outcome
from mcf_cli.experiments.splits import train_test
from mcf_cli.experiments.trials import Trial

MODEL = "model.npz"
METRICS = "metrics.json"


def check_one_model(plan: Plan) -> None:
    """``train`` fits one model that can be saved; anything else is refused before any fit."""
    groups = {trial.group for trial in plan.trials}
    if len(groups) != 1:
        raise McfError(
            f"train fits one model and this config asks for {len(groups)}: name one with --dataset, --loss, "
            "--corruption and --q, or use `mcf sweep-q`."
        )
    method = plan.trials[0].params["method"]
    if method["loss"] == "hinge" or method["penalty"] == "l1":
        raise McfError(
            "train saves marginalised and plain l2 models; hinge and l1 are baselines of `mcf nightmare`."
        )


def final_model(outcome: Outcome) -> tuple[Any, dict[str, Any]]:
    """Fit the chosen model on the training rows; its errors and all that was chosen."""
    row = next(row for row in outcome.rows if row["metric"] == "test_error")
    trial = next(trial for trial in outcome.plan.trials if _is(trial, row))
    dataset = load_data(trial.data["name"], tuple(sorted(trial.data["options"].items())))
    train, test = train_test(dataset, trial.params["evaluation"], draw_of(trial.params))
    labels = np.array(dataset.class_names)[dataset.y]
    model = make_classifier(trial, dataset.blocks, row["l2"]).fit(dataset.X[train], labels[train])
    metrics = {
        "train_error": _error(model, dataset.X[train], labels[train]),
        "test_error": _error(model, dataset.X[test], labels[test]),
        "validation_error": _value(outcome, "validation_error"),
        "objective": float(model.objective_),
        "chosen": {**trial.params["method"], "l2": row["l2"]},
        "edge": row["edge"],
        "n_iter": int(np.max(model.n_iter_)),
        "converged": bool(model.converged_),
        "dataset": dataset.name,
        "data_source": dataset.source,
        "data_sha256": dataset.sha256,
        "notes": list(dataset.notes),
        "rows": {"train": len(train), "test": len(test)},
    }
    return model, metrics


def make_classifier(trial: Trial, blocks: int | None, l2: float) -> MCFClassifier:
    """The estimator that a trial's parameters describe."""
    method = trial.params["method"]
    return MCFClassifier(
        loss=method["loss"],
        corruption=make_corruption(method, blocks),
        l2=l2,
        surrogate=method.get("surrogate", "jensen"),
        multiclass=method.get("multiclass", "pairwise"),
        **trial.params["fit"],
    )


def save_model(model: Any, outcome: Outcome) -> None:
    """The model beside its rows; the file is always whole."""
    with disk_explained(outcome.folder.parent):
        model.save(outcome.folder / MODEL)


def _is(trial: Trial, row: dict[str, Any]) -> bool:
    level = trial.chosen_level
    return level is None or trial.level == row[level]


def _value(outcome: Outcome, metric: str) -> float | None:
    return next((row["value"] for row in outcome.rows if row["metric"] == metric), None)


def _error(model: Any, X: Any, labels: np.ndarray) -> float:
    return float(np.mean(model.predict(X) != labels))
