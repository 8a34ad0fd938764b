"""What a data set looks like: shape, balance, sparsity, values and a few decoded examples."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import load, verify
from mcf_cli.datasets.dataset import Dataset

EXAMPLES = 3
SAMPLE = 20_000_000
SHADES = " .:-=+*#%@"
ANONYMOUS = ("matrix", "svmlight")  # forms whose columns have no names


def plot(dataset: Dataset, path: Path) -> None:
    """Draw digits, images, motifs or the top words of each class into a file."""
    from mcf_cli.datasets import pictures

    pictures.draw(with_words(dataset), path)


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
    counts = np.bincount(dataset.y, minlength=len(dataset.class_names))
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
        "notes": list(dataset.notes),
    }


def value_shares(X: np.ndarray | sp.csr_matrix, bins: int = 8) -> dict[str, float]:
    """The share of each non-zero value, in bins where there are too many; very large data is sampled."""
    values = X.data if sp.issparse(X) else X.ravel()
    values = values[:: 1 + values.size // SAMPLE]
    values = values[values != 0]
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


def describe(dataset: Dataset) -> str:
    """A page of text about a data set, for a terminal."""
    from rich.console import Console, Group

    console = Console(width=100, highlight=False, markup=False, force_terminal=False)
    with console.capture() as captured:
        console.print(Group(*_tables(dataset)))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _tables(dataset: Dataset) -> list[Any]:
    found = facts(dataset)
    source = found["source"] if found["source"] in ("real", "user") else found["source"].upper()
    about = _two_columns(f"{found['name']} ({source} data)")
    about.add_row("", found["description"])
    about.add_row("shape", f"{found['examples']:,} examples, {found['features']:,} features")
    per_example = f"{found['non-zero per example']:,.1f} an example"
    about.add_row("non-zero", f"{found['non-zero']:.2%}, {per_example}, stored {found['stored as']}")
    for name, (train, test) in found["splits"].items():
        about.add_row(f"{name} split", f"{train:,} training, {test:,} test")
    if dataset.blocks:
        about.add_row("one-hot blocks", f"{dataset.blocks} symbols each")
    if dataset.groups is not None:
        copies = len(dataset.groups) - len(np.unique(dataset.groups))
        about.add_row("groups", f"{copies} examples repeat another and belong in its fold")
    for note in found["notes"]:
        about.add_row("note", note)
    about.add_row("sha256", found["sha256"])
    return [about, _bars("class", found["classes"]), _bars("value", found["values"]), _examples(dataset)]


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
    for code, class_name in enumerate(worded.class_names[:EXAMPLES]):
        rows = np.flatnonzero(worded.y == code)
        if len(rows):
            table.add_row(class_name, example_text(worded, int(rows[0])))
    return table
