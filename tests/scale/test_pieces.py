"""Data read in pieces is the data: whatever the source, nothing is lost and nothing is held."""

import gzip
import tracemalloc

import numpy as np
import pytest
from mcf_cli import Chunks
from mcf_cli.errors import McfError
from scipy import sparse

from tests.scale.documents import as_svmlight, documents, in_parts


def joined(chunks):
    """All rows of all chunks."""
    pairs = list(chunks)
    stack = sparse.vstack if sparse.issparse(pairs[0][0]) else np.vstack
    X = stack([X for X, _ in pairs])
    return X.toarray() if sparse.issparse(X) else X, np.concatenate([y for _, y in pairs])


def save_npz(path, X, y):
    if sparse.issparse(X):
        arrays = {
            "data": X.data,
            "indices": X.indices,
            "indptr": X.indptr,
            "shape": np.array(X.shape),
            "y": y,
        }
    else:
        arrays = {"X": X, "y": y}
    np.savez(path, **arrays)
    return path


def zipped(path, X, y):
    plain = as_svmlight(path.with_suffix(""), X, y)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


SOURCES = {
    "svmlight": lambda folder, X, y: as_svmlight(folder / "all.svmlight", X, y),
    "svmlight-as-text": lambda folder, X, y: str(as_svmlight(folder / "all.svmlight", X, y)),
    "zero-based": lambda folder, X, y: as_svmlight(folder / "all.svm", X, y, zero_based=True),
    "gzip": lambda folder, X, y: zipped(folder / "all.svmlight.gz", X, y),
    "several-svmlight": lambda folder, X, y: [
        as_svmlight(folder / f"{i}.svmlight", *part) for i, part in enumerate(in_parts(X, y))
    ],
    "several-npz": lambda folder, X, y: [
        save_npz(folder / f"{i}.npz", *part) for i, part in enumerate(in_parts(X, y))
    ],
    "dense-npz": lambda folder, X, y: save_npz(folder / "all.npz", X.toarray(), y),
    "pairs": lambda folder, X, y: in_parts(X, y),
    "dense-pairs": lambda folder, X, y: in_parts(X.toarray(), y),
    "lists": lambda folder, X, y: [(X.toarray().tolist(), y.tolist())],
    "generator": lambda folder, X, y: (part for part in in_parts(X, y)),
    "function": lambda folder, X, y: lambda: iter(in_parts(X, y)),
    "with-an-empty-chunk": lambda folder, X, y: [*in_parts(X, y), (X[:0], y[:0])],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_source_gives_the_same_rows(source, tmp_path):
    X, y = documents()
    chunks = Chunks.write(source(tmp_path, X, y), tmp_path / "chunks", entries=500, n_features=X.shape[1])
    assert (chunks.rows, chunks.n_features) == X.shape
    for again in (chunks, Chunks(tmp_path / "chunks")):
        found, labels = joined(again)
        np.testing.assert_array_equal(found, X.toarray())
        np.testing.assert_array_equal(labels, y)


def test_text_is_cut_where_asked(tmp_path):
    X, y = documents()
    chunks = Chunks.write(as_svmlight(tmp_path / "all.svmlight", X, y), tmp_path / "chunks", entries=100)
    assert len(chunks) == pytest.approx(X.nnz / 100, rel=0.1)
    assert max(part.nnz for part, _ in chunks) < 100 + X.shape[1]


def test_rows_without_entries_count_too(tmp_path):
    (tmp_path / "empty.svmlight").write_text("1 2:1\n" + "-1\n" * 20)
    chunks = Chunks.write(tmp_path / "empty.svmlight", tmp_path / "chunks", entries=5)
    assert (len(chunks), chunks.rows, chunks.n_features) == (5, 21, 2)


def test_columns_that_only_one_piece_holds_widen_all(tmp_path):
    """Whether columns count from 0, too, is known only when the last piece was read."""
    (tmp_path / "late.svmlight").write_text("1 3:1\n-1 1:2\n1 9:4\n-1 0:5\n")
    chunks = Chunks.write(tmp_path / "late.svmlight", tmp_path / "chunks", entries=1)
    assert len(chunks) == 4
    expected = np.zeros((4, 10))
    expected[[0, 1, 2, 3], [3, 1, 9, 0]] = [1, 2, 4, 5]
    np.testing.assert_array_equal(joined(chunks)[0], expected)


def test_reading_text_holds_no_more_than_a_piece(tmp_path):
    X, y = documents(rows=4000)
    path = as_svmlight(tmp_path / "all.svmlight", X, y)
    peaks = []
    for entries in (1000, 10**9):
        tracemalloc.start()
        Chunks.write(path, tmp_path / f"in-{entries}", entries=entries)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 0.25 * peaks[1]


def test_labels_may_be_names(tmp_path):
    X, y = documents()
    names = np.array(["no", "perhaps"], dtype=object)[(y + 1).astype(int)]
    assert joined(Chunks.write(in_parts(X, names), tmp_path))[1].tolist() == names.tolist()


def test_an_interrupted_write_is_no_set_of_chunks_and_can_be_repeated(tmp_path):
    X, y = documents()

    def broken():
        yield X[:100].toarray(), y[:100]
        raise OSError("the network went away")

    with pytest.raises(OSError, match="network"):
        Chunks.write(broken, tmp_path)
    with pytest.raises(McfError, match=r"Chunks\.write"):
        Chunks(tmp_path)
    found, _ = joined(Chunks.write(in_parts(X, y), tmp_path))
    np.testing.assert_array_equal(found, X.toarray())
    with pytest.raises(McfError, match="already"):
        Chunks.write(in_parts(X, y), tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "no rows"),
        ([(np.ones((2, 3)), [0, 1]), (np.ones((2, 4)), [0, 1])], "4 columns|3 columns"),
        ([(np.ones((2, 3)), [0, 1, 1])], "chunk 0.*inconsistent"),
        ([(np.ones((2, 3)), [0, 1]), (np.full((1, 3), np.nan), [0])], "chunk 1.*NaN"),
        ([np.ones((5, 3))], "pair"),
        ("words.txt", "svmlight"),
        ("missing.svmlight", "missing.svmlight"),
    ],
    ids=str,
)
def test_a_source_that_will_not_do_is_named(source, message, tmp_path):
    with pytest.raises((McfError, ValueError), match=message):
        Chunks.write(source, tmp_path)


def test_svmlight_and_arrays_do_not_mix(tmp_path):
    X, y = documents()
    with pytest.raises(McfError, match="mix"):
        Chunks.write([as_svmlight(tmp_path / "all.svmlight", X, y), (X, y)], tmp_path / "chunks")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 3}, "a column 4 where 3"),
        ({"zero_based": False}, "column 0"),
        ({"entries": 0}, "entries"),
    ],
)
def test_options_that_the_file_contradicts(options, message, tmp_path):
    (tmp_path / "small.svmlight").write_text("1 0:1 4:2\n-1 1:1\n")
    with pytest.raises((McfError, ValueError), match=message):
        Chunks.write(tmp_path / "small.svmlight", tmp_path / "chunks", **options)
