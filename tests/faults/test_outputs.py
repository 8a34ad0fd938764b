"""What a command is told to write to: pipes and links stay what they are, and no input is lost."""

import os
import stat
import threading

import numpy as np
import pytest
from mcf_cli import MCFClassifier

from tests.faults.real_mcf import mcf, refused

ROWS = "a,b\n1,2\n2,1\n0,3\n3,0\n"
PREDICTED = "row,prediction\n0,no\n1,yes\n2,no\n3,yes\n"


@pytest.fixture
def task(tmp_path):
    """The options of a prediction, and the folder where its model and rows lie."""
    X, y = np.array([[1.0, 2.0], [2.0, 1.0]] * 5), ["no", "yes"] * 5
    MCFClassifier(loss="quadratic", corruption=None, l2=0.1).fit(X, y).save(tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text(ROWS)
    return ["predict", "--model", tmp_path / "model.npz", "--data", tmp_path / "rows.csv", "--out"]


def test_predictions_go_into_a_pipe_which_stays_one(task, tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    result = mcf(*task, pipe)
    assert result.code == 0, result.err
    assert stat.S_ISFIFO(pipe.stat().st_mode), "it was replaced by a file"
    reader.join(60)
    assert received == [PREDICTED]


def test_predictions_through_a_link_leave_the_link(task, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link, stdout = tmp_path / "elsewhere" / "p.csv", tmp_path / "link.csv", tmp_path / "stdout"
    target.write_text("old")
    link.symlink_to(target)
    assert mcf(*task, link).code == 0
    assert link.is_symlink() and target.read_text() == PREDICTED
    stdout.symlink_to("/proc/self/fd/1")  # what /dev/stdout is
    result = mcf(*task, stdout)
    assert (result.code, result.out) == (0, PREDICTED) and stdout.is_symlink()


def test_a_prediction_does_not_overwrite_what_it_reads(task, tmp_path):
    before = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "same.csv").symlink_to(tmp_path / "rows.csv")
    for target in ("rows.csv", "same.csv", "model.npz"):
        result = mcf(*task, tmp_path / target)
        assert result.code == 2 and "choose another name" in refused(result)
    assert (tmp_path / "rows.csv").read_text() == ROWS
    assert (tmp_path / "model.npz").read_bytes() == before


def test_a_run_does_not_overwrite_the_data_it_reads(tmp_path):
    data = tmp_path / "out" / "sweep-q" / "rows.csv"
    data.parent.mkdir(parents=True)
    data.write_text("a,label\n" + "1,x\n2,y\n" * 20)
    result = mcf("sweep-q", "--dataset", data, "--q", "0.5", "--loss", "quadratic", "--out", tmp_path / "out")
    assert result.code == 2 and "choose another" in refused(result)
    assert data.read_text().startswith("a,label\n")


def test_a_picture_does_not_overwrite_the_data_it_shows(tmp_path):
    data, link = tmp_path / "own.csv", tmp_path / "picture.png"
    data.write_text("a,label\n" + "1,x\n2,y\n" * 20)
    link.symlink_to(data)
    assert "choose another" in refused(mcf("data", "info", data, "--plot", link))
    assert data.read_text().startswith("a,label\n")
