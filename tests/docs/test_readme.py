"""The README shows what the committed run says, and its Python example runs."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "results"


def test_the_claims_table_is_that_of_the_committed_run():
    if not (RESULTS / "claims.csv").exists():
        pytest.skip("no full run is committed")
    table = (RESULTS / "claims.md").read_text()
    assert table in README, "README.md does not hold results/claims.md: put it there"
    with open(RESULTS / "claims.csv", newline="") as file:
        verdicts = [line["verdict"] for line in csv.DictReader(file)]
    assert table.count("\n") == len(verdicts) + 2
    counted = re.search(r"(\d+) claims: (\d+) hold, (\d+) differ", README)
    assert counted, "README.md does not say how many claims hold"
    found = [len(verdicts), verdicts.count("holds"), verdicts.count("differs")]
    assert [int(number) for number in counted.groups()] == found


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
