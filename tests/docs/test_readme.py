"""The README shows what the committed run says, and its Python example runs."""

import csv
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "results"
specification = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
readme = importlib.util.module_from_spec(specification)
specification.loader.exec_module(readme)


def test_the_claims_are_those_of_the_committed_run():
    if not (RESULTS / "claims.csv").exists():
        pytest.skip("no full run is committed")
    assert readme.with_claims(README, RESULTS) == README, "run `make report`, or `python docs/readme.py`"
    with open(RESULTS / "claims.csv", newline="") as file:
        claims = [line for line in csv.DictReader(file) if line.get("category", "experiment") == "experiment"]
    verdicts = [line["verdict"] for line in claims]
    assert re.search(
        rf"Of {len(verdicts)} claims( about experiments)?, {verdicts.count('holds')} hold", README
    )


def test_the_times_are_those_of_the_committed_run():
    if not list(RESULTS.glob("*/environment.json")):
        pytest.skip("no full run is committed")
    page = (RESULTS / "README.md").read_text()
    assert readme.with_times(page, RESULTS) == page, "run `make report`, or `python docs/readme.py`"


def test_the_table_of_times_names_what_is_unfinished_and_every_commit(tmp_path):
    for item, done, commit in (("fig1", 6, "abc"), ("fig3", 4, "def")):
        (tmp_path / item).mkdir()
        trials = {"expected": 6, "done": done, "seconds": 90.0}
        content = {"commit": commit, "lock": "1", "platform": "x", "trials": trials}
        (tmp_path / item / "environment.json").write_text(json.dumps(content))
    words = readme.times_block(tmp_path)
    assert (
        "| fig1 | 6 | 1.5 |" in words and "| fig3 | 4 of 6 | 1.5 |" in words and "| in all | | 3 |" in words
    )
    assert "commit abc and def" in words


def test_the_paragraph_counts_every_verdict_and_shows_the_picture_where_there_is_one(tmp_path):
    lines = ["holds,real data", "holds,a substitute", "stronger,real data", "undecided,real data"]
    (tmp_path / "claims.csv").write_text("\n".join(["verdict,data", *lines]) + "\n")
    words = readme.claims_block(tmp_path)
    assert "Of 4 claims, 2 hold, 1 is stronger than stated, 1 is undecided." in words
    assert "1 rests wholly or in part on a substitute" in words and "claims.png" not in words
    counted = [
        "holds,real data,experiment",
        "differs,no data needed,misprint",
        "holds,a simulation,simulation",
    ]
    (tmp_path / "claims.csv").write_text("\n".join(["verdict,data,category", *counted]) + "\n")
    words = readme.claims_block(tmp_path)
    assert "Of 1 claims about experiments, 1 holds.**" in words
    assert "Of 1 simulations, 1 holds. Of 1 possible misprints, 1 differs." in words
    (tmp_path / "claims.png").touch()
    assert "(results/claims.png)" in readme.claims_block(tmp_path)


def test_the_commands_of_the_demo_are_commands(tmp_path):
    """What `make demo` would run, as make expands it; each plans its run."""
    made = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True)
    runs = [shlex.split(line) for line in made.stdout.splitlines() if "--set title" in line]
    assert [run[1] for run in runs] == ["sweep-q", "nightmare", "compare"]
    for _, *arguments in runs:
        command = [sys.executable, "-m", "mcf_cli", *arguments, "--dry-run"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "built-in data" in done.stderr


def test_the_full_run_ends_with_the_paragraph():
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    made = subprocess.run(
        ["make", "-n", "reproduce-all"], cwd=ROOT, env=outside, capture_output=True, text=True, check=True
    )
    assert made.stdout.rstrip().splitlines()[-1].strip().startswith(".venv/bin/python docs/readme.py")


def test_the_image_says_what_it_cannot_do(tmp_path):
    """On a path without any tool."""
    made = subprocess.run(
        [shutil.which("make"), "image"], cwd=ROOT, capture_output=True, text=True, env={"PATH": str(tmp_path)}
    )
    assert made.returncode == 0, made.stderr
    assert "Not linted: hadolint is not installed." in made.stdout
    assert "Not built: docker is not installed." in made.stdout


def test_its_pictures_and_links_are_there():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_python_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert run.stdout == shown
    assert (tmp_path / "digits.npz").exists()
