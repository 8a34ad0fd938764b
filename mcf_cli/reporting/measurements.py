"""Figures with layouts of their own: Figure 9 with samples under its axis, the cost of a gradient, leave-one-out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.charts import VERDICT_HUES
from mcf_cli.reporting.panels import BLACK, BLUE, GREY, LOSS_LOOKS, Look, loss_look
from mcf_cli.reporting.series import (
    CORRUPTIONS,
    curve_label,
    datasets_in,
    in_order,
    lines_in,
    loss_of,
    of_dataset,
    summary,
    tidy,
)

FAINT = {"linewidth": 0.9, "alpha": 0.6, "markersize": 3.5}  # l1 is no part of the comparison that is judged
SAMPLE_WIDTH = 8.5  # of a sample digit, in per cent of deletion
PICTURES = ("mnist", "builtin-digits")  # their features are pixels
EDGE = 4.5  # beyond the first and last level, in per cent: half a sample digit has room


@part.styled
def fig9_nightmare(rows: pd.DataFrame, digit: np.ndarray | None = None) -> Figure:
    """Figure 9: MCF solid, plain dashed (l2) and dotted (l1), hinge and FDROP dashed.

    ``digit`` is one image (H x W), shown under the axis as it looks at several deletion levels. Where there
    are rows of the unbiased form too, a second panel compares it with the biased one (erratum 13).
    """
    frame = tidy(rows)
    if len(datasets_in(frame)) > 1:  # the image is of one of them
        digit = None
    shown = [
        (pair, unbiased)
        for pair in datasets_in(frame)
        for unbiased in (False, True)
        if not unbiased or (of_dataset(frame, pair)["corruption"] == "blankout").any()
    ]
    figure, places = _layout(len(shown), digit is not None)
    for (axes, strip), (pair, unbiased) in zip(places, shown, strict=True):
        _panel(axes, of_dataset(frame, pair), unbiased)
        part.title(axes, pair, "both forms of blankout" if unbiased else "")
        if strip is not None and digit is not None and not unbiased:
            _samples(strip, digit)
    part.same_range([axes for axes, _ in places], [pair for pair, _ in shown])
    part.legend_below(figure, *_handles(frame))
    return figure


def _layout(count: int, samples: bool) -> tuple[Figure, list[tuple[Axes, Axes | None]]]:
    """Panels two to a line, each with a strip for the sample digits under it where there are any."""
    if not samples:
        figure, all_axes = part.panels(count, size=(4.6, 3.3))
        return figure, [(axes, None) for axes in all_axes]
    columns, lines = min(2, count), -(-count // 2)
    figure = Figure(figsize=((4.6 if columns > 1 else 5.4) * columns, 3.9 * lines + 0.6))
    cells = figure.subplots(2 * lines, columns, squeeze=False, height_ratios=[3.0, 0.36] * lines)
    places = [(cells[2 * (n // 2), n % 2], cells[2 * (n // 2) + 1, n % 2]) for n in range(columns * lines)]
    for axes, strip in places:
        strip.sharex(axes)
        strip.set_axis_off()
    for axes, _ in places[count:]:
        axes.set_axis_off()
    return figure, places[:count]


def _panel(axes: Axes, rows: pd.DataFrame, unbiased: bool) -> None:
    kinds = {("dropout", "l2"): "mcf", ("none", "l2"): "none", ("none", "l1"): "l1", ("fdrop", "l2"): "none"}
    if unbiased:
        kinds = {("dropout", "l2"): "mcf", ("blankout", "l2"): "other", ("none", "l2"): "none"}
    rows = rows.assign(penalty=rows["penalty"].replace("", "l2"))
    for name in in_order(rows["curve"], tuple(LOSS_LOOKS)):
        if unbiased and name in ("hinge", "fdrop"):
            continue
        for (corruption, penalty), family in kinds.items():
            chosen = (
                (rows["curve"] == name) & (rows["corruption"] == corruption) & (rows["penalty"] == penalty)
            )
            if chosen.any():
                table = summary(rows[chosen], "deletion")
                look = loss_look(name, family)
                faint = FAINT if family == "l1" else {}
                part.curve(axes, part.PER_CENT * table["deletion"], table, look, **faint)
    what = "Pixels" if rows["dataset"].isin(PICTURES).all() else "Features"
    axes.set_xlabel(f"{what} deleted at test time (%)")
    part.error_axis(axes)
    axes.set_ylim(0, None)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -EDGE), max(high, part.PER_CENT * rows["deletion"].max() + EDGE))


def _handles(frame: pd.DataFrame) -> list[list]:
    plain = frame["corruption"] == "none"
    families = {
        "mcf": (f"MCF, {CORRUPTIONS['dropout']}", frame["corruption"] == "dropout"),
        "other": (f"MCF, {CORRUPTIONS['blankout']}", frame["corruption"] == "blankout"),
        "none": ("plain, l2", plain & (frame["penalty"] != "l1")),
        "l1": ("plain, l1", plain & (frame["penalty"] == "l1")),
    }
    names = in_order(frame["curve"], tuple(LOSS_LOOKS))
    uncorrupted = [name for name in names if name in ("hinge", "fdrop")]
    curves = part.loss_handles([name for name in names if name not in uncorrupted])
    curves += part.loss_handles(uncorrupted, "none")
    return [curves, [part.family_handle(text, key) for key, (text, there) in families.items() if there.any()]]


def _samples(strip: Axes, digit: np.ndarray) -> None:
    """The digit with ever more of its pixels deleted; what one level deletes, the next does too."""
    low, high = strip.get_xlim()
    chance = np.random.default_rng(0).random(np.shape(digit))
    for percent in range(0, 100, 10):
        if low <= percent <= high:
            left, right = percent - SAMPLE_WIDTH / 2, percent + SAMPLE_WIDTH / 2
            picture = np.where(chance < percent / 100.0, 0.0, digit)
            strip.imshow(
                picture, cmap="gray_r", aspect="auto", extent=(left, right, 0, 1), interpolation="nearest"
            )
            strip.add_patch(Rectangle((left, 0), SAMPLE_WIDTH, 1, fill=False, linewidth=0.4, edgecolor=GREY))
    strip.set_xlim(low, high)
    strip.set_ylim(-0.02, 1.02)


# Times a plain gradient, as the paper states them for one corruption each.
PAPER_COST = {("exponential", "blankout"): 2.0, ("logistic", "poisson"): 10.0}
GAPS = {"largest_gap_paper": "the paper's formula", "largest_gap_exact": "exact formula"}


@part.styled
def cost_of_gradients(rows: pd.DataFrame) -> Figure:
    """One loss and gradient in units of the plain model's: coded, term by term, and as the paper says."""
    frame = tidy(rows, metric=None)
    frame = frame[frame["metric"].isin(["gradient_ratio", "term_by_term_ratio"])]
    pairs = datasets_in(frame)
    methods = list(dict.fromkeys(line[2:] for line in lines_in(frame)))[::-1]
    size = (3.0, 0.9 + 0.3 * len(methods))
    figure, all_axes = part.panels(len(pairs), columns=3, size=size)
    for number, (axes, pair) in enumerate(zip(all_axes, pairs, strict=True)):
        for (curve, family, corruption), values in of_dataset(frame, pair).groupby(
            ["curve", "family", "corruption"]
        ):
            stated = PAPER_COST.get((loss_of(curve), corruption))
            place = methods.index((curve, family))
            _cost_line(axes, place, curve, values.groupby("metric")["value"].mean(), stated)
        _cost_axis(axes, frame["value"])
        labels = [f"{curve_label(curve)}, {family.removeprefix('MCF, ')}" for curve, family in methods]
        axes.set_yticks(range(len(methods)), labels if number % 3 == 0 else [""] * len(methods))
        axes.set_ylim(-0.6, len(methods) - 0.4)
        part.title(axes, pair)
    part.legend_below(figure, _cost_handles())
    return figure


def _cost_axis(axes: Axes, ratios: pd.Series) -> None:
    """One logarithmic range for all panels, with as many ticks as have room."""
    axes.axvline(1.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.set_xscale("log")
    low, high = min(ratios.min(), 1.0), max(ratios.max(), *PAPER_COST.values())
    axes.set_xlim(low / 1.5, high * 1.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("Gradient / plain gradient")


def _cost_line(axes: Axes, place: int, curve: str, means: pd.Series, stated: float | None) -> None:
    """Ours filled, term by term open, the paper's statement a bar."""
    look = {**loss_look(curve).options(), "linestyle": "", "markersize": 7}
    for metric, face in (("gradient_ratio", look["color"]), ("term_by_term_ratio", "white")):
        if metric in means:
            axes.plot(means[metric], place, **{**look, "markerfacecolor": face})
    if stated is not None:
        axes.plot(stated, place, color=BLACK, marker="|", markersize=13, markeredgewidth=1.6)


def _cost_handles() -> list:
    dot = Look(GREY, "o", "")
    open_dot = Look(GREY, "o", "", filled=False)
    stated = part.handle("the paper's statement", Look(BLACK, "|", ""), markersize=12, markeredgewidth=1.6)
    return [part.handle("mcf", dot), part.handle("term by term", open_dot), stated]


@part.styled
def leave_one_out_figure(rows: pd.DataFrame) -> Figure:
    """Largest gap between a formula's predictions and those of models fitted again, a dot for each l2.

    The two formulas lie ten decades apart and l2 moves neither by much: one line per corruption shows both.
    """
    frame = tidy(rows, metric=None)
    frame = frame[frame["metric"].isin(GAPS)]
    levels = frame["q"].map(lambda q: "" if pd.isna(q) else f", q = {q:g}")
    frame = frame.assign(method=frame["family"].str.removeprefix("MCF, ") + levels)
    methods = list(dict.fromkeys(frame["method"]))[::-1]
    pairs = datasets_in(frame)
    figure, all_axes = part.panels(len(pairs), columns=2, size=(5.6, 0.9 + 0.3 * len(methods)))
    looks = {metric: Look(BLUE, "o", "", filled=metric == "largest_gap_paper") for metric in GAPS}
    for axes, pair in zip(all_axes, pairs, strict=True):
        for (method, metric), gaps in of_dataset(frame, pair).groupby(["method", "metric"], sort=False):
            axes.plot(gaps["value"], [methods.index(method)] * len(gaps), **looks[metric].options())
        axes.set_xscale("log")
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(-0.6, len(methods) - 0.4)
        axes.set_xlabel("Largest gap to fitting again")
        part.title(axes, pair)
    part.legend_below(figure, [part.handle(words, looks[metric]) for metric, words in GAPS.items()])
    return figure


ONE_COLUMN = 25  # claims that the forest plot shows in one column
HEAD = 3  # how many lines the title and axis of a unit take
FEWEST_AT_FOOT = 4  # claims of a unit at the foot of a column
FOREST_MARKERS = {"holds": "o", "stronger": "s", "differs": "D", "undecided": "^"}


@part.styled
def forest_figure(numbers: Sequence[Mapping[str, Any]]) -> Figure:
    """All claims with a number, one panel per unit: the claimed value or end of the region a grey tick, ours a point.

    Many stand in two columns, so that the figure fits a page; a unit that continues there keeps its scale.
    """
    units = dict.fromkeys(number["unit"] for number in numbers)
    groups = [(unit, [number for number in numbers if number["unit"] == unit]) for unit in units]
    columns = _in_columns(groups, 2) if len(numbers) > ONE_COLUMN else [groups]
    tallest = max(sum(len(group) + HEAD for _, group in column) for column in columns)
    figure = Figure(figsize=(5.6 * len(columns) + 1.6 * (len(columns) == 1), 0.17 * tallest + 0.5))
    grid = figure.add_gridspec(1, len(columns))
    drawn: list[tuple[str, Axes]] = []
    for place, column in enumerate(columns):
        heights = [len(group) + HEAD for _, group in column]
        filler = [tallest - sum(heights)] if tallest > sum(heights) else []
        cells = grid[0, place].subgridspec(len(heights) + len(filler), 1, height_ratios=heights + filler)
        for line, (unit, group) in enumerate(column):
            axes = figure.add_subplot(cells[line, 0])
            again = any(unit == other for other, _ in drawn)
            _forest_panel(axes, group, f"{unit}, continued" if again else unit)
            drawn.append((unit, axes))
    for unit in units:
        same = [axes for name, axes in drawn if name == unit]
        limits = [axes.get_xlim() for axes in same]
        for axes in same:
            axes.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    part.legend_below(figure, _forest_handles())
    return figure


def _in_columns(groups: list[tuple[str, list]], count: int) -> list[list[tuple[str, list]]]:
    """The groups in order, cut into columns that are about equally tall."""
    room = -(-sum(len(group) + HEAD for _, group in groups) // count)
    columns: list[list[tuple[str, list]]] = [[]]
    left = room
    for unit, group in groups:
        while group:
            fit = left - HEAD
            if len(columns) == count or fit >= len(group):
                fit = len(group)
            elif fit < FEWEST_AT_FOOT:
                columns.append([])
                left = room
                continue
            columns[-1].append((unit, group[:fit]))
            group, left = group[fit:], left - fit - HEAD
    return columns


def _forest_panel(axes: Axes, group: Sequence[Mapping[str, Any]], title: str) -> None:
    for place, number in enumerate(group):
        colour = VERDICT_HUES.get(number["verdict"], GREY)
        if "low" in number and "high" in number:
            axes.plot([number["low"], number["high"]], [place, place], color=colour, linewidth=1.6)
        if "stated" in number:
            axes.plot(number["stated"], place, marker="|", color=GREY, markersize=9, markeredgewidth=2)
        marker = FOREST_MARKERS.get(number["verdict"], "o")
        axes.plot(number["y"], place, marker=marker, color=colour, markersize=4.5)
    axes.set_yticks(range(len(group)), [number["claim"] for number in group], fontsize=7)
    axes.set_ylim(len(group) - 0.4, -0.6)
    axes.set_title(title, loc="left", fontsize=8)
    axes.grid(axis="y", visible=False)


def _forest_handles() -> list[Line2D]:
    found = [
        part.handle(word, Look(VERDICT_HUES[word], marker, "")) for word, marker in FOREST_MARKERS.items()
    ]
    words = "the claimed value, or the end of the claimed region"
    return [*found, part.handle(words, Look(GREY, "|", ""), markersize=9, markeredgewidth=2)]
