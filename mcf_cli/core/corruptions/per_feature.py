"""Different corruptions on different columns, and every corruption by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mcf_cli.core.corruptions.base import Array, Corruption, Moments
from mcf_cli.core.corruptions.bounded import BitSwap, Thinning, Uniform
from mcf_cli.core.corruptions.columns import ColumnNames, column_numbers, shortened
from mcf_cli.core.corruptions.elementwise import (
    Blankout,
    Dropout,
    Gaussian,
    Identity,
    Laplace,
    Poisson,
)
from mcf_cli.core.corruptions.groups import GroupBlankout, GroupDropout
from mcf_cli.core.corruptions.multinomial import Multinomial


class PerFeature(Corruption):
    """Different corruptions on different columns. Columns that no part names stay uncorrupted.

    Parameters
    ----------
    parts : a list of pairs (columns, corruption); columns are numbers, a mask or a slice, and for an estimator that
        is fitted to a DataFrame also names (a list, or a slice of which the end counts) or a selector, such as
        scikit-learn's `make_column_selector`

    Examples
    --------
    >>> from mcf_cli import Blankout, Gaussian, PerFeature
    >>> PerFeature([([0], Blankout(q=0.5)), ([1], Gaussian(sigma=2.0))]).variance([[3.0, 3.0, 3.0]])
    array([[9., 4., 0.]])
    """

    def __init__(self, parts: Any = ()):
        self.parts = parts

    def check_parameters(self, n_features: int) -> None:
        for columns, corruption in self._assigned(n_features):
            corruption.check_parameters(len(columns))

    def named(self, table: ColumnNames) -> Corruption:
        parts, changed = [], False
        for columns, corruption in _pairs(self.parts):
            numbers = table.numbers(columns, "PerFeature")
            inner = resolve(corruption)
            if table.names is not None:
                inner = inner.named(table.among(column_numbers(numbers, len(table.names), "PerFeature")))
            parts.append((numbers, inner))
            changed |= numbers is not columns or inner is not corruption
        return PerFeature(parts) if changed else self

    def moments(self) -> Moments:
        raise TypeError(
            "PerFeature has no single formula for its moments: use the families that `split` returns"
        )

    def at(self, columns: Any) -> Corruption:
        raise TypeError("PerFeature has no `at`: use it on the families that `split` returns")

    def _assigned(self, n_features: int) -> list[tuple[Array, Corruption]]:
        """Column numbers and their corruption, the columns that no part names last."""
        named, assigned = np.zeros(n_features, dtype=int), []
        for columns, corruption in _pairs(self.parts):
            numbers = column_numbers(columns, n_features, "PerFeature")
            named += np.bincount(numbers, minlength=n_features)
            assigned.append((numbers, resolve(corruption)))
        if (named > 1).any():
            raise ValueError(
                f"PerFeature: column {int(named.argmax())} is named more than once; each takes one corruption"
            )
        if not named.all():
            assigned.append((np.flatnonzero(named == 0), Identity()))
        return assigned

    def split(self, n_features: int) -> list[tuple[Array | slice, Corruption]]:
        return [
            (columns[inner], family)
            for columns, corruption in self._assigned(n_features)
            for inner, family in corruption.split(len(columns))
        ]

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        X = X.tocsc() if sp.issparse(X) else X
        for numbers, corruption in self._assigned(X.shape[1]):
            corruption.check_data(X[:, numbers], numbers if columns is None else columns[numbers])

    def domain(self, n_features: int) -> tuple[Any, ...]:
        return tuple(
            (columns.tobytes(), corruption.domain(len(columns)))
            for columns, corruption in self._assigned(n_features)
        )

    def clips(self, n_features: int) -> Any:
        clips = np.full(n_features, np.inf)
        for columns, corruption in self._assigned(n_features):
            own = corruption.clips(len(columns))
            clips[columns] = np.inf if own is None else own
        return clips if np.isfinite(clips).any() else None

    def _by_columns(self, x: ArrayLike, call: Callable[[Corruption, Array, Array], Array]) -> Array:
        x = np.asarray(x, dtype=float)
        result = np.empty_like(x)
        for columns, corruption in self._assigned(x.shape[-1]):
            result[..., columns] = call(corruption, x[..., columns], columns)
        return result

    def mean(self, x: ArrayLike) -> Array:
        return self._by_columns(x, lambda corruption, part, _: corruption.mean(part))

    def variance(self, x: ArrayLike) -> Array:
        return self._by_columns(x, lambda corruption, part, _: corruption.variance(part))

    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(x, dtype=float))
        return self._by_columns(
            x, lambda corruption, part, columns: corruption.log_mgf(t[..., columns], part)
        )

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(x, dtype=float))
        return self._by_columns(
            x, lambda corruption, part, columns: corruption.log_mgf_derivative(t[..., columns], part)
        )

    def mean_map(self, n_features: int) -> tuple[Array, sp.csr_matrix]:
        offset, maps = np.zeros(n_features), []
        for columns, corruption in self._assigned(n_features):
            offset[columns], part = corruption.mean_map(len(columns))
            maps.append((columns, part))
        return offset, _block_diagonal(maps, n_features)

    def covariance_sum(self, X: Any, weights: Array) -> sp.csr_matrix:
        X = X.tocsc() if sp.issparse(X) else X
        parts = [
            (columns, corruption.covariance_sum(X[:, columns], weights))
            for columns, corruption in self._assigned(X.shape[1])
        ]
        return _block_diagonal(parts, X.shape[1])

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        sparse = sp.issparse(X)
        source = X.tocsc() if sparse else np.asarray(X, dtype=float)
        assigned = self._assigned(X.shape[1])
        pieces = [corruption.draw(source[:, columns], rng) for columns, corruption in assigned]
        order = np.argsort(np.concatenate([columns for columns, _ in assigned]))
        if all(sp.issparse(piece) for piece in pieces):
            return sp.csr_matrix(sp.hstack(pieces, format="csc")[:, order])
        return np.hstack([piece.toarray() if sp.issparse(piece) else piece for piece in pieces])[:, order]


def _block_diagonal(parts: list[tuple[Array, sp.csr_matrix]], n_features: int) -> sp.csr_matrix:
    """Square matrices placed on their own columns of an n_features x n_features matrix."""
    pieces = [(columns, sp.coo_matrix(matrix)) for columns, matrix in parts]
    rows = np.concatenate([columns[piece.row] for columns, piece in pieces])
    cols = np.concatenate([columns[piece.col] for columns, piece in pieces])
    values = np.concatenate([piece.data for _, piece in pieces])
    return sp.csr_matrix((values, (rows, cols)), shape=(n_features, n_features))


def _pairs(parts: Any) -> list[tuple[Any, Any]]:
    """The parts of a PerFeature; ValueError where they are not pairs."""
    pairs = list(parts) if isinstance(parts, list | tuple) else [parts]
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(
                f"PerFeature takes a list of pairs, [(columns, corruption), ...]; got {shortened(pair)} as one of them"
            )
    return pairs


BY_NAME: dict[str, type[Corruption]] = {
    "blankout": Blankout,
    "dropout": Dropout,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "poisson": Poisson,
    "bitswap": BitSwap,
    "multinomial": Multinomial,
    "thinning": Thinning,
    "uniform": Uniform,
    "group_dropout": GroupDropout,
    "group_blankout": GroupBlankout,
}


def resolve(corruption: Corruption | str | None) -> Corruption:
    """A corruption from an object, a name for its defaults, or None for the plain model."""
    if corruption is None:
        return Identity()
    if isinstance(corruption, Corruption):
        return corruption
    if isinstance(corruption, str) and corruption in BY_NAME:
        return BY_NAME[corruption]()
    raise ValueError(
        f"corruption={corruption!r} is not known; give one of {', '.join(BY_NAME)}, an object or None"
    )
