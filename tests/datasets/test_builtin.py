import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli.datasets import BUILTIN, available, builtin, load


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_data_is_marked_consistent_and_the_same_every_time(name, empty_home):
    data, again = load(name), load(name)
    assert available(name)
    assert (data.name, data.source) == (name, "builtin")
    assert data.X.shape == (len(data.y), len(data.feature_names))
    assert set(data.y) == set(range(len(data.class_names)))
    assert data.X.dtype == np.float64
    assert (data.X != again.X).sum() == 0
    assert np.array_equal(data.y, again.y)
    assert data.sha256 == again.sha256
    for train, test in data.splits.values():
        assert sorted([*train, *test]) == list(range(len(data.y)))
    assert not list(empty_home.iterdir())


def test_other_parameters_give_another_hash():
    assert load("builtin-reviews", n_test=100).sha256 != load("builtin-reviews").sha256


def test_digits_are_the_real_ones():
    data = load("builtin-digits")
    assert data.X.shape == (1797, 64)
    assert (data.X.min(), data.X.max()) == (0.0, 1.0)


def quadratic_error(data, q, l2):
    """Test error of the closed-form quadratic model under blankout noise q (0: the plain model)."""
    train, test = data.splits["predefined"]
    X = np.hstack([data.X.toarray(), np.ones((len(data.y), 1))])
    Y = 2.0 * np.eye(len(data.class_names))[data.y] - 1.0
    gram = X[train].T @ X[train]
    penalty = q / (1 - q) * np.diag(gram) + len(train) * l2
    penalty[-1] = 0.0
    weights = np.linalg.solve(gram + np.diag(penalty) + 1e-8 * np.eye(len(gram)), X[train].T @ Y[train])
    return np.mean((X[test] @ weights).argmax(axis=1) != data.y[test])


GAINS = {"builtin-reviews": 0.05, "builtin-topics": 0.01, "builtin-textures": 0.02}


@pytest.mark.parametrize(("name", "gain"), GAINS.items())
def test_blankout_helps_where_rare_features_carry_the_class(name, gain):
    data = load(name)
    plain = min(quadratic_error(data, 0.0, l2) for l2 in (1e-3, 1e-2, 1e-1))
    assert quadratic_error(data, 0.4, 1e-3) < plain - gain


def test_word_counts_follow_a_zipf_law():
    data = load("builtin-reviews")
    totals = np.asarray(data.X.sum(axis=0)).ravel()[:300]
    slope = np.polyfit(np.log(np.arange(1, 301)), np.log(totals), 1)[0]
    assert -1.1 < slope < -0.7
    assert data.X.nnz / np.prod(data.X.shape) < 0.05


def test_topics_are_unbalanced():
    counts = np.bincount(load("builtin-topics").y)
    assert counts.max() > 3 * counts.min()


@pytest.mark.parametrize("symbols", [4, 8])
def test_sequences_carry_the_motifs_and_some_copies(symbols):
    data = load("builtin-splice", symbols=symbols)
    assert data.blocks == symbols
    assert data.X.shape[1] == 60 * symbols
    assert (data.X.reshape(-1, symbols).sum(axis=1) == 1).all()
    assert len(np.unique(data.groups)) < len(data.y)
    shares = np.asarray(data.X[data.y == 0].mean(axis=0)).ravel()
    column = data.feature_names.index
    assert shares[column("+1G")] > 0.7
    assert shares[column("+2T")] > 0.7


def test_copies_have_equal_rows():
    data = load("builtin-splice")
    _, first, counts = np.unique(data.groups, return_index=True, return_counts=True)
    for row, group in [(first[k], data.groups[first[k]]) for k in np.flatnonzero(counts > 1)[:5]]:
        for other in np.flatnonzero(data.groups == group):
            assert (data.X[[row]] != data.X[[other]]).nnz == 0


def test_textures_are_counts_of_visual_words_at_every_position():
    data = load("builtin-textures")
    assert sp.issparse(data.X)
    assert (data.X.sum(axis=1) == 14 * 14).all()


def test_texture_images_differ_in_colour_within_a_class():
    images, y = builtin.texture_images(50)
    assert images.dtype == np.uint8
    means = images[y == 0].mean(axis=(1, 2))
    assert means.std(axis=0).min() > 20
