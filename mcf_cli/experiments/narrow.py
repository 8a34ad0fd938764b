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
    """The same config with fewer methods; ``q`` (values or a range) replaces that of every corruption with a q."""
    if q is not None:
        q = _checked(q)
    parts = [
        (index, part)
        for index, entry in enumerate(loaded.config.grid)
        for part in _parts(entry, losses, corruptions, q)
    ]
    grid = [part for _, part in parts]
    if not grid:
        asked = ", ".join([*losses, *corruptions])
        held = ", ".join(_held(loaded.config.grid))
        raise McfError(
            f"the grid of {loaded.config.item} holds no {asked}: nothing to run.\n"
            f"It holds {held}; a config can hold others (`mcf config init` starts one)."
        )
    if q is not None:
        _check_use_of_q(grid)
    config = loaded.config.model_copy(update={"grid": grid})
    return replace(loaded, config=config, origins=[index for index, _ in parts])


def left_to_select(loaded: LoadedConfig, names: Collection[str]) -> LoadedConfig:
    """The same config with ``names`` (q, l2) in its ``select`` alone, not in grid entries or data sets."""
    if "q" in names:
        _check_use_of_q(loaded.config.grid)
    own = {name: None for name in names if name in (*LEVELS, "l2")}
    grid = [entry.model_copy(update=own) for entry in loaded.config.grid]
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


def _check_use_of_q(grid: Sequence[GridEntry]) -> None:
    """A flag that changes nothing would be taken for one that did."""
    names = list(dict.fromkeys(name for entry in grid for name in entry.corruption))
    if not any(map(_takes_q, names)):
        takers = ", ".join(filter(_takes_q, LEVEL_OF))
        raise McfError(f"--q has no meaning for {', '.join(names)}: it is the level of {takers}.")


def _takes_q(corruption: str) -> bool:
    return LEVEL_OF.get(corruption) == "q"


def _parts(
    entry: GridEntry, losses: Sequence[str], corruptions: Sequence[str], q: Sequence[float] | None
) -> list[GridEntry]:
    """What is left of an entry. With a ``q`` for some of its corruptions only, these become an entry of their own."""
    update: dict[str, list | None] = {
        "loss": [loss for loss in entry.loss if not losses or loss in losses],
        "corruption": [name for name in entry.corruption if not corruptions or name in corruptions],
    }
    if not all(update.values()):
        return []
    if "logistic" not in update["loss"]:
        update |= {"surrogate": None, "multiclass": None}  # which no other loss may have
    part = entry.model_copy(update=update)
    if q is None:
        return [part]
    takers = [name for name in part.corruption if _takes_q(name)]
    others = [name for name in part.corruption if not _takes_q(name)]
    updates = [{"corruption": takers, "q": list(q)}, {"corruption": others}]
    return [part.model_copy(update=each) for each in updates if each["corruption"]]
