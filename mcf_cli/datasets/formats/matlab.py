"""The matrices of a MATLAB 5 file, real and full or sparse, with every size checked against the bytes there are.

scipy's reader trusts what a file says of itself: on a damaged one it may read beyond its memory and take the whole
process along. These are the few parts of the format that data files use.
"""

import struct
import zlib
from collections.abc import Iterator
from math import prod
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.kernels.dispatch import check_sparse

HEADER = 128
MAX_MATRIX = 2**28  # bytes of one compressed matrix; that of Reuters-21578 takes 5 MB
MATLAB_MATRIX, COMPRESSED = 14, 15
SPARSE, FULL = 5, range(6, 16)  # classes: sparse, and double to uint64
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
COMPLEX = 0x0800
MatlabMatrix: TypeAlias = Any  # an array or a CSC matrix; scipy has no types
Element = tuple[int, memoryview]


def read_matrices(content: bytes | bytearray) -> dict[str, MatlabMatrix]:
    """The matrices by name; ValueError where the file is not what it claims to be."""
    if len(content) < HEADER or content[126:128] not in (b"IM", b"MI"):
        raise ValueError("it has no MATLAB 5 header")
    order = "<" if content[126:128] == b"IM" else ">"
    matrices = {}
    for kind, body in _elements(memoryview(content)[HEADER:], order, padded=False):
        if kind == COMPRESSED:
            kind, body = next(_elements(_unpacked(body), order), (0, body))
        if kind == MATLAB_MATRIX:
            name, matrix = _matrix(body, order)
            if matrix is not None:
                matrices[name] = matrix
    return matrices


def _elements(content: memoryview, order: str, padded: bool = True) -> Iterator[Element]:
    """Type and bytes of one element after another; small ones hide in their own tag."""
    at = 0
    while len(content) - at >= 8:
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise ValueError("a small element is larger than its tag")
        if size > len(content) - start:
            raise ValueError(f"an element claims {size:,} bytes of {len(content) - start:,}")
        yield kind, content[start : start + size]
        at = start + size
        if padded or kind != COMPRESSED:
            at += -at % 8


def _unpacked(body: memoryview) -> memoryview:
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(body, MAX_MATRIX)
    except zlib.error as error:
        raise ValueError(f"a compressed matrix is damaged: {error}") from error
    if not unpacker.eof:
        raise ValueError("a compressed matrix is cut short or too large")
    return memoryview(content)


def _matrix(body: memoryview, order: str) -> tuple[str, MatlabMatrix | None]:
    """The name and, if it is a real numeric one, the matrix."""
    parts = _elements(body, order)
    flags = _numbers(parts, order, least=1)
    shape = tuple(int(size) for size in _numbers(parts, order, least=2))
    name = _numbers(parts, order).astype(np.uint8).tobytes().decode("latin-1")
    kind = int(flags[0]) & 0xFF
    if int(flags[0]) & COMPLEX or len(shape) != 2 or min(shape) < 0:
        return name, None
    if kind == SPARSE:
        return name, _sparse(parts, order, shape)
    return name, _full(_numbers(parts, order), shape) if kind in FULL else None


def _numbers(parts: Iterator[Element], order: str, least: int = 0) -> np.ndarray:
    kind, body = next(parts, (0, memoryview(b"")))
    if kind not in TYPES:
        raise ValueError("a matrix is incomplete")
    dtype = np.dtype(order + TYPES[kind])
    values = np.frombuffer(body[: len(body) - len(body) % dtype.itemsize], dtype)
    if len(values) < least:
        raise ValueError("the header of a matrix is too short")
    return values


def _full(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if len(values) != prod(shape):
        raise ValueError(f"a matrix claims the shape {shape} and holds {len(values):,} numbers")
    return values.reshape(shape, order="F")


def _sparse(parts: Iterator[Element], order: str, shape: tuple[int, ...]) -> sp.csc_matrix:
    """Row numbers, column ends and values; there may be room for more values than there are."""
    rows, ends, values = (_numbers(parts, order) for _ in range(3))
    if len(ends) != shape[1] + 1 or not 0 <= ends[-1] <= min(len(rows), len(values)):
        raise ValueError(f"a sparse matrix claims the shape {shape} and {len(ends):,} column ends")
    count = int(ends[-1])
    data = values[:count].astype(np.float64)
    matrix = sp.csc_matrix((data, rows[:count].astype(np.int64), ends.astype(np.int64)), shape=shape)
    check_sparse(matrix)
    return matrix
