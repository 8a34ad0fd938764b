"""Data that needs no download: real digits, and seeded generators that keep what matters of the real sets.

Every name starts with `builtin-`, and the name travels into every row, table and plot.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import (
    CountOption,
    Dataset,
    Rate,
    fingerprint,
    first_rows_train,
    identical_groups,
    seeded_split,
)
from mcf_cli.datasets.sources.splice import one_hot, position_names
from mcf_cli.errors import McfError

BUILTIN_VERSION = 1  # raise it when a generator's output changes
SEED = 2013


def digits() -> Dataset:
    """scikit-learn's 1,797 real handwritten digits, 8 x 8 pixels in [0, 1]."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    names = tuple(f"row{row}col{column}" for row in range(8) for column in range(8))
    return Dataset(
        name="builtin-digits",
        X=bunch.data / 16.0,
        y=bunch.target.astype(np.int64),
        class_names=tuple("0123456789"),
        source="builtin",
        sha256=fingerprint("builtin-digits", BUILTIN_VERSION),
        description="Handwritten digits of 8 x 8 pixels (scikit-learn's copy of a UCI set)",
        feature_names=names,
        splits={"seeded": seeded_split(len(bunch.target))},
    )


def reviews(
    n_train: CountOption = 400,
    n_test: CountOption = 800,
    concepts: CountOption = 100,
    common: CountOption = 300,
) -> Dataset:
    """Two classes of short documents: bursty Zipf-law common words, and opinions with many rare synonyms.

    Half of the concepts lean to each class. A document holds a few of them, each said by one of its six
    words, of which the later are rare: a model that trusts the frequent words alone misses most documents.
    """
    rng = np.random.default_rng([SEED, 1])
    synonyms, n = 6, n_train + n_test
    y = rng.integers(0, 2, n)
    background = _bursty_counts(rng, n, common, mean_length=30)
    leaning = 1 - np.arange(concepts) % 2
    said = rng.poisson(np.where(leaning == y[:, None], 0.12, 0.03))
    opinions = rng.multinomial(said, _zipf_shares(synonyms, 1.0)).reshape(n, concepts * synonyms)
    names = [f"word{k}" for k in range(common)]
    names += [f"{('bad', 'good')[leaning[c]]}{c // 2}.{s}" for c in range(concepts) for s in range(synonyms)]
    return _document_set(
        name="builtin-reviews",
        counts=np.hstack([background, opinions]),
        y=y,
        class_names=("negative", "positive"),
        names=names,
        n_train=n_train,
        description="Generated reviews: Zipf-law words, sparse opinions with rare synonyms",
        parameters={"n_train": n_train, "n_test": n_test, "concepts": concepts, "common": common},
    )


def topics(
    n_train: CountOption = 400, n_test: CountOption = 800, classes: CountOption = 6, common: CountOption = 300
) -> Dataset:
    """Unbalanced topics: bursty Zipf-law common words, and 50 terms a topic that stray into the others."""
    rng = np.random.default_rng([SEED, 2])
    terms, n = 50, n_train + n_test
    y = rng.choice(classes, n, p=_zipf_shares(classes, 0.8))
    background = _bursty_counts(rng, n, common, mean_length=25)
    home, rank = np.divmod(np.arange(classes * terms), terms)
    rates = np.where(home == y[:, None], 6.0, 0.5) * _zipf_shares(terms, 0.7)[rank]
    own = rng.poisson(rates * rng.gamma(1.0, 1.0, rates.shape))
    return _document_set(
        name="builtin-topics",
        counts=np.hstack([background, own]),
        y=y,
        class_names=tuple(f"topic{k}" for k in range(classes)),
        names=[f"word{k}" for k in range(common)] + [f"term{h}.{r}" for h, r in zip(home, rank, strict=True)],
        n_train=n_train,
        description="Generated news: unbalanced topics over a shared Zipf-law vocabulary",
        parameters={"n_train": n_train, "n_test": n_test, "classes": classes, "common": common},
    )


def splice(n: CountOption = 900, symbols: int = 4, noise: Rate = 0.2) -> Dataset:
    """Sequences of 60 nucleotides: donor or acceptor consensus in the middle, or neither.

    With probability `noise` a consensus position is drawn from the background instead. One sequence in twenty
    is stored twice; over 8 symbols a few nucleotides are uncertain (N), as in the real file.
    """
    if symbols not in (4, 8):
        raise McfError(f"builtin-splice: symbols is {symbols}; choose 4 or 8")
    alphabet = "ACGTDNSR"[:symbols]
    rng = np.random.default_rng([SEED, 3])
    y = rng.choice(3, n, p=[0.25, 0.25, 0.5])
    letters = np.array([list(_sequence(rng, ("EI", "IE", "N")[k], noise)) for k in y])
    if symbols == 8:
        letters[rng.random(letters.shape) < 0.001] = "N"
    copies = rng.choice(n, n // 20, replace=False)
    sequences = ["".join(row) for row in np.vstack([letters, letters[copies]])]
    return Dataset(
        name="builtin-splice",
        X=one_hot(sequences, alphabet),
        y=np.concatenate([y, y[copies]]).astype(np.int64),
        class_names=("EI", "IE", "N"),
        source="builtin",
        sha256=fingerprint("builtin-splice", BUILTIN_VERSION, n, symbols, noise),
        description="Generated splice junctions: sequences around consensus motifs",
        feature_names=position_names(60, alphabet),
        groups=identical_groups(sequences),
        blocks=symbols,
    )


def textures(n_train: CountOption = 300, n_test: CountOption = 300, words: CountOption = 64) -> Dataset:
    """Small images of five textures in random colours, as counts of visual words in four quadrants."""
    from mcf_cli.datasets.features import visual_words
    from mcf_cli.datasets.features.visual_words import Recipe

    images, y = texture_images(n_train + n_test)
    split = first_rows_train(n_train, n_test)
    recipe = Recipe(words=words, patches=100 * words, rounds=10, seed=SEED)
    return Dataset(
        name="builtin-textures",
        X=visual_words.features(images, split[0], recipe),
        y=y,
        class_names=TEXTURES,
        source="builtin",
        sha256=fingerprint(
            "builtin-textures", BUILTIN_VERSION, n_train, n_test, visual_words.key_parts(recipe)
        ),
        description="Generated textures of 20 x 20 coloured pixels, counts of visual words in four quadrants",
        feature_names=visual_words.column_names(words),
        splits={"predefined": split},
    )


TEXTURES = ("blobs", "checks", "dots", "rows", "slopes")


def texture_images(n: int, side: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, side, side, 3) of bytes and their classes: two random colours in a pattern, under noise."""
    rng = np.random.default_rng([SEED, 4])
    y = rng.integers(0, len(TEXTURES), n)
    row, column = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    period = rng.uniform(5.0, 8.0, (n, 1, 1))
    across, down = (2 * np.pi * (axis + rng.uniform(0, side, (n, 1, 1))) / period for axis in (column, row))
    patterns = {
        "blobs": np.sin(across + np.sin(down)) + np.sin(down + np.sin(across)),
        "checks": np.sign(np.sin(across) * np.sin(down)),
        "dots": 2.0 * (np.cos(across) * np.cos(down) > 0.5) - 1.0,
        "rows": np.sin(down),
        "slopes": np.sin(across + down),
    }
    pattern = np.stack([patterns[name] for name in TEXTURES])[y, np.arange(n)]
    mix = 0.5 + 0.5 * np.clip(pattern, -1, 1)[..., None]
    light, dark = rng.uniform(0, 255, (2, n, 1, 1, 3))
    images = mix * light + (1 - mix) * dark + rng.normal(0, 45, (n, side, side, 3))
    return np.clip(images, 0, 255).astype(np.uint8), y.astype(np.int64)


GENERATORS: dict[str, Callable[..., Dataset]] = {
    "builtin-digits": digits,
    "builtin-reviews": reviews,
    "builtin-topics": topics,
    "builtin-splice": splice,
    "builtin-textures": textures,
}

# Consensus around the junction, columns before | after, as sets of letters that are equally likely.
_ANY, _PYRIMIDINE, _PURINE = "ACGT", "CT", "AG"
_DONOR = (["AC", "A", "G"], ["G", "T", _PURINE, "A", "G", "T"])
_ACCEPTOR = ([_PYRIMIDINE] * 15 + [_ANY, "C", "A", "G"], ["G"])


def _sequence(rng: np.random.Generator, label: str, noise: float) -> str:
    """Thirty nucleotides on each side; a decoy GT or AG in the middle of half the negatives."""
    letters = rng.choice(list("ACGT"), 60, p=[0.24, 0.26, 0.26, 0.24])
    before, after = {"EI": _DONOR, "IE": _ACCEPTOR}.get(label, ([], []))
    for offset, choices in enumerate([*before, *after], 30 - len(before)):
        if rng.random() >= noise:
            letters[offset] = rng.choice(list(choices))
    if label == "N" and rng.random() < 0.5:
        letters[28:30] = list("AG") if rng.random() < 0.5 else letters[28:30]
        letters[30:32] = list("GT") if rng.random() < 0.5 else letters[30:32]
    return "".join(letters)


def _zipf_shares(size: int, exponent: float = 0.9) -> np.ndarray:
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    return weights / weights.sum()


def _bursty_counts(rng: np.random.Generator, n: int, size: int, mean_length: int) -> np.ndarray:
    """Bags of words: a Zipf law over the vocabulary, unequal lengths, and words that come in bursts."""
    lengths = rng.gamma(3.0, mean_length / 3.0, n)
    bursts = rng.gamma(1.0, 1.0, (n, size))
    return rng.poisson(lengths[:, None] * _zipf_shares(size) * bursts)


def _document_set(
    name: str,
    counts: np.ndarray,
    y: np.ndarray,
    class_names: tuple[str, ...],
    names: list[str],
    n_train: int,
    description: str,
    parameters: dict[str, int],
) -> Dataset:
    return Dataset(
        name=name,
        X=sp.csr_matrix(counts, dtype=np.float64),
        y=y.astype(np.int64),
        class_names=class_names,
        source="builtin",
        sha256=fingerprint(name, BUILTIN_VERSION, parameters),
        description=description,
        feature_names=tuple(names),
        splits={"predefined": first_rows_train(n_train, len(y) - n_train)},
    )
