"""`mcf predict` compares with labels only where they are the model's own, and says how it counted columns."""

import csv

import numpy as np
import pytest
from mcf_cli import MCFClassifier, MCFRegressor
from mcf_cli.experiments.train import compared


def test_labels_of_another_kind_are_not_compared():
    said = compared(np.array(["positive"]), ["1"], np.array(["negative", "positive"]), "reviews.svmlight")
    assert "not compared" in said
    assert "labels its rows 1" in said


def test_labels_of_the_same_kind_are():
    said = compared(np.array([3, 7]), ["3", "3"], np.array([3, 7]), "rows.csv")
    assert said == "1 of 2 predictions differ from the labels in rows.csv."


def test_a_regressor_predicts_numbers_and_compares_them(mcf, tmp_path):
    MCFRegressor(corruption=None).fit([[0.0], [1.0], [3.0]], [0.0, 0.5, 1.5]).save(tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text("a,target\n2,1.0\n5,2.4\n")
    result = mcf("predict", "--model", "model.npz", "--data", "rows.csv")
    assert result.code == 0
    assert result.err.splitlines() == [
        "Data: rows.csv (your data): 2 rows, 1 feature, label column `target`.",
        "the model names no columns, so columns are matched by their order.",
        "mean squared error 0.005, R2 0.990 against the labels in rows.csv.",
    ]
    answers = [float(row["prediction"]) for row in csv.DictReader(result.out.splitlines())]
    assert answers == pytest.approx([1.0, 2.5])


def test_several_targets_are_several_columns(mcf, tmp_path):
    MCFRegressor(corruption=None).fit([[0.0], [1.0]], [[0.0, 1.0], [2.0, 0.0]]).save(tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text("a,target\n2,1.0\n5,2.4\n")
    answers = list(
        csv.DictReader(mcf("predict", "--model", "model.npz", "--data", "rows.csv").out.splitlines())
    )
    assert [float(row["prediction_0"]) for row in answers] == pytest.approx([4.0, 10.0])
    assert [float(row["prediction_1"]) for row in answers] == pytest.approx([-1.0, -4.0])


@pytest.fixture
def third_column(tmp_path):
    """A model of four columns whose answer is its third."""
    X = np.eye(4)
    model = MCFClassifier(corruption=None, l2=0.01).fit(X, np.where(X[:, 2] == 1, 1, 0))
    model.save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


@pytest.mark.parametrize(
    ("rows", "options", "answers", "asks"),
    [
        ("0 0:1\n1 2:1\n", [], "0 1", False),
        ("0 4:1\n1 3:1\n", [], "0 1", False),  # four columns cannot count from 0 to 4
        ("0 2:1\n1 3:1\n", [], "0 1", True),
        ("0 1:1\n1 2:1\n", ["--zero-based"], "0 1", False),
        ("0 2:1\n1 3:1\n", ["--one-based"], "0 1", False),
    ],
    ids=["column 0", "last column", "either", "said: from 0", "said: from 1"],
)
def test_columns_that_may_count_from_0_or_1_are_pointed_out(
    rows, options, answers, asks, third_column, mcf, tmp_path
):
    (tmp_path / "rows.svmlight").write_text(rows)
    result = mcf("predict", "--model", third_column, "--data", tmp_path / "rows.svmlight", *options)
    assert result.code == 0, result.err
    assert " ".join(line.split(",")[1] for line in result.out.splitlines()[1:]) == answers
    assert ("say --zero-based" in result.err) is asks
