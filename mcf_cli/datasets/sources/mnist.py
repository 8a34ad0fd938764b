"""MNIST: the four idx files, pixels scaled to [0, 1]."""

import struct
from math import prod
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import Dataset, fingerprint, first_rows_train
from mcf_cli.datasets.formats.archives import malformed, open_bytes, read_exactly
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError

DIGIT_SIDE = 28
MAX_IDX = 2**31


def load_mnist(here: Here) -> Dataset:
    """60,000 training and 10,000 test digits."""
    matrices, labels = [], []
    for part in ("train", "t10k"):
        X, y = read_part(here.paths[f"{part}-images-idx3-ubyte"], here.paths[f"{part}-labels-idx1-ubyte"])
        matrices.append(X)
        labels.append(y)
    return Dataset(
        name="mnist",
        X=sp.csr_matrix(sp.vstack(matrices)),
        y=np.concatenate(labels),
        class_names=tuple("0123456789"),
        source="real",
        sha256=fingerprint("mnist", here.sha256),
        description="Handwritten digits of 28 x 28 pixels (LeCun et al.)",
        feature_names=tuple(
            f"row{row}col{column}" for row in range(DIGIT_SIDE) for column in range(DIGIT_SIDE)
        ),
        splits={"predefined": first_rows_train(len(labels[0]), len(labels[1]))},
    )


def read_part(images: Path, labels: Path) -> tuple[sp.csr_matrix, np.ndarray]:
    """The pixels and labels of one pair of files."""
    pixels, y = read_idx(images), read_idx(labels)
    if pixels.shape[1:] != (DIGIT_SIDE, DIGIT_SIDE):
        raise McfError(
            f"{images}: expected images of {DIGIT_SIDE} x {DIGIT_SIDE} pixels, got shape {pixels.shape}"
        )
    if y.shape != pixels.shape[:1] or y.max(initial=0) > 9:
        raise McfError(f"{labels}: expected {len(pixels):,} labels from 0 to 9, got shape {y.shape}")
    X = sp.csr_matrix(pixels.reshape(len(pixels), DIGIT_SIDE * DIGIT_SIDE), dtype=np.float64)
    X.data /= 255.0
    return X, y.astype(np.int64)


def read_idx(path: Path) -> np.ndarray:
    """An array of unsigned bytes in the idx format: magic, big-endian sizes, bytes."""
    with open_bytes(path) as stream:
        magic = read_exactly(stream, 4, path)
        if magic[:3] != b"\x00\x00\x08" or not 1 <= magic[3] <= 3:
            malformed(path, "byte 0", f"expected an idx file of unsigned bytes, got {magic.hex()}")
        shape = struct.unpack(f">{magic[3]}I", read_exactly(stream, 4 * magic[3], path))
        if prod(shape) > MAX_IDX:
            malformed(path, "byte 4", f"the header claims the shape {shape}, more than {MAX_IDX:,} bytes")
        values = np.frombuffer(read_exactly(stream, prod(shape), path), np.uint8)
        if stream.read(1):
            malformed(path, f"byte {4 + 4 * magic[3] + prod(shape):,}", "expected the end of the file")
    return values.reshape(shape)
