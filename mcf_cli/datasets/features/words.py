"""Text to counts: the project's own tokeniser, and count matrices over a vocabulary.

Features that cost time to compute are kept below MCF_DATA_HOME/derived under a key of all they depend on.
"""

import contextlib
import itertools
import re
import shutil
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.formats.npz import read_user_arrays
from mcf_cli.datasets.store import verify
from mcf_cli.errors import McfError
from mcf_cli.files import whole_file

Arrays = dict[str, np.ndarray]


def derived_path(name: str, key: str) -> Path:
    """Where the result with that key is kept; the folder above it need not exist."""
    return verify.data_home() / "derived" / f"{name}-{key[:16]}"


def derived_results() -> list[tuple[Path, int]]:
    """Every result that `derived_path` names, and its bytes; other files in that folder are not ours."""
    own = re.compile(r".+-[0-9a-z]{16}(\.npz|\.part)?")
    paths = sorted((verify.data_home() / "derived").glob("*"))
    return [(path, _bytes_in(path)) for path in paths if own.fullmatch(path.name)]


def forget_derived(results: Iterable[Path]) -> None:
    """Delete results of `derived_results`: whoever needs one computes it again."""
    with verify.locked("derived"):
        for path in results:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _bytes_in(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def load_arrays(path: Path) -> Arrays | None:
    """What was kept; None where there is nothing, or a file that some accident has damaged."""
    if not path.exists():
        return None
    try:
        return read_user_arrays(path)
    except McfError:
        return None


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Keep arrays in one .npz file, which appears whole or not at all."""
    verify.make_folder(path.parent)
    with verify.home_explained(), whole_file(path) as part, part.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


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
    with contextlib.suppress(McfError, OSError), verify.locked("derived"):
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


WORDS_VERSION = 1  # raise it when the tokens of a text change
_WORD = re.compile(r"[^\W\d_]{2,}")


def tokenise(text: str) -> list[str]:
    """The lower-case runs of two or more letters of any script; digits and marks divide words."""
    return _WORD.findall(text.lower())


def count_words(texts: Iterable[str], min_documents: int = 1) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """A row of word counts a text, over the words found in at least `min_documents` texts."""
    return count_matrix((Counter(tokenise(text)) for text in texts), min_documents=min_documents)


def count_matrix(
    bags: Iterable[Mapping[str, int]], min_documents: int = 1, max_terms: int | None = None
) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """Bags of terms as CSR counts, columns in alphabetical order.

    Kept are the terms found in at least `min_documents` bags and, of those, the `max_terms` with the highest
    total count (ties in alphabetical order). Reads the bags one by one.
    """
    number: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # in the order of first sight
    columns, values, row_ends = array("q"), array("d"), array("q", [0])
    for bag in bags:
        columns.extend(map(number.__getitem__, bag))
        values.extend(bag.values())
        row_ends.append(len(columns))
    shape = (len(row_ends) - 1, len(number))
    counts = sp.csr_matrix((np.array(values), np.array(columns), np.array(row_ends)), shape=shape)
    terms = np.array(list(number), dtype=object)
    kept = _kept_columns(counts, terms, min_documents, max_terms)
    selected = counts[:, kept]
    selected.sort_indices()
    return selected, tuple(terms[kept])


def _kept_columns(
    counts: sp.csr_matrix, terms: np.ndarray, min_documents: int, max_terms: int | None
) -> np.ndarray:
    """Numbers of the columns to keep, in the alphabetical order of their terms."""
    alphabetical = np.array(sorted(range(len(terms)), key=terms.__getitem__), dtype=np.int64)
    documents = np.bincount(counts.indices, minlength=len(terms))
    kept = alphabetical[documents[alphabetical] >= min_documents]
    if max_terms is None or len(kept) <= max_terms:
        return kept
    totals = np.asarray(counts.sum(axis=0)).ravel()
    most_common = np.argsort(-totals[kept], kind="stable")[:max_terms]
    return kept[np.sort(most_common)]
