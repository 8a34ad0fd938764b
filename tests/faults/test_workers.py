"""Worker processes: no more than there are trials, and none that outlives its parent."""

import contextlib
import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.faults.real_mcf import kill, start, until

TWO = [
    "sweep-q",
    "--q",
    "0,0.5",
    "--loss",
    "quadratic",
    "--corruption",
    "blankout",
    "--set",
    "select.l2=[0.1]",
]

LONG = [
    *(
        "sweep-q",
        "--dataset",
        "builtin-topics",
        "--q",
        "0.5",
        "--loss",
        "logistic",
        "--corruption",
        "blankout",
    ),
    *("--set", "select.l2={from: 1.0e-7, to: 1, factor: 1.02}"),
]


def workers_of(process) -> list[psutil.Process]:
    """The processes of the pool, without the one that looks after its files."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "popen_loky" in _command(child)]
    return []


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def test_no_more_workers_are_started_than_there_are_trials(tmp_path):
    process = start(*TWO, "--jobs", "1000", "--out", tmp_path)
    seen: set[int] = set()
    until(lambda: seen.update(worker.pid for worker in workers_of(process)) or len(seen) > 10, process, 0.1)
    if len(seen) > 10:
        kill(process)
        pytest.fail("more than ten workers for two trials")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert seen and "Using 2 workers instead of 1000, for 2 trials." in err
    environment = json.loads((tmp_path / "sweep-q" / "environment.json").read_text())
    assert environment["engine"] == {"name": "processes", "jobs": 2}


def ignores_interrupts(worker: psutil.Process) -> bool:
    """What a worker does once it is ready for trials."""
    with contextlib.suppress(OSError):
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines()
        )
        return bool(int(status["SigIgn"], 16) >> (signal.SIGINT - 1) & 1)
    return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_worker_that_has_run_nothing_ends_with_its_parent(tmp_path):
    """One long trial and two workers, so that one of them never gets any."""
    process = start(*LONG, "--jobs", "2", "--out", tmp_path)
    until(lambda: len([w for w in workers_of(process) if ignores_interrupts(w)]) == 2, process, 0.1)
    workers = workers_of(process)
    assert kill(process), "it ended before both were ready"
    gone, alive = psutil.wait_procs(workers, timeout=60)
    assert len(gone) == 2 and not alive
