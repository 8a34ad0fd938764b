"""Pictures of a data set: examples as images, motifs of sequences, or the top words of each class."""

from dataclasses import replace
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

# The most that one picture shows: classes, examples of a class, words of a class.
CLASSES, ACROSS, TOP = 12, 10, 10
TITLE = 30  # letters that fit above a panel
RARE = 0.001  # symbols less common than this share are counted in a note, not drawn
BLUE = "#4477aa"


def draw(dataset: Dataset, path: Path) -> None:
    """Write the picture that fits the data; the format follows from the suffix."""
    dataset = _literal(dataset)
    images = _images(dataset)
    if images is not None:
        figure = _image_grid(dataset, images)
    elif dataset.blocks:
        figure = _motifs(dataset)
    else:
        figure = _top_words(dataset)
    source = "" if dataset.source in ("real", "user") else f" ({dataset.source.upper()} data)"
    notes = "".join(f"\n{note}" for note in dataset.notes)
    figure.suptitle(f"{dataset.name}{source}{notes}", fontsize=10)
    kind = path.suffix.removeprefix(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise McfError(f"cannot draw a {path.suffix} file: name it .png, .svg or .pdf")
    try:
        with home.atomic_file(path) as stream:
            figure.savefig(stream, format=kind, dpi=150)
    except OSError as error:
        raise McfError(f"cannot write {path}: {error.strerror}") from error


def _literal(dataset: Dataset) -> Dataset:
    """The data set with names that matplotlib shows as they are: between dollars it would see a formula."""

    def escaped(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.replace("$", r"\$") for name in names)

    return replace(
        dataset,
        name=dataset.name.replace("$", r"\$"),
        class_names=escaped(dataset.class_names),
        feature_names=dataset.feature_names and escaped(dataset.feature_names),
        notes=escaped(dataset.notes),
    )


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

    blocks, names = dataset.blocks or 1, dataset.feature_names or ()
    positions = dataset.X.shape[1] // blocks
    overall = np.asarray(dataset.X.mean(axis=0)).reshape(positions, blocks).mean(axis=0)
    drawn = np.flatnonzero(overall >= RARE)
    rare = [names[k][-1] for k in np.flatnonzero((overall > 0) & (overall < RARE))]
    figure = Figure(figsize=(8, 1.1 * len(dataset.class_names) + 0.9), layout="constrained")
    panels = figure.subplots(len(dataset.class_names), 1, sharex=True, squeeze=False).ravel()
    for code, axes in enumerate(panels):
        inside = dataset.y == code
        shares = np.asarray(dataset.X[inside].mean(axis=0)).reshape(positions, blocks)[:, drawn]
        picture = axes.imshow(shares.T, aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set_yticks(range(len(drawn)), [names[k][-1] for k in drawn], fontsize=8)
        axes.set_title(f"{dataset.class_names[code]} ({inside.sum():,})", fontsize=9, loc="left")
    labels = [name[:-1] for name in names[::blocks]]
    marks = [k for k, label in enumerate(labels) if int(label) % 5 == 0]
    panels[-1].set_xticks(marks, [labels[mark] for mark in marks], fontsize=8)
    not_drawn = f" ({', '.join(rare)}, in fewer than {RARE:.1%} of the places, not drawn)" if rare else ""
    panels[-1].set_xlabel(f"position, the junction between -1 and +1{not_drawn}", fontsize=8)
    figure.colorbar(picture, ax=list(panels), label="share of sequences", fraction=0.03)
    return figure


def _top_words(dataset: Dataset) -> "Figure":
    """The words whose presence speaks most for a class, for the largest classes."""
    from matplotlib.figure import Figure

    sizes = np.bincount(dataset.y, minlength=len(dataset.class_names))
    largest = np.sort(np.argsort(-sizes, kind="stable")[:CLASSES])
    across = min(4, len(largest))
    down = -(-len(largest) // across)
    figure = Figure(figsize=(max(2.4 * across, 5), 1.9 * down + 1), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, code in zip(panels, largest, strict=False):
        columns, strengths = top_columns(dataset, int(code))
        axes.barh(range(len(columns)), strengths, color=BLUE)
        axes.set_yticks(range(len(columns)), [column_name(dataset, k)[:18] for k in columns], fontsize=7)
        axes.invert_yaxis()
        axes.tick_params(axis="x", labelsize=7)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_title(_panel_title(dataset.class_names[code], sizes[code]), fontsize=8)
    for axes in panels[len(largest) :]:
        axes.set_axis_off()
    measure = "share of examples that have it" if sp.issparse(dataset.X) else "mean"
    figure.supxlabel(f"z-score of the {measure}, in the class against elsewhere", fontsize=8)
    return figure


def _panel_title(class_name: str, size: int) -> str:
    """The end of a path of topics says most, so a long name loses its beginning."""
    name = class_name.replace("_", " ")
    count = f" ({size:,})"
    if len(name) + len(count) > TITLE and "/" in name:
        name = name.rsplit("/", 1)[1]
    return name[: TITLE - len(count)] + count


def top_columns(dataset: Dataset, code: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns that are more common (sparse data) or larger (dense) in a class than elsewhere, by z-score."""
    values = (dataset.X != 0).astype(np.float64) if sp.issparse(dataset.X) else dataset.X
    inside = dataset.y == code
    n_inside, n_outside = inside.sum(), max((~inside).sum(), 1)
    means = np.asarray(values.mean(axis=0)).ravel()
    squares = values.power(2) if sp.issparse(values) else values**2
    variance = np.asarray(squares.mean(axis=0)).ravel() - means**2
    mean_inside = np.asarray(values[inside].mean(axis=0)).ravel()
    mean_outside = (len(inside) * means - n_inside * mean_inside) / n_outside
    spread = np.sqrt(np.maximum(variance, 1e-12) * (1 / n_inside + 1 / n_outside))
    scores = (mean_inside - mean_outside) / spread
    columns = np.argsort(-scores, kind="stable")[:TOP]
    return columns, scores[columns]
