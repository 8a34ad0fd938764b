import hashlib
import io

import numpy as np
import pytest
from mcf_cli.datasets import available, load
from mcf_cli.datasets.sources import cifar10
from mcf_cli.datasets.sources import cifar10 as cifar10_words
from mcf_cli.errors import McfError

from tests.datasets.formats import here, write_tar
from tests.datasets.real_data import OWN

NAMES = (*cifar10.TRAIN, cifar10.TEST)


def batches(n=2):
    """Batches of n images in the official layout, and the images row by row."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(NAMES) * n, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, len(images), dtype=np.uint8)
    records = [
        bytes([label]) + image.transpose(2, 0, 1).tobytes()
        for image, label in zip(images, labels, strict=True)
    ]
    return {name: b"".join(records[n * k : n * k + n]) for k, name in enumerate(NAMES)}, images, labels


def test_the_real_batches(real_form):
    images, y, (train, test) = cifar10.read_images(real_form("cifar10", "batches").paths)
    assert images.shape == (60000, 32, 32, 3)
    assert (len(train), len(test)) == (50000, 10000)
    assert np.bincount(y[train]).tolist() == [5000] * 10
    assert np.bincount(y[test]).tolist() == [1000] * 10
    assert cifar10.CIFAR10_CLASSES[y[0]] == "frog"
    assert images[0, 0, 0].tolist() == [59, 62, 63]
    digest = hashlib.sha256(images.tobytes() + y.astype("<i8").tobytes()).hexdigest()
    assert digest == "679a0a54bc26fa5425a8717c376404f30e2982dcca8ebd67a5e0ea32155044bf"


def test_the_real_visual_words(monkeypatch):
    monkeypatch.setenv("MCF_DATA_HOME", str(OWN))
    if not list(OWN.glob("derived/visual-words-*/counts.npz")) or not available("cifar10"):
        pytest.skip("they take minutes to compute: `mcf data info cifar10-words` does it once")
    data = load("cifar10-words")
    assert (data.X.shape, len(data.class_names)) == ((60000, 8192), 10)
    assert np.array_equal(data.X.data, np.round(data.X.data))
    assert (data.X.sum(axis=1) == 26 * 26).all(), "one word at every position"


def test_batches_become_images_labels_and_the_official_division(tmp_path):
    files, images, labels = batches()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    data = cifar10.load_cifar10(here("cifar10", "batches", *(tmp_path / name for name in NAMES)))
    assert np.array_equal(np.round(data.X * 255), images.reshape(12, -1))
    assert data.y.tolist() == labels.tolist()
    assert [len(part) for part in data.splits["predefined"]] == [10, 2]


def test_the_archive_gives_the_same_images(tmp_path):
    files, images, _ = batches()
    path = write_tar(
        tmp_path / "c.tar.gz", {f"cifar-10-batches-bin/{name}": files[name] for name in reversed(NAMES)}
    )
    found, _, _ = cifar10.read_images({"cifar-10-binary.tar": path})
    assert np.array_equal(found, images)


def test_visual_words_of_small_batches(tmp_path, empty_home):
    files, _, _ = batches()
    path = write_tar(tmp_path / "c.tar", {name: files[name] for name in NAMES})
    source = here("cifar10", "archive", path)
    data = cifar10_words.load_cifar10_words(source, words=16, patches=500)
    assert data.X.shape == (12, 64)
    assert (data.X.sum(axis=1) == 676).all()
    assert data.feature_names[17] == "top-right.1"
    assert data.sha256 != cifar10_words.load_cifar10_words(source, words=16, patches=501).sha256


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "byte 0: the file ends inside an image"),
        (bytes(3073 + 5), "byte 3,078: the file ends inside an image"),
        (bytes(3073) + b"\x0a" + bytes(3072), "byte 3,073: expected a label from 0 to 9, got 10"),
    ],
)
def test_a_malformed_batch_is_named(content, message):
    with pytest.raises(McfError) as caught:
        cifar10.read_batch(io.BytesIO(content), "data_batch_1.bin")
    assert f"data_batch_1.bin, {message}" in str(caught.value)


def test_a_missing_batch_is_named(tmp_path):
    files, _, _ = batches()
    path = write_tar(tmp_path / "c.tar", {name: files[name] for name in NAMES[:-1]})
    with pytest.raises(McfError, match=r"lacks test_batch\.bin"):
        cifar10.read_images({"cifar-10-binary.tar": path})


def test_options_belong_to_the_visual_words(real_form):
    real_form("cifar10")
    with pytest.raises(McfError, match="no option words; its options: none"):
        load("cifar10", words=3)
    with pytest.raises(McfError, match="no option word; its options: words, patches, seed"):
        load("cifar10-words", word=3)
