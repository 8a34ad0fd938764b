import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli.datasets.features import words as derived
from mcf_cli.errors import McfError

DOCUMENTS = derived.Documents(sp.csr_matrix([[0.0, 2.0], [1.0, 0.0]]), ("naïve", "word"), ("a", "b"))


def test_documents_are_counted_once_and_come_back_as_they_were(empty_home):
    calls = []

    def count():
        calls.append(1)
        return DOCUMENTS

    for _ in range(2):
        found = derived.cached_documents("demo", "k" * 64, count)
        assert np.array_equal(found.counts.toarray(), DOCUMENTS.counts.toarray())
        assert found[1:] == DOCUMENTS[1:]
    assert len(calls) == 1
    derived.cached_documents("demo", "other" * 20, count)
    assert len(calls) == 2


def test_a_damaged_file_is_made_anew(empty_home):
    derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS)
    (path,) = (empty_home / "derived").glob("demo-*.npz")
    path.write_bytes(path.read_bytes()[:100])
    found = derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS)
    assert found.terms == DOCUMENTS.terms
    assert derived.load_arrays(path) is not None


KILLED = """
import os, signal, sys
from mcf_cli.datasets.features import words as derived
from tests.datasets.test_derived import DOCUMENTS

sys.addaudithook(lambda event, arguments: event == "os.rename" and os.kill(os.getpid(), signal.SIGKILL))
derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS)
"""


def test_what_a_process_killed_while_saving_left_is_cleared(empty_home):
    path = ":".join(entry for entry in sys.path if entry)
    places = {"PYTHONPATH": path, "MCF_DATA_HOME": str(empty_home)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=places).returncode == -signal.SIGKILL
    assert len(list((empty_home / "derived").glob(".demo-*.npz.*"))) == 1
    derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS)
    (path,) = (path for path in (empty_home / "derived").iterdir() if path.name != ".partial")
    assert derived.load_arrays(path) is not None


def test_a_data_home_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "file" / "home"))
    assert derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS) is DOCUMENTS
    with pytest.raises(McfError, match="Set MCF_DATA_HOME"):
        derived.save_arrays(derived.derived_path("demo", "k"), {"x": np.zeros(1)})
