"""Amazon reviews in four domains (Blitzer et al.): `processed_acl`, or the svmlight files of 5,000 terms."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import svmlight
from mcf_cli.datasets.dataset import Dataset, Split, fingerprint, first_rows_train, seeded_split
from mcf_cli.datasets.reading import malformed, numbered_lines, open_members, shown
from mcf_cli.datasets.verify import Here
from mcf_cli.datasets.words import count_matrix
from mcf_cli.errors import McfError

CLASSES = ("negative", "positive")
SVMLIGHT_TERMS = 5000
LABEL = "#label#"

Bag = dict[str, int]


def load(here: Here, name: str, terms: int = 20_000) -> Dataset:
    """The domain that `name` ends with; `terms` is the size of the vocabulary of the processed_acl form."""
    domain = name.removeprefix("amazon-")
    notes: tuple[str, ...] = ()
    feature_names = None
    if here.form.name == "svmlight":
        paths = [here.paths[f"{domain}_{part}.svmlight"] for part in ("train", "test")]
        X, y, split = read_svmlight(*paths)
        splits, notes, terms = {"predefined": split}, ("5,000-term form",), SVMLIGHT_TERMS
    else:
        X, y, feature_names, split = read_processed_acl(next(iter(here.paths.values())), domain, terms)
        splits = {"predefined": split} if split is not None else {"seeded": seeded_split(len(y))}
        notes = () if split is not None else ("labelled reviews only, no test set",)
    return Dataset(
        name=name,
        X=X,
        y=y,
        class_names=CLASSES,
        source="real",
        sha256=fingerprint(name, here.sha256, terms),
        description=f"Amazon reviews of {domain}, counts of uni- and bigrams, positive or negative",
        feature_names=feature_names,
        splits=splits,
        notes=notes,
    )


def read_svmlight(train: Path, test: Path) -> tuple[sp.csr_matrix, np.ndarray, Split]:
    """Labels +1 and -1, columns 0 to 4,999."""
    matrices, labels = [], []
    for path in (train, test):
        rows = svmlight.read_rows(path)
        if rows.column_range()[1] >= SVMLIGHT_TERMS or not set(rows.labels) <= {"-1", "1"}:
            raise McfError(f"{path}: expected labels +1 and -1 and columns below {SVMLIGHT_TERMS:,}")
        matrices.append(rows.matrix(SVMLIGHT_TERMS, first_column=0))
        labels.append(np.array([label == "1" for label in rows.labels], dtype=np.int64))
    split = first_rows_train(len(labels[0]), len(labels[1]))
    return sp.csr_matrix(sp.vstack(matrices)), np.concatenate(labels), split


def read_processed_acl(
    path: Path, domain: str, terms: int
) -> tuple[sp.csr_matrix, np.ndarray, tuple[str, ...], Split | None]:
    """Positive and negative reviews, then the unlabelled (which carry labels too): training, then test.

    The vocabulary is the `terms` most common of the domain. Without `unlabeled.review` there is no division.
    """
    parts: dict[str, list[tuple[Bag, int]]] = {}
    for part, stream in open_members(path, [f"{domain}/{kind}.review" for kind in _KINDS]):
        kind = Path(part).stem
        parts[kind] = list(_reviews(f"{path}: {part}", numbered_lines(stream, part)))
    if missing := {"positive", "negative"} - parts.keys():
        raise McfError(f"{path} lacks {domain}/{sorted(missing)[0]}.review: get processed_acl again")
    reviews = [review for kind in _KINDS for review in parts.get(kind, [])]
    X, names = count_matrix((bag for bag, _ in reviews), max_terms=terms)
    y = np.array([label for _, label in reviews], dtype=np.int64)
    n_test = len(parts.get("unlabeled", []))
    return X, y, names, first_rows_train(len(reviews) - n_test, n_test) if n_test else None


_KINDS = ("positive", "negative", "unlabeled")


def _reviews(where: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[Bag, int]]:
    """`term:count term:count ... #label#:positive`, one review a line."""
    for number, line in lines:
        bag: Bag = {}
        label = None
        for item in line.split(" "):
            term, separator, value = item.rpartition(":")
            if term == LABEL and value in CLASSES:
                label = CLASSES.index(value)
            elif separator and value.isdecimal() and len(value) < 10:
                bag[term] = bag.get(term, 0) + int(value)
            elif item:
                malformed(where, f"line {number}", f"expected 'term:count', got {shown(item)}")
        if label is None:
            malformed(where, f"line {number}", f"expected '{LABEL}:positive' or '{LABEL}:negative'")
        yield bag, label
