"""Figure 9, nightmare at test time: error against the share of deleted pixels, samples under the axis."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mcf_cli.reporting import panels as part
from mcf_cli.reporting.series import CORRUPTIONS, datasets_in, in_order, of_dataset, summary, tidy
from mcf_cli.reporting.style import GREY, LOSSES, loss_look

FAINT = {"linewidth": 0.9, "alpha": 0.6, "markersize": 3.5}  # l1 is no part of the comparison that is judged
SAMPLE_WIDTH = 8.5  # of a sample digit, in per cent of deletion


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
        if strip is not None and not unbiased:
            _samples(strip, digit)
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
    for name in in_order(rows["curve"], tuple(LOSSES)):
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
                part.curve(axes, part.PERCENT * table["deletion"], table, look, "se", **faint)
    axes.set_xlabel("Pixels deleted at test time (%)")
    part.error_axis(axes)
    axes.set_ylim(0, None)


def _handles(frame: pd.DataFrame) -> list[list]:
    plain = frame["corruption"] == "none"
    families = {
        "mcf": (f"MCF, {CORRUPTIONS['dropout']}", frame["corruption"] == "dropout"),
        "other": (f"MCF, {CORRUPTIONS['blankout']}", frame["corruption"] == "blankout"),
        "none": ("plain, l2", plain & (frame["penalty"] != "l1")),
        "l1": ("plain, l1", plain & (frame["penalty"] == "l1")),
    }
    names = in_order(frame["curve"], tuple(LOSSES))
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
