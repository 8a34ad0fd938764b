"""The kinds of value a config may hold, and errors that name the nearest valid word."""

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mcf_cli.datasets.registry import nearest

MAX_RANGE = 10_000


def impossible(message: str, *path: str | int) -> PydanticCustomError:
    """A refusal that points at ``path`` below the model that raises it."""
    return PydanticCustomError("impossible", "{message}", {"message": message, "path": list(path)})


class Strict(BaseModel):
    """Unknown keys are refused with the nearest key that exists."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known and key not in cls.model_fields:
                    raise impossible(f"unknown key `{key}`{nearest(key, known)}", key)
        return data


def no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "expected a number, found {value}", {"value": str(value)})
    return value


Number = Annotated[float, BeforeValidator(no_bool)]
Count = Annotated[int, BeforeValidator(no_bool), Field(ge=1)]


class Range(Strict):
    """``{from: 0, to: 0.9, step: 0.1}``, ends included; ``factor`` in place of ``step`` for a log scale."""

    start: Number = Field(alias="from")
    to: Number
    step: Annotated[Number, Field(gt=0)] | None = None
    factor: Annotated[Number, Field(gt=1)] | None = None

    @model_validator(mode="after")
    def _one_way_to_move(self) -> "Range":
        if (self.step is None) == (self.factor is None):
            raise impossible("a range needs either `step` or `factor`")
        if self.to < self.start:
            raise impossible(f"a range must run upwards, not from {self.start:g} to {self.to:g}", "to")
        if self.factor is not None and self.start <= 0:
            raise impossible("a range with `factor` must start above 0", "from")
        if self._length() > MAX_RANGE:
            raise impossible(f"a range of more than {MAX_RANGE:,} values")
        return self

    def _length(self) -> float:
        if self.factor is not None:
            return math.log(self.to / self.start) / math.log(self.factor) + 1
        return (self.to - self.start) / (self.step or 1) + 1

    def values(self) -> list[float]:
        """The values, rounded so that 0.1 * 3 is 0.3 in every row and key."""
        steps = range(int(self._length() + 1e-9))
        if self.factor is not None:
            return [float(f"{self.start * self.factor**i:.10g}") for i in steps]
        return [round(self.start + i * (self.step or 0), 12) for i in steps]


def _shape(value: Any) -> str:
    if isinstance(value, dict | Range):
        return "range"
    return "list" if isinstance(value, (list, tuple)) else "value"


def _spread(value: Any) -> list:
    """One value, a list or a range, as a list without repeats."""
    values = (
        value.values() if isinstance(value, Range) else value if isinstance(value, list | tuple) else [value]
    )
    if not values:
        raise PydanticCustomError("empty", "expected at least one value")
    return list(dict.fromkeys(values))


def _whole(values: list[float]) -> list[int]:
    for value in values:
        if value != int(value) or value < 0:
            raise PydanticCustomError("not_whole", "expected whole numbers, found {value}", {"value": value})
    return [int(value) for value in values]


def _above_zero(values: list[int]) -> list[int]:
    if 0 in values:
        raise PydanticCustomError("zero", "expected 1 or more, found 0")
    return values


Numbers = Annotated[
    Annotated[Range, Tag("range")] | Annotated[list[Number], Tag("list")] | Annotated[Number, Tag("value")],
    Discriminator(_shape),
    AfterValidator(_spread),
]
Counts = Annotated[Numbers, AfterValidator(_whole)]
Sizes = Annotated[Counts, AfterValidator(_above_zero)]


def words(kind: Any) -> Any:
    """One of the words of a Literal, or a list of them."""
    return Annotated[
        Annotated[list[kind], Tag("list")] | Annotated[kind, Tag("value")],
        Discriminator(_shape),
        AfterValidator(_spread),
    ]


def _probabilities(values: list[float]) -> list[float]:
    for value in values:
        if not 0 <= value < 1:
            raise PydanticCustomError("bad_q", "must lie in [0, 1), found {value}", {"value": value})
    return values


def _non_negative(values: list[float]) -> list[float]:
    for value in values:
        if value < 0:
            raise PydanticCustomError("negative", "must not be negative, found {value}", {"value": value})
    return values


Probabilities = Annotated[Numbers, AfterValidator(_probabilities)]
Strengths = Annotated[Numbers, AfterValidator(_non_negative)]
