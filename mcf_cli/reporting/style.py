"""One look for every figure: colour and marker say the loss, the line says the family of the method.

The colours are Okabe and Ito's, which readers with any colour vision can tell apart; because marker and line
style repeat what they say, a figure also survives a greyscale printer.

    solid     MCF (blankout; dropout in Figure 9)      dash-dot  MCF with Poisson or another corruption
    dashed    plain, l2                                dotted    plain, l1

Files are the same bytes for the same rows: fixed ids in svg, no dates, no library version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from mcf_cli.experiments.files import whole_file

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

RC = {
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "svg.hashsalt": "mcf",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    colour: str
    marker: str
    line: str | tuple = "-"
    filled: bool = True

    def options(self) -> dict[str, object]:
        """The arguments of ``Axes.plot`` and ``Axes.errorbar``."""
        face = self.colour if self.filled else "white"
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "markerfacecolor": face}


LOSSES = {
    "quadratic": (BLUE, "s"),
    "exponential": (ORANGE, "^"),
    "logistic": (GREEN, "o"),
    "logistic pairwise": (GREEN, "o"),
    "logistic shared": (SKY, "v"),
    "hinge": (VERMILLION, "X"),
    "fdrop": (BLACK, "D"),
}
SURROGATES = {"quadratic": (BLUE, "s"), "jensen": (GREEN, "o"), "variational": (PURPLE, "D")}
LINES = {"none": (0, (4, 2)), "l1": (0, (1, 1.5)), "mcf": "-", "other": (0, (5, 1.5, 1, 1.5))}


def loss_look(loss: str, family: str = "mcf") -> Look:
    """``loss`` is a key of LOSSES, ``family`` one of LINES; plain models have open markers."""
    colour, marker = LOSSES.get(loss, (GREY, "P"))
    return Look(colour, marker, LINES[family], filled=family in ("mcf", "other"))


def surrogate_look(surrogate: str) -> Look:
    colour, marker = SURROGATES.get(surrogate, (GREY, "P"))
    return Look(colour, marker)


def cycle_look(number: int) -> Look:
    """For series that the paper does not have."""
    return Look(CYCLE[number % len(CYCLE)], MARKERS[number % len(MARKERS)])


@contextmanager
def style() -> Iterator[None]:
    """The project's matplotlib settings, for as long as the block runs."""
    with matplotlib.rc_context(RC):
        yield


def save(figure: Figure, path: Path | str) -> tuple[Path, Path]:
    """Write ``path``.png (200 dpi) and ``path``.svg whole or not at all; same rows, same bytes."""
    written = []
    with style():  # lay out once for both files: it costs as much as drawing
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix in ("png", "svg"):
        target = Path(f"{path}.{suffix}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as part, style():
            figure.savefig(part, format=suffix, dpi=200, metadata=metadata[suffix])
        written.append(target)
    return written[0], written[1]
