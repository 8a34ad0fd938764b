"""Predictions on a user's own files: columns by name, missing cells as deleted ones, the training scale applied."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from mcf_cli import MCFClassifier, load
from sklearn.datasets import load_breast_cancer

from tests.cli.process import done, mcf_in, refused

MODEL = "results/scratch/train-tumours-logistic-dropout/model.npz"
LEFT_OUT = 400  # the rows from here on are new to the model


def write_csv(path, X, names, labels=None):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *([] if labels is None else ["class"])])
        for k, row in enumerate(X):
            cells = ["" if isinstance(value, float) and np.isnan(value) else value for value in row.tolist()]
            writer.writerow([*cells, *([] if labels is None else [labels[k]])])


@pytest.fixture(scope="module")
def tumours():
    found = load_breast_cancer()
    names = [name.replace(" ", "_") for name in found.feature_names]
    return found.data, found.target_names[found.target], names


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tumours):
    folder, (X, y, names) = tmp_path_factory.mktemp("trained"), tumours
    write_csv(folder / "tumours.csv", X[:LEFT_OUT], names, y[:LEFT_OUT])
    train = ["train", "--dataset", "tumours.csv", "--corruption", "dropout", "--q", "0.3", "--l2", "0.001"]
    done(mcf_in(folder, *train, "--scale", "standard", "--final", "all"))
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    (tmp_path / MODEL).parent.mkdir(parents=True)
    shutil.copy(trained / MODEL, tmp_path / MODEL)
    return tmp_path


@pytest.fixture
def predict(folder, mcf):
    return lambda data, *options: mcf("predict", "--model", MODEL, "--data", data, *options)


def answers(text):
    return [row["prediction"] for row in csv.DictReader(text.splitlines())]


def test_columns_are_matched_by_name_in_any_order(folder, predict, tumours):
    X, y, names = tumours
    X, y = X[LEFT_OUT:], y[LEFT_OUT:]
    order = np.random.default_rng(0).permutation(30)
    write_csv(folder / "new.csv", X, names, y)
    write_csv(folder / "permuted.csv", X[:, order], [names[k] for k in order], y)
    expected = load(folder / MODEL)[-1].predict(
        (X - (step := load(folder / MODEL)[0]).centre_) / step.divisor_
    )
    permuted = done(mcf_in(folder, "predict", "--model", MODEL, "--data", "permuted.csv"))
    assert answers(permuted.stdout) == answers(predict("new.csv").out) == expected.tolist()
    assert "predictions differ from the labels in permuted.csv" in permuted.stderr
    assert np.mean(expected != y) < 0.06


def test_an_extra_column_is_refused_by_name_or_left_out(folder, predict, tumours):
    X, _, names = tumours
    rows = X[LEFT_OUT : LEFT_OUT + 20]
    write_csv(folder / "new.csv", rows, names)
    write_csv(
        folder / "extra.csv",
        np.column_stack([rows[:, :1], rows[:, 3] * 2, rows[:, 1:]]),
        [names[0], "hospital", *names[1:]],
    )
    assert "hospital" in refused(mcf_in(folder, "predict", "--model", MODEL, "--data", "extra.csv"))
    ignored = predict("extra.csv", "--ignore-extra")
    assert (ignored.code, answers(ignored.out)) == (0, answers(predict("new.csv").out))


def test_a_missing_column_is_refused_by_name(folder, predict, tumours):
    X, y, names = tumours
    write_csv(folder / "less.csv", X[:20, :-1], names[:-1], y[:20])
    result = predict("less.csv")  # as wide as the model, and the label must not become a feature
    assert result.code == 2
    assert names[-1] in result.err


def test_files_without_names_are_taken_by_width_and_it_is_said(folder, predict, tumours):
    X, y, names = tumours
    rows, labels = X[LEFT_OUT : LEFT_OUT + 20], y[LEFT_OUT : LEFT_OUT + 20]
    write_csv(folder / "new.csv", rows, names)
    np.savez(folder / "new.npz", X=rows, y=labels)
    lines = (" ".join(f"{k}:{value}" for k, value in enumerate(row, 1)) for row in rows)
    (folder / "new.svmlight").write_text("".join(f"1 {line}\n" for line in lines))
    for name in ("new.npz", "new.svmlight"):
        result = predict(name)
        assert answers(result.out) == answers(predict("new.csv").out)
        assert f"{name} names no columns, so columns are matched by their order" in result.err
    np.savez(folder / "narrow.npz", X=rows[:, :29])
    assert predict("narrow.npz").code == 2


def test_missing_cells_count_as_deleted_which_is_said_with_their_number(folder, tumours):
    X, _, names = tumours
    rows = X[LEFT_OUT : LEFT_OUT + 20].copy()
    rows[:, 4] = np.nan
    rows[3, 7] = np.nan
    write_csv(folder / "holes.csv", rows, names)
    result = done(mcf_in(folder, "predict", "--model", MODEL, "--data", "holes.csv"))
    step, model = load(folder / MODEL)
    scaled = np.nan_to_num((rows - step.centre_) / step.divisor_, nan=0.0)
    assert answers(result.stdout) == model.predict(scaled).tolist()
    assert "21 missing cells" in result.stderr
    assert "they count as deleted, which is the column's mean in training" in result.stderr


def test_missing_cells_can_be_inferred_from_the_others_of_their_row(folder, tumours):
    X, y, names = tumours
    rows = X[LEFT_OUT:].copy()
    rows[:, :15] = np.nan
    write_csv(folder / "half.csv", rows, names)
    write_csv(folder / "all.csv", X[:LEFT_OUT], names, y[:LEFT_OUT])
    options = ["--dataset", "all.csv", "--corruption", "none", "--l2", "0.01", "--scale", "standard"]
    done(mcf_in(folder, "train", *options, "--missing", "conditional", "--out", "inferred"))
    path = next((folder / "inferred").rglob("model.npz"))
    predict = ["predict", "--model", path, "--data", "half.csv"]
    result = done(mcf_in(folder, *predict, "--probabilities"))
    assert "inferred from the other cells of their row" in result.stderr
    step, model = load(path)
    np.testing.assert_array_equal(np.isnan(step.transform(rows)), np.isnan(rows))
    whole = (X - step.centre_) / step.divisor_
    filled = np.where(np.arange(30) < 15, 0.0, whole[LEFT_OUT:])
    probabilities = [float(line.split(",")[2]) for line in result.stdout.splitlines()[1:]]
    np.testing.assert_allclose(probabilities, model.predict_proba(step.transform(rows))[:, 0], atol=1e-12)
    deleted = done(mcf_in(folder, *predict, "--missing", "deleted"))
    assert answers(deleted.stdout) == model.predict(filled).tolist()
    assert "they count as deleted" in deleted.stderr
    refused = mcf_in(folder, *predict, "--missing", "mean")
    assert refused.returncode == 2 and "trained without --missing mean" in refused.stderr


def test_a_model_without_names_matches_by_width_and_says_so(folder, mcf, tumours):
    """Models of version 1 that `mcf train` wrote hold no names."""
    X, y, names = tumours
    MCFClassifier(corruption=None, l2=1.0).fit(X[:LEFT_OUT], y[:LEFT_OUT]).save(folder / "old.npz")
    write_csv(folder / "new.csv", X[LEFT_OUT:], names, y[LEFT_OUT:])
    result = mcf("predict", "--model", "old.npz", "--data", "new.csv")
    assert result.code == 0, result.err
    assert answers(result.out) == load(folder / "old.npz").predict(X[LEFT_OUT:]).tolist()
    assert "the model names no columns, so columns are matched by their order" in result.err


def test_a_named_data_set_has_its_columns_matched_too(folder, mcf):
    assert mcf("train", "--dataset", "builtin-reviews", "--corruption", "none", "--l2", "0.01").code == 0
    model = folder / "results/scratch/train-builtin-reviews-logistic-none/model.npz"
    assert mcf("predict", "--model", model, "--data", "builtin-reviews").code == 0
    result = mcf("predict", "--model", model, "--data", "builtin-topics")
    assert result.code == 2
    assert "600 of 900 are absent ('good0.0' is the first)" in result.err


@pytest.fixture
def with_holes(folder, tumours):
    X, y, names = tumours
    X = X.copy()
    holes = np.random.default_rng(0).random(X.shape) < np.linspace(0, 0.5, 30)
    X[holes] = np.nan
    write_csv(folder / "holes.csv", X, names, y)
    return folder, X


def test_training_data_with_holes_is_taken_as_deleted_and_its_rates_can_set_q(with_holes, mcf):
    folder, X = with_holes
    train = ["train", "--dataset", "holes.csv", "--loss", "logistic", "--corruption", "dropout"]
    train += ["--l2", "0.001", "--scale", "standard", "--final", "all"]
    fixed = done(mcf_in(folder, *train, "--q", "0.3"))
    assert "missing cells count as deleted, which is the column's mean" in fixed.stderr
    observed = done(mcf_in(folder, *train, "--q", "observed"))
    assert "q is the missing rate of each column" in observed.stderr
    model = load(folder / "results/scratch/train-holes-logistic-dropout-2/model.npz")
    np.testing.assert_allclose(model[-1].corruption.q, np.isnan(X).mean(axis=0), atol=1e-12)
    metrics = json.loads(
        Path(folder / "results/scratch/train-holes-logistic-dropout-2/metrics.json").read_text()
    )
    assert sum(metrics["missing"].values()) == np.isnan(X).sum()
    assert metrics["chosen"]["q"] == "observed"
    assert metrics["test_error"] < 0.12


def test_q_observed_goes_through_a_sweep_and_its_table(with_holes, mcf):
    sweep = [
        "sweep-q",
        "--dataset",
        "holes.csv",
        "--loss",
        "quadratic",
        "--corruption",
        "blankout",
        "--scale",
        "max",
    ]
    result = mcf(*sweep, "--q", "observed", "--set", "select.l2=[0.01]")
    assert result.code == 0, result.err
    assert "observed q" in result.out


def test_q_observed_needs_something_to_observe(folder, mcf, tumours):
    X, y, names = tumours
    write_csv(folder / "whole.csv", X, names, y)
    result = mcf("train", "--dataset", "whole.csv", "--q", "observed", "--scale", "max")
    assert result.code == 2
    assert "whole.csv has no missing values" in result.err
    result = mcf(
        "train", "--dataset", "whole.csv", "--corruption", "bitswap", "--q", "observed", "--scale", "max"
    )
    assert result.code == 2
