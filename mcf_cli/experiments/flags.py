"""From the flags of a command to its config: what it runs by default, and what its flags change.

Without a config a command runs a small experiment on built-in data. Flags choose a part of a config: only these
losses or corruptions, or other levels of corruption.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from mcf_cli.errors import McfError, nearest
from mcf_cli.experiments.config import (
    FAMILIES,
    GROUPED,
    LEVEL_OF,
    LEVELS,
    Config,
    CorruptionName,
    GridEntry,
    Levels,
    LossName,
)
from mcf_cli.experiments.load import LoadedConfig, load_config

DEFAULT_LOSSES = ["quadratic", "exponential", "logistic"]
L2 = [0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0]
DEFAULT_LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]

DEFAULTS: dict[str, dict[str, Any]] = {
    "train": {
        "item": "train",
        "datasets": ["builtin-reviews"],
        "grid": [{"loss": "logistic", "corruption": "blankout"}],
        "select": {"l2": L2, "q": DEFAULT_LEVELS},
    },
    "sweep-q": {
        "item": "sweep-q",
        "datasets": ["builtin-reviews"],
        "grid": [
            {"loss": DEFAULT_LOSSES, "corruption": "blankout", "q": {"from": 0, "to": 0.9, "step": 0.1}},
            {"loss": DEFAULT_LOSSES, "corruption": "poisson"},
        ],
        "select": {"l2": L2},
    },
    "nightmare": {
        "item": "nightmare",
        "datasets": ["builtin-digits"],
        "evaluation": {"protocol": "nightmare", "deletion": [0, 0.25, 0.5, 0.75], "validation": 0.2},
        "grid": [
            {"loss": DEFAULT_LOSSES, "corruption": "dropout"},
            {"loss": DEFAULT_LOSSES, "corruption": "none", "penalty": ["l2", "l1"]},
            {"loss": "hinge"},
            {"loss": "hinge", "corruption": "fdrop"},
        ],
        "select": {"l2": [1e-4, 1e-3, 1e-2, 0.1], "q": [0.2, 0.5, 0.8], "budget": [3, 10]},
    },
    "learning-curve": {
        "item": "learning-curve",
        "datasets": ["builtin-topics"],
        "evaluation": {"protocol": "learning-curve", "sizes": [100, 200, 400]},
        "grid": [
            {"loss": DEFAULT_LOSSES, "corruption": ["none", "poisson"]},
            {"loss": DEFAULT_LOSSES, "corruption": "blankout"},
        ],
        "select": {"l2": [1e-4, 1e-2, 1.0], "q": [0.3, 0.6, 0.9], "by": "holdout"},
        "repeats": 2,
    },
    "explicit": {
        "item": "explicit",
        "datasets": ["builtin-reviews"],
        "evaluation": {"protocol": "explicit", "copies": [1, 2, 4, 8, 16]},
        "grid": [
            {"loss": "quadratic", "corruption": "blankout"},
            {"loss": "quadratic", "corruption": "poisson"},
        ],
        "select": {"l2": L2, "q": [0.3, 0.6, 0.9], "by": "holdout"},
    },
    "compare": {
        "item": "compare",
        "datasets": ["builtin-reviews"],
        "grid": [{"loss": "logistic", "corruption": ["none", *FAMILIES]}],
        "select": {
            "l2": L2,
            "q": [0.05, *DEFAULT_LEVELS],
            "sigma": [0.1, 0.3, 1.0],
            "scale": [0.1, 0.3, 1.0],
            "a": [0.1, 0.3, 1.0],
        },
    },
    "bounds": {"item": "bounds", "evaluation": {"protocol": "bounds"}},
    "table": {
        "item": "table",
        "datasets": ["builtin-textures"],
        "grid": [
            {"loss": DEFAULT_LOSSES, "corruption": ["none", "poisson"]},
            {"loss": DEFAULT_LOSSES, "corruption": "blankout"},
        ],
        "select": {"l2": [1e-4, 1e-2, 1.0], "q": [0.2, 0.5, 0.8], "by": "holdout"},
    },
}

STARTING_FILE = """\
# An experiment for mcf. Check it with `mcf config check FILE`, run it with `mcf sweep-q --config FILE`.
# Every key is explained by `mcf config schema`.

item: my-experiment            # the results go to <out>/my-experiment
datasets:                      # names from `mcf data list`, or paths to .svmlight, .csv or .npz files
  - {name: amazon-books, fallback: builtin-reviews}
seed: 2013                     # decides splits, folds and deleted features; the same for every method

grid:                          # product within an entry, union across entries
  - loss: [quadratic, exponential, logistic]
    corruption: blankout       # none, dropout, gaussian, laplace, poisson, bitswap, multinomial, thinning, uniform,
                               # group_dropout, group_blankout (the data's column_groups say what is lost together)
    q: {from: 0.0, to: 0.9, step: 0.1}     # or one value, or a list
  - {loss: [quadratic, exponential, logistic], corruption: poisson}

select:                        # chosen on validation rows
  l2: [0, 1.0e-4, 1.0e-3, 1.0e-2, 0.1]
  by: cv                       # cv, holdout, or loo (quadratic loss only)
  folds: 5

# prepare: {scale: standard}   # or max: scale the columns; the scale comes from training rows
evaluation: {protocol: split}  # split, cv, learning-curve, nightmare, explicit, bounds, cost, loo,
                               # label-noise, anytime, expected-loss
repeats: 1

profiles:                      # what --profile smoke or --profile quick overrides
  smoke:
    datasets: [builtin-reviews]
    select: {l2: [1.0e-3, 1.0e-2], by: holdout}
"""

# What a corruption is tried with where neither its command nor its config says.
USUAL_LEVELS = {
    "q": [0.1, 0.3, 0.5, 0.7, 0.9],
    "sigma": [0.1, 0.3, 1.0, 3.0],
    "scale": [0.1, 0.3, 1.0, 3.0],
    "a": [0.1, 0.3, 1.0, 3.0],
    "budget": [1, 3, 10],
}


def narrowed(
    loaded: LoadedConfig,
    losses: Sequence[str] = (),
    corruptions: Sequence[str] = (),
    q: Any = None,
) -> LoadedConfig:
    """The same config with only these methods; one that its grid lacks is run like those that it holds.

    ``q`` (values or a range) replaces that of every corruption with a q.
    """
    if q is not None:
        q = _checked(q)
    parts = [
        (min(index, len(loaded.config.grid) - 1), part)
        for index, entry in enumerate(_with_asked(loaded.config, losses, corruptions))
        for part in _parts(entry, losses, corruptions, q)
    ]
    grid = [part for _, part in parts]
    if not grid:
        asked = ", ".join([*losses, *corruptions])
        raise McfError(f"{asked}: there is no such method, so nothing would run.")
    if q is not None:
        _check_use_of_q(grid)
    config = loaded.config.model_copy(update={"grid": grid})
    return replace(loaded, config=config, origins=[index for index, _ in parts])


def _with_asked(config: Config, losses: Sequence[str], corruptions: Sequence[str]) -> list[GridEntry]:
    """The grid, and after it entries for the losses and corruptions that were asked for and are not in it."""
    grid, held = list(config.grid), _held(config.grid)
    models = [entry for entry in grid if not {"none", "fdrop"} & set(entry.corruption)] or grid
    for name in corruptions:
        if name not in held:
            _check_word(name, "--corruption", get_args(CorruptionName))
            own = list(losses) or (["hinge"] if name == "fdrop" else [loss for loss in models[0].loss])
            grid.append(_entry_like(models[0], own, name, config))
    for loss in losses:
        if loss not in held:
            _check_word(loss, "--loss", get_args(LossName))
            if loss == "hinge":
                grid.append(GridEntry(loss="hinge"))
                continue
            for entry in [entry for entry in config.grid if set(entry.loss) != {"hinge"}]:
                grid += [_entry_like(entry, [loss], name, config) for name in entry.corruption]
    return grid


def _check_word(word: str, flag: str, known: Sequence[str]) -> None:
    if word not in known:
        raise McfError(f"{flag} {word}: unknown word{nearest(word, known)}")


def _entry_like(model: GridEntry, losses: list[str], corruption: str, config: Config) -> GridEntry:
    """An entry for another method, with the levels of a model entry where they mean anything to it."""
    level = LEVEL_OF.get(corruption)
    content: dict[str, Any] = {"loss": losses, "corruption": corruption, "only_on": model.only_on}
    if level is not None and getattr(config.select, level) is None:
        content[level] = getattr(model, level) or USUAL_LEVELS[level]
    try:
        return GridEntry.model_validate(content)
    except ValidationError as error:
        raise McfError(f"--loss {', '.join(losses)} --corruption {corruption}: {_reason(error)}.") from None


def _reason(error: ValidationError) -> str:
    problem = error.errors()[0]
    return problem.get("ctx", {}).get("message", problem["msg"])


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


def _checked(q: Any) -> list[float] | None:
    try:
        return Levels.model_validate({"q": q}).q
    except ValidationError as error:
        raise McfError(f"--q: {error.errors()[0]['msg']}.") from None


def _check_use_of_q(grid: Sequence[GridEntry]) -> None:
    """A flag that changes nothing would be taken for one that did."""
    names = list(dict.fromkeys(name for entry in grid for name in entry.corruption))
    if not any(map(_takes_q, names)):
        takers = ", ".join(filter(_takes_q, LEVEL_OF))
        raise McfError(f"--q has no meaning for {', '.join(names)}: it sets the level of {takers}.")


def _takes_q(corruption: str) -> bool:
    return LEVEL_OF.get(corruption) == "q"


def _parts(
    entry: GridEntry, losses: Sequence[str], corruptions: Sequence[str], q: Sequence[float] | None
) -> list[GridEntry]:
    """What is left of an entry. With a ``q`` for some of its corruptions only, these become an entry of their own."""
    update: dict[str, Any] = {
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
    updates: list[dict[str, Any]] = [{"corruption": takers, "q": list(q)}, {"corruption": others}]
    return [part.model_copy(update=each) for each in updates if each["corruption"]]


def check_groups_used(loaded: LoadedConfig, given: Mapping[str, Any]) -> None:
    """Refuse --column-groups where nothing that would run heeds it."""
    names = {name for entry in loaded.config.grid for name in entry.corruption}
    if given.get("column_groups") is not None and not names & set(GROUPED):
        item = loaded.config.item
        raise McfError(f"--column-groups is for {' and '.join(GROUPED)}, and {item} runs neither.")
    if given.get("column_groups") is not None and loaded.config.evaluation.protocol == "nightmare":
        raise McfError(
            "--column-groups: columns are lost together, and --deletion deletes each on its own: give one of the two."
        )


COMMAND_OF = {"split": "sweep-q", "cv": "sweep-q"}
COMMAND_OF |= dict.fromkeys(("cost", "loo", "label-noise", "anytime", "expected-loss"), "reproduce")
REGRESSION = "regressions are fitted by `mcf train`; this command compares classifiers"


@dataclass(frozen=True)
class Request:
    """A command's name, the protocols it runs, and what its own flags ask for."""

    command: str
    protocols: tuple[str, ...]
    flags: dict[str, Any]
    losses: tuple[str, ...] = ()
    corruptions: tuple[str, ...] = ()
    q: Any = None
    method: dict[str, Any] = field(default_factory=dict)  # what a grid of one entry takes in place of its own


def load_request(request: Request, file: Path | None, given: Mapping[str, Any]) -> LoadedConfig:
    """The config of a command: its file or its default, with the flags laid over it.

    ``given`` is what options of every command say, as ``load_config`` takes it: profile, settings, flags and so on.
    """
    if given["flags"].get("task") == "regression" and request.command != "train":
        raise McfError(f"--task regression: {REGRESSION}.")
    default = DEFAULTS[request.command]
    flags, method = (
        {path: value for path, value in asked.items() if value not in (None, ())}
        for asked in (request.flags, request.method)
    )
    flags |= given["flags"]
    beneath = {"evaluation": default["evaluation"]} if "evaluation" in default else None
    loaded = load_config(file or default, **{**given, "flags": flags}, method=method, defaults=beneath)
    protocol = loaded.config.evaluation.protocol
    if protocol not in request.protocols:
        command = COMMAND_OF.get(protocol, protocol)
        raise loaded.error(
            ["evaluation", "protocol"], f"`{protocol}` is not for this command: use `mcf {command}`"
        )
    if loaded.config.task == "regression" and request.command != "train":
        raise loaded.error(["task"], REGRESSION)
    aided = [place for place, entry in enumerate(loaded.config.grid) if set(entry.aid or ()) - {"none"}]
    if aided and request.command in ("train", "compare"):
        raise loaded.error(
            ["grid", aided[0], "aid"], f"`mcf {request.command}` takes no `aid`: use `mcf sweep-q`"
        )
    if request.losses or request.corruptions or request.q is not None:
        loaded = narrowed(loaded, request.losses, request.corruptions, request.q)
    check_groups_used(loaded, given)
    if file is None:
        loaded = replace(loaded, asked=request.corruptions)
    chosen = {path.removeprefix("select.") for path in flags if path.startswith("select.")}
    return left_to_select(loaded, chosen) if chosen else loaded
