"""The map in CONTRIBUTING.md: every file and folder is there, and every name is defined where the map says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
TOP = ("mcf_cli/", "tests/", "configs/", "docs/", "benchmarks/")
ANSWERS = re.findall(r"^\| (.+\?) \| `(.+\.py)` \| `(\w+)` \|$", TEXT, re.MULTILINE)


def test_it_answers_ten_questions():
    assert len(ANSWERS) >= 10


@pytest.mark.parametrize(("question", "file", "name"), ANSWERS)
def test_the_answer_is_where_the_map_says(question, file, name):
    defined = [node.name for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")]
    assert name in defined


def test_every_path_it_names_is_there():
    paths = [word for word in re.findall(r"`([^`\s]+)`", TEXT) if word.startswith(TOP)]
    assert len(paths) > 25
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_folder_of_the_package_has_a_line():
    folders = {f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "mcf_cli").rglob("__init__.py")}
    lines = re.findall(r"^\| `(.+/)` \| ", TEXT, re.MULTILINE)
    assert folders - {"mcf_cli/"} <= set(lines)


def test_the_way_of_the_data_goes_through_modules_that_are_there():
    (diagram,) = re.findall(r"## The way of the data\n(.*?)\nEvery loss", TEXT, re.DOTALL)
    stations = re.findall(r"\b((?:cli|experiments|core|reporting)/\w+)", diagram)
    assert len(stations) > 10
    package = ROOT / "mcf_cli"
    assert [s for s in stations if not ((package / s).is_dir() or (package / f"{s}.py").is_file())] == []
