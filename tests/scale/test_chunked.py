"""A model fitted in chunks is the model fitted in memory, without the memory."""

import gc
import tracemalloc

import numpy as np
import pytest
from mcf_cli import Blankout, Chunks, Gaussian, MCFClassifier, MCFRegressor, Poisson, fit_chunks
from mcf_cli.scale import fits
from mcf_cli.scale.sums import Targets, distinct, task_of
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file

from tests.scale.documents import as_svmlight, assert_same_model, documents, in_parts

TIGHT = {"l2": 1e-2, "max_iter": 300, "tol": 1e-9}


@pytest.mark.parametrize("loss", ["quadratic", "exponential", "logistic"])
@pytest.mark.parametrize("corruption", [Blankout(0.5), Poisson()], ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_a_svmlight_file_in_chunks_gives_the_model_of_the_whole(loss, corruption, classes, tmp_path):
    path = as_svmlight(tmp_path / "all.svmlight", *documents(classes=classes))
    model = MCFClassifier(loss=loss, corruption=corruption, **TIGHT)
    chunks = Chunks.write(path, tmp_path / "chunks", entries=400)
    assert len(chunks) > 3
    assert_same_model(fit_chunks(clone(model), chunks), model.fit(*load_svmlight_file(str(path))))


@pytest.mark.parametrize(
    "options",
    [
        {"multiclass": "shared"},
        {"surrogate": "quadratic"},
        {"surrogate": "variational"},
        {"fit_intercept": False},
    ],
    ids=str,
)
def test_every_option_of_the_classifier(options):
    X, y = documents(rows=60, terms=10, classes=3)
    model = MCFClassifier(corruption=Blankout(0.4), **TIGHT, **options)
    assert_same_model(fit_chunks(clone(model), in_parts(X, y, 25)), model.fit(X, y))


def test_measurements_that_hardly_repeat():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 20)), rng.integers(0, 2, size=300)
    model = MCFClassifier(corruption=Blankout(0.3), **TIGHT)
    assert_same_model(fit_chunks(clone(model), in_parts(X, y)), model.fit(X, y))


@pytest.mark.parametrize("targets", [(), (3,)], ids=["one-target", "three-targets"])
def test_a_regression(targets):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 10)), rng.normal(size=(300, *targets))
    model = MCFRegressor(corruption=Gaussian(0.5), l2=0.01).fit(X, y)
    ours = fit_chunks(clone(model), in_parts(X, y))
    np.testing.assert_allclose(ours.coef_, model.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.predict(X), model.predict(X), atol=1e-8)


def test_names_as_labels_and_classes_that_a_chunk_lacks():
    X, y = documents(classes=3)
    order = np.argsort(y, kind="stable")
    X, names = X[order], np.array(["b", "a", "long name"])[(y[order] + 1).astype(int)]
    model = MCFClassifier(corruption=Poisson(), **TIGHT)
    ours = fit_chunks(clone(model), in_parts(X, names))
    assert_same_model(ours, model.fit(X, names))
    np.testing.assert_array_equal(ours.predict(X), model.predict(X))


def test_memory_holds_a_chunk_and_not_the_data(tmp_path):
    """Twenty chunks; the traced peak leaves out what is mapped from files, which the system can drop at any time."""
    chunks = Chunks.write((documents(rows=1000, terms=200, seed=seed) for seed in range(20)), tmp_path)
    data = sum(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes for X, _ in chunks)
    model = MCFClassifier(corruption=Blankout(0.5), l2=1e-3, max_iter=3)
    fit_chunks(clone(model), chunks)  # imports and compiled code are not the fit's
    tracemalloc.start()
    fit_chunks(model, chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * data


def test_the_folder_is_left_as_it_was(tmp_path):
    X, y = documents()
    chunks = Chunks.write(in_parts(X, y), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    first = fit_chunks(MCFClassifier(l2=1e-3), chunks)
    second = fit_chunks(MCFClassifier(l2=1e-3), Chunks(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_passes_are_reported_and_a_warm_start_needs_few():
    X, y = documents()
    passes = []
    model = MCFClassifier(l2=1e-3, warm_start=True)
    fit_chunks(model, in_parts(X, y), on_pass=lambda number, value: passes.append((number, value)))
    assert [number for number, _ in passes] == list(range(1, len(passes) + 1))
    assert passes[-1][1] == model.objective_ < passes[0][1]
    again = []
    fit_chunks(model, in_parts(X, y), on_pass=lambda number, value: again.append(value))
    assert len(again) < len(passes) / 2  # of which a few prove that it is the end


def test_what_cannot_be_fitted_is_said():
    X, y = documents()
    with pytest.raises(ValueError, match="two classes"):
        fit_chunks(MCFClassifier(), [(X, np.zeros(len(y)))])
    with pytest.raises(ValueError, match="Unknown label type"):
        fit_chunks(MCFClassifier(), [(X, np.linspace(0, 1, len(y)))])
    with pytest.raises(ValueError, match="Poisson corruption needs counts"):
        fit_chunks(MCFClassifier(corruption="poisson"), [(X, y), (-X, y)])


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("corruption", [None, Gaussian(sigma=0.1)], ids=str)
def test_least_squares_in_chunks_stand_columns_far_from_zero_and_of_any_size(offset, corruption):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X @ rng.normal(size=4) + 0.01 * rng.normal(size=200)
    X = offset + X * (1.0 if offset else [1e-4, 1.0, 1e4, 1.0])
    model = fit_chunks(MCFRegressor(corruption=corruption), [(X[k::4], y[k::4]) for k in range(4)])
    whole = MCFRegressor(corruption=corruption).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-5)


def test_nothing_of_a_chunk_stays_in_memory_once_it_is_laid_out(tmp_path):
    """Twelve chunks leave less behind than the entries of one of them take."""
    X, y = documents(rows=60_000)
    chunks = Chunks.write(in_parts(X, y, size=5000), tmp_path / "chunks")
    one = 8 * chunks.matrix(0).nnz
    targets = Targets(True, [distinct(y, True)])
    task = task_of(MCFClassifier(corruption=Blankout(q=0.5)), chunks.n_features, targets)
    W, b = np.zeros((chunks.n_features, 1)), np.zeros(1)
    with fits._Layout(chunks, task, targets.encode) as layout:
        layout._share(0, W, b)
        tracemalloc.start()
        layout.sums(W, b)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(chunks) == 12
    assert kept < one
