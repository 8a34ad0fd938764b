"""In chunks and on a cluster as in memory: weights of rows and classes, names of columns, csv files."""

import numpy as np
import pandas as pd
import pytest
from mcf_cli import (
    Blankout,
    Chunks,
    Dropout,
    MCFClassifier,
    MCFClassifierCV,
    MCFRegressor,
    MCFRegressorCV,
    PerFeature,
    fit_chunks,
    fit_dask,
)
from mcf_cli.errors import McfError
from sklearn.base import clone

from tests.scale.documents import assert_same_model, documents, in_parts

TIGHT = {"l2": 1e-2, "max_iter": 300, "tol": 1e-9}


def weighted(X, y, weight, size=70):
    cuts = [slice(start, start + size) for start in range(0, len(y), size)]
    return [(X[cut], y[cut], weight[cut]) for cut in cuts]


def framed(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.poisson(2.0, (rows, 3)).astype(float), columns=["age", "left", "right"])
    return X, np.where(X["age"] + rng.normal(size=rows) > X["left"], "old", "young")


@pytest.mark.parametrize("loss", ["quadratic", "exponential", "logistic"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1.0: 3.0}], ids=str)
def test_weights_in_chunks_are_those_of_the_whole(loss, class_weight):
    X, y = documents(classes=3)
    weight = np.random.default_rng(1).uniform(0.0, 3.0, len(y)).round(1)
    weight[70:140] = 0.0  # a chunk without any
    model = MCFClassifier(loss=loss, corruption=Blankout(0.4), class_weight=class_weight, **TIGHT)
    ours = fit_chunks(clone(model), weighted(X, y, weight))
    assert_same_model(ours, model.fit(X, y, sample_weight=weight))


def test_a_class_weight_needs_no_weights_of_rows():
    X, y = documents(classes=2)
    y[:100] = y.max()
    model = MCFClassifier(corruption=Blankout(0.4), class_weight="balanced", **TIGHT)
    assert_same_model(fit_chunks(clone(model), in_parts(X, y)), model.fit(X, y))


def test_a_weighted_regression_in_chunks():
    rng = np.random.default_rng(2)
    X, y, weight = rng.normal(size=(300, 10)), rng.normal(size=300), rng.uniform(0.1, 4.0, 300)
    model = MCFRegressor(corruption=Blankout(0.3), l2=0.01).fit(X, y, sample_weight=weight)
    ours = fit_chunks(clone(model), weighted(X, y, weight))
    np.testing.assert_allclose(ours.coef_, model.coef_, atol=1e-8)


def test_names_of_frames_reach_the_model_and_its_corruption(tmp_path):
    X, y = framed()
    model = MCFClassifier(corruption=PerFeature([(["left", "right"], Dropout(0.3))]), **TIGHT)
    chunks = Chunks.write([(X[:50], y[:50]), (X[50:], y[50:])], tmp_path / "chunks")
    ours = fit_chunks(clone(model), Chunks(chunks.folder))
    assert_same_model(ours, model.fit(X, y))
    assert list(ours.feature_names_in_) == ["age", "left", "right"]
    np.testing.assert_allclose(
        ours.predict_proba(X[:5], marginalize=True), model.predict_proba(X[:5], marginalize=True), atol=1e-6
    )
    with pytest.raises(McfError, match="name their columns differently"):
        Chunks.write([(X, y), (X[["left", "age", "right"]], y)], tmp_path / "others")


def test_a_csv_file_in_chunks_is_the_table(tmp_path):
    X, y = framed()
    X.assign(label=y).to_csv(tmp_path / "all.csv", index=False)
    chunks = Chunks.write(tmp_path / "all.csv", tmp_path / "chunks", entries=100)
    assert len(chunks) > 3 and chunks.feature_names == ("age", "left", "right")
    model = MCFClassifier(corruption=Blankout(0.3), **TIGHT)
    assert_same_model(fit_chunks(clone(model), chunks), model.fit(X, y))


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_weights_that_will_not_do_are_named(bad):
    X, y = documents()
    with pytest.raises(ValueError, match="chunk 1: sample_weight"):
        fit_chunks(MCFClassifier(), [(X, y, np.ones(len(y))), (X, y, np.full(len(y), bad))])


def test_weights_and_names_on_a_cluster(tmp_path):
    distributed, da = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    from dask import delayed

    X, y = documents(classes=3)
    X, weight = X.toarray(), np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    model = MCFClassifier(corruption=Blankout(0.4), class_weight="balanced", **TIGHT)
    frame, names = framed()
    frame.assign(label=names).to_csv(tmp_path / "all.csv", index=False)
    by_name = MCFClassifier(corruption=PerFeature([(["left"], Dropout(0.3))]), **TIGHT)
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as client:
        cut = [da.from_array(array, chunks=(100, *array.shape[1:])) for array in (X, y, weight)]
        ours = fit_dask(clone(model), *cut[:2], client=client, sample_weight=cut[2])
        frames = [delayed((frame[:70], names[:70])), delayed((frame[70:], names[70:]))]
        of_frames = fit_dask(clone(by_name), frames, client=client)
        of_file = fit_dask(clone(by_name), [str(tmp_path / "all.csv")], client=client)
        with pytest.raises(ValueError, match="cut into the same blocks"):
            fit_dask(clone(model), *cut[:2], client=client, sample_weight=weight)
    assert_same_model(ours, model.fit(X, y, sample_weight=weight))
    by_name.fit(frame, names)
    for found in (of_frames, of_file):
        assert_same_model(found, by_name)
        assert list(found.feature_names_in_) == ["age", "left", "right"]


@pytest.mark.parametrize("search", [MCFClassifierCV(), MCFRegressorCV()], ids=["classifier", "regressor"])
def test_a_search_is_refused_where_rows_are_not_in_memory(search):
    X, y = framed()
    for fit in (lambda: fit_chunks(search, [(X, y)]), lambda: fit_dask(search, [(X, y)])):
        with pytest.raises(ValueError, match="chooses in memory: fit it to a sample of the rows"):
            fit()


@pytest.mark.parametrize(
    ("labels", "classes"), [(["3", "10"], [3, 10]), (["no", "yes"], ["no", "yes"])], ids=str
)
def test_labels_of_a_csv_file_are_what_a_table_would_have(tmp_path, labels, classes):
    lines = "".join(f"{row},{labels[row % 2]}\n" for row in range(8))
    (tmp_path / "rows.csv").write_text(f"a,label\n{lines}")
    found = fit_chunks(MCFClassifier(l2=0.1), tmp_path / "rows.csv").classes_
    assert found.tolist() == classes and found.dtype == np.array(classes).dtype
