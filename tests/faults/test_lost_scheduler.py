"""A dask scheduler that dies in the middle: one clear error, no trial called failed, and a new one goes on."""

import contextlib
import signal
import socket
import subprocess
import sys

import pytest

from tests.faults.real_mcf import SWEEP, TRIALS, Result, mcf, refused, results_in, start, store_in, until

pytest.importorskip("distributed")


@pytest.fixture
def address():
    """An address that nobody else uses now, so that the second scheduler can have that of the first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def dask(program, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments, "--no-dashboard"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(address):
    """A scheduler and a worker, each a process of its own."""
    host = ("--host", "127.0.0.1", "--port", address.rpartition(":")[2])
    with (
        dask("scheduler", *host) as scheduler,
        dask("worker", address, "--nthreads=1", "--no-nanny") as worker,
    ):
        yield scheduler, worker


def test_a_scheduler_lost_and_restarted_costs_no_trial(address, tmp_path, undisturbed):
    path = store_in(tmp_path)
    with cluster(address) as (scheduler, worker):
        run = start(*SWEEP, "--out", tmp_path, "--scheduler", address)
        until(lambda: path.exists() and path.stat().st_size > 0, run)
        worker.send_signal(signal.SIGSTOP)  # so that the run is not over before the scheduler dies
        scheduler.kill()
        _, err = run.communicate(timeout=120)
    words = refused(Result(run.returncode, "", err))
    assert "connection to the dask scheduler was lost" in words and "repeat the command" in words
    kept = path.read_bytes().count(b"\n")
    assert 0 < kept < TRIALS
    assert b'"status":"failed"' not in path.read_bytes()
    with cluster(address):
        result = mcf(*SWEEP, "--out", tmp_path, "--scheduler", address)
    assert result.code == 0 and f"{TRIALS} trials: {kept} done" in result.err
    assert results_in(tmp_path) == undisturbed
