"""From a YAML file, a profile and flags to one valid Config: flag over file, file over default.

The paper's items are one YAML file each in configs/, our own questions in configs/beyond/.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcf_cli.datasets.userfile import PACKED_SUFFIXES, file_format
from mcf_cli.errors import McfError, nearest
from mcf_cli.experiments.config import LEVEL_OF, LEVELS, PROFILES, Config, without_retired
from mcf_cli.yamlfile import Place, PlacedDict, PlacedList, describe, parse_yaml, read_yaml

# Where `mcf reproduce` writes by default: only the paper's scale touches the committed results.
FOLDERS = {"paper": Path("results"), "quick": Path("results/quick"), "smoke": Path("results/smoke")}
DEMO = Path("results/demo")  # what `make demo` runs into
SCRATCH = Path("results/scratch")  # where every other command does
CLAIMS = "claims.yaml"  # what the report asks of the items; lies beside their configs
BEYOND = "beyond"  # the folder of our own items, below the configs and below each results folder


def results_folder(profile: str, beyond: bool = False) -> Path:
    """Where the paper's items of a profile go, or those beyond the paper."""
    folder = FOLDERS.get(profile, FOLDERS["paper"])
    return folder / BEYOND if beyond else folder


def claims_file(beyond: bool = False) -> Path:
    """The paper's claims, or ours beyond it; they come with the configs."""
    return _of_kind(configs_folder(), beyond) / CLAIMS


def shipped_items(beyond: bool = False) -> set[str]:
    """The names of the paper's items, or of those beyond it, that came with this code."""
    return {path.stem for path in item_files(_of_kind(configs_folder(), beyond))}


def _of_kind(folder: Path, beyond: bool) -> Path:
    return folder / BEYOND if beyond else folder


def configs_folder(given: Path | None = None) -> Path:
    """The folder given, else the one that came with this code: beside the package, or in a wheel inside it."""
    package = Path(__file__).resolve().parents[1]
    for folder in [given] if given else [package.parent / "configs", package / "configs"]:
        if (folder / CLAIMS).is_file() or (given and folder.is_dir()):
            return folder
    wanted = f"{given} is not a folder" if given else "this installation lacks the paper's configs"
    raise McfError(f"{wanted}: give their folder with --configs.")


def config_file(path: Path) -> Path:
    """The file itself; configs/... means a config that came with this code where there is no such file here."""
    if not path.exists() and path.parts[:1] == ("configs",):
        shipped = configs_folder().joinpath(*path.parts[1:])
        if shipped.is_file():
            return shipped
    return path


def item_files(folder: Path, names: tuple[str, ...] = ()) -> list[Path]:
    """The configs of the named items, of all items without names, in the order of the paper."""
    files = [path for path in folder.glob("*.yaml") if path.name != CLAIMS]
    known = {path.stem: path for path in sorted(files, key=_paper_order)}
    for name in names:
        if name not in known:
            raise McfError(f"there is no item {name!r}{nearest(name, known)}")
    return [known[name] for name in names] if names else list(known.values())


def _paper_order(path: Path) -> tuple[int, int, str]:
    """fig1 before fig10, figures before tables before the rest."""
    stem = path.stem
    kind = next((rank for rank, prefix in enumerate(("fig", "table")) if stem.startswith(prefix)), 2)
    digits = "".join(ch for ch in stem if ch.isdigit())
    return kind, int(digits or 0), stem


OPTION_OF = {"lambdas": "lambda"}  # the options that are not called like the key they set


@dataclass(frozen=True)
class LoadedConfig:
    """A valid config, its profile, and the tree that remembers where each value was written."""

    config: Config
    tree: PlacedDict
    profile: str | None = None
    origins: Sequence[int] | None = None  # the places in the tree's grid of the entries that are left of it
    asked: Sequence[str] | None = (
        None  # with a built-in grid: the corruptions the user named; others may be left out
    )

    def error(self, path: Iterable[str | int], message: str) -> McfError:
        """An error about the value at ``path``, with the file and line it was written in."""
        match list(path):
            case ["grid", int(index), *rest] if self.origins is not None:
                return _error(self.tree, ["grid", self.origins[index], *rest], message)
            case known:
                return _error(self.tree, known, message)


def load_config(
    source: Path | Mapping[str, Any],
    *,
    profile: str | None = None,
    settings: Iterable[str] = (),
    flags: Mapping[str, Any] | None = None,
    datasets: Sequence[str] = (),
    file_options: Mapping[str, Any] | None = None,
    column_groups: str | None = None,
    method: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Read a file (or a built-in default), apply the profile, then flags, then ``--set``, and validate.

    ``settings`` are ``a.b=value`` strings; ``flags`` maps dotted paths to values; ``datasets`` are the names that
    ``--dataset`` gave; ``file_options`` say how to read those that are files of the user; ``column_groups`` is
    for all data sets; ``method`` holds flags
    for the grid's entry, where it has no other; ``defaults`` stand below the file, key by key.
    """
    tree = _read(source) if isinstance(source, Path) else placed(source, Place("built-in default"))
    if defaults:
        tree = merged(placed(defaults, Place("built-in default")), tree)
    for name in _profiles_of(tree):  # a profile nobody asked for today must not surprise anybody tomorrow
        _validate(_resolved(tree, name))
    resolved = _resolved(tree, profile)
    flags = dict(flags or {})
    if method and len(resolved.get("grid", ())) == 1:
        _make_room(resolved, method)
        flags |= {f"grid.0.{key}": value for key, value in method.items()}
    for path, value in flags.items():
        words = path.split(".")
        _assign(resolved, words, value, f"--{OPTION_OF.get(words[-1], words[-1])}")
    if datasets:
        _choose_data(resolved, datasets)
    if file_options:
        _describe_files(resolved, file_options)
    if column_groups is not None:
        _describe_groups(resolved, column_groups)
    for setting in settings:
        place, value = parse_setting(setting)
        _assign(resolved, place, value, f"--set {setting}")
    return LoadedConfig(_validate(resolved), resolved, profile)


def _read(path: Path) -> PlacedDict:
    """A user's file, or the config that a run, perhaps of 1.x, left beside its rows."""
    path = config_file(path)
    tree = read_yaml(path)
    return without_retired(tree) if path.with_name("rows.csv").exists() else tree


def parse_setting(setting: str) -> tuple[list[str], Any]:
    """``select.folds=3`` as (["select", "folds"], 3); the value is YAML."""
    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise McfError(
            f"--set {setting}: expected key=value, with dots between keys, as in --set select.folds=3."
        )
    return path.strip().split("."), parse_yaml(value, f"--set {setting}")


def placed(value: Any, place: Place) -> Any:
    """A copy of a plain tree in which every value is said to come from ``place``."""
    if isinstance(value, Mapping):
        pairs = PlacedDict()
        for key, child in value.items():
            pairs.put(key, placed(child, place), place)
        return pairs
    if isinstance(value, list | tuple):
        items = PlacedList()
        for child in value:
            items.put(placed(child, place), place)
        return items
    return value


def merged(below: PlacedDict, above: PlacedDict) -> PlacedDict:
    """``above`` laid over ``below``: mappings merge key by key, anything else is replaced."""
    result = PlacedDict()
    for key, value in below.items():
        result.put(key, value, below.places[key])
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, PlacedDict) and isinstance(value, PlacedDict):
            value = merged(old, value)
        result.put(key, value, above.places[key])
    return result


def _profiles_of(tree: PlacedDict) -> list[str | None]:
    profiles = tree.get("profiles")
    return [None, *(name for name in PROFILES if isinstance(profiles, PlacedDict) and name in profiles)]


def _resolved(tree: PlacedDict, profile: str | None) -> PlacedDict:
    """The tree with a profile laid over it."""
    if profile is not None and profile not in PROFILES:
        raise McfError(f"there is no profile {profile!r}{nearest(profile, PROFILES)}")
    profiles = tree.get("profiles")
    overrides = profiles.get(profile) if isinstance(profiles, PlacedDict) else None
    if not overrides:
        return tree
    if not isinstance(overrides, PlacedDict):
        raise _error(
            tree, ["profiles", str(profile)], f"expected `key: value` pairs, found {describe(overrides)}"
        )
    base = PlacedDict()
    for key, value in tree.items():
        if key != "profiles":
            base.put(key, value, tree.places[key])
    return merged(base, overrides)


def _make_room(tree: PlacedDict, method: Mapping[str, Any]) -> None:
    """Take out of the grid's one entry what it says of the corruption or loss that a flag replaces."""
    foreign: set[str] = set()
    if "corruption" in method:
        corruption = method["corruption"]
        foreign |= set(LEVELS) - {LEVEL_OF.get(corruption)} | ({"clip"} if corruption != "poisson" else set())
    if method.get("loss", "logistic") != "logistic":
        foreign |= {"surrogate", "multiclass"}
    entry, kept, grid = tree["grid"][0], PlacedDict(), PlacedList()
    for key, value in entry.items():
        if key not in foreign:
            kept.put(key, value, entry.places[key])
    grid.put(kept, tree["grid"].places[0])
    tree.put("grid", grid, tree.places["grid"])


def _choose_data(tree: PlacedDict, names: Sequence[str]) -> None:
    """The named data sets only, each as the config describes it where it does."""
    described: list[Any] = [entry for entry in tree.get("datasets", ()) if isinstance(entry, PlacedDict)]
    chosen, place = PlacedList(), Place("--dataset")
    for name in names:
        for entry in [entry for entry in described if entry["name"] == name] or [name]:
            chosen.put(entry, place)
    tree.put("datasets", chosen, place)


def _describe_files(tree: PlacedDict, options: Mapping[str, Any]) -> None:
    """``--label`` and ``--test`` become options of the files among the data sets."""
    entries, flags = PlacedList(), " and ".join(f"--{name}" for name in options)
    files = 0
    for entry in tree.get("datasets") or ():
        name = entry.get("name") if isinstance(entry, PlacedDict) else entry
        if isinstance(name, str) and file_format(name):
            files += 1
            described = placed({"name": name, "options": options}, Place(flags))
            entry = merged(entry, described) if isinstance(entry, PlacedDict) else described
        entries.put(entry, Place(flags))
    if not files:
        raise McfError(
            f"{flags} can only go with a file of your own: give it with --dataset FILE ({PACKED_SUFFIXES})."
        )
    if files > 1 and "test" in options:
        raise McfError(f"--test {options['test']} needs exactly one --dataset FILE; there are {files}.")
    tree.put("datasets", entries, tree.places["datasets"])


def _describe_groups(tree: PlacedDict, groups: str) -> None:
    """``--column-groups`` is a word about every data set."""
    entries, place = PlacedList(), Place("--column-groups")
    for entry in tree.get("datasets") or ():
        described = placed({"name": entry} if isinstance(entry, str) else {}, place)
        described.put("column_groups", groups, place)
        entries.put(merged(entry, described) if isinstance(entry, PlacedDict) else described, place)
    if not entries:
        raise McfError("--column-groups needs a data set whose columns it can group.")
    tree.put("datasets", entries, tree.places["datasets"])


def _assign(tree: PlacedDict, path: list[str], value: Any, source: str) -> None:
    """Set one value in a copy-on-write fashion along ``path``; numbers index lists."""
    node: Any = tree
    place = Place(source)
    for depth, word in enumerate(path[:-1]):
        node = _step(node, word, place, ".".join(path[: depth + 1]))
    _put(node, path[-1], placed(value, place), place, ".".join(path))


def _step(node: Any, word: str, place: Place, shown: str) -> Any:
    if isinstance(node, PlacedDict):
        child = node.get(word)
        child = merged(PlacedDict(), child) if isinstance(child, PlacedDict) else child
        if isinstance(child, PlacedList):
            child = _copy_list(child)
        if child is None:
            child = PlacedDict()
        node.put(word, child, node.places.get(word, place))
        return child
    if isinstance(node, PlacedList):
        index = _index(node, word, place, shown)
        if isinstance(node[index], PlacedDict):
            node[index] = merged(PlacedDict(), node[index])
        return node[index]
    raise McfError(f"{place}: `{shown}` goes through {describe(node)}, which has no keys.")


def _put(node: Any, word: str, value: Any, place: Place, shown: str) -> None:
    if isinstance(node, PlacedDict):
        node.put(word, value, place)
    elif isinstance(node, PlacedList):
        index = _index(node, word, place, shown)
        node[index], node.places[index] = value, place
    else:
        raise McfError(f"{place}: `{shown}` goes through {describe(node)}, which has no keys.")


def _index(node: PlacedList, word: str, place: Place, shown: str) -> int:
    if not word.isdecimal() or int(word) >= len(node):
        raise McfError(f"{place}: `{shown}`: expected a number from 0 to {len(node) - 1}, found {word!r}.")
    return int(word)


def _copy_list(items: PlacedList) -> PlacedList:
    copy = PlacedList()
    for item, place in zip(items, items.places, strict=True):
        copy.put(item, place)
    return copy


def _validate(tree: PlacedDict) -> Config:
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        path, message = _explain(problems[0])
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise _error(tree, path, message + more) from None


def _explain(problem: Mapping[str, Any]) -> tuple[list[str | int], str]:
    """Pydantic's report as a path and a sentence with the expected value and the nearest valid word."""
    path, found, context = list(problem["loc"]), problem["input"], problem.get("ctx", {})
    match problem["type"]:
        case "impossible":
            return path + context["path"], context["message"]
        case "missing":
            return path, "is missing"
        case "literal_error":
            return path, f"unknown word {found!r}{nearest(found, _quoted(context['expected']))}"
        case "union_tag_invalid":
            known = _quoted(context["expected_tags"])
            return [*path, "protocol"], f"unknown word {context['tag']!r}{nearest(context['tag'], known)}"
        case "list_type" | "tuple_type":
            return path, f"expected a list, found {describe(found)}"
        case "model_type" | "model_attributes_type" | "dict_type" | "union_tag_not_found":
            return path, f"expected `key: value` pairs, found {describe(found)}"
    message = problem["msg"].replace("Input should be", "expected", 1)
    return path, message if "found" in message else f"{message}, found {describe(found)}"


def _quoted(words: str) -> list[str]:
    return words.replace("'", "").replace(" or ", ", ").split(", ")


def _error(tree: Any, path: list[str | int], message: str) -> McfError:
    """Follow ``path`` as far as it was written down; the deepest known place is the one to show."""
    place, shown = None, []
    for word in path:
        if _has(tree, word):
            place, tree = tree.places[word], tree[word]
        elif word in ("range", "list", "value", "rates", "numbers") or (
            isinstance(tree, PlacedDict) and tree.get("protocol") == word
        ):
            continue  # the names of pydantic's union branches: nothing the user wrote
        shown.append(_cut(str(word), 60))
    if place is None:
        places = list(tree.places.values())
        place = Place(places[0].source if places else "config")
    message = _cut(message, 400)
    return McfError(
        f"{place}: {'.'.join(shown)}{': ' if shown else ''}{message}{'' if message[-1] in '?.' else '.'}"
    )


def _cut(text: str, length: int) -> str:
    """What a stranger wrote may be long; an error message may not."""
    return text if len(text) <= length else text[:length] + "..."


def _has(tree: Any, word: str | int) -> bool:
    if isinstance(tree, PlacedDict):
        return word in tree
    return isinstance(tree, PlacedList) and isinstance(word, int) and word < len(tree)
