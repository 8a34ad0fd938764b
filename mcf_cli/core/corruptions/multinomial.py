"""Multinomial corruption: one-hot blocks whose symbol is misread (paper, Section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from mcf_cli.core.corruptions.base import Array, Corruption, Expansion, Pairs, Pullback
from mcf_cli.core.corruptions.columns import ColumnNames, column_numbers, shortened
from mcf_cli.core.corruptions.elementwise import Linear


@dataclass(frozen=True)
class Coupled(Expansion):
    """The table of blocks to second order: a row belongs to a held symbol, and depends on T for the whole block."""

    reads: tuple[
        tuple[Array, Array], ...
    ] = ()  # columns of blocks, and p(read | held), block x held x read x J

    couples = True

    def along(self, part: Any, V: Array) -> Array:
        return part.product(self._over("bkrj,brj->bkj", V))

    def pullback(self, part: Any, G: Array) -> Array:
        return self.gradient(part.adjoint(G), G)

    def gradient(self, H: Array, g: Array) -> Array:
        return self._over("bkrj,bkj->brj", H)

    def bend(self, H: Array, g: Array) -> Array:
        return self.gradient(H, g) - self.squares(H, H, g)

    def bent(self, H: Array, V: Array) -> Array:
        return V * self._over("bkrj,bkj->brj", H) - self._over(
            "bkrj,bkj->brj", H * self._over("bkrj,brj->bkj", V)
        )

    def squares(self, H: Array, H2: Array | None, g: Array) -> Array:
        return self._over("bkrj,bkrj,bkj->brj", H2)

    def _over(self, subscripts: str, rows: Any) -> Array:
        """Sums over a block's symbols of `rows` times what is read, or its square."""
        result = np.empty_like(rows)
        for group, read in self.reads:
            result[group] = np.einsum(subscripts, *[read] * subscripts.count("bkrj"), rows[group])
        return result


class Multinomial(Linear):
    """A one-hot block is read as another symbol: p(same) = 1 - q, the rest shared evenly, or a confusion matrix.

    kappa(t) = log sum_k p_k e^{t_k} over the block, with p the row of the symbol that x holds.
    Elementwise results carry a block's kappa on its hot column: the sum over features is what counts. A block of zeros
    (an unknown or a dropped category of `OneHotEncoder`) holds no symbol, is never misread and stays as it is.

    Parameters
    ----------
    q : the probability of a misread symbol in [0, 1)
    blocks : the number of symbols per block (consecutive columns), a list with the number of each block ([3, 2]), or
        a list of column groups (each given as the columns of `PerFeature` are)
    confusion : symbols held x symbols read, each row a distribution; replaces q

    Examples
    --------
    >>> from mcf_cli import Multinomial
    >>> Multinomial(q=0.3, blocks=4).mean([0.0, 1.0, 0.0, 0.0])
    array([0.1, 0.7, 0.1, 0.1])
    >>> import numpy as np
    >>> Multinomial(q=0.3, blocks=2).sample([[1.0, 0.0, 0.0, 1.0]], np.random.default_rng(0))
    array([[1., 0., 1., 0.]])
    """

    acts_on_zeros = True
    couples = True

    def __init__(self, q: Any = 0.1, blocks: Any = 4, confusion: Any = None):
        self.q = q
        self.blocks = blocks
        self.confusion = confusion

    def check_parameters(self, n_features: int) -> None:
        for group in self._groups(n_features):
            self._log_confusion(n_features, group)

    def named(self, table: ColumnNames) -> Corruption:
        if isinstance(self.blocks, list | tuple) and any(isinstance(block, str) for block in self.blocks):
            raise ValueError(
                f"Multinomial: blocks={shortened(self.blocks)} holds names; give a list a block ([['a', 'b'], ...])"
            )
        blocks = table.in_groups(self.blocks, "Multinomial")
        return self if blocks is self.blocks else Multinomial(self.q, blocks, self.confusion)

    def at(self, columns: Any) -> Corruption:
        raise ValueError("Multinomial acts on whole blocks: pass PerFeature all columns of each block")

    def _groups(self, n_features: int) -> list[Array]:
        """Blocks of equal size stacked: arrays of column numbers, blocks x symbols."""
        if isinstance(self.blocks, int | float | np.number):
            size = int(self.blocks)
            if size < 2 or n_features % size:
                raise ValueError(
                    f"Multinomial: blocks={self.blocks} symbols do not divide {n_features} columns into blocks; "
                    "give the number of symbols of each block (2 or more), or a list of column groups"
                )
            return [np.arange(n_features).reshape(-1, size)]
        try:
            sizes = all(isinstance(block, int | np.integer) for block in self.blocks)
        except TypeError:
            raise ValueError(
                f"Multinomial: blocks={self.blocks!r}; give the number of symbols of each block, a list of these "
                "numbers ([3, 2]), or a list of column groups ([[0, 1], [2, 3, 4]])"
            ) from None
        if sizes:  # of consecutive blocks
            ends = np.cumsum(self.blocks)
            groups = [np.arange(end - size, end) for size, end in zip(self.blocks, ends, strict=True)]
        else:
            groups = [column_numbers(block, n_features, "Multinomial: blocks") for block in self.blocks]
        if not groups or not np.array_equal(np.sort(np.concatenate(groups)), np.arange(n_features)):
            raise ValueError(f"Multinomial: blocks must hold each of the {n_features} columns exactly once")
        lengths = sorted({len(group) for group in groups})
        return [np.array([group for group in groups if len(group) == length]) for length in lengths]

    def _log_confusion(self, n_features: int, group: Array) -> Array:
        """log p, blocks x symbols (held) x symbols (read)."""
        size = group.shape[1]
        if self.confusion is not None:
            p = np.asarray(self.confusion, dtype=float)
            if p.shape != (size, size) or (p < 0).any() or not np.allclose(p.sum(axis=1), 1.0):
                raise ValueError(
                    f"Multinomial: confusion must be a {size} x {size} matrix of probabilities whose rows sum to 1"
                )
        else:
            q = np.asarray(self._parameter("q", 0.0, 1.0, open_high=False))
            if q.ndim:  # one q per feature: the q of the symbol that is held
                if len(q) != n_features:
                    raise ValueError(f"Multinomial: q has {len(q)} entries for {n_features} features")
                q = q[group][:, :, None]
            # A symbol that is alone in its block cannot be taken for another.
            p = np.where(np.eye(size, dtype=bool), 1.0 - q, q / (size - 1)) if size > 1 else np.ones((1, 1))
        with np.errstate(divide="ignore"):
            return np.broadcast_to(np.log(p), (len(group), size, size))

    def check_data(self, X: Any, columns: Array | None = None) -> None:
        for group in self._groups(X.shape[1]):
            for block in group:
                held = X[:, block]
                held = held.toarray() if sp.issparse(held) else held
                bad = ((held != 0) & (held != 1)).any(axis=1) | (held.sum(axis=1) > 1)
                if bad.any():
                    first = block[0] if columns is None else columns[block[0]]
                    raise ValueError(
                        f"Multinomial corruption needs one-hot blocks, but row {int(np.flatnonzero(bad)[0])} of X "
                        f"is not one-hot in the block that starts at column {first}; one-hot encode it, or set blocks"
                    )

    def domain(self, n_features: int) -> tuple[Any, ...]:
        return (type(self).__name__, *(group.tobytes() for group in self._groups(n_features)))

    def _confusion_matrix(self, n_features: int) -> sp.csr_matrix:
        """Held symbol x read symbol, block diagonal over all columns."""
        rows, cols, values = [], [], []
        for group in self._groups(n_features):
            p = np.exp(self._log_confusion(n_features, group))
            rows.append(np.broadcast_to(group[:, :, None], p.shape).ravel())
            cols.append(np.broadcast_to(group[:, None, :], p.shape).ravel())
            values.append(p.ravel())
        return sp.csr_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))),
            shape=(n_features, n_features),
        )

    def mean_map(self, n_features: int) -> tuple[Array, sp.csr_matrix]:
        return np.zeros(n_features), self._confusion_matrix(n_features)

    def mean(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        return (x.reshape(-1, x.shape[-1]) @ self._confusion_matrix(x.shape[-1])).reshape(x.shape)

    def variance(self, x: ArrayLike) -> Array:
        mean = self.mean(x)
        return mean * (1.0 - mean)

    def covariance_sum(self, X: Any, weights: Array) -> sp.csr_matrix:
        """The weighted sum of the examples' covariances, each diag(p) - p p' in each block."""
        n_features = X.shape[1]
        counts = np.asarray(X.T @ weights).ravel()
        p = self._confusion_matrix(n_features)
        return (sp.diags_array(counts @ p) - p.T @ sp.diags_array(counts) @ p).tocsr()

    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(x, dtype=float))
        flat = t.reshape(-1, t.shape[-1]).T
        return x * self.log_mgf_table(flat, None)[1].T.reshape(x.shape)

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(x, dtype=float))
        flat = t.reshape(-1, t.shape[-1]).T
        pullback = self.log_mgf_table(flat, None)[2]
        return pullback(x.reshape(-1, x.shape[-1]).T, np.zeros(flat.shape[1])).T.reshape(x.shape)

    def log_mgf_expansion(self, T: Array, pairs: Pairs | None) -> Coupled:
        table = np.empty_like(T)
        reads = []
        for group in self._groups(len(T)):
            log_p = self._log_confusion(len(T), group)
            exponents = log_p[:, :, :, None] + T[group][:, None, :, :]  # block, held, read, column
            kappa = logsumexp(exponents, axis=2)
            table[group] = kappa
            reads.append((group, np.exp(exponents - kappa[:, :, None, :])))
        return Coupled(None, table, table, lambda: table, None, tuple(reads))

    def log_mgf_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        expansion = self.log_mgf_expansion(T, pairs)
        return np.zeros(T.shape[1]), expansion.value, expansion.gradient

    def mean_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        p = self._confusion_matrix(len(T))
        return np.zeros(T.shape[1]), p @ T, lambda H, g: p.T @ H

    def variance_table(self, T: Array, pairs: Pairs | None) -> tuple[Array, Array, Pullback]:
        p = self._confusion_matrix(len(T))
        mean = p @ T

        def pullback(H: Array, g: Array) -> Array:
            return 2.0 * (T * (p.T @ H) - p.T @ (mean * H))

        return np.zeros(T.shape[1]), p @ (T * T) - mean * mean, pullback

    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        X = X if sp.issparse(X) else np.asarray(X, dtype=float)
        N, D = X.shape
        columns, filled = [], []  # N x blocks: the column that holds a one, and whether there is any
        for group in self._groups(D):
            block, symbol = (index.ravel() for index in np.indices(group.shape))
            held = X @ sp.csr_matrix((symbol, (group.ravel(), block)), (D, len(group)))
            held = (held.toarray() if sp.issparse(held) else held).astype(int)  # the symbol of each block
            p = np.exp(self._log_confusion(D, group)[np.arange(len(group)), held])
            read = (rng.random(held.shape)[:, :, None] > p.cumsum(axis=2)[:, :, :-1]).sum(axis=2)
            columns.append(group[np.arange(len(group)), read])
            count = X @ sp.csr_matrix((np.ones(group.size), (group.ravel(), block)), (D, len(group)))
            filled.append((count.toarray() if sp.issparse(count) else count) > 0)
        held, ones = np.hstack(filled), np.hstack(columns)
        ends = np.append(0, np.cumsum(held.sum(axis=1)))
        copy = sp.csr_matrix((np.ones(ends[-1]), ones[held], ends), (N, D))
        copy.sort_indices()
        return copy if sp.issparse(X) else copy.toarray()
