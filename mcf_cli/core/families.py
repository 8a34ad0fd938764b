"""What a family of corruptions has to provide, and the two kinds of family that make all of them.

One quantity carries every loss: the log moment-generating function kappa(t) = log E exp(t x~) of a corrupted
feature x~. The kinds:

- `Linear`: kappa is linear in x for a fixed t, kappa(t; x) = at_zero(t) + x * per_unit(t);
- `Coded`: kappa is any function with kappa(t; 0) = 0, evaluated once per distinct (feature, value) pair.

Either way the sum over the features of an example is a base plus a sparse product (see `design`):
``base(T) + Z @ table(T)``. Parameters are scalars or arrays with one entry per feature.
Mean and variance are polynomials in x for every family but `Multinomial`, whose unit is a block of columns.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from mcf_cli.core.kernels import blankout_sums, blankout_table, exponential, softplus_sigmoid

Array = NDArray[Any]
Pullback = Callable[[Array, Array], Array]
Jet = tuple[Array, Array, Array]  # a value and its two derivatives

# e^t is continued by its tangent above this exponent, so that nothing overflows for any weights. A loss of e^200
# is never near a minimum (the loss at zero weights is 1), so no solution is affected.
EXPONENT_LIMIT = 200.0


def guarded_exp(t: Array) -> tuple[Array, Array]:
    """e^t and its derivative, continued linearly above EXPONENT_LIMIT; one array below it."""
    if t.max(initial=0.0) <= EXPONENT_LIMIT:
        value = exponential(t)
        return value, value
    slope = np.exp(np.minimum(t, EXPONENT_LIMIT))
    return slope * (1.0 + np.maximum(t - EXPONENT_LIMIT, 0.0)), slope


def squared(X: Any) -> Any:
    """The entries of X squared; a sparse X shares its pattern."""
    return type(X)((X.data**2, X.indices, X.indptr), shape=X.shape) if sp.issparse(X) else X * X


def column_sums(X: Any, weights: Array, power: int = 1) -> Array:
    """sum_n weights_n x_nd^power, for power 1 or 2."""
    return np.asarray((squared(X) if power == 2 else X).T @ weights).ravel()


class Scratch(threading.local):
    """Room for one table a thread, which the tables of all blocks of a design take turns in."""

    room: Array = np.empty(0)

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Elsewhere there is room of its own: a design may travel to a worker."""
        return Scratch, ()

    def table(self, rows: int, width: int) -> Array:
        if len(self.room) < rows * width:
            self.room = np.empty(rows * width)
        return self.room[: rows * width].reshape(rows, width)


@dataclass(frozen=True)
class Pairs:
    """The distinct (feature, value) pairs that a table has a row for. Features are local column numbers."""

    feature: Array
    value: Array
    scatter: sp.csr_matrix  # features x pairs, ones: adds up what belongs to a feature
    scratch: Scratch = field(default_factory=Scratch, repr=False)
    _slopes: dict[int, Array] = field(default_factory=dict, repr=False)

    def to_features(self, rows: Array) -> Array:
        """What belongs to a feature, added up."""
        if rows.shape[1] > 1:
            return self.scatter @ rows
        return np.bincount(self.feature, rows[:, 0], self.scatter.shape[0])[:, None]

    def buffers(self, width: int) -> tuple[Array, Array]:
        """For a table until the next block's is made, and for its slope until this one is evaluated again.

        Fresh memory would cost as much as the table.
        """
        if width not in self._slopes:
            self._slopes[width] = np.empty((len(self.feature), width))
        return self.scratch.table(len(self.feature), width), self._slopes[width]


@dataclass(frozen=True)
class Expansion:
    """A table to second order in T: row by row its value, slope and curvature, and the same of the base.

    A row belongs to a pair, or to a feature where the table is linear in x (then `pairs` is None).
    """

    pairs: Pairs | None
    value: Array
    slope: Array
    curvature: Callable[[], Array]
    base: tuple[Array, Array, Array] | None = None  # features x J each; None where zeros stay zero

    def to_features(self, rows: Array) -> Array:
        return rows if self.pairs is None else self.pairs.to_features(rows)

    def gradient(self, H: Array, g: Array) -> Array:
        """The gradient in T of a sum with the weights H on the table and g on the base."""
        gradient = self.to_features(self.slope * H)
        return gradient if self.base is None else gradient + self.base[1] * g

    def bend(self, H: Array, g: Array) -> Array:
        """The second derivative of that sum, which is diagonal in T."""
        bend = self.to_features(self.curvature() * H)
        return bend if self.base is None else bend + self.base[2] * g

    def squares(self, H: Array, H2: Array | None, g: Array) -> Array:
        """The weighted sum over rows of X of squared derivatives: H2 has the weights of x^2 (linear tables)."""
        if self.pairs is not None:
            return self.to_features(self.slope * self.slope * H)
        squares = self.slope * self.slope * H2
        if self.base is None:
            return squares
        return squares + 2.0 * self.slope * self.base[1] * H + self.base[1] ** 2 * g


@dataclass(frozen=True)
class Moments:
    """mean = offset + scale x and variance = v0 + v1 x + v2 x^2, each a scalar or one number per feature."""

    offset: Any = 0.0
    scale: Any = 1.0
    v0: Any = 0.0
    v1: Any = 0.0
    v2: Any = 0.0


def _column(parameter: Any, index: Any = slice(None)) -> Any:
    """A parameter shaped to multiply the rows of a table."""
    return parameter[index][:, None] if np.ndim(parameter) else parameter


def _over_rows(value: Any, T: Array) -> Array:
    """sum_d value_d T_d for a scalar or per-feature value."""
    return (_column(value) * T).sum(axis=0)


class Corruption(BaseEstimator, ABC):
    """What a corruption has to say; `Linear` and `Coded` say most of it."""

    coded = False  # needs (feature, value) pairs
    acts_on_zeros = False  # a zero entry can change
    couples_features = False  # the second derivative of a sum over features is not diagonal

    # -- parameters -----------------------------------------------------------------------------------------
    def _parameter(self, name: str, low: float, high: float, open_high: bool = True) -> Any:
        """The named parameter as a float or float array, checked against its interval."""
        value = np.asarray(getattr(self, name), dtype=float)
        bad = ~np.isfinite(value) | (value < low) | ((value >= high) if open_high else (value > high))
        if bad.any() or value.ndim > 1:
            end = ")" if open_high else "]"
            where = f" at feature {int(np.flatnonzero(bad)[0])}" if value.ndim == 1 and bad.any() else ""
            shown = (
                value
                if value.ndim == 0
                else (value[bad][0] if bad.any() else f"an array of {value.ndim} axes")
            )
            raise ValueError(
                f"{type(self).__name__}: {name} must lie in [{low:g}, {high:g}{end}, one number or one per "
                f"feature; got {shown}{where}"
            )
        return float(value) if value.ndim == 0 else value

    def check_parameters(self, n_features: int) -> None:
        """Raise ValueError where a parameter is out of range or has the wrong length."""
        for name in self.get_params(deep=False):
            value = getattr(self, name)
            if np.ndim(value) == 1 and name in self._per_feature and len(value) != n_features:
                raise ValueError(
                    f"{type(self).__name__}: {name} has {len(value)} entries for {n_features} features; "
                    "give one number or one per feature"
                )
        self.moments()

    _per_feature: tuple[str, ...] = ()

    def at(self, columns: Any) -> Corruption:
        """The same family on some of the columns."""
        chosen = {
            name: np.asarray(value)[columns] if name in self._per_feature and np.ndim(value) else value
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**chosen)

    def split(self, n_features: int) -> list[tuple[Array | slice, Corruption]]:
        """Disjoint columns and the single family that acts on each of them."""
        return [(slice(None), self)]

    # -- data -----------------------------------------------------------------------------------------------
    def check_data(self, X: Any, columns: Array | None = None) -> None:
        """Raise ValueError where X is outside what the family can corrupt; `columns` are the outer numbers."""

    def domain(self, n_features: int) -> tuple[Any, ...]:
        """Identifies what `check_data` asks for, so that one check serves many parameters."""
        return (type(self).__name__,)

    def prepare(self, X: Any) -> Any:
        """The data as the family sees it (Poisson clips)."""
        return X

    # -- moments --------------------------------------------------------------------------------------------
    def moments(self) -> Moments:
        """Mean and variance as polynomials in x; the methods below follow from them. Here: no corruption."""
        return Moments()

    def mean(self, x: ArrayLike) -> Array:
        """E[x~]; features on the last axis."""
        m = self.moments()
        return m.offset + m.scale * self.prepare(np.asarray(x, dtype=float))

    def variance(self, x: ArrayLike) -> Array:
        """V[x~], feature by feature; features on the last axis."""
        m, x = self.moments(), self.prepare(np.asarray(x, dtype=float))
        return m.v0 + m.v1 * x + m.v2 * x * x

    def mean_map(self, n_features: int) -> tuple[Array, sp.csr_matrix]:
        """(offset, C) with E[x~] = offset + x C."""
        m = self.moments()
        return np.broadcast_to(m.offset, n_features), sp.diags_array(
            np.broadcast_to(np.asarray(m.scale, dtype=float), n_features), format="csr"
        )

    def covariance_sum(self, X: Any, weights: Array) -> sp.csr_matrix:
        """sum_n weights_n Cov[x~_n], diagonal here."""
        m, X = self.moments(), self.prepare(X)
        total = np.zeros(X.shape[1]) + m.v0 * weights.sum()
        if np.any(m.v1):
            total += m.v1 * column_sums(X, weights)
        if np.any(m.v2):
            total += m.v2 * column_sums(X, weights, power=2)
        return sp.diags_array(total, format="csr")

    # -- log-MGF --------------------------------------------------------------------------------------------
    @abstractmethod
    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        """log E exp(t x~), feature by feature; features on the last axis."""

    @abstractmethod
    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        """d log_mgf / d t."""

    def log_mgf_and_derivative(self, t: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
        """Both; families that can share their work do."""
        return self.log_mgf(t, x), self.log_mgf_derivative(t, x)

    def weight_limit(self) -> Any:
        """log_mgf exists for |t| below this."""
        return np.inf

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Expansion:
        """The table to second order, for families that do not couple features."""
        raise TypeError(f"{type(self).__name__} couples features: it has no table to second order")

    def log_mgf_sums(self, T: Array, pairs: Any, Z: Any) -> tuple[Array, Callable[[Array], Array]] | None:
        """Z @ table and its pullback at once, for families and shapes that gain by it; else None."""
        return None

    # -- tables: what an example's sum over features needs (see design). A single family that is not coded also has a
    # log_mgf_table: (base, table, pullback) with sum_d kappa_d(T_d; x_d) = base + Z @ table. ---------------
    def mean_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        """The same for sum_d T_d E[x~_d]."""
        m = self.moments()
        weights = _pair_values(m.scale, pairs, lambda x: x)
        return _power_table(T, weights, m.offset, 1, pairs)

    def variance_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        """The same for T' Cov[x~] T."""
        m = self.moments()
        if pairs is None:
            weights = m.v1
        else:
            weights = _pair_values(m.v1, pairs, lambda x: x) + _pair_values(m.v2, pairs, np.square)
        return _power_table(T, weights, m.v0, 2, pairs)

    # -- sampling -------------------------------------------------------------------------------------------
    @abstractmethod
    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        """One corrupted copy of X; sparse stays sparse where zeros stay zero."""


def _pair_values(parameter: Any, pairs: Pairs | None, power: Callable[[Array], Array]) -> Any:
    if pairs is None:
        return parameter
    return power(pairs.value) * (parameter[pairs.feature] if np.ndim(parameter) else parameter)


def _power_table(T: Array, weights: Any, base_weights: Any, power: int, pairs: Pairs | None) -> Any:
    """Table of weights * T^power with base base_weights * T^power, for power 1 or 2."""
    raised = T if power == 1 else T * T
    slope = 1.0 if power == 1 else 2.0 * T
    weights = _column(np.asarray(weights))
    rows = raised if pairs is None else raised[pairs.feature]

    def pullback(H: Array, g: Array) -> Array:
        gathered = weights * H
        if pairs is not None:
            gathered = pairs.to_features(gathered)
        return (gathered + _column(np.asarray(base_weights)) * g) * slope

    return _over_rows(np.asarray(base_weights), raised), weights * rows, pullback


class Linear(Corruption):
    """Families with kappa(t; x) = at_zero(t) + x * per_unit(t): the coded matrix Z is X itself."""

    def at_zero(self, t: Array) -> Jet:
        """kappa(t; 0) and its two derivatives."""
        return np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)

    def per_unit(self, t: Array) -> Jet:
        """The slope of kappa in x, and its two derivatives in t."""
        return t, np.ones_like(t), np.zeros_like(t)

    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.asarray(t, dtype=float), self.prepare(np.asarray(x, dtype=float))
        return self.at_zero(t)[0] + x * self.per_unit(t)[0]

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.asarray(t, dtype=float), self.prepare(np.asarray(x, dtype=float))
        return self.at_zero(t)[1] + x * self.per_unit(t)[1]

    def log_mgf_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        # The transposes put features last, where per-feature parameters broadcast.
        unit, unit_slope, _ = self.per_unit(T.T)
        if not self.acts_on_zeros:
            return np.zeros(T.shape[1]), unit.T, lambda H, g: np.multiply(H, unit_slope.T, out=H)
        zero, zero_slope, _ = self.at_zero(T.T)
        return zero.sum(axis=1), unit.T, lambda H, g: H * unit_slope.T + zero_slope.T * g

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Expansion:
        value, slope, curvature = (array.T for array in self.per_unit(T.T))
        if not self.acts_on_zeros:
            return Expansion(None, value, slope, lambda: curvature)
        zero, zero_slope, zero_curvature = (array.T for array in self.at_zero(T.T))
        return Expansion(None, value, slope, lambda: curvature, (zero, zero_slope, zero_curvature))


class Identity(Linear):
    """No corruption: kappa(t) = t x. The plain model."""

    def log_mgf_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        return np.zeros(T.shape[1]), T, lambda H, g: H

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        return X.copy()


class Coded(Corruption):
    """Features that are zero with probability q, else x times `survivor`; evaluated pair by pair."""

    coded = True
    _per_feature = ("q",)

    def __init__(self, q: Any = 0.5):
        self.q = q

    def _q(self) -> Any:
        return self._parameter("q", 0.0, 1.0)

    @abstractmethod
    def survivor(self, q: Any) -> Any:
        """What a surviving value is multiplied by."""

    def moments(self) -> Moments:
        q = self._q()
        survivor = self.survivor(q)
        return Moments(scale=(1.0 - q) * survivor, v2=q * (1.0 - q) * survivor**2)

    def split(self, n_features: int) -> list[tuple[Array | slice, Corruption]]:
        """Columns that are never blanked out are plain columns."""
        q = self._q()
        never = np.asarray(q == 0.0)
        if not never.any():
            return [(slice(None), self)]
        if never.all():
            return [(slice(None), Identity())]
        kept, dropped = np.flatnonzero(never), np.flatnonzero(~never)
        return [(kept, Identity()), (dropped, self.at(dropped))]

    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_and_derivative(t, x)[0]

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_and_derivative(t, x)[1]

    def log_mgf_and_derivative(self, t: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
        q = self._q()
        u_per_t = self.survivor(q) * np.asarray(x, dtype=float)
        u = np.asarray(t, dtype=float) * u_per_t
        plain = np.asarray(q == 0.0)
        inner = np.where(plain, 0.5, q)
        z = u + (np.log1p(-inner) - np.log(inner))
        value, rate = np.empty_like(z), np.empty_like(z)
        softplus_sigmoid(z, value, rate)
        return np.where(plain, u, value + np.log(inner)), np.where(plain, 1.0, rate) * u_per_t

    def log_mgf_sums(self, T: Array, pairs: Pairs, Z: Any) -> tuple[Array, Callable[[Array], Array]] | None:
        if T.shape[1] > 1 or not sp.issparse(Z) or Z.format != "csc":
            return None
        q = self._q()
        if np.ndim(q):
            q, u_per_t = self._of_pairs(pairs)
            return blankout_sums(T, pairs.feature, u_per_t, 1.0, q, Z)
        return blankout_sums(T, pairs.feature, pairs.value, float(self.survivor(q)), np.asarray(q), Z)

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Expansion:
        assert pairs is not None
        table, slope, u_per_t = self._filled(T, pairs)
        # With the sigmoid s the slope is u s, the curvature u^2 s (1 - s).
        return Expansion(pairs, table, slope, lambda: slope * (u_per_t[:, None] - slope))

    def _filled(self, T: Array, pairs: Pairs) -> Jet:
        """The table, its slope and du/dt, in the buffers of the pairs."""
        table, slope = pairs.buffers(T.shape[1])
        q, u_per_t = self._of_pairs(pairs)
        blankout_table(T, pairs.feature, u_per_t, q, table, slope)
        return table, slope, u_per_t

    def _of_pairs(self, pairs: Pairs) -> tuple[Array, Array]:
        """q, one or one for each pair, and du/dt."""
        q = self._q()
        survivor = self.survivor(q)
        u_per_t = pairs.value * (survivor[pairs.feature] if np.ndim(survivor) else survivor)
        return np.asarray(q)[pairs.feature] if np.ndim(q) else np.asarray(q), u_per_t

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        q = self._q()
        survivor = self.survivor(q)
        if not sp.issparse(X):
            X = np.asarray(X, dtype=float)
            return np.where(rng.random(X.shape) < q, 0.0, X * survivor)
        copy = sp.csr_matrix(X, dtype=float, copy=True)
        if np.ndim(q):
            q, survivor = q[copy.indices], survivor[copy.indices] if np.ndim(survivor) else survivor
        copy.data = np.where(rng.random(copy.nnz) < q, 0.0, copy.data * survivor)
        copy.eliminate_zeros()
        return copy
