"""CIFAR-10 as bags of visual words."""

from mcf_cli.datasets import visual_words
from mcf_cli.datasets.cifar10 import make_dataset, read_images
from mcf_cli.datasets.dataset import Dataset, fingerprint
from mcf_cli.datasets.verify import Here


def load(here: Here, words: int = 2048, patches: int = 400_000, seed: int = 2013) -> Dataset:
    """`cifar10-words`: counts of so many visual words, learnt from so many patches of the training images."""
    images, y, split = read_images(here.paths)
    recipe = visual_words.Recipe(words=words, patches=patches, seed=seed)
    X = visual_words.cached_features(images, split[0], recipe, here.sha256)
    key = fingerprint(here.sha256, visual_words.key_parts(recipe))
    columns = visual_words.column_names(words)
    return make_dataset(
        "cifar10-words", "counts of visual words in four quadrants", X, y, split, columns, key
    )
