"""A model fitted on a cluster is the model fitted in memory, and outlives its workers. The cluster is a real one."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from mcf_cli import Blankout, Gaussian, MCFClassifier, MCFRegressor, Poisson, fit_dask
from mcf_cli.errors import McfError
from scipy import sparse
from sklearn.base import clone

from tests.scale.documents import as_svmlight, assert_same_model, documents, in_parts

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

TIGHT = {"l2": 0.01, "max_iter": 300, "tol": 1e-8}


@pytest.fixture(scope="module")
def client():
    """Two worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def noted(pair, log):
    """The pair, and a line in the log for each time that it was made."""
    with open(log, "a") as file:
        file.write("made\n")
    return pair


def blocks(X, y, container):
    """Dask arrays of X and y with blocks of the kind that `container` makes."""
    rows = 70
    X = da.from_array(X.toarray(), chunks=(rows, X.shape[1]))
    return X.map_blocks(container), da.from_array(y, chunks=rows)


def in_halves(X):
    """Sparse, with every entry twice."""
    X = sparse.csr_matrix(X)
    halves = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sparse.csr_matrix(halves, shape=X.shape)


@pytest.mark.parametrize(
    "container", [np.asarray, sparse.csr_matrix, in_halves], ids=["dense", "sparse", "in halves"]
)
@pytest.mark.parametrize(
    ("options", "classes"),
    [
        ({"corruption": Blankout(0.5)}, 2),
        ({"corruption": Poisson(), "loss": "exponential"}, 3),
        ({"corruption": Blankout(0.3), "loss": "quadratic"}, 3),
        ({"corruption": Poisson(), "multiclass": "shared"}, 3),
    ],
    ids=str,
)
def test_dask_arrays(options, classes, container, client):
    X, y = documents(classes=classes)
    model = MCFClassifier(**TIGHT, **options)
    assert_same_model(fit_dask(clone(model), *blocks(X, y, container)), model.fit(X, y))


def test_delayed_pairs_of_any_number_and_size(client):
    """More partitions than one task adds up, one of them without rows."""
    X, y = documents()
    parts = [*in_parts(X, y, 25), (X[:0], y[:0])]
    model = MCFClassifier(corruption=Blankout(0.5), **TIGHT)
    ours = fit_dask(clone(model), [dask.delayed(noted)(part, os.devnull) for part in parts], client=client)
    assert_same_model(ours, model.fit(X, y))


def test_a_regression(client):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 10)), rng.normal(size=300)
    model = MCFRegressor(corruption=Gaussian(0.5), l2=0.01).fit(X, y)
    ours = fit_dask(clone(model), da.from_array(X, chunks=(100, 10)), da.from_array(y, chunks=100))
    np.testing.assert_allclose(ours.coef_, model.coef_, atol=1e-8)


def test_files_are_read_once_by_the_workers(client, tmp_path):
    """Files that are gone after the first pass: nothing is read again as long as no worker is lost."""
    X, y = documents()
    paths = [
        as_svmlight(tmp_path / f"{i}.svmlight", *part, zero_based=True)
        for i, part in enumerate(in_parts(X, y))
    ]
    model = MCFClassifier(corruption=Poisson(), **TIGHT)

    def delete(number, value):
        for path in paths:
            path.unlink(missing_ok=True)

    ours = fit_dask(clone(model), paths, n_features=X.shape[1], on_pass=delete)
    assert_same_model(ours, model.fit(X, y))
    assert not any(path.exists() for path in paths)


def test_a_killed_worker_costs_nothing_but_its_partitions_read_again(client, tmp_path):
    X, y = documents()
    log = tmp_path / "made"
    parts = [dask.delayed(noted)(part, str(log)) for part in in_parts(X, y)]
    killed = []

    def kill(number, value):
        if number == 4:
            holdings = client.has_what()
            address = max(holdings, key=lambda worker: sum("_lay_out" in key for key in holdings[worker]))
            assert any("_lay_out" in key for key in holdings[address])
            killed.append(client.run(os.getpid, workers=[address])[address])
            os.kill(killed[0], signal.SIGKILL)

    model = MCFClassifier(corruption=Blankout(0.5), **TIGHT)
    ours = fit_dask(clone(model), parts, on_pass=kill)
    assert len(killed) == 1
    assert killed[0] not in client.run(os.getpid).values()
    assert_same_model(ours, model.fit(X, y))
    assert len(parts) < len(log.read_text().splitlines()) <= 2 * len(parts)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda X, y: (da.from_array(X, chunks=(70, 10)), da.from_array(y, chunks=70)), "span all columns"),
        (lambda X, y: (da.from_array(X, chunks=(70, 40)), da.from_array(y, chunks=100)), "blocks of rows"),
        (lambda X, y: (da.from_array(X, chunks=(70, 40)), y), "y must be one too"),
        (lambda X, y: ([dask.delayed(X)], y), "their own labels"),
        (lambda X, y: ([dask.delayed(X)],), "pair"),
        (lambda X, y: ([dask.delayed((X, y)), dask.delayed((X[:, 1:], y))],), "39 columns where 40"),
        (lambda X, y: ([dask.delayed((X, y[:-1]))],), "partition 0.*inconsistent"),
        (lambda X, y: ([dask.delayed((X[:0], y[:0]))],), "no rows"),
        (lambda X, y: (["missing.svmlight"],), "missing.svmlight"),
    ],
)
def test_partitions_that_do_not_fit_are_named(cut, message, client):
    X, y = documents()
    with pytest.raises((McfError, ValueError), match=message):
        fit_dask(MCFClassifier(), *cut(X.toarray(), y))


def test_without_a_client_or_without_dask_it_says_so():
    """In a process of its own, where nobody has made a client."""
    program = """
import sys
from mcf_cli import MCFClassifier, fit_dask
for missing in (False, True):
    if missing:
        sys.modules["distributed"] = None
    try:
        fit_dask(MCFClassifier(), [])
    except Exception as error:
        print(type(error).__name__, error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    first, second = said.splitlines()
    assert first.startswith("McfError no dask client: first create one")
    assert second.startswith("McfError") and "pip install '.[dask]'" in second
