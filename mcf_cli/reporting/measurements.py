"""Figures of what the paper states in words only: the cost of a gradient, and leave-one-out."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.series import datasets_in, lines_in, loss_of, of_dataset, tidy
from mcf_cli.reporting.style import BLACK, BLUE, GREY, Look, loss_look

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
        labels = [f"{part.curve_label(curve)}, {family.removeprefix('MCF, ')}" for curve, family in methods]
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
def leave_one_out(rows: pd.DataFrame) -> Figure:
    """Largest gap between a formula's predictions and those of models fitted again, a dot for each l2.

    The two formulas lie ten decades apart and l2 moves neither by much: a line a corruption shows both.
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
