"""The one shape in which every data set reaches the rest of the project."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

SPLIT_SEED = 2013
Split = tuple[np.ndarray, np.ndarray]  # row numbers: training, test


@dataclass(frozen=True)
class Dataset:
    """Examples, labels, and what a reader of a result must know about where they come from."""

    name: str
    X: np.ndarray | sp.csr_matrix
    y: np.ndarray  # codes into class_names
    class_names: tuple[str, ...]
    source: str  # real | substitute | builtin | user
    sha256: str
    description: str
    feature_names: tuple[str, ...] | None = None
    splits: Mapping[str, Split] = field(default_factory=dict)  # the first is the default
    groups: np.ndarray | None = None  # rows that share a number belong in one fold
    blocks: int | None = None  # symbols per one-hot block, for Multinomial
    notes: tuple[str, ...] = ()  # what every result on it must say


def fingerprint(*parts: object) -> str:
    """A sha256 over JSON-ready parts: file hashes, options, versions. Equal parts give equal data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def shuffled(n: int, seed: int) -> np.ndarray:
    """A permutation of n rows from the raw bit stream, which numpy promises never to change."""
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")


def seeded_split(n: int, test_fraction: float = 0.25, seed: int = SPLIT_SEED) -> Split:
    """Row numbers of a fixed random division into training and test examples, each in file order."""
    order = shuffled(n, seed)
    n_test = min(max(round(n * test_fraction), 1), n - 1)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def first_rows_train(n_train: int, n_test: int) -> Split:
    """The division of data stored as the training examples followed by the test examples."""
    return np.arange(n_train), np.arange(n_train, n_train + n_test)


def encode_labels(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes and class names; names that are numbers are put in numeric order."""
    distinct = set(labels)
    try:
        ordered = sorted(distinct, key=lambda label: (float(label), label))
    except ValueError:
        ordered = sorted(distinct)
    code = {label: k for k, label in enumerate(ordered)}
    return np.array([code[label] for label in labels], dtype=np.int64), tuple(ordered)


def identical_groups(keys: Sequence[str]) -> np.ndarray:
    """The same number for every copy of a key, so that folds can keep copies together."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def identical_rows(X: sp.csr_matrix) -> np.ndarray:
    """Groups of equal rows. Reviews and stories were posted twice; a copy in validation rewards learning by heart."""
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    rows = (X.indices[start:end].tobytes() + X.data[start:end].tobytes() for start, end in spans)
    return identical_groups([hashlib.sha256(row).hexdigest() for row in rows])
