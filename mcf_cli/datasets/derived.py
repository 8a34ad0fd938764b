"""Features that cost time to compute, kept below MCF_DATA_HOME/derived under a key of all they depend on."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import home
from mcf_cli.datasets.npz import read_arrays
from mcf_cli.errors import McfError

Arrays = dict[str, np.ndarray]


def derived_path(name: str, key: str) -> Path:
    """Where the result with that key is kept; the folder above it need not exist."""
    return home.data_home() / "derived" / f"{name}-{key[:16]}"


def load_arrays(path: Path) -> Arrays | None:
    """What was kept; None where there is nothing, or a file that some accident has damaged."""
    if not path.exists():
        return None
    try:
        return read_arrays(path)
    except McfError:
        return None


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Keep arrays in one .npz file, which appears whole or not at all."""
    home.make_folder(path.parent)
    try:
        with home.atomic_file(path) as stream:
            np.savez(stream, **arrays)
    except OSError as error:
        raise McfError(f"cannot write {path}: {error.strerror}. Make room, or set MCF_DATA_HOME") from error


class Documents(NamedTuple):
    """Counted documents: a row, a label and, where the source divides them, a part each."""

    counts: sp.csr_matrix
    terms: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[str, ...] = ()


def cached_documents(name: str, key: str, count: Callable[[], Documents]) -> Documents:
    """The documents kept under a key, or counted now and kept, unless the data home is read-only or full."""
    path = derived_path(name, key).with_suffix(".npz")
    stored = load_arrays(path)
    if stored is not None:
        return _documents(stored)
    documents = count()
    with contextlib.suppress(McfError, OSError), home.locked("derived"):
        save_arrays(path, _arrays(documents))
    return documents


def _arrays(documents: Documents) -> Arrays:
    counts = documents.counts
    lists = {name: _packed(getattr(documents, name)) for name in ("terms", "labels", "parts")}
    shape = np.array(counts.shape)
    return {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": shape, **lists}


def _documents(stored: Arrays) -> Documents:
    matrix = (stored["data"], stored["indices"], stored["indptr"])
    counts = sp.csr_matrix(matrix, shape=tuple(stored["shape"]))
    return Documents(counts, *(_unpacked(stored[name]) for name in ("terms", "labels", "parts")))


def _packed(names: tuple[str, ...]) -> np.ndarray:
    """Names as bytes, one a line: an array of strings would be as wide as its longest."""
    return np.frombuffer("".join(f"{name}\n" for name in names).encode(), np.uint8)


def _unpacked(packed: np.ndarray) -> tuple[str, ...]:
    return tuple(packed.tobytes().decode().split("\n")[:-1])
