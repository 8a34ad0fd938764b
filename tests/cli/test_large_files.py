"""Files larger than a share of memory go through chunks by themselves, to the same models and predictions."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mcf_cli import load
from sklearn.datasets import dump_svmlight_file

ROWS, COLUMNS = 150, 12
SMALL_CHUNKS = (
    "import mcf_cli.scale.largefile as large; assert large.ENTRIES_A_CHUNK; large.ENTRIES_A_CHUNK = 300; "
)
CALL = "from mcf_cli.cli.main import run_cli; run_cli({arguments!r})"
FIT = ("--set", "fit.tol=1e-7", "--set", "select.by=holdout", "--set", "select.l2=[0.01, 0.1]", "--json")


def mcf(folder: Path, *arguments: object, above: str = "0", before: str = SMALL_CHUNKS):
    """A real process, in which files of more than `above` bytes are cut every 300 values."""
    code = before + CALL.format(arguments=[str(word) for word in arguments])
    environment = os.environ | {"MCF_CHUNKS_ABOVE": above, "MCF_DATA_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, ROWS)
    rates = random.gamma(0.5, 1.0, (3, COLUMNS))
    return random.poisson(rates[y]).astype(float), y + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    X, y = table()
    dump_svmlight_file(X, y, str(folder / "rows.svmlight"), zero_based=False)
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """The metrics of a model trained in chunks and in memory, and what was said."""
    found = {}
    for above in ("0", "1GB"):
        train = ("train", "--dataset", "rows.svmlight", "--q", "0.3,0.6", "--out", f"train-{above}")
        run = mcf(folder, *train, *FIT, above=above)
        assert run.returncode == 0, run.stderr
        found[above] = json.loads(run.stdout), run.stderr
    return found


def test_training_in_chunks_ends_where_training_in_memory_does(folder, trained):
    """Same choice of l2 and q, objective to 1e-5, same errors and predictions."""
    (chunked, said), (whole, quiet) = trained["0"], trained["1GB"]
    assert "rows.svmlight: larger than 0 bytes (MCF_CHUNKS_ABOVE), so it is read in chunks on disk." in said
    assert "chunks" not in quiet
    assert chunked["chosen"] == whole["chosen"]
    assert chunked["converged"]
    assert chunked["objective"] == pytest.approx(whole["objective"], rel=1e-5)
    for name in ("train_error", "test_error", "validation_error"):
        assert chunked[name] == whole[name]
    X, _ = table()
    one, other = (load(folder / metrics["model"]).predict(X) for metrics in (chunked, whole))
    assert np.array_equal(one, other)


def test_a_sweep_in_chunks_finds_the_errors_of_a_sweep_in_memory(folder):
    """Three losses, two levels, l2 chosen, in two worker processes and in one."""
    rows = {}
    sweep = ("sweep-q", "--dataset", "rows.svmlight", "--q", "0,0.5", "--corruption", "blankout")
    for above, jobs in (("0", "2"), ("1GB", "1")):
        run = mcf(folder, *sweep, "--jobs", jobs, "--out", f"sweep-{above}", *FIT, above=above)
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)["rows"]
        rows[above] = {
            tuple(row.get(name) for name in ("loss", "corruption", "q", "metric")): (row["value"], row["l2"])
            for row in found
        }
    assert len(rows["0"]) >= 3 * 2 * 3
    assert rows["0"].keys() == rows["1GB"].keys()
    for key, (value, l2) in rows["0"].items():
        assert (value, l2) == (pytest.approx(rows["1GB"][key][0], rel=1e-5), rows["1GB"][key][1]), key


def test_predictions_in_chunks_are_those_in_memory_line_for_line(folder, trained):
    path = trained["1GB"][0]["model"]
    chunked = mcf(
        folder, "predict", "--model", path, "--data", "rows.svmlight", "--probabilities", "--out", "p.csv"
    )
    assert "is read in chunks on disk" in chunked.stderr
    (X, y), model = table(), load(folder / path)
    predicted, shares = model.predict(X), model.predict_proba(X)
    lines = list(csv.reader((folder / "p.csv").read_text().splitlines()))
    assert lines[0] == ["row", "prediction", *(f"probability_{name}" for name in model.classes_)]
    assert [line[:2] for line in lines[1:]] == [[str(k), name] for k, name in enumerate(predicted)]
    np.testing.assert_allclose(np.array([line[2:] for line in lines[1:]], dtype=float), shares)
    wrong = np.sum(predicted != y.astype(str))
    assert f"{wrong} of {ROWS} predictions differ from the labels" in chunked.stderr


def test_a_fault_in_a_large_file_leaves_no_predictions(folder, trained):
    (folder / "faulty.svmlight").write_text((folder / "rows.svmlight").read_text() + "1 3:x\n")
    model = trained["1GB"][0]["model"]
    run = mcf(folder, "predict", "--model", model, "--data", "faulty.svmlight", "--out", "faulty.csv")
    assert run.returncode == 2
    assert run.stderr.strip().endswith(f"line {ROWS + 1}, item 2: expected 'column:value', got '3:x'")
    assert not (folder / "faulty.csv").exists()


def test_a_conversion_that_was_killed_is_begun_anew(tmp_path, folder):
    """A process that dies half way leaves a part, which the next one removes; what is there counts as nothing."""
    die = "import os, signal, mcf_cli.scale.pieces as pieces; write = pieces._write_piece; "
    die += "pieces._write_piece = lambda *given: (write(*given), os.kill(os.getpid(), signal.SIGKILL)); "
    train = ("train", "--dataset", folder / "rows.svmlight", "--dry-run")
    assert mcf(tmp_path, *train, before=die).returncode == -signal.SIGKILL
    derived = tmp_path / "home/derived"
    assert [path.suffix for path in derived.glob("chunks-*")] == [".part"]
    run = mcf(tmp_path, *train)
    assert run.returncode == 0, run.stderr
    assert [path.suffix for path in derived.glob("chunks-*")] == [""]
