"""Reuters-21578, the 8,293 documents with exactly one topic: the paper's matrix, or built from the text."""

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import CountOption, Dataset, Split, fingerprint, identical_rows, seeded_split
from mcf_cli.datasets.features import words
from mcf_cli.datasets.features.words import Documents, cached_documents
from mcf_cli.datasets.formats import matlab
from mcf_cli.datasets.formats.archives import malformed, numbered_lines, open_bytes, open_members, read_all
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError

SGML_FILES = tuple(f"reut2-{number:03d}.sgm" for number in range(22))
MAX_FILE = 2**26

# The matrix numbers its classes by size. Size and number of training documents tell which topic most of them
# are; a "?" stands where they leave a doubt.
MATRIX_TOPICS = """
earn acq crude trade money-fx interest ship sugar coffee gold money-supply gnp cpi cocoa alum grain copper
jobs reserves rubber iron-steel ipi nat-gas veg-oil tin cotton bop wpi pet-chem livestock gas orange
retail strategic-metal housing zinc lumber fuel carcass heat lei oilseed lead meal-feed yen ? ?
income ? silver ? ? ? jet ? groundnut ? ? ? ? ? ? ? ? ?
"""

# Lewis's division by document number, for copies that leave it out: the last number of each run,
# and the documents whose topics were never assigned (TOPICS="NO").
LEWIS_RUNS = (
    (12593, "TRAIN"), (12727, "NOT-USED"), (13233, "TRAIN"), (13237, "NOT-USED"), (13274, "TRAIN"),
    (13292, "NOT-USED"), (14823, "TRAIN"), (16934, "TEST"), (17028, "NOT-USED"), (17055, "TEST"),
    (17191, "NOT-USED"), (17192, "TRAIN"), (17434, "NOT-USED"), (18370, "TEST"), (18464, "NOT-USED"),
    (21578, "TEST"),
)  # fmt: skip

Weighting = Literal["counts", "binary", "tf", "tf-idf"]
WEIGHTINGS = {"counts": "counts", "binary": "presence", "tf": "frequency", "tf-idf": "tf-idf"}  # in words

WITHOUT_TOPICS = frozenset({1916, 7952, 13056, 21254, 21491})


@dataclass(frozen=True)
class Document:
    """One story; `part` is TRAIN, TEST or NOT-USED in Lewis's division."""

    number: int
    part: str
    topics: tuple[str, ...]
    text: str


def load_reuters(here: Here, min_documents: CountOption = 2, weighting: Weighting = "counts") -> Dataset:
    """The matrix as it is, or counts of the words found in at least `min_documents` documents.

    ``weighting``: counts, binary (a word is there or not), or tf or tf-idf in documents of length 1. The document
    frequencies of tf-idf are those of all documents, as no label is seen.
    """
    if here.form.name == "matrix":
        X, y, class_names, modapte = read_matrix(here.paths["Reuters21578.mat"])
        feature_names, notes, key = None, tuple[str, ...](), fingerprint("reuters", here.sha256)
    else:
        key = fingerprint("reuters", here.form.name, here.sha256, min_documents, words.WORDS_VERSION)
        X, feature_names, labels, parts = cached_documents(
            "reuters", key, lambda: count_reuters(here, min_documents)
        )
        y, class_names = _by_size(labels)
        modapte = _division(np.array(parts) == "TRAIN")
        notes = (f"our tokeniser, D = {X.shape[1]:,}",)
    groups, name = identical_rows(X), "reuters"
    if weighting != "counts":
        X, name, key = weighted(X, weighting), f"reuters-{weighting}", fingerprint(key, weighting)
    return Dataset(
        name=name,
        X=X,
        y=y,
        class_names=class_names,
        source="real",
        sha256=key,
        description=f"Reuters-21578 news stories with exactly one topic, {WEIGHTINGS[weighting]} of words",
        feature_names=feature_names,
        splits={"fixed": seeded_split(len(y)), "modapte": modapte},
        groups=groups,
        notes=notes,
    )


def weighted(counts: sp.csr_matrix, weighting: Weighting) -> sp.csr_matrix:
    """Counts as presence, or as tf or tf-idf in rows of length 1."""
    if weighting == "binary":
        return sp.csr_matrix((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    X = counts.copy()
    if weighting == "tf-idf":
        documents = np.bincount(counts.indices, minlength=counts.shape[1])
        X.data *= np.log((1 + counts.shape[0]) / (1 + documents))[counts.indices]
    lengths = np.sqrt(X.multiply(X).sum(axis=1)).A1
    X.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(X.indptr))
    return X


def count_reuters(here: Here, min_documents: int) -> Documents:
    """Word counts, topics and Lewis's division of the paper's documents, from SGML or JSON."""
    path = next(iter(here.paths.values()))
    stories = list(single_topic(read_sgml(path) if here.form.name == "sgml" else read_json(path)))
    counts, terms = words.count_words((story.text for story in stories), min_documents)
    return Documents(counts, terms, tuple(s.topics[0] for s in stories), tuple(s.part for s in stories))


def read_matrix(path: Path) -> tuple[sp.csr_matrix, np.ndarray, tuple[str, ...], Split]:
    """Deng Cai's .mat file: fea (counts), gnd (classes from 1), trainIdx and testIdx (rows from 1)."""
    expected = "expected arrays fea, gnd, trainIdx and testIdx of a MATLAB 5 file"
    try:
        with open_bytes(path) as stream:
            stored = matlab.read_matrices(read_all(stream, path, MAX_FILE))
        fea = stored["fea"]
        y, *split = (_row_numbers(stored[name]) for name in ("gnd", "trainIdx", "testIdx"))
    except (ValueError, KeyError) as error:
        raise McfError(f"{path}: {expected} ({error})") from error
    if len(y) != fea.shape[0] or not np.array_equal(np.sort(np.concatenate(split)), np.arange(len(y))):
        raise McfError(f"{path}: {expected} that agree on the number of documents")
    X = sp.csr_matrix(fea, dtype=np.float64)
    topics = MATRIX_TOPICS.split()
    if len(y) == 0 or y.max() >= len(topics):
        raise McfError(f"{path}: expected documents of {len(topics)} classes")
    class_names = tuple(f"topic {k}" if topic == "?" else topic for k, topic in enumerate(topics, 1))
    return X, y, class_names, (split[0], split[1])


def _row_numbers(stored: matlab.MatlabMatrix) -> np.ndarray:
    """Numbers from 1 as MATLAB counts them, from 0 as we do."""
    if sp.issparse(stored):
        raise ValueError("a list of numbers is sparse")
    numbers = np.asarray(stored.ravel(), dtype=np.float64) - 1
    if not ((numbers == np.round(numbers)) & (numbers >= 0) & (numbers < 2**31)).all():
        raise ValueError("expected a list of numbers from 1")
    return numbers.astype(np.int64)


def single_topic(documents: Iterator[Document]) -> Iterator[Document]:
    """The documents of the paper: in Lewis's division, with one topic and a text."""
    for document in documents:
        if document.part != "NOT-USED" and len(document.topics) == 1 and document.text:
            yield document


def read_sgml(path: Path) -> Iterator[Document]:
    """Every story of the 22 files, in an archive or a folder, in the order of their numbers."""
    documents: list[Document] = []
    found = set()
    for name, stream in open_members(path, SGML_FILES):
        where = f"{path}: {name}"
        found.add(name)
        documents += _parse_sgml(where, read_all(stream, where, MAX_FILE).decode("latin-1"))
    if missing := set(SGML_FILES) - found:
        raise McfError(f"{path} lacks {len(missing)} of the 22 files reut2-000.sgm to reut2-021.sgm")
    return iter(sorted(documents, key=lambda document: document.number))


_STORY = re.compile(r"<REUTERS ([^>]*)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(r'([A-Z]+)="([^"]*)"')


def _parse_sgml(where: str, content: str) -> Iterator[Document]:
    """A plain scan for the few tags that matter; the document type is never opened."""
    stories = 0
    for stories, story in enumerate(_STORY.finditer(content), 1):  # noqa: B007
        attributes = dict(_ATTRIBUTE.findall(story[1]))
        try:
            number, lewis, topics = int(attributes["NEWID"]), attributes["LEWISSPLIT"], attributes["TOPICS"]
        except (KeyError, ValueError):
            line = content.count("\n", 0, story.start()) + 1
            malformed(where, f"line {line}", "expected a story with NEWID, LEWISSPLIT and TOPICS")
        yield Document(
            number=number,
            part=lewis if topics == "YES" and lewis in ("TRAIN", "TEST") else "NOT-USED",
            topics=tuple(re.findall(r"<D>(.*?)</D>", _inside("TOPICS", story[2]))),
            text=_story_text(_inside("TITLE", story[2]), _inside("BODY", story[2])),
        )
    if not stories or content.count("<REUTERS ") != stories:
        malformed(where, f"story {stories + 1}", "expected <REUTERS ...> ... </REUTERS>, not cut short")


def _inside(tag: str, story: str) -> str:
    start = story.find(f"<{tag}>")
    end = story.find(f"</{tag}>", start)
    return story[start + len(tag) + 2 : end] if 0 <= start < end else ""


def _story_text(title: str, body: str) -> str:
    """Title and body; nothing where the body is empty."""
    return html.unescape(f"{title}\n{body}") if body.strip() else ""


def read_json(path: Path) -> Iterator[Document]:
    """One JSON object per line with id, topics, title and body; Lewis's division comes from the number."""
    with open_bytes(path) as stream:
        for line_number, line in numbered_lines(stream, path):
            try:
                story = json.loads(line)
                number, topics = int(story["id"]), tuple(story.get("topics") or ())
                text = _story_text(story.get("title") or "", story.get("body") or "")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                malformed(path, f"line {line_number}", f"expected a story with id, topics and body ({error})")
            yield Document(number, lewis_part(number), topics, text)


def lewis_part(number: int) -> str:
    """TRAIN, TEST or NOT-USED, by the number of a document."""
    if number in WITHOUT_TOPICS:
        return "NOT-USED"
    return next((part for last, part in LEWIS_RUNS if number <= last), "NOT-USED")


def _by_size(topics: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes and names, the largest topic first, as in the matrix."""
    distinct, counts = np.unique(topics, return_counts=True)
    ordered = [str(distinct[k]) for k in np.argsort(-counts, kind="stable")]
    code = {topic: k for k, topic in enumerate(ordered)}
    return np.array([code[topic] for topic in topics], dtype=np.int64), tuple(ordered)


def _division(is_train: np.ndarray) -> Split:
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)
