"""Features that are lost together: a sensor, a channel or a window fails as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mcf_cli.core.corruptions.base import Array, Corruption, Moments, Pairs
from mcf_cli.core.corruptions.columns import ColumnNames, column_numbers
from mcf_cli.core.corruptions.elementwise import Blankout, Coded, Dropout, Identity
from mcf_cli.core.kernels.dispatch import canonical, index_type
from mcf_cli.core.kernels.threads import Scratch


@dataclass(frozen=True)
class Cells:
    """The entries of each row that are lost together: a cell is what one row holds of one group.

    With T' = matrix @ T, the sum over a row's features of T_d x_d is the sum over its cells of T'_c, and a cell is
    lost or kept like a single feature of value 1.
    """

    matrix: sp.csr_matrix  # cells x features
    row: Array  # of each cell
    group: Array  # of each cell

    @classmethod
    def of(cls, X: Any, groups: Array) -> Cells:
        """The cells of X, row by row; `groups` has the group of each column."""
        X = sp.csr_matrix(X)
        count = int(groups.max(initial=-1)) + 1
        key = np.repeat(np.arange(X.shape[0]) * count, np.diff(X.indptr)) + groups[X.indices]
        order = np.argsort(key, kind="stable")
        found, starts = np.unique(key[order], return_index=True)
        matrix = sp.csr_matrix(
            (X.data[order], X.indices[order], np.append(starts, len(key))), (len(found), X.shape[1])
        )
        return cls(matrix, found // max(count, 1), found % max(count, 1))

    def by_row(self, n_rows: int) -> sp.csr_matrix:
        """Rows x cells, a one for each cell: it adds up what belongs to a row."""
        ends = np.append(0, np.cumsum(np.bincount(self.row, minlength=n_rows)))
        return sp.csr_matrix(
            (np.ones(len(self.row)), np.arange(len(self.row)), ends), (n_rows, len(self.row))
        )

    def pairs(self, scratch: Scratch) -> Pairs:
        """Each cell as a feature of its own, of value 1."""
        count = len(self.row)
        number = np.arange(count, dtype=index_type(count))
        return Pairs(number, np.ones(count), sp.eye_array(count, format="csr"), scratch)


class Grouped(Corruption):
    """Groups of columns that are lost together, each as a single feature of the family `alone` would be."""

    couples = True
    alone: ClassVar[type[Coded]]

    def __init__(self, groups: Any = None, q: Any = 0.5):
        self.groups = groups
        self.q = q

    # -- parameters -----------------------------------------------------------------------------------------
    def group_of_columns(self, n_features: int) -> Array:
        """The number of each column's group, -1 where it is in none."""
        name, groups = type(self).__name__, self.groups
        if isinstance(groups, int | np.integer) and not isinstance(groups, bool):
            if groups < 1 or n_features % groups:
                raise ValueError(
                    f"{name}: groups={groups} columns do not divide {n_features} columns into groups; give the number "
                    "of columns of each group, or a list of column groups"
                )
            return np.arange(n_features) // int(groups)
        try:
            listed = [np.asarray(group) for group in groups]
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}: groups={groups!r}; give the number of columns of each group, a list of column groups "
                "([[0, 1], [2, 3, 4]]), or a group number for each column (-1 for none)"
            ) from None
        if listed and all(group.ndim == 0 for group in listed):
            return self._numbered(np.array(listed), n_features)
        numbers = np.full(n_features, -1)
        for number, group in enumerate(listed):
            columns = column_numbers(group, n_features, f"{name}, group {number}")
            if len(np.unique(columns)) < len(columns) or (numbers[columns] >= 0).any():
                raise ValueError(f"{name}: a column of group {number} is in groups more than once")
            numbers[columns] = number
        return numbers

    def _numbered(self, numbers: Array, n_features: int) -> Array:
        if numbers.dtype.kind not in "iu" or len(numbers) != n_features:
            raise ValueError(
                f"{type(self).__name__}: groups has {len(numbers)} entries for {n_features} columns; give one whole "
                "number for each column (-1 for none), or a list of column groups ([[0, 1], [2, 3, 4]])"
            )
        return np.maximum(numbers, -1)

    def _rates(self, numbers: Array) -> Any:
        """q, one number or one for each group."""
        q = self._parameter("q", 0.0, 1.0)
        count = int(numbers.max(initial=-1)) + 1
        if np.ndim(q) and len(q) < count:
            raise ValueError(
                f"{type(self).__name__}: q has {len(q)} entries for {count} groups; give one number or one per group"
            )
        return q

    def _by_column(self, n_features: int) -> tuple[Array, Array, Array]:
        """The group, the probability of loss and the factor of a surviving value, of each column."""
        numbers = self.group_of_columns(n_features)
        q = np.where(numbers < 0, 0.0, self._of_groups(self._rates(numbers), numbers))
        return numbers, q, np.broadcast_to(self.alone().survivor(q), n_features)

    @staticmethod
    def _of_groups(q: Any, numbers: Array) -> Any:
        return q[numbers] if np.ndim(q) else q

    def check_parameters(self, n_features: int) -> None:
        self._by_column(n_features)

    def named(self, table: ColumnNames) -> Corruption:
        groups = table.in_groups(self.groups, type(self).__name__)
        return self if groups is self.groups else type(self)(groups, self.q)

    def moments(self) -> Moments:
        raise TypeError("grouped columns have no per-column moments: use `covariance_sum`")

    def at(self, columns: Any) -> Corruption:
        raise ValueError(
            f"{type(self).__name__} acts on whole groups: pass PerFeature all columns of each group"
        )

    def of_groups(self, numbers: Array) -> Coded:
        """What happens to cells of these groups, each as one feature of value 1."""
        return self.alone(q=self._of_groups(self._parameter("q", 0.0, 1.0), numbers))

    def split(self, n_features: int) -> list[tuple[Array | slice, Corruption]]:
        """Columns that are never lost are plain columns."""
        numbers, q, _ = self._by_column(n_features)
        if not q.any():
            return [(slice(None), Identity())]
        lost = type(self)(numbers[q > 0.0], self.q)
        if (q > 0.0).all():
            return [(slice(None), lost)]
        return [(np.flatnonzero(q == 0.0), Identity()), (np.flatnonzero(q > 0.0), lost)]

    def domain(self, n_features: int) -> tuple[Any, ...]:
        return ("any",)

    # -- moments --------------------------------------------------------------------------------------------
    def mean(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        _, q, survivor = self._by_column(x.shape[-1])
        return (1.0 - q) * survivor * x

    def variance(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=float)
        _, q, survivor = self._by_column(x.shape[-1])
        return q * (1.0 - q) * (survivor * x) ** 2

    def mean_map(self, n_features: int) -> tuple[Array, sp.csr_matrix]:
        _, q, survivor = self._by_column(n_features)
        return np.zeros(n_features), sp.diags_array((1.0 - q) * survivor, format="csr")

    def covariance_sum(self, X: Any, weights: Array) -> sp.csr_matrix:
        """sum_n weights_n Cov[x~_n]: within a group q (1-q) x_g x_g', between groups 0."""
        numbers, q, survivor = self._by_column(X.shape[1])
        spread = np.sqrt(q * (1.0 - q)) * survivor
        cells = Cells.of(X, numbers - numbers.min(initial=0))  # columns in no group spread by 0
        M = cells.matrix @ sp.diags_array(spread)
        return sp.csr_matrix(M.T @ sp.diags_array(weights[cells.row]) @ M)

    # -- log-MGF --------------------------------------------------------------------------------------------
    def log_mgf(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_and_derivative(t, x)[0]

    def log_mgf_derivative(self, t: ArrayLike, x: ArrayLike) -> Array:
        return self.log_mgf_and_derivative(t, x)[1]

    def log_mgf_and_derivative(self, t: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(x, dtype=float))
        numbers, q, _ = self._by_column(x.shape[-1])
        names, first, own = np.unique(
            np.where(numbers < 0, -1 - np.arange(len(numbers)), numbers),
            return_index=True,
            return_inverse=True,
        )
        margin = (t * x) @ sp.csr_matrix((np.ones(len(own)), (np.arange(len(own)), own)))  # ... x groups
        kappa, rate = self.alone(q=q[first]).log_mgf_and_derivative(margin, np.ones(len(names)))
        value = np.zeros(x.shape)
        value[..., first] = kappa
        return value, rate[..., own] * x

    # -- sampling -------------------------------------------------------------------------------------------
    def draw(self, X: Any, rng: np.random.Generator) -> Any:
        if not sp.issparse(X):
            X = np.asarray(X, dtype=float)
        numbers, q, survivor = self._by_column(X.shape[1])
        rates = np.zeros(int(numbers.max(initial=-1)) + 2)  # the last is that of columns in no group
        rates[numbers] = q
        if not sp.issparse(X):
            lost = rng.random((X.shape[0], len(rates))) < rates
            return np.where(lost[:, numbers], 0.0, X * survivor)
        cells = Cells.of(canonical(X), numbers % len(rates))
        kept = np.where(rng.random(len(cells.group)) < rates[cells.group], 0.0, 1.0)
        copy = sp.csr_matrix(cells.by_row(X.shape[0]) @ sp.diags_array(kept) @ cells.matrix)
        copy = sp.csr_matrix(copy @ sp.diags_array(survivor))
        copy.eliminate_zeros()
        copy.sort_indices()
        return copy


class GroupDropout(Grouped):
    """Groups of features are lost together: with probability q all of a group is 0, else it stays as it is.

    kappa(t) = log(q + (1-q) e^{t_g.x_g}) for group g, with mean (1-q) x_g and covariance q (1-q) x_g x_g'.
    A test row with a dead sensor looks just like this. Columns in no group stay as they are. It gains over `Dropout`
    where features of a group tell something only together (a difference, a ratio); where they are noisy copies of
    each other, `Dropout` is the better regulariser.
    Elementwise results carry a group's kappa on its first column: the sum over features is what counts.

    Parameters
    ----------
    groups : the number of columns of each group (consecutive columns), a list of column groups (each given as the
        columns of `PerFeature` are), or the number of each column's group, counted from 0 (-1: in no group)
    q : the probability of loss in [0, 1), one number or one per group

    Examples
    --------
    >>> from mcf_cli import GroupDropout
    >>> GroupDropout(groups=[[0, 1], [2]], q=[0.5, 0.25]).mean([4.0, 4.0, 4.0, 4.0])
    array([2., 2., 3., 4.])
    >>> import numpy as np
    >>> GroupDropout(groups=2, q=0.5).sample([[1.0, 2.0, 3.0, 4.0]], np.random.default_rng(0))
    array([[1., 2., 0., 0.]])
    """

    alone = Dropout


class GroupBlankout(Grouped):
    """The unbiased form of `GroupDropout`: a group that survives is divided by 1 - q, so that the mean stays x.

    kappa(t) = log(q + (1-q) e^{t_g.x_g/(1-q)}) for group g, with covariance q/(1-q) x_g x_g'.

    Parameters
    ----------
    groups, q : as in `GroupDropout`

    Examples
    --------
    >>> from mcf_cli import GroupBlankout
    >>> GroupBlankout(groups=2, q=0.5).mean([3.0, 1.0]), GroupBlankout(groups=2, q=0.5).variance([3.0, 1.0])
    (array([3., 1.]), array([9., 1.]))
    """

    alone = Blankout
