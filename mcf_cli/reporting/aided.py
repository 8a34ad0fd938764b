"""Figures of methods that are given something besides labelled rows: the colour says the method, the line the aid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.charts import AXES
from mcf_cli.reporting.panels import BLACK, CYCLE, MARKERS, Look, cycle_look
from mcf_cli.reporting.series import (
    AID_NAMES,
    LOSS_ORDER,
    curve_label,
    dataset_label,
    datasets_in,
    in_order,
    loss_of,
    of_dataset,
    summary,
    tidy,
    varying,
)

LINES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
UNAIDED = {  # what a method without an aid does, by what the item runs over
    "flips": "labels taken as they are",
    "deletion": "no marks: zeros",
    "train_size": "labelled rows alone",
}
TREES = "as missing"  # what boosted trees take marks for
SHARES = ("flips", "deletion")


def _methods(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the method's name without its aid: its loss, and its multi-class form, where there are several."""
    both = frame.loc[frame["multiclass"] != "", "multiclass"].nunique() > 1
    bare = [
        row.family.removesuffix(f", {AID_NAMES.get(row.aid, row.aid)}") if row.aid else row.family
        for row in frame.itertuples()
    ]
    trees = frame["loss"] == "boosting"
    frame = frame.assign(aid=frame["aid"].where(~trees, TREES))
    if frame["curve"].map(loss_of).nunique() == 1 and not both:
        return frame.assign(bare=[f"{name[:1].upper()}{name[1:]}" for name in bare])
    bare = [name.removeprefix("marked, ") for name in bare]
    losses = frame["curve"] if both else frame["curve"].where(frame["loss"] != "logistic", "logistic")
    return frame.assign(
        bare=[f"{curve_label(loss)}, {name}" for loss, name in zip(losses, bare, strict=True)]
    )


@part.styled
def aided_curves(rows: pd.DataFrame) -> Figure:
    """Test error against what the item runs over: one panel per data set, one colour per method, one line per aid."""
    frame = _methods(tidy(rows))
    x = varying(frame) or "deletion"
    pairs, bases = datasets_in(frame), list(dict.fromkeys(frame["bare"]))
    aids = in_order(frame["aid"], ("", *AID_NAMES))
    figure, all_axes = part.panels(len(pairs), columns=2 if len(pairs) in (1, 2, 4) else 3, size=(3.6, 2.8))
    for number, (axes, pair) in enumerate(zip(all_axes, pairs, strict=True)):
        for (base, aid), group in of_dataset(frame, pair).groupby(["bare", "aid"], sort=False):
            table = summary(group, x)
            part.curve(axes, table[x], table, _look(bases.index(base), aids.index(aid)))
        part.title(axes, pair)
        part.error_axis(axes, number % (2 if len(pairs) in (1, 2, 4) else 3) == 0)
        _x_axis(axes, x, of_dataset(frame, pair)[x])
    methods = [part.handle(base, Look(_colour(n), "", "-")) for n, base in enumerate(bases)]
    lines = [
        part.handle(_aid_label(aid, x), Look(BLACK, MARKERS[n], LINES[n % 4])) for n, aid in enumerate(aids)
    ]
    part.legend_below(figure, *_lines_of(figure, methods), *_lines_of(figure, lines))
    return figure


def _lines_of(figure: Figure, handles: list[Line2D]) -> list[list[Line2D]]:
    """The handles of a legend in lines that are no wider than the figure: these names are long."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    fit = max(1, int(figure.get_figwidth() / (0.6 + 0.075 * longest)))
    return [handles[i : i + fit] for i in range(0, len(handles), fit)]


def _aid_label(aid: str, x: str) -> str:
    if aid == TREES:
        return f"marked: {TREES}"
    return AID_NAMES.get(aid, UNAIDED.get(x, "without"))


def _look(method: int, aid: int) -> Look:
    return Look(_colour(method), MARKERS[aid % len(MARKERS)], LINES[aid % len(LINES)])


def _colour(number: int) -> str:
    return CYCLE[number % len(CYCLE)]


def _x_axis(axes: Axes, x: str, values: pd.Series) -> None:
    title, scale = AXES[x]
    axes.set_xlabel(title)
    if scale == "log" and values.max() > 8 * values.min():
        axes.set_xscale("log")
    if x in SHARES:
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


@part.styled
def aided_sets(rows: pd.DataFrame) -> Figure:
    """Nothing but the method varies: one panel per loss, one line per data set with the methods side by side."""
    frame = tidy(rows)
    pairs, curves = datasets_in(frame), in_order(frame["curve"], LOSS_ORDER)
    families = list(dict.fromkeys(frame["family"]))
    figure, all_axes = part.panels(
        len(curves), size=(5.2, 0.9 + 0.11 * len(pairs) * max(3, len(families) / 1.5))
    )
    for axes, curve in zip(all_axes, curves, strict=True):
        for number, family in enumerate(families):
            here = frame[(frame["curve"] == curve) & (frame["family"] == family)]
            if here.empty:
                continue
            table = summary(here, ["dataset", "data_source"])
            heights = {pair: place for place, pair in enumerate(pairs)}
            places = [
                heights[pair] for pair in table[["dataset", "data_source"]].itertuples(index=False, name=None)
            ]
            shift = 0.7 * (number - (len(families) - 1) / 2) / len(families)
            look = {**cycle_look(number).options(), "linestyle": "", "capsize": 2}
            half = part.PER_CENT * table["half"]
            bars = half if (half > 0).any() else None
            axes.errorbar(part.PER_CENT * table["mean"], np.add(places, shift), xerr=bars, **look)
        axes.set_yticks(range(len(pairs)), [dataset_label(*pair) for pair in pairs])
        axes.set_ylim(len(pairs) - 0.5, -0.5)
        axes.set_title(curve_label(curve))
        axes.set_xlabel("Test error (%)")
    for axes in all_axes[1:]:
        axes.set_yticklabels([])
    names = [name.removeprefix("plain, l2, ") for name in families]
    handles = [part.handle(name, cycle_look(n)) for n, name in enumerate(names)]
    part.legend_below(figure, *_lines_of(figure, handles))
    return figure
