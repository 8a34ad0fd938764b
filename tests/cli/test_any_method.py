"""Flags name any method on any command; what a built-in grid holds and the data cannot take is left out and said."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def planned(tmp_path):
    """The real command's dry run on centred data: exit code, trials, what it says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    np.savez(tmp_path / "centred.npz", X=X, y=(X[:, 0] > 0).astype(int))

    def call(*arguments: str) -> tuple[int, int | None, str]:
        command = [
            sys.executable,
            "-m",
            "mcf_cli",
            *arguments,
            "--dataset",
            "centred.npz",
            "--dry-run",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        trials = re.search(r": (\d+) trials?:", done.stdout)
        return done.returncode, int(trials[1]) if trials else None, done.stderr

    return call


@pytest.mark.parametrize(
    ("command", "trials"), [("sweep-q", 30), ("table", 12), ("learning-curve", 0), ("explicit", 18)]
)
def test_what_the_data_cannot_take_is_left_out(planned, command, trials):
    sizes = ("--sizes", "10,20") if command == "learning-curve" else ()
    code, expected, said = planned(command, *sizes)
    assert code == 0
    assert expected == (trials or 2 * 2 * (3 + 9))
    assert "poisson is left out on centred.npz: Poisson corruption needs values of 0 or more" in said


def test_a_corruption_that_was_asked_for_is_refused(planned):
    code, _, said = planned("sweep-q", "--corruption", "poisson")
    assert code == 2
    assert "needs values of 0 or more" in said


@pytest.mark.parametrize(
    ("arguments", "trials"),
    [
        (("sweep-q", "--corruption", "dropout"), 30),
        (("sweep-q", "--corruption", "gaussian", "--loss", "quadratic"), 4),
        (("explicit", "--loss", "logistic", "--corruption", "blankout", "--copies", "1"), 6),
        (("table", "--corruption", "dropout", "--loss", "logistic"), 3),
        (("table", "--loss", "hinge"), 1),
        (("learning-curve", "--corruption", "laplace", "--sizes", "10", "--repeats", "1"), 12),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_any_method_works_by_flag(planned, arguments, trials):
    code, expected, said = planned(*arguments)
    assert (code, expected) == (0, trials), said


def test_an_impossible_pair_and_a_misspelt_name_are_refused_in_a_line(planned):
    for arguments, words in (
        (("sweep-q", "--loss", "hinge", "--corruption", "dropout"), "no marginalised form"),
        (("sweep-q", "--corruption", "dropuot"), "did you mean `dropout`?"),
    ):
        code, _, said = planned(*arguments)
        assert code == 2
        assert words in said and "Traceback" not in said
