"""The corruptions of single features: the paper's Tables 1 and 2.

Each gives the mean and variance (quadratic loss), the log moment-generating function and its derivative
(exponential and logistic loss), a sampler (explicit corruption) and what data and weights it is valid for.
Parameters are scalars or arrays with one entry per feature.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit

from mcf_cli.core.corruptions.base import (
    Array,
    Corruption,
    Expansion,
    Jet,
    Moments,
    Pairs,
    Pullback,
    features_first,
    guarded_exp,
)
from mcf_cli.core.corruptions.rates import adaptation_rates, missing_by_column, missing_rates, table_of
from mcf_cli.core.kernels.dispatch import blankout_sums, blankout_table, canonical, softplus_sigmoid


class Linear(Corruption):
    """Families with kappa(t; x) = at_zero(t) + x * per_unit(t): the coded matrix Z is X itself."""

    def at_zero(self, t: Array) -> Jet:
        """kappa(t; 0) and its two derivatives."""
        return np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)

    def per_unit(self, t: Array) -> Jet:
        """The slope of kappa in x, and its two derivatives in t."""
        return t, np.ones_like(t), np.zeros_like(t)

    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_jet(t, x)[0]

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_jet(t, x)[1]

    def log_mgf_jet(self, t: ArrayLike, x: ArrayLike) -> Jet:
        t = np.asarray(t, dtype=float)
        values: Array = self.prepare(np.asarray(x, dtype=float))
        value, slope, curvature = (values * unit for unit in self.per_unit(t))
        if not self.acts_on_zeros:
            return value, slope, curvature
        zero = self.at_zero(t)
        return zero[0] + value, zero[1] + slope, zero[2] + curvature

    def log_mgf_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        # The transposes put features last, where per-feature parameters broadcast.
        unit, unit_slope, _ = self.per_unit(T.T)
        if not self.acts_on_zeros:
            return np.zeros(T.shape[1]), unit.T, lambda H, g: np.multiply(H, unit_slope.T, out=H)
        zero, zero_slope, _ = self.at_zero(T.T)
        return zero.sum(axis=1), unit.T, lambda H, g: H * unit_slope.T + zero_slope.T * g

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Expansion:
        base = features_first(self.at_zero(T.T)) if self.acts_on_zeros else None
        if type(self).per_unit is Linear.per_unit:
            return Expansion(None, T, np.ones((1, 1)), lambda: np.zeros((1, 1)), base, unit=True)
        value, slope, curvature = features_first(self.per_unit(T.T))
        return Expansion(None, value, slope, lambda: curvature, base)


class Identity(Linear):
    """No corruption: kappa(t) = t x. The plain model."""

    moves_along = True

    def quadratic_variance(self) -> Any:
        return 0.0

    def log_mgf_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        return np.zeros(T.shape[1]), T, lambda H, g: H

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
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
        value += np.log(inner)
        if plain.any():
            value, rate = np.where(plain, u, value), np.where(plain, 1.0, rate)
        rate *= u_per_t
        return value, rate

    def log_mgf_jet(self, t: ArrayLike, x: ArrayLike) -> Jet:
        value, slope = self.log_mgf_and_derivative(t, x)
        largest = self.survivor(self._q()) * np.asarray(x, dtype=float)
        return value, slope, slope * (largest - slope)

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

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        q = self._q()
        survivor = self.survivor(q)
        if not sp.issparse(X):
            X = np.asarray(X, dtype=float)
            return np.where(rng.random(X.shape) < q, 0.0, X * survivor)
        copy = canonical(X).copy()
        if np.ndim(q):
            q, survivor = q[copy.indices], survivor[copy.indices] if np.ndim(survivor) else survivor
        copy.data = np.where(rng.random(copy.nnz) < q, 0.0, copy.data * survivor)
        copy.eliminate_zeros()
        return copy


class Blankout(Coded):
    """Unbiased dropout: x~ = 0 with probability q, else x / (1 - q); the mean stays x (paper, Table 1).

    kappa(t) = log(q + (1-q) e^{t x/(1-q)}).

    Parameters
    ----------
    q : the probability of deletion in [0, 1), one number or one per feature

    Examples
    --------
    >>> from mcf_cli import Blankout
    >>> Blankout(q=0.5).mean([2.0]), Blankout(q=0.5).variance([2.0])
    (array([2.]), array([4.]))
    >>> import numpy as np
    >>> Blankout(q=0.5).sample([[1.0, 2.0, 3.0, 4.0]], np.random.default_rng(0))
    array([[2., 0., 0., 0.]])
    """

    def survivor(self, q: Any) -> Any:
        return 1.0 / (1.0 - q)


class Dropout(Coded):
    """Biased dropout: x~ = 0 with probability q, else x, as when features are missing at test time.

    kappa(t) = log(q + (1-q) e^{t x}).

    Parameters
    ----------
    q : the probability of deletion in [0, 1), one number or one per feature

    Examples
    --------
    >>> from mcf_cli import Dropout
    >>> Dropout(q=[0.25, 0.5]).mean([4.0, 4.0])
    array([3., 2.])
    >>> import numpy as np
    >>> Dropout(q=0.5).sample([[1.0, 2.0, 3.0, 4.0]], np.random.default_rng(0))
    array([[1., 0., 0., 0.]])
    """

    def survivor(self, q: Any) -> Any:
        return np.ones_like(q) if np.ndim(q) else 1.0

    @classmethod
    def from_missing(cls, X: Any) -> Dropout:
        """Dropout at the rate that each feature is missing in X.

        Parameters
        ----------
        X : rows, dense or sparse, with NaN where a value is missing

        Returns
        -------
        the corruption; q of a column that is missing in all N rows is N / (N + 1)

        Examples
        --------
        >>> from mcf_cli import Dropout
        >>> Dropout.from_missing([[1.0, 2.0], [float("nan"), 3.0]])
        Dropout(q=array([0.5, 0. ]))
        """
        X = table_of(X)
        return cls(q=missing_rates(missing_by_column(X) / X.shape[0], X.shape[0]))

    @classmethod
    def estimate(cls, source: Any, target: Any, pseudo_counts: float = 1.0, base: Any = 0.0) -> Dropout:
        """Dropout that turns the features of one sample into those of another: q_d = max(0, 1 - zeta_d / eta_d).

        eta_d and zeta_d are the shares of source and target rows in which feature d is not 0. A model trained on the
        source with this corruption expects a feature as often as the target has it.

        Parameters
        ----------
        source, target : rows to train on and rows like those to predict; no labels are needed
        pseudo_counts : number of further rows that each sample counts as having, at the common rate of both
        base : a further loss q_0 of every feature, composed as 1 - (1 - q_d)(1 - q_0)

        Returns
        -------
        the corruption, one q per feature

        Examples
        --------
        >>> from mcf_cli import Dropout
        >>> Dropout.estimate([[1.0, 2.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]], pseudo_counts=0.0)
        Dropout(q=array([0.5, 0. ]))
        """
        return cls(q=adaptation_rates(source, target, pseudo_counts, base))


class Gaussian(Linear):
    """x~ = x + N(0, sigma^2): kappa(t) = t x + sigma^2 t^2 / 2. With the quadratic loss it is ridge regression.

    Parameters
    ----------
    sigma : the standard deviation of the noise, one number or one per feature

    Examples
    --------
    >>> from mcf_cli import Gaussian
    >>> Gaussian(sigma=[0.5, 2.0]).variance([7.0, 7.0])
    array([0.25, 4.  ])
    >>> Gaussian(sigma=0.5).log_mgf(2.0, [1.0, 3.0])
    array([2.5, 6.5])
    """

    acts_on_zeros = True
    moves_along = True
    _per_feature = ("sigma",)

    def __init__(self, sigma: Any = 1.0):
        self.sigma = sigma

    def moments(self) -> Moments:
        return Moments(v0=self._parameter("sigma", 0.0, np.inf) ** 2)

    def quadratic_variance(self) -> Any:
        return self.moments().v0

    def at_zero(self, t: Array) -> Jet:
        variance = self.moments().v0
        slope = variance * t
        return 0.5 * slope * t, slope, np.broadcast_to(variance, t.shape)

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return X + rng.normal(size=X.shape) * self._parameter("sigma", 0.0, np.inf)


class Laplace(Linear):
    """x~ = x + Laplace(scale b): kappa(t) = t x - log(1 - b^2 t^2), which exists only for abs(t) < 1/b.

    So the logistic and the exponential loss of two classes keep every weight below 1/b.

    Parameters
    ----------
    scale : b, one number or one per feature; the variance is 2 b^2

    Examples
    --------
    >>> from mcf_cli import Laplace, MCFClassifier
    >>> Laplace(scale=0.5).variance([7.0, 8.0])
    array([0.5, 0.5])
    >>> model = MCFClassifier(corruption=Laplace(scale=0.5)).fit([[0.0], [1.0], [9.0]], ["no", "no", "yes"])
    >>> bool(abs(model.coef_[0, 0]) < 2)
    True
    """

    acts_on_zeros = True
    moves_along = True
    _per_feature = ("scale",)

    def __init__(self, scale: Any = 1.0):
        self.scale = scale

    def _scale(self) -> Any:
        return self._parameter("scale", 0.0, np.inf)

    def moments(self) -> Moments:
        return Moments(v0=2.0 * self._scale() ** 2)

    def at_zero(self, t: Array) -> Jet:
        b2 = self._scale() ** 2
        used = b2 * t * t
        inside = used < 1.0
        used = np.where(inside, used, 0.0)
        room = 1.0 - used
        slope = np.where(inside, 2.0 * b2 * t / room, np.nan)
        return np.where(inside, -np.log1p(-used), np.inf), slope, 2.0 * b2 / room + slope * slope

    def weight_limit(self) -> Any:
        with np.errstate(divide="ignore"):
            return 1.0 / np.asarray(self._scale())

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return X + rng.laplace(size=X.shape) * self._scale()


class Poisson(Linear):
    """x~ ~ Poisson(min(x, clip)): kappa(t) = x (e^t - 1), for counts x >= 0.

    Parameters
    ----------
    clip : cut larger counts to this, against outliers; one number or one per feature, None for no limit

    Examples
    --------
    >>> from mcf_cli import Poisson
    >>> Poisson().mean([2.0, 40.0]), Poisson().variance([2.0, 40.0])
    (array([ 2., 40.]), array([ 2., 40.]))
    >>> Poisson(clip=5).mean([2.0, 40.0])
    array([2., 5.])
    """

    _per_feature = ("clip",)

    def __init__(self, clip: Any = None):
        self.clip = clip

    def moments(self) -> Moments:
        self.clips(0)
        return Moments(v1=1.0)

    def clips(self, n_features: int) -> Any:
        return None if self.clip is None else self._parameter("clip", 0.0, np.inf)

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        check_counts(X, columns, "Poisson")

    def per_unit(self, t: Array) -> Jet:
        value, slope = guarded_exp(t, less_one=True)
        return value, slope, slope

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        X = self.prepare(canonical(X))
        if not sp.issparse(X):
            return rng.poisson(X).astype(float)
        copy = X.copy()
        copy.data = rng.poisson(copy.data).astype(float)
        copy.eliminate_zeros()
        return copy


def two_points(t: Array, log_zero: Any, log_one: Any) -> Jet:
    """log(e^log_zero + e^{log_one + t}), the log-MGF of a bit, and its two derivatives."""
    slope = expit(t + log_one - log_zero)
    return np.logaddexp(log_zero, log_one + t), slope, slope * (1.0 - slope)


def check_counts(X: Any, columns: Array | None, name: str) -> None:
    """ValueError where X holds a value below 0."""
    if (X.data if sp.issparse(X) else X).min(initial=0.0) < 0:
        column = first_column(X, lambda v: v < 0, columns)
        raise ValueError(
            f"Negative values in data, in column {column} of X: {name} corruption needs counts; "
            "shift or drop that column, or use Blankout or Gaussian"
        )


def first_column(X: Any, bad: Callable[[Array], Array], columns: Array | None) -> int:
    if sp.issparse(X):
        X = X.tocsr()
        local = int(X.indices[np.flatnonzero(bad(X.data))[0]])
    else:
        local = int(np.flatnonzero(bad(X).any(axis=0))[0])
    return local if columns is None else int(columns[local])
