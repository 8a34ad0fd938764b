"""Amazon reviews in four domains (Blitzer et al.): `processed_acl`, the svmlight files of 5,000 terms, or raw text.

The raw reviews are another release of the same collection, with another division: not the paper's documents.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Literal

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import (
    SPLIT_SEED,
    CountOption,
    Dataset,
    Seed,
    Split,
    fingerprint,
    identical_groups,
    identical_rows,
    seeded_split,
    shuffled_rows,
)
from mcf_cli.datasets.features.words import Documents, cached_documents, count_matrix
from mcf_cli.datasets.formats import svmlight
from mcf_cli.datasets.formats.archives import malformed, numbered_lines, open_members, shown
from mcf_cli.datasets.store.verify import Here, find
from mcf_cli.errors import McfError

VERSIONS = {
    "processed_acl": 1,
    "svmlight": 1,
    "labelled": 2,
    "raw": 1,
}  # raise one when the counts of its form change
AMAZON_CLASSES = ("negative", "positive")
SVMLIGHT_TERMS = 5000
TRAINING_REVIEWS = 1000  # of each class: the paper trains on 2,000 reviews of a domain

REVIEW_KINDS = (
    "positive",
    "negative",
    "unlabeled",
)  # the last is the test set, and carries labels all the same

LABEL = "#label#"
NOTES = {"svmlight": ("5,000-term form",), "labelled": ("labelled reviews only, no test set",)}
Bag = dict[str, int]
Domain = Literal["books", "dvd", "electronics", "kitchen"]


def load_amazon(here: Here, name: str, terms: CountOption = 20_000, source: Domain | None = None) -> Dataset:
    """The domain that `name` ends with; `terms`, the size of the vocabulary, is fixed in svmlight.

    With `source`, another domain, its training reviews take the place of the domain's own.
    """
    domain = name.removeprefix("amazon-")
    if source is not None:
        return _shifted(here, source, domain)
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
        feature_names=counted.terms or _svmlight_terms(here),
        splits=_splits(np.array(counted.parts)),
        groups=identical_rows(counted.counts),
        notes=NOTES.get(here.form.name, ()),
    )


def _shifted(here: Here, source: str, target: str) -> Dataset:
    """The training reviews of one domain and the test reviews of another; last, in no split, its training reviews.

    Those may be used without their labels, as rows of the target that are no test rows.
    """
    if here.form.name != "svmlight":
        raise McfError(
            "source: only the columns of the svmlight form mean the same in every domain: add form: svmlight"
        )
    if source == target:
        raise McfError(f"source is {source}, the domain itself: leave it out, or name another domain")
    ours, theirs = (load_amazon(here, f"amazon-{domain}") for domain in (source, target))
    train, (others, test) = ours.splits["predefined"][0], theirs.splits["predefined"]
    X = sp.csr_matrix(sp.vstack([ours.X[train], theirs.X[test], theirs.X[others]]))
    rows = np.arange(X.shape[0])
    return replace(
        theirs,
        name=f"amazon-{source}-to-{target}",
        X=X,
        y=np.concatenate([ours.y[train], theirs.y[test], theirs.y[others]]),
        sha256=fingerprint("shift, target's training reviews last", ours.sha256, theirs.sha256),
        description=f"Amazon reviews: training reviews of {source}, test reviews of {target}, positive or negative",
        splits={"shift": (rows[: len(train)], rows[len(train) : len(train) + len(test)])},
        groups=identical_rows(X),
    )


def load_amazon_raw(here: Here, name: str, terms: CountOption = 20_000, seed: Seed = SPLIT_SEED) -> Dataset:
    """Raw reviews of the domain that `name` ends with, 2,000 for training and the rest for testing.

    `terms` is the size of the vocabulary; `seed` draws the training reviews, 1,000 of each class. Copies of a
    review stay on one side.
    """
    domain = name.removeprefix("amazon-raw-")
    path = next(iter(here.paths.values()))
    key = fingerprint(name, here.form.name, here.sha256, terms, VERSIONS["raw"])
    counted = cached_documents(name, key, lambda: read_raw_reviews(path, domain, terms))
    y = np.array([AMAZON_CLASSES.index(label) for label in counted.labels], dtype=np.int64)
    copies = identical_groups(counted.parts)
    return Dataset(
        name=name,
        X=counted.counts,
        y=y,
        class_names=AMAZON_CLASSES,
        source="substitute",
        sha256=fingerprint(key, seed),
        description=f"Amazon reviews of {domain} from raw text, counts of uni- and bigrams, positive or negative",
        feature_names=counted.terms,
        splits={"seeded": balanced_split(y, copies, TRAINING_REVIEWS, seed)},
        groups=copies,
        notes=(f"raw reviews, {counted.counts.shape[1]:,} terms, not the paper's documents",),
    )


def balanced_split(y: np.ndarray, groups: np.ndarray, each: int, seed: int) -> Split:
    """Row numbers of a random division with `each` training rows of every class; groups are never divided."""
    room = np.full(y.max() + 1, each)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    taken = np.zeros(len(y), dtype=bool)
    for group in shuffled_rows(len(members), seed):
        wanted = np.bincount(y[members[group]], minlength=len(room))
        if (wanted <= room).all():
            taken[members[group]] = True
            room -= wanted
    if room.any():
        raise McfError(f"cannot draw {each:,} training rows of every class: too few rows")
    return np.flatnonzero(taken), np.flatnonzero(~taken)


def _svmlight_terms(here: Here) -> tuple[str, ...] | None:
    """The term of each svmlight column, where the list of them has been imported."""
    path = find(here.entry.name, "svmlight-terms.txt") if here.form.name == "svmlight" else None
    return tuple(path.read_text(encoding="utf-8").split("\n")[:SVMLIGHT_TERMS]) if path else None


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
    """`term:count term:count ... #label#:positive`, one review per line."""
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


def read_raw_reviews(path: Path, domain: str, terms: int) -> Documents:
    """Positive, then negative reviews, over the `terms` most common terms of them all; `parts` tells copies apart."""
    labels: list[str] = []
    texts: list[str] = []

    def bags() -> Iterator[Counter[str]]:
        for member, stream in open_members(path, [f"{domain}/{label}.txt" for label in AMAZON_CLASSES]):
            for _, line in numbered_lines(stream, f"{path}: {member}"):
                words = review_tokens(line)
                labels.append(Path(member).stem)
                texts.append(fingerprint(words))
                yield review_terms(words)

    counts, names = count_matrix(bags(), max_terms=terms)
    if missing := [label for label in AMAZON_CLASSES if label not in labels]:
        raise McfError(f"{path} lacks {domain}/{missing[0]}.txt: import the raw reviews again")
    order = sorted(range(len(labels)), key=lambda row: labels[row] != "positive")
    return Documents(
        counts[order], names, tuple(labels[row] for row in order), tuple(texts[row] for row in order)
    )


# How `processed_acl` was made from text, worked out from its labelled reviews.
_TRAILING = re.compile(r"([a-z0-9]+)[^a-z0-9]+")
_LEADING = re.compile(r"[^a-z0-9]([a-z0-9]+)")
_KINDS_OF_NUMBER = {
    "<year>": re.compile(r"(19|20)\d\d"),
    "<num>": re.compile(r"\d+(\.\d+)?"),
    "<dash-num>": re.compile(r"\d+(-\d+)+"),
    "<fraction>": re.compile(r"\d+/\d+"),
    "": re.compile(r"[\W_]*"),
}
_FUNCTION_WORDS = (
    "a across am an and any are as at be been being but by can could did do does each for from had has have in "
    "into is isn't it it's its of on or that that's thats the there there's these this those to under until up "
    "were will with would"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


def review_tokens(text: str) -> list[str]:
    """Lower-case words without their marks, kinds of number by name; a mark by itself is an empty token."""
    tokens: list[str] = []
    for word in text.lower().split():
        bare = _TRAILING.fullmatch(word) or _LEADING.fullmatch(word)
        for piece in (bare[1] if bare else word).replace(":", "").split(","):
            kinds = (kind for kind, pattern in _KINDS_OF_NUMBER.items() if pattern.fullmatch(piece))
            tokens.append(next(kinds, piece))
    return tokens


def review_terms(tokens: Sequence[str]) -> Counter[str]:
    """Counts of words other than function words, and of neighbours that are not both function words."""
    terms = Counter(word for word in tokens if word and word not in FUNCTION_WORDS)
    terms.update(
        f"{one}_{next_one}"
        for one, next_one in pairwise(tokens)
        if one and next_one and not FUNCTION_WORDS.issuperset((one, next_one))
    )
    return terms
