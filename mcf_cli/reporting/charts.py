"""Interactive charts as Vega-Lite specifications, each with its points: the page draws them over its static figures.

A point is one number with its interval: ``{"data": "MNIST", "loss": "Logistic", "method": "plain, l2", "x": 0.5, "y":
21.9, "low": 21.1, "high": 22.8}``. A method without levels has "across" in place of x and y. Charts name no colours
of the page, which lays its own over them, light or dark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mcf_cli.reporting.series import (
    LOSS_ORDER,
    collection,
    curve_label,
    dataset_label,
    datasets_in,
    in_order,
    of_dataset,
    summary,
    tidy,
    varying,
)
from mcf_cli.reporting.statistics import Quantities

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, which nothing fetches
Chart = dict[str, Any]
Points = list[dict[str, Any]]

AXES = {  # what an experiment runs over: the title of its axis, and the scale
    "q": ("Corruption level q", "linear"),
    "deletion": ("Share of features deleted at test time", "linear"),
    "train_size": ("Training examples", "log"),
    "copies": ("Corrupted copies M", "log"),
    "flips": ("Share of wrong training labels", "linear"),
    "features": ("Features read", "log"),
    "budget": ("Features that the adversary may delete", "linear"),
    "margin": ("Margin", "linear"),
}
OTHER_METRICS = {  # what else than a test error an item may measure: the metric, its axis, and what it is multiplied by
    "gradient_ratio": ("Cost in plain gradients", 1.0),
    "test_mse": ("Mean squared error", 1.0),
    "bound": ("Expected loss, or a bound on it", 1.0),
}
ERROR = ("Test error (%)", 100.0)
# Eight hues that colour-blind readers tell apart; the shapes repeat the distinction, and can be filled.
HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5cc4", "#8a8a8a"]
SHAPES = [
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
]
VERDICT_HUES = {"holds": "#0a8a63", "stronger": "#0072b2", "differs": "#d55e00", "undecided": "#8a8a8a"}
DASHES = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 3], [10, 4], [4, 4], [3, 1]]
PANEL = {"width": 250, "height": 190}
LABELS = 250  # pixels beside a panel whose lines have names
ALONE = {"width": 560, "height": 300}  # a panel without neighbours


def item_chart(rows: pd.DataFrame) -> Chart | None:
    """The chart of an item's rows: curves over what it varies, else a line of points per method; None without rows."""
    metric = next((name for name in OTHER_METRICS if (rows["metric"] == name).any()), "test_error")
    frame = tidy(rows, metric=metric)
    if frame.empty:
        return None
    title, factor = OTHER_METRICS.get(metric, ERROR)
    axis = varying(frame)
    if metric == "bound":
        axis, frame = "margin", tidy(rows[rows["metric"].isin(["bound", "expected_loss"])], metric=None)
        frame["curve"] = ["exact" if pd.isna(lam) else f"λ = {lam:g}" for lam in frame["lam"]]
        frame["family"] = frame["curve"]
    found = points(frame, axis, factor)
    return curves(found, axis, title, _shared_ranges(found, frame)) if axis else dots(found, title)


def _shared_ranges(found: Points, frame: pd.DataFrame) -> Points:
    """What every panel of a collection must show, so that they share a scale: its least and its greatest number."""
    labels: dict[str, list[str]] = {}
    for name, source in datasets_in(frame):
        if isinstance(name, str):
            labels.setdefault(collection(name), []).append(dataset_label(name, str(source)))
    ranges: Points = []
    for panels in (panels for panels in labels.values() if len(panels) > 1):
        fields = ("y", "across", "low", "high")
        shown = [point[f] for point in found if point["data"] in panels for f in fields if f in point]
        ranges += [{"data": panel, "range": end} for panel in panels for end in (min(shown), max(shown))]
    return ranges


def points(frame: pd.DataFrame, axis: str | None, factor: float) -> Points:
    """The mean of every data set, method and level, with its 95% interval where there is one."""
    found: Points = []
    keys = ["curve", "family", *([axis] if axis else [])]
    for pair in datasets_in(frame):
        name = dataset_label(str(pair[0]), str(pair[1])) if isinstance(pair[0], str) else ""
        lines = [(key, part) for key, part in of_dataset(frame, pair).groupby(keys, dropna=False, sort=True)]
        means, halves = _means([part for _, part in lines])
        for (key, _), mean, half in zip(lines, means, halves, strict=True):
            loss = curve_label(key[0]) if key[0] in LOSS_ORDER else key[0]
            point = {"data": name, "loss": loss, "method": key[1], "y": _rounded(factor * mean)}
            if half > 0:
                point |= {"low": _rounded(factor * (mean - half)), "high": _rounded(factor * (mean + half))}
            level = key[2] if axis else None
            if level is not None and pd.notna(level) and level != float("inf"):
                point["x"] = float(level)
            elif axis:
                point["across"] = point.pop("y")
            found.append(point)
    return found


def _means(groups: list[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
    """Means and half their intervals: over test examples where there is evidence of them, else over runs."""
    cells = Quantities.of_errors(groups)
    if cells.influence is not None:
        return cells.values, cells.halves()
    tables = [summary(part.assign(all=0), "all") for part in groups]
    return cells.values, np.array([table["half"].iloc[0] for table in tables])


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def curves(found: Points, axis: str, title: str, ranges: Points | None = None) -> Chart:
    """One panel per data set, one curve per method; a method without levels is a line across its panel, in a band.

    Colour and shape tell the loss, dashes what is done with it. A click on a legend shows that entry alone.
    ``ranges`` are numbers that a panel's scale must reach.
    """
    x_title, scale = AXES[axis]
    x: Chart = {"field": "x", "type": "quantitative", "title": x_title}
    x["scale"] = {"type": scale, "zero": False, "nice": False}
    look = _look(found)
    y = {"field": "y", "type": "quantitative", "title": title, "scale": {"zero": False}}
    ends = {"y": {"field": "low", "type": "quantitative", "title": title}, "y2": {"field": "high"}}
    level = {"field": "across", "type": "quantitative", "title": title}
    hover = {"tooltip": _tooltip(x_title, "y", title)}
    bars: Chart = {
        "transform": [{"filter": "isValid(datum.x)"}],
        "mark": {"type": "rule", "aria": False},
        "encoding": {"x": x, **ends, "color": look["color"], "opacity": look["opacity"]},
    }
    lines: Chart = {
        "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
        "encoding": {"x": x, "y": y, **_without(look, "shape")},
    }
    marks: Chart = {
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": {"x": x, "y": y, **_without(look, "strokeDash"), **hover},
    }
    across: Chart = {
        "mark": {"type": "rule", "strokeWidth": 1.6, "aria": False},
        "encoding": {"y": level, **_without(look, "shape"), "tooltip": _tooltip(None, "across", title)},
    }
    band: Chart = {
        "transform": [{"filter": "isValid(datum.across) && isValid(datum.low)"}],
        "mark": {"type": "rect", "fillOpacity": 0.12, "aria": False},
        "encoding": {**ends, "color": look["color"], "opacity": look["opacity"]},
    }
    reach: Chart = {
        "transform": [{"filter": "isValid(datum.range)"}],
        "mark": {"type": "point", "opacity": 0, "aria": False},
        "encoding": {"y": {**y, "field": "range"}},
    }
    between = [point for point in found if "across" in point and "low" in point]
    layers = [lines, marks, *_needed(found, low=bars, across=across)]
    layers += [band] * bool(between) + [reach] * bool(ranges)
    return _panels(found, layers, ranges or [])


def _needed(found: Points, **layers: Chart) -> list[Chart]:
    """The layers whose field some point has."""
    return [layer for field, layer in layers.items() if any(field in point for point in found)]


def dots(found: Points, title: str) -> Chart:
    """One panel per data set, one line per method: its value and interval."""
    look = _look(found)
    found = [{**point, "name": f"{point['loss']}, {point['method']}"} for point in found]
    y = {"field": "name", "type": "nominal", "title": None, "axis": {"labelLimit": LABELS - 20}}
    x = {"field": "y", "type": "quantitative", "title": title, "scale": {"zero": False}}
    ends = {"x": {"field": "low", "type": "quantitative", "title": title}, "x2": {"field": "high"}}
    bars: Chart = {
        "mark": {"type": "rule", "aria": False},
        "encoding": {"y": y, **ends, "color": look["color"], "opacity": look["opacity"]},
    }
    marks: Chart = {
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {"y": y, "x": x, **_without(look, "strokeDash"), "tooltip": _tooltip(None, "y", title)},
    }
    spec = _panels(found, [marks, *_needed(found, low=bars)])
    spec["usermeta"] = {"labels": LABELS}
    spec["spec"]["height"] = 24 * len({(point["loss"], point["method"]) for point in found})
    return spec


def forest(found: Points) -> Chart:
    """All claims with a number, one panel per unit: a grey tick for the claimed value or region, a point for ours."""
    words, hues = list(VERDICT_HUES), list(VERDICT_HUES.values())
    y = {
        "field": "claim",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"labelLimit": LABELS - 20},
    }
    colour = {
        "field": "verdict",
        "type": "nominal",
        "title": "Verdict",
        "scale": {"domain": words, "range": hues},
    }
    shape = {**colour, "scale": {"domain": words, "range": SHAPES[: len(words)]}}
    titles = {"claim": "Claim", "paper": "The paper", "measured": "Here", "verdict": "Verdict"}
    numbers = {"field": "y", "type": "quantitative", "title": None, "scale": {"zero": False}}
    grey = {"color": {"value": "#7f7f7f"}, "opacity": {"value": 1}}
    tick = {"type": "tick", "thickness": 2.5, "size": 15, "aria": False}
    layers: list[Chart] = [
        {
            "params": [
                {"name": "shown", "select": {"type": "point", "fields": ["verdict"]}, "bind": "legend"}
            ],
            "mark": {"type": "rule", "strokeWidth": 2, "aria": False},
            "encoding": {
                "x": {"field": "low", "type": "quantitative", "title": None},
                "x2": {"field": "high"},
            },
        },
        {"mark": tick, "encoding": {"x": {"field": "stated", "type": "quantitative", "title": None}, **grey}},
        {
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {"x": numbers, "shape": shape, "href": {"field": "href"}},
        },
    ]
    shared = {
        "y": y,
        "color": colour,
        "opacity": {"condition": {"param": "shown", "value": 1}, "value": 0.12},
        "tooltip": [{"field": field, "title": title} for field, title in titles.items()],
    }
    return {
        "$schema": SCHEMA,
        "data": {"values": found},
        "facet": {
            "field": "unit",
            "type": "nominal",
            "title": None,
            "sort": None,
            "header": {"labelAnchor": "start"},
        },
        "columns": 1,
        "usermeta": {"labels": LABELS},
        "spec": {"encoding": shared, "layer": layers, "width": 420, "height": {"step": 19}},
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


def _panels(found: Points, layers: list[Chart], ranges: Points | None = None) -> Chart:
    """A panel a data set, with legends that choose losses and methods."""
    select = [
        {"name": name, "select": {"type": "point", "fields": [field]}, "bind": "legend"}
        for name, field in (("losses", "loss"), ("methods", "method"))
    ]
    names = list(dict.fromkeys(point["data"] for point in found))
    layers = [{**layers[0], "params": select}, *layers[1:]]
    return {
        "$schema": SCHEMA,
        "data": {"values": [*found, *(ranges or [])]},
        "facet": {"field": "data", "type": "nominal", "title": None, "sort": names},
        "columns": min(3, len(names)),
        "spec": {"layer": layers, **(PANEL if len(names) > 1 else ALONE)},
        "resolve": {"scale": {"y": "independent"}},
    }


def _look(found: Points) -> Chart:
    """Colours and shapes for losses, dashes for methods; what the legends leave out is faint."""
    labels = [curve_label(name) for name in LOSS_ORDER]
    losses = in_order(pd.Series([point["loss"] for point in found]), labels)
    methods = sorted(
        dict.fromkeys(point["method"] for point in found), key=lambda name: name.startswith("plain")
    )
    below = {"orient": "bottom", "labelLimit": 300}
    by_loss = {"field": "loss", "type": "nominal", "title": "Loss", "legend": below}
    by_method = {"field": "method", "type": "nominal", "title": "Method", "legend": below}
    chosen = {"and": [{"param": "losses"}, {"param": "methods"}]}
    return {
        "color": {
            **by_loss,
            "scale": {"domain": losses, "range": HUES[: len(losses)] if len(losses) <= 8 else HUES},
        },
        "strokeDash": {**by_method, "scale": {"domain": methods, "range": DASHES}},
        "shape": {**by_loss, "scale": {"domain": losses, "range": SHAPES}},
        "opacity": {"condition": {"test": chosen, "value": 1}, "value": 0.06},
    }


def _without(look: Chart, name: str) -> Chart:
    return {key: value for key, value in look.items() if key != name}


def _tooltip(x_title: str | None, field: str, title: str) -> list[Chart]:
    fields = [{"field": name, "title": name.capitalize()} for name in ("data", "loss", "method")]
    fields += [{"field": "x", "title": x_title}] if x_title else []
    numbers = [(field, title), ("low", "95% from"), ("high", "95% to")]
    return fields + [{"field": name, "title": words, "format": ".4~g"} for name, words in numbers]
