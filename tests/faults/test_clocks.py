"""The clock moved: nothing in the store or the data home goes by the time of day."""

import os

import pytest
from mcf_cli.datasets.formats.archives import BadFile
from mcf_cli.datasets.store import fetch, verify
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.run import run_plan

from tests.datasets.demo_entry import BYTES, demo
from tests.datasets.faulty_server import Server
from tests.experiments.tiny import Recorder, tiny_plan

LONG_AGO, FAR_AHEAD = 0, 4_102_444_800  # 1970 and 2100


@pytest.mark.parametrize("moment", [LONG_AGO, FAR_AHEAD])
def test_files_from_another_time_are_neither_run_again_nor_changed(tmp_path, moment):
    plan = tiny_plan(fit={"max_iter": 5})
    outcome = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    rows = (outcome.folder / "rows.csv").read_bytes()
    for path in tmp_path.rglob("*"):
        os.utime(path, (moment, moment))
    listener = Recorder()
    run_plan(plan, tmp_path, Engine("serial"), listener)
    assert listener.todo == []
    assert (outcome.folder / "rows.csv").read_bytes() == rows


@pytest.mark.parametrize("moment", [LONG_AGO, FAR_AHEAD])
def test_data_from_another_time_is_verified_again_and_not_fetched_again(tmp_path, monkeypatch, moment):
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path))
    server = Server()
    entry = demo(server.serve("/demo.bin", BYTES))
    path = fetch.get(entry).paths["demo.bin"]
    os.utime(path, (moment, moment))
    assert fetch.get(entry).checked == "sha256"
    path.write_bytes(BYTES[:-1] + b"!")
    os.utime(path, (moment + 1, moment + 1))
    assert verify.forms_here(entry) == [], "changed data passed for verified"
    assert fetch.get(entry).paths["demo.bin"].read_bytes() == BYTES
    assert len(server.requests) == 2
    server.close()


def test_a_change_that_hides_behind_its_time_is_found_by_reading_again(tmp_path, monkeypatch):
    """Same size, same mtime: a stamp cannot tell. `mcf data verify` reads every byte."""
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path))
    server = Server()
    entry = demo(server.serve("/demo.bin", BYTES))
    path = fetch.get(entry).paths["demo.bin"]
    before = path.stat()
    path.write_bytes(BYTES[:-1] + b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(BadFile, match="wrong checksum"):
        verify.form_here(entry, entry.forms[0], again=True)
    server.close()
