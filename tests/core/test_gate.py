"""However a table is stored it is the same table, and no compiled loop takes what it does not know."""

import importlib.util
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli import Blankout, Chunks, Dropout, MCFClassifier, MCFRegressor, PerFeature, Poisson, fit_chunks
from mcf_cli.baselines.explicit import Explicit
from mcf_cli.baselines.fdrop import Fdrop
from mcf_cli.core.kernels import dispatch as gate
from mcf_cli.core.kernels import dispatch as kernels
from mcf_cli.core.problem import Problem

LOSSES = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "jensen": {},
    "jensen-shared": {"multiclass": "shared"},
    "variational": {"surrogate": "variational"},
    "approximation": {"surrogate": "quadratic"},
}


def table(rows=60, columns=12, seed=0):
    """Counts; their halves and sums are exact, so that what is split up adds up to the same bits."""
    rng = np.random.default_rng(seed)
    return sp.csr_matrix(rng.poisson(0.6, (rows, columns)).astype(float)), np.arange(rows) % 3


def long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def backwards(X):
    """Each row's entries from the last column to the first."""
    order = np.concatenate(
        [np.arange(start, end)[::-1] for start, end in zip(X.indptr, X.indptr[1:], strict=False)]
    )
    return sp.csr_matrix((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def in_halves(X):
    """Every entry twice, with half its value, as scipy's recipe for term-document matrices may leave it."""
    halves = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sp.csr_matrix(halves, shape=X.shape)


def with_zeros(X):
    """A stored zero beside each entry, in column 0."""
    data, indices = np.zeros(2 * X.nnz), np.zeros(2 * X.nnz, dtype=np.int32)
    data[::2], indices[::2] = X.data, X.indices
    return sp.csr_matrix((data, indices, 2 * X.indptr), shape=X.shape)


FORMS = {
    "int64": long_indices,
    "backwards": backwards,
    "halves": in_halves,
    "zeros": with_zeros,
    "csr_array": sp.csr_array,
    "csc": sp.csc_matrix,
    "csc_array": sp.csc_array,
    "coo": lambda X: sp.coo_matrix(in_halves(X)),
    "lil": sp.lil_matrix,
    "float32": lambda X: X.astype(np.float32),
    "read-only": lambda X: frozen(X.copy()),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
TELLING_FORMS = pytest.mark.parametrize("form", [long_indices, backwards, in_halves, with_zeros])


def arrays_of(X):
    return [getattr(X, name) for name in ("data", "indices", "indptr", "row", "col") if hasattr(X, name)]


def frozen(X):
    for part in arrays_of(X):
        part.flags.writeable = False
    return X


@EVERY_FORM
def test_every_form_becomes_one_and_stays_what_it_is(form):
    X, _ = table()
    given = form(X)
    before = [np.array(part, copy=True) for part in arrays_of(given)]
    found = gate.canonical(given)
    assert isinstance(found, sp.csr_matrix) and found.has_canonical_format
    for ours, theirs in zip(arrays_of(found), arrays_of(X), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for part, was in zip(arrays_of(given), before, strict=True):
        np.testing.assert_array_equal(part, was)


def test_what_is_canonical_is_not_copied():
    X, _ = table()
    found = gate.canonical(X)
    assert all(
        np.shares_memory(ours, theirs) for ours, theirs in zip(arrays_of(found), arrays_of(X), strict=True)
    )


@pytest.mark.parametrize("rows", [[0, 2, 2, 3], [0, 0, 0, 3], [0, 3, 3, 3], [0, 0, 0, 0]])
def test_empty_rows_hide_no_entry_that_stands_twice(rows):
    columns, values = np.array([1, 1, 0])[: rows[-1]], np.ones(rows[-1])
    X = sp.csr_matrix((values, columns, rows), shape=(3, 2))
    np.testing.assert_array_equal(gate.canonical(X).toarray(), X.toarray())
    assert sp.csr_matrix(gate.canonical(X)).has_canonical_format


def broken(what):
    X, y = table()
    match what:
        case "a column too many":
            X.indices[3] = X.shape[1]
        case "a column below zero":
            X.indices[3] = -1
        case "a row that ends before it begins":
            X.indptr[5] = X.indptr[4] - 1
    return X, y


@pytest.mark.parametrize(
    "what", ["a column too many", "a column below zero", "a row that ends before it begins"]
)
def test_a_matrix_that_would_be_read_out_of_bounds_is_refused(what):
    X, y = broken(what)
    with pytest.raises(ValueError, match="not a valid sparse matrix"):
        Problem(X, y)
    with pytest.raises(ValueError, match="not a valid sparse matrix"):
        Fdrop(X, y)


@pytest.mark.parametrize("corruption", [Blankout(0.4), Dropout(0.4)], ids=["blankout", "dropout"])
@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
@TELLING_FORMS
def test_every_form_trains_the_same_model(form, options, corruption):
    if options.get("surrogate") == "quadratic" and isinstance(corruption, Dropout):
        corruption = Blankout(q=np.linspace(0.1, 0.8, 12))
    X, y = table()
    model, plain = (
        MCFClassifier(corruption=corruption, l2=0.01, max_iter=30, **options).fit(data, y)
        for data in (form(X), X)
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    np.testing.assert_array_equal(model.predict(form(X)), plain.predict(X))


@TELLING_FORMS
def test_every_form_gives_the_same_regression_and_leave_one_out_error(form):
    X, y = table()
    for model in (MCFRegressor(Blankout(0.3), l2=0.01), MCFClassifier("quadratic", Dropout(0.3), l2=0.01)):
        assert model.loo_error(form(X), y) == model.loo_error(X, y)
    np.testing.assert_array_equal(
        MCFRegressor(Dropout(0.3), l2=0.01).fit(form(X), y).coef_,
        MCFRegressor(Dropout(0.3), l2=0.01).fit(X, y).coef_,
    )


@pytest.mark.parametrize("method", ["exact", "bound", "sample"])
@TELLING_FORMS
def test_every_form_gives_the_same_marginal_predictions(form, method):
    X, y = table()
    model = MCFClassifier(corruption=Blankout(0.3), l2=0.01, max_iter=10).fit(X, y)
    options = {"marginalize": True, "method": method, "n_samples": 5}
    np.testing.assert_array_equal(model.predict_proba(form(X), **options), model.predict_proba(X, **options))


@pytest.mark.parametrize(
    "corruption",
    [Blankout(0.3), Dropout(0.3), Poisson(), Poisson(clip=1.0), PerFeature([(slice(0, 5), Dropout(0.5))])],
    ids=str,
)
@TELLING_FORMS
def test_every_form_is_corrupted_alike(form, corruption):
    X, _ = table()
    copies = [corruption.sample(data, np.random.default_rng(3)).toarray() for data in (form(X), X)]
    np.testing.assert_array_equal(*copies)


@pytest.mark.parametrize("options", [{}, {"loss": "exponential"}, {"loss": "quadratic"}], ids=str)
@TELLING_FORMS
def test_every_form_trains_the_same_model_in_chunks(form, options):
    X, y = table()
    model, plain = (
        fit_chunks(
            MCFClassifier(corruption=Dropout(0.4), l2=0.01, max_iter=30, **options),
            [(data[:30], y[:30]), (data[30:], y[30:])],
        )
        for data in (form(X), X)
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_chunks_on_disk_that_hold_an_entry_twice_train_the_same_model(tmp_path):
    """A folder may have been written by a version that kept what it was given."""
    X, y = table()
    model = MCFClassifier(corruption=Dropout(0.4), l2=0.01, max_iter=30)
    plain = fit_chunks(model, [(X, y)]).coef_
    chunks, halves = Chunks.write([(X, y)], tmp_path), in_halves(X)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"000000.{name}.npy", getattr(halves, name))
    np.testing.assert_array_equal(fit_chunks(model, chunks).coef_, plain)


@TELLING_FORMS
def test_every_form_gives_the_same_rivals(form):
    X, y = table()
    fdrop, explicit = (
        [problem(data).coef for data in (form(X), X)]
        for problem in (
            lambda data: Fdrop(data, y).solve(0.01, deletions=2, max_iter=4),
            lambda data: Explicit(data, y, Dropout(0.5)).solve(0.01, copies=2),
        )
    )
    np.testing.assert_array_equal(*fdrop)
    np.testing.assert_array_equal(*explicit)


@pytest.mark.parametrize(
    "labels", [[0, 1, 3], [0, -1, 1], [0, 1]], ids=["too large", "below zero", "too few"]
)
def test_fdrop_refuses_labels_that_are_no_codes(labels):
    with pytest.raises(ValueError, match="a code from 0 to 2 for each row"):
        Fdrop(np.eye(3), labels, n_classes=3)


# -- compiled loops -----------------------------------------------------------------------------------------
needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="the compiled loops are the optional extra [fast]"
)
MODULES = ("mcf_cli.core.kernels.loops", "mcf_cli.core.kernels.row_loops", "mcf_cli.baselines.fdrop_loops")


def arguments():
    """What each loop takes: 4 rows, 5 features, 6 pairs (or columns) and 3 classes, with 10 entries."""
    rng = np.random.default_rng(1)

    def numbers(*shape):
        return rng.normal(size=shape)

    def places(below, count=10):
        return rng.integers(0, below, count).astype(np.uint32)

    def starts(of):
        return np.linspace(0, 10, of + 1).astype(np.uint32)

    def pairs():
        return starts(6), places(4), places(5, 6)

    labels, some = rng.integers(0, 3, 4), np.array([3, 1])
    each, three = numbers(6), (numbers(3, 6), numbers(3))
    return {
        "blankout_table_loop": (numbers(5, 3), places(5, 6), each, each, each, numbers(6, 3), numbers(6, 3)),
        "blankout_sums_loop": (
            *(numbers(5), places(5, 6), numbers(6), 0.5, numbers(6), numbers(6), *pairs()[:2]),
            *(numbers(6), numbers(4)),
        ),
        "blankout_rows_loop": (
            numbers(4, 5),
            *(numbers(5) for _ in range(3)),
            0.5,
            numbers(4, 5),
            numbers(4),
        ),
        "blankout_ends_loop": (
            *(starts(4), places(5), numbers(10), numbers(10), numbers(5, 2), numbers(5), numbers(2)),
            *(numbers(4), np.ones(4), np.full(4, 0.5), numbers(2, 10), *(numbers(4, 2) for _ in range(3))),
        ),
        "fan_product_loop": (
            *(starts(4), places(5), numbers(10), numbers(10), numbers(3, 10), numbers(5), numbers(5, 3)),
            *(numbers(5), numbers(3), numbers(4, 3), numbers(4, 3), *(numbers(4) for _ in range(3))),
            numbers(6, 4),
        ),
        "ends_product_loop": (
            *(starts(4), places(5), numbers(10), numbers(10), numbers(4), numbers(4), numbers(4), 0.5),
            *(numbers(5), numbers(6)),
        ),
        "sums_pullback": (*pairs(), numbers(6), numbers(4), numbers(5)),
        "narrow_product": (starts(4), places(6), numbers(6, 4), numbers(4, 4)),
        "narrow_adjoint": (starts(4), places(6), numbers(4, 4), numbers(6, 4)),
        "pairs_along_loop": (*pairs(), numbers(6, 3), numbers(5, 3), numbers(4, 3)),
        "pairs_pullback_loop": (*pairs(), numbers(6, 3), numbers(4, 3), numbers(5, 3)),
        "pairwise_margins_loop": (numbers(5, 3), 1, numbers(5, 2)),
        "from_pairwise_margins_loop": (numbers(5, 2), 1, -1.0, numbers(5, 3)),
        "add_at_loop": (numbers(5, 3), some, numbers(2, 3)),
        "worst_case": (
            *(starts(4), places(6), numbers(10), labels, some, *three, 1, 0.5),
            *(numbers(3, 6), numbers(3)),
        ),
    }


# Arguments that a number leads to: how long they have to be is what the numbers say, which `canonical` has seen.
LOOKED_UP = {
    "blankout_table_loop": [0],
    "blankout_sums_loop": [0, 9],
    "sums_pullback": [4, 5],
    "narrow_product": [2],
    "narrow_adjoint": [3],
    "pairs_along_loop": [4, 5],
    "pairs_pullback_loop": [4, 5],
    "add_at_loop": [0],
    "worst_case": [4],
}
EVERY_LOOP = pytest.mark.parametrize("name", arguments())


def loop_called(name):
    return next(filter(None, (getattr(importlib.import_module(module), name, None) for module in MODULES)))


def with_one_changed(values, change):
    """The arguments, with each of the arrays in turn changed; and which it was."""
    for number, value in enumerate(values):
        if isinstance(value, np.ndarray):
            yield number, (*values[:number], change(value), *values[number + 1 :])


@needs_numba
def test_all_that_is_compiled_for_others_is_a_loop_with_declared_types():
    from numba.core.dispatcher import Dispatcher

    named = {
        name: value
        for module in MODULES
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, gate.Loop | Dispatcher) and not name.startswith("_")
    }
    assert named.keys() == arguments().keys()
    assert all(isinstance(value, gate.Loop) for value in named.values())


@needs_numba
@EVERY_LOOP
def test_a_loop_compiles_and_takes_what_it_declares_read_only_or_not(name):
    loop, values = loop_called(name), arguments()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = loop.ready()
    run(*values)
    for kind, value in zip(loop.types, values, strict=True):
        if isinstance(value, np.ndarray) and not kind.mutable:
            value.flags.writeable = False
    run(*values)


@needs_numba
@EVERY_LOOP
def test_a_loop_refuses_other_types_and_layouts(name):
    run, values = loop_called(name).ready(), arguments()[name]
    for change in (
        lambda array: array.astype(np.int32 if array.dtype == np.int64 else np.int64),
        lambda array: array.astype(np.float32),
        lambda array: np.repeat(array, 2, axis=0)[::2],
        lambda array: array[None],
    ):
        for number, changed in with_one_changed(values, change):
            with pytest.raises(TypeError, match="No matching definition"):
                run(*changed)
                pytest.fail(f"argument {number} of {name}")


@needs_numba
@EVERY_LOOP
def test_a_loop_refuses_lengths_that_do_not_fit_together(name):
    run, values = loop_called(name).ready(), arguments()[name]
    for number, changed in with_one_changed(values, lambda array: array[:-1].copy()):
        if number not in LOOKED_UP.get(name, []):
            with pytest.raises(ValueError, match="do not fit together"):
                run(*changed)
                pytest.fail(f"argument {number} of {name}")


def test_a_loop_that_is_not_where_it_is_looked_for_is_an_error_and_not_a_lack_of_numba():
    with pytest.raises(ModuleNotFoundError, match="mcf_cli"):
        gate.compiled_loop("mcf_cli.core.elsewhere", "narrow_product")


@needs_numba
def test_indices_of_another_type_are_never_reinterpreted():
    with pytest.raises(TypeError, match="int32 indices, not int64"):
        gate.unsigned(np.arange(3))


@needs_numba
@pytest.mark.skipif("not __import__('numba').config.BOUNDSCHECK", reason="for `make test-bounds`")
def test_the_bounds_of_arrays_are_checked_in_this_run():
    starts, columns, table, sums = arguments()["narrow_product"]
    with pytest.raises(IndexError):
        loop_called("narrow_product").ready()(starts, columns + np.uint32(6), table, sums)


@needs_numba
@pytest.mark.parametrize("classes", [2, 12])
@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
def test_long_indices_are_no_reason_to_read_out_of_bounds(options, classes):
    """Enough values that do not repeat for compiled loops; with twelve classes, loops over pairs."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.normal(size=(1500, 20)) * (rng.random((1500, 20)) < 0.6))
    y = rng.integers(0, classes, 1500)
    model, plain = (
        MCFClassifier(corruption=Blankout(q=0.3), l2=0.01, max_iter=2, **options).fit(data, y)
        for data in (long_indices(X), X)
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_kernels_given_long_features_use_numpy_or_scipy():
    rng = np.random.default_rng(2)
    Z = sp.random(200, 20_000, density=0.01, format="csc", random_state=0)
    Z.data[:] = 1.0
    T, u_per_t = rng.normal(size=(50, 1)), rng.uniform(size=20_000)
    feature, q = rng.integers(0, 50, 20_000), np.asarray(0.5)
    assert kernels.blankout_sums(T, feature, u_per_t, 1.0, q, Z) is None
    tables = [[np.empty((20_000, 1)) for _ in range(2)] for _ in range(2)]
    for numbers, filled in zip((feature, feature.astype(np.int32)), tables, strict=True):
        kernels.blankout_table(T, numbers, u_per_t, q, *filled)
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-12, atol=1e-14)
