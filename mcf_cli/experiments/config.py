"""What a config file may say: pydantic models with unknown keys forbidden and impossible pairs refused.

The grid is a product within an entry and a union across entries. What the grid leaves open (``l2`` always,
``q`` and the like where an entry does not fix them) is chosen on validation data from the lists in
``select``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from mcf_cli.experiments.protocols import Bounds, Evaluation, TrainTest
from mcf_cli.yamlfile import (
    OBSERVED,
    Count,
    Counts,
    Number,
    Rates,
    Strengths,
    Strict,
    impossible,
    no_bool,
    words,
)

LossName = Literal["quadratic", "exponential", "logistic", "hinge", "boosting"]
Surrogate = Literal["jensen", "variational", "quadratic", "gaussian", "exact"]
Multiclass = Literal["pairwise", "shared"]
Penalty = Literal["l2", "l1"]
Aid = Literal[
    "none",
    "mean",
    "conditional",
    "reduced",
    "known-rates",
    "estimated-rates",
    "unlabelled",
    "target-rates",
    "presence",
    "autoencoder",
    "autoencoder-test",
]
TaskName = Literal["classification", "regression"]
Profile = Literal["smoke", "quick", "paper"]
PROFILES: tuple[str, ...] = get_args(Profile)


@dataclass(frozen=True)
class CorruptionWords:
    """What words, configs and figures have to know of a corruption; core/corruptions has its mathematics."""

    title: str
    level: str | None = None  # the one parameter that sets its strength
    biased: bool = False  # its mean is not x
    deletes: bool = False  # its q is a rate of deletion
    grouped: bool = False  # it loses groups of columns together
    needs: str = ""  # what values must be; standard scaling destroys it


# In the order of tables and figures.
FAMILIES = {
    "blankout": CorruptionWords("blankout", "q", deletes=True),
    "dropout": CorruptionWords("dropout", "q", biased=True, deletes=True),
    "poisson": CorruptionWords("Poisson", needs="counts"),
    "multinomial": CorruptionWords("multinomial", "q", biased=True, needs="one-hot blocks"),
    "thinning": CorruptionWords("thinning", "q", biased=True, needs="counts"),
    "gaussian": CorruptionWords("Gaussian", "sigma"),
    "laplace": CorruptionWords("Laplace", "scale"),
    "bitswap": CorruptionWords("bit-swap", "q", biased=True, needs="bits"),
    "uniform": CorruptionWords("uniform", "a"),
    "group_dropout": CorruptionWords("group dropout", "q", biased=True, grouped=True),
    "group_blankout": CorruptionWords("group blankout", "q", grouped=True),
}
if TYPE_CHECKING:
    CorruptionName = str
else:
    CorruptionName = Literal["none", *FAMILIES, "fdrop"]

LEVEL_OF = {name: family.level for name, family in FAMILIES.items() if family.level} | {"fdrop": "budget"}
LEVELS = ("q", "sigma", "scale", "a", "budget")
GROUPED = tuple(name for name, family in FAMILIES.items() if family.grouped)
DELETING = tuple(name for name, family in FAMILIES.items() if family.deletes)
BIASED = tuple(name for name, family in FAMILIES.items() if family.biased)
AIDED = ("quadratic", "exponential", "logistic")
NO_COST = {  # what the cost protocol cannot measure
    "none": "is the plain model that cost compares with; name a corruption",
    "multinomial": "corrupts whole blocks, and cost sums feature by feature",
    **dict.fromkeys(GROUPED, "loses whole groups, and cost sums feature by feature"),
}
# What a method may be given besides the labelled training rows: the protocol that has it, the losses and the
# corruptions that can use it. No word of losses or corruptions: all but hinge and boosting, and all.
AIDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "mean": ("nightmare", (), ()),
    "conditional": ("nightmare", (), ()),
    "reduced": ("nightmare", ("quadratic",), ()),
    "known-rates": ("label-noise", ("logistic",), ()),
    "estimated-rates": ("label-noise", ("logistic",), ()),
    "unlabelled": ("learning-curve", ("logistic",), DELETING),
    "target-rates": ("split", (), DELETING),
    "presence": ("split", (), ()),
    "autoencoder": ("split", (), ("none",)),
    "autoencoder-test": ("split", (), ("none",)),
}
DEFAULT_L2 = [0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]
if TYPE_CHECKING:  # what a field holds once it is valid, however it was written
    Losses = list[LossName]
    Corruptions = list[CorruptionName]
    Surrogates = list[Surrogate]
    MulticlassForms = list[Multiclass]
    Penalties = list[Penalty]
    Aids = list[Aid]
else:
    Losses = words(LossName)
    Corruptions = Annotated[
        words(CorruptionName), BeforeValidator(lambda value: "none" if value is None else value)
    ]
    Surrogates = words(Surrogate)
    MulticlassForms = words(Multiclass)
    Penalties = words(Penalty)
    Aids = words(Aid)


class Levels(Strict):
    """The strengths of the corruptions, each a value, a list or a range."""

    q: Rates | None = Field(None, description="or `observed`: how often each column is missing")
    sigma: Strengths | None = None
    scale: Strengths | None = None
    a: Strengths | None = Field(None, description="half the width of uniform noise")
    budget: Counts | None = Field(None, description="features that FDROP's adversary may delete")


class GridEntry(Levels):
    """Methods to run: every combination of the values of its keys."""

    loss: Losses
    corruption: Corruptions = Field(["none"])
    surrogate: Surrogates | None = None
    multiclass: MulticlassForms | None = None
    penalty: Penalties = Field(["l2"])
    l2: Strengths | None = Field(
        None, description="values of l2 to choose from here, instead of those in `select`"
    )
    aid: Aids | None = Field(
        None, description="what the method gets besides labelled rows; docs/beyond.md explains the words"
    )
    clip: Annotated[Number, Field(gt=0)] | None = None
    only_on: list[str] | None = None  # the data sets that these methods are for; all of them by default
    up_to: Annotated[int, Field(ge=1)] | None = None  # the largest training set of a learning curve

    @model_validator(mode="after")
    def _possible(self) -> "GridEntry":
        self._check_levels()
        for loss in self.loss:
            for corruption in self.corruption:
                self._check_pair(loss, corruption)
        if self.multiclass is not None and "logistic" not in self.loss:
            raise impossible("`multiclass` forms exist only for the logistic loss", "multiclass")
        if self.clip is not None and set(self.corruption) != {"poisson"}:
            raise impossible("`clip` belongs to poisson; give poisson its own grid entry", "clip")
        return self

    def _check_levels(self) -> None:
        for level in LEVELS:
            if getattr(self, level) is None:
                continue
            for corruption in self.corruption:
                if LEVEL_OF.get(corruption) != level:
                    raise impossible(
                        f"`{level}` has no meaning for {corruption}; give {corruption} its own grid entry",
                        level,
                    )

    def _check_pair(self, loss: str, corruption: str) -> None:
        if loss == "boosting" and (corruption not in ("none", "dropout") or self.l2 != [0.0]):
            raise impossible("boosting goes with corruption none or dropout, and with `l2: 0`", "corruption")
        if (corruption == "fdrop") and loss != "hinge":
            raise impossible(f"fdrop is defined for the hinge loss, not for {loss}", "corruption")
        if loss == "hinge" and corruption not in ("none", "fdrop"):
            raise impossible(
                f"the hinge loss has no marginalised form and cannot go with {corruption}", "corruption"
            )
        if self.surrogate is not None and loss != "logistic":
            raise impossible(f"`surrogate` belongs to the logistic loss; {loss} needs none", "surrogate")
        if self.surrogate is not None and "quadratic" in self.surrogate and corruption in BIASED:
            raise impossible(
                f"the quadratic approximation needs unbiased corruption; {corruption} is biased", "surrogate"
            )
        if "l1" in self.penalty and corruption != "none":
            raise impossible(
                f"an l1 penalty goes with the plain model only, not with {corruption}", "penalty"
            )


class Select(Levels):
    """What is chosen on validation data, from which values, and how."""

    l2: Strengths = DEFAULT_L2
    by: Literal["cv", "holdout", "loo"] = "cv"
    folds: Annotated[int, Field(ge=2, le=100)] = 5
    repeats: Annotated[int, BeforeValidator(no_bool), Field(ge=1, le=100)] = Field(
        1, description="how many times the rows are divided again, when `by: cv` or `by: holdout`"
    )
    fraction: Annotated[Number, Field(gt=0, lt=1)] = Field(0.25, description="held out when `by: holdout`")

    def division(self) -> dict[str, Any]:
        """How the rows are divided. Once needs no word: trials from before there was a choice keep their keys."""
        ways: dict[str, dict[str, Any]] = {
            "cv": {"folds": self.folds},
            "holdout": {"fraction": self.fraction},
        }
        return {**ways.get(self.by, {}), **({"repeats": self.repeats} if self.repeats > 1 else {})}


class Autoencoder(Strict):
    """The marginalised autoencoder of `aid: autoencoder`: what it deletes and what it reconstructs."""

    q: Annotated[Number, Field(gt=0, lt=1)] = 0.5
    layers: Annotated[int, BeforeValidator(no_bool), Field(ge=1, le=20)] = 5
    frequent: Count = 1000


class Prepare(Strict):
    """What is done to the columns first, learnt from the training rows alone."""

    scale: Literal["standard", "max", "none"] = Field(
        "none", description="mean 0 and standard deviation 1, largest absolute value 1, or as they are"
    )


def _grouped(value: Any) -> Any:
    """A number, a text, or a list of groups as the one text that trials are known by."""
    if isinstance(value, list | tuple):
        groups = [group if isinstance(group, list | tuple) else [group] for group in value]
        if any(isinstance(column, bool) or not isinstance(column, str | int) for g in groups for column in g):
            raise PydanticCustomError("no_groups", "expected groups of column names, numbers or ranges")
        return "; ".join(", ".join(map(str, group)) for group in groups)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        return value
    groups = [[column.strip() for column in group.split(",")] for group in value.split(";")]
    return "; ".join(", ".join(filter(None, group)) for group in groups if any(group))


ColumnGroups = Annotated[
    str, BeforeValidator(_grouped, json_schema_input_type=str | int | list[Any]), Field(min_length=1)
]


class DataEntry(Strict):
    """A data set by name or path, and what to use where it is not there."""

    name: Annotated[str, Field(min_length=1)]
    fallback: str | None = None
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="of the loader: form, terms, zero_based and the like"
    )
    select: dict[str, Any] = Field(
        default_factory=dict, description="what differs here from the item's select"
    )
    column_groups: ColumnGroups | None = Field(
        None,
        description="the columns that group_dropout and group_blankout lose together: a number of consecutive columns "
        "a group, or groups of names, numbers from 1, ranges first:last and patterns with * and ?; commas between the "
        "columns of a group, semicolons between groups",
    )


def _by_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Datum = Annotated[DataEntry, BeforeValidator(_by_name, json_schema_input_type=str | DataEntry)]


class Paper(Strict):
    """Which part of the paper an item re-runs."""

    figure: int | None = None
    table: int | None = None


RETIRED = ("section", "claims")  # keys of `paper` in 1.x, which nothing read


def without_retired(config: Any) -> Any:
    """What a run wrote down as its config, without the keys that only 1.x knew."""
    paper = config.get("paper") if isinstance(config, dict) else None
    if isinstance(paper, dict):
        for key in RETIRED:
            paper.pop(key, None)
        if not paper:
            del config["paper"]
    return config


class Fit(Strict):
    """When the optimiser stops."""

    max_iter: Count = 1000
    tol: Annotated[Number, Field(gt=0)] = 1e-3


class Config(Strict):
    """One experiment: data, methods, how they are evaluated and what is chosen on validation data."""

    item: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    title: str = ""
    paper: Paper | None = None
    task: TaskName | None = Field(
        None, description="whether the labels of your own files are classes (default) or numbers to predict"
    )
    datasets: Annotated[list[Datum], Field(max_length=100)] = Field([])
    seed: Annotated[int, BeforeValidator(no_bool), Field(ge=0, lt=2**63)] = 2013
    grid: Annotated[list[GridEntry], Field(max_length=100)] = Field([])
    select: Select = Select()
    evaluation: Evaluation = TrainTest()
    fit: Fit = Fit()
    prepare: Prepare | None = None
    autoencoder: Autoencoder | None = Field(None, description="needed by `aid: autoencoder`")
    final: Literal["train", "all"] | None = Field(
        None, description="rows that `mcf train` fits its model to: the training rows (default) or all"
    )
    missing: Literal["deleted", "mean", "conditional"] | None = Field(
        None, description="how the model of `mcf train` treats missing cells in prediction; default: deleted"
    )
    repeats: Annotated[Count, Field(le=10_000)] = 1
    profiles: dict[Profile, dict[str, Any]] = Field(
        default_factory=dict, description="what each profile overrides"
    )

    @property
    def scale(self) -> str:
        """How the columns are scaled: standard, max or none."""
        return self.prepare.scale if self.prepare else "none"

    @model_validator(mode="before")
    @classmethod
    def _split_is_the_default(cls, data: Any) -> Any:
        """``evaluation: {train: 100}`` means a split: the discriminator alone would ask for the key."""
        evaluation = data.get("evaluation") if isinstance(data, dict) else None
        if isinstance(evaluation, dict) and "protocol" not in evaluation:
            return {**data, "evaluation": {**evaluation, "protocol": "split"}}
        return data

    @model_validator(mode="after")
    def _complete(self) -> "Config":
        if isinstance(self.evaluation, Bounds):
            if self.prepare is not None:
                raise impossible("the bounds protocol uses no data", "prepare")
            return self
        if not self.datasets:
            raise impossible("needs at least one data set", "datasets")
        if not self.grid:
            raise impossible("needs at least one entry", "grid")
        for index, entry in enumerate(self.grid):
            self.check_entry(index, entry, self.select)
        return self

    def check_entry(self, index: int, entry: GridEntry, select: Select) -> None:
        """Refuse methods that the evaluation, or a selection of the item or of a data set, cannot take."""
        self._check_levels(index, entry, select)
        self._check_aids(index, entry, select)
        protocol = self.evaluation.protocol
        if self.task == "regression":
            self._check_regression(index, entry)
        if "hinge" in entry.loss and not any(entry.l2 or select.l2):
            place = ("select", "l2") if entry.l2 is None else ("grid", index, "l2")
            raise impossible("the hinge loss needs an l2 above 0", *place)
        if select.by == "loo" and set(entry.loss) != {"quadratic"}:
            raise impossible("leave-one-out selection exists for the quadratic loss only", "select", "by")
        if select.by == "loo" and "l1" in entry.penalty:
            raise impossible("leave-one-out selection exists for l2 penalties only", "select", "by")
        if select.by == "loo" and select.repeats > 1:
            raise impossible(
                "leave-one-out draws nothing at random; leave `repeats` out", "select", "repeats"
            )
        if select.by == "loo" and protocol == "explicit":
            raise impossible("leave-one-out selection is not for corrupted copies", "select", "by")
        if protocol == "loo" and set(entry.loss) != {"quadratic"}:
            raise impossible("leave-one-out exists for the quadratic loss only", "grid", index, "loss")
        if protocol == "loo" and "l1" in entry.penalty:
            raise impossible("leave-one-out exists for l2 penalties only", "grid", index, "penalty")
        if protocol == "expected-loss" and (set(entry.loss) != {"logistic"} or entry.penalty != ["l2"]):
            message = "the expected loss is measured of the logistic loss with an l2 penalty"
            raise impossible(message, "grid", index, "loss")
        if protocol == "explicit" and ("hinge" in entry.loss or "none" in entry.corruption):
            raise impossible("explicit copies need a corruption to sample from", "grid", index, "corruption")
        if protocol == "cost" and "hinge" in entry.loss:
            raise impossible("cost compares marginalised gradients; hinge has none", "grid", index, "loss")
        if protocol == "cost" and entry.q == [OBSERVED]:
            raise impossible("cost is measured at one q for all columns, not `observed`", "grid", index, "q")
        for corruption, reason in NO_COST.items():
            if protocol == "cost" and corruption in entry.corruption:
                raise impossible(f"{corruption} {reason}", "grid", index, "corruption")

    def _check_aids(self, index: int, entry: GridEntry, select: Select) -> None:
        """Refuse an aid that the protocol does not have or the method cannot use."""
        protocol = self.evaluation.protocol
        if "boosting" in entry.loss and protocol != "nightmare":
            raise impossible("boosting is a rival in the nightmare protocol only", "grid", index, "loss")
        for aid in entry.aid or ():
            if aid == "none":
                continue
            needed, losses, corruptions = AIDS[aid]
            if protocol != needed:
                raise impossible(f"`{aid}` is for the {needed} protocol", "grid", index, "aid")
            fit = not {"hinge", "boosting"} & set(entry.loss) and entry.penalty == ["l2"]
            if not fit or (losses and set(entry.loss) - set(losses)):
                message = f"`{aid}` is for {', '.join(losses or AIDED)} with an l2 penalty"
                raise impossible(message, "grid", index, "loss")
            if corruptions and set(entry.corruption) - set(corruptions):
                message = f"`{aid}` goes with corruption {' or '.join(corruptions)}"
                raise impossible(message, "grid", index, "corruption")
            if aid.endswith("-rates") and needed == "label-noise" and 0.0 in (entry.l2 or select.l2):
                raise impossible(f"`{aid}` needs l2 above 0: give it `l2` values", "grid", index, "aid")
            if aid == "unlabelled" and {"jensen", "variational"} & set(entry.surrogate or ["jensen"]):
                message = "`unlabelled` needs surrogate gaussian, exact or quadratic"
                raise impossible(message, "grid", index, "surrogate")
            if aid.startswith("autoencoder") and self.autoencoder is None:
                raise impossible(f"`{aid}` needs the block `autoencoder`", "grid", index, "aid")

    def _check_regression(self, index: int, entry: GridEntry) -> None:
        if set(entry.loss) != {"quadratic"}:
            raise impossible("regression is least squares: its loss is quadratic", "grid", index, "loss")
        if "l1" in entry.penalty:
            raise impossible("regression has the l2 penalty only", "grid", index, "penalty")
        if self.evaluation.protocol != "split":
            message = "only `mcf train` fits regressions, with the split protocol"
            raise impossible(message, "evaluation", "protocol")

    def _check_levels(self, index: int, entry: GridEntry, select: Select) -> None:
        protocol = self.evaluation.protocol
        for corruption in entry.corruption:
            level = LEVEL_OF.get(corruption)
            if level is None or getattr(entry, level) is not None:
                continue
            if protocol in ("cost", "loo"):
                message = f"{corruption} needs `{level}` here: the {protocol} protocol chooses nothing"
                raise impossible(message, "grid", index, "corruption")
            if getattr(select, level) is None:
                message = f"{corruption} needs `{level}` here or in `select`"
                raise impossible(message, "grid", index, "corruption")
