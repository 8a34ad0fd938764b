"""The value-coded design: one path for counts, pixels, one-hot and continuous data, in bounded memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout, MCFClassifier, PerFeature, Poisson
from mcf_cli.core.design import blocks as design
from mcf_cli.core.design.blocks import row_sum, structure
from mcf_cli.core.design.coding import CodeBook, encode
from mcf_cli.core.problem import Problem

rng = np.random.default_rng(0)
DATA = {
    "counts": rng.poisson(0.3, (300, 40)).astype(float),
    "pixels": rng.integers(0, 256, (200, 30)) * (rng.random((200, 30)) < 0.2) / 255.0,
    "one-hot": np.eye(4)[rng.integers(0, 4, (150, 8))].reshape(150, 32),
    "continuous": rng.normal(size=(120, 25)),
    "huge sparse counts": np.where(rng.random((80, 50)) < 0.05, rng.integers(1, 10**6, (80, 50)), 0).astype(
        float
    ),
    "empty rows and columns": np.zeros((20, 5)),
}


@pytest.mark.parametrize("name", DATA)
def test_coding_is_lossless(name):
    X = sp.csr_matrix(DATA[name])
    code = encode(X)
    rebuilt = sp.csr_matrix(
        (code.value[code.Z.indices], code.feature[code.Z.indices], code.Z.indptr), shape=X.shape
    )
    assert (rebuilt != X).nnz == 0
    if code.repeated:
        assert len(set(zip(code.feature, code.value, strict=True))) == len(code.feature)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_blocks_sum_every_entry(name, n_classes, monkeypatch):
    """Whatever the blocks and pieces, the loss is that of summing kappa over all entries."""
    X = DATA[name]
    y = np.arange(len(X)) % n_classes
    W = rng.normal(size=(1 if n_classes == 2 else n_classes, X.shape[1])) * 0.1
    b = rng.normal(size=len(W))
    corruption = Blankout(q=0.4)
    scores = np.vstack([np.zeros(X.shape[1]), W]) if n_classes == 2 else W
    biases = np.concatenate([[0.0], b]) if n_classes == 2 else b
    margins = np.array(
        [
            corruption.log_mgf(scores - scores[k], x).sum(axis=1) + biases - biases[k]
            for x, k in zip(X, y, strict=True)
        ]
    )
    expected = np.logaddexp.reduce(margins, axis=1).mean()
    results = []
    for cache in (design._CACHE, 512):  # 512 bytes: everything is cut into pieces
        monkeypatch.setattr(design, "_CACHE", cache)
        results.append(Problem(sp.csr_matrix(X), y, n_classes=n_classes).loss_gradient(corruption, 0.0, W, b))
    for value, gradient, _ in results:
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(gradient, results[0][1], atol=1e-12 * max(1.0, X.max()))


def test_pieces_and_threads_do_not_change_a_bit(monkeypatch):
    X = sp.random(20_000, 60, density=0.3, random_state=0, format="csr")
    X.data = np.ceil(X.data * 50)
    problem = Problem(X, np.arange(20_000) % 10, multiclass="shared")
    W, b = rng.normal(size=(10, 60)) * 0.01, np.zeros(10)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = problem.loss_gradient(Blankout(q=0.5), 0.0, W, b)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    two = problem.loss_gradient(Blankout(q=0.5), 0.0, W, b)
    assert len(next(iter(problem._designs.values())).blocks(Blankout())[0].parts[0][0].pieces) > 1
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_corruptions_that_differ_in_parameters_share_a_design():
    assert structure(Blankout(q=0.1), 5) == structure(Blankout(q=0.9), 5) == structure(Dropout(q=0.5), 5)
    assert structure(Blankout(q=0.1), 5) != structure(Blankout(q=0.0), 5)
    assert structure(Poisson(), 5) != structure(Poisson(clip=3.0), 5)
    mixed = PerFeature([([0, 1], Blankout(q=0.5))])
    assert structure(mixed, 5) != structure(Blankout(q=0.5), 5)


def peak_of_a_fit(X, y, **parameters) -> int:
    """Bytes above what was there before the fit."""
    model = MCFClassifier(max_iter=1, **parameters)
    model.fit(X, y)  # imports and compiled code are not the fit's
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("loss", ["logistic", "exponential", "quadratic"])
@pytest.mark.parametrize("multiclass", ["pairwise", "shared"])
def test_a_fit_needs_at_most_three_times_its_input(loss, multiclass):
    X = sp.random(8_000, 3_000, density=0.02, random_state=0, format="csr")
    X.data = np.ceil(X.data * 3)
    y = np.arange(8_000) % 4
    input_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    history = 30 * 8 * 4 * 3_000  # what L-BFGS keeps: 2 x 10 pairs, and a few copies more
    assert peak_of_a_fit(X, y, loss=loss, multiclass=multiclass) < 3 * input_bytes + history


def test_fewer_rows_than_columns_never_make_a_square_of_columns():
    X = sp.random(200, 20_000, density=0.005, random_state=0, format="csr")
    assert peak_of_a_fit(X, np.arange(200) % 2, loss="quadratic", l2=1e-3) < 20_000 * 20_000 * 8 / 100


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (511, 1), (1025, 10), (7, 600), (4, 0)])
def test_sums_over_rows(shape):
    G = np.random.default_rng(3).normal(size=shape)
    np.testing.assert_allclose(row_sum(G), G.sum(axis=0), rtol=1e-12, atol=1e-12)


def piece_formats(rows, columns, per_row, width):
    """Of a matrix with `per_row` ones in every row, as the design stores it for a table of that width."""
    indices = (np.arange(rows * per_row) * 7919 % columns).astype(np.int32)
    Z = sp.csr_matrix((np.ones(rows * per_row), indices, np.arange(rows + 1) * per_row), (rows, columns))
    pieces = design._pieces(Z, width)
    assert sum(piece.shape[0] for piece in pieces) == rows
    return [piece.format for piece in pieces]


def test_a_coded_matrix_is_stored_the_way_its_products_walk_fastest():
    assert piece_formats(50, 40, 3, 2) == ["csr"]  # little work
    assert piece_formats(40, 50, 3, 2) == ["csc"]  # more pairs than rows
    assert piece_formats(2000, 300, 100, 10) == ["csr"] * 4  # the table stays in the cache
    assert piece_formats(100_000, 14_000, 10, 10) == ["csc"] * 7  # it does not, nor do the sums
    assert piece_formats(20_000, 60_000, 50, 10) == ["csc"] * 2  # pieces take no more memory than the matrix


@pytest.mark.parametrize(("shape", "blocks"), [((6000, 50), 3), ((3, 140_000), 3), ((1000, 50), 1)], ids=str)
def test_values_that_hardly_repeat_are_cut_so_that_their_table_stays_in_the_cache(shape, blocks):
    X = sp.csr_matrix(np.random.default_rng(1).normal(size=shape))
    cut = list(design.Design(X, Blankout(0.5), None, 1, CodeBook()).blocks(Blankout(0.5)))
    assert len(cut) == blocks
    assert sum(len(np.arange(shape[0])[block.rows]) for block in cut) == shape[0]
