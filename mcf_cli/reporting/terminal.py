"""The table of an item on a terminal, with rich: ``console.print(rich_table(table))``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.table import Table as RichTable
from rich.text import Text

from mcf_cli.reporting.tables import Table, is_number_column

PADDING = 3  # between two columns


class rich_table:
    """The table for a terminal: one for each data set, with as many levels as fit its width."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        table = self.table
        shown = table.shown.fillna("").astype(str)
        parts = [("", shown)]
        if {"dataset", "data"} <= set(shown):
            groups = shown.groupby(["dataset", "data"], sort=False)
            parts = [
                (f"{name} ({data})", part.drop(columns=["dataset", "data"])) for (name, data), part in groups
            ]
        hidden: set[str] = set()
        if any(_too_wide(part, options.max_width) for _, part in parts):
            parts = [(title, part.map(_stacked)) for title, part in parts]
        for _, part in parts:
            hidden |= set(table.levels) - set(_fitting_levels(part, table.levels, options.max_width))
        yield Text(table.heading, style="bold")
        for title, part in parts:
            yield _rich(title, part.drop(columns=list(hidden & set(part.columns))))
        for note in table.notes:
            yield Text(f"  {note}")
        if hidden:
            yield Text("  some levels have no room here: a wider terminal or table.md shows all")


def _too_wide(shown: pd.DataFrame, width: int) -> bool:
    return sum(_width(shown, name) for name in shown) > width


def _width(shown: pd.DataFrame, name: str) -> int:
    lines = [line for cell in shown[name] for line in cell.split("\n")]
    return max(len(name), *map(len, lines)) + PADDING


def _stacked(cell: str) -> str:
    """``15.50 ± 1.10 at 0.8`` in two lines, the number above and its interval below."""
    number, sign, rest = cell.partition(" ± ")
    return f"{number}\n±{rest}" if sign else cell


def _rich(title: str, shown: pd.DataFrame) -> RichTable:
    """As Text throughout: a name in brackets is no markup."""
    heading = Text(title, style="italic") if title else None
    drawn = RichTable(title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in shown.columns:
        drawn.add_column(Text(name), justify="right" if is_number_column(shown[name]) else "left")
    for line in shown.to_numpy():
        drawn.add_row(*map(Text, line))
    return drawn


def _fitting_levels(shown: pd.DataFrame, levels: tuple[str, ...], width: int) -> list[str]:
    """As many levels as fit beside the other columns, evenly spread, the first and the last among them."""
    widths = {name: _width(shown, name) for name in shown.columns}
    room = width - sum(taken for name, taken in widths.items() if name not in levels)
    for count in range(len(levels), 2, -1):
        step = (len(levels) - 1) / (count - 1)
        some = [levels[round(step * number)] for number in range(count)]
        if sum(widths.get(name, 0) for name in some) <= room:
            return some
    return [levels[0], levels[-1]] if len(levels) > 1 else list(levels)
