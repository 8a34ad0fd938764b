"""The one shape in which every data set reaches the rest of the project."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp


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
    splits: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(
        default_factory=dict
    )  # the first is the default
    groups: np.ndarray | None = None  # rows that share a number belong in one fold
    blocks: int | None = None  # symbols per one-hot block, for Multinomial
    notes: tuple[str, ...] = ()  # what every result on it must say
