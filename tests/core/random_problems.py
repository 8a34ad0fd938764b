"""Random problems: data in any container, nested corruptions, scales, offsets, flaws, weights, and a way to solve them.

Problem `number` of a seed depends on these two numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from mcf_cli import BitSwap, Blankout, Dropout, Gaussian, Laplace, Multinomial, PerFeature, Poisson
from scipy import sparse as sp

from tests.core.own_objective import CONVEX, Laws, Leaf, OwnObjective

Array = np.ndarray
Rng = np.random.Generator

FORMS = {
    "quadratic": {"loss": "quadratic"},
    "exponential": {"loss": "exponential"},
    "pairwise": {},
    "shared": {"multiclass": "shared"},
    "approximation": {"surrogate": "quadratic"},
    "variational-pairwise": {"surrogate": "variational"},
    "variational-shared": {"surrogate": "variational", "multiclass": "shared"},
    "variational-pairwise-one": {"surrogate": "variational", "shared_lambda": True},
    "variational-shared-one": {"surrogate": "variational", "multiclass": "shared", "shared_lambda": True},
}
FORM_SHARES = np.array([6, 5, 6, 4, 2, 1, 1, 1, 1]) / 27
PATHS = ("auto", "fit", "chunks")  # and the methods of Problem.solve that suit
CONTAINERS = (
    *("dense", "fortran", "csr", "csr-int64", "csr-unsorted", "csr-duplicates", "csr-zeros", "csc", "coo"),
    *("csr-array-int64", "csr-duplicates-int64"),
)


@dataclass(frozen=True)
class RandomProblem:
    """What is to be solved, how, and what it is in plain numbers."""

    number: int
    form: str
    path: str
    container: str
    classes: int  # 0: regression
    X: Any
    dense: Array
    y: Array
    sample_weight: Array | None
    corruption: Any
    leaves: list[Leaf]
    l2: float
    intercept: bool
    traits: str

    @property
    def options(self) -> dict[str, Any]:
        """The loss as Problem and MCFClassifier take it."""
        return {"loss": "logistic", **FORMS[self.form]}

    @property
    def outputs(self) -> int:
        if self.classes == 0:
            return self.y.reshape(len(self.y), -1).shape[1]
        return 1 if self.classes == 2 else self.classes

    @property
    def objective(self) -> OwnObjective:
        weights = np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight
        y = self.y if self.classes else self.y.reshape(len(self.y), -1)
        laws = Laws(self.dense, self.leaves)
        return OwnObjective(laws, y, weights / weights.sum(), self.own_form, self.classes, self.l2)

    @property
    def own_form(self) -> str:
        """Two classes have one form of Jensen's bound; without corruption every logistic form is the plain one."""
        if self.form in ("quadratic", "exponential"):
            return self.form
        plain = not any(_corrupts(leaf) for leaf in self.leaves)
        return "pairwise" if plain or (self.form == "shared" and self.classes == 2) else self.form

    @property
    def weight_limit(self) -> Array:
        """What |W| may be anywhere in the domain of Laplace's log-MGF."""
        limit = np.full(self.dense.shape[1], np.inf)
        for leaf in self.leaves:
            if leaf.family == "laplace":
                limit[leaf.columns] = 0.5 / leaf.parameter  # differences of two weights stay inside
        return limit

    def __str__(self) -> str:
        families = "+".join(sorted({leaf.family for leaf in self.leaves})) or "none"
        rows, columns = self.dense.shape
        return (
            f"problem {self.number}: {self.form} by {self.path}, {families}{self.traits}, {rows} x {columns} "
            f"{self.container}, {self.classes} classes, l2 {self.l2:g}, intercept {self.intercept}"
        )


def _corrupts(leaf: Leaf) -> bool:
    """Blankout and dropout at q = 0 are no corruption by name; others are, whatever their strength."""
    return leaf.family not in ("blankout", "dropout") or bool(leaf.parameter.any())


def draw(seed: int, number: int) -> RandomProblem:
    rng = np.random.default_rng([seed, number])
    form = str(rng.choice(list(FORMS), p=FORM_SHARES))
    slow = form.startswith("variational") or form == "approximation"
    kind = (
        "tiny"
        if slow and rng.random() < 0.7
        else str(rng.choice(["tiny", "tall", "wide", "stress"], p=[0.5, 0.2, 0.15, 0.15]))
    )
    rows, columns = _shape(kind, rng)
    traits: list[str] = []
    corruption, leaves = _corruption(rng, columns, traits, mild=kind != "stress")
    dense = _data(rng, rows, columns, leaves, kind, traits)
    classes = _class_count(rng, form, rows, kind)
    y = _labels(rng, dense, classes, kind)
    path = _path(rng, form)
    weight = _sample_weight(rng, rows, traits) if path != "chunks" else None
    l2 = float(rng.choice([1e-8, 1e-2, 1e3] if kind == "stress" else [1e-5, 1e-3, 1e-2, 0.1, 1.0]))
    container = str(rng.choice(CONTAINERS))
    return RandomProblem(
        number,
        form,
        path,
        container,
        classes,
        contained(dense, container, rng),
        dense,
        y,
        weight,
        corruption,
        leaves,
        l2,
        bool(rng.random() < 0.8),
        "".join(f", {trait}" for trait in (kind, *traits)),
    )


def _path(rng: Rng, form: str) -> str:
    """Newton's method takes Jensen's bounds and the exponential loss; one lambda needs all rows at once."""
    methods = (
        ["direct", "cg"] if form == "quadratic" else ["newton", "lbfgs"] if form in CONVEX else ["lbfgs"]
    )
    path = str(rng.choice([*methods, *PATHS]))
    return "fit" if path == "chunks" and form.endswith("-one") else path


def _shape(kind: str, rng: Rng) -> tuple[int, int]:
    """Tall: so many values that hardly one recurs, and codings change their layout. Wide: fewer rows than columns."""
    match kind:
        case "tall":
            return int(rng.integers(130, 260)), int(rng.integers(6, 13))
        case "wide":
            return int(rng.integers(6, 20)), int(rng.integers(20, 45))
        case "stress":
            return int(rng.integers(2, 13)), int(rng.integers(1, 16))
    return int(rng.integers(8, 40)), int(rng.integers(1, 8))


def _class_count(rng: Rng, form: str, rows: int, kind: str) -> int:
    if form == "quadratic" and rng.random() < 0.5:
        return 0
    if kind == "stress":
        return int(rng.integers(2, rows + 1))  # up to one example a class
    return min(rows, int(rng.choice([2, 3, 5, 9, 14, 20], p=[0.4, 0.25, 0.1, 0.1, 0.1, 0.05])))


# -- corruptions ----------------------------------------------------------------------------------------------


def _corruption(rng: Rng, columns: int, traits: list[str], mild: bool) -> tuple[Any, list[Leaf]]:
    """A corruption of all columns, and what it does to each of them."""
    chance = rng.random()
    if chance < 0.06:
        return None, []
    if chance < 0.65 or columns < 2:
        return _leaf(rng, np.arange(columns), mild)
    traits.append("mixed")
    return _mix(rng, np.arange(columns), traits, mild, depth=int(rng.integers(1, 3)))


def _mix(rng: Rng, columns: Array, traits: list[str], mild: bool, depth: int) -> tuple[Any, list[Leaf]]:
    """A PerFeature of parts that share the columns out among them, in any order, some left over."""
    shuffled = rng.permutation(len(columns)) if rng.random() < 0.5 else np.arange(len(columns))
    pieces = [piece for piece in np.array_split(shuffled, rng.integers(2, 5)) if len(piece)]
    parts, leaves = [], []
    for piece in pieces[: len(pieces) - int(rng.random() < 0.3 and len(pieces) > 1)]:
        if depth > 1 and rng.random() < 0.6:
            traits.append("nested")
            inner, found = _mix(rng, columns[piece], traits, mild, depth - 1)
        else:
            inner, found = _leaf(rng, columns[piece], mild)
        parts.append((_named(rng, piece, len(columns)), inner))
        leaves += found
    return PerFeature(parts), leaves


def _named(rng: Rng, piece: Array, width: int) -> Any:
    """Columns as a list, an array of any integer type, or where their order allows it a slice or a mask."""
    if np.array_equal(piece, np.arange(piece[0], piece[0] + len(piece))) and rng.random() < 0.5:
        return slice(int(piece[0]), int(piece[-1]) + 1)
    if (np.diff(piece) > 0).all() and rng.random() < 0.5:
        return np.isin(np.arange(width), piece)
    return piece.tolist() if rng.random() < 0.5 else piece.astype(rng.choice(["int32", "int64", "uint8"]))


def _leaf(rng: Rng, columns: Array, mild: bool) -> tuple[Any, list[Leaf]]:
    family = str(rng.choice([*_LEVELS, "poisson", "multinomial"]))
    if family == "multinomial":
        if len(columns) < 2:
            family = "blankout"
        else:
            return _multinomial(rng, columns)
    width = len(columns)
    if family == "poisson":
        if rng.random() < 0.4:
            return Poisson(), [Leaf("poisson", columns, np.full(width, np.inf))]
        levels, family_class = [0.5, 1.0, 2.0, 3.0], Poisson
    else:
        family_class, mild_levels, levels = _LEVELS[family]
        levels = mild_levels if mild else levels
    if rng.random() < 0.6:
        level = float(rng.choice(levels))
        return family_class(level), [Leaf(family, columns, np.full(width, level))]
    each = rng.choice(levels, width)
    return family_class(each if rng.random() < 0.5 else each.tolist()), [Leaf(family, columns, each)]


_LEVELS: dict[str, tuple[Any, list[float], list[float]]] = {
    "blankout": (Blankout, [0.0, 0.1, 0.5, 0.9], [1e-12, 0.5, 0.99, 0.9999]),
    "dropout": (Dropout, [0.0, 0.1, 0.5, 0.9], [1e-12, 0.5, 0.99, 0.9999]),
    "gaussian": (Gaussian, [0.1, 0.5, 2.0], [1e-8, 1.0, 100.0]),
    "laplace": (Laplace, [0.05, 0.3, 1.0], [1e-8, 0.1]),
    "bitswap": (BitSwap, [0.02, 0.1, 0.4], [1e-12, 0.1, 0.9, 0.9999]),
}


def _multinomial(rng: Rng, columns: Array) -> tuple[Any, list[Leaf]]:
    """Blocks over the columns: consecutive ones of one size where they come out even, else groups in any order."""
    width = len(columns)
    sizes = [size for size in (2, 3, 4) if width % size == 0]
    if sizes and rng.random() < 0.6:
        size = int(rng.choice(sizes))
        blocks, groups = size, np.arange(width).reshape(-1, size).tolist()
    else:
        order = rng.permutation(width)
        cuts = np.arange(2, width - 1, int(rng.integers(2, 5)))
        groups = [piece.tolist() for piece in np.split(order, cuts)]
        blocks = groups
    alike = len({len(group) for group in groups}) == 1
    if alike and rng.random() < 0.3:
        confusion = rng.dirichlet(np.ones(len(groups[0])), len(groups[0]))
        matrices, noise = [confusion] * len(groups), Multinomial(blocks=blocks, confusion=confusion)
    else:
        q = (
            rng.choice([0.05, 0.3], width)
            if rng.random() < 0.4
            else np.full(width, float(rng.choice([0.0, 0.1, 0.4])))
        )
        noise = Multinomial(q=q if rng.random() < 0.5 or len(set(q)) > 1 else float(q[0]), blocks=blocks)
        matrices = [
            np.where(
                np.eye(len(group), dtype=bool), 1 - q[group][:, None], q[group][:, None] / (len(group) - 1)
            )
            for group in groups
        ]
    pairs = zip(groups, matrices, strict=True)
    return noise, [Leaf("multinomial", columns, blocks=tuple((columns[group], p) for group, p in pairs))]


# -- data -----------------------------------------------------------------------------------------------------


def _data(rng: Rng, rows: int, columns: int, leaves: list[Leaf], kind: str, traits: list[str]) -> Array:
    """Values that each column's corruption can take, then scales, offsets and flaws where it takes any."""
    counts = rng.random() < 0.4
    X = rng.poisson(1.0, (rows, columns)).astype(float) if counts else rng.normal(size=(rows, columns))
    X *= rng.random((rows, columns)) < rng.choice([0.3, 0.7, 1.0])
    free = np.ones(columns, dtype=bool)
    for leaf in leaves:
        own = leaf.columns
        if leaf.family == "poisson":
            X[:, own] = rng.poisson(1.5, (rows, len(own)))
            if not np.isin(leaf.parameter, np.inf).all() or rng.random() < 0.5:
                X[rng.integers(rows), own[0]] = 30.0
        elif leaf.family == "bitswap":
            X[:, own] = rng.integers(0, 2, (rows, len(own)))
        for block, _ in leaf.blocks:
            X[:, block] = np.eye(len(block))[rng.integers(0, len(block), rows)]
        free[own] = leaf.family not in ("poisson", "bitswap", "multinomial")
    if kind == "stress":
        _flawed(rng, X, free, traits)
    elif free.any() and rng.random() < 0.25:
        _scaled(rng, X, free, traits)
    return X


def _scaled(rng: Rng, X: Array, free: Array, traits: list[str]) -> None:
    if rng.random() < 0.6:
        reach = float(rng.choice([1.0, 3.0]))
        X[:, free] *= 10.0 ** rng.uniform(-reach, reach, int(free.sum()))
        traits.append(f"scales 1e+-{reach:g}")
    else:
        offset = float(rng.choice([10.0, 1e3, 1e5, 1e8]))
        X[:, rng.choice(np.flatnonzero(free))] += offset
        traits.append(f"offset {offset:g}")


def _flawed(rng: Rng, X: Array, free: Array, traits: list[str]) -> None:
    """Constant, empty, duplicated and huge columns, empty and duplicated rows, any scale."""
    half_rows, first, last = len(X) // 2, 0, X.shape[1] - 1
    for flaw in rng.choice(
        ["constant", "empty column", "duplicated", "empty row", "rows", "tiny beside huge"], 2
    ):
        match str(flaw):
            case "constant" if free[first]:
                X[:, first] = 1.0
            case "empty column" if free[last]:
                X[:, last] = 0.0
            case "duplicated" if free[first] and free[last]:
                X[:, last] = X[:, first]
            case "empty row":
                X[0, free] = 0.0
            case "rows":
                X[half_rows:] = X[: len(X) - half_rows]
            case "tiny beside huge" if free[first] and free[last]:
                X[:, first] *= 1e-8
                X[:, last] *= 1e8
            case _:
                continue
        traits.append(str(flaw))
    scale = 10.0 ** float(rng.choice([-8, -3, 0, 3, 8]))
    X[:, free] *= scale
    traits.append(f"scale {scale:g}")


def _labels(rng: Rng, X: Array, classes: int, kind: str) -> Array:
    """Noisy targets of a linear model on standardised columns; at least one row of each class."""
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if classes == 0:
        outputs = int(rng.choice([1, 1, 3]))
        targets = (
            Z @ rng.normal(size=(X.shape[1], outputs)) + rng.normal(size=(len(X), outputs)) + rng.normal()
        )
        return targets[:, 0] if outputs == 1 else targets
    if kind == "stress":
        return np.concatenate([np.arange(classes), rng.integers(0, classes, len(X) - classes)])
    scores = Z @ rng.normal(size=(X.shape[1], classes)) / np.sqrt(X.shape[1])
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    y[rng.permutation(len(y))[:classes]] = np.arange(classes)
    return y


def _sample_weight(rng: Rng, rows: int, traits: list[str]) -> Array | None:
    if rng.random() < 0.6:
        return None
    traits.append("weighted")
    return rng.uniform(0.2, 5.0, rows) * float(rng.choice([1.0, 1e-6, 1e6]))


def contained(X: Array, container: str, rng: Rng) -> Any:
    """The same numbers in another form."""
    if container == "dense":
        return X
    if container == "fortran":
        return np.asfortranarray(X)
    matrix = sp.csr_array(X) if "array" in container else sp.csr_matrix(X)
    if container in ("csc", "coo"):
        return matrix.asformat(container)
    if "duplicates" in container:
        matrix = _split_entries(matrix, rng)
    elif "unsorted" in container:
        matrix = _shuffled(matrix, rng)
    elif "zeros" in container:
        matrix = _with_zeros(matrix, X, rng)
    if "int64" in container:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def _split_entries(matrix: Any, rng: Rng) -> Any:
    """Every entry in two halves, which add up to it exactly, in any order."""
    ends = 2 * matrix.indptr
    doubled = type(matrix)(
        (np.repeat(0.5 * matrix.data, 2), np.repeat(matrix.indices, 2), ends), shape=matrix.shape
    )
    return _shuffled(doubled, rng)


def _shuffled(matrix: Any, rng: Rng) -> Any:
    data, indices = matrix.data.copy(), matrix.indices.copy()
    for start, end in pairwise(matrix.indptr):
        order = start + rng.permutation(end - start)
        data[start:end], indices[start:end] = matrix.data[order], matrix.indices[order]
    return type(matrix)((data, indices, matrix.indptr), shape=matrix.shape)


def _with_zeros(matrix: Any, X: Array, rng: Rng) -> Any:
    """Some zeros are stored."""
    stored = (X != 0) | (rng.random(X.shape) < 0.3)
    row, column = np.nonzero(stored)
    ends = np.append(0, stored.sum(axis=1).cumsum())
    return type(matrix)((X[row, column], column, ends), shape=X.shape)
