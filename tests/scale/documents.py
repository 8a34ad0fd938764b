"""Word counts whose classes differ, small enough to be fitted in memory as well."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file


def documents(rows=300, terms=40, classes=2, seed=0):
    """(X, y) with labels -1, 0, 1, ... and an empty last column."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=rows)
    rate = 0.2 + 0.6 * np.eye(terms)[:classes][y]
    rate[:, -1] = 0.0
    return sparse.csr_matrix(rng.poisson(rate).astype(float)), (y - 1).astype(float)


def in_parts(X, y, size=70):
    """Pairs (X, y) of some rows each, the last one shorter."""
    return [(X[start : start + size], y[start : start + size]) for start in range(0, len(y), size)]


def as_svmlight(path, X, y, zero_based=False):
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return path


def centred(intercept):
    """Of three or more biases only the differences matter, and only they are determined."""
    return intercept - intercept.mean() if len(intercept) > 1 else intercept


def assert_same_model(ours, theirs, tolerance=1e-6):
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=tolerance)
    np.testing.assert_allclose(centred(ours.intercept_), centred(theirs.intercept_), atol=tolerance)
    assert ours.objective_ == pytest.approx(theirs.objective_, abs=1e-9)
    assert ours.n_features_in_ == theirs.n_features_in_
    assert ours.converged_
