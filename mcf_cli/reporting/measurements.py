"""Figures of what the paper states in words only: the cost of a gradient, and leave-one-out."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.series import datasets_in, in_order, lines_in, of_dataset, tidy
from mcf_cli.reporting.style import BLACK, GREEN, GREY, VERMILLION, Look, loss_look

# Times a plain gradient, as the paper states them.
PAPER_COST = {"exponential": 2.0, "logistic": 10.0}
LEAVE_ONE_OUT = {
    "loo_error_refitted": ("fitted again N times", Look(BLACK, "o", "-")),
    "loo_error_exact": ("exact formula", Look(GREEN, "s", (0, (4, 2)), filled=False)),
    "loo_error_paper": ("the paper's formula", Look(VERMILLION, "D", (0, (1, 1.5)), filled=False)),
}


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
    """Leave-one-out error against l2: the two formulas and the truth, one panel a corruption."""
    frame = tidy(rows, metric=None)
    frame = frame[frame["metric"].isin(LEAVE_ONE_OUT)]
    shown = lines_in(frame)
    figure, all_axes = part.panels(len(shown), columns=3, size=(3.2, 2.6))
    for number, (axes, line) in enumerate(zip(all_axes, shown, strict=True)):
        here = of_dataset(frame, line[:2])
        here = here[here["family"] == line[3]]
        strengths = sorted(here["l2"].unique())
        for metric in in_order(here["metric"], tuple(LEAVE_ONE_OUT)):
            means = here[here["metric"] == metric].groupby("l2")["value"].mean()
            places = [strengths.index(strength) for strength in means.index]
            axes.plot(places, part.PERCENT * means.to_numpy(), **LEAVE_ONE_OUT[metric][1].options())
        axes.set_xticks(range(len(strengths)), [f"{strength:g}" for strength in strengths])
        axes.set_xlabel("l2")
        part.title(axes, line[:2], line[3])
        part.error_axis(axes, first_column=False)
        if number % 3 == 0:
            axes.set_ylabel("Leave-one-out error (%)")
    part.legend_below(figure, [part.handle(text, look) for text, look in LEAVE_ONE_OUT.values()])
    return figure
