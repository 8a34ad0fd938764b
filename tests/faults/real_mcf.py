"""The command as users start it, a process of its own, and a sweep small enough to be killed many times."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.experiments.tiny import without_seconds

ROOT = Path(__file__).parents[2]
TRIALS = 40
SWEEP = [
    *("sweep-q", "--dataset", "builtin-digits", "--loss", "quadratic", "--corruption", "blankout"),
    *("--q", "0:0.78:0.02", "--set", "evaluation.train=80", "--set", "evaluation.test=100"),
    *("--set", "select.by=holdout", "--set", "select.l2=[0.01,0.1]"),
]
COMPARED = ("table.csv", "table.md", "config.yaml", "figure.svg", "figure.png")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def start(*arguments: object, limits: Callable[[], None] | None = None, **environment: str) -> Any:
    """Start ``python -m mcf_cli`` with the arguments; ``limits`` is called in it before it begins."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "mcf_cli", *map(str, arguments)],
        env=inherited | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limits,
    )


def mcf(*arguments: object, **options: Any) -> Result:
    """The command, run to its end."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return Result(process.returncode, out, err)


def refused(result: Result) -> str:
    """The words of a command that gave up as it should: a line or two, no traceback."""
    assert result.code in (1, 2), result
    assert "Traceback" not in result.err and result.err.count("mcf: ") == 1, result.err
    return result.err


def results_in(out: Path, item: str = "sweep-q") -> dict[str, object]:
    """What must come out the same byte for byte, and the rows without their timings."""
    folder = out / item
    same = {name: (folder / name).read_bytes() for name in COMPARED}
    files = sorted(path.name for path in folder.iterdir())
    return {**same, "rows": without_seconds(folder / "rows.csv"), "files": files}


def store_in(out: Path, item: str = "sweep-q") -> Path:
    return out / ".cache" / item / "trials.jsonl"


def until(condition: Callable[[], bool], process: Any, every: float = 0.002) -> None:
    """Return as soon as the condition holds or the process has ended."""
    while not condition():
        try:
            process.wait(every)
        except subprocess.TimeoutExpired:
            continue
        return


def kill(process: Any) -> bool:
    """SIGKILL; whether it was still there to be killed. Its pipes close only when its workers are gone too."""
    process.kill()
    process.communicate(timeout=60)
    return process.returncode < 0
