"""Features that reconstruct themselves from corrupted ones: the linear autoencoder of the paper's discussion."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mcf_cli.core.corruptions.base import Array, Corruption
from mcf_cli.core.kernels.dispatch import canonical
from mcf_cli.core.problem import Problem

OUTPUTS = ("stacked", "layers", "last")


class MarginalizedAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Stacked linear denoising autoencoders, each trained in closed form on its expected loss under corruption.

    A layer minimises mean_n E ||x_n - W'x~_n - b||^2 + l2 ||W||^2: the quadratic loss of `MCFRegressor` with the
    features as targets (Eq. optimal_w_lls), W = (sum_n E[x~x~'] + N l2 I)^-1 sum_n E[x~] x' with the bias
    neither corrupted nor regularised. Its output tanh(W'x + b) is the input of the next layer.

    With more than `n_frequent` features, the first layer reconstructs the `n_frequent` that occur in most rows. It
    does so from random blocks of about `n_frequent` features each, and takes the mean of these reconstructions. So
    nothing is larger than (features) x `n_frequent`, and a sparse table stays sparse.

    Parameters
    ----------
    corruption : a corruption or its name; the other features learn to replace what it deletes
    n_layers : number of layers
    l2 : penalty of each layer
    n_frequent : how many features the first layer reconstructs, at most
    output : "stacked" (the input and every layer side by side), "layers" (every layer) or "last"
    random_state : seed of the blocks

    Attributes
    ----------
    layers_ : a list of (weights (inputs, outputs), biases)
    frequent_ : the features that the first layer reconstructs

    Examples
    --------
    >>> import numpy as np
    >>> from mcf_cli import Dropout, MarginalizedAutoencoder
    >>> X = np.repeat([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 5, axis=0)  # the first two features go together
    >>> model = MarginalizedAutoencoder(Dropout(q=0.5), n_layers=1, output="last").fit(X)
    >>> model.transform([[1.0, 0.0, 0.0]]).round(2)  # the missing one is partly restored
    array([[0.66, 0.66, 0.2 ]])
    """

    def __init__(
        self,
        corruption: Corruption | str = "dropout",
        n_layers: int = 5,
        l2: float = 1e-5,
        n_frequent: int = 1000,
        output: str = "stacked",
        random_state: Any = 0,
    ):
        self.corruption = corruption
        self.n_layers = n_layers
        self.l2 = l2
        self.n_frequent = n_frequent
        self.output = output
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn every layer; labels are not needed.

        Parameters
        ----------
        X : rows, dense or sparse, of every domain that you have, labelled or not
        y : not used

        Returns
        -------
        self
        """
        X = canonical(validate_data(self, X, accept_sparse="csr", dtype=np.float64))
        for name in ("n_layers", "n_frequent"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
        if self.output not in OUTPUTS:
            raise ValueError(f"output={self.output!r} is not known; give {', '.join(map(repr, OUTPUTS))}")
        self.frequent_ = most_frequent(X, self.n_frequent)
        self.layers_ = [self._first_layer(X)]
        hidden = _activation(X, *self.layers_[0])
        for _ in range(self.n_layers - 1):
            self.layers_.append(self._mapping(hidden, hidden))
            hidden = _activation(hidden, *self.layers_[-1])
        hidden_width = len(self.frequent_) * (1 if self.output == "last" else self.n_layers)
        self._n_features_out = hidden_width + (X.shape[1] if self.output == "stacked" else 0)
        return self

    def _first_layer(self, X: Any) -> tuple[Array, Array]:
        """The mean of the reconstructions from each block: one block where all features are frequent."""
        n_features = X.shape[1]
        targets = X[:, self.frequent_]
        targets = targets.toarray() if sp.issparse(targets) else targets
        n_blocks = -(-n_features // self.n_frequent)
        if n_blocks == 1:
            return self._mapping(X, targets)
        order = check_random_state(self.random_state).permutation(n_features)
        weights, bias = np.zeros((n_features, len(self.frequent_))), np.zeros(len(self.frequent_))
        columns = X.tocsc() if sp.issparse(X) else X
        for block in np.array_split(order, n_blocks):
            part = columns[:, block]
            part_weights, part_bias = self._mapping(part.tocsr() if sp.issparse(part) else part, targets)
            weights[block] = part_weights / n_blocks
            bias += part_bias / n_blocks
        return weights, bias

    def _mapping(self, X: Any, targets: Array) -> tuple[Array, Array]:
        solution = Problem(X, targets, loss="quadratic", n_classes=0).solve(self.corruption, self.l2)
        return solution.coef.T, solution.intercept

    def transform(self, X: Any) -> Any:
        """The new features.

        Parameters
        ----------
        X : rows, dense or sparse

        Returns
        -------
        (N, features) rows, float32 where X is; sparse where X is sparse and `output` is "stacked", else an array
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        found, hidden = [], X
        for weights, bias in self.layers_:
            hidden = _activation(hidden, weights, bias)
            found.append(hidden)
        if self.output == "last":
            return hidden
        if self.output == "layers":
            return np.hstack(found)
        if sp.issparse(X):
            return sp.hstack([X, *map(sp.csr_matrix, found)], format="csr")
        return np.hstack([X, *found])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def most_frequent(X: Any, count: int) -> Array:
    """The columns with the most non-zeros, at most `count`, in their own order.

    Parameters
    ----------
    X : rows, dense or sparse
    count : how many columns

    Returns
    -------
    their indices
    """
    held = X.getnnz(axis=0) if sp.issparse(X) else np.count_nonzero(X, axis=0)
    return np.sort(np.argsort(-held, kind="stable")[:count])


def _activation(X: Any, weights: Array, bias: Array) -> Array:
    """In the precision of X."""
    return np.tanh(np.asarray(X @ weights.astype(X.dtype, copy=False)) + bias.astype(X.dtype, copy=False))
