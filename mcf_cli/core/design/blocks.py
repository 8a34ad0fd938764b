"""The value-coded design: an example's sum over features as a base plus one sparse product.

sum_d kappa_d(t_d; x_nd) depends on example n only through its (feature, value) pairs, and counts, pixels and
one-hot codes hold few distinct ones. They are numbered once, and

    S = base(T) + Z @ table(T)        Z: N x U, a one per non-zero of X;   table: U x J

so that an evaluation costs U*J exponentials and two sparse products, instead of one exponential per non-zero.
Families that are linear in x use X itself as Z. Data with hardly a repeated value (dense measurements) is
cut into blocks of rows, each with a table of its own that fits in the cache: the same path, with U = nnz.

A *block* is a set of rows that share their weights T: all rows, or the rows of one class, because most losses
evaluate kappa at weights that depend on the label.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import iadd, matmul
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.corruptions.base import Array, Corruption, Expansion, Pairs, Pullback, squared
from mcf_cli.core.corruptions.groups import Cells, Grouped
from mcf_cli.core.design.coding import CodeBook, Coding, Entries, held_columns
from mcf_cli.core.design.lines import line_of
from mcf_cli.core.kernels.dispatch import (
    coded_adjoint,
    coded_product,
    loops_over_pairs,
    pairs_along,
    pairs_pullback,
)
from mcf_cli.core.kernels.threads import Scratch, a_few_at_a_time, in_threads

_CACHE = 1 << 20  # bytes: a table larger than this is walked in order, by columns, instead of at random


@dataclass(frozen=True)
class Part:
    """Some columns of a block under one family: their coded rows, in pieces that share the table."""

    columns: Array | slice
    pieces: list[Any]  # matrices, one below the other
    pairs: Pairs | None
    everywhere: bool = False  # the family changes zeros too
    cells: Any = None  # cells x columns where some are lost together: a cell then stands for a feature

    def weights(self, T: Array) -> Array:
        """The weights of what the family acts on: columns, or cells."""
        return T[self.columns] if self.cells is None else self.cells @ T[self.columns]

    def to_weights(self, G: Array, diagonal: bool = False) -> Array:
        """The adjoint of `weights`, on these columns; or the same for the diagonal of a second derivative."""
        return G if self.cells is None else (squared(self.cells) if diagonal else self.cells).T @ G

    def product(self, table: Array) -> Array:
        multiply = matmul if self.pairs is None else coded_product
        return _joined(in_threads(lambda piece: multiply(piece, table), self.pieces))

    def adjoint(self, G: Array) -> Array:
        multiply = (lambda Z, Zt, own: Zt @ own) if self.pairs is None else coded_adjoint
        return self._over_rows(G, lambda k, own: multiply(self.pieces[k], self.transposed[k], own))

    def along(self, slope: Array, V: Array) -> Array:
        """The change of the sums when T changes by V and the table by slope * V."""
        if self.pairs is None:
            return self.product(slope * V)
        feature = self.pairs.feature
        if not loops_over_pairs(self.pieces[0], feature, slope):
            return self.product(slope * np.take(V, feature, axis=0))
        return _joined(in_threads(lambda piece: pairs_along(piece, feature, slope, V), self.pieces))

    def pullback(self, slope: Array, G: Array) -> Array:
        """The adjoint of `along`: the gradient in T of sum(G * sums)."""
        if self.pairs is None or not loops_over_pairs(self.pieces[0], self.pairs.feature, slope):
            H = self.adjoint(G)
            H *= slope
            return H if self.pairs is None else self.pairs.to_features(H)
        feature, n_features = self.pairs.feature, self.pairs.scatter.shape[0]
        return self._over_rows(
            G, lambda k, own: pairs_pullback(self.pieces[k], feature, slope, own, n_features)
        )

    def _over_rows(self, G: Array, share: Callable[[int, Array], Array]) -> Array:
        """The sum of each piece's share, given the rows of G that are its own."""
        ends = np.cumsum([0] + [piece.shape[0] for piece in self.pieces])
        shares = a_few_at_a_time(lambda k: share(k, G[ends[k] : ends[k + 1]]), list(range(len(self.pieces))))
        return reduce(iadd, shares)  # in the order of the rows, whatever thread is first

    @cached_property
    def transposed(self) -> list[Any]:
        return [piece.T for piece in self.pieces]

    @cached_property
    def squared(self) -> Part:
        """The same part of X * X."""
        return replace(self, pieces=[squared(piece) for piece in self.pieces])

    @cached_property
    def entries(self) -> Entries:
        matrix = self.pieces[0] if len(self.pieces) == 1 else sp.vstack(self.pieces)
        return Entries.of(matrix, self.pairs, self.everywhere)


def _joined(shares: list[Array]) -> Array:
    return shares[0] if len(shares) == 1 else np.concatenate(shares)


class Expanded:
    """The log-MGF sums of a block with their derivatives in T: what a Newton step needs.

    It lives in buffers of the block, so the next evaluation of the same block ends its life.
    """

    def __init__(self, block: Block, T: Array):
        self.shape = T.shape
        self.parts: list[tuple[Part, Expansion]] = []
        self._coupled: list[
            tuple[Part, Callable[[Array], Array]]
        ] = []  # with products of the second derivative
        total: Any = 0.0
        for part, family in block.parts:
            expansion = family.log_mgf_expansion(part.weights(T), part.pairs)
            share = part.product(expansion.value)
            if expansion.base is not None:
                share += expansion.base[0].sum(axis=0)
            total = share if len(block.parts) == 1 else total + share
            self.parts.append((part, expansion))
        self.total: Array = total

    def along(self, V: Array) -> Array:
        """The change of the sums when T changes by V."""
        shares = []
        for part, expansion in self.parts:
            own = part.weights(V)
            share = expansion.along(part, own)
            if expansion.base is not None:
                share += np.einsum("dj,dj->j", expansion.base[1], own)
            shares.append(share)
        return reduce(iadd, shares)

    def gradient(self, G: Array) -> Array:
        """The gradient in T of sum(G * sums)."""
        result = np.zeros(self.shape if len(self.parts) > 1 else 0)
        for part, expansion in self.parts:
            share = part.to_weights(expansion.pullback(part, G))
            if expansion.base is not None:
                share += expansion.base[1] * row_sum(G)
            if len(self.parts) == 1:  # it has all columns
                return share
            result[part.columns] = share
        return result

    def derivatives(self, G: Array, C: Array) -> tuple[Array, Array, Array]:
        """Of sum(G * sums): gradient and diagonal second derivative; and sum_n C_n (d sums_n / d T)^2, all like T."""
        g, c = row_sum(G), row_sum(C)
        gradient, bend, squares = (np.zeros(self.shape) for _ in range(3))
        for part, expansion in self.parts:
            H = part.adjoint(G)
            gradient[part.columns] = part.to_weights(expansion.gradient(H, g))
            bent = expansion.bend(H, g)
            bend[part.columns] = part.to_weights(bent, diagonal=True)
            if part.cells is not None:
                self._coupled.append((part, partial(np.multiply, bent)))
            elif expansion.couples:
                self._coupled.append((part, partial(expansion.bent, H)))
            H2 = part.squared.adjoint(C) if expansion.pairs is None else None
            H = part.adjoint(C) if expansion.pairs is not None or expansion.base is not None else H
            squares[part.columns] = part.to_weights(expansion.squares(H, H2, c), diagonal=True)
        return gradient, bend, squares

    def add_bent(self, image: Array, V: Array, bend: Array) -> None:
        """Add the second derivative of sum(G * sums), whose diagonal is `bend`, times a change V of T."""
        if all(expansion.unit and expansion.base is None for _, expansion in self.parts):
            return  # nothing bends
        bent = bend * V
        for part, product in self._coupled:
            bent[part.columns] = part.to_weights(product(part.weights(V)))
        image += bent


def row_sum(G: Array) -> Array:
    """G.sum(axis=0), many rows at a time: short rows are slow to add up one by one.

    BLAS is as fast, but its idle threads then keep the cores from ours for a while.
    """
    n, width = G.shape
    if width == 1:
        return np.array([G.sum()])
    fold = max(1, 512 // max(width, 1))
    whole = n - n % fold
    folded = G[:whole].reshape(n // fold, fold * width).sum(axis=0)
    return folded.reshape(fold, width).sum(axis=0) + G[whole:].sum(axis=0)


def dot(a: Array, b: Array) -> float:
    """a.b; without BLAS, for the same reason, where that would use threads."""
    return float(a @ b if len(a) < 10_000 else np.einsum("n,n->", a, b))


@dataclass(frozen=True)
class Block:
    """Rows that share their weights, on the `columns` of X that they hold.

    T and its gradients are in local columns throughout: ``T = f(W[block.columns])``.
    """

    rows: Array | slice
    label: int | None
    columns: Array | slice
    parts: list[tuple[Part, Corruption]]

    @classmethod
    def joined(cls, rows: Array | slice, label: int | None, parts: list[tuple[Part, Corruption]]) -> Block:
        if len(parts) > 1:
            return cls(rows, label, slice(None), parts)
        (part, family) = parts[0]
        return cls(rows, label, part.columns, [(replace(part, columns=slice(None)), family)])

    def sums(self, what: str, T: Array) -> tuple[Array, Callable[[Array], Array]]:
        """sum_d f_d(T_d; x_nd) for f = what ("log_mgf", "mean" or "variance"): n x J, and its pullback to T."""
        if what == "log_mgf" and len(self.parts) == 1 and self.parts[0][0].cells is None:
            part, family = self.parts[0]
            at_once = family.log_mgf_sums(T, part.pairs, part.pieces[0]) if len(part.pieces) == 1 else None
            if at_once is not None:
                return at_once
        total: Any = 0.0
        pullbacks: list[tuple[Part, Callable[[Array], Array]]] = []
        for part, family in self.parts:
            if what == "log_mgf" and part.pairs is not None:
                expansion = family.log_mgf_expansion(part.weights(T), part.pairs)
                share, pullback = part.product(expansion.value), partial(part.pullback, expansion.slope)
            else:
                base, table, of_table = getattr(family, f"{what}_table")(part.weights(T), part.pairs)
                share, pullback = part.product(table), partial(_through, part, of_table)
                if base.any():
                    share += base
            total = share if len(self.parts) == 1 else total + share
            pullbacks.append((part, pullback))

        def to_weights(G: Array) -> Array:
            if len(pullbacks) == 1:
                part, pullback = pullbacks[0]
                return part.to_weights(pullback(G))
            gradient = np.zeros_like(T)
            for part, pullback in pullbacks:
                gradient[part.columns] = part.to_weights(pullback(G))
            return gradient

        return total, to_weights

    def log_mgf_along(
        self, P: Array, Q: Array
    ) -> Callable[[Array], tuple[Array, Array, Callable[[Array], Any]]]:
        """log-MGF sums at weights of each row's own: T_n = P + along_n Q, with P local D x K and Q local D.

        Returns a function of `along` (n) that gives the sums (n x K), their derivatives in `along` (n x K), and a
        pullback to P and Q.
        """
        lines = [line_of(part, family, part.weights(P), part.weights(Q)) for part, family in self.parts]

        def at(along: Array) -> tuple[Array, Array, Callable[[Array], Any]]:
            values = [line(along) for line in lines]

            def to_weights(G: Array) -> tuple[Array, Array]:
                g_P, g_Q = np.zeros_like(P), np.zeros_like(Q)
                for (part, _), (_, _, pullback) in zip(self.parts, values, strict=True):
                    g_P[part.columns], g_Q[part.columns] = map(part.to_weights, pullback(G))
                return g_P, g_Q

            total, slope = (reduce(iadd, terms) for terms in list(zip(*values, strict=True))[:2])
            return total, slope, to_weights

        return at


def _through(part: Part, pullback: Pullback, G: Array) -> Array:
    """The gradient in T of sum(G * sums), by way of a table and a base."""
    return pullback(part.adjoint(G), row_sum(G))


class Design:
    """The rows of X laid out in blocks for one corruption's structure; its parameters may change freely."""

    def __init__(
        self,
        X: Any,
        corruption: Corruption,
        labels: Array | None,
        width: int,
        codes: CodeBook,
        entrywise: bool = False,
    ):
        """labels: one per row to group by class, or None; width: columns of T; entrywise: for log_mgf_along."""
        self.n_features = X.shape[1]
        self._layout: list[tuple[Array | slice, int | None, list[tuple[Part, Array | None]]]] = []
        sources = [_source(X, columns, family, codes) for columns, family in corruption.split(X.shape[1])]
        scratch = Scratch()
        for rows, label in _groups(labels):
            for chunk in _chunks(rows, X.shape[0], sources, width, entrywise):
                self._layout.append(
                    (chunk, label, [source.part(chunk, width, scratch) for source in sources])
                )

    def blocks(self, corruption: Corruption) -> list[Block]:
        """The blocks with the corruption's current parameters."""
        families = [family for _, family in corruption.split(self.n_features)]
        result = []
        for rows, label, parts in self._layout:
            own = [_placed(f, used) for f, (_, used) in zip(families, parts, strict=True)]
            result.append(
                Block.joined(rows, label, [(part, f) for (part, _), f in zip(parts, own, strict=True)])
            )
        return result


def _placed(family: Corruption, used: Array | None) -> Corruption:
    """The family on what a part holds: some of the columns, or cells of these groups."""
    if used is None:
        return family
    return family.of_groups(used) if isinstance(family, Grouped) else family.at(used)


def structure(corruption: Corruption, n_features: int) -> tuple[Any, ...]:
    """What a design depends on: corruptions that differ in parameters alone share one."""
    return tuple(_part_key(columns, family) for columns, family in corruption.split(n_features))


def _part_key(columns: Array | slice, family: Corruption) -> tuple[Any, ...]:
    where = None if isinstance(columns, slice) else columns.tobytes()
    clip, groups = getattr(family, "clip", None), getattr(family, "groups", None)
    kind = family.coded, family.acts_on_zeros, family.quadratic_variance() is None
    return where, *kind, *(None if own is None else np.asarray(own).tobytes() for own in (clip, groups))


@dataclass(frozen=True)
class _Source:
    """The columns of one part before they are cut into rows."""

    columns: Array | slice
    matrix: Any  # prepared columns of X, or None when coded
    code: Coding | None
    width: int  # how many columns
    compress: bool  # columns that a block does not hold may be left out
    quadratic: bool = False  # the log-MGF needs no entries one by one
    groups: Array | None = None  # of each column, where groups are lost together

    def entries_per_row(self, entrywise: bool) -> float:
        """Entries that need a table row of their own, per row of X."""
        if self.code is not None:
            return self.code.Z.nnz / self.code.Z.shape[0] if entrywise or not self.code.repeated else 0.0
        if self.groups is not None:
            return min(self.matrix.nnz / self.matrix.shape[0], int(self.groups.max()) + 1)
        if not entrywise or self.quadratic:
            return 0.0
        stored = self.matrix.nnz if sp.issparse(self.matrix) and self.compress else np.prod(self.matrix.shape)
        return stored / self.matrix.shape[0]

    def part(self, rows: Array | slice, width: int, scratch: Scratch) -> tuple[Part, Array | None]:
        """This part on some rows, and which of its columns the block uses (None: all)."""
        whole = isinstance(rows, slice)
        if self.groups is not None:
            return self._in_cells(self.matrix if whole else self.matrix[rows], scratch)
        if self.code is None:
            matrix = self.matrix if whole else self.matrix[rows]
            if not self.compress or not sp.issparse(matrix):
                return Part(self.columns, [matrix], None, everywhere=not self.compress), None
            used, number = held_columns(matrix.indices, matrix.shape[1])
            if used is None:
                return Part(self.columns, [matrix], None), None
            shape = (matrix.shape[0], len(used))
            matrix = sp.csr_matrix((matrix.data, number[matrix.indices], matrix.indptr), shape=shape)
            return Part(self._outer(used), [matrix], None), used
        code = self.code if whole else self.code.rows(rows)
        used, number = held_columns(code.feature, self.width)
        feature = code.feature if used is None else number[code.feature]
        shape = (self.width if used is None else len(used), len(feature))
        scatter = sp.csr_matrix((np.ones(len(feature)), (feature, np.arange(len(feature)))), shape=shape)
        pairs = Pairs(feature, code.value, scatter, scratch)
        return Part(self._outer(used), _pieces(code.Z, width), pairs), used

    def _in_cells(self, matrix: sp.csr_matrix, scratch: Scratch) -> tuple[Part, Array]:
        """The part in cells, and their groups."""
        assert self.groups is not None
        cells = Cells.of(matrix, self.groups)
        pieces = [cells.by_row(matrix.shape[0])]
        return Part(self.columns, pieces, cells.pairs(scratch), cells=cells.matrix), cells.group

    def _outer(self, used: Array | None) -> Array | slice:
        if used is None:
            return self.columns
        return used if isinstance(self.columns, slice) else self.columns[used]


def _source(X: Any, columns: Array | slice, family: Corruption, codes: CodeBook) -> _Source:
    if isinstance(columns, slice):
        held = X
    else:
        held = sp.csr_matrix(X.tocsc()[:, columns]) if sp.issparse(X) else X[:, columns]
    if isinstance(family, Grouped):
        groups = family.group_of_columns(held.shape[1])
        return _Source(columns, sp.csr_matrix(held), None, held.shape[1], compress=True, groups=groups)
    if not family.coded:
        quadratic = family.quadratic_variance() is not None
        matrix, compress = family.prepare(held), not family.acts_on_zeros
        return _Source(columns, matrix, None, held.shape[1], compress, quadratic)
    return _Source(columns, None, codes.coded(_part_key(columns, family), held), held.shape[1], compress=True)


def _groups(labels: Array | None) -> list[tuple[Array | slice, int | None]]:
    if labels is None:
        return [(slice(None), None)]
    return [(np.flatnonzero(labels == label), int(label)) for label in np.unique(labels)]


def _chunks(
    rows: Array | slice, n_rows: int, sources: list[_Source], width: int, entrywise: bool
) -> list[Array | slice]:
    """Rows cut so that a table of pairs that hardly repeat fits in the cache."""
    per_row = sum(source.entries_per_row(entrywise) for source in sources)
    if not per_row:
        return [rows]
    step = max(1, int(_CACHE / (8 * per_row * width)))
    numbers = np.arange(n_rows)[rows]
    if entrywise:  # in equal parts: what is left over would be too little for a compiled loop
        step = -(-len(numbers) // -(-len(numbers) // step))
    return [numbers[start : start + step] for start in range(0, len(numbers), step)]


def _pieces(Z: sp.csr_matrix, width: int) -> list[Any]:
    """Z in pieces of rows: for the cache, and so that two cores have something to share.

    A table that outgrows the cache is read in order when Z is stored by columns; a piece's rows of S then stay in
    the cache. Every piece costs a table's worth of memory in `adjoint`, so all of them together stay below Z's own.
    """
    table_bytes, Z_bytes = 8 * width * Z.shape[1], 12 * Z.nnz
    most = Z_bytes // max(table_bytes, 1)
    if most < 2 or Z.nnz * width < 1_000_000:
        return [Z.tocsc() if Z.shape[1] > Z.shape[0] else Z]
    by_columns = table_bytes > _CACHE
    wanted = max(4, 8 * width * Z.shape[0] // _CACHE) if by_columns else 4
    edges = np.linspace(0, Z.shape[0], min(wanted, most, 16) + 1).astype(int)
    cuts = (Z[start:end] for start, end in itertools.pairwise(edges))
    return [piece.tocsc() if by_columns else piece for piece in cuts]
