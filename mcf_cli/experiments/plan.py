"""From a config to the list of its trials; what cannot work on the data is refused here, before any fit."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from mcf_cli import datasets
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.datasets.registry import nearest
from mcf_cli.errors import McfError
from mcf_cli.experiments.collecting import collector_paused
from mcf_cli.experiments.config import LEVEL_OF, Config, DataEntry, GridEntry, Select
from mcf_cli.experiments.loading import LoadedConfig
from mcf_cli.experiments.splits import RANDOM, Draw, train_test
from mcf_cli.experiments.trials import Repeated, Trial

# Evaluation keys that a trial holds one value of, and so does not hold as a list.
SPREAD = {"sizes", "copies", "marginalised", "q", "lambdas"}


@dataclass(frozen=True)
class DataFacts:
    """What planning needs to know of a data set once its rows are let go."""

    name: str
    source: str
    sha256: str
    notes: tuple[str, ...]
    description: str
    shape: tuple[int, int]
    n_classes: int
    smallest: float
    binary: bool
    blocks: int | None
    splits: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """One data set of a plan, and all that its trials are made of besides the config."""

    facts: DataFacts
    reference: dict[str, Any]
    variants: list[dict[str, Any]]
    select: Select

    def to_dict(self) -> dict[str, Any]:
        select = self.select.model_dump(mode="json")
        return {**asdict(replace(self, select=None)), "select": select}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Part":
        facts, select = DataFacts(**plain["facts"]), Select.model_validate(plain["select"])
        return cls(facts, plain["reference"], plain["variants"], select)


@dataclass(frozen=True)
class Plan:
    """The trials in config order, the data they use, and what the user should be told."""

    config: Config
    parts: list[Part] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    profile: str | None = None

    @property
    def data(self) -> list[DataFacts]:
        return [part.facts for part in self.parts]

    @cached_property
    def trials(self) -> list[Trial]:
        """Every trial once, though two grid entries may ask for it."""
        if self.config.evaluation.protocol == "bounds":
            return list(_bounds_trials(self.config))
        trials: dict[str, Trial] = {}
        with collector_paused():
            for part in self.parts:
                for trial in _trials_on(self.config, part):
                    trials.setdefault(trial.key, trial)
        return list(trials.values())

    def to_json(self) -> str:
        """Everything that the trials follow from, so that results can be shown without config file and data."""
        config = self.config.model_dump(mode="json", by_alias=True)
        parts = [part.to_dict() for part in self.parts]
        return json.dumps(
            {"config": config, "parts": parts, "notices": self.notices, "profile": self.profile}
        )

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        plain = json.loads(text)
        config = Config.model_validate(plain["config"])
        return cls(
            config, [Part.from_dict(part) for part in plain["parts"]], plain["notices"], plain["profile"]
        )


def make_plan(loaded: LoadedConfig) -> Plan:
    """Resolve the data sets, refuse what cannot work on them, and expand the grid."""
    config = loaded.config
    if config.evaluation.protocol == "bounds":
        return Plan(config, profile=loaded.profile)
    _check_limits(loaded)
    notices: list[str] = []
    parts: dict[str, Part] = {}
    for index, entry in enumerate(config.datasets):
        reference, dataset = _resolve(loaded, index, entry, notices)
        about = _facts(dataset)
        if about.sha256 in parts:
            continue
        _check_data(loaded, index, about)
        select = _own_selection(loaded, index, about)
        parts[about.sha256] = Part(about, reference, _variants(loaded, dataset, notices), select)
    plan = Plan(config, list(parts.values()), notices, loaded.profile)
    if not plan.trials:
        raise loaded.error(["grid"], "`only_on` and `up_to` leave no method for this data: nothing to run")
    return plan


def _check_limits(loaded: LoadedConfig) -> None:
    """What a grid entry is limited to must exist: a misspelt name would leave its methods out in silence."""
    known = {*datasets.names(), *(entry.name for entry in loaded.config.datasets)}
    for position, entry in enumerate(loaded.config.grid):
        for name in entry.only_on or ():
            if name not in known:
                message = f"{name} is no data set{nearest(name, sorted(known))}"
                raise loaded.error(["grid", position, "only_on"], message)
        if entry.up_to is not None and loaded.config.evaluation.protocol != "learning-curve":
            raise loaded.error(["grid", position, "up_to"], "only a learning curve has sizes to limit")


def _own_selection(loaded: LoadedConfig, index: int, about: DataFacts) -> Select:
    """The selection that this data set asks for."""
    config, own = loaded.config, loaded.config.datasets[index].select
    if not own:
        return config.select
    try:
        select = Select.model_validate(config.select.model_dump() | own)
        for position, entry in enumerate(config.grid):
            if _meant_for(entry, about):
                config.check_entry(position, entry, select)
    except ValidationError as error:
        raise loaded.error(["datasets", index, "select"], error.errors()[0]["msg"]) from None
    except PydanticCustomError as error:
        raise loaded.error(["datasets", index, "select"], error.message()) from None
    return select


def _meant_for(entry: GridEntry, about: DataFacts) -> bool:
    return entry.only_on is None or about.name in entry.only_on


def _resolve(
    loaded: LoadedConfig, index: int, entry: DataEntry, notices: list[str]
) -> tuple[dict[str, Any], Dataset]:
    """The data set, or its fallback with a notice; a wrong name is an error with the nearest right one."""
    name, options = entry.name, entry.options
    if name in datasets.names() and not datasets.available(name) and entry.fallback:
        notices.append(
            f"{name} is not on this machine (mcf data get {name}): using {entry.fallback} instead."
        )
        name, options = entry.fallback, {}
    try:
        return {"name": name, "options": options}, load_data(name, tuple(sorted(options.items())))
    except McfError as error:
        raise loaded.error(["datasets", index], str(error)) from None


@lru_cache(maxsize=1)
def load_data(name: str, options: tuple[tuple[str, Any], ...] = ()) -> Dataset:
    """The last data set stays in memory: neighbouring trials and the plan itself use the same one."""
    return datasets.load(name, **dict(options))


def _facts(dataset: Dataset) -> DataFacts:
    values = dataset.X if isinstance(dataset.X, np.ndarray) else dataset.X.data
    smallest = float(values.min(initial=0.0))
    return DataFacts(
        name=dataset.name,
        source=dataset.source,
        sha256=dataset.sha256,
        notes=dataset.notes,
        description=dataset.description,
        shape=dataset.X.shape,
        n_classes=len(dataset.class_names),
        smallest=smallest,
        binary=bool(np.isin(values, (0.0, 1.0)).all()),
        blocks=dataset.blocks,
        splits=tuple(dataset.splits),
    )


def _check_data(loaded: LoadedConfig, index: int, about: DataFacts) -> None:
    config = loaded.config
    if about.n_classes < 2:
        raise loaded.error(["datasets", index], f"{about.name} has one class only: nothing to tell apart")
    split = getattr(config.evaluation, "split", None)
    if split not in (None, RANDOM, *about.splits):
        valid = ", ".join([*about.splits, RANDOM])
        raise loaded.error(["evaluation", "split"], f"{about.name} has no split {split!r}; it has {valid}")
    for position, entry in enumerate(config.grid):
        if not _meant_for(entry, about):
            continue
        for corruption in entry.corruption:
            if problem := _mismatch(corruption, about):
                raise loaded.error(
                    ["grid", position, "corruption"], f"{corruption} on {about.name}: {problem}"
                )


def _mismatch(corruption: str, about: DataFacts) -> str | None:
    if corruption == "poisson" and about.smallest < 0:
        return f"Poisson corruption needs values of 0 or more, and the smallest is {about.smallest:g}"
    if corruption == "bitswap" and not about.binary:
        return "bit swaps need values 0 and 1 only"
    if corruption == "multinomial" and about.blocks is None:
        return "multinomial corruption needs one-hot blocks, and this set has none"
    return None


def _trials_on(config: Config, part: Part) -> Iterator[Trial]:
    """Every trial on one data set: repeats outside, so that neighbours share their training rows."""
    about, evaluation = part.facts, config.evaluation
    common = {
        "protocol": evaluation.protocol,
        "dataset": about.name,
        "data_sha256": about.sha256,
        "seed": config.seed,
        "evaluation": evaluation.model_dump(mode="json", exclude=SPREAD | {"protocol"}),
        "fit": config.fit.model_dump(mode="json"),
    }
    repeated = [
        Repeated(
            {
                **common,
                "method": method,
                "select": _selection(
                    part.select, entry.l2 or part.select.l2, evaluation.protocol, method["loss"], chosen
                ),
                **variant,
            },
            part.reference,
            about.source,
            chosen,
        )
        for entry in config.grid
        if _meant_for(entry, about)
        for variant in part.variants
        if entry.up_to is None or variant["train_size"] <= entry.up_to
        for method, chosen in methods(entry, part.select, about.n_classes)
    ]
    return (each.trial(repeat) for repeat in range(config.repeats) for each in repeated)


def _variants(loaded: LoadedConfig, dataset: Dataset, notices: list[str]) -> list[dict[str, Any]]:
    """What the protocol varies besides the method: training-set sizes, numbers of copies, or nothing."""
    evaluation, draw = loaded.config.evaluation, Draw(loaded.config.seed, dataset.name, 0)
    if evaluation.protocol == "learning-curve":
        available = len(train_test(dataset, evaluation.model_dump(), draw)[0])
        sizes = [size for size in evaluation.sizes if size <= available]
        if not sizes:
            message = f"{dataset.name} has {available:,} training rows: no size fits"
            raise loaded.error(["evaluation", "sizes"], message)
        if len(sizes) < len(evaluation.sizes):
            notices.append(f"{dataset.name} has {available:,} training rows: larger sizes are left out.")
        return [{"train_size": size} for size in sizes]
    if evaluation.protocol == "explicit":
        return [
            {"copies": copies}
            for copies in [*evaluation.copies, *([None] if evaluation.marginalised else [])]
        ]
    return [{}]


def methods(entry: GridEntry, select: Select, n_classes: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The methods of a grid entry, each with the name of the level to choose, if any.

    Keys that make no difference (a multi-class form on two classes, a surrogate of the plain model) are left
    out, so that the same model is never fitted twice under two names.
    """
    surrogates, forms = entry.surrogate or ["jensen"], entry.multiclass or ["pairwise"]
    seen = set()
    for loss, corruption, surrogate, form, penalty in product(
        entry.loss, entry.corruption, surrogates, forms, entry.penalty
    ):
        method: dict[str, Any] = {"loss": loss, "corruption": corruption, "penalty": penalty}
        if loss == "logistic" and corruption != "none":
            method["surrogate"] = surrogate
            if n_classes > 2:
                method["multiclass"] = form
        if entry.clip is not None:
            method["clip"] = entry.clip
        if tuple(method.items()) in seen:
            continue
        seen.add(tuple(method.items()))
        level = LEVEL_OF.get(corruption)
        if level is None:
            yield method, None
            continue
        fixed = getattr(entry, level)
        values = fixed or getattr(select, level)
        chosen = level if not fixed and len(values) > 1 else None  # of one value there is nothing to choose
        for value in values:
            yield {**method, level: value}, chosen


def _selection(
    select: Select, l2: list[float], protocol: str, loss: str, chosen: str | None
) -> dict[str, Any]:
    """The selection that a trial makes. One l2 and no level to choose: nothing to validate."""
    l2 = [value for value in l2 if value > 0 or loss != "hinge"]  # LinearSVC has no l2 = 0
    if protocol == "nightmare":
        return {"l2": l2, "by": "deletion"}
    if protocol in ("cost", "loo") or (len(l2) == 1 and chosen is None):
        return {"l2": l2, "by": "none"}
    how = {"cv": {"folds": select.folds}, "holdout": {"fraction": select.fraction}, "loo": {}}
    return {"l2": l2, "by": select.by, **how[select.by]}


def _bounds_trials(config: Config) -> Iterator[Trial]:
    evaluation = config.evaluation
    for q in evaluation.q:
        for lam in [None, *evaluation.lambdas]:
            params = {
                "protocol": "bounds",
                "method": {"loss": "logistic", "corruption": "blankout", "q": q},
                "lam": lam,
                "margins": evaluation.margins,
            }
            yield Trial(params, {}, "none")
