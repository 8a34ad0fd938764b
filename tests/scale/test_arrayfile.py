"""Arrays in a file come back as they were, and as often as asked."""

import numpy as np
from mcf_cli.scale.arrayfile import ArrayFile, Ones

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


def test_arrays_come_back_as_they_were(tmp_path):
    file = ArrayFile(tmp_path / "arrays", ARRAYS, Ones())
    for left, right in zip(file.arrays(), ARRAYS, strict=True):
        np.testing.assert_array_equal(left, right)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert file.arrays()[2].flags.f_contiguous


def test_ones_take_no_room(tmp_path):
    ArrayFile(tmp_path / "arrays", [np.ones(10_000), np.ones(20_000)], Ones())
    assert (tmp_path / "arrays").stat().st_size == 0


def test_what_one_user_writes_the_next_does_not_see(tmp_path):
    file = ArrayFile(tmp_path / "arrays", ARRAYS, Ones())
    file.arrays()[0][:] = -1
    np.testing.assert_array_equal(file.arrays()[0], ARRAYS[0])
