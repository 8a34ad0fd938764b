"""docs/tutorial.md, followed by the letter in an empty folder: every command and script runs and prints what is shown.

Consecutive python blocks are one script, as the page says. A yaml block is the file that its first line names.
What is printed must be what is shown, word for word, but for two things. `...` stands for anything. Error rates (two
decimals) and numbers of wrong predictions may be off by `ROWS` of the some 360 test rows, because another build of
the linear algebra may put a row that lies on a boundary on its other side.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import mcf_cli
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
NOT_RUN = ["pip install ."]  # it would change the environment that runs the tests
ROWS, OF = 2, 359
MARK = "---- end of block {} ----"


@dataclass(frozen=True)
class Block:
    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class Step:
    """What is done, and what the page shows of its output."""

    line: int
    action: str
    shown: str


def blocks() -> list[Block]:
    page = PAGE.read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [Block(page.count("\n", 0, match.start()) + 1, *match.groups()) for match in found]


def commands(block: Block) -> list[Step]:
    """The `$` lines of a console block, each with the lines up to the next."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"line {block.line}: a console block starts with a command"
    return [Step(block.line, *pair) for pair in zip(parts[1::2], parts[2::2], strict=True)]


def shown_after(block: Block) -> str:
    """The text block that follows a python block; a script without one prints nothing."""
    following = blocks()[blocks().index(block) + 1 :]
    return following[0].text if following and following[0].kind == "text" else ""


def matches(shown: str, printed: str) -> bool:
    """Whether the whole output is what is shown, with what was left out and measured numbers that are close."""
    words = shown.split()
    pattern, measured = "", []
    for number, word in enumerate(words):
        value = re.fullmatch(r"(\d+\.\d\d)(%?[,;:)]*)", word)
        if word == "...":
            pattern += r"(?:\S+ )*?"
        elif value:
            measured.append((float(value[1]), 100 * ROWS / OF))
            pattern += rf"(\d+\.\d\d){re.escape(value[2])} "
        elif word.isdigit() and re.match(r"of \d+ predictions", " ".join(words[number + 1 : number + 4])):
            measured.append((int(word), ROWS))
            pattern += r"(\d+) "
        else:
            pattern += re.escape(word) + " "
    found = re.fullmatch(pattern, "".join(f"{word} " for word in printed.split()))
    return found is not None and all(
        abs(float(now) - then) <= room + 1e-9
        for now, (then, room) in zip(found.groups(), measured, strict=True)
    )


@pytest.fixture
def shell(tmp_path):
    """Runs a command line in the reader's folder, where `mcf` is this checkout; returns what a terminal shows."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, line in {"python": "", "mcf": "-m mcf_cli"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {line} "$@"\n')
        (programs / name).chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "MCF_DATA_HOME": str(tmp_path / "no-data"),
        "OMP_NUM_THREADS": "1",
    }

    def run(line: str, **options: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=environment, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout

    run.folder = folder
    return run


def run_script(shell, script: list[Block]) -> None:
    """The blocks as one process; a mark printed after each tells their outputs apart."""
    marks = [MARK.format(block.line) for block in script]
    pieces = [f"{block.text}\nprint({mark!r})\n" for block, mark in zip(script, marks, strict=True)]
    printed = shell("python -", input="\n".join(pieces))
    for block, mark in zip(script, marks, strict=True):
        output, printed = printed.split(f"{mark}\n")
        check(Step(block.line, "the python block", shown_after(block)), output)


def check(step: Step, printed: str) -> None:
    assert matches(step.shown, printed), (
        f"line {step.line}, {step.action}: shown\n{step.shown}\nprinted\n{printed}"
    )


def test_every_command_and_script_prints_what_is_shown(shell):
    skipped, script = [], []
    for block in [*blocks(), Block(0, "end", "")]:
        if block.kind in ("console", "yaml", "end") and script:
            run_script(shell, script)
            script = []
        if block.kind == "python":
            script.append(block)
        elif block.kind == "yaml":
            name = re.match(r"# (\S+\.yaml)\n", block.text)[1]
            (shell.folder / name).write_text(block.text)
        elif block.kind == "console":
            for step in commands(block):
                if step.action in NOT_RUN:
                    skipped.append(step.action)
                else:
                    check(step, shell(step.action))
    assert skipped == NOT_RUN


def test_every_block_is_of_a_kind_that_is_run_or_compared():
    kinds = [block.kind for block in blocks()]
    assert set(kinds) == {"console", "python", "yaml", "text"}
    assert PAGE.read_text().count("```") == 2 * len(kinds)
    assert all(before == "python" for before, kind in pairwise(kinds) if kind == "text")


def test_every_corruption_and_the_commands_for_own_data_are_on_the_page():
    page = PAGE.read_text()
    names = [
        name for name, module in mcf_cli._PUBLIC.items() if module == "mcf_cli.core.corruptions.elementwise"
    ]
    assert [name for name in names if f"`{name}(" not in page] == []
    for command in ("data info", "config check", "train", "predict", "sweep-q", "nightmare --deletion 0.5"):
        assert f"$ mcf {command} " in page


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a ...\nb", "a 1 2\n3\nb\n", True),
        ("a\nb", "a\nmore\nb\n", False),
        ("error 2.79%", "error 3.06%\n", True),
        ("error 2.79%", "error 3.62%\n", False),
        ("94 of 360 predictions differ", "96 of 360 predictions differ", True),
        ("94 of 360 predictions differ", "97 of 360 predictions differ", False),
        ("1,437 rows, l2=0.01", "1,436 rows, l2=0.01", False),
        ("1,437 rows, l2=0.01", "1,437 rows, l2=0.02", False),
    ],
)
def test_what_counts_as_the_same_output(shown, printed, same):
    assert matches(shown, printed) is same
