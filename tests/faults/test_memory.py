"""A trial that needs more memory than there is: it fails alone, with the reason, and is tried again next time."""

import contextlib
import resource
import threading

import numpy as np
import psutil
import pytest
from joblib.externals.loky import get_reusable_executor
from mcf_cli.experiments.engine import DIED, Engine
from mcf_cli.experiments.run import run_plan

from tests.experiments.tiny import Recorder, tiny_plan, without_seconds

ROOM = 120 * 2**20  # bytes that a limited worker may still take
LIMIT = 350 * 2**20  # bytes that a worker may have in all; with everything imported it has about 200 MB
SLIM, LARGE = 1, 1200  # copies: the last stacks 30 x 1,200 rows of 1,000 numbers, almost 300 MB


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Four slim trials and a large one."""
    path = tmp_path_factory.mktemp("data") / "wide.npz"
    random = np.random.default_rng(2013)
    np.savez(path, X=random.random((40, 1000)), y=np.arange(40) % 2)
    return tiny_plan(
        datasets=[str(path)],
        evaluation={"protocol": "explicit", "copies": [SLIM, 2, 3, 4, LARGE], "marginalised": False},
        grid=[{"loss": "logistic", "corruption": "blankout", "q": 0.5}],
        select={"l2": [0.1]},
        fit={"max_iter": 2},
    )


@pytest.fixture(scope="module")
def serial_rows(plan, tmp_path_factory):
    outcome = run_plan(plan, tmp_path_factory.mktemp("serial"), Engine("serial"), Recorder())
    assert outcome.ok
    return without_seconds(outcome.folder / "rows.csv")


@pytest.fixture
def fresh_pool():
    """Worker processes are used again by later runs: these are not."""
    yield
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


def workers(mark):
    """The worker processes of this test."""
    return [p for p in psutil.Process().children(recursive=True) if mark in " ".join(p.cmdline())]


def only_the_large_one_failed(outcome, reason):
    assert (outcome.progress.done, outcome.progress.failed) == (4, 1), outcome.failures
    ((label, why),) = outcome.failures.items()
    assert f"copies={LARGE}" in label and reason in why
    assert outcome.partial == "PARTIAL 4/5"


def test_a_worker_whose_memory_is_limited_fails_that_trial_alone(plan, serial_rows, tmp_path, fresh_pool):
    def limit(finished: int) -> None:
        if finished == 1:
            for worker in workers("loky"):
                room = worker.memory_info().vms + ROOM
                worker.rlimit(resource.RLIMIT_AS, (room, room))

    outcome = run_plan(plan, tmp_path, Engine("processes", 2), Recorder(limit))
    only_the_large_one_failed(outcome, "MemoryError")
    listener = Recorder()
    again = run_plan(plan, tmp_path, Engine("serial"), listener)
    assert len(listener.todo) == 1
    assert without_seconds(again.folder / "rows.csv") == serial_rows


class OutOfMemoryKiller(threading.Thread):
    """SIGKILLs every worker that grows beyond LIMIT, as the kernel does when memory runs out."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark, self.kills, self.done = mark, 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.01):
            for worker in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it ended while we looked at it
                    if self.mark in " ".join(worker.cmdline()) and worker.memory_info().rss > LIMIT:
                        worker.kill()
                        self.kills += 1


def test_a_trial_that_gets_every_worker_killed_fails_alone(plan, serial_rows, tmp_path):
    killer = OutOfMemoryKiller("loky")
    killer.start()
    outcome = run_plan(plan, tmp_path, Engine("processes", 2), Recorder())
    killer.done.set()
    killer.join()
    assert killer.kills >= 2, "it was tried again before it was given up"
    only_the_large_one_failed(outcome, DIED)
    again = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    assert without_seconds(again.folder / "rows.csv") == serial_rows
