"""Which columns a part of a corruption is for: by number, mask or slice, and in a DataFrame by name or selector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names

from mcf_cli.core.kernels.dispatch import Array


@dataclass(frozen=True)
class ColumnNames:
    """The column names of X, None where it has none; and X itself, where a selector can be asked about it."""

    names: Array | None = None
    frame: Any = None

    @classmethod
    def of(cls, X: Any) -> ColumnNames:
        names = _get_feature_names(X)
        return cls() if names is None else cls(np.asarray(names), X)

    def numbers(self, columns: Any, owner: str) -> Any:
        """Column numbers where `columns` are names or a selector; anything else as it is."""
        if callable(columns):
            if self.frame is None:
                raise ValueError(f"{owner}: a selector of columns needs a DataFrame X; give names or numbers")
            columns = columns(self.frame)
        if isinstance(columns, slice):
            return self._between(columns, owner)
        wanted = np.asarray([columns] if isinstance(columns, str) else columns, dtype=object)
        if wanted.ndim != 1 or not len(wanted) or not all(isinstance(name, str) for name in wanted):
            return columns
        return np.array([self._number(name, owner) for name in wanted])

    def in_groups(self, groups: Any, owner: str) -> Any:
        """A list of column groups with numbers for names; `groups` itself where it has none."""
        if not isinstance(groups, list | tuple):
            return groups
        found = [self.numbers(group, owner) for group in groups]
        return groups if all(new is old for new, old in zip(found, groups, strict=True)) else found

    def among(self, numbers: Array) -> ColumnNames:
        """The same of some of the columns."""
        if self.names is None:
            return self
        names = self.names[numbers]
        return ColumnNames(names, None if self.frame is None else self.frame[list(names)])

    def _between(self, columns: slice, owner: str) -> Any:
        """A slice from name to name, the last one included."""
        ends = [columns.start, columns.stop]
        if not any(isinstance(end, str) for end in ends):
            return columns
        first, last = (self._number(end, owner) if isinstance(end, str) else end for end in ends)
        return np.arange(first or 0, len(self._known(owner)) if last is None else last + 1, columns.step)

    def _number(self, name: str, owner: str) -> int:
        found = np.flatnonzero(self._known(owner) == name)
        if len(found) != 1:
            raise ValueError(f"{owner}: X has {'no' if not len(found) else 'more than one'} column {name!r}")
        return int(found[0])

    def _known(self, owner: str) -> Array:
        if self.names is None:
            raise ValueError(
                f"{owner} gives columns by name, and X has no column names; fit to a DataFrame, or give numbers"
            )
        return self.names


def column_numbers(columns: Any, n_features: int, owner: str) -> Array:
    """Which columns a list of numbers, a mask or a slice stands for; ValueError where it is none of them."""
    try:
        numbers = np.arange(n_features)[columns] if isinstance(columns, slice) else np.asarray(columns)
    except (TypeError, ValueError):  # a slice between names, a ragged list
        numbers = np.empty(())
    if numbers.shape == (0,):
        return numbers.astype(np.intp)
    if numbers.ndim != 1 or numbers.dtype.kind not in "biu":
        raise ValueError(
            f"{owner}: columns {shortened(columns)} must be a list of column numbers ([3] for one column), "
            "a mask or a slice; names are for an estimator that is fitted to a DataFrame"
        )
    if numbers.dtype == bool:
        if len(numbers) != n_features:
            raise ValueError(
                f"{owner}: a mask of {len(numbers)} entries for {n_features} columns of X; give one per column"
            )
        return np.flatnonzero(numbers)
    outside = (numbers < 0) | (numbers >= n_features)
    if outside.any():
        raise ValueError(f"{owner}: column {numbers[outside][0]} is outside the {n_features} columns of X")
    return numbers.astype(np.intp)


def shortened(value: Any) -> str:
    """A value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
