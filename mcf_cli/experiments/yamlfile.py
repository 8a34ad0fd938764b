"""Reading YAML that strangers wrote: bounded in size and depth, no anchors, every key with its place.

The values come back as ``PlacedDict`` and ``PlacedList``, a dict and a list that remember where each entry
was written, so that an error found long after parsing can still name the file and the line.
"""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mcf_cli.errors import McfError

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
            raise McfError(f"{path}: larger than {MAX_BYTES:,} bytes, which no config of this program is.")
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
