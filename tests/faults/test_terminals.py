"""Streams that are closed or not read to their end, and names that would write on the terminal themselves."""

import contextlib
import os
import pty
import subprocess
import sys
from xml.dom import minidom

import pytest

from tests.datasets.faulty_server import Server, Status
from tests.experiments.tiny import without_seconds
from tests.faults.real_mcf import ROOT, mcf

ESCAPE = "\x1b]0;owned\x07"  # gives a terminal another title
SMALL = ["--q", "0,0.5", "--loss", "quadratic", "--set", "select.l2=[0.1]"]


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess:
    """`mcf` within a line of the shell, where it is called $mcf and its arguments are "$@"."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    line = line.replace("$mcf", f'"{sys.executable}" -m mcf_cli "$@"')
    command = ["bash", "-o", "pipefail", "-c", line, "bash", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def on_a_terminal(*arguments: object, **environment: str) -> str:
    """All that the command sends to a terminal."""
    ours, theirs = pty.openpty()
    inherited = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "mcf_cli", *map(str, arguments)],
        env=inherited | environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the terminal is gone when its last user is
        while piece := os.read(ours, 2**16):
            said += piece
    os.close(ours)
    process.wait(60)
    return said.decode(errors="replace")


def test_a_run_with_closed_streams_writes_its_files_as_ever(tmp_path):
    result = shell("$mcf <&- >&- 2>&-", "sweep-q", *SMALL, "--out", tmp_path / "closed")
    assert result.returncode == 0, result
    assert mcf("sweep-q", *SMALL, "--out", tmp_path / "open").code == 0
    closed, usual = (without_seconds(tmp_path / name / "sweep-q" / "rows.csv") for name in ("closed", "open"))
    assert closed == usual
    store = tmp_path / "closed" / ".cache" / "sweep-q" / "trials.jsonl"
    assert all(line.startswith("{") for line in store.read_text().splitlines()), "it took a stream's number"


def test_an_error_with_closed_streams_keeps_its_exit_code():
    assert shell("$mcf >&- 2>&-", "predict", "--model", "nowhere", "--data", "nowhere").returncode == 2


def test_a_reader_who_goes_away_sees_no_traceback_and_the_files_are_whole(tmp_path):
    result = shell("$mcf | true", "sweep-q", *SMALL, "--out", tmp_path)
    assert result.returncode == 1
    assert "Error" not in result.stderr and "Exception" not in result.stderr, result.stderr
    assert {"table.md", "figure.png", "figure.svg"} <= {
        path.name for path in (tmp_path / "sweep-q").iterdir()
    }
    result = shell("$mcf 2>&1 | head -1", "data", "list")
    assert (result.stdout.count("\n"), result.stderr) == (1, "")


@pytest.fixture
def hostile(tmp_path):
    """A file whose name, column and class would all retitle the terminal, and a line of which clears it."""
    path = tmp_path / f"{ESCAPE}.csv"
    rows = "".join(f"{k % 5},{k % 3},{'x' if k % 5 > 2 else ESCAPE}\n" for k in range(40))
    path.write_text(f"{ESCAPE},b,label\n{rows}")
    return path


@pytest.mark.parametrize(
    "command",
    [
        lambda path: ["sweep-q", "--dataset", path, *SMALL, "--out", path.parent / "out"],
        lambda path: ["data", "info", path],
        lambda path: ["predict", "--model", path, "--data", path],
    ],
    ids=["sweep-q", "info", "an error"],
)
def test_names_with_escape_sequences_are_spelt_out_on_a_terminal(hostile, command):
    said = on_a_terminal(*command(hostile))
    assert "owned" in said and "\x1b]" not in said and "\x07" not in said


def test_pictures_and_reports_of_such_names_are_well_formed(hostile, tmp_path):
    out = tmp_path / "out"
    assert mcf("sweep-q", "--dataset", hostile, *SMALL, "--out", out).code == 0
    assert mcf("data", "info", hostile, "--plot", out / "picture.svg").code == 0
    assert mcf("report", "--out", out).code == 0
    for picture in (out / "picture.svg", out / "sweep-q" / "figure.svg"):
        assert "owned" in picture.read_text()
        minidom.parse(str(picture))
    for page in (out / "report.html", out / "report.md", out / "sweep-q" / "table.md"):
        assert "owned" in page.read_text() and "\x1b" not in page.read_text()


def test_a_log_gets_errors_spelt_out_and_a_pipe_gets_data_as_it_is(hostile, tmp_path):
    assert mcf("train", "--dataset", hostile, "--loss", "quadratic", "--out", tmp_path / "out").code == 0
    (model,) = (tmp_path / "out").rglob("model.npz")
    result = mcf("predict", "--model", model, "--data", hostile)
    assert ESCAPE in result.out, "a class is data, and a pipe no terminal"
    assert "\x1b" not in mcf("predict", "--model", hostile, "--data", hostile).err


def test_the_words_of_a_server_are_spelt_out(tmp_path):
    server = Server()
    server.serve("/splice/splice.data", b"", Status(403, f"No {ESCAPE}\x1b[2J"), Status(403, ESCAPE))
    try:
        options = {"MCF_MIRROR": server.url, "MCF_DATA_HOME": str(tmp_path)}
        get = ["data", "get", "splice", "--form", "uci", "--from", "mirror"]
        said = on_a_terminal(*get, **options), mcf(*get, **options).err
    finally:
        server.close()
    for text in said:
        assert "owned" in text and "\x1b]" not in text and "\x1b[2J" not in text


def test_a_file_name_that_is_no_text_can_be_told(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")
    with open(path, "w") as file:
        file.write("a,label\n" + "1,x\n2,y\n" * 20)
    result = mcf("data", "info", path)
    assert result.code == 0 and "Traceback" not in result.err, result.err
