import gzip
import struct

import numpy as np
import pytest
from mcf_cli.datasets import load
from mcf_cli.datasets.sources import mnist
from mcf_cli.errors import McfError

from tests.datasets.formats import here


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_the_real_files(real_form):
    real_form("mnist", "idx")
    data = load("mnist")
    assert data.X.shape == (70000, 784)
    train, test = data.splits["predefined"]
    assert (len(train), len(test)) == (60000, 10000)
    assert np.bincount(data.y[test]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.X.data.max() == 1.0
    assert data.y[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_small_files_plain_or_gzipped(tmp_path, pack):
    rng = np.random.default_rng(0)
    paths, pixels, labels = [], [], []
    for part, n in [("train", 5), ("t10k", 3)]:
        pixels.append(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
        labels.append(rng.integers(0, 10, n, dtype=np.uint8))
        for kind, array in [("images-idx3", pixels[-1]), ("labels-idx1", labels[-1])]:
            paths.append(tmp_path / f"{part}-{kind}-ubyte")
            paths[-1].write_bytes(pack(idx(array)))
    data = mnist.load_mnist(here("mnist", "idx", *paths))
    assert np.array_equal(np.round(data.X.toarray() * 255), np.concatenate(pixels).reshape(8, 784))
    assert data.y.tolist() == [*labels[0], *labels[1]]
    assert [part.tolist() for part in data.splits["predefined"]] == [[0, 1, 2, 3, 4], [5, 6, 7]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "byte 0 of 4: the file ends too early"),
        (b"<!DOCTYPE html>", "byte 0: expected an idx file"),
        (b"\0\0\x0d\x01" + bytes(8), "expected an idx file of unsigned bytes"),
        (b"\0\0\x08\x03\0\0", "byte 2 of 12"),
        (idx(np.zeros((2, 28, 28), np.uint8))[:-1], "byte 1,567 of 1,568"),
        (idx(np.zeros(3, np.uint8)) + b"x", "byte 11: expected the end of the file"),
        (b"\0\0\x08\x03" + struct.pack(">3I", 2**31, 2**31, 2**31), "the header claims the shape"),
        (b"\0\0\x08\x01" + struct.pack(">I", 2**31 - 1), "byte 0 of 2,147,483,647"),
    ],
)
def test_a_malformed_file_is_one_clear_error_and_allocates_nothing(tmp_path, content, message):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(McfError) as caught:
        mnist.read_idx(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_images_and_labels_must_agree(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx(np.zeros((2, 28, 28), np.uint8)))
    for wrong in (np.zeros(3, np.uint8), np.full(2, 10, np.uint8)):
        labels.write_bytes(idx(wrong))
        with pytest.raises(McfError, match="expected 2 labels from 0 to 9"):
            mnist.read_part(images, labels)
    images.write_bytes(idx(np.zeros((2, 8, 8), np.uint8)))
    with pytest.raises(McfError, match="28 x 28"):
        mnist.read_part(images, labels)
