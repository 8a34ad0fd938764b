"""Text to counts: the project's own tokeniser, and count matrices over a vocabulary."""

import itertools
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import scipy.sparse as sp

VERSION = 1  # raise it when the tokens of a text change
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
