"""Reading .npz files of unknown origin: no pickle, and no array larger than the bytes that are there."""

import zipfile
from math import prod
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mcf_cli.datasets.svmlight import MAX_COLUMN
from mcf_cli.errors import McfError

MAX_DEFLATE_RATIO = 1100  # deflate cannot pack more; a member that claims to is a lie


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file, each header checked against the bytes behind it before it is loaded."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_member(path, archive, member)
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except OSError as error:
        raise McfError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise McfError(f"{path} is not a usable .npz file: {error}") from error


def _check_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    name = member.filename.removesuffix(".npy")
    if member.file_size > MAX_DEFLATE_RATIO * (member.compress_size + 1):
        raise McfError(f"{path}: array {name!r} claims more bytes than its compressed form can hold")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"array {name!r} has the unknown version {version}")
        v1 = version == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if v1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise McfError(
            f"{path}: array {name!r} holds Python objects, which are never loaded: save plain numbers"
        )
    if prod(shape) * dtype.itemsize > member.file_size:
        raise McfError(
            f"{path}: array {name!r} claims shape {shape}, more than its {member.file_size:,} bytes hold"
        )


def read_npz(path: Path) -> tuple[np.ndarray | sp.csr_matrix, list[str] | None]:
    """X and the names of the labels y, if any."""
    X, y = read_table(path)
    if y is not None and y.dtype.kind == "f" and np.array_equal(y, np.round(y)):
        y = y.astype(np.int64)
    return X, None if y is None else [str(label) for label in y.tolist()]


def read_table(path: Path) -> tuple[np.ndarray | sp.csr_matrix, np.ndarray | None]:
    """X (dense, or the parts of a CSR matrix as scipy.sparse names them) and y as stored, if it is there."""
    arrays = read_arrays(path)
    X = _csr(path, arrays) if "indptr" in arrays else arrays.get("X")
    if X is None:
        raise McfError(
            f"{path} has no array X (it has {', '.join(arrays) or 'none'}): save it with np.savez(X=, y=)"
        )
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise McfError(f"{path}: X has shape {X.shape} and type {X.dtype}; expected a table of real numbers")
    if X.shape[1] > MAX_COLUMN:
        raise McfError(f"{path}: X has {X.shape[1]:,} columns, beyond the limit of {MAX_COLUMN:,}")
    X = X.astype(np.float64)
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise McfError(f"{path}: X holds NaN or infinite values: remove or replace them")
    return X, _labels(path, arrays, X.shape[0])


def _labels(path: Path, arrays: dict[str, np.ndarray], n_rows: int) -> np.ndarray | None:
    y = arrays.get("y")
    if y is not None and (y.shape != (n_rows,) or y.dtype.kind not in "biufU"):
        raise McfError(
            f"{path}: y has shape {y.shape} and type {y.dtype}; expected {n_rows} numbers or names"
        )
    return y


def _csr(path: Path, arrays: dict[str, np.ndarray]) -> sp.csr_matrix:
    try:
        shape = tuple(int(size) for size in arrays["shape"])
        matrix = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        matrix.check_format(full_check=True)
    except (KeyError, ValueError, TypeError) as error:
        raise McfError(
            f"{path} does not hold a CSR matrix (data, indices, indptr, shape): {error}"
        ) from error
    matrix.sum_duplicates()
    return matrix
