"""What a person sees in a terminal of 80 columns: the real command on a pseudo-terminal."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SWEEP = [
    *("sweep-q", "--dataset", "builtin-digits", "--loss", "quadratic", "--corruption", "dropout"),
    *("--q", "0:0.8:0.1", "--set", "evaluation.train=60", "--set", "evaluation.test=60"),
    *("--set", "select.by=holdout", "--set", "select.l2=[0.01,0.1]"),
]


def on_terminal(folder: Path, *arguments: str, columns: int = 80) -> tuple[int, str]:
    """Exit code and all that was written to a terminal of that width."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
        "MCF_DATA_HOME": str(folder / "data"),
    }
    environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "mcf_cli", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 120)
        try:
            piece = os.read(ours, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(), written.decode()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    code, written = on_terminal(tmp_path_factory.mktemp("run"), *SWEEP)
    assert code == 0, written
    return written


def plain(written: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "\n")


def test_bar_count_and_time_left_survive(sweep):
    lines = plain(sweep).splitlines()
    bars = [line for line in lines if re.search(r"\d/9", line)]
    assert bars and all("━" in line and re.search(r"\d/9 +(-:--:--|\d+:\d\d:\d\d)", line) for line in bars)
    assert not any("best" in line for line in bars)  # it has no room here
    assert max(len(line) for line in bars) <= 80


def test_the_table_shows_the_levels_that_fit_and_the_best_by_validation(sweep):
    text = plain(sweep)
    heading = next(line for line in text.splitlines() if "method" in line)
    assert 3 <= heading.count("q=") <= 9
    assert len(heading) <= 80
    assert "best by validation" in " ".join(text.split())
    assert "MCF, dropout" in text


def test_a_misspelt_command_gets_a_suggestion(tmp_path):
    code, written = on_terminal(tmp_path, "nightmair")
    assert code == 2
    assert "Did you mean `mcf nightmare`?" in written


@pytest.mark.parametrize("command", ["sweep-q", "train", "predict", "reproduce", "report"])
def test_help_is_grouped_and_ends_with_an_example(tmp_path, command):
    code, written = on_terminal(tmp_path, command, "--help")
    assert code == 0
    assert f"Example: mcf {command}" in plain(written)
    assert command not in ("sweep-q", "train") or {"What to run:", "Data:", "How to run:", "Output:"} <= set(
        line.strip() for line in plain(written).splitlines()
    )
