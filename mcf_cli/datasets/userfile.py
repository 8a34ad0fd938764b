"""A user's own data: svmlight, csv or npz; two files, or one file and a seeded split."""

import csv
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets import svmlight
from mcf_cli.datasets.dataset import (
    SPLIT_SEED,
    Dataset,
    encode_labels,
    fingerprint,
    first_rows_train,
    seeded_split,
)
from mcf_cli.datasets.npz import read_npz
from mcf_cli.datasets.reading import malformed, open_bytes, open_text, shown
from mcf_cli.datasets.verify import content_sha256
from mcf_cli.errors import McfError

FORMATS = {
    ".svmlight": "svmlight", ".svm": "svmlight", ".libsvm": "svmlight", ".csv": "csv", ".npz": "npz",
}  # fmt: skip
LABEL_NAMES = ("label", "class", "target", "y")


@dataclass(frozen=True)
class Examples:
    """The contents of one file; labels is None where the file holds none.

    assumed_one_based: svmlight columns that would fit the asked width counted from 0 as well as from 1.
    """

    X: np.ndarray | sp.csr_matrix
    labels: list[str] | None
    feature_names: tuple[str, ...] | None = None
    assumed_one_based: bool = False


def file_format(path: str | Path) -> str | None:
    """svmlight, csv or npz, by the suffix (.gz and .xz may follow); None for any other name."""
    path = Path(path)
    if path.suffix in (".gz", ".xz"):
        path = path.with_suffix("")
    return FORMATS.get(path.suffix.lower())


def load(
    path: str | Path,
    test: str | Path | None = None,
    label: str | int | None = None,
    zero_based: bool | None = None,
    test_fraction: float = 0.25,
    seed: int = SPLIT_SEED,
) -> Dataset:
    """Read one file with a seeded split, or `path` and `test` as the predefined division.

    label: the csv column that holds the class, by name or number; by default a column called label, class,
    target or y, else the last. zero_based: whether svmlight columns count from 0; by default they do when a
    column 0 occurs.
    """
    if not 0 < test_fraction < 1:
        raise McfError(f"test_fraction is {test_fraction}; choose a number between 0 and 1")
    paths = [Path(path)] if test is None else [Path(path), Path(test)]
    parts = read_examples(paths, label=label, zero_based=zero_based)
    labels = [item for part in parts for item in _required_labels(part, paths[0])]
    if len(labels) < 2:
        raise McfError(f"{path} holds {len(labels)} example: at least 2 are needed")
    y, class_names = encode_labels(labels)
    sizes = [part.X.shape[0] for part in parts]
    return Dataset(
        name=Path(path).name,
        X=_stack([part.X for part in parts]),
        y=y,
        class_names=class_names,
        source="user",
        sha256=fingerprint("user", [_content_hash(p) for p in paths], label, zero_based, test_fraction, seed),
        description=" and ".join(str(p) for p in paths),
        feature_names=parts[0].feature_names,
        splits={"predefined": first_rows_train(*sizes)}
        if test is not None
        else {"seeded": seeded_split(len(labels), test_fraction, seed)},
    )


def read_examples(
    paths: Sequence[Path],
    label: str | int | None = None,
    zero_based: bool | None = None,
    n_columns: int | None = None,
) -> list[Examples]:
    """Read files that belong together and must agree on their columns.

    n_columns asks for a given width, as a trained model does; a csv file of just that width has no labels.
    """
    kinds = {file_format(path) for path in paths}
    if None in kinds or len(kinds) > 1:
        raise McfError(
            f"cannot tell the format of {' and '.join(str(p) for p in paths)}: "
            "name files of one kind .svmlight, .csv or .npz (.gz and .xz may follow)"
        )
    kind = kinds.pop()
    if kind == "svmlight":
        return _read_svmlight(paths, zero_based, n_columns)
    if kind == "csv":
        parts = [_read_csv(path, label, n_columns) for path in paths]
    else:
        parts = [Examples(*read_npz(path)) for path in paths]
    width = n_columns or parts[0].X.shape[1]
    for path, part in zip(paths, parts, strict=True):
        if part.X.shape[1] != width:
            raise McfError(f"{path} has {part.X.shape[1]} feature columns where {width} are expected")
        if part.feature_names != parts[0].feature_names:
            raise McfError(f"{path} names its columns differently from {paths[0]}: give both the same header")
    return parts


def _content_hash(path: Path) -> str:
    with open_bytes(path) as stream:
        return content_sha256(stream)


def _required_labels(part: Examples, path: Path) -> list[str]:
    if part.labels is None:
        raise McfError(f"{path} holds no labels: add a label column (csv) or an array y (npz)")
    return part.labels


def _stack(matrices: list[np.ndarray | sp.csr_matrix]) -> np.ndarray | sp.csr_matrix:
    if len(matrices) == 1:
        return matrices[0]
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        return np.vstack(matrices)
    return sp.csr_matrix(sp.vstack([sp.csr_matrix(matrix) for matrix in matrices]))


def _read_svmlight(paths: Sequence[Path], zero_based: bool | None, n_columns: int | None) -> list[Examples]:
    files = [svmlight.read_rows(path) for path in paths]
    smallest, largest = (min(f.column_range()[0] for f in files), max(f.column_range()[1] for f in files))
    if zero_based is False and smallest == 0:
        raise McfError(
            f"{paths[0]} holds a column 0, so its columns do not count from 1: leave zero_based out"
        )
    first = 0 if (smallest == 0 if zero_based is None else zero_based) else 1
    width = largest - first + 1
    if width < 1:
        raise McfError(f"{paths[0]} holds no features: expected 'label column:value ...'")
    if n_columns is not None and width > n_columns:
        raise McfError(f"{paths[0]} has a column {largest} where {n_columns} columns are expected")
    assumed = zero_based is None and first == 1 and n_columns is not None and largest < n_columns
    return [
        Examples(file.matrix(n_columns or width, first), file.labels, assumed_one_based=assumed)
        for file in files
    ]


def _read_csv(path: Path, label: str | int | None, n_columns: int | None) -> Examples:
    """Numbers under a header; a first row made of numbers alone is taken as data."""
    labels: list[str] = []
    values = array("d")
    with open_text(path) as text:
        rows = csv.reader(text, strict=True)
        try:
            first = [cell.strip() for cell in next(rows, [])]
            has_header = any(_number(cell) is None for cell in first)
            names = first if has_header else [str(k) for k in range(len(first))]
            unlabelled = label is None and len(names) == n_columns
            label_at = None if unlabelled else _label_column(path, names, label)
            for row in rows if has_header else chain([first], rows):
                if row:
                    _append_row(path, rows.line_num, row, names, label_at, labels, values)
        except csv.Error as error:
            malformed(path, f"line {rows.line_num}", str(error))
    if not values:
        raise McfError(f"{path} holds no examples: expected a header line, then one line an example")
    features = tuple(name for k, name in enumerate(names) if k != label_at)
    X = np.array(values).reshape(-1, len(features))
    return Examples(X, None if unlabelled else labels, features if has_header else None)


def _label_column(path: Path, names: list[str], label: str | int | None) -> int:
    if len(names) < 2:
        raise McfError(f"{path} has {len(names)} column: expected features and a label, separated by commas")
    if label is None:
        lowered = [name.lower() for name in names]
        return next((lowered.index(name) for name in LABEL_NAMES if name in lowered), len(names) - 1)
    if str(label) in names:
        return names.index(str(label))
    if isinstance(label, int) and -len(names) <= label < len(names):
        return label % len(names)
    raise McfError(f"{path} has no column {label!r}: choose the label among {shown(', '.join(names), 200)}")


def _append_row(
    path: Path,
    line: int,
    row: list[str],
    names: list[str],
    label_at: int | None,
    labels: list[str],
    values: array,
) -> None:
    if len(row) != len(names):
        malformed(path, f"line {line}", f"expected {len(names)} columns, got {len(row)}")
    for k, cell in enumerate(row):
        if k == label_at:
            labels.append(cell.strip())
        elif (value := _number(cell)) is not None:
            values.append(value)
        else:
            malformed(
                path, f"line {line}, column {shown(names[k])}", f"expected a finite number, got {shown(cell)}"
            )


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
