"""What another program keeps where mcf keeps its trials is neither taken for ours, nor deleted, nor overwritten."""

import json

import pytest

from tests.faults.real_mcf import mcf, refused, store_in

SMALL = [
    "sweep-q",
    "--q",
    "0.5",
    "--loss",
    "quadratic",
    "--corruption",
    "blankout",
    "--set",
    "select.l2=[0.1]",
]
STRANGERS = {"steps": ["a plan, but of another program"], "config": {"item": "theirs"}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    assert mcf(*SMALL, "--out", out).code == 0
    return out


def test_clean_deletes_what_is_ours_and_nothing_else(finished):
    """A folder of another program beside the store, and a note of the user within it."""
    theirs, store = finished / ".cache" / "theirs", store_in(finished).parent
    theirs.mkdir()
    (theirs / "plan.json").write_text(json.dumps(STRANGERS))
    (theirs / "work.txt").write_text("a week of it")
    (store / "note.txt").write_text("mine")
    (store / ".plan.json.999999999.part").write_text("of a killed run")
    plan = json.loads((store / "plan.json").read_text())
    del plan["format"]  # as 1.x wrote it
    (store / "plan.json").write_text(json.dumps(plan))
    (store / "trials.jsonl").write_text("")

    result = mcf("clean", "--out", finished, "--yes")
    assert result.code == 0 and "Deleted: sweep-q" in result.out and "note.txt" in result.out
    assert sorted(path.name for path in theirs.iterdir()) == ["plan.json", "work.txt"]
    assert [path.name for path in store.iterdir()] == ["note.txt"]
    assert "no trials to delete" in mcf("clean", "--out", finished, "--yes").out
    assert "theirs" not in mcf("status", "--out", finished).out


@pytest.mark.parametrize("name", ["plan.json", "trials.jsonl"])
def test_a_run_does_not_write_into_the_folder_of_another_program(tmp_path, name):
    path = store_in(tmp_path).with_name(name)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(STRANGERS))
    result = mcf(*SMALL, "--out", tmp_path)
    assert result.code == 2 and "choose another --out" in refused(result)
    assert [each.name for each in path.parent.iterdir()] == [name]
    assert path.read_text() == json.dumps(STRANGERS)
