"""Two commands on one output folder: the second is refused or waits, and neither spoils the other's work."""

import signal
import threading

from mcf_cli.experiments.store import Store

from tests.faults.real_mcf import SWEEP, TRIALS, mcf, refused, results_in, start, store_in, until


def test_the_second_is_refused_a_third_waits_and_all_ends_as_if_undisturbed(tmp_path, undisturbed):
    path = store_in(tmp_path)
    first = start(*SWEEP, "--out", tmp_path)
    until(lambda: path.exists() and path.stat().st_size > 0, first)
    first.send_signal(signal.SIGSTOP)  # it stays in the middle of its run for as long as we like
    try:
        words = refused(mcf(*SWEEP, "--out", tmp_path))
        assert f"is being written by process {first.pid}" in words and "--wait" in words
        third = start(*SWEEP, "--out", tmp_path, "--wait")
    finally:
        first.send_signal(signal.SIGCONT)
    for process in (first, third):
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert path.read_bytes().count(b"\n") == TRIALS
    assert results_in(tmp_path) == undisturbed


def test_whoever_waited_while_the_item_was_forgotten_has_a_lock_that_counts(tmp_path):
    """The lock goes with the item: a waiter that got the old one must not write beside the next writer."""
    old, waiting = Store(tmp_path, "item"), threading.Event()
    inside, leave = threading.Event(), threading.Event()

    def waiter() -> None:
        waiting.set()
        with Store(tmp_path, "item").writing(wait=True) as store:
            inside.set()
            leave.wait()
            store.append({"key": "a", "status": "ok"})

    thread = threading.Thread(target=waiter)
    with old.writing():
        thread.start()
        waiting.wait()
        (old.folder / "lock").unlink()  # as forgetting does while it holds the lock
    inside.wait()
    try:
        assert "is being written by" in second_writer(tmp_path)
    finally:
        leave.set()
        thread.join()
    assert list(Store(tmp_path, "item").records()) == ["a"]


def second_writer(out) -> str:
    """What a writer is told while another holds the lock."""
    try:
        with Store(out, "item").writing():
            return "nothing: it was let in"
    except Exception as error:
        return str(error)
