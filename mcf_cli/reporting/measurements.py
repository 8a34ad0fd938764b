"""Figures of what the paper states in words only: the cost of a gradient, and leave-one-out."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.series import datasets_in, lines_in, of_dataset, tidy
from mcf_cli.reporting.style import BLACK, GREY, Look, cycle_look, loss_look

# Times a plain gradient, as the paper states them.
PAPER_COST = {"exponential": 2.0, "logistic": 10.0}
GAPS = {"largest_gap_paper": "the paper's formula", "largest_gap_exact": "exact formula"}


@part.styled
def cost_of_gradients(rows: pd.DataFrame) -> Figure:
    """One loss and gradient in units of the plain model's: coded, term by term, and as the paper says."""
    frame = tidy(rows, metric=None)
    pairs = datasets_in(frame)
    lines = {pair: [line for line in lines_in(frame) if line[:2] == pair] for pair in pairs}
    tallest = max((len(found) for found in lines.values()), default=1)
    figure, all_axes = part.panels(len(pairs), size=(4.4, 0.9 + 0.3 * tallest))
    for axes, pair in zip(all_axes, pairs, strict=True):
        here = of_dataset(frame, pair)
        for place, (_, _, curve, family) in enumerate(reversed(lines[pair])):
            values = here[(here["curve"] == curve) & (here["family"] == family)]
            _cost_line(axes, place, curve, values.groupby("metric")["value"].mean())
        axes.axvline(1.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_yticks(
            range(len(lines[pair])), [f"{part.curve_label(c)}, {f}" for _, _, c, f in lines[pair]][::-1]
        )
        axes.set_ylim(-0.6, len(lines[pair]) - 0.4)
        axes.set_xlabel("Time of one gradient / plain gradient")
        part.title(axes, pair)
    part.legend_below(figure, _cost_handles())
    return figure


def _cost_line(axes: Axes, place: int, curve: str, means: pd.Series) -> None:
    """Ours filled, term by term open, the paper's statement a bar."""
    look = {**loss_look(curve).options(), "linestyle": "", "markersize": 7}
    for metric, face in (("gradient_ratio", look["color"]), ("term_by_term_ratio", "white")):
        if metric in means:
            axes.plot(means[metric], place, **{**look, "markerfacecolor": face})
    stated = PAPER_COST.get(curve.removesuffix(" shared"))
    if stated is not None:
        axes.plot(stated, place, color=BLACK, marker="|", markersize=13, markeredgewidth=1.6)


def _cost_handles() -> list:
    dot = Look(GREY, "o", "")
    open_dot = Look(GREY, "o", "", filled=False)
    stated = part.handle("the paper's statement", Look(BLACK, "|", ""), markersize=12, markeredgewidth=1.6)
    return [part.handle("mcf", dot), part.handle("term by term", open_dot), stated]


@part.styled
def leave_one_out(rows: pd.DataFrame) -> Figure:
    """Largest gap between a formula's predictions and those of models fitted again without each example."""
    frame = tidy(rows, metric=None)
    frame = frame[frame["metric"].isin(GAPS)]
    levels = frame["q"].map(lambda q: "" if pd.isna(q) else f", q = {q:g}")
    frame = frame.assign(method=frame["family"].str.removeprefix("MCF, ") + levels)
    looks = {method: cycle_look(number) for number, method in enumerate(dict.fromkeys(frame["method"]))}
    pairs = datasets_in(frame)
    figure, all_axes = part.panels(len(pairs), columns=2, size=(6.6, 3.2))
    for axes, pair in zip(all_axes, pairs, strict=True):
        here = of_dataset(frame, pair)
        strengths = sorted(here["l2"].unique())
        for (method, metric), curve in here.groupby(["method", "metric"], sort=False):
            look = replace(looks[method], filled=metric == "largest_gap_paper")
            gaps = curve.groupby("l2")["value"].max()
            axes.plot([strengths.index(l2) for l2 in gaps.index], gaps, **look.options())
        axes.set_xticks(range(len(strengths)), [f"{l2:g}" for l2 in strengths])
        axes.set_yscale("log")
        axes.set_xlabel("l2")
        axes.set_ylabel("Largest gap to fitting again")
        part.title(axes, pair)
    formulas = [
        part.handle(words, Look(GREY, "o", "-", filled=metric == "largest_gap_paper"))
        for metric, words in GAPS.items()
    ]
    part.legend_below(figure, [part.handle(method, look) for method, look in looks.items()], formulas)
    return figure
