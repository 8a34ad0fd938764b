"""A table and its labels from an .npz file of the user: dense, or the parts of a sparse matrix."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli import files
from mcf_cli.core.kernels.dispatch import check_sparse
from mcf_cli.datasets.formats.archives import shown
from mcf_cli.datasets.formats.svmlight import MAX_COLUMN
from mcf_cli.errors import McfError


def read_user_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file, each header checked against the bytes behind it before it is loaded."""
    try:
        return files.read_arrays(path)
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise McfError(f"{path} is not a usable .npz file: {error}") from error


def read_npz(path: Path) -> tuple[np.ndarray | sp.csr_matrix, list[str] | None]:
    """X and the names of the labels y, if any."""
    X, y = read_table(path)
    if y is None:
        return X, None
    return X, label_names(y)


def label_names(y: np.ndarray) -> list[str]:
    """The labels as names; whole numbers have no decimals."""
    whole = y.dtype.kind == "f" and np.array_equal(y, np.round(y))
    return [str(int(label) if whole else label) for label in y.tolist()]


def read_table(path: Path) -> tuple[np.ndarray | sp.csr_matrix, np.ndarray | None]:
    """X (dense, or the parts of a CSR or CSC matrix as scipy.sparse names them) and y as stored, if it is there.

    NaN in X is a missing cell.
    """
    X, y = read_stored(path)
    return as_floats(X, path), y


def read_stored(path: Path) -> tuple[np.ndarray | sp.csr_matrix, np.ndarray | None]:
    """X and y in the types they were stored in, which may take an eighth of the room."""
    arrays = read_user_arrays(path)
    sparse = "indptr" in arrays or ("format" in arrays and "X" not in arrays)
    X = _sparse(path, arrays) if sparse else arrays.get("X")
    if X is None:
        raise McfError(
            f"{path} has no array X (it has {', '.join(arrays) or 'none'}): save it with np.savez(path, X=X, y=y)"
        )
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise McfError(f"{path}: X has shape {X.shape} and type {X.dtype}; expected a table of real numbers")
    if X.shape[1] > MAX_COLUMN:
        raise McfError(f"{path}: X has {X.shape[1]:,} columns, beyond the limit of {MAX_COLUMN:,}")
    return X, _labels(path, arrays, X.shape[0])


def as_floats(X: np.ndarray | sp.csr_matrix, path: Path) -> np.ndarray | sp.csr_matrix:
    """Stored rows as the numbers that models take."""
    X = X.astype(np.float64, copy=False)
    if np.isinf(X.data if sp.issparse(X) else X).any():
        raise McfError(f"{path}: X holds infinite values: remove or replace them")
    return X


def _labels(path: Path, arrays: dict[str, np.ndarray], n_rows: int) -> np.ndarray | None:
    y = arrays.get("y")
    if y is not None and (y.shape != (n_rows,) or y.dtype.kind not in "biufU"):
        raise McfError(
            f"{path}: y has shape {y.shape} and type {y.dtype}; expected {n_rows} numbers or names"
        )
    if y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
        raise McfError(f"{path}: y holds NaN or infinite values: remove or replace them")
    return y


def _sparse(path: Path, arrays: dict[str, np.ndarray]) -> sp.csr_matrix:
    """What `scipy.sparse.save_npz` wrote says whether its parts are rows or columns; without a word they are rows."""
    kind = str(arrays.get("format", np.array("csr")).astype(str))
    if kind not in ("csr", "csc"):
        raise McfError(
            f"{path} holds a sparse matrix in the format {shown(kind)}: "
            "save it with scipy.sparse.save_npz(path, X.tocsr())"
        )
    make = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}[kind]
    try:
        shape = tuple(int(size) for size in arrays["shape"])
        matrix = make((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        check_sparse(matrix)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise McfError(
            f"{path} does not hold a {kind.upper()} matrix (data, indices, indptr, shape): {error}"
        ) from error
    matrix.sum_duplicates()
    return sp.csr_matrix(matrix)
