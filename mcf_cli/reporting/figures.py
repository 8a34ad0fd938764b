"""One plotting function for each figure of the paper: tidy rows in, a matplotlib ``Figure`` out.

    figure = draw(rows, paper_figure=3)        # or draw(rows): the kind is read off the rows
    save(figure, "results/fig3/figure")        # figure.png and figure.svg

``rows`` is a DataFrame with the columns of rows.csv. Failed rows are left out; pass a ``warning`` such as
"PARTIAL 12/50" when some are missing. Titles mark data that is not the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mcf_cli.progress import plain
from mcf_cli.reporting import panels as part
from mcf_cli.reporting.aided import aided_curves, aided_sets
from mcf_cli.reporting.comparison import plain_rows
from mcf_cli.reporting.measurements import cost_of_gradients, fig9_nightmare, leave_one_out_figure
from mcf_cli.reporting.panels import (
    BLACK,
    CYCLE,
    GREY,
    LOSS_LOOKS,
    SURROGATE_LOOKS,
    Look,
    cycle_look,
    loss_look,
    surrogate_look,
)
from mcf_cli.reporting.series import (
    CORRUPTIONS,
    SURROGATE_NAMES,
    collection,
    curve_label,
    dataset_label,
    datasets_in,
    in_order,
    lines_in,
    loss_of,
    marginalised_curves,
    of_dataset,
    strengths_apart,
    summary,
    tidy,
    varying,
)

PAPER_MARKER: dict[str, Any] = {"linestyle": "", "marker": "x", "color": BLACK, "markersize": 6, "zorder": 3}
IN_FIGURE_9 = ("none", "dropout", "blankout", "fdrop")  # the corruptions that it has looks for
APART = 0.05  # of a number of training examples, between two methods
LIMIT_MARKER: dict[str, Any] = {"linestyle": "", "markersize": 11, "markeredgecolor": BLACK}


@part.styled
def fig1_bounds(rows: pd.DataFrame) -> Figure:
    """Figure 1: variational bounds on the expected logistic loss under blankout, one curve per lambda."""
    exact, bounds = tidy(rows, "expected_loss"), tidy(rows, "bound")
    levels = sorted(set(exact["q"]) | set(bounds["q"]))
    figure, all_axes = part.panels(len(levels), columns=2, size=(4.6, 3.3))
    for axes, q in zip(all_axes, levels, strict=True):
        for number, (lam, bound) in enumerate(bounds[bounds["q"] == q].groupby("lam")):
            label = rf"$\lambda$ = {lam:g}" + (" (Jensen)" if lam == 0 else "")
            look: dict[str, Any] = {"color": CYCLE[number % 5], "linestyle": _dashes(number), "label": label}
            axes.plot(*_line(bound, "margin"), **look)
        here = exact[exact["q"] == q]
        axes.plot(*_line(here, "margin"), color=BLACK, linewidth=2.4, label="expected loss", zorder=1)
        axes.set_title(f"Blankout, q = {q:g}")
        axes.set_xlabel(r"Margin $y\,w\,x$")
        axes.set_ylabel("Loss")
        axes.set_ylim(0, None)
        axes.legend()
    return figure


def _line(frame: pd.DataFrame, x: str) -> tuple[pd.Series, pd.Series]:
    frame = frame.sort_values(x)
    return frame[x], frame["value"]


def _dashes(number: int) -> Any:
    return ("-", (0, (6, 1.5)), (0, (3, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.5)))[number % 5]


@part.styled
def fig3_q_sweep(rows: pd.DataFrame, closeup: bool = False) -> Figure:
    """Figure 3: error against the blankout level, one panel per data set; Poisson and q = 0 as levels."""
    frame = tidy(rows)
    pairs = datasets_in(frame)
    figure, all_axes = part.panels(len(pairs), columns=2 if len(pairs) in (1, 2, 4) else 3)
    for number, (axes, pair) in enumerate(zip(all_axes, pairs, strict=True)):
        here = of_dataset(frame, pair)
        for name in in_order(here["curve"], tuple(LOSS_LOOKS)):
            _sweep_curve(axes, here[here["curve"] == name], name, baseline=not closeup)
        _mark_levels(axes, here)
        part.title(axes, pair)
        part.error_axis(axes, number % _columns(all_axes) == 0)
        axes.set_xlabel("Corruption level q")
    part.same_span(all_axes, [collection(name) for name, _ in pairs])
    curves = in_order(frame["curve"], tuple(LOSS_LOOKS))
    part.legend_below(figure, part.loss_handles(curves), _sweep_families(frame, closeup))
    return figure


def fig4_closeup(rows: pd.DataFrame) -> Figure:
    """Figure 4: the same for q from 0.9 on, where the error rises."""
    return fig3_q_sweep(rows[pd.to_numeric(rows["q"], errors="coerce") >= 0.9], closeup=True)


def _sweep_curve(axes: Axes, rows: pd.DataFrame, name: str, baseline: bool) -> None:
    """One loss: a curve for each corruption that has a level, thin lines for what has none."""
    plain = rows[(rows["corruption"] == "none") | ((rows["corruption"] == "blankout") & (rows["q"] == 0))]
    if baseline and len(plain):
        part.level(axes, plain["value"].mean(), loss_look(name, "none"), alpha=0.55)
    for (corruption, _), group in rows[rows["corruption"] != "none"].groupby(
        ["corruption", "family"], sort=False
    ):
        table = summary(group, "q")
        family = "mcf" if corruption in ("blankout", "dropout") else "other"
        if table["q"].isna().all():
            part.level(axes, table["mean"].mean(), loss_look(name, "other"))
        else:
            part.band(axes, table["q"], table, loss_look(name, family))


def _mark_levels(axes: Axes, rows: pd.DataFrame) -> None:
    """The ends of what has no level, beside each other at the right: whose line it is, and its interval."""
    lines = rows[rows["q"].isna() & (rows["corruption"] != "none")]
    last = rows["q"].max()
    if lines.empty or pd.isna(last):
        return
    step = 0.04 * (last - rows["q"].min() or 1.0)
    groups = lines.groupby(["curve", "family"], sort=False)
    for number, ((name, _), group) in enumerate(groups, 1):
        table = summary(group.assign(all=0), "all")
        part.edge_mark(axes, last + (number + 0.5) * step, table.iloc[0], loss_look(name, "other"))
    axes.axvline(last + step, color=GREY, linewidth=0.8)  # right of it there is no q
    axes.set_xticks([tick for tick in axes.get_xticks() if rows["q"].min() <= tick <= last])


def _sweep_families(frame: pd.DataFrame, closeup: bool) -> list:
    present = set(frame["corruption"])
    handles = [
        part.family_handle(f"MCF, {CORRUPTIONS[name]}", "mcf" if name in ("blankout", "dropout") else "other")
        for name in CORRUPTIONS
        if name in present
    ]
    if closeup:
        return handles if len(handles) > 1 else []
    return [*handles, part.family_handle("plain (q = 0)", "none")]


def _columns(all_axes: list[Axes]) -> int:
    grid = all_axes[0].get_gridspec()
    return grid.ncols if grid else 1


@part.styled
def fig5_learning_curve(rows: pd.DataFrame) -> Figure:
    """Figure 5: error against training-set size; one panel per data set and loss.

    The plain logistic model stands beside both multi-class forms, which are one without corruption.
    """
    frame = tidy(rows)
    pairs, curves = datasets_in(frame), marginalised_curves(frame)
    figure, all_axes = part.panels(len(pairs) * len(curves), columns=len(curves), size=(2.7, 2.5))
    for number, axes in enumerate(all_axes):
        pair, name = pairs[number // len(curves)], curves[number % len(curves)]
        here = of_dataset(frame, pair)
        plain = here[(here["corruption"] == "none") & (here["loss"] == loss_of(name))]
        marginalised = here[(here["corruption"] != "none") & (here["curve"] == name)]
        both = pd.concat([plain, marginalised])
        groups = both.groupby(["corruption", "family"], sort=False)
        for place, ((corruption, _), group) in enumerate(groups):
            table = summary(group, "train_size")
            apart = 1 + APART * (place - (len(groups) - 1) / 2)  # so that bars do not cover each other
            part.curve(axes, apart * table["train_size"], table, loss_look(name, _family(corruption)))
        axes.set_title(f"{dataset_label(*pair)}\n{curve_label(name).lower()}")
        part.error_axis(axes, number % len(curves) == 0)
        axes.set_xlabel("Training examples")
        _size_axis(axes, here["train_size"])
    part.same_range(all_axes, [pair for pair in pairs for _ in curves])
    _legend_of_families(figure, frame)
    return figure


def _size_axis(axes: Axes, sizes: pd.Series) -> None:
    """A logarithmic axis when the sizes span more than a factor of eight, each size with its number."""
    if sizes.max() > 8 * sizes.min():
        axes.set_xscale("log")
        ticks = part.thinned(sizes, 6)
        room = np.append(ticks[1:] / ticks[:-1] > 1.6, True)  # to the next one's number
        axes.set_xticks(ticks, [f"{tick:g}" if free else "" for tick, free in zip(ticks, room, strict=True)])
        axes.minorticks_off()


def _family(corruption: str) -> str:
    return {"none": "none", "blankout": "mcf", "dropout": "mcf"}.get(corruption, "other")


def _legend_of_families(figure: Figure, frame: pd.DataFrame) -> None:
    names = {"none": "plain", **{key: f"MCF, {label}" for key, label in CORRUPTIONS.items()}}
    present = in_order(frame["corruption"], ("none", *CORRUPTIONS))
    handles = [part.family_handle(names.get(name, name), _family(name), "o") for name in present]
    part.legend_below(figure, handles)


def _corrupted(frame: pd.DataFrame) -> list[tuple[Any, str]]:
    """Each data set with each corruption that it was run under: a panel each."""
    return [
        (pair, corruption)
        for pair in datasets_in(frame)
        for corruption in in_order(of_dataset(frame, pair)["corruption"], tuple(CORRUPTIONS))
        if corruption != "none"
    ]


@part.styled
def fig6_explicit(rows: pd.DataFrame) -> Figure:
    """Figure 6: error against the number of explicit copies M; MCF, their limit, as a big marker at ∞."""
    frame = tidy(rows)
    combinations = _corrupted(frame)
    figure, all_axes = part.panels(len(combinations), columns=2, size=(3.6, 2.8))
    for axes, (pair, corruption) in zip(all_axes, combinations, strict=True):
        here = of_dataset(frame, pair)
        chosen = here[here["corruption"] == corruption]
        for (name, _), group in chosen.groupby(["curve", "family"], sort=False):
            _copies_curve(axes, group, loss_look(name))
        part.title(axes, pair, CORRUPTIONS.get(corruption, corruption))
        part.error_axis(axes)
        axes.set_xlabel("Corrupted copies M")
    part.same_range(all_axes, [pair for pair, _ in combinations])
    looks = {name: loss_look(name) for name in in_order(frame["curve"], tuple(LOSS_LOOKS))}
    explicit = [part.handle(f"{curve_label(name)}, M copies", look) for name, look in looks.items()]
    limit = [part.handle("MCF (M = ∞)", look, **LIMIT_MARKER) for look in looks.values()]
    part.legend_below(figure, explicit + limit)
    return figure


def _copies_curve(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    table = summary(rows, "copies")
    explicit, limit = table[np.isfinite(table["copies"])], table[np.isinf(table["copies"])]
    part.curve(axes, explicit["copies"], explicit, look)
    axes.set_xscale("log", base=2)
    ticks = list(part.thinned(explicit["copies"].to_numpy(), 7))
    labels = [f"{tick:g}" for tick in ticks]
    if len(limit):
        infinity = 4.0 * explicit["copies"].max() if len(explicit) else 1.0
        at_limit = pd.Series([infinity], index=limit.index)
        part.curve(axes, at_limit, limit, look, **LIMIT_MARKER)
        part.level(axes, limit["mean"].iloc[0], look, linestyle=":", alpha=0.7)
        ticks, labels = [*ticks, infinity], [*labels, "∞"]
    axes.set_xticks(ticks, labels)
    axes.minorticks_off()


@part.styled
def fig7_surrogates(rows: pd.DataFrame) -> Figure:
    """Figure 7: the three ways to MCF logistic loss against the blankout level."""
    frame = tidy(rows)
    pairs = datasets_in(frame)
    figure, all_axes = part.panels(len(pairs))
    surrogates = in_order(frame.loc[frame["corruption"] != "none", "surrogate"], tuple(SURROGATE_LOOKS))
    for number, (axes, pair) in enumerate(zip(all_axes, pairs, strict=True)):
        here = of_dataset(frame, pair)
        plain = here[(here["corruption"] == "none") | (here["q"] == 0)]
        if len(plain):
            part.level(axes, plain["value"].mean(), loss_look("", "none"))
        for surrogate in surrogates:
            table = summary(here[(here["surrogate"] == surrogate) & here["q"].notna()], "q")
            part.band(axes, table["q"], table, surrogate_look(surrogate))
        part.title(axes, pair)
        part.error_axis(axes, number % _columns(all_axes) == 0)
        axes.set_xlabel("Corruption level q")
    part.same_span(all_axes, [collection(name) for name, _ in pairs])
    handles = [part.handle(SURROGATE_NAMES.get(name, name), surrogate_look(name)) for name in surrogates]
    part.legend_below(figure, [*handles, part.family_handle("plain (q = 0)", "none")])
    return figure


@part.styled
def fig8_splice(rows: pd.DataFrame) -> Figure:
    """Figure 8: splice junctions, error against the level; one panel per corruption."""
    frame = tidy(rows)
    combinations = _corrupted(frame)
    figure, all_axes = part.panels(len(combinations), columns=2, size=(3.6, 2.8))
    for axes, (pair, corruption) in zip(all_axes, combinations, strict=True):
        here = of_dataset(frame, pair)
        plain = plain_rows(here).assign(q=0.0)
        for _, own in plain.groupby("loss"):
            _plain_band(axes, own)
        corrupted = here[(here["corruption"] == corruption) & (here["q"] != 0)]
        for (name, _), curve in corrupted.groupby(["curve", "family"], sort=False):
            table = summary(pd.concat([plain[plain["loss"].isin(curve["loss"])], curve]), "q")
            part.curve(axes, table["q"], table, loss_look(name))
        part.title(axes, pair, CORRUPTIONS.get(corruption, corruption))
        part.error_axis(axes)
        axes.set_xlabel("Corruption level q")
    part.same_range(all_axes, [pair for pair, _ in combinations])
    curves = in_order(frame["curve"], tuple(LOSS_LOOKS))
    plain = part.family_handle("plain (q = 0)", "none")
    part.legend_below(figure, [*part.loss_handles(curves), plain])
    return figure


def _plain_band(axes: Axes, plain: pd.DataFrame) -> None:
    """The plain model's error, with its interval as a band."""
    for mean, half in summary(plain, "q")[["mean", "half"]].itertuples(index=False):
        part.level(axes, mean, loss_look("", "none"))
        band = (part.PER_CENT * (mean - half), part.PER_CENT * (mean + half))
        axes.axhspan(*band, color=GREY, alpha=0.15, linewidth=0, zorder=1)


@part.styled
def sweep(rows: pd.DataFrame) -> Figure:
    """Any other experiment: test error against whatever varies most, one curve per method."""
    frame = tidy(rows)
    x = varying(frame) or "l2"
    pairs = datasets_in(frame)
    figure, all_axes = part.panels(len(pairs))
    order = list(dict.fromkeys(frame["method"]))
    for axes, pair in zip(all_axes, pairs, strict=True):
        for method, group in of_dataset(frame, pair).groupby("method", sort=False):
            look, table = cycle_look(order.index(method)), summary(group, x)
            if table[x].isna().all():
                part.level(axes, table["mean"].mean(), look)
            else:
                part.curve(axes, table[x], table, look)
        part.title(axes, pair)
        part.error_axis(axes)
        axes.set_xlabel(x.replace("_", " "))
    handles = [part.handle(method, cycle_look(number)) for number, method in enumerate(order)]
    part.legend_below(figure, handles)
    return figure


@part.styled
def methods_figure(rows: pd.DataFrame, published: Mapping[str, Mapping[str, float]] | None = None) -> Figure:
    """When little varies but the method: one error per method, the best at the top; several panels share an order.

    Each share of deleted features has a panel of its own.

    ``published``: per corruption and loss the paper's error in per cent, a cross beside ours on real data.
    """
    frame = tidy(rows)
    shown = [
        (pair, level, here)
        for pair in datasets_in(frame)
        for level, here in of_dataset(frame, pair).groupby("deletion", dropna=False)
    ]
    tallest = max((here["method"].nunique() for _, _, here in shown), default=1)
    figure, all_axes = part.panels(len(shown), size=(4.6, 0.8 + 0.24 * tallest))
    for axes, (pair, level, here) in zip(all_axes, shown, strict=True):
        table = summary(here, ["method", "curve", "corruption", "penalty"])
        order = [f"{curve_label(curve)}, {family}" for _, _, curve, family in lines_in(here)]
        by = table["mean"] if len(shown) == 1 else table["method"].map(order.index)
        table = table.loc[by.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)
        for place, line in table.iterrows():
            look = loss_look(line["curve"], _family(line["corruption"]))
            point = {**look.options(), "linestyle": "", "capsize": 2, "markersize": 6}
            half = part.PER_CENT * line["half"]
            axes.errorbar(part.PER_CENT * line["mean"], place, xerr=half if half > 0 else None, **point)
            theirs = (published or {}).get(line["corruption"], {}).get(loss_of(line["curve"]))
            if theirs is not None and pair[1] == "real":
                axes.plot(theirs, place, **PAPER_MARKER)
        axes.set_yticks(range(len(table)), table["method"])
        axes.set_ylim(-0.6, len(table) - 0.4)
        part.title(axes, pair, f"{100 * level:g}% deleted" if pd.notna(level) else "")
        axes.set_xlabel("Test error (%)")
    if published:
        part.legend_below(figure, [Line2D([], [], **PAPER_MARKER, label="the paper's number")])
    return figure


FIGURES: dict[int, Callable[..., Figure]] = {
    1: fig1_bounds,
    3: fig3_q_sweep,
    4: fig4_closeup,
    5: fig5_learning_curve,
    6: fig6_explicit,
    7: fig7_surrogates,
    8: fig8_splice,
    9: fig9_nightmare,
}


def kind_of(rows: pd.DataFrame) -> Callable[..., Figure]:
    """The plotting function that suits the rows, whatever they are called."""
    metrics = set(rows["metric"])
    if metrics & {"bound", "expected_loss"}:
        return fig1_bounds
    if "gradient_ratio" in metrics:
        return cost_of_gradients
    if "loo_error_exact" in metrics:
        return leave_one_out_figure
    frame = tidy(rows)
    if (frame["aid"] != "").any():
        return aided_curves if varying(frame) else aided_sets
    if strengths_apart(frame):  # more methods than the paper's figures have looks for
        return sweep if varying(frame) else methods_figure
    levels = frame["deletion"].nunique()
    if levels == 2:  # two points make no curve
        return methods_figure
    if levels > 2 and not frame["corruption"].isin(IN_FIGURE_9).all():
        return sweep
    for column, function in (
        ("deletion", fig9_nightmare),
        ("copies", fig6_explicit),
        ("train_size", fig5_learning_curve),
    ):
        if frame[column].nunique() > 1:
            return function
    if frame["surrogate"].replace("", np.nan).nunique() > 1:
        return fig7_surrogates
    if frame["fold"].notna().any() and frame["q"].nunique() > 1:
        return fig8_splice
    if varying(frame) == "q" and frame["deletion"].isna().all():
        return fig3_q_sweep
    return sweep if varying(frame) else methods_figure


def figure_for(rows: pd.DataFrame, paper_figure: int | None) -> Callable[..., Figure]:
    """The plotting function of the paper's figure, else the one that suits the rows."""
    return FIGURES[paper_figure] if paper_figure in FIGURES else kind_of(rows)


def draw(rows: pd.DataFrame, paper_figure: int | None = None, *, warning: str = "", **options: Any) -> Figure:
    """The figure of the paper with that number, or the one that suits the rows."""
    function = figure_for(rows, paper_figure)
    if "dataset" in rows:
        rows = rows.assign(dataset=rows["dataset"].map(_literal))
    figure = function(rows, **options)
    part.note(figure, warning)
    return figure


def _literal(name: Any) -> Any:
    """A name as matplotlib shows it: between dollars it sees a formula, and control characters break its svg."""
    return plain(name).replace("$", r"\$") if isinstance(name, str) else name
