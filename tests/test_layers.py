"""Imports point one way: commands -> reporting, experiments -> datasets, baselines -> core; scale -> datasets, core."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "mcf_cli"
MAY_IMPORT = {
    "core": set(),
    "baselines": {"core"},
    "datasets": set(),
    "scale": {"core", "datasets"},
    "experiments": {"core", "baselines", "datasets"},
    "reporting": {"core", "datasets", "experiments"},
    "commands": {"core", "baselines", "datasets", "experiments", "reporting"},
}
SHARED = {"errors", "version"}  # anyone but core
NUMERIC = {"numpy", "scipy", "sklearn", "numba", "threadpoolctl"}
MODULES = [path for layer in MAY_IMPORT for path in sorted((ROOT / layer).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_from_its_own_layer_or_below(path):
    layer = path.relative_to(ROOT).parts[0]
    allowed = MAY_IMPORT[layer] | {layer} | (SHARED if layer != "core" else set())
    own = {name.split(".")[1] for name in imported(path) if name.startswith("mcf_cli.")} & set(MAY_IMPORT)
    assert own <= allowed


@pytest.mark.parametrize("path", sorted((ROOT / "core").glob("*.py")), ids=lambda path: path.name)
def test_core_is_mathematics_alone(path):
    import sys

    outside = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - {"mcf_cli"}
    assert outside <= NUMERIC
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open", "input", "eval", "exec"}
