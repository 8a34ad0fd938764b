"""Amazon reviews in four domains (Blitzer et al.): `processed_acl`, or the svmlight files of 5,000 terms."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import CountOption, Dataset, Split, fingerprint, identical_rows, seeded_split
from mcf_cli.datasets.features.words import Documents, cached_documents, count_matrix
from mcf_cli.datasets.formats import svmlight
from mcf_cli.datasets.formats.archives import malformed, numbered_lines, open_members, shown
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError

VERSIONS = {"processed_acl": 1, "svmlight": 1, "labelled": 2}  # raise one when the counts of its form change
AMAZON_CLASSES = ("negative", "positive")
SVMLIGHT_TERMS = 5000

REVIEW_KINDS = (
    "positive",
    "negative",
    "unlabeled",
)  # the last is the test set, and carries labels all the same

LABEL = "#label#"
NOTES = {"svmlight": ("5,000-term form",), "labelled": ("labelled reviews only, no test set",)}
Bag = dict[str, int]


def load_amazon(here: Here, name: str, terms: CountOption = 20_000) -> Dataset:
    """The domain that `name` ends with; `terms`, the size of the vocabulary, is fixed in svmlight."""
    domain = name.removeprefix("amazon-")
    key = fingerprint(name, here.form.name, here.sha256, terms, VERSIONS[here.form.name])
    counted = cached_documents(name, key, lambda: count_amazon(here, domain, terms))
    return Dataset(
        name=name,
        X=counted.counts,
        y=np.array([AMAZON_CLASSES.index(label) for label in counted.labels], dtype=np.int64),
        class_names=AMAZON_CLASSES,
        source="real",
        sha256=key,
        description=f"Amazon reviews of {domain}, counts of uni- and bigrams, positive or negative",
        feature_names=counted.terms or None,
        splits=_splits(np.array(counted.parts)),
        groups=identical_rows(counted.counts),
        notes=NOTES.get(here.form.name, ()),
    )


def _splits(parts: np.ndarray) -> dict[str, Split]:
    if "test" not in parts:
        return {"seeded": seeded_split(len(parts))}
    return {"predefined": (np.flatnonzero(parts == "train"), np.flatnonzero(parts == "test"))}


def count_amazon(here: Here, domain: str, terms: int) -> Documents:
    """The reviews of a domain, training before test, from either form."""
    if here.form.name == "svmlight":
        return read_svmlight(*(here.paths[f"{domain}_{part}.svmlight"] for part in ("train", "test")))
    kinds = (
        REVIEW_KINDS[:2] if here.form.name == "labelled" else REVIEW_KINDS
    )  # of a form, what was verified of it
    return read_processed_acl(next(iter(here.paths.values())), domain, terms, kinds)


def read_svmlight(train: Path, test: Path) -> Documents:
    """Labels +1 and -1, columns 0 to 4,999, whose terms are not known."""
    matrices, labels, parts = [], [], []
    for path, part in ((train, "train"), (test, "test")):
        rows = svmlight.read_rows(path)
        if rows.column_range()[1] >= SVMLIGHT_TERMS or not set(rows.labels) <= {"-1", "1"}:
            raise McfError(f"{path}: expected labels +1 and -1 and columns below {SVMLIGHT_TERMS:,}")
        matrices.append(rows.matrix(SVMLIGHT_TERMS, first_column=0))
        labels += ["positive" if label == "1" else "negative" for label in rows.labels]
        parts += [part] * len(rows.labels)
    return Documents(sp.csr_matrix(sp.vstack(matrices)), (), tuple(labels), tuple(parts))


def read_processed_acl(
    path: Path, domain: str, terms: int, wanted: Sequence[str] = REVIEW_KINDS
) -> Documents:
    """The positive, the negative, then the test reviews, over the `terms` most common terms of them all."""
    kinds: list[str] = []
    labels: list[str] = []

    def bags() -> Iterator[Bag]:
        for member, stream in open_members(path, [f"{domain}/{kind}.review" for kind in wanted]):
            for bag, label in _reviews(f"{path}: {member}", stream):
                kinds.append(Path(member).stem)
                labels.append(label)
                yield bag

    counts, names = count_matrix(bags(), max_terms=terms)
    if missing := [kind for kind in REVIEW_KINDS[:2] if kind not in kinds]:
        raise McfError(f"{path} lacks {domain}/{missing[0]}.review: get processed_acl again")
    order = sorted(range(len(kinds)), key=lambda row: REVIEW_KINDS.index(kinds[row]))
    parts = tuple("test" if kinds[row] == "unlabeled" else "train" for row in order)
    return Documents(counts[order], names, tuple(labels[row] for row in order), parts)


def _reviews(where: str, stream: IO[bytes]) -> Iterator[tuple[Bag, str]]:
    """`term:count term:count ... #label#:positive`, one review a line."""
    for number, line in numbered_lines(stream, where):
        bag: Bag = {}
        label = None
        for item in line.split(" "):
            term, separator, value = item.rpartition(":")
            if term == LABEL and value in AMAZON_CLASSES:
                label = value
            elif separator and value.isdecimal() and len(value) < 10:
                bag[term] = bag.get(term, 0) + int(value)
            elif item:
                malformed(where, f"line {number}", f"expected 'term:count', got {shown(item)}")
        if label is None:
            malformed(where, f"line {number}", f"expected '{LABEL}:positive' or '{LABEL}:negative'")
        yield bag, label
