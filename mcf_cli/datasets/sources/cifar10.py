"""CIFAR-10: the official binary batches as images, as raw pixels and as bags of visual words."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import CountOption, Dataset, Seed, Split, fingerprint, first_rows_train
from mcf_cli.datasets.features import visual_words
from mcf_cli.datasets.features.visual_words import Recipe
from mcf_cli.datasets.formats.archives import malformed, open_bytes, open_members, read_all
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
SIDE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIDE * SIDE
MAX_BATCH = 100_000 * RECORD  # ten times what an official batch holds


def load_cifar10(here: Here) -> Dataset:
    """`cifar10`: pixels in [0, 1]."""
    images, y, split = read_images(here.paths)
    columns = tuple(f"row{r}col{c}{k}" for r in range(SIDE) for c in range(SIDE) for k in "rgb")
    X = images.reshape(len(y), -1) / 255.0
    return make_dataset("cifar10", "32 x 32 pixels", X, y, split, columns, here.sha256)


def make_dataset(
    name: str,
    about: str,
    X: np.ndarray | sp.csr_matrix,
    y: np.ndarray,
    split: Split,
    columns: tuple[str, ...],
    key: str,
) -> Dataset:
    """The images in one form or another, under a key of all that the form depends on."""
    return Dataset(
        name=name,
        X=X,
        y=y,
        class_names=CIFAR10_CLASSES,
        source="real",
        sha256=fingerprint(name, key),
        description=f"CIFAR-10 colour images, {about}",
        feature_names=columns,
        splits={"predefined": split},
    )


def read_images(paths: dict[str, Path]) -> tuple[np.ndarray, np.ndarray, Split]:
    """Images (N, 32, 32, 3) of bytes, labels and the official division, from batches or their archive."""
    batches = dict(_batches(paths))
    if missing := [name for name in (*TRAIN, TEST) if name not in batches]:
        raise McfError(f"CIFAR-10 lacks {', '.join(missing)}: run `mcf data get cifar10`")
    parts = [batches[name] for name in (*TRAIN, TEST)]
    n_test = len(parts[-1])
    records = np.concatenate(parts)
    del batches, parts
    pixels = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    y = records[:, 0].astype(np.int64)
    return np.ascontiguousarray(pixels), y, first_rows_train(len(y) - n_test, n_test)


def _batches(paths: dict[str, Path]) -> Iterator[tuple[str, np.ndarray]]:
    for name, path in paths.items():
        if name.endswith(".bin"):
            with open_bytes(path) as stream:
                yield name, read_batch(stream, path)
        else:
            for member, stream in open_members(path, (*TRAIN, TEST)):
                yield member, read_batch(stream, f"{path}: {member}")


def read_batch(stream: IO[bytes], name: object) -> np.ndarray:
    """Records of a label and 3,072 bytes (a plane each of red, green, blue), as an array (N, 3073)."""
    content = read_all(stream, name, MAX_BATCH)
    if not content or len(content) % RECORD:
        malformed(name, f"byte {len(content):,}", f"the file ends inside an image of {RECORD:,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    if (strange := np.flatnonzero(records[:, 0] >= len(CIFAR10_CLASSES))).size:
        first = strange[0]
        malformed(name, f"byte {first * RECORD:,}", f"expected a label from 0 to 9, got {records[first, 0]}")
    return records


def load_cifar10_words(
    here: Here, words: CountOption = 2048, patches: CountOption = 400_000, seed: Seed = 2013
) -> Dataset:
    """`cifar10-words`: counts of so many visual words, learnt from so many patches of the training images."""
    images, y, split = read_images(here.paths)
    recipe = Recipe(words=words, patches=patches, seed=seed)
    X = visual_words.cached_features(images, split[0], recipe, here.sha256)
    key = fingerprint(here.sha256, visual_words.key_parts(recipe))
    columns = visual_words.column_names(words)
    return make_dataset(
        "cifar10-words", "counts of visual words in four quadrants", X, y, split, columns, key
    )
