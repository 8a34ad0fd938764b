"""The marginalised autoencoder: its closed form, its blocks, and that sparse tables stay sparse."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout, Gaussian, MarginalizedAutoencoder
from mcf_cli.core import autoencoder
from mcf_cli.core.autoencoder import most_frequent
from sklearn.utils.estimator_checks import parametrize_with_checks

rng = np.random.default_rng(4)
COUNTS = rng.poisson(0.8, (40, 6)).astype(float)
WIDE = sp.random_array((60, 40), density=0.15, rng=np.random.default_rng(1), format="csr")


@parametrize_with_checks(
    [MarginalizedAutoencoder(n_layers=2), MarginalizedAutoencoder(n_frequent=3, n_layers=2, output="last")]
)
def test_scikit_learn_compliance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_layer_is_the_closed_form_with_an_uncorrupted_bias(l2):
    """W = E[P] E[Q]^-1 of marginalised stacked denoising autoencoders, from the survival of each row of [x; 1]."""
    q, N = 0.3, len(COUNTS)
    rows = np.column_stack([COUNTS, np.ones(N)])
    kept = np.array([1 - q] * 6 + [1.0])
    S = rows.T @ rows
    Q = S * np.outer(kept, kept)
    np.fill_diagonal(Q, np.diag(S) * kept)
    P = S[:6] * kept
    penalty = N * l2 * np.diag([1.0] * 6 + [0.0])
    W = P @ np.linalg.inv(Q + penalty)
    model = MarginalizedAutoencoder(Dropout(q), n_layers=1, l2=l2, output="last").fit(COUNTS)
    np.testing.assert_allclose(model.layers_[0][0], W[:, :6].T, atol=1e-9)
    np.testing.assert_allclose(model.layers_[0][1], W[:, 6], atol=1e-9)
    np.testing.assert_allclose(model.transform(COUNTS), np.tanh(rows @ W.T), atol=1e-9)


@pytest.mark.parametrize("corruption", [Dropout(q=0.4), Blankout(q=0.4)], ids=repr)
def test_a_layer_equals_least_squares_on_every_corrupted_copy(corruption):
    """All 2^D deletions of each row, weighed by their probability, with the clean row as target."""
    X = COUNTS[:8, :4]
    masks = np.array(list(product((0.0, 1.0), repeat=4)))
    weight = np.prod(np.where(masks > 0, 0.6, 0.4), axis=1)
    survivor = 1.0 if isinstance(corruption, Dropout) else 1 / 0.6
    copies = np.vstack([masks * row * survivor for row in X])
    u = np.sqrt(np.tile(weight, 8))[:, None]
    left, right = np.column_stack([copies, np.ones(len(copies))]), np.repeat(X, len(masks), axis=0)
    l2 = 0.05
    penalty = np.column_stack([np.sqrt(8 * l2) * np.eye(4), np.zeros(4)])
    expected = np.linalg.lstsq(np.vstack([u * left, penalty]), np.vstack([u * right, np.zeros((4, 4))]))[0]
    model = MarginalizedAutoencoder(corruption, n_layers=1, l2=l2).fit(X)
    np.testing.assert_allclose(np.vstack(model.layers_[0]), expected, atol=1e-9)


def test_layers_follow_one_another_and_stack_beside_the_input():
    outputs = {
        name: MarginalizedAutoencoder(Gaussian(0.5), n_layers=3, output=name).fit(COUNTS)
        for name in autoencoder.OUTPUTS
    }
    hidden, found = COUNTS, []
    for weights, bias in outputs["last"].layers_:
        hidden = np.tanh(hidden @ weights + bias)
        found.append(hidden)
    np.testing.assert_allclose(outputs["last"].transform(COUNTS), hidden, atol=1e-12)
    np.testing.assert_allclose(outputs["layers"].transform(COUNTS), np.hstack(found), atol=1e-12)
    stacked = outputs["stacked"].transform(COUNTS)
    np.testing.assert_allclose(stacked, np.hstack([COUNTS, *found]), atol=1e-12)
    assert len(outputs["stacked"].get_feature_names_out()) == stacked.shape[1] == 24
    again = MarginalizedAutoencoder(Gaussian(0.5), n_layers=1, output="last").fit(found[0])
    np.testing.assert_allclose(again.layers_[0][0], outputs["last"].layers_[1][0], atol=1e-9)


def test_blocks_reconstruct_the_frequent_features_and_are_averaged():
    model = MarginalizedAutoencoder(Dropout(0.5), n_layers=1, n_frequent=15, l2=0.01).fit(WIDE)
    held = (WIDE.toarray() != 0).sum(axis=0)
    assert len(model.frequent_) == 15
    assert held[model.frequent_].min() >= np.delete(held, model.frequent_).max()
    dense = WIDE.toarray()
    blocks = np.array_split(np.random.RandomState(0).permutation(40), 3)
    weights, bias = np.zeros((40, 15)), np.zeros(15)
    for block in blocks:
        rows = np.column_stack([dense[:, block], np.ones(60)])
        kept = np.array([0.5] * len(block) + [1.0])
        Q = rows.T @ rows * np.outer(kept, kept)
        np.fill_diagonal(Q, (rows**2).sum(axis=0) * kept)
        Q += 60 * 0.01 * np.diag([1.0] * len(block) + [0.0])
        solved = np.linalg.solve(Q, kept[:, None] * (rows.T @ dense[:, model.frequent_]))
        weights[block], bias = solved[:-1] / 3, bias + solved[-1] / 3
    np.testing.assert_allclose(model.layers_[0][0], weights, atol=1e-9)
    np.testing.assert_allclose(model.layers_[0][1], bias, atol=1e-9)


def test_sparse_tables_give_the_same_and_are_never_made_dense(monkeypatch):
    dense = MarginalizedAutoencoder(n_layers=2, n_frequent=8).fit(WIDE.toarray())
    made = []
    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_matrix):
        original = kind.toarray
        monkeypatch.setattr(
            kind, "toarray", lambda X, *a, f=original, **k: made.append(X.shape) or f(X, *a, **k)
        )
    sparse = MarginalizedAutoencoder(n_layers=2, n_frequent=8).fit(WIDE)
    found = sparse.transform(WIDE)
    monkeypatch.undo()
    assert all(shape[1] <= 8 for shape in made if shape[0] == 60), made
    assert sp.issparse(found) and found.shape == (60, 40 + 16)
    np.testing.assert_allclose(found.toarray(), dense.transform(WIDE.toarray()), atol=1e-9)


def test_wrong_parameters_are_refused():
    for wrong in ({"n_layers": 0}, {"n_frequent": 2.5}, {"output": "first"}, {"l2": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MarginalizedAutoencoder(**wrong).fit(COUNTS)
    assert list(most_frequent(np.array([[1.0, 0.0, 2.0], [1.0, 0.0, 0.0]]), 2)) == [0, 2]


@pytest.mark.parametrize("output", ["stacked", "layers", "last"])
@pytest.mark.parametrize("rows", [COUNTS, WIDE], ids=["dense", "sparse"])
def test_float32_rows_have_float32_features(output, rows):
    model = MarginalizedAutoencoder(n_layers=2, output=output).fit(rows)
    found, double = model.transform(rows.astype(np.float32)), model.transform(rows)
    assert found.dtype == np.float32 and double.dtype == np.float64
    assert abs(found - double).max() < 1e-4
