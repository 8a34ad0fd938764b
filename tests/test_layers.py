"""Imports point one way: cli -> reporting, experiments -> datasets, baselines, scale -> core."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "mcf_cli"
LAYERS = {
    "core": set(),
    "baselines": {"core"},
    "datasets": {"core"},
    "scale": {"core", "datasets"},
    "experiments": {"core", "baselines", "datasets", "scale"},
    "reporting": {"core", "datasets", "experiments"},
    "cli": {"core", "baselines", "datasets", "scale", "experiments", "reporting"},
}
FOUNDATION = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}  # below all layers
OF_CORE = {"files", "errors", "version"}  # what core may use of it, for model files alone
NUMERIC = {"numpy", "scipy", "sklearn", "numba", "threadpoolctl"}
PLOTTING = {"estimators_cv.py": {"matplotlib"}}  # on first use of `plot_path`
MODULES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever it does; imports for type checkers alone do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def parts_used(path: Path) -> set[str]:
    """The layers and foundation modules of ours that a file imports."""
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("mcf_cli.")}
    return ours & (set(LAYERS) | FOUNDATION)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_from_its_own_layer_or_below(path):
    layer = path.relative_to(ROOT).parts[0]
    allowed = LAYERS[layer] | {layer} | (FOUNDATION if layer != "core" else OF_CORE)
    assert parts_used(path) <= allowed


@pytest.mark.parametrize("name", sorted(FOUNDATION))
def test_the_foundation_rests_on_nothing(name):
    assert parts_used(ROOT / f"{name}.py") <= FOUNDATION


@pytest.mark.parametrize(
    "path", sorted((ROOT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_core_is_mathematics_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - {"mcf_cli"}
    assert outside <= NUMERIC | PLOTTING.get(path.name, set())
    if path.name == "model_file.py":
        return
    assert not parts_used(path) & FOUNDATION
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open", "input", "eval", "exec"}
