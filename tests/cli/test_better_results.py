"""Nothing replaces better results: real data by a stand-in, a complete item by a partial one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPLICE = Path(os.environ.get("MCF_SHARED_DATA") or ROOT.parent / "shared" / "data") / "splice" / "splice.data"
ITEM = """
item: tiny
datasets: [{name: splice, fallback: builtin-splice}]
grid: [{loss: quadratic, corruption: blankout, q: [0.1, 0.5]}]
select: {l2: [0.01]}
evaluation: {train: 60, test: 40}
"""


@pytest.fixture
def mcf(tmp_path):
    """The real command in a folder with one small item; data that it asks for is in ./data where a test puts it."""
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "tiny.yaml").write_text(ITEM)

    def call(*arguments: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MCF_DATA_HOME": str(tmp_path / "data")}
        command = [sys.executable, "-m", "mcf_cli", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return call


@pytest.fixture
def splice(tmp_path):
    if not SPLICE.exists():
        pytest.skip("real data is not beside the checkout (shared/data)")
    (tmp_path / "data" / "splice").mkdir(parents=True)
    link = tmp_path / "data" / "splice" / "splice.data"
    link.symlink_to(SPLICE)
    return link


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_paper_profile_skips_an_item_whose_data_is_missing(mcf, tmp_path):
    (tmp_path / "items" / "bounds.yaml").write_text(
        "item: bounds\nevaluation: {protocol: bounds, margins: [0, 1]}\n"
    )
    result = mcf("reproduce", "--configs", "items")
    assert result.returncode == 1
    assert "skipped: tiny needs splice: run `mcf data get splice`" in result.stderr
    assert (tmp_path / "results" / "bounds" / "rows.csv").exists()
    assert not (tmp_path / "results" / "tiny").exists()


def test_with_nothing_to_run_it_says_what_to_get(mcf, tmp_path):
    result = mcf("reproduce", "tiny", "--configs", "items")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "--allow-builtin" in result.stderr
    assert not (tmp_path / "results").exists()


def test_built_in_rows_never_replace_real_ones(mcf, tmp_path, splice):
    assert mcf("reproduce", "tiny", "--configs", "items").returncode == 0
    real = contents(tmp_path / "results" / "tiny")
    assert b",real," in real["rows.csv"]
    splice.unlink()
    result = mcf("reproduce", "tiny", "--configs", "items", "--allow-builtin")
    assert result.returncode == 0
    assert (
        "results/tiny holds results on real data, and this run used stand-ins (builtin-splice)"
        in result.stderr
    )
    assert contents(tmp_path / "results" / "tiny") == real
    aside = tmp_path / "results" / "set-aside" / "tiny"
    assert ",builtin," in (aside / "rows.csv").read_text()
    assert mcf("report", "--out", "results").returncode == 0
    assert (tmp_path / "results" / "tiny" / "rows.csv").read_bytes() == real["rows.csv"]


def test_a_partial_run_never_replaces_a_complete_one(mcf, tmp_path):
    run = ("reproduce", "tiny", "--configs", "items", "--allow-builtin")
    assert mcf(*run).returncode == 0
    complete = contents(tmp_path / "results" / "tiny")
    # Twelve folds of six rows fail, two succeed: the item is partial now.
    failing = ("--set", "select.by=cv", "--set", "select.l2=[0.01,0.1]", "--set", "select.folds=100")
    result = mcf(*run, *failing)
    assert result.returncode == 1
    assert "results/tiny holds complete results, and these are partial" in result.stderr
    assert contents(tmp_path / "results" / "tiny") == complete
    assert (tmp_path / "results" / "set-aside" / "tiny" / "rows.csv").exists()
    report = mcf("report", "--out", "results", "--json")
    assert report.returncode == 1
    assert [item["folder"] for item in json.loads(report.stdout)["items"]] == ["results/set-aside/tiny"]
    assert contents(tmp_path / "results" / "tiny") == complete


def test_the_report_follows_the_latest_run_and_leaves_the_paper_out_of_it(mcf, tmp_path):
    assert mcf("reproduce", "tiny", "--configs", "items", "--allow-builtin").returncode == 0
    assert mcf("bounds").returncode == 0
    result = mcf("report")
    assert result.returncode == 0
    assert "Open results/scratch/report.html" in result.stdout
    page = (tmp_path / "results" / "scratch" / "report.html").read_text()
    assert "<h1>Results</h1>" in page and "Marginalizing" not in page
    assert not (tmp_path / "results" / "scratch" / "claims.csv").exists()
