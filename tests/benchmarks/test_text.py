"""The benchmark on texts: what it keeps of them, and that its methods learn from words."""

import numpy as np
import pytest
from mcf_cli import datasets

from benchmarks import text
from tests.datasets.real_data import get_or_skip


def test_a_shortened_text_keeps_its_share_of_tokens_in_order():
    words = [str(number) for number in range(1000)]
    (short,) = text.shortened([" ".join(words)], kept=0.3)
    kept = [int(word) for word in short.split()]
    assert kept == sorted(kept) and 250 < len(kept) < 350
    assert text.shortened(["a b", ""], kept=1.0) == ["a b", ""]


def test_a_table_has_the_mean_of_the_domains():
    found = {
        "books": dict.fromkeys(text.METHODS, (10.0, 20.0)),
        "dvd": dict.fromkeys(text.METHODS, (11.0, 24.0)),
    }
    lines = text.table(found).splitlines()
    assert len(lines) == 2 + len(text.METHODS) and all(
        line.endswith("| 10.5% | 22.0% |") for line in lines[2:]
    )


@pytest.mark.parametrize("name", ["LinearSVC, tf-idf", "MCF, blankout, counts"])
def test_a_method_learns_from_words(monkeypatch, name):
    monkeypatch.setattr(text, "METHODS", {name: text.METHODS[name]})
    rng, y = np.random.default_rng(0), np.arange(120) % 2
    words = [["good", "fine", "the", "a"], ["bad", "poor", "the", "a"]]
    texts = [" ".join(rng.choice(words[label], 8)) for label in y]
    whole, short = text.errors(texts[:60], y[:60], texts[60:], y[60:])[name]
    assert whole <= 5.0 and whole <= short < 50.0


def test_texts_stand_in_the_order_of_their_rows():
    get_or_skip("amazon-raw", clients=())
    data, texts = datasets.load("amazon-raw-kitchen"), text.reviews("kitchen")
    assert len(texts) == len(data.y)
    excellent = data.X[:, data.feature_names.index("excellent")].toarray().ravel() > 0
    held = np.array(["excellent" in review.lower() for review in texts])
    assert held[excellent].all()
