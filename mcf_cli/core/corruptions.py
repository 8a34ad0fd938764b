"""The corrupting distributions: the paper's Tables 1 and 2, plus bit swap and mixtures by column.

`Multinomial`, whose unit is a block of columns, has a module of its own and is one of them all the same.

Each gives the mean and variance (quadratic loss), the log moment-generating function and its derivative
(exponential and logistic loss), a sampler (explicit corruption) and what data and weights it is valid for.
Parameters are scalars or arrays with one entry per feature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit

from mcf_cli.core.families import Array, Coded, Corruption, Identity, Jet, Linear, Moments, guarded_exp
from mcf_cli.core.multinomial import Multinomial


class Blankout(Coded):
    """Unbiased dropout: x~ = 0 with probability q, else x / (1 - q); the mean stays x (paper, Table 1).

    kappa(t) = log(q + (1-q) e^{t x/(1-q)}).

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

    >>> from mcf_cli import Dropout
    >>> Dropout(q=[0.25, 0.5]).mean([4.0, 4.0])
    array([3., 2.])
    >>> import numpy as np
    >>> Dropout(q=0.5).sample([[1.0, 2.0, 3.0, 4.0]], np.random.default_rng(0))
    array([[1., 0., 0., 0.]])
    """

    def survivor(self, q: Any) -> Any:
        return np.ones_like(q) if np.ndim(q) else 1.0


class Gaussian(Linear):
    """x~ = x + N(0, sigma^2): kappa(t) = t x + sigma^2 t^2 / 2. With the quadratic loss it is ridge regression.

    >>> from mcf_cli import Gaussian
    >>> Gaussian(sigma=[0.5, 2.0]).variance([7.0, 7.0])
    array([0.25, 4.  ])
    >>> Gaussian(sigma=0.5).log_mgf(2.0, [1.0, 3.0])
    array([2.5, 6.5])
    """

    acts_on_zeros = True
    _per_feature = ("sigma",)

    def __init__(self, sigma: Any = 1.0):
        self.sigma = sigma

    def moments(self) -> Moments:
        return Moments(v0=self._parameter("sigma", 0.0, np.inf) ** 2)

    def at_zero(self, t: Array) -> Jet:
        variance = self.moments().v0
        slope = variance * t
        return 0.5 * slope * t, slope, np.broadcast_to(variance, t.shape)

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return X + rng.normal(size=X.shape) * self._parameter("sigma", 0.0, np.inf)


class Laplace(Linear):
    """x~ = x + Laplace(scale b): kappa(t) = t x - log(1 - b^2 t^2), which exists for |t| < 1/b only.

    So the logistic and the exponential loss of two classes keep every weight below 1/b.

    >>> from mcf_cli import Laplace, MCFClassifier
    >>> Laplace(scale=0.5).variance([7.0, 8.0])
    array([0.5, 0.5])
    >>> model = MCFClassifier(corruption=Laplace(scale=0.5)).fit([[0.0], [1.0], [9.0]], ["no", "no", "yes"])
    >>> bool(abs(model.coef_[0, 0]) < 2)
    True
    """

    acts_on_zeros = True
    _per_feature = ("scale",)

    def __init__(self, scale: Any = 1.0):
        self.scale = scale

    def _scale(self) -> Any:
        return self._parameter("scale", 0.0, np.inf)

    def moments(self) -> Moments:
        return Moments(v0=2.0 * self._scale() ** 2)

    def at_zero(self, t: Array) -> Jet:
        b2 = self._scale() ** 2
        room = 1.0 - b2 * t * t
        inside = room > 0.0
        room = np.where(inside, room, 1.0)
        slope = np.where(inside, 2.0 * b2 * t / room, np.nan)
        return np.where(inside, -np.log(room), np.inf), slope, 2.0 * b2 / room + slope * slope

    def weight_limit(self) -> Any:
        with np.errstate(divide="ignore"):
            return 1.0 / np.asarray(self._scale())

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return X + rng.laplace(size=X.shape) * self._scale()


class Poisson(Linear):
    """x~ ~ Poisson(min(x, clip)): kappa(t) = x (e^t - 1). No parameter but an optional clip, against outliers.

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
        if self.clip is not None:
            self._parameter("clip", 0.0, np.inf)
        return Moments(v1=1.0)

    def prepare(self, X: Any) -> Any:
        if self.clip is None:
            return X
        clip = self._parameter("clip", 0.0, np.inf)
        if not sp.issparse(X):
            return np.minimum(X, clip)
        clipped = X.copy()
        clipped.data = np.minimum(X.data, clip[X.indices] if np.ndim(clip) else clip)
        return clipped

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        if (X.data if sp.issparse(X) else X).size and (X.data if sp.issparse(X) else X).min() < 0:
            column = _first_column(X, lambda v: v < 0, columns)
            raise ValueError(
                f"Negative values in data, in column {column} of X: Poisson corruption needs counts; "
                "shift or drop that column, or use Blankout or Gaussian"
            )

    def per_unit(self, t: Array) -> Jet:
        value, slope = guarded_exp(t)
        return value - 1.0, slope, slope

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        X = self.prepare(X)
        if not sp.issparse(X):
            return rng.poisson(np.asarray(X, dtype=float)).astype(float)
        copy = sp.csr_matrix(X, dtype=float, copy=True)
        copy.data = rng.poisson(copy.data).astype(float)
        copy.eliminate_zeros()
        return copy


class BitSwap(Linear):
    """A bit is flipped with probability q: kappa(t) = log((1-q) e^{tx} + q e^{t(1-x)}), for x in {0, 1}.

    >>> from mcf_cli import BitSwap
    >>> BitSwap(q=0.25).mean([0.0, 1.0]), BitSwap(q=0.25).variance([0.0, 1.0])
    (array([0.25, 0.75]), array([0.1875, 0.1875]))
    >>> import numpy as np
    >>> BitSwap(q=0.25).sample([[0.0, 0.0, 1.0, 1.0]], np.random.default_rng(0))
    array([[0., 0., 0., 0.]])
    """

    acts_on_zeros = True
    _per_feature = ("q",)

    def __init__(self, q: Any = 0.1):
        self.q = q

    def _q(self) -> Any:
        return self._parameter("q", 0.0, 1.0)

    def moments(self) -> Moments:
        q = self._q()
        return Moments(offset=q, scale=1.0 - 2.0 * q, v0=q * (1.0 - q))

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        values = X.data if sp.issparse(X) else X
        if not np.isin(values, (0.0, 1.0)).all():
            column = _first_column(X, lambda v: (v != 0) & (v != 1), columns)
            raise ValueError(
                f"BitSwap corruption needs 0/1 data, but column {column} of X holds another value; "
                "binarise it (for example X > 0) or use another corruption"
            )

    def _log_odds(self) -> tuple[Any, Any]:
        with np.errstate(divide="ignore"):
            return np.log(self._q()), np.log1p(-np.asarray(self._q()))

    def at_zero(self, t: Array) -> Jet:
        log_q, log_p = self._log_odds()
        return _two_points(t, log_p, log_q)

    def per_unit(self, t: Array) -> Jet:
        log_q, log_p = self._log_odds()
        stays, leaves = _two_points(t, log_q, log_p), _two_points(t, log_p, log_q)
        return stays[0] - leaves[0], stays[1] - leaves[1], stays[2] - leaves[2]

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        flipped = np.where(rng.random(dense.shape) < self._q(), 1.0 - dense, dense)
        return sp.csr_matrix(flipped) if sp.issparse(X) else flipped


def _two_points(t: Array, log_zero: Any, log_one: Any) -> Jet:
    """log(e^log_zero + e^{log_one + t}), the log-MGF of a bit, and its two derivatives."""
    slope = expit(t + log_one - log_zero)
    return np.logaddexp(log_zero, log_one + t), slope, slope * (1.0 - slope)


def _first_column(X: Any, bad: Callable[[Array], Array], columns: Array | None) -> int:
    if sp.issparse(X):
        X = X.tocsr()
        local = int(X.indices[np.flatnonzero(bad(X.data))[0]])
    else:
        local = int(np.flatnonzero(bad(X).any(axis=0))[0])
    return local if columns is None else int(columns[local])


class PerFeature(Corruption):
    """Different families on different columns: ``PerFeature([(columns, corruption), ...])``.

    Columns named nowhere stay uncorrupted.

    >>> from mcf_cli import Blankout, Gaussian, PerFeature
    >>> PerFeature([([0], Blankout(q=0.5)), ([1], Gaussian(sigma=2.0))]).variance([[3.0, 3.0, 3.0]])
    array([[9., 4., 0.]])
    """

    def __init__(self, parts: Any = ()):
        self.parts = parts

    def check_parameters(self, n_features: int) -> None:
        for columns, corruption in self._assigned(n_features):
            corruption.check_parameters(len(columns))

    def _assigned(self, n_features: int) -> list[tuple[Array, Corruption]]:
        """Column numbers and their corruption, the columns that no part names last."""
        left = np.ones(n_features, dtype=bool)
        assigned = []
        for columns, corruption in self.parts:
            numbers = np.arange(n_features)[columns] if isinstance(columns, slice) else np.asarray(columns)
            if numbers.dtype == bool:
                numbers = np.flatnonzero(numbers)
            outside = (numbers < 0) | (numbers >= n_features)
            if outside.any():
                raise ValueError(
                    f"PerFeature: column {numbers[outside][0]} is outside the {n_features} columns of X"
                )
            for number in numbers:
                if not left[number]:
                    raise ValueError(
                        f"PerFeature: column {number} is named more than once; each takes one corruption"
                    )
                left[number] = False
            assigned.append((numbers, resolve(corruption)))
        if left.any():
            assigned.append((np.flatnonzero(left), Identity()))
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

    def prepare(self, X: Any) -> Any:
        clipped = [
            (columns, corruption)
            for columns, corruption in self._assigned(X.shape[-1])
            if getattr(corruption, "clip", None) is not None
        ]
        if not clipped:
            return X
        X = X.tolil(copy=True) if sp.issparse(X) else np.array(X)
        for columns, corruption in clipped:
            part = X[..., columns]
            X[..., columns] = (
                corruption.prepare(sp.csr_matrix(part)) if sp.issparse(X) else corruption.prepare(part)
            )
        return X.tocsr() if sp.issparse(X) else X

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

    def sample(self, X: Any, rng: np.random.Generator) -> Any:
        sparse = sp.issparse(X)
        source = X.tocsc() if sparse else np.asarray(X, dtype=float)
        assigned = self._assigned(X.shape[1])
        pieces = [corruption.sample(source[:, columns], rng) for columns, corruption in assigned]
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


BY_NAME: dict[str, type[Corruption]] = {
    "blankout": Blankout,
    "dropout": Dropout,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "poisson": Poisson,
    "bitswap": BitSwap,
    "multinomial": Multinomial,
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
        f"corruption={corruption!r} is not known; give one of {', '.join(BY_NAME)}, a corruption object, "
        "or None for the plain model"
    )
