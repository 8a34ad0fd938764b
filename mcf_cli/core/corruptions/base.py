"""What every corruption has to provide; `elementwise` has the two kinds that most of them belong to.

One quantity carries every loss: the log moment-generating function kappa(t) = log E exp(t x~) of a corrupted
feature x~. The kinds:

- `Linear`: kappa is linear in x for a fixed t, kappa(t; x) = at_zero(t) + x * per_unit(t);
- `Coded`: kappa is any function with kappa(t; 0) = 0, evaluated once per distinct (feature, value) pair.

Either way the sum over the features of an example is a base plus a sparse product (see `design`):
``base(T) + Z @ table(T)``. Parameters are scalars or arrays with one entry per feature.
Mean and variance are polynomials in x for every family but `Multinomial`, whose unit is a block of columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from mcf_cli.core.corruptions.columns import ColumnNames
from mcf_cli.core.kernels.dispatch import Array
from mcf_cli.core.kernels.threads import Scratch

Pullback = Callable[[Array, Array], Array]
Jet = tuple[Array, Array, Array]  # a value and its two derivatives

# e^t is continued by its tangent above this exponent, so that nothing overflows for any weights. A loss of e^200
# is never near a minimum (the loss at zero weights is 1), so no solution is affected.
EXPONENT_LIMIT = 200.0


def guarded_exp(t: Array, less_one: bool = False) -> tuple[Array, Array]:
    """e^t, or e^t - 1 to full precision, and its derivative; continued linearly above EXPONENT_LIMIT."""
    if t.max(initial=0.0) <= EXPONENT_LIMIT:
        value = np.expm1(t) if less_one else np.exp(t)
        return value, value + 1.0 if less_one else value
    slope = np.exp(np.minimum(t, EXPONENT_LIMIT))
    value = slope * (1.0 + np.maximum(t - EXPONENT_LIMIT, 0.0))
    return np.where(t < 1.0, np.expm1(np.minimum(t, 1.0)), value - 1.0) if less_one else value, slope


def features_first(jet: Jet) -> Jet:
    """The transposes, contiguous: numpy is slow at arrays of mixed order."""
    value, slope, curvature = (np.ascontiguousarray(array.T) for array in jet)
    return value, slope, curvature


def squared(X: Any) -> Any:
    """The entries of X squared; a sparse X shares its pattern."""
    return type(X)((X.data**2, X.indices, X.indptr), shape=X.shape) if sp.issparse(X) else X * X


def column_sums(X: Any, weights: Array, power: int = 1) -> Array:
    """sum_n weights_n x_nd^power, for power 1 or 2."""
    return np.asarray((squared(X) if power == 2 else X).T @ weights).ravel()


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
        sums = np.bincount(self.feature, rows[:, 0], self.scatter.shape[0])
        return sums.astype(float, copy=False)[:, None]  # of nothing they would be integers

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
    unit: bool = field(default=False, kw_only=True)  # the table is T: all curvature is that of the base

    couples = False  # its second derivative is not diagonal: `bent` has the products

    def along(self, part: Any, V: Array) -> Array:
        """The change of a part's sums, but for the base, when T changes by V."""
        return part.product(V) if self.unit else part.along(self.slope, V)

    def pullback(self, part: Any, G: Array) -> Array:
        """The adjoint of `along`."""
        return part.adjoint(G) if self.unit else part.pullback(self.slope, G)

    def to_features(self, rows: Array) -> Array:
        return rows if self.pairs is None else self.pairs.to_features(rows)

    def gradient(self, H: Array, g: Array) -> Array:
        """The gradient in T of a sum with the weights H on the table and g on the base."""
        gradient = self.to_features(self.slope * H)
        return gradient if self.base is None else gradient + self.base[1] * g

    def bend(self, H: Array, g: Array) -> Array:
        """The diagonal of the second derivative of that sum."""
        bend = self.to_features(self.curvature() * H)
        return bend if self.base is None else bend + self.base[2] * g

    def bent(self, H: Array, V: Array) -> Array:
        """The product of that second derivative with V, where it couples features."""
        raise NotImplementedError

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
    couples = False  # several features change together
    moves_along = False  # x~ - x has the same law at every x: an offset of a column is one of the biases

    def __init_subclass__(cls, **options: Any) -> None:
        """Hide defaults from scikit-learn's printing, which leaves them out: `Dropout()` would not say its q."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            form = signature(cls.__init__)
            own, *others = form.parameters.values()
            cls.__signature__ = form.replace(parameters=others)  # what help and completion show
            asked = [one.replace(default=Parameter.empty) for one in others]
            cls.__init__.__signature__ = form.replace(parameters=[own, *asked])  # type: ignore[attr-defined]

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

    def named(self, table: Any) -> Corruption:
        """The same with column numbers where it holds names or selectors; `table` is a `columns.ColumnNames`."""
        return self

    def split(self, n_features: int) -> list[tuple[Array | slice, Corruption]]:
        """Disjoint columns and the single family that acts on each of them."""
        return [(slice(None), self)]

    # -- data -----------------------------------------------------------------------------------------------
    def check_data(self, X: Any, columns: Array | None = None) -> None:
        """Raise ValueError where X is outside what the family can corrupt; `columns` are the outer numbers."""

    def domain(self, n_features: int) -> tuple[Any, ...]:
        """Identifies what `check_data` asks for, so that one check serves many parameters."""
        return (type(self).__name__,)

    def clips(self, n_features: int) -> Any:
        """What larger values are cut to, one number or one per feature; None where no value is cut."""
        return None

    def prepare(self, X: Any) -> Any:
        """The data as the corruption sees it: X itself unless it clips, and CSR if that is sparse."""
        clips = self.clips(X.shape[-1] if X.ndim else 1)
        if clips is None:
            return X
        if not sp.issparse(X):
            return np.minimum(X, clips)
        X = X.tocsr(copy=True)
        X.data = np.minimum(X.data, clips[X.indices] if np.ndim(clips) else clips)
        return X

    # -- moments --------------------------------------------------------------------------------------------
    def moments(self) -> Moments:
        """Mean and variance as polynomials in x; the methods below follow from them. Here: no corruption."""
        return Moments()

    def mean(self, x: ArrayLike) -> Array:
        """E[x~], the mean of the corrupted features.

        Parameters
        ----------
        x : values, with features on the last axis

        Returns
        -------
        array of the shape of x

        Examples
        --------
        >>> from mcf_cli import Dropout
        >>> Dropout(q=0.25).mean([[4.0, 8.0]])
        array([[3., 6.]])
        """
        m = self.moments()
        return m.offset + m.scale * self.prepare(np.asarray(x, dtype=float))

    def variance(self, x: ArrayLike) -> Array:
        """V[x~], the variance of each corrupted feature.

        Parameters
        ----------
        x : values, with features on the last axis

        Returns
        -------
        array of the shape of x

        Examples
        --------
        >>> from mcf_cli import Poisson
        >>> Poisson().variance([[4.0, 8.0]])
        array([[4., 8.]])
        """
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
        """kappa(t) = log E exp(t x~), feature by feature.

        Parameters
        ----------
        t, x : the argument and the values, features on the last axis

        Returns
        -------
        array of the common shape of t and x

        Examples
        --------
        >>> from mcf_cli import Gaussian
        >>> Gaussian(sigma=1.0).log_mgf(2.0, [0.0, 1.0])
        array([2., 4.])
        """

    @abstractmethod
    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        """kappa'(t), the derivative of `log_mgf` in t.

        Parameters
        ----------
        t, x : the argument and the values, features on the last axis

        Returns
        -------
        array of the common shape of t and x

        Examples
        --------
        >>> from mcf_cli import Gaussian
        >>> Gaussian(sigma=1.0).log_mgf_derivative(2.0, [0.0, 1.0])
        array([2., 3.])
        """

    def log_mgf_and_derivative(self, t: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
        """Both at once; families that can share the work do."""
        return self.log_mgf(t, x), self.log_mgf_derivative(t, x)

    def log_mgf_jet(self, t: ArrayLike, x: ArrayLike) -> Jet:
        """kappa and its two derivatives, where features are corrupted one by one."""
        raise NotImplementedError

    def weight_limit(self) -> Any:
        """log_mgf exists for |t| below this."""
        return np.inf

    def quadratic_variance(self) -> Any:
        """V where the log-MGF is t x + V t^2 / 2, one number or one per feature; None where it is not."""
        return None

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Expansion:
        """The table to second order."""
        raise NotImplementedError

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
    def sample(self, X: Any, rng: np.random.Generator | int | None = None) -> Any:
        """One corrupted copy of X.

        Parameters
        ----------
        X : rows, dense (a DataFrame, or of float32, too) or sparse
        rng : the numpy generator that draws, or the seed of one; None for a fresh seed

        Returns
        -------
        array or sparse matrix of the shape of X; sparse stays sparse where zeros stay zero, a sparse array an array,
        and float32 float32

        Examples
        --------
        >>> from mcf_cli import Poisson
        >>> Poisson().sample([[1.0, 5.0, 0.0]], 0)
        array([[1., 1., 0.]])
        """
        corruption = self.named(ColumnNames.of(X))
        rows = X if sp.issparse(X) else np.asarray(X)
        kind = np.float32 if rows.dtype == np.float32 else np.float64
        copy = corruption.draw(rows.astype(np.float64, copy=False), np.random.default_rng(rng))
        copy = copy.astype(kind, copy=False)
        return sp.csr_array(copy) if isinstance(X, sp.sparray) and sp.issparse(copy) else copy

    @abstractmethod
    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        """`sample` by a generator; a sparse copy is CSR."""


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
