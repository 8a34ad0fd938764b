"""Input that is wrong in ways of its own ends in a line or two that say so, never in a traceback."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import MCFRegressor

from tests.faults.real_mcf import mcf, refused


def test_a_model_file_whose_weights_have_the_wrong_shape(tmp_path):
    header = {"format": "mcf-model", "version": 1, "model": "MCFClassifier", "parameters": {}}
    header["fitted"] = {"n_features_in_": 2}
    arrays = {"coef_": np.ones(2), "intercept_": np.zeros(1), "classes_": np.array(["no", "yes"])}
    np.savez(tmp_path / "m.npz", header=np.array(json.dumps(header)), **arrays)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    result = mcf("predict", "--model", tmp_path / "m.npz", "--data", tmp_path / "rows.csv")
    assert result.code == 2 and "do not fit" in refused(result)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("a,b,label\n" + "1,2,x\n2,1,y\n0,2,x\n" * 10)
    return path


def check(*settings):
    """`mcf sweep-q --dry-run` with these settings."""
    return mcf("sweep-q", "--loss", "quadratic", "--q", "0.5", "--dry-run", *settings)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("{seed: -1}", "seed is -1"),
        ("{test_fraction: abc}", "test_fraction is 'abc'"),
        ("{test: 7}", "test is 7"),
    ],
)
def test_an_option_of_a_data_set_that_is_out_of_range(own, options, says):
    result = check("--set", f"datasets=[{{name: {own}, options: {options}}}]")
    assert result.code == 2 and says in refused(result) and "expected" in result.err


def test_an_option_of_built_in_data_that_is_out_of_range():
    result = check("--set", "datasets=[{name: builtin-reviews, options: {n_train: -5}}]")
    assert result.code == 2 and "n_train is -5" in refused(result)


def test_a_data_home_of_nobody():
    result = mcf("data", "list", MCF_DATA_HOME="~nobody-of-that-name/x")
    assert result.code == 2 and "MCF_DATA_HOME=~nobody-of-that-name/x" in refused(result)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_a_sparse_file_is_read_as_its_format_says(tmp_path, kind):
    """A square matrix: rows and columns of the same length could be taken for each other."""
    X = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(X).asformat(kind))
    MCFRegressor(corruption=None).fit(X, X @ [1.0, 10.0, 100.0]).save(tmp_path / "m.npz")
    result = mcf("predict", "--model", tmp_path / "m.npz", "--data", tmp_path / "rows.npz")
    if kind == "coo":
        assert result.code == 2 and "tocsr" in refused(result)
    else:
        predicted = [float(line.split(",")[1]) for line in result.out.splitlines()[1:]]
        assert np.allclose(predicted, X @ [1.0, 10.0, 100.0])


def test_a_model_file_of_a_newer_version(tmp_path):
    np.savez(
        tmp_path / "m.npz", header=np.array(json.dumps({"format": "mcf-model", "version": 7, "mcf": "9.1"}))
    )
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    result = mcf("predict", "--model", tmp_path / "m.npz", "--data", tmp_path / "rows.csv")
    assert result.code == 2 and "newer version of mcf (9.1)" in refused(result)
    assert "Upgrade mcf" in result.err and "is not a model" not in result.err
