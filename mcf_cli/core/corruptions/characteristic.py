"""Characteristic functions: the log-MGF at an imaginary argument, log E exp(i t x~), feature by feature.

A characteristic function exists for every corruption and is at most 1 in modulus, so nothing overflows at any weights.
Logarithms are principal values. Only their exponential is ever used, after a sum over features, so that jumps of 2 pi
in a phase make no difference: the multipliers of the logarithms are ones or counts.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from mcf_cli.core.corruptions.base import Array, Corruption, Pairs, Pullback
from mcf_cli.core.corruptions.bounded import BitSwap, Thinning, Uniform
from mcf_cli.core.corruptions.elementwise import Coded, Gaussian, Identity, Laplace, Linear, Poisson
from mcf_cli.core.corruptions.groups import Grouped
from mcf_cli.core.corruptions.multinomial import Multinomial

_Table = tuple[Array, Array, Pullback]
_UNKNOWN = "surrogate='exact' does not support {}; use surrogate='gaussian'"
_LEAST = 1e-150  # stands for a modulus of zero: its logarithm, its inverse and that one's square are numbers


@singledispatch
def log_cf_table(family: Corruption, T: Array, pairs: Pairs | None) -> _Table:
    """(base, table, pullback) with sum_d log E exp(i T_d x~_d) = base + Z @ table, for real T of D x J.

    Complex numbers stand as pairs of columns, real and imaginary part: the table has 2 J columns, and real
    sparse products serve. The pullback takes such pairs to complex D x J.
    """
    raise ValueError(_UNKNOWN.format(type(family).__name__))


def has_characteristic(family: Corruption) -> bool:
    """Whether `log_cf_table` knows the family."""
    if isinstance(family, Grouped):  # a group is lost like a single feature
        return True
    known = _linear if isinstance(family, Linear) and not isinstance(family, Multinomial) else log_cf_table
    return known.dispatch(type(family)) is not known.dispatch(object)


def as_pairs(values: Array) -> Array:
    """Complex columns as pairs of real ones."""
    return np.ascontiguousarray(values).view(float)


def as_complex(columns: Array) -> Array:
    """The inverse of `as_pairs`."""
    return np.ascontiguousarray(columns).view(complex)


def _log(value: Array) -> tuple[Array, Array]:
    """log and 1 / value, finite at zero too."""
    value = np.where(np.abs(value) < _LEAST, _LEAST, value)
    return np.log(value), 1.0 / value


# -- families that are linear in x: at zero and per unit, each with its derivative in t; t has features last ----------
_Slope = tuple[Any, Any]


@singledispatch
def _linear(family: Any, t: Array) -> tuple[_Slope | None, _Slope]:
    """log E exp(i t x~) = zero + x * unit: ((zero, its derivative) or None, (unit, its derivative))."""
    raise ValueError(_UNKNOWN.format(type(family).__name__))


@_linear.register
def _(family: Identity, t: Array) -> tuple[_Slope | None, _Slope]:
    return None, _straight(t)


def _straight(t: Array) -> _Slope:
    return 1j * t, np.full(t.shape, 1j)


@_linear.register
def _(family: Gaussian, t: Array) -> tuple[_Slope | None, _Slope]:
    variance = family.moments().v0
    return ((-0.5 * variance * t * t).astype(complex), (-variance * t).astype(complex)), _straight(t)


@_linear.register
def _(family: Laplace, t: Array) -> tuple[_Slope | None, _Slope]:
    b2 = 0.5 * family.moments().v0
    spread = b2 * t * t
    return ((-np.log1p(spread)).astype(complex), (-2.0 * b2 * t / (1.0 + spread)).astype(complex)), _straight(
        t
    )


@_linear.register
def _(family: Poisson, t: Array) -> tuple[_Slope | None, _Slope]:
    """e^{it} - 1, without a difference: a count of 1e12 multiplies it."""
    return None, (1j * np.sin(t) - 2.0 * np.sin(0.5 * t) ** 2, 1j * np.exp(1j * t))


@_linear.register
def _(family: BitSwap, t: Array) -> tuple[_Slope | None, _Slope]:
    q, turned = family.moments().offset, np.exp(1j * t)
    stays, stays_inverse = _log(q + (1.0 - q) * turned)  # a bit that is 1
    leaves, leaves_inverse = _log((1.0 - q) + q * turned)  # a bit that is 0
    of_one, of_zero = 1j * (1.0 - q) * turned * stays_inverse, 1j * q * turned * leaves_inverse
    return (leaves, of_zero), (stays - leaves, of_one - of_zero)


@_linear.register
def _(family: Thinning, t: Array) -> tuple[_Slope | None, _Slope]:
    """log(q + p e^{it}) on the branch that is continuous in t: between whole numbers x it interpolates.

    The modulus comes from |q + p e^{it}|^2 = 1 - 4 p q sin^2(t / 2): a count of 1e12 multiplies its logarithm.
    """
    p = np.broadcast_to(family.moments().scale, t.shape)
    likely, turn = np.maximum(p, 1.0 - p), np.where(p >= 0.5, -1.0, 1.0)
    value, inverse = _log(likely + (1.0 - likely) * np.exp(1j * turn * t))
    lost = np.minimum(4.0 * likely * (1.0 - likely) * np.sin(0.5 * t) ** 2, 1.0)
    value.real = np.where(lost < 0.5, 0.5 * np.log1p(-np.minimum(lost, 0.5)), value.real)
    slope = 1j * turn * (1.0 - likely) * np.exp(1j * turn * t) * inverse
    wound = p >= 0.5
    return None, (value + 1j * np.where(wound, t, 0.0), slope + 1j * wound)


@_linear.register
def _(family: Uniform, t: Array) -> tuple[_Slope | None, _Slope]:
    a = np.sqrt(3.0 * family.moments().v0)
    z = np.broadcast_to(a * t, t.shape)
    ratio = np.sinc(z / np.pi)  # sin(z) / z
    value, inverse = _log(ratio.astype(complex))
    small = np.abs(z) < 1e-4
    slope = np.where(small, -z / 3.0, (np.cos(z) - ratio) / np.where(small, 1.0, z))
    return (value, a * slope * inverse), _straight(t)


@log_cf_table.register
def _(family: Linear, T: Array, pairs: Pairs | None) -> _Table:
    zero, unit = _linear(family, T.T)
    base = np.zeros(2 * T.shape[1]) if zero is None else as_pairs(zero[0].sum(axis=1))

    def pullback(H: Array, g: Array) -> Array:
        gradient = unit[1].T * as_complex(H)
        return gradient if zero is None else gradient + zero[1].T * as_complex(g)

    return base, as_pairs(unit[0].T), pullback


# -- families with a table of their own -----------------------------------------------------------------------------
@log_cf_table.register
def _(family: Coded, T: Array, pairs: Pairs | None) -> _Table:
    """log f with f = q + p e^{iu}, u = T x~ where x survives; and p e^{iu} / f = p (p + q e^{iu}) / |f|^2."""
    assert pairs is not None
    q, u_per_t = family._of_pairs(pairs)
    q, u_per_t = np.asarray(q).reshape(-1, 1), u_per_t[:, None]
    p = 1.0 - q
    u = T[pairs.feature] * u_per_t
    cos, sin = np.cos(u), np.sin(u)
    squared = np.maximum((q - p) ** 2 + 2.0 * q * p * (1.0 + cos), _LEAST**2)
    table = np.empty((*u.shape, 2))
    table[..., 0] = 0.5 * np.log(squared)
    table[..., 1] = np.arctan2(p * sin, q + p * cos)
    slope = np.empty(u.shape, dtype=complex)
    scale = u_per_t * p / squared
    slope.real, slope.imag = -scale * q * sin, scale * (p + q * cos)

    def pullback(H: Array, g: Array) -> Array:
        return as_complex(pairs.to_features(as_pairs(slope * as_complex(H))))

    return np.zeros(2 * T.shape[1]), table.reshape(len(u), 2 * T.shape[1]), pullback


@log_cf_table.register
def _(family: Multinomial, T: Array, pairs: Pairs | None) -> _Table:
    """log sum_k p_k e^{i t_k} over a block, in the row of the symbol that it holds."""
    p = family._confusion_matrix(len(T))
    turned = np.exp(1j * T)
    value, inverse = _log(p @ turned)

    def pullback(H: Array, g: Array) -> Array:
        return 1j * turned * (p.T @ (inverse * as_complex(H)))

    return np.zeros(2 * T.shape[1]), as_pairs(value), pullback
