"""Reading .npz files of unknown origin: numbers and text only, and no more of them than the file has bytes.

numpy's own reader evaluates the header of an array and, if told to, unpickles it. Here a header is matched
against the one form in which numpy writes it, and what it claims is compared with the bytes before any memory
is taken.
"""

import os
import re
import struct
import zipfile
import zlib
from math import prod
from typing import IO

import numpy as np

MAX_DEFLATE_RATIO = 1100  # deflate cannot pack more; a member that claims to is a lie
CHUNK = 2**20
DAMAGE = (
    *(EOFError, IndexError, KeyError, NotImplementedError, OSError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error),
)
MAX_DIMENSIONS = 8
MAX_HEADER = 2**14
_HEADER = re.compile(
    rb"\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\),? ?\} *\n"
)
_PLAIN = re.compile(r"[<>|=]([biufc]\d{1,2}|[SU]\d{1,9})")
_LAST_CHARACTER = 0x10FFFF


def read_arrays(path: str | os.PathLike[str], *, compressed: bool = True) -> dict[str, np.ndarray]:
    """Every array of the file by name; ValueError if it is damaged, hostile or no .npz file."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                return dict(_read_member(archive, member, size, compressed) for member in archive.infolist())
        except DAMAGE as error:
            raise ValueError(f"not a zip of arrays, or a damaged one: {str(error)[:200]}") from error


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int, compressed: bool
) -> tuple[str, np.ndarray]:
    name = member.filename.removesuffix(".npy")
    if len(name) > 100:
        raise ValueError(f"an array is called {name[:40]!r} and so on: not a name")
    if member.compress_type not in (zipfile.ZIP_STORED, *([zipfile.ZIP_DEFLATED] if compressed else [])):
        raise ValueError(f"array {name!r} is compressed in a way that is not read here")
    if member.compress_size > size or member.file_size > MAX_DEFLATE_RATIO * (member.compress_size + 1):
        raise ValueError(f"array {name!r} claims more bytes than its compressed form can hold")
    with archive.open(member) as stream:
        return name, _read_array(stream, name, member.file_size)


def _read_array(stream: IO[bytes], name: str, size: int) -> np.ndarray:
    magic = stream.read(8)
    if magic not in (b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00"):
        raise ValueError(f"{name!r} is not an array")
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    header = _HEADER.fullmatch(stream.read(min(length, MAX_HEADER)))
    if header is None:
        raise ValueError(f"{name!r} is not a plain array of numbers or text")
    dtype, shape = _dtype(header[1].decode("latin-1"), name), tuple(map(int, re.findall(rb"\d+", header[3])))
    if len(shape) > MAX_DIMENSIONS or prod(shape) * dtype.itemsize != size - 8 - width - length:
        claim = f"shape {shape[:MAX_DIMENSIONS]}"
        raise ValueError(f"array {name!r} claims {claim}, which is not what its {size:,} bytes hold")
    values = np.empty(prod(shape), dtype)
    _fill(values.view(np.uint8).data, stream, name)
    if dtype.kind == "U" and values.view(f"{dtype.str[0]}u4").max(initial=0) > _LAST_CHARACTER:
        raise ValueError(f"array {name!r} holds text that is none")
    return values.reshape(shape, order="F" if header[2] == b"True" else "C")


def _dtype(description: str, name: str) -> np.dtype:
    if "O" in description:
        raise ValueError(f"array {name!r} holds Python objects, which are never loaded: save plain numbers")
    try:
        dtype = np.dtype(description) if _PLAIN.fullmatch(description) else np.dtype("V")
    except TypeError:
        dtype = np.dtype("V")
    if not dtype.itemsize:
        raise ValueError(f"array {name!r} is of the type {description[:20]!r}, not of numbers or text")
    return dtype


def _fill(memory: memoryview, stream: IO[bytes], name: str) -> None:
    filled = 0
    while piece := stream.read(CHUNK):
        if filled + len(piece) > len(memory):
            raise ValueError(f"array {name!r} goes on after its end")
        memory[filled : filled + len(piece)] = piece
        filled += len(piece)
    if filled < len(memory):
        raise ValueError(f"array {name!r} is cut short")
