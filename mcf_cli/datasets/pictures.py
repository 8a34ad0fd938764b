"""Pictures of a data set: examples as images, motifs of sequences, or the top words of each class."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import home
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.datasets.info import column_name, pixel_grid
from mcf_cli.errors import McfError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES, ACROSS, TOP = (
    12,
    10,
    10,
)  # the most that one picture shows: classes, examples of a class, words of a class


def draw(dataset: Dataset, path: Path) -> None:
    """Write the picture that fits the data; the format follows from the suffix."""
    images = _images(dataset)
    if images is not None:
        figure = _image_grid(dataset, images)
    elif dataset.blocks:
        figure = _motifs(dataset)
    else:
        figure = _top_words(dataset)
    source = "" if dataset.source == "real" else f" ({dataset.source.upper()} data)"
    figure.suptitle(f"{dataset.name}{source}", fontsize=12)
    kind = path.suffix.removeprefix(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise McfError(f"cannot draw a {path.suffix} file: name it .png, .svg or .pdf")
    try:
        with home.atomic_file(path) as stream:
            figure.savefig(stream, format=kind, dpi=150)
    except OSError as error:
        raise McfError(f"cannot write {path}: {error.strerror}") from error


def _images(dataset: Dataset) -> np.ndarray | None:
    """A few images of every class, in [0, 1] on white: (classes, across, H, W, 1 or 3), if there are any."""
    shown = range(min(CLASSES, len(dataset.class_names)))
    rows = [np.flatnonzero(dataset.y == code)[:ACROSS] for code in shown]
    if grid := pixel_grid(dataset):
        chosen = [dataset.X[part] for part in rows]
        dense = [(part.toarray() if sp.issparse(part) else part).reshape(-1, *grid) for part in chosen]
        return _stack(dense if grid[2] == 3 else [1.0 - part for part in dense])
    if dataset.name == "builtin-textures":
        from mcf_cli.datasets.builtin import texture_images

        pixels = texture_images(len(dataset.y))[0]
    elif dataset.name == "cifar10-words":
        from mcf_cli.datasets import cifar10, verify

        pixels = cifar10.read_images(verify.require("cifar10").paths)[0]
    else:
        return None
    return _stack([pixels[part] / 255.0 for part in rows])


def _stack(parts: list[np.ndarray]) -> np.ndarray:
    """One array, classes with few examples filled up with white."""
    filled = np.ones((len(parts), ACROSS, *parts[0].shape[1:]))
    for code, part in enumerate(parts):
        filled[code, : len(part)] = part
    return filled


def _image_grid(dataset: Dataset, images: np.ndarray) -> "Figure":
    from matplotlib.figure import Figure

    classes, across, height, width, channels = images.shape
    margin = 1
    sheet = np.ones((classes * (height + margin), across * (width + margin), channels))
    for code in range(classes):
        for place in range(across):
            top, left = code * (height + margin), place * (width + margin)
            sheet[top : top + height, left : left + width] = images[code, place]
    figure = Figure(figsize=(0.6 * across + 1.5, 0.6 * classes + 0.6), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(sheet if channels == 3 else sheet[..., 0], cmap="gray", vmin=0, vmax=1)
    axes.set_yticks(np.arange(classes) * (height + margin) + height / 2, dataset.class_names[:classes])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _motifs(dataset: Dataset) -> "Figure":
    """How often each symbol stands at each position, class by class."""
    from matplotlib.figure import Figure

    symbols = [name[-1] for name in (dataset.feature_names or ())[: dataset.blocks]]
    positions = dataset.X.shape[1] // dataset.blocks
    figure = Figure(figsize=(10, 1.6 * len(dataset.class_names) + 0.8), layout="constrained")
    panels = figure.subplots(len(dataset.class_names), 1, sharex=True, squeeze=False).ravel()
    for code, axes in enumerate(panels):
        shares = np.asarray(dataset.X[dataset.y == code].mean(axis=0)).reshape(positions, dataset.blocks)
        picture = axes.imshow(shares.T, aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set_yticks(range(len(symbols)), symbols, fontsize=7)
        axes.set_title(dataset.class_names[code], fontsize=9, loc="left")
    names = (dataset.feature_names or ())[:: dataset.blocks]
    marks = range(0, positions, 5)
    panels[-1].set_xticks(marks, [names[mark][:-1] for mark in marks])
    panels[-1].set_xlabel("position")
    figure.colorbar(picture, ax=list(panels), label="share of sequences", fraction=0.03)
    return figure


def _top_words(dataset: Dataset) -> "Figure":
    """The words whose presence speaks most for a class, for the largest classes."""
    from matplotlib.figure import Figure

    sizes = np.bincount(dataset.y, minlength=len(dataset.class_names))
    largest = np.sort(np.argsort(-sizes, kind="stable")[:CLASSES])
    across = min(4, len(largest))
    down = -(-len(largest) // across)
    figure = Figure(figsize=(2.8 * across, 2.2 * down + 0.6), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, code in zip(panels, largest, strict=False):
        columns, strengths = top_columns(dataset, int(code))
        axes.barh(range(len(columns)), strengths, color="#4477aa")
        axes.set_yticks(range(len(columns)), [column_name(dataset, k)[:18] for k in columns], fontsize=7)
        axes.invert_yaxis()
        axes.set_xticks([])
        axes.set_title(f"{dataset.class_names[code]} ({sizes[code]:,})", fontsize=8)
    for axes in panels[len(largest) :]:
        axes.set_axis_off()
    return figure


def top_columns(dataset: Dataset, code: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns that occur in a class more often than elsewhere, by the z-score of the two shares."""
    inside = dataset.y == code
    present = sp.csr_matrix(dataset.X != 0)
    n_inside, n_outside = inside.sum(), (~inside).sum()
    share_inside = np.asarray(present[inside].mean(axis=0)).ravel()
    share_outside = np.asarray(present[~inside].mean(axis=0)).ravel() if n_outside else 0.0 * share_inside
    overall = (n_inside * share_inside + n_outside * share_outside) / len(inside)
    variance = overall * (1 - overall) * (1 / n_inside + 1 / max(n_outside, 1))
    scores = (share_inside - share_outside) / np.sqrt(np.maximum(variance, 1e-12))
    columns = np.argsort(-scores, kind="stable")[:TOP]
    return columns, scores[columns]
