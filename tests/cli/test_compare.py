"""``mcf compare``: the choice by validation, paired intervals, the verdict, and the line to paste."""

import csv
import json
import shlex
from dataclasses import asdict

import numpy as np
import pytest
from mcf_cli.cli.experiments import say_failures
from mcf_cli.experiments.config import Config
from mcf_cli.experiments.rows import Evidence
from mcf_cli.reporting.advice import Contender, _sentence, beside_words, training_line
from sklearn.datasets import load_breast_cancer

from tests.cli.process import done, mcf_in

FAST = ["--corruption", "blankout", "--q", "0.3,0.7", "--l2", "0.0001,0.01", "--quiet"]
GROUPS = ["--corruption", "group_dropout", "--column-groups", "10"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A comparison on built-in reviews, in a process of its own, and its folder."""
    folder = tmp_path_factory.mktemp("reviews")
    found = json.loads(done(mcf_in(folder, "compare", *FAST, "--json")).stdout)
    return folder, found


@pytest.fixture
def tumours(tmp_path):
    """A file whose label stands first."""
    found = load_breast_cancer()
    with (tmp_path / "tumours.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", *(name.replace(" ", "_") for name in found.feature_names)])
        for row, label in zip(found.data, found.target, strict=True):
            writer.writerow([found.target_names[label], *map(float, row)])
    return tmp_path


def train(mcf, command):
    """The metrics of a line that was advised."""
    words = shlex.split(command)
    assert words[:2] == ["mcf", "train"]
    result = mcf(*words[1:], "--json", "--quiet")
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_validation_chooses_and_paired_test_errors_decide(reviews):
    folder, found = reviews
    (advice,) = found["advice"]
    validation = [each["validation_error"] for each in advice["candidates"]]
    assert advice["chosen"] == int(np.argmin(validation))
    plain, chosen = advice["candidates"][advice["plain"]], advice["candidates"][advice["chosen"]]
    assert plain["method"]["corruption"] == "none" and chosen["method"]["corruption"] == "blankout"

    lines = found["rows"]
    wrong = Evidence.read(folder / "results/scratch/compare-builtin-reviews-logistic").by_row()
    by_corruption = {lines[number]["corruption"]: marks for number, (_, marks) in wrong.items()}
    apart = by_corruption["blankout"].astype(float) - by_corruption["none"]
    half = 1.959964 * apart.std() / len(apart) ** 0.5
    np.testing.assert_allclose(chosen["difference"], apart.mean(), atol=1e-12)
    np.testing.assert_allclose(
        chosen["difference_interval"], [apart.mean() - half, apart.mean() + half], atol=1e-6
    )
    assert chosen["differing"] == np.count_nonzero(apart)
    assert advice["verdict"] == "better" and apart.mean() + half < 0
    assert advice["sentence"].startswith("Clearly better: blankout")


def test_the_line_to_paste_trains_the_advised_model(reviews, mcf):
    advice = reviews[1]["advice"][0]
    metrics, chosen = train(mcf, advice["command"]), advice["candidates"][advice["chosen"]]
    assert metrics["chosen"]["q"] == chosen["method"]["q"] and metrics["chosen"]["l2"] == chosen["l2"]
    assert metrics["test_error"] == chosen["test_error"]


def test_the_table_fits_80_columns_and_says_that_the_data_is_built_in(mcf, tmp_path):
    result = mcf("compare", *FAST)
    assert result.code == 0
    lines = result.out.splitlines()
    assert "Compared on Reviews (built-in data)" in lines
    table = [line for line in lines if line.startswith((" plain", " blankout"))]
    assert len(table) == 2 and max(map(len, table)) <= 80
    assert "±" not in result.out  # it has both ends of intervals
    assert "built-in" not in result.err  # --quiet
    advice = (tmp_path / "results/scratch/compare-builtin-reviews-logistic/advice.md").read_text()
    command = next(line for line in lines if line.strip().startswith("mcf train"))
    assert command in advice.splitlines()
    assert (tmp_path / "results/scratch/compare-builtin-reviews-logistic/figure.png").exists()
    assert mcf("report", "--out", "results/scratch").code == 0
    page = (tmp_path / "results/scratch/report.html").read_text()
    assert all(words in page for words in (command.strip(), "from plain (95%)", "95% interval"))
    assert command in (tmp_path / "results/scratch/report.md").read_text().splitlines()


def test_own_file_with_deletion_is_judged_at_both_levels(tumours, mcf):
    given = ["tumours.csv", "--label", "kind", "--scale", "standard", "--seed", "7", "--deletion", "0.3"]
    result = mcf("compare", *given, "--l2", "0.001,0.01", "--q", "0.1,0.3", "--json", "--quiet")
    assert result.code == 0, result.err
    assert "poisson is left out on tumours.csv" in result.err
    whole, damaged = json.loads(result.out)["advice"]
    assert (whole["deletion"], damaged["deletion"]) == (0.0, 0.3)
    assert damaged["sentence"].startswith("With 30% of the features deleted: ")
    families = [each["method"]["corruption"] for each in damaged["candidates"]]
    assert families == ["none", "blankout", "dropout", "gaussian", "laplace", "uniform"]
    place = whole["chosen"] if whole["verdict"] == "better" else whole["plain"]
    assert train(mcf, whole["command"])["test_error"] == whole["candidates"][place]["test_error"]


def test_two_comparisons_do_not_replace_each_other(tumours, mcf):
    given = [
        "tumours.csv",
        "--label",
        "kind",
        "--scale",
        "max",
        "--corruption",
        "blankout",
        "--l2",
        "0.01,0.1",
    ]
    for _ in range(2):  # the second finds the first done
        again = mcf("compare", *given, "--q", "0.1", "--loss", "quadratic")
    assert "2 done" in again.err + again.out
    mcf("compare", *given, "--q", "0.3", "--loss", "quadratic")
    grouped = [*given, "--corruption", "group_dropout", "--column-groups", "mean_*; *_error; worst_*"]
    result = mcf("compare", *grouped, "--q", "0.3", "--loss", "exponential", "--json", "--quiet")
    assert result.code == 0, result.err
    folders = sorted(path.name for path in (tumours / "results/scratch").glob("compare*"))
    assert folders == [f"compare-tumours-{end}" for end in ("exponential", "quadratic", "quadratic-2")]
    candidates = json.loads(result.out)["advice"][0]["candidates"]
    groups = next(each["method"] for each in candidates if each["method"]["corruption"] == "group_dropout")
    assert groups["column_groups"] == "mean_*; *_error; worst_*"


def test_groups_are_refused_where_nothing_heeds_them(tumours, mcf):
    result = mcf("sweep-q", "--dataset", "tumours.csv", "--column-groups", "10", "--dry-run")
    assert result.code == 2 and "runs neither" in result.err
    result = mcf("reproduce", "fig4", "--profile", "smoke", "--column-groups", "10", "--dry-run")
    assert result.code == 2 and "runs neither" in result.err


def test_noise_is_not_called_an_improvement(mcf, tmp_path):
    random = np.random.default_rng(0)
    with (tmp_path / "noise.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*"abcde", "label"])
        for row in random.poisson(2, size=(120, 5)).tolist():
            writer.writerow([*row, random.choice(["yes", "no"])])
    result = mcf("compare", "noise.csv", "--l2", "0.01,0.1", "--q", "0.3,0.6", "--json", "--quiet")
    (advice,) = json.loads(result.out)["advice"]
    assert advice["verdict"] in ("unclear", "plain")
    assert "rain the plain model" in advice["sentence"] and "--corruption none" in advice["command"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["builtin-reviews", "--dataset", "builtin-digits"], "name the data once"),
        (["--l2", "0.1"], "give at least two"),
        (["nowhere.csv"], "cannot read nowhere.csv"),
        (["--config", "no_plain.yaml"], "compare needs the plain model"),
        (["--task", "regression"], "this command compares classifiers"),
        (["three.csv"], "three.csv has 3 rows, too few to compare"),
        (["--deletion", "0.5", *GROUPS], "columns are lost together, and --deletion deletes each on its own"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_any_fit(mcf, tmp_path, arguments, words):
    (tmp_path / "no_plain.yaml").write_text(
        "item: x\ndatasets: [builtin-reviews]\ngrid: [{loss: logistic, corruption: poisson}]\n"
    )
    (tmp_path / "three.csv").write_text("a,label\n1,x\n2,y\n3,x\n")
    result = mcf("compare", *arguments)
    assert result.code == 2 and words in result.err and len(result.err.splitlines()) <= 2
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "method",
    [
        {"corruption": "gaussian", "sigma": 0.3},
        {"corruption": "blankout", "q": 0.5, "surrogate": "variational"},
        {"corruption": "poisson", "clip": 4.0},
        {"corruption": "uniform", "a": 0.5},
        {"corruption": "group_dropout", "q": 0.5, "column_groups": "10"},
    ],
    ids=lambda method: method["corruption"],
)
def test_a_line_keeps_what_no_option_of_train_says(mcf, method):
    given = {
        "item": "x",
        "datasets": ["builtin-reviews"],
        "grid": [{"loss": "logistic"}],
        "evaluation": {"train_fraction": 0.5, "split": "random"},
    }
    whole = {"loss": "logistic", "penalty": "l2", **method}
    candidate = Contender(whole, 0.01, 0.2, 0.2, (0.1, 0.3), 0.0, (-0.1, 0.1), 9)
    command = training_line(
        Config.model_validate(given), {"name": "builtin-reviews", "options": {}}, candidate
    )
    metrics = train(mcf, command)
    assert metrics["chosen"].items() >= {**whole, "l2": 0.01}.items()
    assert metrics["rows"] == {"train": 600, "test": 600}


def test_train_shows_the_plain_model_that_compare_found(reviews, mcf):
    advice = reviews[1]["advice"][0]
    plain, chosen = (advice["candidates"][advice[name]] for name in ("plain", "chosen"))
    given = ["train", "--q", "0.3,0.7", "--l2", "0.0001,0.01", "--quiet"]
    result = mcf(*given, "--json")
    assert result.code == 0, result.err
    beside = json.loads(result.out)["plain"]
    for name in ("l2", "validation_error", "test_error"):
        assert beside[name] == plain[name]
    for name in ("difference", "difference_interval"):
        np.testing.assert_allclose(beside[name], chosen[name], atol=1e-12)
    assert beside["verdict"] == advice["verdict"]
    (line,) = [line for line in mcf(*given).out.splitlines() if line.startswith("plain model")]
    assert f"test error {plain['test_error']:.2%}" in line and line.endswith("clearly better")


def test_the_plain_model_stands_beside_no_plain_model_and_no_regression(tumours, mcf):
    quick = ["--l2", "0.01", "--quiet", "--json", "--dataset", "tumours.csv"]
    plain = mcf("train", *quick, "--label", "kind", "--corruption", "none")
    (tumours / "numbers.csv").write_text(
        "a,b,target\n" + "".join(f"{k},{k % 7},{k / 9}\n" for k in range(60))
    )
    quick[-1] = "numbers.csv"
    regression = mcf(
        "train", *quick, "--task", "regression", "--corruption", "gaussian", "--set", "select.sigma=0.1"
    )
    for result in (plain, regression):
        assert result.code == 0, result.err
        assert "plain" not in json.loads(result.out)


def test_no_difference_is_not_a_negative_one():
    even = Contender({"corruption": "blankout", "q": 0.5}, 0.1, 0.1, 0.2, (0.1, 0.3), 0.0, (-0.0, 0.0), 0)
    assert "0.0 points fewer (95% interval 0.0 to 0.0" in _sentence("unclear", even, even, 100)
    assert "-0.0" not in _sentence("unclear", even, even, 100)
    assert "this one makes 0.00 points" in beside_words({**asdict(even), "verdict": "unclear"})


def test_failures_for_one_reason_take_one_line(capsys):
    say_failures({"plain": "no rows", "blankout": "no rows", "poisson": "negative values"})
    lines = ["failed: plain and 1 more: no rows", "failed: poisson: negative values"]
    assert capsys.readouterr().err.splitlines() == lines
