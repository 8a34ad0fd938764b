"""CIFAR-10 visual words against the bare matrix products that they need, on the same cores; and peak memory.

    python -m benchmarks.visual_words                              # about a minute
    python -m benchmarks.visual_words --images 60000 --rounds 20   # everything, nothing estimated

The bare products are float32 patches (676 x 147 an image) times a codebook of 2,048 words, into a buffer that
is reused: no patches are cut out, nothing is normalised, no maximum is taken. The words are learnt from the
full number of patches and images; a short run does fewer rounds, counts fewer images and scales both up.
"""

import argparse
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from mcf_cli.datasets import available, builtin
from mcf_cli.datasets.features import visual_words
from mcf_cli.datasets.features import visual_words as codebook
from mcf_cli.datasets.sources import cifar10
from mcf_cli.datasets.store import verify
from mcf_cli.progress import counter

TARGET_RATIO, TARGET_MEMORY = 2.0, 2 * 2**30
ALL, TRAIN = 60_000, 50_000
_local = threading.local()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="images whose words are counted")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of k-means")
    arguments = parser.parse_args()
    images, name = _images()
    recipe = codebook.Recipe()
    progress = counter()
    start = time.perf_counter()
    table = codebook.learn(images[:TRAIN], replace(recipe, rounds=arguments.rounds), progress)
    learning = time.perf_counter() - start
    bare, ours = _side_by_side(images[: arguments.images], table, recipe.side, progress)
    scale = ALL / arguments.images
    rows = {
        "bare products": (bare, bare * scale),
        "visual words": (ours, ours * scale),
        "learning the words": (learning, learning * recipe.rounds / arguments.rounds),
    }
    sys.exit(_report(f"{name}: {arguments.images:,} images, {arguments.rounds} rounds of k-means", rows))


def _images() -> tuple[np.ndarray, str]:
    if not available("cifar10"):
        return builtin.texture_images(ALL, side=32)[0], "builtin-textures (CIFAR-10 is not here)"
    return cifar10.read_images(verify.require("cifar10").paths)[0], "cifar10"


def _side_by_side(
    images: np.ndarray, table: np.ndarray, side: int, progress: Callable[[str, int, int], None]
) -> tuple[float, float]:
    """Seconds of both, alternating chunk by chunk so that other work on the machine falls on both alike."""
    bare = ours = 0.0
    positions = (images.shape[1] - side + 1) ** 2
    weights = np.ascontiguousarray(table[:-1])
    patches = np.random.default_rng(0).standard_normal((positions, len(weights))).astype(np.float32)
    for start in range(0, len(images), visual_words.IMAGE_CHUNK):
        chunk = images[start : start + visual_words.IMAGE_CHUNK]
        begin = time.perf_counter()
        with codebook.cores() as over_images:
            list(over_images(lambda _: _product(patches, weights), chunk))
        middle = time.perf_counter()
        visual_words.count_chunk(chunk, table, side)
        bare, ours = bare + middle - begin, ours + time.perf_counter() - middle
        progress("counting visual words", start + len(chunk), len(images))
    return bare, ours


def _product(patches: np.ndarray, weights: np.ndarray) -> None:
    if not hasattr(_local, "scores"):
        _local.scores = np.empty((len(patches), weights.shape[1]), np.float32)
    np.matmul(patches, weights, out=_local.scores)


def _report(title: str, rows: dict[str, tuple[float, float]]) -> int:
    """Print seconds as measured and for all images, and the two targets; 0 if both are met."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{title}\n{'':24}{'seconds':>10}{f'{ALL:,} images':>16}")
    for name, (measured, whole) in rows.items():
        print(f"{name:24}{measured:>10.1f}{whole:>16.0f}")
    bare, counting, learning = (whole for _, whole in rows.values())
    ratio = (counting + learning) / bare
    print(f"ratio {counting / bare:.2f}, with learning {ratio:.2f} (at most {TARGET_RATIO})")
    print(f"peak memory {peak / 2**30:.2f} GiB (below {TARGET_MEMORY / 2**30:.0f})")
    return 0 if ratio <= TARGET_RATIO and peak < TARGET_MEMORY else 1


if __name__ == "__main__":
    main()
