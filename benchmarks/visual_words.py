"""CIFAR-10 visual words against the bare matrix products that they need, on the same cores; and peak memory.

    python -m benchmarks.visual_words                 # 2,000 images, about a minute
    python -m benchmarks.visual_words --images 60000  # the whole set, codebook included

The bare products are float32 patches (676 x 147 an image) times a codebook of 2,048 words, into a buffer that
is reused: no patches are cut out, nothing is normalised, no maximum is taken.
"""

import argparse
import resource
import sys
import threading
import time

import numpy as np
from mcf_cli.datasets import available, builtin, cifar10, codebook, verify, visual_words
from mcf_cli.datasets.progress import counter

TARGET_RATIO, TARGET_MEMORY = 2.0, 2 * 2**30
_local = threading.local()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--patches", type=int, default=None, help="patches for the codebook")
    arguments = parser.parse_args()
    images, name = _images(arguments.images)
    patches = arguments.patches or (400_000 if arguments.images >= 50_000 else 20_000)
    recipe = codebook.Recipe(patches=patches)
    progress = counter()
    train = np.arange(len(images) * 5 // 6)
    start = time.perf_counter()
    table = codebook.learn(images[train], recipe, progress)
    learning = time.perf_counter() - start
    bare, ours = _side_by_side(images, table, recipe, progress)
    _report(name, len(images), learning, bare, ours)


def _images(count: int) -> tuple[np.ndarray, str]:
    if not available("cifar10"):
        return builtin.texture_images(count, side=32)[0], "builtin-textures (CIFAR-10 is not here)"
    return cifar10.read_images(verify.require("cifar10").paths)[0][:count], "cifar10"


def _side_by_side(
    images: np.ndarray, table: np.ndarray, recipe: codebook.Recipe, progress: codebook.Progress
) -> tuple[float, float]:
    """Seconds of both, alternating chunk by chunk so that other work on the machine falls on both alike."""
    bare = ours = 0.0
    positions = (images.shape[1] - recipe.side + 1) ** 2
    weights = np.ascontiguousarray(table[:-1])
    patches = np.random.default_rng(0).standard_normal((positions, len(weights))).astype(np.float32)
    for start in range(0, len(images), visual_words.CHUNK):
        chunk = images[start : start + visual_words.CHUNK]
        begin = time.perf_counter()
        with codebook.cores() as over_images:
            list(over_images(lambda _: _product(patches, weights), chunk))
        middle = time.perf_counter()
        visual_words.count_chunk(chunk, table, recipe.side)
        bare, ours = bare + middle - begin, ours + time.perf_counter() - middle
        progress("counting visual words", start + len(chunk), len(images))
    return bare, ours


def _product(patches: np.ndarray, weights: np.ndarray) -> None:
    if not hasattr(_local, "scores"):
        _local.scores = np.empty((len(patches), weights.shape[1]), np.float32)
    np.matmul(patches, weights, out=_local.scores)


def _report(name: str, count: int, learning: float, bare: float, ours: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    scale = 60_000 / count
    print(f"{name}, {count:,} images")
    print(f"{'':24}{'seconds':>10}{'60,000 images':>16}")
    print(f"{'bare products':24}{bare:>10.1f}{bare * scale:>16.0f}")
    print(f"{'visual words':24}{ours:>10.1f}{ours * scale:>16.0f}")
    print(f"{'learning the words':24}{learning:>10.1f}")
    print(
        f"ratio {ours / bare:.2f} (target {TARGET_RATIO}), peak memory {peak / 2**30:.2f} GiB (target 2.00)"
    )
    sys.exit(0 if ours / bare <= TARGET_RATIO and peak < TARGET_MEMORY else 1)


if __name__ == "__main__":
    main()
