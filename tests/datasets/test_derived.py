import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli.datasets import derived
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


def test_a_data_home_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "file" / "home"))
    assert derived.cached_documents("demo", "k" * 64, lambda: DOCUMENTS) is DOCUMENTS
    with pytest.raises(McfError, match="Set MCF_DATA_HOME"):
        derived.save_arrays(derived.derived_path("demo", "k"), {"x": np.zeros(1)})
