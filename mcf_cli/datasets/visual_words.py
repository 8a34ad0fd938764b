"""Images as bags of visual words: the nearest word at every position, counted in four quadrants.

Work is done and kept in chunks below MCF_DATA_HOME/derived: a run that was killed goes on where it stood.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import codebook, home
from mcf_cli.datasets.codebook import Progress, Recipe
from mcf_cli.datasets.dataset import fingerprint
from mcf_cli.datasets.derived import Arrays, derived_path, load_arrays, save_arrays
from mcf_cli.datasets.progress import Lines, counter

VERSION = 1  # raise it when the counts change
CHUNK = 500  # images; about three seconds of work
RESULT = "counts.npz"
QUADRANTS = ("top-left", "top-right", "bottom-left", "bottom-right")


def key_parts(recipe: Recipe) -> dict[str, object]:
    """What the counts depend on besides the images."""
    return {"version": VERSION, **asdict(recipe)}


def column_names(words: int) -> tuple[str, ...]:
    """One column a word and quadrant, quadrant by quadrant."""
    return tuple(f"{quadrant}.{word}" for quadrant in QUADRANTS for word in range(words))


def cached_features(
    images: np.ndarray, train: np.ndarray, recipe: Recipe, data_sha256: str, progress: Progress | None = None
) -> sp.csr_matrix:
    """The counts of all images, with words learnt on the training images; computed once, by one process."""
    key = fingerprint("visual-words", data_sha256, key_parts(recipe))
    folder = home.make_folder(derived_path("visual-words", key))
    done = (folder / RESULT).exists()
    with nullcontext() if done else home.locked(f"derived/{folder.name}", say=Lines().say):
        return resumable_features(images, train, recipe, folder, progress)


def resumable_features(
    images: np.ndarray,
    train: np.ndarray,
    recipe: Recipe,
    folder: Path,
    progress: Progress | None = None,
    chunk: int = CHUNK,
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
    table = codebook.learn(images[train], recipe, _silent)
    return _matrix(count_chunk(images, table, recipe.side), recipe.words)


def _matrix(stored: Arrays, words: int) -> sp.csr_matrix:
    row_ends = np.concatenate([[0], stored["row_ends"]])
    parts = (stored["counts"].astype(np.float64), stored["columns"].astype(np.int32), row_ends)
    return sp.csr_matrix(parts, shape=(len(row_ends) - 1, len(QUADRANTS) * words))


def count_chunk(images: np.ndarray, table: np.ndarray, side: int) -> Arrays:
    """Columns, counts and row ends of the images' counts."""
    with codebook.cores() as over_images:
        rows = list(over_images(lambda image: _count_image(image, table, side), images))
    columns, counts = zip(*rows, strict=True)
    return {
        "columns": np.concatenate(columns),
        "counts": np.concatenate(counts),
        "row_ends": np.cumsum([len(row) for row in columns]),
    }


def _count_image(image: np.ndarray, table: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that occur in an image and how often."""
    view = codebook.all_patches(image[None].astype(np.float32), side)[0]
    shape = view.shape[:2]
    rows = codebook.with_ones((shape[0] * shape[1], table.shape[0] - 1))
    patches = rows[:, :-1]
    patches.reshape(view.shape)[...] = view
    codebook.normalise_contrast(patches)
    nearest = codebook.nearest_words(rows, table)
    words = table.shape[1]
    counts = np.bincount(nearest + words * quadrants(shape), minlength=len(QUADRANTS) * words)
    columns = np.flatnonzero(counts)
    return columns.astype(np.uint32), counts[columns].astype(np.uint16)


def quadrants(shape: tuple[int, int]) -> np.ndarray:
    """The number of the quadrant of every position, row by row."""
    lower, right = (np.arange(size) >= size / 2 for size in shape)
    return (2 * lower[:, None] + right).ravel()


def _kept_table(
    images: np.ndarray, train: np.ndarray, recipe: Recipe, folder: Path, progress: Progress
) -> np.ndarray:
    stored = load_arrays(folder / "table.npz")
    if stored is None:
        stored = {"table": codebook.learn(images[train], recipe, progress)}
        save_arrays(folder / "table.npz", stored)
    return stored["table"]


def _kept_chunks(
    images: np.ndarray, table: np.ndarray, side: int, folder: Path, progress: Progress, chunk: int
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
