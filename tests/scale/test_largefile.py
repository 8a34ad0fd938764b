"""A large file read in chunks is the data set that it is in memory, and fits on it are the same."""

import csv
import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import MCFClassifier, datasets
from mcf_cli.core.corruptions.elementwise import Blankout, Dropout, Poisson
from mcf_cli.core.problem import Problem
from mcf_cli.datasets.dataset import RowsOnDisk, SpilledNumbers
from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import run_spec
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import make_plan
from mcf_cli.scale import largefile
from mcf_cli.scale.fits import ChunkedProblem, fit_rows
from sklearn.datasets import dump_svmlight_file

from tests.scale.documents import documents


@pytest.fixture(autouse=True)
def small_chunks(tmp_path, monkeypatch):
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MCF_CHUNKS_ABOVE", "0")
    monkeypatch.setattr(largefile, "ENTRIES_A_CHUNK", 200)
    monkeypatch.setattr(SpilledNumbers, "AT_ONCE", 200)


def as_svmlight(path, X, y):
    dump_svmlight_file(X, y, str(path), zero_based=False)


def as_npz(path, X, y):
    np.savez(path, X=X.toarray().astype(np.int8), y=y)


def as_sparse_npz(path, X, y):
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez_compressed(path, y=np.array([f"class {label}" for label in y]), **parts)


def as_csv(path, X, y):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["", *(f"count{k}" for k in range(X.shape[1])), "label"])
        table = X.toarray().astype(object)
        table[5, 3] = ""  # a missing cell
        for number, (row, label) in enumerate(zip(table, y, strict=True)):
            writer.writerow([number, *row, f"kind {label}"])


def as_measured_csv(path, X, y):
    """Its first column has no name and does not count the rows, so that it is a feature."""
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X.toarray(), y, strict=True)]
    path.write_text("\n".join(["," + ",".join(f"x{k}" for k in range(1, X.shape[1])) + ",label", *lines]))


FORMATS = {
    "a.svmlight": as_svmlight,
    "a.npz": as_npz,
    "b.npz": as_sparse_npz,
    "a.csv": as_csv,
    "b.csv": as_measured_csv,
}


@pytest.mark.parametrize(("name", "write"), FORMATS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_file_in_chunks_is_the_data_set_that_it_is_in_memory(tmp_path, name, write):
    """The second time it comes from the chunks that were kept."""
    X, y = documents(rows=60)
    write(tmp_path / name, X, y)
    whole = datasets.load(str(tmp_path / name))
    for _ in range(2):
        chunked = largefile.load_large(str(tmp_path / name))
        assert isinstance(chunked.X, RowsOnDisk)
        pieces = list(chunked.X.pieces())
        assert len(pieces) > 2
        stacked = np.vstack([piece.toarray() if sp.issparse(piece) else piece for piece in pieces])
        expected = whole.X.toarray() if sp.issparse(whole.X) else whole.X
        np.testing.assert_array_equal(stacked, expected)
        np.testing.assert_array_equal(chunked.y, whole.y)
        np.testing.assert_array_equal(chunked.missing, whole.missing)
        for field in ("class_names", "feature_names", "understood", "notes", "label_name", "task"):
            assert getattr(chunked, field) == getattr(whole, field), field
        assert chunked.splits.keys() == whole.splits.keys()


def test_training_and_test_rows_in_two_files(tmp_path):
    X, y = documents(rows=60)
    as_svmlight(tmp_path / "train.svmlight", X[:45], y[:45])
    as_svmlight(tmp_path / "test.svmlight", X[45:], y[45:])
    paths = str(tmp_path / "train.svmlight"), {"test": str(tmp_path / "test.svmlight")}
    whole, chunked = datasets.load(paths[0], **paths[1]), largefile.load_large(paths[0], **paths[1])
    stacked = sp.vstack(list(chunked.X.pieces()))
    assert (stacked != whole.X).nnz == 0
    assert [list(rows) for rows in chunked.splits["predefined"]] == [
        list(rows) for rows in whole.splits["predefined"]
    ]


def test_what_is_packed_counts_as_it_is_unpacked(tmp_path, monkeypatch):
    text = b"1 1:1\n-1 2:1\n" * 1000
    (tmp_path / "a.svmlight.gz").write_bytes(gzip.compress(text))
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 10)))
    for name, size in (("a.svmlight.gz", len(text)), ("a.npz", 80_000)):
        assert (tmp_path / name).stat().st_size < size / 10
        monkeypatch.setenv("MCF_CHUNKS_ABOVE", str(size - 1))
        assert largefile.is_large([tmp_path / name])
        monkeypatch.setenv("MCF_CHUNKS_ABOVE", str(2 * size))
        assert not largefile.is_large([tmp_path / name])


CASES = {
    "logistic": (Blankout(q=0.5), {"loss": "logistic"}),
    "exponential": (Dropout(q=0.3), {"loss": "exponential"}),
    "quadratic": (Poisson(), {"loss": "quadratic"}),
    "plain": (None, {"loss": "logistic"}),
}


@pytest.mark.parametrize(("corruption", "options"), CASES.values(), ids=CASES)
def test_a_path_of_fits_on_disk_is_the_path_in_memory(tmp_path, corruption, options):
    """On all rows, on a subset, and on one that lacks a class."""
    X, y = documents(rows=80, classes=3)
    as_svmlight(tmp_path / "a.svmlight", X, y)
    y = (y + 1).astype(int)
    rows = largefile.load_large(str(tmp_path / "a.svmlight")).X
    X = datasets.load(str(tmp_path / "a.svmlight")).X
    chunked = ChunkedProblem(rows, y, 3, **options)
    whole = Problem(X, y, n_classes=3, drop_absent=True, **options)
    for chosen in (np.arange(80), np.arange(0, 80, 2), np.flatnonzero(y != 1)):
        one, other = chunked.subset(chosen), whole.subset(chosen)
        left = right = None
        for l2 in (0.1, 0.01):
            left = one.solve(corruption, l2, start=left, tol=1e-8)
            right = other.solve(corruption, l2, start=right, tol=1e-8)
            assert left.objective == pytest.approx(right.objective, rel=1e-5)
            np.testing.assert_array_equal(left.predict(X), right.predict(X))


def test_an_estimator_fits_rows_on_disk_and_rows_in_memory_alike(tmp_path):
    X, y = documents(rows=80)
    as_svmlight(tmp_path / "a.svmlight", X, y)
    rows = largefile.load_large(str(tmp_path / "a.svmlight")).X
    models = [MCFClassifier(corruption=Blankout(q=0.5), l2=0.01, tol=1e-8) for _ in range(2)]
    fit_rows(models[0], rows, y)
    fit_rows(models[1], datasets.load(str(tmp_path / "a.svmlight")).X, y)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-5)


def test_rows_on_disk_are_taken_once_each_in_order(tmp_path):
    X, y = documents(rows=60)
    as_svmlight(tmp_path / "a.svmlight", X, y)
    rows = largefile.load_large(str(tmp_path / "a.svmlight")).X
    some = rows[np.arange(3, 50)][np.arange(0, 47, 5)]
    np.testing.assert_array_equal(
        np.vstack([piece.toarray() for piece in some.pieces()]), X.toarray()[3:50:5][:, : some.shape[1]]
    )
    with pytest.raises(ValueError, match="once each, in the order of the file"):
        rows[np.array([4, 2])]


UNFIT = {
    "l1": ({"grid": [{"loss": "logistic", "corruption": "none", "penalty": "l1"}]}, "grid.0.penalty"),
    "hinge": ({"grid": [{"loss": "hinge"}]}, "grid.0.loss"),
    "loo": ({"grid": [{"loss": "quadratic"}], "select": {"l2": [0.1, 1.0], "by": "loo"}}, "select.by"),
    "explicit": (
        {
            "grid": [{"loss": "quadratic", "corruption": "poisson"}],
            "evaluation": {"protocol": "explicit", "copies": [1]},
        },
        "evaluation.protocol",
    ),
}


@pytest.mark.parametrize("scale", ["standard", "max"])
@pytest.mark.parametrize(("name", "write"), [("a.csv", as_csv), ("a.svmlight", as_svmlight)])
def test_columns_are_scaled_and_missing_cells_deleted_alike(tmp_path, name, write, scale):
    """A path of trials of both kinds, from the command's own parameters to their rows."""
    X, y = documents(rows=80)
    write(tmp_path / name, X, y)
    config = {
        "item": "scaled",
        "datasets": [str(tmp_path / name)],
        "prepare": {"scale": scale},
        "grid": [{"loss": "logistic", "corruption": "blankout", "q": 0.5}],
        "select": {"l2": [0.01, 0.1], "by": "holdout"},
        "fit": {"tol": 1e-8},
    }
    rows = []
    for above in ("0", "1GB"):
        os.environ["MCF_CHUNKS_ABOVE"] = above
        plan = make_plan(load_config(config))
        (trial,) = plan.trials
        record = run_spec(trial.spec())
        assert record["status"] == "ok", record
        rows.append({row["metric"]: (row["value"], row["l2"]) for row in record["rows"]})
    assert rows[0].keys() == rows[1].keys()
    for metric, (value, l2) in rows[0].items():
        assert (value, l2) == (pytest.approx(rows[1][metric][0], rel=1e-5), rows[1][metric][1])


@pytest.mark.parametrize(("config", "place"), UNFIT.values(), ids=UNFIT)
def test_what_needs_rows_in_memory_is_refused(tmp_path, config, place):
    X, y = documents(rows=60)
    as_svmlight(tmp_path / "a.svmlight", X, y)
    loaded = load_config({"item": "large", "datasets": [str(tmp_path / "a.svmlight")], **config})
    with pytest.raises(McfError, match=f"{place}: a.svmlight is too large for memory"):
        make_plan(loaded)


def test_a_regression_in_chunks_is_the_regression_in_memory(tmp_path, monkeypatch):
    X, _ = documents(rows=80)
    y = X @ np.arange(X.shape[1]) + 0.25
    as_svmlight(tmp_path / "numbers.svmlight", X, y)
    config = {
        "item": "numbers",
        "task": "regression",
        "datasets": [str(tmp_path / "numbers.svmlight")],
        "grid": [{"loss": "quadratic", "corruption": "blankout", "q": 0.2}],
        "select": {"l2": [0.01, 0.1], "by": "cv", "folds": 3},
    }
    rows = []
    for above in ("0", "1GB"):
        monkeypatch.setenv("MCF_CHUNKS_ABOVE", above)
        (trial,) = make_plan(load_config(config)).trials
        record = run_spec(trial.spec())
        assert record["status"] == "ok", record
        rows.append({row["metric"]: (row["value"], row["l2"]) for row in record["rows"]})
    assert {"test_mse", "test_r2"} <= rows[0].keys()
    for metric, (value, l2) in rows[0].items():
        assert (value, l2) == (pytest.approx(rows[1][metric][0], rel=1e-5), rows[1][metric][1])


def test_a_folder_for_chunks_that_cannot_be_made_is_explained(tmp_path):
    path = tmp_path / "a.svmlight"
    path.write_text("1 1:2\n-1 2:1\n")
    with pytest.raises(McfError, match="Not a directory") as caught:
        largefile.read_in_chunks(path / "chunks", [path])
    assert "set TMPDIR" in str(caught.value)
