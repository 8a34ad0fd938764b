"""Corruptions whose values stay in an interval: flipped bits, counts that lose units, and uniform noise.

A corruption on [a, b] whose MGF is not known is bounded by one that is here: with mean m, Hoeffding's lemma says
kappa(t) <= t m + t^2 (b-a)^2 / 8, which is the log-MGF of `Gaussian(sigma=(b - a) / 2)` about m. A model trained with
that Gaussian minimises an upper bound on the expected exponential loss, and on Jensen's bound of the logistic one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Jet, Moments
from mcf_cli.core.corruptions.elementwise import Linear, check_counts, first_column, two_points
from mcf_cli.core.kernels.dispatch import canonical

_SMALL = 0.1  # below, differences of large terms are replaced by their series


class BitSwap(Linear):
    """A bit is flipped with probability q: kappa(t) = log((1-q) e^{tx} + q e^{t(1-x)}), for x in {0, 1}.

    Parameters
    ----------
    q : the probability of a flip in [0, 1), one number or one per feature

    Examples
    --------
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
            column = first_column(X, lambda v: (v != 0) & (v != 1), columns)
            raise ValueError(
                f"BitSwap corruption needs 0/1 data, but column {column} of X holds another value; "
                "binarise it (for example X > 0) or use another corruption"
            )

    def _log_odds(self) -> tuple[Any, Any]:
        with np.errstate(divide="ignore"):
            return np.log(self._q()), np.log1p(-np.asarray(self._q()))

    def at_zero(self, t: Array) -> Jet:
        log_q, log_p = self._log_odds()
        return two_points(t, log_p, log_q)

    def per_unit(self, t: Array) -> Jet:
        log_q, log_p = self._log_odds()
        stays, leaves = two_points(t, log_q, log_p), two_points(t, log_p, log_q)
        return stays[0] - leaves[0], stays[1] - leaves[1], stays[2] - leaves[2]

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        flipped = np.where(rng.random(dense.shape) < self._q(), 1.0 - dense, dense)
        return sp.csr_matrix(flipped) if sp.issparse(X) else flipped


class Thinning(Linear):
    """Each unit of a count is lost on its own: x~ ~ Binomial(x, 1 - q), as when only a part of a text is seen.

    kappa(t) = x log(q + (1-q) e^t), with mean (1-q) x and variance q (1-q) x, for counts x >= 0. Between whole
    numbers the formula interpolates; only whole numbers can be sampled.

    Parameters
    ----------
    q : the probability in [0, 1) that a unit is lost, one number or one per feature

    Examples
    --------
    >>> from mcf_cli import Thinning
    >>> Thinning(q=0.25).mean([4.0, 8.0]), Thinning(q=0.25).variance([4.0, 8.0])
    (array([3., 6.]), array([0.75, 1.5 ]))
    >>> import numpy as np
    >>> Thinning(q=0.5).sample([[1.0, 4.0, 20.0]], np.random.default_rng(0))
    array([[1., 1., 6.]])
    """

    _per_feature = ("q",)

    def __init__(self, q: Any = 0.5):
        self.q = q

    def moments(self) -> Moments:
        q = self._parameter("q", 0.0, 1.0)
        return Moments(scale=1.0 - q, v1=q * (1.0 - q))

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        check_counts(X, columns, "Thinning")

    def per_unit(self, t: Array) -> Jet:
        q = np.asarray(self._parameter("q", 0.0, 1.0))
        with np.errstate(divide="ignore"):
            value, slope, curvature = two_points(t, np.log(q), np.log1p(-q))
        near = np.clip(t, -_SMALL, _SMALL)  # a count of 1e12 multiplies what rounding leaves of a small value
        return np.where(near == t, np.log1p((1.0 - q) * np.expm1(near)), value), slope, curvature

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        q = self._parameter("q", 0.0, 1.0)
        X = canonical(X)
        values = X.data if sp.issparse(X) else X
        if (values < 0).any() or (values != np.rint(values)).any():
            raise ValueError("Thinning draws from counts: X must hold whole numbers of at least 0")
        if not sp.issparse(X):
            return rng.binomial(X.astype(np.int64), 1.0 - q).astype(float)
        copy = X.copy()
        kept = 1.0 - (q[copy.indices] if np.ndim(q) else q)
        copy.data = rng.binomial(copy.data.astype(np.int64), kept).astype(float)
        copy.eliminate_zeros()
        return copy


class Uniform(Linear):
    """x~ = x + U(-a, a), as of a rounded or coarsely read value: kappa(t) = t x + log(sinh(t a) / (t a)).

    Parameters
    ----------
    a : half of the width, one number or one per feature; the variance is a^2 / 3

    Examples
    --------
    >>> from mcf_cli import Uniform
    >>> Uniform(a=3.0).variance([7.0, 8.0])
    array([3., 3.])
    >>> Uniform(a=0.5).log_mgf([0.0, 1e4], [1.0, 0.0]).round(3)
    array([   0.  , 4990.79])
    """

    acts_on_zeros = True
    moves_along = True
    _per_feature = ("a",)

    def __init__(self, a: Any = 1.0):
        self.a = a

    def moments(self) -> Moments:
        return Moments(v0=self._parameter("a", 0.0, np.inf) ** 2 / 3.0)

    def at_zero(self, t: Array) -> Jet:
        a = self._parameter("a", 0.0, np.inf)
        value, slope, curvature = _log_sinhc(np.abs(a * t))
        return value, a * np.sign(t) * slope, a * a * curvature

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return X + rng.uniform(-1.0, 1.0, size=X.shape) * self._parameter("a", 0.0, np.inf)


def _log_sinhc(z: Array) -> Jet:
    """log(sinh(z) / z) and its two derivatives for z >= 0, without overflow and without cancellation."""
    z2 = np.minimum(z, _SMALL) ** 2
    near = (
        z2 / 6.0 * (1.0 - z2 / 30.0 * (1.0 - z2 * (4.0 / 63.0) * (1.0 - z2 * 3.0 / 40.0))),
        np.minimum(z, _SMALL) / 3.0 * (1.0 - z2 / 15.0 * (1.0 - z2 * (2.0 / 21.0) * (1.0 - z2 / 10.0))),
        (1.0 - z2 / 5.0 * (1.0 - z2 * (10.0 / 63.0) * (1.0 - z2 * 7.0 / 50.0))) / 3.0,
    )
    far = np.maximum(z, _SMALL)
    shrunk = np.exp(-2.0 * far)  # e^-2z: sinh z = e^z (1 - shrunk) / 2
    rest = -np.expm1(-2.0 * far)
    value = far - np.log(2.0 * far) + np.log(rest)
    slope = (1.0 + shrunk) / rest - 1.0 / far
    curvature = (1.0 / far) ** 2 - 4.0 * shrunk / rest**2
    small = z < _SMALL
    return tuple(np.where(small, a, b) for a, b in zip(near, (value, slope, curvature), strict=True))  # type: ignore[return-value]
