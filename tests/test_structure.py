"""The house stays small: few modules, short functions, one owner for every name, files in few hands."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "mcf_cli"
MODULES = sorted(ROOT.rglob("*.py"))
EVERY_MODULE = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))

# Names with more than one owner, and why.
SHARED_NAMES = {
    "load": "mcf_cli.load opens a model file, mcf_cli.datasets.load a data set: both are public and stay",
}
WRITING = {
    "open",
    "write_text",
    "write_bytes",
    "read_text",
    "read_bytes",
    "savez",
    "save",
    "tofile",
    "fromfile",
}
WRITING |= {"load", "loadtxt", "savetxt", "memmap", "mkdir", "unlink", "rename", "touch", "rmdir"}


def public_names(path: Path) -> Iterator[str]:
    """The public classes, functions and values that a module defines; what it imports is another's."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inner = [node for target in targets for node in ast.walk(target)]
            names = [n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def test_there_are_few_modules():
    assert len(MODULES) <= 139  # 105 when the house was built; each capability since has a room of its own


@pytest.mark.parametrize(("folder", "most"), [("experiments", 14), ("cli", 9)])
def test_a_folder_is_read_in_one_go(folder, most):
    files = [path.name for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]
    assert len(files) <= most, files


def test_a_public_name_has_one_owner():
    owners = defaultdict(set)
    for path in MODULES:
        for name in public_names(path):
            owners[name].add(str(path.relative_to(ROOT)))
    shared = {name: sorted(paths) for name, paths in owners.items() if len(paths) > 1}
    assert shared.keys() == SHARED_NAMES.keys(), shared


@EVERY_MODULE
def test_a_module_has_at_most_450_lines_and_its_functions_60(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 450
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno - f.lineno >= 60}
    assert not long, long


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.is_relative_to(ROOT / "core") and path.name != "model_file.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_core_touches_no_file_but_the_model_file(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    called = {getattr(function, "attr", getattr(function, "id", "")) for function in calls}
    assert not called & WRITING


def test_cores_are_counted_in_one_place():
    """A container's limit would else be forgotten where a copy does not know of it."""
    counting = [path for path in MODULES if "sched_getaffinity" in path.read_text()]
    assert [str(path.relative_to(ROOT)) for path in counting] == ["core/kernels/threads.py"]
