"""SIGKILL at random moments, again and again: resumed, a sweep ends with the bytes of an undisturbed one.

MCF_KILLS=100 makes a campaign of it.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess

import pytest

from tests.faults.real_mcf import SWEEP, TRIALS, kill, mcf, results_in, start, store_in, until

KILLS = int(os.environ.get("MCF_KILLS", 4))
SIZE = 33_000  # bytes of the whole store, so that there is still something to kill at the last attempt


def killed_when_grown(out, more_bytes, *options):
    """Kill a run once its store has grown by so many bytes; False if it ended before."""
    path = store_in(out)
    wanted = (path.stat().st_size if path.exists() else 0) + more_bytes
    process = start(*SWEEP, "--out", out, *options)
    until(lambda: path.exists() and path.stat().st_size >= wanted, process)
    return kill(process)


def killed_after(out, seconds, *options):
    """Kill a run after so many seconds, wherever it then is; False if it ended before."""
    process = start(*SWEEP, "--out", out, *options)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return kill(process)


def keys_in(out):
    """The keys in the store, in order; a torn last line is not counted."""
    path = store_in(out)
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["record"]["key"] for line in lines]


@pytest.mark.parametrize("options", [(), ("--jobs", "2")], ids=["serial", "two processes"])
def test_a_storm_of_kills_changes_nothing(options, tmp_path, undisturbed):
    moments = random.Random(f"2013 {options}")
    attempts, kills = KILLS if not options else max(1, KILLS // 4), 0
    for number in range(attempts):
        before = keys_in(tmp_path)
        if number % 3 == 2:
            kills += killed_after(tmp_path, moments.uniform(0.2, 4.0), *options)
        else:
            kills += killed_when_grown(tmp_path, moments.randint(1, SIZE // attempts), *options)
        after = keys_in(tmp_path)
        assert after[: len(before)] == before, "a finished trial was lost"
    assert kills
    print(f"{kills} of {attempts} runs were killed before their end")
    resumed = mcf(*SWEEP, "--out", tmp_path, *options)
    assert resumed.code == 0, resumed.err
    keys = keys_in(tmp_path)
    assert len(keys) == len(set(keys)) == TRIALS, "a finished trial was run again"
    assert results_in(tmp_path) == undisturbed


def test_killed_while_it_writes_its_files_it_leaves_no_litter(tmp_path, undisturbed_run, undisturbed):
    """The moments after the last trial: rows, tables and figures are being written."""
    moments = random.Random(2014)
    out = shutil.copytree(undisturbed_run, tmp_path / "out")
    for _ in range(max(1, KILLS // 2)):
        for path in (out / "sweep-q").iterdir():
            path.unlink()
        process = start(*SWEEP, "--out", out)
        wanted = moments.choice(["rows.csv", "config.yaml", "table.csv", ".figure.png", "figure.png"])
        until(lambda wanted=wanted: any((out / "sweep-q").glob(f"{wanted}*")), process)
        kill(process)
    assert mcf(*SWEEP, "--out", out).code == 0
    assert results_in(out) == undisturbed
