"""A trial: one evaluation, everything that its numbers depend on, and a key made of exactly that.

Its data set too: where it is, what planning must know of it, and whether memory holds it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from mcf_cli import datasets
from mcf_cli.datasets.dataset import Dataset, RowsOnDisk, row_pieces
from mcf_cli.datasets.info import pixel_grid
from mcf_cli.datasets.splits import Draw, train_test
from mcf_cli.datasets.userfile import file_format
from mcf_cli.errors import McfError
from mcf_cli.experiments.config import GROUPED, LEVEL_OF, LEVELS, GridEntry, Select
from mcf_cli.files import CHUNKS_ABOVE
from mcf_cli.scale import largefile

# Raise this when a change of code changes numbers: every stored trial is then out of date.
METHOD_VERSION = 9
Params = dict[str, Any]  # all that the numbers of a trial depend on, as plain JSON


def canonical_json(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, shortest floats that read back the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Trial:
    """``params`` decide the numbers; the other fields only say where the data is and what the rows show.

    When ``chosen_level`` names a level ("q"), this trial is one candidate of several, and only the one with
    the lowest validation error reaches the rows.
    """

    params: dict[str, Any]
    data: dict[str, Any]
    data_source: str
    chosen_level: str | None = None

    @cached_property
    def key(self) -> str:
        """A hash of the parameters (the data's sha256 among them) and the method version."""
        return hashlib.sha256(canonical_json([METHOD_VERSION, self.params]).encode()).hexdigest()

    @cached_property
    def group(self) -> str:
        """What the candidates for one choice have in common."""
        if self.chosen_level is None:
            return self.key
        method = {name: value for name, value in self.params["method"].items() if name != self.chosen_level}
        return canonical_json({**self.params, "method": method})

    @property
    def level(self) -> float:
        """The value of the level that is being chosen."""
        return self.params["method"][self.chosen_level]

    def spec(self) -> dict[str, Any]:
        """The little that travels to a worker."""
        return {"key": self.key, "params": self.params, "data": self.data}

    @property
    def label(self) -> str:
        """A short name for progress lines."""
        params, method = self.params, self.params.get("method", {})
        words = [
            params.get("dataset", ""),
            method.get("loss", params["protocol"]),
            method.get("surrogate", ""),
        ]
        words += [
            method.get("multiclass", ""),
            "l1" if method.get("penalty") == "l1" else "",
            method.get("corruption", ""),
            method.get("aid", ""),
        ]
        words += [f"{name}={_short(method[name])}" for name in LEVELS if name in method]
        words += [
            f"{name}={params[name]}"
            for name in ("train_size", "flips", "copies", "lam")
            if params.get(name) is not None
        ]
        words += [f"repeat {params['repeat'] + 1}"] if params.get("repeat") else []
        return " ".join(word for word in words if word and word != "none")


def _short(level: Any) -> str:
    return level if isinstance(level, str) else f"{level:g}"


def edge_of(value: float, grid: Iterable[float], name: str) -> str:
    """``"q high"`` when the choice is the last of its grid: a wider one might do better. 0 is no edge."""
    grid = sorted(grid)
    if len(grid) < 2:
        return ""
    if value == grid[-1]:
        return f"{name} high"
    return f"{name} low" if value == grid[0] and value > 0 else ""


def kind_of_trial(method: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, ...]:
    """What the time of a trial depends on first: data set, method, training rows, copies. A row may be both."""
    names = ("loss", "surrogate", "multiclass", "corruption", "aid")
    found = [params.get("dataset"), *(method.get(name) for name in names), params.get("train_size")]
    copies = params.get("copies", "")
    return (*(str(value or "") for value in found), "inf" if copies is None else str(copies))


def methods_of(
    entry: GridEntry, select: Select, n_classes: int, column_groups: str | None = None
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The methods of a grid entry, each with the name of the level to choose, if any.

    Keys that make no difference (a multi-class form on two classes, a surrogate of the plain model) are left
    out, so that the same model is never fitted twice under two names.
    """
    surrogates, forms = entry.surrogate or ["jensen"], entry.multiclass or ["pairwise"]
    seen = set()
    for loss, corruption, surrogate, form, penalty, aid in product(
        entry.loss, entry.corruption, surrogates, forms, entry.penalty, entry.aid or ["none"]
    ):
        method: dict[str, Any] = {"loss": loss, "corruption": corruption, "penalty": penalty}
        if loss == "logistic" and corruption != "none":
            method["surrogate"] = surrogate
            if n_classes > 2:
                method["multiclass"] = form
        if entry.clip is not None:
            method["clip"] = entry.clip
        if aid != "none":
            method["aid"] = aid
        if corruption in GROUPED:
            method["column_groups"] = column_groups
        if tuple(method.items()) in seen:
            continue
        seen.add(tuple(method.items()))
        level = LEVEL_OF.get(corruption)
        if level is None:
            yield method, None
            continue
        fixed = getattr(entry, level)
        values = fixed or getattr(select, level)
        chosen = level if not fixed and len(values) > 1 else None  # of one value there is nothing to choose
        for value in values:
            yield {**method, level: value}, chosen


IN_CHUNKS = ("split", "cv", "learning-curve")  # protocols that can leave the rows on disk
RAISE = f"take fewer rows, or raise {CHUNKS_ABOVE}"


@dataclass(frozen=True)
class DataFacts:
    """What planning needs to know of a data set once its rows are let go."""

    name: str
    source: str
    sha256: str
    notes: tuple[str, ...]
    description: str
    shape: tuple[int, int]
    n_classes: int
    smallest: float
    binary: bool
    blocks: int | None
    splits: tuple[str, ...]
    understood: str = ""  # how a user's file was read
    missing: int = 0  # cells
    in_chunks: bool = False  # its rows stay on disk
    column_groups: str | None = None  # the columns that are lost together


def reference_to(name: str, options: dict[str, Any], notices: list[str]) -> dict[str, Any]:
    """What a trial says of its data. A large file goes through chunks, wherever the trial runs."""
    paths = [path for path in (name, options.get("test")) if isinstance(path, str) and file_format(path)]
    if name in datasets.names() or not largefile.is_large(paths):
        return {"name": name, "options": options}
    notices.append(largefile.sentence(paths))
    return {"name": name, "options": options, "in_chunks": True}


def data_of(reference: dict[str, Any]) -> Dataset:
    """The data set of a plan or a trial, in memory or in chunks as was decided when it was planned."""
    options = tuple(sorted(reference["options"].items()))
    return load_data(reference["name"], options, reference.get("in_chunks", False))


@lru_cache(maxsize=1)
def load_data(name: str, options: tuple[tuple[str, Any], ...] = (), in_chunks: bool = False) -> Dataset:
    """The last data set stays in memory: neighbouring trials and the plan itself use the same one."""
    load = largefile.load_large if in_chunks else datasets.load
    return load(name, **dict(options))


def facts_of(dataset: Dataset, column_groups: str | None = None) -> DataFacts:
    """The facts, read off the rows, and the groups of columns that the config names."""
    smallest, binary = 0.0, True
    for X in row_pieces(dataset.X):
        values = X if isinstance(X, np.ndarray) else X.data
        known = values[~np.isnan(values)] if dataset.missing.any() else values
        smallest = min(smallest, float(known.min(initial=0.0)))
        binary = binary and bool(np.isin(known, (0.0, 1.0)).all())
    return DataFacts(
        name=dataset.name,
        source=dataset.source,
        sha256=dataset.sha256,
        notes=dataset.notes,
        description=dataset.description,
        shape=dataset.X.shape,
        n_classes=len(dataset.class_names),
        smallest=smallest,
        binary=binary,
        blocks=dataset.blocks,
        splits=tuple(dataset.splits),
        understood=dataset.understood,
        missing=int(dataset.missing.sum()),
        in_chunks=isinstance(dataset.X, RowsOnDisk),
        column_groups=column_groups,
    )


def sample_image(reference: dict[str, Any], evaluation: dict[str, Any], seed: int) -> np.ndarray | None:
    """The first test row as a grey image, None when the data set holds no such images or is not here any more."""
    try:
        dataset = data_of(reference)
    except McfError:
        return None
    height, width, channels = pixel_grid(dataset) or (0, 0, 0)
    if channels != 1 or isinstance(dataset.X, RowsOnDisk):
        return None
    test = train_test(dataset, evaluation, Draw(seed, dataset.name, 0))[1]
    row = dataset.X[test[0]]
    return (row if isinstance(row, np.ndarray) else row.toarray()).reshape(height, width)


def too_large(about: DataFacts) -> str:
    """The beginning of a refusal."""
    return f"{about.name} is too large for memory, and its rows are needed there"


def needs_memory(entry: GridEntry) -> str | None:
    """The key of a grid entry that asks for a method which cannot be fitted in chunks."""
    if {"hinge", "boosting"} & set(entry.loss):
        return "loss"
    if entry.aid:
        return "aid"
    return "penalty" if "l1" in entry.penalty else None
