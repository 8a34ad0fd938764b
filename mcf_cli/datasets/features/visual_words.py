"""Images as bags of visual words: the nearest word at every position, counted in four quadrants.

The codebook of image patches is learnt as in Coates, Ng and Lee (2011): contrast, whitening, k-means. Shapes: images
(N, H, W, 3) of bytes; patches (n, d) with d = 3 * side^2; a scoring table (d + 1, K), whose last row meets a column
of ones, so that the nearest word of a patch is the argmax of one matrix product.

Work is done and kept in chunks below MCF_DATA_HOME/derived: a run that was killed goes on where it stood.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.kernels.threads import available_cores
from mcf_cli.datasets.dataset import fingerprint
from mcf_cli.datasets.features.words import Arrays, derived_path, load_arrays, save_arrays
from mcf_cli.datasets.store import verify
from mcf_cli.errors import McfError
from mcf_cli.progress import ByteLines, counter

CONTRAST = 10.0  # added to a patch's variance, so that flat patches do not turn into noise
WHITENING = 0.1  # added to the eigenvalues of the patches' covariance
PATCH_BLOCK = (
    676  # rows of a matrix product: one image at 26 x 26 positions, so that the scores stay in the cache
)
StageReport = Callable[[str, int, int], None]  # what is being done, how much of it, out of how much


@dataclass(frozen=True)
class Recipe:
    """What a codebook depends on besides the images."""

    words: int = 2048
    side: int = 7
    patches: int = 400_000
    rounds: int = 20
    seed: int = 2013


def learn(images: np.ndarray, recipe: Recipe, progress: StageReport) -> np.ndarray:
    """The scoring table (d + 1, K) that maps contrast-normalised patches to the nearest of K words."""
    rng = np.random.default_rng(recipe.seed)
    patches = sample_patches(images, recipe, rng)
    mean, whitening = zca(patches)
    whitened = with_ones(patches.shape)
    patches -= mean
    np.matmul(patches, whitening, out=whitened[:, :-1])
    del patches
    centres = kmeans(whitened, recipe.words, recipe.rounds, rng, progress)
    return scoring_table(centres, mean, whitening)


def all_patches(images: np.ndarray, side: int) -> np.ndarray:
    """A view (N, rows, columns, side, 3 * side) of every patch at stride 1."""
    n, height, width, channels = images.shape
    flat = images.reshape(n, height, width * channels)
    windows = np.lib.stride_tricks.sliding_window_view(flat, (side, side * channels), axis=(1, 2))
    return windows[:, :, ::channels]


def sample_patches(images: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Contrast-normalised patches from random places of random images."""
    view = all_patches(images, recipe.side)
    places = tuple(rng.integers(0, size, recipe.patches) for size in view.shape[:3])
    patches = view[places].reshape(recipe.patches, -1).astype(np.float32)
    normalise_contrast(patches)
    return patches


def normalise_contrast(patches: np.ndarray) -> None:
    """In place: subtract each row's mean, divide by the root of its variance plus 10."""
    patches -= patches.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", patches, patches) / patches.shape[1]
    patches /= np.sqrt(variance + CONTRAST)[:, None]


def zca(patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and symmetric whitening matrix of the rows, in the precision of the patches."""
    mean = patches.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((patches.shape[1],) * 2)
    for start in range(0, len(patches), 20_000):
        part = patches[start : start + 20_000] - mean
        scatter += part.T @ part
    values, vectors = np.linalg.eigh(scatter / len(patches))
    whitening = (vectors / np.sqrt(np.maximum(values, 0) + WHITENING)) @ vectors.T
    return mean.astype(patches.dtype), whitening.astype(patches.dtype)


def scoring_table(centres: np.ndarray, mean: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """Whitening and distance in one product.

    With x whitened to z = (x - mean) W, |z - c|^2 is least where x . W c - mean . W c - |c|^2 / 2 is most.
    """
    centres, mean, whitening = (part.astype(np.float64) for part in (centres, mean, whitening))
    weights = whitening @ centres.T
    offsets = -mean @ weights - 0.5 * np.einsum("kd,kd->k", centres, centres)
    return np.vstack([weights, offsets]).astype(np.float32)


def with_ones(shape: tuple[int, int]) -> np.ndarray:
    """Room for rows of that shape, with a column of ones behind them."""
    rows = np.empty((shape[0], shape[1] + 1), np.float32)
    rows[:, -1] = 1.0
    return rows


def kmeans(
    rows: np.ndarray, words: int, rounds: int, rng: np.random.Generator, progress: StageReport
) -> np.ndarray:
    """Lloyd's algorithm on rows that end in a one, from random rows; an empty cluster starts anew."""
    if len(rows) < words:
        raise McfError(f"visual words: {len(rows):,} patches are too few for {words:,} words; raise patches")
    centres = rows[rng.choice(len(rows), words, replace=False), :-1]
    blocks = [rows[start : start + PATCH_BLOCK] for start in range(0, len(rows), PATCH_BLOCK)]
    with cores() as over_blocks:
        for number in range(rounds):
            table = np.vstack([centres.T, -0.5 * np.einsum("kd,kd->k", centres, centres)])
            nearest = np.concatenate(
                list(over_blocks(lambda block, t=table: nearest_words(block, t), blocks))
            )
            centres = _means(rows, nearest, words, rng)
            progress("learning visual words", number + 1, rounds)
    return centres


def _means(rows: np.ndarray, nearest: np.ndarray, words: int, rng: np.random.Generator) -> np.ndarray:
    membership = (np.ones(len(rows), np.float32), (nearest, np.arange(len(rows))))
    sums = sp.csr_matrix(membership, (words, len(rows))) @ rows  # the last column counts the members
    empty = sums[:, -1] == 0
    sums[empty] = rows[rng.choice(len(rows), int(empty.sum()), replace=False)]
    return sums[:, :-1] / sums[:, -1:]


_local = threading.local()


def nearest_words(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The word with the highest score for each row; each thread keeps one buffer for the scores."""
    shape = (max(len(rows), PATCH_BLOCK), table.shape[1])
    scores = getattr(_local, "scores", None)
    if scores is None or scores.shape[0] < shape[0] or scores.shape[1] != shape[1]:
        scores = _local.scores = np.empty(shape, np.float32)
    return np.matmul(rows, table, out=scores[: len(rows)]).argmax(axis=1)


@contextmanager
def cores() -> Iterator[Callable[..., Iterable]]:
    """A map over one thread per core, with BLAS kept to the thread that calls it.

    Matrix products release the interpreter, and products of fixed blocks on one thread each make the result
    independent of the number of cores.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        yield pool.map


VISUAL_WORDS_VERSION = 1  # raise it when the counts change
IMAGE_CHUNK = 500  # images; about three seconds of work
RESULT = "counts.npz"
QUADRANTS = ("top-left", "top-right", "bottom-left", "bottom-right")


def key_parts(recipe: Recipe) -> dict[str, object]:
    """What the counts depend on besides the images."""
    return {"version": VISUAL_WORDS_VERSION, **asdict(recipe)}


def column_names(words: int) -> tuple[str, ...]:
    """One column per word and quadrant, quadrant by quadrant."""
    return tuple(f"{quadrant}.{word}" for quadrant in QUADRANTS for word in range(words))


def cached_features(
    images: np.ndarray,
    train: np.ndarray,
    recipe: Recipe,
    data_sha256: str,
    progress: StageReport | None = None,
) -> sp.csr_matrix:
    """The counts of all images, with words learnt on the training images; computed once, by one process."""
    key = fingerprint("visual-words", data_sha256, key_parts(recipe))
    folder = verify.make_folder(derived_path("visual-words", key))
    done = (folder / RESULT).exists()
    with nullcontext() if done else verify.locked(f"derived/{folder.name}", say=ByteLines().say):
        return resumable_features(images, train, recipe, folder, progress)


def resumable_features(
    images: np.ndarray,
    train: np.ndarray,
    recipe: Recipe,
    folder: Path,
    progress: StageReport | None = None,
    chunk: int = IMAGE_CHUNK,
) -> sp.csr_matrix:
    """The counts, with the scoring table, every finished chunk and at last the result kept in a folder."""
    stored = load_arrays(folder / RESULT)
    if stored is None:
        progress = progress or counter()
        table = _kept_table(images, train, recipe, folder, progress)
        stored = _joined(list(_kept_chunks(images, table, recipe.side, folder, progress, chunk)))
        save_arrays(folder / RESULT, stored)
        for path in folder.glob("chunk-*.npz"):
            path.unlink(missing_ok=True)
    return _matrix(stored, recipe.words)


def features(images: np.ndarray, train: np.ndarray, recipe: Recipe) -> sp.csr_matrix:
    """The counts of a few images, nothing kept."""
    table = learn(images[train], recipe, _silent)
    return _matrix(count_chunk(images, table, recipe.side), recipe.words)


def _matrix(stored: Arrays, words: int) -> sp.csr_matrix:
    row_ends = np.concatenate([[0], stored["row_ends"]])
    parts = (stored["counts"].astype(np.float64), stored["columns"].astype(np.int32), row_ends)
    return sp.csr_matrix(parts, shape=(len(row_ends) - 1, len(QUADRANTS) * words))


def count_chunk(images: np.ndarray, table: np.ndarray, side: int) -> Arrays:
    """Columns, counts and row ends of the images' counts."""
    with cores() as over_images:
        rows = list(over_images(lambda image: _count_image(image, table, side), images))
    columns, counts = zip(*rows, strict=True)
    return {
        "columns": np.concatenate(columns),
        "counts": np.concatenate(counts),
        "row_ends": np.cumsum([len(row) for row in columns]),
    }


def _count_image(image: np.ndarray, table: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that occur in an image and how often."""
    view = all_patches(image[None].astype(np.float32), side)[0]
    shape = view.shape[:2]
    rows = with_ones((shape[0] * shape[1], table.shape[0] - 1))
    patches = rows[:, :-1]
    patches.reshape(view.shape)[...] = view
    normalise_contrast(patches)
    nearest = nearest_words(rows, table)
    words = table.shape[1]
    counts = np.bincount(nearest + words * quadrants(shape), minlength=len(QUADRANTS) * words)
    columns = np.flatnonzero(counts)
    return columns.astype(np.uint32), counts[columns].astype(np.uint16)


def quadrants(shape: tuple[int, int]) -> np.ndarray:
    """The number of the quadrant of every position, row by row."""
    lower, right = (np.arange(size) >= size / 2 for size in shape)
    return (2 * lower[:, None] + right).ravel()


def _kept_table(
    images: np.ndarray, train: np.ndarray, recipe: Recipe, folder: Path, progress: StageReport
) -> np.ndarray:
    stored = load_arrays(folder / "table.npz")
    if stored is None:
        stored = {"table": learn(images[train], recipe, progress)}
        save_arrays(folder / "table.npz", stored)
    return stored["table"]


def _kept_chunks(
    images: np.ndarray, table: np.ndarray, side: int, folder: Path, progress: StageReport, chunk: int
) -> Iterator[Arrays]:
    for start in range(0, len(images), chunk):
        path = folder / f"chunk-{start:08d}.npz"
        counted = load_arrays(path)
        if counted is None:
            counted = count_chunk(images[start : start + chunk], table, side)
            save_arrays(path, counted)
        yield counted
        progress("counting visual words", min(start + chunk, len(images)), len(images))


def _joined(chunks: list[Arrays]) -> Arrays:
    starts = np.cumsum([0, *(len(chunk["columns"]) for chunk in chunks)])
    row_ends = [chunk["row_ends"] + start for chunk, start in zip(chunks, starts[:-1], strict=True)]
    joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in ("columns", "counts")}
    return {**joined, "row_ends": np.concatenate(row_ends)}


def _silent(stage: str, done: int, total: int) -> None:
    pass
