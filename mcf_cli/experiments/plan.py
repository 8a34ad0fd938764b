"""From a config to the list of its trials; what cannot work on the data is refused here, before any fit."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from mcf_cli import datasets
from mcf_cli.core.corruptions import GroupDropout
from mcf_cli.core.losses import TWO_CLASS_SURROGATES
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.datasets.splits import RANDOM, Draw, train_test
from mcf_cli.datasets.store import registry
from mcf_cli.errors import McfError, RunError, nearest
from mcf_cli.experiments.config import (
    DELETING,
    FAMILIES,
    GROUPED,
    LEVEL_OF,
    Config,
    DataEntry,
    GridEntry,
    Select,
    without_retired,
)
from mcf_cli.experiments.learners import columns_together, notices_about
from mcf_cli.experiments.load import LoadedConfig
from mcf_cli.experiments.protocols import Bounds, TrainTest
from mcf_cli.experiments.store import PLAN_FORMAT
from mcf_cli.experiments.trial import (
    IN_CHUNKS,
    RAISE,
    DataFacts,
    Trial,
    data_of,
    facts_of,
    methods_of,
    needs_memory,
    reference_to,
    too_large,
)
from mcf_cli.yamlfile import OBSERVED

# Evaluation keys that a trial holds one value of, and so does not hold as a list.
SPREAD = {"sizes", "copies", "marginalised", "q", "lambdas", "flips"}
MAX_TRIALS = 1_000_000  # a plan of so many takes some 3 GB, its records 8


class DataMissing(RunError):
    """A data set is not on this machine, and nothing may stand in for it."""


@dataclass(frozen=True)
class PlannedData:
    """One data set of a plan, and all that its trials are made of besides the config."""

    facts: DataFacts
    reference: dict[str, Any]
    variants: list[dict[str, Any]]
    select: Select
    first_repeat: int = 0  # a set that is here again with other options counts on where the last one ended

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "facts": asdict(self.facts), "select": self.select.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "PlannedData":
        facts, select = DataFacts(**plain["facts"]), Select.model_validate(plain["select"])
        return cls(facts, plain["reference"], plain["variants"], select, plain.get("first_repeat", 0))


@dataclass(frozen=True)
class Plan:
    """The trials in config order, the data they use, and what the user should be told."""

    config: Config
    parts: list[PlannedData] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    profile: str | None = None

    @property
    def data(self) -> list[DataFacts]:
        return [part.facts for part in self.parts]

    @cached_property
    def trials(self) -> list[Trial]:
        """Every trial once, though two grid entries may ask for it."""
        if isinstance(self.config.evaluation, Bounds):
            return list(_bounds_trials(self.config.evaluation))
        trials: dict[str, Trial] = {}
        for part in self.parts:
            for trial in _trials_on(self.config, part):
                trials.setdefault(trial.key, trial)
        return list(trials.values())

    def to_json(self) -> str:
        """Everything that the trials follow from, so that results can be shown without config file and data."""
        config = self.config.model_dump(mode="json", by_alias=True)
        parts = [part.to_dict() for part in self.parts]
        plain = {"format": PLAN_FORMAT, "config": config, "parts": parts, "notices": self.notices}
        return json.dumps({**plain, "profile": self.profile})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        plain = json.loads(text)
        config = Config.model_validate(without_retired(plain["config"]))
        parts = [PlannedData.from_dict(part) for part in plain["parts"]]
        return cls(config, parts, plain["notices"], plain["profile"])


def make_plan(loaded: LoadedConfig, stand_ins: bool = True) -> Plan:
    """Resolve the data sets, refuse what cannot work on them, and expand the grid.

    Without ``stand_ins`` a data set that is missing raises DataMissing, whatever its fallback.
    """
    config = loaded.config
    if config.evaluation.protocol == "bounds":
        _check_count(loaded, len(config.evaluation.q) * (1 + len(config.evaluation.lambdas)))
        return Plan(config, profile=loaded.profile)
    _check_limits(loaded)
    if not stand_ins:
        _require_data(config)
    notices: list[str] = []
    parts: dict[str, PlannedData] = {}
    for index, entry in enumerate(config.datasets):
        reference, dataset = _resolve(loaded, index, entry, notices)
        groups = entry.column_groups if reference["name"] == entry.name else None  # not those of a fallback
        about = facts_of(dataset, groups)
        if about.sha256 in parts:
            if parts[about.sha256].facts.column_groups != groups:
                message = f"{about.name} appears twice with different groups: put each in its own item"
                raise loaded.error(["datasets", index, "column_groups"], message)
            continue
        _check_groups(loaded, index, about, dataset)
        _check_data(loaded, index, about, notices)
        notices += _idle_on_fixed_rows(config, about)
        notices += notices_about(
            dataset,
            scale=config.prepare.scale if config.prepare else None,
            corrupted=any(set(entry.corruption) - {"none"} for entry in config.grid),
            observed=any(_observes(config, entry) for entry in config.grid),
        )
        select = _own_selection(loaded, index, about)
        if about.in_chunks:
            _check_for_chunks(loaded, about, select)
        again = sum(part.facts.name == about.name for part in parts.values())
        notices += [f"{about.name} appears again with other options: these are repeats."] * bool(again)
        variants, first = _variants(loaded, dataset, notices), again * config.repeats
        parts[about.sha256] = PlannedData(about, reference, variants, select, first)
    plan = Plan(config, list(parts.values()), notices, loaded.profile)
    _check_count(loaded, config.repeats * sum(_count_on(config, part) for part in plan.parts))
    if not plan.trials:
        raise loaded.error(["grid"], "`only_on` and `up_to` leave no method for this data: nothing to run")
    return plan


def _check_limits(loaded: LoadedConfig) -> None:
    """What a grid entry is limited to must exist: a misspelt name would leave its methods out in silence."""
    known = {*datasets.names(), *(entry.name for entry in loaded.config.datasets)}
    for position, entry in enumerate(loaded.config.grid):
        for name in entry.only_on or ():
            if name not in known:
                message = f"{name} is not a data set{nearest(name, sorted(known))}"
                raise loaded.error(["grid", position, "only_on"], message)
        if entry.up_to is not None and loaded.config.evaluation.protocol != "learning-curve":
            raise loaded.error(
                ["grid", position, "up_to"], "`up_to` limits the sizes of a learning curve; leave it out here"
            )


def _check_count(loaded: LoadedConfig, count: int) -> None:
    """Counted before they are made: a grid of a few lines can ask for more trials than memory holds."""
    if count > MAX_TRIALS:
        message = (
            f"asks for {count:,} trials, and a plan holds at most {MAX_TRIALS:,}: use fewer values or repeats"
        )
        raise loaded.error(["grid"], message)


def _require_data(config: Config) -> None:
    missing = [entry.name for entry in config.datasets if entry.fallback and not _is_here(entry.name)]
    if missing:
        gets = " ".join(dict.fromkeys(registry.entry(name).name for name in missing))
        raise DataMissing(
            f"{config.item} needs {', '.join(missing)}: run `mcf data get {gets}`, "
            "or add --allow-builtin to run it on built-in data."
        )


def _is_here(name: str) -> bool:
    return name not in datasets.names() or datasets.available(name)


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


def _entries_on(config: Config, about: DataFacts) -> list[GridEntry]:
    """The grid as far as it is meant for the data and can work on it."""
    entries = [entry for entry in config.grid if _meant_for(entry, about)]
    return [
        entry.model_copy(update={"corruption": possible})
        for entry in entries
        if (possible := [name for name in entry.corruption if not _mismatch(name, about, config.scale)])
    ]


def _resolve(
    loaded: LoadedConfig, index: int, entry: DataEntry, notices: list[str]
) -> tuple[dict[str, Any], Dataset]:
    """The data set, or its fallback with a notice; a wrong name is an error with the nearest right one."""
    name, options = entry.name, entry.options
    if entry.fallback and not _is_here(name):
        notices.append(
            f"{name} is not on this machine (mcf data get {name}): using {entry.fallback} instead."
        )
        name, options = entry.fallback, {}
    if loaded.config.task is not None:
        options = {**options, **_task_of(loaded, index, name)}
    elif "task" in options:
        raise loaded.error(
            ["datasets", index], "`task` belongs at the top of a config, for all its data sets"
        )
    try:
        reference = reference_to(name, options, notices)
        return reference, data_of(reference)
    except McfError as error:
        raise loaded.error(["datasets", index], str(error)) from None


def _task_of(loaded: LoadedConfig, index: int, name: str) -> dict[str, Any]:
    """The option by which a file of the user is read for the config's task; all other sets hold classes."""
    if name not in datasets.names():
        return {"task": loaded.config.task}
    if loaded.config.task == "regression":
        message = f"{name} holds classes: a regression needs a file of your own, with numbers to predict"
        raise loaded.error(["datasets", index], message)
    return {}


def _check_data(loaded: LoadedConfig, index: int, about: DataFacts, notices: list[str]) -> None:
    """Refuse what cannot work on the data; of a command's built-in grid, leave it out and say so."""
    config = loaded.config
    if about.n_classes < 2 and config.task != "regression":
        raise loaded.error(
            ["datasets", index], f"{about.name} has only one class: there is nothing to classify"
        )
    split = getattr(config.evaluation, "split", None)
    if split not in (None, RANDOM, *about.splits):
        valid = ", ".join([*about.splits, RANDOM])
        raise loaded.error(["evaluation", "split"], f"{about.name} has no split {split!r}; it has {valid}")
    for position, entry in enumerate(config.grid):
        if not _meant_for(entry, about):
            continue
        if about.in_chunks and (key := needs_memory(entry)):
            raise loaded.error(["grid", position, key], f"{too_large(about)}: leave it out, or {RAISE}")
        for name in entry.corruption:
            problem = _mismatch(name, about, config.scale)
            if problem and (loaded.asked is None or name in loaded.asked):
                raise loaded.error(["grid", position, "corruption"], f"{name} on {about.name}: {problem}")
            if name in GROUPED and about.column_groups is None:
                continue  # a built-in grid has them for data whose groups are known
            if problem and not any(name in notice for notice in notices):
                notices.append(f"{name} is left out on {about.name}: {problem}.")
        if _observes(config, entry) and (problem := _unobservable(entry, about)):
            raise loaded.error(["grid", position, "q"] if entry.q else ["select", "q"], problem)
        asks = "tilt" if getattr(config.evaluation, "tilt", False) else "protocol"
        if about.n_classes > 2 and (asks == "tilt" or config.evaluation.protocol == "expected-loss"):
            raise loaded.error(["evaluation", asks], f"{about.name} has more than two classes")
        named = {*(entry.surrogate or ()), *(entry.aid or ())}
        if about.n_classes > 2 and named & {*TWO_CLASS_SURROGATES, "unlabelled"}:
            raise loaded.error(["grid", position, "surrogate"], f"{about.name} has more than two classes")


def _check_groups(loaded: LoadedConfig, index: int, about: DataFacts, dataset: Dataset) -> None:
    """Refuse groups that these columns cannot be divided into."""
    if about.column_groups is None:
        return
    try:
        GroupDropout(columns_together(about.column_groups, dataset)).check_parameters(about.shape[1])
    except (McfError, ValueError) as error:
        message = f"{about.name}: {str(error).removeprefix('GroupDropout: ')}"
        raise loaded.error(["datasets", index, "column_groups"], message) from None


def _check_for_chunks(loaded: LoadedConfig, about: DataFacts, select: Select) -> None:
    """What cannot be done with rows that stay on disk is refused, but for the grid's methods."""
    protocol = loaded.config.evaluation.protocol
    if protocol not in IN_CHUNKS:
        raise loaded.error(["evaluation", "protocol"], f"{too_large(about)} for `{protocol}`: {RAISE}")
    if select.by == "loo":
        raise loaded.error(["select", "by"], f"{too_large(about)} for leave-one-out: use cv or holdout")


def _idle_on_fixed_rows(config: Config, about: DataFacts) -> list[str]:
    """Settings that a reader takes to draw the test rows, and that do not where the data brings its own."""
    evaluation = config.evaluation
    if not isinstance(evaluation, TrainTest) or evaluation.split or not about.splits:
        return []
    idle = ["train_fraction"] if evaluation.train_fraction != _default(TrainTest, "train_fraction") else []
    if evaluation.protocol == "split" and evaluation.test is None:
        idle += ["seed"] if config.seed != _default(Config, "seed") else []
        idle += ["repeats"] if config.repeats > 1 else []
    if not idle:
        return []
    return [
        f"{about.name} comes with its own test rows (split {about.splits[0]}), which do not depend on "
        f"{' and '.join(idle)}: --set evaluation.split=random draws them by seed."
    ]


def _default(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].default


def _observes(config: Config, entry: GridEntry) -> bool:
    return (entry.q or config.select.q) == [OBSERVED] and any(
        LEVEL_OF.get(c) == "q" for c in entry.corruption
    )


def _unobservable(entry: GridEntry, about: DataFacts) -> str | None:
    for corruption in entry.corruption:
        if LEVEL_OF.get(corruption) == "q" and corruption not in DELETING:
            return f"`observed` is for {' and '.join(DELETING)}, not for {corruption}"
    if about.missing:
        return None
    return f"{about.name} has no missing values, so `observed` has nothing to count: give numbers"


def _mismatch(corruption: str, about: DataFacts, scale: str = "none") -> str | None:
    needs = FAMILIES[corruption].needs if corruption in FAMILIES else ""
    if scale == "standard" and needs:
        return f"it needs {needs}, which standard scaling destroys: use scale max or none"
    if needs == "counts" and about.smallest < 0:
        return f"{corruption.capitalize()} corruption needs values of 0 or more, and the smallest is {about.smallest:g}"
    if needs == "bits" and not about.binary:
        return "bit swaps need values 0 and 1 only"
    if needs == "one-hot blocks" and about.blocks is None:
        return "multinomial corruption needs one-hot blocks, and this set has none"
    if corruption in GROUPED and about.column_groups is None:
        return "it needs to know which columns are lost together: give --column-groups"
    return None


def _trials_on(config: Config, part: PlannedData) -> Iterator[Trial]:
    """Every trial on one data set: repeats outside, so that neighbours share their training rows."""
    about, evaluation = part.facts, config.evaluation
    common = {
        "protocol": evaluation.protocol,
        "dataset": about.name,
        "data_sha256": about.sha256,
        "seed": config.seed,
        "evaluation": evaluation.model_dump(mode="json", exclude=SPREAD | {"protocol"}),
        "fit": config.fit.model_dump(mode="json"),
        # Columns as they are need no word: trials from before there was a choice keep their keys.
        **({} if config.scale == "none" else {"prepare": {"scale": config.scale}}),
    }
    recipe = {} if config.autoencoder is None else {"autoencoder": config.autoencoder.model_dump(mode="json")}
    selection = partial(_selection, part.select, evaluation.protocol)
    cases = [
        (
            {
                **common,
                **(recipe if method.get("aid", "").startswith("autoencoder") else {}),
                "method": method,
                "select": selection(method["loss"], entry.l2, chosen),
                **variant,
            },
            chosen,
        )
        for entry in _entries_on(config, about)
        for variant in part.variants
        if entry.up_to is None or variant["train_size"] <= entry.up_to
        for method, chosen in methods_of(entry, part.select, about.n_classes, about.column_groups)
    ]
    for repeat in range(part.first_repeat, part.first_repeat + config.repeats):
        for params, chosen in cases:
            yield Trial({**params, "repeat": repeat}, part.reference, about.source, chosen)


def _count_on(config: Config, part: PlannedData) -> int:
    """How many trials of one repeat `_trials_on` gives, without making them."""
    return sum(
        sum(1 for _ in methods_of(entry, part.select, part.facts.n_classes))
        * sum(entry.up_to is None or variant["train_size"] <= entry.up_to for variant in part.variants)
        for entry in _entries_on(config, part.facts)
    )


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
    if evaluation.protocol == "label-noise":
        return [{"flips": rate} for rate in evaluation.flips]
    if evaluation.protocol == "explicit":
        limit = [None] if evaluation.marginalised else []
        return [{"copies": copies} for copies in [*evaluation.copies, *limit]]
    return [{}]


def _selection(
    select: Select, protocol: str, loss: str, own_l2: list[float] | None, chosen: str | None
) -> dict[str, Any]:
    """The selection that a trial makes. One l2 and no level to choose: nothing to validate."""
    l2 = [value for value in own_l2 or select.l2 if value > 0 or loss != "hinge"]  # LinearSVC has no l2 = 0
    if protocol == "nightmare":
        return {"l2": l2, "by": "deletion"}
    if protocol in ("cost", "loo") or (len(l2) == 1 and chosen is None):
        return {"l2": l2, "by": "none"}
    return {"l2": l2, "by": select.by, **select.division()}


def _bounds_trials(evaluation: Bounds) -> Iterator[Trial]:
    for q in evaluation.q:
        method = {"loss": "logistic", "corruption": "blankout", "q": q}
        for lam in [None, *evaluation.lambdas]:
            params = {"protocol": "bounds", "method": method, "lam": lam, "margins": evaluation.margins}
            yield Trial(params, {}, "none")
