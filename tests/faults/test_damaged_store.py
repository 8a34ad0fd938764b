"""A store that was torn, flipped or written by an older version: what is sound counts, the rest runs again."""

import hashlib
import random
import shutil

import pytest
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.run import run_plan, stored_outcome
from mcf_cli.experiments.store import Store
from mcf_cli.experiments.trial import METHOD_VERSION, canonical_json

from tests.experiments.tiny import Recorder, tiny_plan, without_seconds
from tests.faults.real_mcf import SWEEP, mcf, refused, results_in, store_in

FLIPS = 200


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small finished run: its plan, its folder, its rows."""
    out = tmp_path_factory.mktemp("finished")
    plan = tiny_plan(fit={"max_iter": 5})
    outcome = run_plan(plan, out, Engine("serial"), Recorder())
    assert outcome.ok
    return plan, out, without_seconds(outcome.folder / "rows.csv")


def resumed(plan, out):
    """How many trials ran again, and the rows."""
    listener = Recorder()
    outcome = run_plan(plan, out, Engine("serial"), listener)
    assert outcome.ok
    return len(listener.todo), without_seconds(outcome.folder / "rows.csv")


def test_flipped_torn_and_deleted_bytes_anywhere_are_noticed(finished, tmp_path):
    """Whatever is damaged, no record is believed that is not exactly one that was written."""
    plan, out, rows = finished
    content = store_in(out, "tiny").read_bytes()
    written = Store(out, "tiny").records()
    damage = random.Random(2013)
    shutil.copytree(out, tmp_path / "out")
    store = Store(tmp_path / "out", "tiny")
    for _ in range(FLIPS):
        spoilt = bytearray(content)
        for _ in range(damage.choice([1, 1, 5])):
            at = damage.randrange(len(spoilt))
            match damage.choice(["flip", "cut", "byte", "zeros"]):
                case "flip":
                    spoilt[at] ^= 1 << damage.randrange(8)
                case "byte":
                    spoilt[at] = damage.randrange(256)
                case "zeros":
                    spoilt[at : at + 512] = bytes(len(spoilt[at : at + 512]))
                case "cut":
                    del spoilt[at : at + damage.randrange(1, 300)]
        store.path.write_bytes(spoilt)
        found = store.records()
        assert all(written[key] == record for key, record in found.items())
    again, same = resumed(plan, tmp_path / "out")  # after the last damage
    assert again == len(plan.trials) - len(found)
    assert same == rows


def test_a_torn_and_flipped_store_costs_the_command_only_what_is_damaged(
    undisturbed_run, undisturbed, tmp_path
):
    out = tmp_path / "out"
    shutil.copytree(undisturbed_run, out)
    lines = store_in(out).read_bytes().splitlines(keepends=True)
    lines[7] = lines[7].replace(b'"value":0.', b'"value":1.', 1)
    lines[-1] = lines[-1][: len(lines[-1]) // 2]
    store_in(out).write_bytes(b"".join(lines))
    result = mcf(*SWEEP, "--out", out)
    assert "40 trials: 38 done, 2 to run" in result.err
    assert results_in(out) == undisturbed


def test_records_of_an_older_method_version_are_kept_and_not_used(finished, tmp_path):
    plan, out, rows = finished
    older = {}
    store = Store(tmp_path, "tiny")
    with store.writing():
        for record in Store(out, "tiny").records().values():
            text = canonical_json([METHOD_VERSION - 1, record["params"]])
            key = hashlib.sha256(text.encode()).hexdigest()
            wrong = [{**row, "value": 0.123} for row in record["rows"]]
            older[key] = {**record, "key": key, "rows": wrong}
            store.append(older[key])
    again, same = resumed(plan, tmp_path)
    assert (again, same) == (len(plan.trials), rows)
    assert older.items() <= store.records().items()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"trials": 3}', b"\xff\xfe", bytes(3000)], ids=repr)
def test_a_damaged_plan_is_one_clear_error_and_the_next_run_writes_it_anew(finished, tmp_path, content):
    plan, out, rows = finished
    shutil.copytree(out, tmp_path / "out")
    (store_in(tmp_path / "out", "tiny").parent / "plan.json").write_bytes(content)
    if content == b"":
        assert "Run its command again" in refused(mcf("status", "--out", tmp_path / "out"))
    assert resumed(plan, tmp_path / "out") == (0, rows)
    assert stored_outcome(tmp_path / "out", "tiny").ok
