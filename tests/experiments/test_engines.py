"""The same rows from every engine, whatever dies on the way."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import psutil
import pytest
from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import Engine, make_engine
from mcf_cli.experiments.rows import ERRORS
from mcf_cli.experiments.run import longest_first, run_plan

from tests.experiments.tiny import Recorder, tiny_plan, without_seconds


def rows_of(out, engine, listener=None, plan=None):
    outcome = run_plan(plan or tiny_plan(), out, engine, listener or Recorder())
    assert outcome.ok, outcome.failures
    return without_seconds(outcome.folder / "rows.csv"), (outcome.folder / ERRORS).read_bytes()


@pytest.fixture(scope="module")
def serial_rows(tmp_path_factory):
    """Of one fresh process, as a user's command is."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(rows_of, tmp_path_factory.mktemp("serial"), Engine("serial")).result()


def kill_a_worker_after(count: int, mark: str):
    """At the count-th finished trial, SIGKILL a worker process whose command line holds the mark."""

    def act(finished: int) -> None:
        if finished == count:
            workers = [p for p in psutil.Process().children(recursive=True) if mark in " ".join(p.cmdline())]
            assert workers, "no worker process found"
            workers[-1].kill()

    return Recorder(act)


def test_trials_in_any_order_give_the_same_rows(tmp_path):
    class Backwards(Engine):
        def run(self, specs):
            return super().run(specs[::-1])

    assert rows_of(tmp_path / "backwards", Backwards("serial")) == rows_of(tmp_path, Engine("serial"))


def test_trials_that_took_longest_begin_and_equals_keep_their_order():
    plan = tiny_plan()
    trials = plan.trials
    losses = list(dict.fromkeys(trial.params["method"]["loss"] for trial in trials))
    assert len(losses) > 1
    took = {loss: float(number) for number, loss in enumerate(losses)}
    records = [
        {"status": "ok", "params": trial.params, "seconds": took[trial.params["method"]["loss"]]}
        for trial in trials
    ]
    first = longest_first(trials, records, None)
    assert [t.key for t in first] == [
        t.key for loss in reversed(losses) for t in trials if t.params["method"]["loss"] == loss
    ]
    assert longest_first(trials, [], None) == trials


def test_two_processes_give_the_same_rows(serial_rows, tmp_path):
    assert rows_of(tmp_path, Engine("processes", 2)) == serial_rows


def test_a_killed_worker_process_costs_no_row(serial_rows, tmp_path):
    listener = kill_a_worker_after(2, "loky")
    assert rows_of(tmp_path, Engine("processes", 2), listener) == serial_rows


def test_dask_gives_the_same_rows_though_a_worker_is_killed(serial_rows, tmp_path):
    pytest.importorskip("distributed")
    listener = kill_a_worker_after(1, "spawn_main")
    assert rows_of(tmp_path, Engine("dask", 2), listener) == serial_rows


def test_flags_choose_the_engine():
    assert make_engine(None, 1, None).name == "serial"
    assert make_engine(None, 3, None) == Engine("processes", 3)
    assert make_engine(None, 2, "tcp://host:1").name == "dask"
    assert make_engine("dask", 2, None).name == "dask"
    for name, jobs, scheduler in [("serial", 1, "tcp://host:1"), (None, -1, None)]:
        with pytest.raises(McfError):
            make_engine(name, jobs, scheduler)
