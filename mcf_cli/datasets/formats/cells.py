"""What a cell of a table says: a number as one writes it, nothing, or text."""

import re
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

from mcf_cli.datasets.formats.archives import shown
from mcf_cli.errors import McfError

MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?"))
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234 is a large number to some


@dataclass
class NumberFormat:
    """Cells as numbers, and whether points or commas stand before their decimals."""

    points: bool = False
    comma: str = ""  # the first cell with one
    certain: bool = False  # some comma can only be a decimal one

    def row(self, cells: list[str]) -> list[float | None]:
        """The numbers of a row: NaN for a missing cell, None for text."""
        together = "".join(cells)
        self.points |= "." in together
        if "_" not in together:  # which Python would read over
            try:
                numbers = [float(cell) for cell in cells]
            except ValueError:
                pass
            else:
                if isfinite(sum(numbers)):
                    return numbers  # type: ignore[return-value]
        return [self.number(cell.strip()) for cell in cells]

    def number(self, cell: str) -> float | None:
        if is_missing(cell):
            return nan
        if _DECIMAL_COMMA.fullmatch(cell):
            self.comma = self.comma or cell
            self.certain |= not _THOUSANDS.fullmatch(cell)
            return float(cell.replace(",", "."))
        return plain_number(cell)

    def labels(self, cells: list[str]) -> list[str]:
        """Labels as they are written; where all are numbers, with decimal points."""
        if not all(map(looks_numeric, set(cells))):
            return cells
        self.row(list(set(cells)))
        return [cell.replace(",", ".") for cell in cells] if self.comma else cells

    def check(self, path: Path) -> None:
        if self.comma and self.points:
            raise McfError(
                f"{path} has numbers with decimal points and with commas ({shown(self.comma)}): use points"
            )
        if self.comma and not self.certain:
            raise McfError(
                f"{path}: {shown(self.comma)} could be a decimal or a number in thousands: "
                "write numbers with decimal points and no other separators"
            )


def plain_number(cell: str) -> float | None:
    """A finite number as programs write it; None for anything else."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if isfinite(value) and "_" not in cell else None


def is_missing(cell: str) -> bool:
    """Whether a cell says that its value is not known."""
    return cell.lower() in MISSING


def looks_numeric(cell: str) -> bool:
    """Whether a cell stands for a number, be it missing, infinite or with a decimal comma."""
    try:
        return isinstance(float(cell), float)
    except ValueError:
        return is_missing(cell) or bool(_DECIMAL_COMMA.fullmatch(cell))
