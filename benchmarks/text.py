"""Reviews as texts: what scikit-learn's linear models and MCF make of Amazon's four domains.

    python -m benchmarks.text [--domains books dvd electronics kitchen] [--rows 2000]

Every model is a pipeline that starts from the texts, with uni- and bigrams. Its l2 (and MCF's q) are chosen by five
folds of the whole training texts. It is tested on whole texts, and on the same texts with 30% of their tokens kept:
models do not know which test they will take. The raw reviews come from `mcf data get amazon-raw`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mcf_cli import MCFClassifierCV, datasets
from mcf_cli.datasets.formats.archives import numbered_lines, open_members
from mcf_cli.datasets.sources.amazon import AMAZON_CLASSES
from mcf_cli.datasets.store import verify
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

DOMAINS = ("books", "dvd", "electronics", "kitchen")
KEPT = 0.3  # of the tokens of a shortened text
TERMS: dict[str, Any] = {"ngram_range": (1, 2), "max_features": 20_000, "token_pattern": r"\S+"}
CS = 10.0 ** np.arange(-3, 4)


def tuned(model: Any) -> GridSearchCV:
    """By five folds, as MCF is."""
    return GridSearchCV(model, {"C": CS}, cv=5)


METHODS: dict[str, Callable[[], Pipeline]] = {
    "logistic regression, counts": lambda: make_pipeline(
        CountVectorizer(**TERMS), tuned(LogisticRegression(max_iter=1000))
    ),
    "logistic regression, tf-idf": lambda: make_pipeline(
        TfidfVectorizer(**TERMS), tuned(LogisticRegression(max_iter=1000))
    ),
    "LinearSVC, tf-idf": lambda: make_pipeline(TfidfVectorizer(**TERMS), tuned(LinearSVC())),
    "MCF, blankout, counts": lambda: make_pipeline(
        CountVectorizer(**TERMS), MCFClassifierCV(corruption="blankout")
    ),
    "MCF, blankout, tf-idf": lambda: make_pipeline(
        TfidfVectorizer(**TERMS), MCFClassifierCV(corruption="blankout")
    ),
}


def reviews(domain: str) -> np.ndarray:
    """The texts of a domain, in the order of the rows of `datasets.load`."""
    path = next(iter(verify.require(f"amazon-raw-{domain}").paths.values()))
    texts: dict[str, list[str]] = {label: [] for label in AMAZON_CLASSES}
    for member, stream in open_members(path, [f"{domain}/{label}.txt" for label in AMAZON_CLASSES]):
        texts[Path(member).stem] += [line for _, line in numbered_lines(stream, f"{path}: {member}")]
    return np.array(texts["positive"] + texts["negative"], dtype=object)


def shortened(texts: Sequence[str], kept: float = KEPT, seed: int = 0) -> list[str]:
    """Each token stays with probability `kept`."""
    rng = np.random.default_rng(seed)
    split = [np.array(text.split(), dtype=object) for text in texts]
    return [" ".join(tokens[rng.random(len(tokens)) < kept]) for tokens in split]


def errors(
    train: Sequence[str], y_train: np.ndarray, test: Sequence[str], y_test: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Of each method on whole test texts and on shortened ones, in per cent."""
    found, short = {}, shortened(test)
    for name, make in METHODS.items():
        model = make().fit(train, y_train)
        found[name] = tuple(100.0 * (1.0 - model.score(texts, y_test)) for texts in (test, short))
    return found


def of_domain(domain: str, rows: int | None) -> dict[str, tuple[float, float]]:
    """The errors on one domain, of at most `rows` training and test reviews."""
    data, texts = datasets.load(f"amazon-raw-{domain}"), reviews(domain)
    if len(texts) != len(data.y):
        raise SystemExit(f"{domain}: {len(texts)} texts, but {len(data.y)} labels")
    rng = np.random.default_rng(0)
    train, test = (rng.permutation(part)[:rows] for part in data.splits["seeded"])
    return errors(texts[train], data.y[train], texts[test], data.y[test])


def table(domains: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Mean errors over the domains, a line a method."""
    lines = ["| method | whole texts | 30% of the tokens |", "|---|---|---|"]
    for name in METHODS:
        whole, short = np.mean([found[name] for found in domains.values()], axis=0)
        lines.append(f"| {name} | {whole:.1f}% | {short:.1f}% |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the errors of each domain as they come, and the table of their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=DOMAINS)
    parser.add_argument("--rows", type=int, help="at most so many training and test reviews of a domain")
    given = parser.parse_args(arguments)
    found = {}
    for domain in given.domains:
        found[domain] = of_domain(domain, given.rows)
        for name, (whole, short) in found[domain].items():
            print(f"{domain:12} {name:28} {whole:5.1f}% {short:5.1f}%", flush=True)
    print(f"\n{table(found)}")


if __name__ == "__main__":
    main()
