"""The reader of MATLAB files agrees with scipy's on what scipy can read."""

import io
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from mcf_cli.datasets.formats.matlab import read_matrices

KINDS = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def saved(compressed: bool, **matrices) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, matrices, do_compression=compressed)
    return file.getvalue()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from(KINDS), st.booleans(), st.integers(0, 2**32 - 1))
def test_full_and_sparse_matrices_come_out_as_scipy_reads_them(rows, columns, kind, compressed, seed):
    full = np.random.default_rng(seed).integers(0, 3, (rows, columns)).astype(kind)
    content = saved(compressed, a=full, some_longer_name=sp.csc_matrix(full.astype(float)), text="left out")
    found, expected = read_matrices(content), scipy.io.loadmat(io.BytesIO(content))
    assert set(found) == {"a", "some_longer_name"}
    np.testing.assert_array_equal(found["a"], expected["a"])
    np.testing.assert_array_equal(found["some_longer_name"].toarray(), expected["some_longer_name"].toarray())


def test_sizes_that_the_bytes_do_not_hold_are_refused():
    content = saved(False, a=np.eye(3))
    shape = struct.pack("<ii", 3, 3)
    assert content.count(shape) == 1
    with pytest.raises(ValueError, match="claims the shape"):
        read_matrices(content.replace(shape, struct.pack("<ii", 10**6, 10**6)))
    with pytest.raises(ValueError, match="claims"):
        read_matrices(content[:-8])


def test_columns_that_end_before_they_begin_are_refused_though_nothing_is_stored():
    content = saved(False, a=sp.csc_matrix((2, 3)))
    ends = struct.pack("<6i", 5, 16, 0, 0, 0, 0)  # the type, the bytes, the four ends
    assert content.count(ends) == 1
    with pytest.raises(ValueError, match="ends before it begins"):
        read_matrices(content.replace(ends, struct.pack("<6i", 5, 16, 0, 10**6, 5, 0)))
