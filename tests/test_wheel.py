"""The built wheel in an empty environment without extras, used from an empty folder, as a stranger would."""

import csv
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.wheel  # asks the package registry for what mcf depends on: `make test-wheel`


def call(*command: object, **options: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def mcf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT)
    venv.create(folder / "env", with_pip=True)
    (wheel,) = folder.glob("*.whl")
    call(folder / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    (folder / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"MCF_DATA_HOME": str(folder / "data")}

    def run(*arguments: object) -> str:
        return call(folder / "env" / "bin" / "mcf", *arguments, cwd=folder / "empty", env=environment)

    run.folder = folder / "empty"
    return run


def test_every_item_of_the_paper_runs_and_is_reported(mcf):
    mcf("reproduce", "--profile", "smoke", "--jobs", "2", "--quiet")
    mcf("report", "--out", "results/smoke")
    page = (mcf.folder / "results" / "smoke" / "report.html").read_text()
    assert 'id="fig3"' in page and 'id="fig9"' in page
    assert not (mcf.folder / "results" / "smoke" / "claims.csv").exists(), "built-in data got verdicts"
    (shipped,) = mcf.folder.parent.glob("env/lib/python*/site-packages/mcf_cli/configs/claims.yaml")
    mcf("report", "--out", "results/smoke", "--claims", shipped)
    with (mcf.folder / "results" / "smoke" / "claims.csv").open(newline="") as file:
        verdicts = [row["verdict"] for row in csv.DictReader(file)]
    assert len(verdicts) > 50
    assert "holds" in verdicts


def test_a_model_is_trained_by_a_shipped_config_and_predicts(mcf):
    mcf("train", "--config", "configs/examples/amazon-books.yaml", "--quiet")
    (model,) = mcf.folder.glob("results/scratch/**/model.npz")
    lines = mcf("predict", "--model", model, "--data", "builtin-reviews").splitlines()
    assert lines[0] == "row,prediction"
    assert len(lines) > 100
