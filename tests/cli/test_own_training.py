"""Training on a user's own file: the split, the scale, what is missing and where the model goes."""

import csv
import json

import numpy as np
import pytest
import yaml
from mcf_cli import load
from sklearn.datasets import load_breast_cancer

from tests.cli.process import done, mcf_in, refused

QUICK = ["--q", "0.3", "--l2", "0.001"]
DROPOUT = ["--loss", "logistic", "--corruption", "dropout", *QUICK]


def write_csv(path, X, y, names):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "class"])
        for row, label in zip(X, y, strict=True):
            writer.writerow([*("" if np.isnan(value) else float(value) for value in row), label])


@pytest.fixture(scope="module")
def tumours():
    """Measurements of tumours: 30 columns whose sizes lie between 0.004 and 4,000."""
    found = load_breast_cancer()
    return (
        found.data,
        found.target_names[found.target],
        [name.replace(" ", "_") for name in found.feature_names],
    )


@pytest.fixture
def folder(tmp_path, tumours):
    write_csv(tmp_path / "tumours.csv", *tumours)
    return tmp_path


def errors_in(folder, item="sweep-q", metric="test_error"):
    with (folder / item / "rows.csv").open() as file:
        return [float(row["value"]) for row in csv.DictReader(file) if row["metric"] == metric]


def metrics_of(folder, item="train-tumours-logistic-dropout"):
    return json.loads((folder / "results/scratch" / item / "metrics.json").read_text())


def model_of(folder, item="train-tumours-logistic-dropout"):
    return load(folder / "results/scratch" / item / "model.npz")


def test_repeats_seed_and_fraction_draw_the_test_rows_of_an_own_file(folder, mcf):
    sweep = [
        "sweep-q",
        "--dataset",
        "tumours.csv",
        "--scale",
        "standard",
        "--q",
        "0.3",
        "--loss",
        "quadratic",
    ]
    sweep += ["--corruption", "blankout", "--set", "select.l2=[0.001]", "--quiet"]
    done(mcf_in(folder, *sweep, "--set", "repeats=5", "--out", "a"))
    assert mcf(*sweep, "--seed", "7", "--out", "b").code == 0
    assert mcf(*sweep, "--set", "evaluation.train_fraction=0.5", "--out", "c").code == 0
    repeated, seeded, halved = (errors_in(folder / name) for name in "abc")
    assert len(repeated) == 5
    assert len(set(repeated)) > 1
    assert len({repeated[0], *seeded, *halved}) == 3


def test_data_with_its_own_test_rows_says_what_does_not_move_them(folder, mcf):
    result = mcf("train", "--dataset", "builtin-digits", *QUICK, "--seed", "7", "--dry-run")
    assert (
        "builtin-digits comes with its own test rows (split seeded), which do not depend on seed"
        in result.err
    )


def test_train_reports_repeats_and_fits_the_final_model_to_all_rows(folder, mcf, tumours):
    train = ["train", "--dataset", "tumours.csv", "--scale", "standard", *DROPOUT, "--set", "repeats=3"]
    said = done(mcf_in(folder, *train, "--final", "all")).stdout
    metrics = metrics_of(folder)
    assert metrics["rows"] == {"train": 427, "test": 142}
    assert metrics["test_error_over_repeats"]["count"] == 3
    assert metrics["test_error_over_repeats"]["deviation"] > 0
    assert "over 3 repeats" in said
    assert "142 held out; model.npz is fitted to all of them" in said
    assert mcf(*train, "--set", "evaluation.train_fraction=0.9").code == 0
    means = tumours[0].mean(axis=0)
    np.testing.assert_allclose(model_of(folder)[0].centre_, means, rtol=1e-12)
    other = model_of(folder, "train-tumours-logistic-dropout-2")[0].centre_
    assert not np.allclose(other, means, rtol=1e-6)


def test_scale_helps_under_dropout_and_raw_columns_are_warned_about(folder, mcf):
    train = ["train", "--dataset", "tumours.csv", *DROPOUT]
    raw = done(mcf_in(folder, *train)).stderr
    scaled = done(mcf_in(folder, *train, "--scale", "standard")).stderr
    meant = mcf(*train, "--scale", "none", "--dry-run").err
    assert "columns of tumours.csv differ in size by a factor of" in raw
    assert "--scale standard" in raw
    assert "differ in size" not in scaled + meant
    first, second = metrics_of(folder), metrics_of(folder, "train-tumours-logistic-dropout-2")
    assert (first["scale"], second["scale"]) == ("none", "standard")
    assert second["test_error"] < first["test_error"]


def test_the_scale_is_learnt_from_training_rows_alone(folder, mcf, tumours):
    X, y, names = tumours
    write_csv(folder / "train.csv", X[:400], y[:400], names)
    write_csv(folder / "test.csv", np.full((100, 30), 1e6), y[400:500], names)
    data = {"name": "train.csv", "options": {"test": "test.csv"}}
    grid = [{"loss": "logistic", "corruption": "dropout", "q": 0.3}]
    config = {
        "item": "two",
        "datasets": [data],
        "grid": grid,
        "select": {"l2": 0.001},
        "prepare": {"scale": "max"},
    }
    (folder / "two.yaml").write_text(yaml.safe_dump(config))
    assert mcf("train", "--config", "two.yaml").code == 0
    np.testing.assert_array_equal(model_of(folder, "two")[0].divisor_, X[:400].max(axis=0))


def test_the_scale_is_learnt_anew_in_every_fold(folder, mcf, tumours):
    """Where an example far away is tested, the fit is as if it were not there."""
    X, y, names = tumours
    grid = [{"loss": "quadratic", "corruption": "dropout", "q": 0.3}]
    config = {"item": "cv", "datasets": ["moved.csv"], "grid": grid, "select": {"l2": 0.001}}
    config |= {"evaluation": {"protocol": "cv", "folds": 4}, "prepare": {"scale": "max"}}
    (folder / "cv.yaml").write_text(yaml.safe_dump(config))
    objectives = []
    for out, far in (("near", 0.0), ("far", 1e9)):
        (folder / out).mkdir()
        write_csv(folder / out / "moved.csv", np.vstack([X[:119], X[119] + far]), y[:120], names)
        assert mcf("sweep-q", "--config", "cv.yaml", "--dataset", f"{out}/moved.csv", "--out", out).code == 0
        objectives.append(errors_in(folder / out, "cv", "objective"))
    assert sum(near == far for near, far in zip(*objectives, strict=True)) == 1


def test_sparse_columns_are_divided_and_not_centred(folder, mcf, tumours):
    X, y, _ = tumours
    entries = (" ".join(f"{k + 1}:{value}" for k, value in enumerate(row) if value > 0.1) for row in X)
    lines = [f"{int(label == 'benign')} {row}\n" for row, label in zip(entries, y, strict=True)]
    (folder / "tumours.svmlight").write_text("".join(lines))
    result = mcf("train", "--dataset", "tumours.svmlight", *DROPOUT, "--scale", "standard")
    assert "sparse and stays sparse" in result.err
    assert model_of(folder)[0].centre_ is None
    assert (model_of(folder)[0].divisor_ > 0).all()


@pytest.mark.parametrize(
    ("data", "corruption"), [("builtin-reviews", "poisson"), ("builtin-splice", "multinomial")]
)
def test_a_corruption_that_standard_scaling_makes_impossible_is_refused(data, corruption, mcf):
    result = mcf("train", "--dataset", data, "--corruption", corruption, "--scale", "standard")
    assert result.code == 2
    assert "use scale max or none" in result.err


def test_another_config_never_replaces_a_model(folder, mcf):
    train = ["train", "--dataset", "tumours.csv", "--scale", "max", "--loss", "quadratic"]
    for options in (["--corruption", "none"], ["--corruption", "dropout", "--q", "0.1"]):
        done(mcf_in(folder, *train, *options, "--l2", "0.01"))
    again = mcf(*train, "--corruption", "none", "--l2", "0.01")
    assert "Written to results/scratch/train-tumours-quadratic-none:" in again.out
    other = mcf(*train, "--corruption", "none", "--l2", "0.1")
    assert "Written to results/scratch/train-tumours-quadratic-none-2:" in other.out
    models = sorted(path.parent.name for path in (folder / "results/scratch").glob("*/model.npz"))
    assert models == [f"train-tumours-quadratic-{end}" for end in ("dropout", "none", "none-2")]
    assert model_of(folder, "train-tumours-quadratic-none")[-1].l2 == 0.01


def test_a_named_item_is_replaced_with_force_alone(folder, mcf):
    train = [
        "train",
        "--dataset",
        "tumours.csv",
        "--corruption",
        "none",
        "--scale",
        "max",
        "--set",
        "item=mine",
    ]
    assert mcf(*train, "--l2", "0.01").code == 0
    said = refused(mcf_in(folder, *train, "--l2", "0.1"))
    assert "results/scratch/mine/model.npz was made by another config" in said
    assert model_of(folder, "mine")[-1].l2 == 0.01
    assert mcf(*train, "--l2", "0.1", "--force").code == 0
    assert model_of(folder, "mine")[-1].l2 == 0.1
