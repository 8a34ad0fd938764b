"""Arrays in a file come back as they were, and as often as asked."""

from tempfile import TemporaryFile

import numpy as np
import pytest
from mcf_cli.files import ArrayFile, Ones

ARRAYS = [
    np.arange(7, dtype=np.int32),
    np.ones(1000),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(24.0).reshape(4, 6)[:, ::2],
    np.empty(0),
    np.array([0, 5], dtype=np.int64),
    np.ones(3),
    np.array([1.0, 2.0]),
]


@pytest.fixture
def file():
    with TemporaryFile() as opened:
        yield opened


def test_arrays_come_back_as_they_were(file):
    arrays = ArrayFile(file, ARRAYS, Ones())
    for left, right in zip(arrays.arrays(), ARRAYS, strict=True):
        np.testing.assert_array_equal(left, right)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert arrays.arrays()[2].flags.f_contiguous


def test_ones_take_no_room(file):
    assert ArrayFile(file, [np.ones(10_000), np.ones(20_000)], Ones()).size == 0


def test_a_file_holds_many_lists_of_arrays(file):
    lists = [ArrayFile(file, [array + k for array in ARRAYS], Ones()) for k in range(3)]
    for k, arrays in enumerate(lists):
        for left, right in zip(arrays.arrays(), ARRAYS, strict=True):
            np.testing.assert_array_equal(left, right + k)


def test_what_one_user_writes_the_next_does_not_see(file):
    arrays = ArrayFile(file, ARRAYS, Ones())
    arrays.arrays()[0][:] = -1
    np.testing.assert_array_equal(arrays.arrays()[0], ARRAYS[0])
