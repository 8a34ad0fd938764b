"""What a data set looks like: shape, balance, sparsity, values and a few decoded examples.

Its picture shows examples as images, motifs of sequences, or the top words of each class.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import load
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.datasets.store import verify
from mcf_cli.errors import McfError
from mcf_cli.files import whole_file
from mcf_cli.progress import console, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 3
SAMPLE = 20_000_000
SHADES = " .:-=+*#%@"
ANONYMOUS = ("matrix", "svmlight")  # forms whose columns have no names


def plot(dataset: Dataset, path: Path) -> None:
    """Draw digits, images, motifs or the top words of each class into a file."""
    if not dataset.class_names:
        raise McfError("--plot draws the classes of a data set, and a regression has none")
    draw_examples(with_words(dataset), path)


def with_words(dataset: Dataset) -> Dataset:
    """The data itself, or, where its columns have no names, a form that has words if one is here."""
    if dataset.feature_names or dataset.source == "user":
        return dataset
    for here in verify.forms_here(dataset.name):
        if here.form.name not in ANONYMOUS:
            return load(dataset.name, form=here.form.name)
    return dataset


def facts(dataset: Dataset) -> dict[str, Any]:
    """What can be counted, JSON-ready."""
    n, d = dataset.X.shape
    stored = np.count_nonzero(dataset.X.data if sp.issparse(dataset.X) else dataset.X)
    counts = np.bincount(dataset.y, minlength=len(dataset.class_names)) if dataset.class_names else ()
    return {
        "name": dataset.name,
        "description": dataset.description,
        "source": dataset.source,
        "sha256": dataset.sha256,
        "examples": n,
        "features": d,
        "classes": {name: int(count) for name, count in zip(dataset.class_names, counts, strict=True)},
        "stored as": "sparse" if sp.issparse(dataset.X) else "dense",
        "non-zero": stored / (n * d),
        "non-zero per example": stored / n,
        "splits": {name: (len(train), len(test)) for name, (train, test) in dataset.splits.items()},
        "values": value_shares(dataset.X),
        "missing": int(dataset.missing.sum()),
        "understood": dataset.understood,
        "notes": list(dataset.notes),
    }


def value_shares(X: Any, bins: int = 8) -> dict[str, float]:
    """The share of each non-zero value, in bins where there are too many; very large data is sampled."""
    values = X.data if sp.issparse(X) else X.ravel()
    values = values[:: 1 + values.size // SAMPLE]
    values = values[(values != 0) & ~np.isnan(values)]
    if not len(values):
        return {}
    if np.array_equal(values[:10_000], np.round(values[:10_000])) and np.array_equal(
        values, np.round(values)
    ):
        return _integer_shares(values, bins)
    counts, edges = np.histogram(values, bins=bins)
    labels = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return {label: float(count / len(values)) for label, count in zip(labels, counts, strict=True)}


def _integer_shares(values: np.ndarray, bins: int) -> dict[str, float]:
    distinct, counts = np.unique(values, return_counts=True)
    shares = {f"{value:g}": float(count / len(values)) for value, count in zip(distinct, counts, strict=True)}
    if len(shares) <= bins:
        return shares
    first = dict(list(shares.items())[: bins - 1])
    return {**first, f"{distinct[bins - 1]:g} to {distinct[-1]:g}": 1.0 - sum(first.values())}


def pixel_grid(dataset: Dataset) -> tuple[int, int, int] | None:
    """Height, width and channels where the columns are pixels."""
    first = dataset.feature_names[0] if dataset.feature_names else ""
    if first not in ("row0col0", "row0col0r"):
        return None
    channels = 3 if first.endswith("r") else 1
    side = round((dataset.X.shape[1] / channels) ** 0.5)
    return (side, side, channels) if side * side * channels == dataset.X.shape[1] else None


def example_text(dataset: Dataset, row: int) -> str:
    """One example as a reader can check it: a sequence, a picture in letters, or its strongest terms."""
    values = dataset.X[[row]].toarray().ravel() if sp.issparse(dataset.X) else dataset.X[row]
    if dataset.blocks and dataset.feature_names:
        return "".join(dataset.feature_names[column][-1] for column in np.flatnonzero(values))
    if grid := pixel_grid(dataset):
        return _letters(values.reshape(grid).mean(axis=2))
    strongest = np.argsort(-np.abs(values), kind="stable")[:12]
    terms = [f"{column_name(dataset, k)}:{values[k]:g}" for k in strongest if values[k]]
    return " ".join(terms)


def column_name(dataset: Dataset, column: int) -> str:
    return dataset.feature_names[column] if dataset.feature_names else f"column{column}"


def _letters(picture: np.ndarray) -> str:
    step = max(1, round(len(picture) / 16))
    shades = np.clip(picture[::step, ::step] * (len(SHADES) - 1), 0, len(SHADES) - 1).astype(int)
    return "\n".join("".join(SHADES[shade] * 2 for shade in row) for row in shades)


def description_of(dataset: Dataset) -> str:
    """A page of text about a data set, for a terminal."""
    from rich.console import Group

    page = console(width=100, highlight=False, markup=False, force_terminal=False)
    with page.capture() as captured:
        page.print(Group(*_tables(dataset)))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _tables(dataset: Dataset) -> list[Any]:
    found = facts(dataset)
    source = found["source"] if found["source"] in ("real", "user") else found["source"].upper()
    about = _two_columns(f"{found['name']} ({source} data)")
    about.add_row("", found["description"])
    about.add_row("shape", f"{found['examples']:,} rows, {found['features']:,} features")
    if found["understood"]:
        about.add_row("read as", found["understood"])
    per_row = f"{found['non-zero per example']:,.1f} per row"
    about.add_row("non-zero", f"{found['non-zero']:.2%}, {per_row}, stored {found['stored as']}")
    for name, (train, test) in found["splits"].items():
        about.add_row(f"{name} split", f"{train:,} training, {test:,} test")
    if dataset.blocks:
        about.add_row("one-hot blocks", f"{dataset.blocks} symbols each")
    if dataset.groups is not None:
        copies = len(dataset.groups) - len(np.unique(dataset.groups))
        about.add_row("groups", f"{copies} rows repeat another row and stay in its fold")
    for note in found["notes"]:
        about.add_row("note", note)
    about.add_row("sha256", found["sha256"])
    classes = [_bars("class", found["classes"])] if found["classes"] else []
    return [about, *classes, _bars("value", found["values"]), _examples(dataset)]


def _two_columns(title: str) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _bars(title: str, amounts: dict[str, float], shown: int = 20) -> Any:
    """Names, amounts and bars; a long list is cut and says so."""
    table = _two_columns(f"\n{title}")
    table.add_column()
    most = max(amounts.values(), default=1)
    for name, amount in list(amounts.items())[:shown]:
        text = f"{amount:,}" if isinstance(amount, int) else f"{amount:.1%}"
        table.add_row(name, text, "▇" * round(40 * amount / most))
    if len(amounts) > shown:
        table.add_row("...", f"{len(amounts) - shown} more")
    return table


def _examples(dataset: Dataset) -> Any:
    worded = with_words(dataset)
    other = "" if worded is dataset else f" (from another form: {', '.join(worded.notes)})"
    table = _two_columns(f"\nexamples{other}")
    for row in range(0 if worded.class_names else min(EXAMPLES, len(worded.y))):
        table.add_row(f"{worded.y[row]:g}", example_text(worded, row))
    for code, class_name in enumerate(worded.class_names[:EXAMPLES]):
        rows = np.flatnonzero(worded.y == code)
        if len(rows):
            table.add_row(class_name, example_text(worded, int(rows[0])))
    return table


# The most that one picture shows: classes, examples of a class, words of a class.
CLASSES, ACROSS, TOP = 12, 10, 10
TITLE = 30  # letters that fit above a panel
RARE = 0.001  # symbols less common than this share are counted in a note, not drawn
PICTURE_BLUE = "#4477aa"


def draw_examples(dataset: Dataset, path: Path) -> None:
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
        with whole_file(path) as part:
            figure.savefig(part, format=kind, dpi=150)
    except OSError as error:
        raise McfError(f"cannot write {path}: {error.strerror}") from error


def _literal(dataset: Dataset) -> Dataset:
    """The data set with names that matplotlib shows as they are: between dollars it would see a formula.

    Control characters are spelt out: an svg file must not hold any.
    """

    def escaped(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(plain(name).replace("$", r"\$") for name in names)

    return replace(
        dataset,
        name=escaped((dataset.name,))[0],
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
        from mcf_cli.datasets.sources import cifar10

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
        axes.barh(range(len(columns)), strengths, color=PICTURE_BLUE)
        axes.set_yticks(range(len(columns)), [column_name(dataset, k)[:18] for k in columns], fontsize=7)
        axes.invert_yaxis()
        axes.tick_params(axis="x", labelsize=7)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_title(_panel_title(dataset.class_names[code], sizes[code]), fontsize=8)
    for axes in panels[len(largest) :]:
        axes.set_axis_off()
    measure = "share of rows that have it" if sp.issparse(dataset.X) else "mean"
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
