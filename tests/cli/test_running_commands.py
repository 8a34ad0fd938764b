"""Every running command works bare on built-in data, says so, and follows the shared options."""

import csv
import json
from pathlib import Path

import pytest
from mcf_cli.experiments.trial import sample_image
from PIL import Image

from tests.experiments.tiny import tiny_plan

ROOT = Path(__file__).parents[2]
SMALL = ["--set", "select.l2=[0.01,0.1]", "--set", "select.by=holdout", "--set", "fit.max_iter=30"]
BARE = {
    "sweep-q": ["--q", "0,0.5", "--loss", "quadratic", "--loss", "logistic", *SMALL],
    "nightmare": [
        "--deletion",
        "0.5",
        "--loss",
        "quadratic",
        "--loss",
        "hinge",
        "--set",
        "evaluation.train=150",
    ],
    "learning-curve": ["--sizes", "50,100", "--repeats", "2", "--loss", "quadratic", *SMALL],
    "explicit": ["--copies", "1,2", "--set", "evaluation.train=60", *SMALL],
    "table": ["--loss", "quadratic", *SMALL],
}
FILES = {
    "rows.csv",
    "table.csv",
    "table.md",
    "figure.png",
    "figure.svg",
    "config.yaml",
    "environment.json",
} | {"errors.npz"}


@pytest.mark.parametrize("command", BARE)
def test_a_bare_command_runs_on_built_in_data_and_says_so_everywhere(command, mcf, tmp_path):
    result = mcf(command, *BARE[command])
    assert result.code == 0, result.err
    assert "built-in data, not the paper's" in result.err
    assert "built-in data" in result.out
    folder = tmp_path / "results" / "scratch" / command
    assert {path.name for path in folder.iterdir()} == FILES
    assert "built-in data" in (folder / "table.md").read_text()
    rows = list(csv.DictReader((folder / "rows.csv").open()))
    assert {row["data_source"] for row in rows} == {"builtin"}
    assert all(row["status"] == "ok" for row in rows)
    with Image.open(folder / "figure.png") as image:
        assert min(image.size) > 300


@pytest.mark.parametrize(
    ("header", "shape"),
    [("row0col0,row0col1,row1col0,row1col1", (2, 2)), ("a,b,c,d", None), ("row0col0,row0col1", None)],
    ids=["pixels", "as many as pixels", "half a picture"],
)
def test_the_sample_under_figure_9_is_a_picture_or_nothing(header, shape, tmp_path):
    row = "1," * (header.count(",") + 1)
    (tmp_path / "rows.csv").write_text(f"{header},label\n" + "".join(f"{row}{k % 2}\n" for k in range(20)))
    plan = tiny_plan(datasets=[str(tmp_path / "rows.csv")], evaluation={"protocol": "nightmare"})
    image = sample_image(plan.parts[0].reference, plan.config.evaluation.model_dump(), plan.config.seed)
    assert (None if image is None else image.shape) == shape


def test_bounds_needs_no_data_and_every_bound_lies_above_the_expectation(mcf, tmp_path):
    assert mcf("bounds").code == 0
    rows = list(csv.DictReader((tmp_path / "results/scratch/bounds/rows.csv").open()))
    exact = {row["margin"]: float(row["value"]) for row in rows if row["metric"] == "expected_loss"}
    bounds = [row for row in rows if row["metric"] == "bound"]
    assert len(bounds) > 400
    assert all(float(row["value"]) >= exact[row["margin"]] - 1e-12 for row in bounds)


def test_json_is_all_that_stdout_holds(mcf):
    result = mcf("sweep-q", "--q", "0.5", "--loss", "quadratic", "--corruption", "blankout", "--json", *SMALL)
    answer = json.loads(result.out)
    assert answer["trials"] == {"expected": 1, "done": 1, "failed": 0}
    data = {"name": "builtin-reviews", "source": "builtin", "notes": [], "understood": ""}
    assert answer["data"][0] == data
    assert {row["metric"] for row in answer["rows"]} == {"test_error", "validation_error", "objective"}


def test_quiet_hides_progress_and_not_results(mcf):
    result = mcf(
        "sweep-q", "--q", "0.5", "--loss", "quadratic", "--corruption", "blankout", "--quiet", *SMALL
    )
    assert (result.code, result.err) == (0, "")
    assert "Test error (%)" in result.out and "Written to" in result.out


def test_dry_run_counts_and_runs_nothing(mcf, tmp_path):
    some = ["sweep-q", "--loss", "quadratic", "--corruption", "blankout", *SMALL]
    assert "4 trials: 0 done, 4 to run" in mcf(*some, "--q", "0:0.6:0.2", "--dry-run").out
    assert not (tmp_path / "results").exists()
    mcf(*some, "--q", "0,0.2,0.4")
    result = mcf(*some, "--q", "0:0.6:0.2", "--dry-run")
    assert "4 trials: 3 done, 1 to run, about" in result.out


def test_own_csv_goes_through_sweep_train_and_predict(mcf, tmp_path):
    data = tmp_path / "mine.csv"
    lines = [f"{k % 7},{k % 3},{(k * 5) % 11},{'yes' if k % 7 > 3 else 'no'}" for k in range(120)]
    data.write_text("a,b,c,label\n" + "\n".join(lines) + "\n")
    assert mcf("sweep-q", "--dataset", data, "--q", "0,0.3", "--loss", "quadratic", *SMALL).code == 0
    trained = mcf("train", "--dataset", data, "--loss", "logistic", "--q", "0.1,0.3", *SMALL)
    assert trained.code == 0, trained.err
    folder = tmp_path / "results/scratch/train-mine-logistic-blankout"
    assert {"model.npz", "metrics.json", "config.yaml"} <= {path.name for path in folder.iterdir()}
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["data_source"] == "user"
    assert metrics["test_error"] < 0.2
    predicted = mcf("predict", "--model", folder / "model.npz", "--data", data, "--probabilities")
    assert predicted.code == 0, predicted.err
    answers = list(csv.DictReader(predicted.out.splitlines()))
    assert {row["prediction"] for row in answers} == {"yes", "no"}
    assert len(answers) == 120
    assert all(
        float(row["probability_no"]) + float(row["probability_yes"]) == pytest.approx(1) for row in answers
    )


def test_the_example_falls_back_to_built_in_data_and_says_so(mcf, tmp_path):
    example = ROOT / "configs" / "examples" / "amazon-books.yaml"
    fast = ["--set", "select.q=[0.5]", "--set", "select.l2=[0.01]", "--set", "fit.max_iter=30"]
    result = mcf("train", "--config", example, *fast)
    assert result.code == 0, result.err
    assert "amazon-books is not on this machine" in result.err
    assert "builtin-reviews (builtin data)" in result.out
    metrics = json.loads((tmp_path / "results/scratch/amazon-books/metrics.json").read_text())
    assert metrics["data_source"] == "builtin"


FILE = """\
item: file
datasets: [{name: builtin-digits, select: {q: [0.7], l2: [1.0]}}]
evaluation: {train: 80, test: 100}
grid:
  - {loss: [quadratic, logistic], corruption: blankout, q: 0.3}
  - {loss: quadratic, corruption: none}
  - {loss: quadratic, corruption: dropout}
select: {l2: [0.1, 10], q: [0.6, 0.8], by: holdout}
"""


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        (["--corruption", "blankout", "--q", "0.5"], {"corruption": "blankout", "q": 0.5, "l2": 1.0}),
        (["--corruption", "blankout", "--q", "0.5", "--l2", "0.01"], {"q": 0.5, "l2": 0.01}),
        (["--corruption", "dropout", "--q", "0.2", "--l2", "0.01"], {"q": 0.2, "l2": 0.01}),
        (["--corruption", "none"], {"corruption": "none", "l2": 1.0}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_train_is_told_beats_its_file(flags, chosen, mcf, tmp_path):
    (tmp_path / "file.yaml").write_text(FILE)
    result = mcf("train", "--config", "file.yaml", "--loss", "quadratic", "--json", *flags)
    assert result.code == 0, result.err
    assert json.loads(result.out)["chosen"].items() >= {"loss": "quadratic", **chosen}.items()


@pytest.mark.parametrize(
    ("entry", "flags", "chosen"),
    [
        ("q: 0.5", ["--corruption", "none"], {"loss": "logistic", "corruption": "none"}),
        ("q: 0.5", ["--corruption", "dropout"], {"loss": "logistic", "corruption": "dropout", "q": 0.5}),
        ("q: 0.5, surrogate: jensen, multiclass: shared", ["--loss", "quadratic"], {"loss": "quadratic"}),
    ],
    ids=["no level", "the same level", "another loss"],
)
def test_a_method_named_to_train_leaves_behind_what_only_the_other_method_has(
    entry, flags, chosen, mcf, tmp_path
):
    data = "item: one\ndatasets: [builtin-digits]\nevaluation: {train: 60, test: 50}\nselect: {l2: [0.1]}\n"
    (tmp_path / "one.yaml").write_text(f"{data}grid: [{{loss: logistic, corruption: blankout, {entry}}}]\n")
    result = mcf("train", "--config", "one.yaml", "--json", *flags)
    assert result.code == 0, result.err
    assert json.loads(result.out)["chosen"].items() >= chosen.items()


PARTS = """\
item: parts
datasets: [builtin-digits]
evaluation: {train: 60, test: 50}
grid:
  - {loss: logistic, corruption: gaussian, sigma: 1, multiclass: shared}
  - {loss: [quadratic, logistic], corruption: [poisson, blankout], multiclass: shared}
  - {loss: quadratic, corruption: multinomial, q: 0.1, only_on: [builtin-splice]}
select: {l2: [0.1], q: [0.7, 0.8]}
"""


def test_a_part_of_a_config_is_stored_so_that_it_can_be_read_back(mcf, tmp_path):
    (tmp_path / "parts.yaml").write_text(PARTS)
    result = mcf("sweep-q", "--config", "parts.yaml", "--loss", "quadratic", "--q", "0.5", "--out", "here")
    assert result.code == 0, result.err
    status = mcf("status", "--out", "here")
    assert (status.code, status.err) == (0, "")
    assert "2 trials: 2 done" in status.out


def test_q_reaches_every_corruption_that_has_one(mcf, tmp_path):
    (tmp_path / "parts.yaml").write_text(PARTS)
    narrow = ["--config", "parts.yaml", "--loss", "quadratic", "--q", "0.5", "--json"]
    rows = json.loads(mcf("sweep-q", *narrow).out)["rows"]
    assert {(row["corruption"], row.get("q")) for row in rows} == {("poisson", None), ("blankout", 0.5)}


@pytest.mark.parametrize("command", ["sweep-q", "train"])
def test_q_is_refused_where_nothing_has_one(command, mcf):
    result = mcf(command, "--corruption", "poisson", "--q", "0.5")
    assert result.code == 2
    assert "--q has no meaning for poisson: it sets the level of blankout, dropout" in result.err


def test_an_error_after_narrowing_shows_the_line_of_the_file(mcf, tmp_path):
    (tmp_path / "parts.yaml").write_text(PARTS)
    result = mcf(
        "sweep-q", "--config", "parts.yaml", "--set", "grid.2.only_on=null", "--corruption", "multinomial"
    )
    assert result.code == 2
    assert "parts.yaml, line 7: grid.2.corruption: multinomial on builtin-digits" in result.err


@pytest.mark.parametrize("command", ["sweep-q", "reproduce"])
def test_a_data_set_that_is_named_keeps_what_its_config_says_of_it(command, mcf, tmp_path):
    (tmp_path / "own.yaml").write_text(FILE)
    answer = json.loads(mcf(command, "--config", "own.yaml", "--dataset", "builtin-digits", "--json").out)
    rows = (answer[0] if command == "reproduce" else answer)["rows"]
    assert {row["l2"] for row in rows} == {1.0}


@pytest.mark.parametrize(
    ("config", "flags", "trials"),
    [
        ("own-data", ["--loss", "logistic", "--corruption", "blankout", "--q", "0.4"], "1 trial"),
        ("own-data", ["--loss", "logistic", "--corruption", "blankout", "--q", "0.2,0.4"], "2 trials"),
        ("amazon-books", ["--loss", "quadratic", "--corruption", "dropout", "--q", "0.2,0.4"], "2 trials"),
    ],
)
def test_train_takes_one_model_from_any_config(config, flags, trials, mcf):
    result = mcf("train", "--config", ROOT / "configs" / "examples" / f"{config}.yaml", *flags, "--dry-run")
    assert result.code == 0, result.err
    assert f"{trials}: 0 done" in result.out


def test_the_trained_model_has_the_error_that_its_trial_reported(mcf, tmp_path):
    mcf("train", "--dataset", "builtin-digits", "--loss", "quadratic", "--q", "0.2,0.4", *SMALL)
    folder = tmp_path / "results/scratch/train-builtin-digits-quadratic-blankout"
    metrics = json.loads((folder / "metrics.json").read_text())
    rows = list(csv.DictReader((folder / "rows.csv").open()))
    reported = next(float(row["value"]) for row in rows if row["metric"] == "test_error")
    assert metrics["test_error"] == reported
