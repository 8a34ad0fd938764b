"""One look for every figure: colour and marker say the loss, the line says the family of the method.

The colours are Okabe and Ito's, which readers with any colour vision can tell apart; because marker and line
style repeat what they say, a figure also survives a greyscale printer.

    solid     MCF (blankout; dropout in Figure 9)      dash-dot  MCF with Poisson or another corruption
    dashed    plain, l2                                dotted    plain, l1

Files are the same bytes for the same rows: fixed ids in svg, no dates, no library version.
The parts that all figures are built from are here too: panels, curves with their spread, legends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mcf_cli.files import whole_file
from mcf_cli.reporting.series import curve_label, dataset_label

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

RC: dict[Any, Any] = {
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
    line: Any = "-"  # as matplotlib has it: a name, or an offset with its dashes
    filled: bool = True

    def options(self) -> dict[str, Any]:
        """The arguments of ``Axes.plot`` and ``Axes.errorbar``."""
        face = self.colour if self.filled else "white"
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "markerfacecolor": face}


LOSS_LOOKS = {
    "quadratic": (BLUE, "s"),
    "exponential": (ORANGE, "^"),
    "logistic": (GREEN, "o"),
    "logistic pairwise": (GREEN, "o"),
    "logistic shared": (SKY, "v"),
    "hinge": (VERMILLION, "X"),
    "fdrop": (BLACK, "D"),
}

SURROGATE_LOOKS = {
    "quadratic": (BLUE, "s"),
    "jensen": (GREEN, "o"),
    "variational": (PURPLE, "D"),
    "gaussian": (ORANGE, "^"),
    "exact": (BLACK, "X"),
}
LINE_STYLES: dict[str, Any] = {
    "none": (0, (4, 2)),
    "l1": (0, (1, 1.5)),
    "mcf": "-",
    "other": (0, (5, 1.5, 1, 1.5)),
}


def loss_look(loss: str, family: str = "mcf") -> Look:
    """``loss`` is a key of LOSSES, ``family`` one of LINES; plain models have open markers."""
    colour, marker = LOSS_LOOKS.get(loss, (GREY, "P"))
    return Look(colour, marker, LINE_STYLES[family], filled=family in ("mcf", "other"))


def surrogate_look(surrogate: str) -> Look:
    colour, marker = SURROGATE_LOOKS.get(surrogate, (GREY, "P"))
    return Look(colour, marker)


def cycle_look(number: int) -> Look:
    """For series that the paper does not have."""
    return Look(CYCLE[number % len(CYCLE)], MARKERS[number % len(MARKERS)])


@contextmanager
def style() -> Iterator[None]:
    """The project's matplotlib settings, for as long as the block runs."""
    with matplotlib.rc_context(RC):
        yield


def save_figure(figure: Figure, path: Path | str) -> tuple[Path, Path]:
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


PER_CENT = 100.0
LONE = (5.2, 3.4)  # inches; a panel that stands alone may be larger
LEGEND_COLUMN = 1.55  # inches that an entry of a legend takes
BARS: dict[str, Any] = {"capsize": 2, "elinewidth": 0.9}
BAND = 0.13  # opacity of an interval's band
EMPTY = "No finished rows to draw yet."


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Run a plotting function in the project's style."""

    @wraps(draw)
    def inside(*args: object, **options: object) -> Figure:
        with style():
            return draw(*args, **options)

    return inside


def panels(count: int, columns: int = 2, size: tuple[float, float] = (3.4, 2.6)) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels of ``size`` inches, row by row; without any, a figure that says so."""
    if count == 0:
        figure = Figure(figsize=(5.0, 1.2))
        figure.text(0.5, 0.5, EMPTY, ha="center", va="center", color=GREY)
        return figure, []
    if count == 1:
        size = (max(size[0], LONE[0]), max(size[1], LONE[1]))
    columns = min(columns, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * lines + 0.5))
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def curve(axes: Axes, x: pd.Series, table: pd.DataFrame, look: Look, **more: Any) -> None:
    """A line of mean errors in per cent, with their 95% intervals as bars where there are any."""
    y, half = PER_CENT * table["mean"], PER_CENT * table["half"]
    bars = half if (half > 0).any() else None
    axes.errorbar(x, y, yerr=bars, **{**BARS, **look.options(), **more})


def band(axes: Axes, x: pd.Series, table: pd.DataFrame, look: Look, **more: Any) -> None:
    """The same with a band, where points lie close."""
    y, half = PER_CENT * table["mean"], PER_CENT * table["half"]
    if (half > 0).any():
        axes.fill_between(x, y - half, y + half, color=look.colour, alpha=BAND, linewidth=0, zorder=1)
    axes.plot(x, y, **{**look.options(), **more})


def edge_mark(axes: Axes, place: float, line: pd.Series, look: Look) -> None:
    """At the end of a level, right of all points: its marker, and its interval where there is one."""
    half = PER_CENT * line["half"]
    options = {**BARS, **look.options(), "linestyle": ""}
    axes.errorbar(place, PER_CENT * line["mean"], yerr=half if half > 0 else None, **options)


def level(axes: Axes, value: float, look: Look, **more: Any) -> None:
    """A thin horizontal line at an error that does not depend on x."""
    colour, line = look.colour, look.line
    options = {"color": colour, "linestyle": line, "linewidth": 1.1, "alpha": 0.8, "zorder": 1.5}
    axes.axhline(PER_CENT * value, **{**options, **more})


def error_axis(axes: Axes, first_column: bool = True) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    if first_column:
        axes.set_ylabel("Test error (%)")


def same_range(all_axes: Sequence[Axes], kinds: Sequence[object]) -> None:
    """One error scale for the panels of each kind."""
    for group in _by_kind(all_axes, kinds):
        limits = [axes.get_ylim() for axes in group]
        for axes in group:
            axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def same_span(all_axes: Sequence[Axes], kinds: Sequence[object]) -> None:
    """Axes that span equally many points for the panels of each kind: a difference is as tall in all of them."""
    for group in _by_kind(all_axes, kinds):
        limits = [axes.get_ylim() for axes in group]
        span = max(high - low for low, high in limits)
        for axes, (low, high) in zip(group, limits, strict=True):
            middle = max((low + high) / 2, span / 2)
            axes.set_ylim(middle - span / 2, middle + span / 2)


def _by_kind(all_axes: Sequence[Axes], kinds: Sequence[object]) -> list[list[Axes]]:
    pairs = list(zip(all_axes, kinds, strict=True))
    return [[axes for axes, own in pairs if own == kind] for kind in dict.fromkeys(kinds)]


def title(axes: Axes, pair: tuple[str, str], more: str = "") -> None:
    """The data set, marked when it is not the paper's."""
    axes.set_title(dataset_label(*pair) + (f", {more}" if more else ""))


def loss_handles(curves: list[str], family: str = "mcf") -> list[Line2D]:
    """One for each look: with two classes or without corruption there is one form, which looks like `pairwise`."""
    shown = [name for name in curves if f"{name} pairwise" not in curves]
    return [handle(curve_label(name), loss_look(name, family)) for name in shown]


def handle(label: str, look: Look, **more: Any) -> Line2D:
    return Line2D([], [], label=label, **{**look.options(), **more})


def family_handle(label: str, family: str, marker: str = "") -> Line2D:
    """A grey line that stands for a family of methods, whatever the loss."""
    face = GREY if family in ("mcf", "other") else "white"
    return Line2D(
        [], [], label=label, color=GREY, linestyle=LINE_STYLES[family], marker=marker, markerfacecolor=face
    )


def legend_below(figure: Figure, *rows: list[Line2D]) -> None:
    """A legend under all panels, each row of handles on lines of its own."""
    fit = max(1, int(figure.get_figwidth() / LEGEND_COLUMN))
    rows = tuple(row for row in rows if row)
    if not rows:
        return
    # As few lines as fit, and as equal: six entries where five fit are three and three.
    lengths = [-(-len(row) // -(-len(row) // fit)) for row in rows]
    lines = [row[i : i + n] for row, n in zip(rows, lengths, strict=True) for i in range(0, len(row), n)]
    columns = max(lengths)
    blank = Line2D([], [], linestyle="", label=" ")
    padded = [line + [blank] * (columns - len(line)) for line in lines]
    # matplotlib fills a legend column by column; this order makes it read row by row.
    figure.legend(
        handles=[h for group in zip(*padded, strict=True) for h in group],
        loc="outside lower center",
        ncols=columns,
    )


def note(figure: Figure, text: str) -> None:
    """A warning in the top right corner (``PARTIAL 12/50``), so that no one takes a part for the whole."""
    if text:
        figure.suptitle(text, x=0.995, ha="right", color="#B00020", fontsize=8, weight="bold")


def thinned(values: np.ndarray, most: int = 8) -> np.ndarray:
    """At most ``most`` of the values, for ticks and sample images."""
    values = np.asarray(sorted(set(values)))
    return values if len(values) <= most else values[:: -(-len(values) // most)]
