"""Arrays that live in a file and are mapped into memory for as long as somebody uses them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

_ALIGNED = 64  # bytes


class Ones:
    """One array of ones for all that need some: a coded design is nothing but ones at places."""

    def __init__(self) -> None:
        self._held = np.ones(0)

    def of(self, size: int) -> np.ndarray:
        if size > len(self._held):
            self._held = np.ones(2 * size)
        return self._held[:size]


@dataclass(frozen=True)
class _Place:
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    order: str


class ArrayFile:
    """A list of arrays in one file; `arrays` maps them afresh, and the memory is free again when they are gone."""

    def __init__(self, path: Path, arrays: list[np.ndarray], ones: Ones):
        self.path, self.ones = path, ones
        self.places: list[_Place | int] = []  # the size alone for an array of ones
        with path.open("wb") as file:
            for array in arrays:
                if array.dtype == np.float64 and array.ndim == 1 and (array == 1.0).all():
                    self.places.append(array.size)
                    continue
                order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "C"
                file.write(bytes(-file.tell() % _ALIGNED))
                self.places.append(_Place(file.tell(), array.dtype, array.shape, order))
                file.write(array.tobytes(order))

    def arrays(self) -> list[np.ndarray]:
        """The arrays. What is written to them stays out of the file; arrays of ones are shared: leave them alone."""
        mapped = (
            np.memmap(self.path, np.uint8, mode="c") if self.path.stat().st_size else np.empty(0, np.uint8)
        )
        return [
            self.ones.of(place) if isinstance(place, int) else _view(mapped, place) for place in self.places
        ]


def _view(mapped: np.ndarray, place: _Place) -> np.ndarray:
    return np.ndarray(place.shape, place.dtype, mapped, place.offset, order=place.order)
