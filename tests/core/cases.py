"""The one list of corruptions that the core's tests run through, each with valid data and its law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mcf_cli import (
    BitSwap,
    Blankout,
    Dropout,
    Gaussian,
    GroupBlankout,
    GroupDropout,
    Laplace,
    Multinomial,
    PerFeature,
    Poisson,
    Thinning,
    Uniform,
)

from tests.core import reference as ref

REALS = np.array(
    [
        [0.7, 0.0, -1.2, 0.4, 1.0],
        [0.0, 2.0, 0.3, -0.6, 0.0],
        [-0.5, 0.9, 0.0, 0.0, 1.4],
        [1.1, -0.8, 0.6, 0.2, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [0.7, 2.0, -1.2, 1.3, -0.9],
    ]
)
COUNTS = np.array(
    [[0, 3, 1, 0, 2], [1, 0, 0, 4, 0], [2, 1, 0, 0, 7], [0, 0, 3, 1, 0], [5, 0, 0, 0, 1], [0.0] * 5]
)
BITS = np.array(
    [[1, 0, 1, 1, 0], [0, 0, 1, 0, 1], [1, 1, 0, 0, 0], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1.0, 0, 0, 1, 1]]
)
SYMBOLS = np.array([[0, 1], [2, 0], [1, 1], [0, 2], [2, 2], [1, 0]])
ONE_HOT = np.hstack([np.eye(3)[SYMBOLS[:, 0]], np.eye(3)[SYMBOLS[:, 1]]])
INTERLEAVED = ONE_HOT[:, [0, 3, 1, 4, 2, 5]]
UNEVEN = np.hstack([np.eye(3)[SYMBOLS[:, 0]], np.eye(2)[SYMBOLS[:, 1] % 2]])
SENSORS = np.column_stack([REALS[:, :2], COUNTS[:, :2], BITS[:, :1], REALS[:, 3:]])
SEQUENCE = np.hstack([np.eye(3)[SYMBOLS[:, 0]], COUNTS[:, :3]])

CONFUSION = np.array([[0.8, 0.15, 0.05], [0.0, 0.9, 0.1], [0.3, 0.2, 0.5]])
QS = np.array([0.0, 0.2, 0.5, 0.35, 0.9])
SIGMAS = np.array([0.0, 0.5, 1.0, 0.3, 1.5])
SCALES = np.array([0.1, 0.5, 0.3, 0.2, 0.4])
CLIPS = np.array([1.0, 2.0, 0.5, 3.0, 10.0])
SWAPS = np.array([0.0, 0.1, 0.5, 0.25, 0.05])


@dataclass(frozen=True)
class Case:
    """A corruption, rows that it accepts, and the law of one corrupted row."""

    name: str
    corruption: Any
    X: np.ndarray
    law: Callable[[np.ndarray], ref.Law]
    finite: bool  # whether all corrupted copies can be enumerated

    @property
    def laws(self) -> list[ref.Law]:
        return [self.law(x) for x in self.X]

    def __str__(self) -> str:
        return self.name


def each(noise: Callable[..., ref.Group], parameters: Any = None) -> Callable[[np.ndarray], ref.Law]:
    """The law of a row whose features are corrupted one by one, by one parameter or one a feature."""

    def law(x: np.ndarray) -> ref.Law:
        if parameters is None:
            return [noise(d, v) for d, v in enumerate(x)]
        return [
            noise(d, v, p)
            for d, (v, p) in enumerate(zip(x, np.broadcast_to(parameters, x.shape), strict=True))
        ]

    return law


def in_blocks(*blocks: tuple[list[int], np.ndarray]) -> Callable[[np.ndarray], ref.Law]:
    return lambda x: [ref.multinomial(columns, x[columns], confusion) for columns, confusion in blocks]


def empty_blocks_law(x: np.ndarray) -> ref.Law:
    """A block of zeros, and the only symbol of its block, stay as they are."""
    law = [ref.unchanged(5, x[5])]
    for columns in ([0, 1, 2], [3, 4]):
        if x[columns].any():
            law.append(ref.multinomial(columns, x[columns], ref.uniform_confusion(len(columns), 0.25)))
        else:
            law += [ref.unchanged(d, 0.0) for d in columns]
    return law


def in_groups(*groups: tuple[list[int], float], unbiased: bool = False) -> Callable[[np.ndarray], ref.Law]:
    """The law of a row whose groups are lost together; columns in no group stay."""

    def law(x: np.ndarray) -> ref.Law:
        rest = set(range(len(x))) - {d for columns, _ in groups for d in columns}
        lost = [ref.group_loss(c, x[c], q, 1 / (1 - q) if unbiased else 1.0) for c, q in groups]
        return [*lost, *(ref.unchanged(d, x[d]) for d in sorted(rest))]

    return law


def two_failures_law(x: np.ndarray) -> ref.Law:
    return [ref.thinning(0, x[0], 0.3), *(ref.group_loss(c, x[c], 0.4) for c in ([4, 1], [3, 2]))]


def sensors_law(x: np.ndarray) -> ref.Law:
    return [
        ref.gaussian(0, x[0], 0.4),
        ref.gaussian(1, x[1], 0.4),
        ref.poisson_noise(2, x[2]),
        ref.poisson_noise(3, x[3]),
        ref.bit_swap(4, x[4], 0.1),
        ref.blankout(5, x[5], 0.3),
        ref.unchanged(6, x[6]),
    ]


def noisy_columns_law(x: np.ndarray) -> ref.Law:
    return [ref.gaussian(d, x[d], 0.6) if d in (1, 3) else ref.unchanged(d, x[d]) for d in range(len(x))]


def sequence_law(x: np.ndarray) -> ref.Law:
    return [
        ref.multinomial([0, 1, 2], x[:3], ref.uniform_confusion(3, 0.2)),
        ref.blankout(3, x[3], 0.4),
        ref.blankout(4, x[4], 0.1),
        ref.dropout(5, x[5], 0.6),
    ]


SENSORS_NOISE = PerFeature(
    [([0, 1], Gaussian(0.4)), ([2, 3], Poisson()), ([4], BitSwap(0.1)), ([5], Blankout(0.3))]
)
SEQUENCE_NOISE = PerFeature(
    [
        ([0, 1, 2], Multinomial(q=0.2, blocks=3)),
        ([3, 4], Blankout(q=np.array([0.4, 0.1]))),
        ([5], Dropout(0.6)),
    ]
)


def nested_law(x: np.ndarray) -> ref.Law:
    return [
        ref.poisson_noise(0, x[0], 2.0),
        ref.poisson_noise(1, x[1], 1.0),
        ref.unchanged(2, x[2]),
        ref.blankout(3, x[3], 0.3),
        ref.poisson_noise(4, x[4], 3.0),
    ]


def nested_symbols_law(x: np.ndarray) -> ref.Law:
    return [
        ref.poisson_noise(3, x[3], 1.5),
        ref.dropout(4, x[4], 0.2),
        ref.dropout(5, x[5], 0.6),
        ref.multinomial([2, 0, 1], x[[2, 0, 1]], CONFUSION),
    ]


NESTED_NOISE = PerFeature(
    [
        ([4, 1, 3], PerFeature([([1, 0], Poisson(clip=[1.0, 3.0])), ([2], Blankout(0.3))])),
        ([0], Poisson(clip=2.0)),
    ]
)
NESTED_SYMBOLS_NOISE = PerFeature(
    [
        (
            slice(3, None),
            PerFeature([([0], PerFeature([([0], Poisson(clip=1.5))])), ([2, 1], Dropout([0.6, 0.2]))]),
        ),
        ([2, 0, 1], Multinomial(blocks=3, confusion=CONFUSION)),
    ]
)

CASES = [
    Case("none", None, REALS, each(ref.unchanged), True),
    Case("blankout", Blankout(0.3), REALS, each(ref.blankout, 0.3), True),
    Case("blankout-counts", Blankout(0.6), COUNTS, each(ref.blankout, 0.6), True),
    Case("blankout-per-feature", Blankout(QS), REALS, each(ref.blankout, QS), True),
    Case("dropout", Dropout(0.4), REALS, each(ref.dropout, 0.4), True),
    Case("dropout-per-feature", Dropout(QS), COUNTS, each(ref.dropout, QS), True),
    Case("gaussian", Gaussian(0.8), REALS, each(ref.gaussian, 0.8), False),
    Case("gaussian-per-feature", Gaussian(SIGMAS), REALS, each(ref.gaussian, SIGMAS), False),
    Case("laplace", Laplace(0.3), REALS, each(ref.laplace, 0.3), False),
    Case("laplace-per-feature", Laplace(SCALES), REALS, each(ref.laplace, SCALES), False),
    Case("poisson", Poisson(), COUNTS, each(ref.poisson_noise), False),
    Case("poisson-clip", Poisson(clip=2.0), COUNTS, each(ref.poisson_noise, 2.0), False),
    Case("poisson-clip-per-feature", Poisson(clip=CLIPS), COUNTS, each(ref.poisson_noise, CLIPS), False),
    Case("bitswap", BitSwap(0.2), BITS, each(ref.bit_swap, 0.2), True),
    Case("bitswap-per-feature", BitSwap(SWAPS), BITS, each(ref.bit_swap, SWAPS), True),
    Case(
        "multinomial",
        Multinomial(q=0.3, blocks=3),
        ONE_HOT,
        in_blocks(([0, 1, 2], ref.uniform_confusion(3, 0.3)), ([3, 4, 5], ref.uniform_confusion(3, 0.3))),
        True,
    ),
    Case(
        "multinomial-confusion",
        Multinomial(blocks=3, confusion=CONFUSION),
        ONE_HOT,
        in_blocks(([0, 1, 2], CONFUSION), ([3, 4, 5], CONFUSION)),
        True,
    ),
    Case(
        "multinomial-column-groups",
        Multinomial(q=0.25, blocks=[[0, 2, 4], [1, 3, 5]]),
        INTERLEAVED,
        in_blocks(([0, 2, 4], ref.uniform_confusion(3, 0.25)), ([1, 3, 5], ref.uniform_confusion(3, 0.25))),
        True,
    ),
    Case(
        "multinomial-uneven-groups",
        Multinomial(q=0.25, blocks=[[0, 1, 2], [3, 4]]),
        UNEVEN,
        in_blocks(([0, 1, 2], ref.uniform_confusion(3, 0.25)), ([3, 4], ref.uniform_confusion(2, 0.25))),
        True,
    ),
    Case(
        "multinomial-sizes-and-empty-blocks",
        Multinomial(q=0.25, blocks=[3, 2, 1]),
        np.where(np.arange(6)[:, None] == [1, 1, 1, 4, 4, 3], 0.0, np.column_stack([UNEVEN, np.ones(6)])),
        empty_blocks_law,
        True,
    ),
    Case("thinning-per-feature", Thinning(QS), COUNTS, each(ref.thinning, QS), True),
    Case("uniform-per-feature", Uniform(SIGMAS), REALS, each(ref.uniform, SIGMAS), False),
    Case(
        "groups",
        GroupDropout([[0, 3], [4, 1, 2]], 0.4),
        REALS,
        in_groups(([0, 3], 0.4), ([4, 1, 2], 0.4)),
        True,
    ),
    Case(
        "groups-and-clean-columns",
        GroupDropout(np.array([1, -1, 0, 1, 2]), q=[0.7, 0.2, 0.0]),
        COUNTS,
        in_groups(([2], 0.7), ([0, 3], 0.2)),
        True,
    ),
    Case(
        "groups-unbiased",
        GroupBlankout([[0, 3], [4, 1]], q=[0.4, 0.6]),
        REALS,
        in_groups(([0, 3], 0.4), ([4, 1], 0.6), unbiased=True),
        True,
    ),
    Case(
        "mixed-groups",
        PerFeature([([4, 1, 3, 2], GroupDropout(2, 0.4)), ([0], Thinning(0.3))]),
        COUNTS,
        two_failures_law,
        True,
    ),
    Case("mixed-gaussian", PerFeature([([3, 1], Gaussian(0.6))]), REALS, noisy_columns_law, False),
    Case("mixed-sensors", SENSORS_NOISE, SENSORS, sensors_law, False),
    Case("mixed-sequence", SEQUENCE_NOISE, SEQUENCE, sequence_law, True),
    Case("mixed-nested", NESTED_NOISE, COUNTS, nested_law, False),
    Case("mixed-nested-symbols", NESTED_SYMBOLS_NOISE, SEQUENCE, nested_symbols_law, False),
]
BY_NAME = {case.name: case for case in CASES}
CORRUPTED = [case for case in CASES if case.corruption is not None]
LABELS = {2: np.array([0, 1, 1, 0, 1, 0]), 3: np.array([0, 2, 1, 0, 1, 2])}


def weights(case: Case, classes: int, seed: int = 0, scale: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Seeded coef and intercept, small enough that differences of weights stay in Laplace's domain."""
    rng = np.random.default_rng(seed)
    outputs = 1 if classes == 2 else classes
    return rng.uniform(-scale, scale, (outputs, case.X.shape[1])), rng.uniform(-1, 1, outputs)
