"""The comparison with explicit corruption, small and on built-in data: what it reports, not how long it took."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOLERANCE = 0.02
LOSSES = {"logistic", "quadratic"}
RIVALS = {
    "LogisticRegression, lbfgs",
    "LogisticRegression, liblinear",
    "SGDClassifier",
    "SGDClassifier, fresh copy a pass",
    "PyTorch, input dropout, Adam",
    "RidgeClassifier",
}


def run(*options, **more):
    command = [sys.executable, "-m", "benchmarks.rivals", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **more)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What was printed and written for two tasks of reviews, which share a stand-in, and for deleted pixels."""
    out = tmp_path_factory.mktemp("rivals") / "rivals.json"
    tasks = ("amazon-books", "amazon-kitchen", "mnist")
    small = ("--builtin", "--rows", "200", "--budget", "0.5", "--seeds", "2", "--tolerance", str(TOLERANCE))
    said = run(*tasks, *small, "--out", str(out), check=True).stdout
    return said, json.loads(out.read_text())


def ran(task):
    return {name: rival for name, rival in task["rivals"].items() if "skipped" not in rival}


def test_each_task_says_which_data_it_used_and_a_shared_stand_in_is_run_once(outcome):
    said, report = outcome
    assert [task["task"] for task in report["tasks"]] == ["amazon-books", "mnist"]
    assert "builtin-reviews" in report["tasks"][0]["data"]
    assert "builtin-digits" in report["tasks"][1]["data"]
    assert "stand-in builtin-reviews" in said
    assert "Threads: 1 for everyone" in said


def test_everyone_competes_or_says_why_not(outcome):
    for task in outcome[1]["tasks"]:
        binary = task["task"] == "amazon-books"
        assert set(task["rivals"]) == (RIVALS if binary else RIVALS - {"LogisticRegression, liblinear"})
        skipped = set(task["rivals"]) - set(ran(task))
        assert skipped == (set() if find_spec("torch") else {"PyTorch, input dropout, Adam"})


def test_rivals_have_the_q_and_l2_of_the_model_with_their_loss(outcome):
    for task in outcome[1]["tasks"]:
        for name, rival in ran(task).items():
            mcf = task["mcf"]["quadratic" if name == "RidgeClassifier" else "logistic"]
            assert (rival["q"], rival["l2"]) == (mcf["q"], mcf["l2"])


def test_amounts_grow_until_the_lower_error_is_reached_or_time_is_up(outcome):
    for task in outcome[1]["tasks"]:
        goal = min(mcf["error"] for mcf in task["mcf"].values()) + TOLERANCE + 1e-9
        for rival in ran(task).values():
            amounts = [point["amount"] for point in rival["curve"]]
            passes = rival["unit"] == "passes"
            assert amounts == [n + 1 if passes else 2**n for n in range(len(amounts))]
            assert all(point["error"] > goal for point in rival["curve"][:-1])
            assert (rival["curve"][-1]["error"] <= goal) == (rival["stopped"] == "reached")


def test_a_ratio_is_that_of_the_first_point_that_is_good_enough_else_of_the_last(outcome):
    for task in outcome[1]["tasks"]:
        for rival in ran(task).values():
            assert set(rival["against"]) == LOSSES
            for loss, duel in rival["against"].items():
                mcf = task["mcf"][loss]
                good = [p for p in rival["curve"] if p["error"] <= mcf["error"] + TOLERANCE + 1e-9]
                point = good[0] if good else rival["curve"][-1]
                assert duel["reached"] == bool(good)
                assert duel["amount"] == point["amount"]
                assert duel["ratio"] == pytest.approx(point["seconds"] / mcf["seconds"])


def test_the_claim_is_judged_by_the_cheapest_rival(outcome):
    said, report = outcome
    for task in report["tasks"]:
        for loss, claim in task["claims"].items():
            duels = [rival["against"][loss] for rival in ran(task).values()]
            assert claim["ratio"] == min(duel["ratio"] for duel in duels)
            refuted = any(duel["reached"] and duel["ratio"] < report["claimed_ratio"] for duel in duels)
            assert (claim["claim"] == "fails") == refuted
            assert (claim["claim"] == "holds") == (claim["ratio"] >= report["claimed_ratio"])
        assert set(task["absent"]) == set(task["rivals"]) - set(ran(task))
    assert said.count("at least 20 x") == 2 * len(report["tasks"])
    assert ("judged without PyTorch" in said) == any(task["absent"] for task in report["tasks"])


def test_an_unknown_task_is_refused_with_the_names_there_are():
    refused = run("amazon-boks")
    assert refused.returncode == 2
    assert "amazon-boks" in refused.stderr
    assert "amazon-books" in refused.stderr
