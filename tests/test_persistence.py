"""Model files: what is saved comes back, and nothing else is accepted."""

import io
import json
import zipfile

import mcf_cli
import numpy as np
import pytest
from mcf_cli import Blankout, Gaussian, MCFClassifier, MCFRegressor, Multinomial, PerFeature, Poisson

X = np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float)
WORDS = np.array(["ham", "spam", "eggs"])


@pytest.mark.parametrize(
    "model",
    [
        MCFClassifier(corruption=Blankout(q=np.linspace(0.1, 0.6, 6)), l2=0.01),
        MCFClassifier(corruption=None, loss="exponential", l2=0.01),
        MCFClassifier(
            corruption=PerFeature([([0, 1], Poisson(clip=2.0)), (slice(2, 4), Gaussian(0.5))]), l2=0.01
        ),
        MCFClassifier(corruption="poisson", loss="quadratic"),
    ],
    ids=lambda model: str(model.corruption),
)
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        WORDS,
        WORDS.astype(object),
        np.array([3, 7]),
        np.array(["2024-02-29", "2025-01-01"], dtype="datetime64[D]"),
        np.array(["2024-02-29T12:00:00.000000001", "2025-01-01"], dtype="datetime64[ns]"),
        np.array([1, 90], dtype="timedelta64[15m]"),
        np.array([False, True]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_a_saved_classifier_predicts_the_same(model, labels, tmp_path):
    model.fit(X, labels[np.arange(40) % len(labels)])
    model.save(tmp_path / "model.npz")
    again = mcf_cli.load(tmp_path / "model.npz")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.classes_.dtype == (model.classes_.dtype if model.classes_.dtype != object else WORDS.dtype)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert str(again.get_params()) == str(model.get_params()) or isinstance(model.corruption, PerFeature)
    again.fit(X, labels[np.arange(40) % len(labels)])
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-12)


def test_regressor_and_multinomial_parameters_come_back(tmp_path):
    one_hot = np.eye(3)[np.arange(40) % 3]
    confusion = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    model = MCFRegressor(corruption=Multinomial(blocks=3, confusion=confusion), l2=0.1).fit(one_hot, X[:, 0])
    model.save(tmp_path / "model.npz")
    again = mcf_cli.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(one_hot), model.predict(one_hot))
    np.testing.assert_array_equal(again.corruption.confusion, confusion)


def fitted_bytes(tmp_path) -> bytes:
    MCFClassifier().fit(X, np.arange(40) % 2).save(tmp_path / "model.npz")
    return (tmp_path / "model.npz").read_bytes()


def test_a_truncated_or_foreign_file_is_refused_clearly(tmp_path):
    whole = fitted_bytes(tmp_path)
    foreign = io.BytesIO()
    np.savez(foreign, a=np.ones(3))
    for number, content in enumerate([whole[: len(whole) // 2], b"", b"<html>", foreign.getvalue()]):
        path = tmp_path / f"bad{number}.npz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a model file of mcf"):
            mcf_cli.load(path)


@pytest.mark.parametrize("writer", [None, "9.3.1"])
def test_a_file_of_a_newer_version_is_called_that_and_says_what_to_do(writer, tmp_path):
    """Whatever else it holds: here an array of a type that this version does not read."""
    path = tmp_path / "model.npz"
    header = {"format": "mcf-model", "version": 7} | ({"mcf": writer} if writer else {})
    np.savez(path, header=np.array(json.dumps(header)), coef_=np.zeros(2, dtype="V8"))
    with pytest.raises(ValueError, match="newer version of mcf") as refusal:
        mcf_cli.load(path)
    assert "Upgrade mcf" in str(refusal.value) and "is not a model file" not in str(refusal.value)
    assert writer is None or writer in str(refusal.value)


@pytest.mark.parametrize("version", [0, -1, "2", True, 1.5, None])
def test_a_version_that_never_was_is_not_called_newer(version, tmp_path):
    path = tmp_path / "model.npz"
    np.savez(path, header=np.array(json.dumps({"format": "mcf-model", "version": version})))
    with pytest.raises(ValueError, match="is not a model file of mcf"):
        mcf_cli.load(path)


def test_pickled_arrays_and_false_sizes_are_refused(tmp_path):
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, header=np.array(json.dumps({})), coef_=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="Python objects"):
        mcf_cli.load(pickled)
    huge = tmp_path / "huge.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(huge, "w") as archive:
        archive.writestr("coef_.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(ValueError, match="claims shape"):
        mcf_cli.load(huge)


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path):
    before = fitted_bytes(tmp_path)
    model = MCFClassifier().fit(X, np.arange(40) % 2)
    model.classes_ = np.array([1, "a"], dtype=object)
    with pytest.raises(ValueError, match="mixed types"):
        model.save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
