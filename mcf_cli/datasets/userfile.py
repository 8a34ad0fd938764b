"""A user's own data: svmlight, csv or npz; one file, or two of which the second holds the test rows."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.dataset import (
    SPLIT_SEED,
    Dataset,
    Examples,
    RowsOnDisk,
    Seed,
    Share,
    Split,
    encode_labels,
    fingerprint,
    first_rows_train,
    missing_cells,
    seeded_split,
)
from mcf_cli.datasets.formats import svmlight
from mcf_cli.datasets.formats.archives import open_bytes, shown
from mcf_cli.datasets.formats.cells import plain_number
from mcf_cli.datasets.formats.csv import Wanted, read_csv
from mcf_cli.datasets.formats.npz import read_npz
from mcf_cli.datasets.store.verify import content_sha256
from mcf_cli.errors import McfError

FORMATS = {
    ".svmlight": "svmlight", ".svm": "svmlight", ".libsvm": "svmlight",
    ".csv": "csv", ".tsv": "csv", ".npz": "npz",
}  # fmt: skip
PACKED_SUFFIXES = ".svmlight, .csv, .tsv or .npz"
READING = (
    2  # raised when a file comes to be read differently, so that no result of the old reading is taken for it
)
MANY = 20  # classes: above this, numbers that hardly repeat are measured rather than named


def file_format(path: str | Path) -> str | None:
    """svmlight, csv or npz, by the suffix (.gz and .xz may follow); None for any other name. A .tsv is a csv."""
    path = Path(path)
    if path.suffix in (".gz", ".xz"):
        path = path.with_suffix("")
    return FORMATS.get(path.suffix.lower())


def load_own(
    path: str | Path,
    test: str | Path | None = None,
    label: str | int | None = None,
    zero_based: bool | None = None,
    test_fraction: Share | None = None,
    seed: Seed | None = None,
    task: Literal["classification", "regression"] | None = None,
    header: bool | None = None,
    *,
    read: Callable[..., list[Examples]] | None = None,
) -> Dataset:
    """Read one file, which an experiment divides by its own seed, or `path` and `test` as the predefined division.

    test_fraction and seed, if given, make a division of one file that no experiment's seed changes.

    label: the csv column that holds the class or, for a regression, the number: by name, as "first", "last" or a
    text that counts from 1, or as an int that counts from 0. By default it is a column called label, class,
    target or y, else the last. zero_based: whether svmlight columns count from 0; by default they do when a
    column 0 occurs. task: classification or regression; by default classification, unless the labels speak
    against it. header: whether the first line of a csv file names its columns; by default found out.
    read: what reads the files in place of `read_examples`, as where their rows stay on disk.
    """
    paths = [Path(path)] if test is None else [Path(path), Path(test)]
    parts = (read or read_examples)(paths, label=label, zero_based=zero_based, header=header)
    labels = [
        item for part, where in zip(parts, paths, strict=True) for item in _required_labels(part, where)
    ]
    if len(labels) < 2:
        raise McfError(f"{path} holds {len(labels)} row: at least 2 are needed")
    labels, notes = _agreed(labels)
    if task == "regression":
        y, class_names = _targets(labels, paths[0]), tuple[str, ...]()
    else:
        if task is None:
            _check_classes(labels, parts[0], paths[0])
        y, class_names = encode_labels(labels)
    sizes = [part.X.shape[0] for part in parts]
    X = _stack([part.X for part in parts])
    options = [label, zero_based, test_fraction, seed, task == "regression", header]
    return Dataset(
        name=Path(path).name,
        X=X,
        y=y,
        class_names=class_names,
        source="user",
        sha256=fingerprint("user", READING, [content_hash(p) for p in paths], *options),
        description=" and ".join(str(p) for p in paths),
        feature_names=parts[0].feature_names,
        splits=_division(sizes, test_fraction, seed),
        task=task or "classification",
        label_name=parts[0].label_name,
        understood=_understood(parts, paths, X, y, class_names),
        notes=tuple(notes) + _only_in_test(y, class_names, sizes),
    )


def _division(sizes: list[int], test_fraction: float | None, seed: int | None) -> dict[str, Split]:
    """The named division that a user asked for; none otherwise, which leaves it to the experiment."""
    if len(sizes) == 2:
        return {"predefined": first_rows_train(*sizes)}
    if test_fraction is None and seed is None:
        return {}
    fraction = 0.25 if test_fraction is None else test_fraction
    return {"seeded": seeded_split(sizes[0], fraction, SPLIT_SEED if seed is None else seed)}


def read_examples(
    paths: Sequence[Path],
    label: str | int | None = None,
    zero_based: bool | None = None,
    n_columns: int | None = None,
    header: bool | None = None,
    features: Sequence[str] | None = None,
    ignore_extra: bool = False,
    spill: bool = False,
) -> list[Examples]:
    """Read files that belong together and must agree on their columns.

    n_columns asks for a given width, as a trained model does; a csv file of just that width has no labels.
    features asks for columns by name, in that order, of a csv file that has a header; its label is then the column
    called `label`, or one called label, class, target or y, if it is no feature. Others are refused by name, or
    left out with ignore_extra. The second of two files is matched with the first in the same way.
    spill leaves the numbers of csv files on disk.
    """
    kinds = {file_format(path) for path in paths}
    if None in kinds or len(kinds) > 1:
        raise McfError(
            f"cannot tell the format of {' and '.join(str(p) for p in paths)}: "
            f"name files of one kind {PACKED_SUFFIXES} (.gz and .xz may follow)"
        )
    kind = kinds.pop()
    if kind == "svmlight":
        return _read_svmlight(paths, zero_based, n_columns or (len(features) if features else None))
    if kind == "csv":
        first = read_csv(paths[0], Wanted(label, features, n_columns, header, ignore_extra), spill)
        parts = [first, *(_read_like(first, path, label, header, spill) for path in paths[1:])]
    else:
        parts = [Examples(*read_npz(path), label_place="labels y") for path in paths]
    width = n_columns or (len(features) if features else parts[0].X.shape[1])
    for path, part in zip(paths, parts, strict=True):
        if part.X.shape[1] != width:
            raise McfError(f"{path} has {part.X.shape[1]} feature columns, and {width} are expected")
    return parts


def _read_like(
    first: Examples, path: Path, label: str | int | None, header: bool | None, spill: bool
) -> Examples:
    """A csv file of test rows, its columns matched by name with those of the training rows."""
    wanted = Wanted(label, header=header)
    if first.feature_names is not None:
        wanted = Wanted(first.label_name, first.feature_names, header=header)
    part = read_csv(path, wanted, spill)
    if (part.feature_names is None) != (first.feature_names is None):
        raise McfError(f"only one of the training file and {path} has a header: give both the same header")
    return part


def _agreed(labels: list[str]) -> tuple[list[str], list[str]]:
    """Labels of which no two are the same number written twice; what was done about it."""
    distinct = set(labels)
    numbers = {text: plain_number(text) for text in distinct}
    if None in numbers.values() or len(set(numbers.values())) == len(distinct):
        return labels, []
    by_value: dict[float, str] = {}
    for text in sorted(distinct, key=lambda text: (len(text), text)):
        by_value.setdefault(numbers[text], text)  # type: ignore[arg-type]
    twice = next(text for text in sorted(distinct) if by_value[numbers[text]] != text)  # type: ignore[index]
    note = f"Labels that are the same number, such as {by_value[numbers[twice]]} and {twice}, count as one class."  # type: ignore[index]
    return [by_value[numbers[text]] for text in labels], [note]  # type: ignore[index]


def label_values(labels: Sequence[str]) -> np.ndarray:
    """Labels as a table in memory would have them: whole numbers where all of them are, else numbers, else texts."""
    for kind in (np.int64, np.float64):
        with contextlib.suppress(ValueError, OverflowError):
            return np.array(labels, dtype=kind)
    return np.array(labels)


def _targets(labels: list[str], path: Path) -> np.ndarray:
    """The numbers to predict."""
    numbers = [plain_number(label) for label in labels]
    if None in numbers:
        text = labels[numbers.index(None)]
        raise McfError(f"{path}: a regression predicts numbers, but one label is {shown(text)}")
    return np.array(numbers, dtype=float)


def _check_classes(labels: list[str], part: Examples, path: Path) -> None:
    """Refuse labels that cannot be classes: numbers that were measured, or names of single rows."""
    distinct, rows = set(labels), len(labels)
    numbers = [plain_number(label) for label in distinct]
    numeric = None not in numbers
    each = rows / len(distinct)
    fractions = numeric and not all(number.is_integer() for number in numbers)  # type: ignore[union-attr]
    if numeric:
        measured = (len(distinct) > MANY and (fractions or each < 5)) or (fractions and each < 2)
    else:
        measured = len(distinct) > MANY and each < 2
    if not measured and not (len(distinct) == rows > 2):
        return
    examples = ", ".join(shown(label, 20) for label in labels[:3])
    said = (
        f"{path}: {part.label_place}: {len(distinct):,} different values in {rows:,} rows ({examples}, ...)"
    )
    choose = "name another label column with --label" if part.label_place.startswith("label column") else ""
    if numeric:
        choose = f"say --task regression to predict the number{', or ' + choose if choose else ''}"
    raise McfError(
        f"{said}: too many to be classes.\nIf they are classes, add --task classification; "
        f"otherwise {choose or 'check the labels'}."
    )


def _only_in_test(y: np.ndarray, class_names: tuple[str, ...], sizes: list[int]) -> tuple[str, ...]:
    """A note on classes that a file of test rows has and the training rows do not."""
    if len(sizes) == 1 or not class_names:
        return ()
    strange = [class_names[code] for code in sorted(set(y[sizes[0] :]) - set(y[: sizes[0]]))]
    listed = ", ".join(shown(name) for name in strange[:5])
    return (
        (f"Test rows have the class {listed}, and no training row has it: all of them will count as errors.",)
        if strange
        else ()
    )


def _understood(
    parts: list[Examples],
    paths: list[Path],
    X: np.ndarray | sp.csr_matrix,
    y: np.ndarray,
    classes: tuple[str, ...],
) -> str:
    """How the files were read, in one line."""
    test = f"{parts[1].X.shape[0]:,} test rows ({paths[1].name})" if len(parts) > 1 else ""
    labels = f"{len(classes)} classes" if classes else f"numbers from {y.min():g} to {y.max():g}"
    words = [f"{shape_words(parts[0].X, test)}, {parts[0].label_place}: {labels}"]
    words += parts[0].findings
    for path, part in zip(paths[1:], parts[1:], strict=True):
        words += [f"{path.name}: {finding}" for finding in part.findings if finding not in parts[0].findings]
    return "; ".join(words + missing_words(X, parts[0].feature_names))


def shape_words(X: np.ndarray | sp.csr_matrix, test: str = "") -> str:
    """``569 rows, 30 features``."""
    rows, columns = (
        f"{n:,} {noun}{'s' if n != 1 else ''}" for n, noun in zip(X.shape, ("row", "feature"), strict=True)
    )
    return f"{rows}{f' and {test}' if test else ''}, {columns}"


def missing_words(X: np.ndarray | sp.csr_matrix, names: Sequence[str] | None, most: int = 3) -> list[str]:
    """``12 missing cells in 2 columns (`a`: 7, `b`: 5)``, or nothing."""
    counts = missing_cells(X)
    columns = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    if not len(columns):
        return []
    listed = [f"{f'`{names[k]}`' if names else k + 1}: {counts[k]:,}" for k in columns[:most]]
    listed += ["..."] if len(columns) > most else []
    noun = "column" if len(columns) == 1 else "columns"
    return [f"{counts.sum():,} missing cells in {len(columns):,} {noun} ({', '.join(listed)})"]


def content_hash(path: Path) -> str:
    """The sha256 of what is in the file, unpacked."""
    with open_bytes(path) as stream:
        return content_sha256(stream)


def _required_labels(part: Examples, path: Path) -> list[str]:
    if part.labels is None:
        raise McfError(f"{path} holds no labels: add a label column (csv) or an array y (npz)")
    if "" in part.labels:
        raise McfError(f"{path} has a row whose label is empty: fill it in or delete the row")
    return part.labels


def _stack(matrices: list[Any]) -> Any:
    if len(matrices) == 1:
        return matrices[0]
    if isinstance(matrices[0], RowsOnDisk):
        return RowsOnDisk(matrices[0].table)  # of which each file has a part
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
    counted = (f"columns count from {first}",)
    return [
        Examples(
            file.matrix(n_columns or width, first),
            file.labels,
            assumed_one_based=assumed,
            findings=counted + (("qid is not used",) if file.queries else ()),
        )
        for file in files
    ]
