"""The compiled table agrees with the numpy one, and both with the formula."""

import numpy as np
import pytest
from mcf_cli.core import kernels

rng = np.random.default_rng(0)


def tables(T, feature, u_per_t, q):
    shape = (len(feature), T.shape[1])
    filled = np.empty(shape), np.empty(shape)
    kernels.blankout_table(T, feature, u_per_t, np.asarray(q), *filled)
    return filled


@pytest.mark.parametrize("width", [1, 10, 65, 700])
@pytest.mark.parametrize(
    "q", [0.5, 1e-9, 0.999, rng.uniform(0.01, 0.99, 30_000)], ids=["half", "tiny", "high", "each"]
)
def test_compiled_and_numpy_tables_agree(width, q, monkeypatch):
    pytest.importorskip("numba", reason="the compiled table is the optional extra [fast]")
    n_pairs = 30_000 if width < 10 or np.ndim(q) else 3_000  # enough to be worth compiling
    T = rng.normal(size=(50, width)) * rng.choice([0.1, 3.0, 1e5], 50)[:, None]
    feature, u_per_t = rng.integers(0, 50, n_pairs).astype(np.int32), rng.uniform(0, 4, n_pairs)
    compiled = tables(T, feature, u_per_t, q)
    monkeypatch.setenv("MCF_NUMBA", "0")
    reference = tables(T, feature, u_per_t, q)
    np.testing.assert_allclose(compiled[0], reference[0], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(compiled[1], reference[1], rtol=1e-12, atol=1e-14)


def test_the_table_is_the_formula():
    T = rng.normal(size=(7, 3))
    feature, u_per_t, q = np.arange(7, dtype=np.int32), rng.uniform(0, 3, 7), 0.3
    value, slope = tables(T, feature, u_per_t, q)
    u = T * u_per_t[:, None]
    mgf = q + (1 - q) * np.exp(u)
    np.testing.assert_allclose(value, np.log(mgf), atol=1e-14)
    np.testing.assert_allclose(slope, (1 - q) * np.exp(u) / mgf * u_per_t[:, None], atol=1e-14)
