"""Reading YAML that strangers wrote: bounded in size and depth, no anchors, every key with its place.

The values come back as ``PlacedDict`` and ``PlacedList``, a dict and a list that remember where each entry
was written, so that an error found long after parsing can still name the file and the line. The kinds of value
that a config may hold are here too.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import yaml
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

from mcf_cli.errors import McfError, nearest

MAX_BYTES = 1_000_000
MAX_DEPTH = 20


class Place(NamedTuple):
    """Where a value was written: a file (or a flag) and, in a file, the line."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}, line {self.line}"


class PlacedDict(dict):
    """A dict that knows the place of each of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Place] = {}

    def put(self, key: str, value: Any, place: Place) -> None:
        self[key] = value
        self.places[key] = place


class PlacedList(list):
    """A list that knows the place of each of its items."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []

    def put(self, value: Any, place: Place) -> None:
        self.append(value)
        self.places.append(place)


def read_yaml(path: Path) -> PlacedDict:
    """The mapping that a YAML file holds, or an McfError with file and line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise McfError(f"{path}: larger than {MAX_BYTES:,} bytes, which is too large for a config.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise McfError(
            f"{path}: cannot be read ({error.strerror}). Check the path given to --config."
        ) from None
    except UnicodeDecodeError as error:
        raise McfError(f"{path}: not UTF-8 text (byte {error.start}).") from None
    value = parse_yaml(text, str(path))
    if not isinstance(value, PlacedDict):
        raise McfError(f"{path}: expected `key: value` pairs at the top, found {describe(value)}.")
    return value


def parse_yaml(text: str, source: str) -> Any:
    """Parse one YAML document after checking its depth and that it has no anchors."""
    try:
        _check_events(text, source)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _construct(loader, node, source)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise McfError(f"{_place_of(error, source)}: not valid YAML: {_problem_of(error)}.") from None


def describe(value: Any) -> str:
    """A value in the words of an error message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_events(text: str, source: str) -> None:
    """Refuse depth and anchors while scanning: composing a hostile document would already be too late."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise McfError(
                f"{Place(source, line)}: YAML anchors and aliases are not accepted; write the value out."
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise McfError(f"{Place(source, line)}: nested more than {MAX_DEPTH} levels deep.")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _construct(loader: yaml.SafeLoader, node: yaml.Node, source: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(loader, node, source)
    if isinstance(node, yaml.SequenceNode):
        items = PlacedList()
        for child in node.value:
            items.put(_construct(loader, child, source), Place(source, child.start_mark.line + 1))
        return items
    return _scalar(loader, node, source)


def _scalar(loader: yaml.SafeLoader, node: yaml.Node, source: str) -> Any:
    """A word, a number or a date; what only looks like one (a number of 5,000 digits, 2013-99-99) is an error."""
    try:
        return loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        place = Place(source, node.start_mark.line + 1)
        raise McfError(f"{place}: {describe(node.value)} cannot be read ({str(error)[:80]}).") from None


def _construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, source: str) -> PlacedDict:
    pairs = PlacedDict()
    for key_node, value_node in node.value:
        place = Place(source, key_node.start_mark.line + 1)
        key = _scalar(loader, key_node, source) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            raise McfError(f"{place}: a key must be a word, found {describe(key)}.")
        if key in pairs:
            raise McfError(f"{place}: `{key}` is given twice (first on line {pairs.places[key].line}).")
        pairs.put(key, _construct(loader, value_node, source), place)
    return pairs


def _place_of(error: yaml.YAMLError, source: str) -> Place:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return Place(source, mark.line + 1 if mark else None)


def _problem_of(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]


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


OBSERVED = "observed"  # the q of each column is the share of it that is missing in the training rows


def _rates_shape(value: Any) -> str:
    return "rates" if value in (OBSERVED, [OBSERVED]) else "numbers"


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


if TYPE_CHECKING:  # what a field holds once it is valid, however it was written
    Numbers = list[float]
    Probabilities = list[float]
    Strengths = list[float]
    Counts = list[int]
    Sizes = list[int]
    Rates = list[Any]
else:
    Numbers = Annotated[
        Annotated[Range, Tag("range")]
        | Annotated[list[Number], Tag("list")]
        | Annotated[Number, Tag("value")],
        Discriminator(_shape),
        AfterValidator(_spread),
    ]
    Counts = Annotated[Numbers, AfterValidator(_whole)]
    Sizes = Annotated[Counts, AfterValidator(_above_zero)]
    Probabilities = Annotated[Numbers, AfterValidator(_probabilities)]
    Strengths = Annotated[Numbers, AfterValidator(_non_negative)]
    Rates = Annotated[
        Annotated[
            list[Literal["observed"]],
            BeforeValidator(_listed, json_schema_input_type=Literal["observed"]),
            Tag("rates"),
        ]
        | Annotated[Probabilities, Tag("numbers")],
        Discriminator(_rates_shape),
    ]
