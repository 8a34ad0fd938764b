"""Running a part of a config: only these losses or corruptions, or other levels of corruption."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from mcf_cli.errors import McfError
from mcf_cli.experiments.config import LEVEL_OF, LEVELS, GridEntry, Levels
from mcf_cli.experiments.loading import LoadedConfig


def narrowed(
    loaded: LoadedConfig,
    losses: Sequence[str] = (),
    corruptions: Sequence[str] = (),
    q: Any = None,
) -> LoadedConfig:
    """The same config with fewer methods; ``q`` (values or a range) replaces that of every entry with a q."""
    if q is not None:
        q = _checked(q)
    grid = [part for entry in loaded.config.grid if (part := _part(entry, losses, corruptions, q))]
    if not grid:
        asked = ", ".join([*losses, *corruptions])
        held = ", ".join(_held(loaded.config.grid))
        raise McfError(
            f"the grid of {loaded.config.item} holds no {asked}: nothing to run.\n"
            f"It holds {held}; a config can hold others (`mcf config init` starts one)."
        )
    return replace(loaded, config=loaded.config.model_copy(update={"grid": grid}))


def left_to_select(loaded: LoadedConfig, names: Collection[str]) -> LoadedConfig:
    """The same config with ``names`` (q, l2) in its ``select`` alone, not in grid entries or data sets."""
    levels = {name: None for name in names if name in LEVELS}
    grid = [entry.model_copy(update=levels) for entry in loaded.config.grid]
    data = [
        entry.model_copy(
            update={"select": {name: own for name, own in entry.select.items() if name not in names}}
        )
        for entry in loaded.config.datasets
    ]
    return replace(loaded, config=loaded.config.model_copy(update={"grid": grid, "datasets": data}))


def _held(grid: Sequence[GridEntry]) -> list[str]:
    """The losses and corruptions of a grid, each once."""
    return list(
        dict.fromkeys(
            name for part in ("loss", "corruption") for entry in grid for name in getattr(entry, part)
        )
    )


def _checked(q: Any) -> list[float]:
    try:
        return Levels.model_validate({"q": q}).q
    except ValidationError as error:
        raise McfError(f"--q: {error.errors()[0]['msg']}.") from None


def _part(
    entry: GridEntry, losses: Sequence[str], corruptions: Sequence[str], q: Sequence[float] | None
) -> GridEntry | None:
    update: dict[str, list] = {
        "loss": [loss for loss in entry.loss if not losses or loss in losses],
        "corruption": [name for name in entry.corruption if not corruptions or name in corruptions],
    }
    if not all(update.values()):
        return None
    if q is not None and all(LEVEL_OF.get(name) == "q" for name in update["corruption"]):
        update["q"] = list(q)
    return entry.model_copy(update=update)
