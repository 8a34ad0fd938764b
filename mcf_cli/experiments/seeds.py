"""Random numbers that depend on (seed, data set, repeat, purpose) and on nothing else.

The method, the order of the trials and the number of workers never enter, so every method meets the same
splits and the same deleted features.
"""

import hashlib
import json

import numpy as np


def bit_stream(seed: int, dataset: str, repeat: int, purpose: str) -> np.random.PCG64:
    """The raw stream, which numpy promises never to change."""
    digest = hashlib.sha256(json.dumps([seed, dataset, repeat, purpose]).encode()).digest()
    return np.random.PCG64(int.from_bytes(digest, "big"))


def generator(seed: int, dataset: str, repeat: int, purpose: str) -> np.random.Generator:
    """A generator for draws of every kind."""
    return np.random.Generator(bit_stream(seed, dataset, repeat, purpose))


def shuffled(rows: np.ndarray, stream: np.random.PCG64) -> np.ndarray:
    """The rows in an order taken from the raw stream."""
    return rows[np.argsort(stream.random_raw(len(rows)), kind="stable")]
