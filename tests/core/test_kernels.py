"""The compiled loops agree with numpy, and the table with the formula."""

import os
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Dropout
from mcf_cli.core.design.dense import hardly_repeats
from mcf_cli.core.kernels import dispatch as kernels
from mcf_cli.core.kernels import threads
from mcf_cli.core.problem import Problem
from scipy.special import expit, logsumexp, softmax
from threadpoolctl import threadpool_info, threadpool_limits

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


def with_and_without_numba(monkeypatch, run):
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    compiled = run()
    monkeypatch.setenv("MCF_NUMBA", "0")
    return compiled, run()


@pytest.mark.parametrize("q", [0.5, 0.01, "each"])
@pytest.mark.parametrize("form", [Blankout, Dropout])
def test_sums_without_a_table_are_those_with_one(form, q, monkeypatch):
    X = sp.random(300, 5_000, density=0.05, random_state=1, format="csr")
    X.data = np.ceil(4 * X.data)
    y, w = rng.integers(0, 2, 300), rng.normal(size=(1, 5_000)) * rng.choice([0.1, 30.0, 1e5], 5_000)
    corruption = form(q=rng.uniform(0.01, 0.99, 5_000) if q == "each" else q)

    def run():
        return Problem(X, y).loss_gradient(corruption, 1e-3, w, np.array([0.3]))

    (value, g_w, g_b), (expected, e_w, e_b) = with_and_without_numba(monkeypatch, run)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(g_w, e_w, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(g_b, e_b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("z", [-700.0, -40.0, -20.0, -1e-9, 0.0, 3.0, 40.0])
def test_a_small_softplus_and_its_slope_keep_their_digits(z):
    value, rate = np.empty(1), np.empty(1)
    kernels.softplus_sigmoid(np.array([z]), value, rate)
    assert value[0] == pytest.approx(np.logaddexp(0.0, z), rel=1e-14)
    assert rate[0] == pytest.approx(expit(z), rel=1e-14)


@pytest.mark.parametrize("with_zero", [False, True])
@pytest.mark.parametrize("width", [1, 9, 65, 700])
def test_softmax_and_log_sums_are_scipys_on_one_thread_and_on_two(width, with_zero, monkeypatch):
    n = 140_000 // width
    scores = rng.normal(size=(n, width)) * rng.choice([0.1, 30.0, 1e5], (n, 1))
    padded = np.column_stack([scores, np.zeros(n)]) if with_zero else scores
    found = []
    for allowed in "12":
        monkeypatch.setenv("OMP_NUM_THREADS", allowed)
        found.append(kernels.log_sum_exp(scores.copy(), with_zero))
    np.testing.assert_allclose(found[0][0], logsumexp(padded, axis=1), rtol=1e-14, atol=1e-13)
    np.testing.assert_allclose(found[0][1], softmax(padded, axis=1)[:, :width], rtol=1e-12, atol=1e-14)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_little_work_is_not_compiled_and_numba_can_be_switched_off(monkeypatch):
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    assert kernels.compiled("narrow_product", (1 << 14) - 1) is None
    assert kernels.compiled("narrow_product", 1 << 14) is not None
    monkeypatch.setenv("MCF_NUMBA", "0")
    assert kernels.compiled("narrow_product", 1 << 14) is None


@pytest.mark.parametrize("allowed", ["1", "3"])
def test_threads_are_as_many_as_allowed(allowed, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert threads.threads() == int(allowed)


@pytest.mark.parametrize("allowed", ["", "0", "many"])
def test_threads_are_as_many_as_cores_without_a_valid_limit(allowed, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.threads() == cores


def test_threads_keep_the_order_and_a_thread_keeps_its_parts(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    def tens(n):
        return threads.in_threads(lambda unit: (10 * n + unit, threading.get_ident()), [0, 1, 2])

    results = threads.in_threads(tens, [0, 1, 2, 3])
    assert [[number for number, _ in row] for row in results] == [
        [10 * n, 10 * n + 1, 10 * n + 2] for n in range(4)
    ]
    assert all(len({thread for _, thread in row}) == 1 for row in results)
    assert threading.get_ident() not in {thread for row in results for _, thread in row}
    assert list(threads.a_few_at_a_time(lambda n: n * n, list(range(7)))) == [0, 1, 4, 9, 16, 25, 36]


@pytest.mark.parametrize("n", [1, 5, 1000])
def test_shares_are_one_a_thread_and_hold_every_entry_once(n, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    shares = threads._shares(n)
    assert len(shares) == 3
    np.testing.assert_array_equal(np.concatenate([np.arange(n)[share] for share in shares]), np.arange(n))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_makes_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.in_threads(str, [1, 2]) == ["1", "2"]
    child = os.fork()
    if not child:
        os._exit(0 if threads.in_threads(str, [3, 4]) == ["3", "4"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fits_that_overlap_leave_blas_with_the_threads_that_it_had():
    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = threads.one_blas_thread(), threads.one_blas_thread()
        first.__enter__()
        assert set(blas_threads()) <= {1}
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) <= {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def wide_pairs(width):
    """A matrix of pairs stored by columns, with enough of them to be worth compiling."""
    Z = sp.random(200, 3_000, density=0.02, format="csc", random_state=0)
    Z.data[:] = 1.0
    feature = rng.integers(0, 700, 3_000).astype(np.int32)
    return (
        Z,
        feature,
        rng.normal(size=(3_000, width)),
        rng.normal(size=(700, width)),
        rng.normal(size=(200, width)),
    )


@pytest.mark.parametrize("width", [8, 15, 65])
def test_loops_over_pairs_are_a_table_and_a_product(width):
    pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")
    Z, feature, slope, V, G = wide_pairs(width)
    assert kernels.loops_over_pairs(Z, feature, slope)
    np.testing.assert_allclose(
        kernels.pairs_along(Z, feature, slope, V), Z @ (slope * V[feature]), rtol=1e-12, atol=1e-12
    )
    gradient = np.zeros_like(V)
    np.add.at(gradient, feature, slope * (Z.T @ G))
    pulled = kernels.pairs_pullback(Z, feature, slope, np.asfortranarray(G), len(V))
    np.testing.assert_allclose(pulled, gradient, rtol=1e-12, atol=1e-12)


def test_loops_over_pairs_are_for_wide_tables_stored_by_columns_only():
    Z, feature, slope, _, _ = wide_pairs(8)
    assert not kernels.loops_over_pairs(Z, feature, slope[:, :7])
    assert not kernels.loops_over_pairs(Z.tocsr(), feature, slope)
    assert not kernels.loops_over_pairs(Z, feature, slope[:100])
    assert not kernels.loops_over_pairs(Z, feature.astype(np.int64), slope)


@pytest.mark.parametrize("y", [0, 4, 8])
@pytest.mark.parametrize("n", [5, 4_000], ids=["numpy", "compiled"])
def test_pairwise_margins_and_their_adjoint(n, y):
    W, others = rng.normal(size=(n, 9)), np.arange(9) != y
    T = kernels.pairwise_margins(W, y)
    np.testing.assert_array_equal(T, W[:, others] - W[:, [y]])
    G = rng.normal(size=T.shape)
    gradient = kernels.from_pairwise_margins(G, y, -1.0)
    np.testing.assert_array_equal(gradient[:, others], G)
    np.testing.assert_allclose(np.vdot(gradient, W), np.vdot(G, T), rtol=1e-10)
    np.testing.assert_allclose(kernels.from_pairwise_margins(G, y, 1.0)[:, y], G.sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("n", [5, 4_000], ids=["numpy", "compiled"])
def test_shares_are_added_to_their_rows(n):
    total, rows = rng.normal(size=(2 * n, 9)), rng.permutation(2 * n)[:n]
    share, expected = np.asfortranarray(rng.normal(size=(n, 9))), total.copy()
    expected[rows] += share
    kernels.add_at(total, rows, share)
    np.testing.assert_array_equal(total, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_forked_during_a_fit_counts_its_own_fits():
    with threads.one_blas_thread():
        child = os.fork()
        if not child:
            os._exit(threads._fits)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_products_with_ones_agree_with_scipys(form, width):
    Z = sp.random(3_000, 90, density=0.1, format=form, random_state=2)
    Z.data[:] = 1.0
    table = rng.normal(size=(90, width))
    np.testing.assert_allclose(kernels.coded_product(Z, table), Z.toarray() @ table, rtol=1e-12, atol=1e-12)
    assert kernels.coded_product(Z, table).flags.c_contiguous
    G = rng.normal(size=(3_000, width))
    np.testing.assert_array_equal(kernels.coded_adjoint(Z, Z.T, G), Z.T @ G)  # the loop adds in scipy's order


@pytest.mark.parametrize("numba", ["0", "1"])
@pytest.mark.parametrize("loss, K", [("logistic", 2), ("exponential", 2), ("exponential", 4)])
@pytest.mark.parametrize("q", [0.5, "each"])
def test_dense_rows_without_a_coding_are_the_same_problem_as_coded_ones(loss, K, q, numba, monkeypatch):
    """A dense X is evaluated entry by entry, the sparse one through its pairs: value, gradient, second derivative."""
    monkeypatch.setenv("MCF_NUMBA", numba)
    X, y = rng.normal(size=(2_500, 15)), rng.integers(0, K, 2_500)
    X[rng.random(X.shape) < 0.1] = 0.0
    corruption = Dropout(rng.uniform(0.01, 0.99, 15) if q == "each" else q)
    W, V = rng.normal(size=(2, 15, 1 if K == 2 else K)) * rng.choice([0.1, 30.0], (2, 15, 1))
    b = rng.normal(size=W.shape[1])
    found = []
    for data in (X, sp.csr_matrix(X)):
        problem = Problem(data, y, loss=loss)
        assert (problem._dense is None) is (data is not X)
        objective = problem._objective(corruption, 1e-3)
        value, g_W, g_b = objective.loss_gradient(0.1 * W, b)
        hessian = objective.expand(0.1 * W, b)[1]()[2]
        found.append((value, g_W, g_b, *hessian.product(V, b), *hessian.diagonal()))
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_dense_rows_give_the_same_bits_on_one_and_two_threads(monkeypatch):
    X, y = rng.normal(size=(5_000, 20)), rng.integers(0, 2, 5_000)
    fits = []
    for allowed in "12":
        monkeypatch.setenv("OMP_NUM_THREADS", allowed)
        fits.append(Problem(X, y).solve(Blankout(0.3), 1e-3))
    np.testing.assert_array_equal(fits[0].coef, fits[1].coef)
    np.testing.assert_array_equal(fits[0].intercept, fits[1].intercept)


def test_only_dense_columns_of_many_values_do_without_a_coding():
    continuous, counts = rng.normal(size=(300, 6)), rng.integers(0, 9, (300, 6)).astype(float)
    assert hardly_repeats(continuous, 2)
    assert not hardly_repeats(counts, 2)
    assert not hardly_repeats(sp.csr_matrix(continuous), 2)
    assert not hardly_repeats(continuous, 100)
