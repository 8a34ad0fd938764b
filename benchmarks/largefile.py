"""Peak memory of `mcf train`, `mcf sweep-q` and `mcf predict` on a file that is larger than a share of memory.

`python -m benchmarks.largefile --megabytes 1000` writes seeded Zipf counts as svmlight text (`--format csv`: columns of
digits), runs each command in a process of its own and prints its peak resident memory beside the size of the file.
`--in-memory` runs them with the file in memory instead. Exit code 1: a peak above 500 MB and three times the file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.scale import noisy_labels
from benchmarks.shapes import zipf_shape

AT_ONCE = 5_000  # rows
TERMS, WORDS, DIGITS = 50_000, 130, 784
BOUND = 3.0  # times the file
FLOOR = 500e6  # bytes that the program and a chunk may take with any file
METHOD = ("--corruption", "blankout", "--q", "0.5", "--set", "select.l2=[0.001]")
COMMANDS = {
    "train": ("train", *METHOD, "--dataset"),
    "train, l2 by 5 folds": ("train", "--corruption", "blankout", "--q", "0.5", "--l2", "0.001,0.01", "--dataset"),
    "sweep-q": ("sweep-q", "--loss", "logistic", "--corruption", "blankout", "--q", "0,0.5",
                "--set", "select.l2=[0.001]", "--dataset"),
}  # fmt: skip


def svmlight_lines() -> Iterator[str]:
    """Documents without end: a label, and the counts of their terms."""
    seed = 0
    while True:
        shape = zipf_shape("zipf", AT_ONCE, TERMS, 2, WORDS, seed=seed)
        X, labels = shape.X, noisy_labels(shape)
        for label, start, end in zip(labels.tolist(), X.indptr[:-1], X.indptr[1:], strict=True):
            entries = zip((X.indices[start:end] + 1).tolist(), X.data[start:end].tolist(), strict=True)
            yield f"{label} " + " ".join(f"{column}:{value:g}" for column, value in entries) + "\n"
        seed += 1


def csv_lines() -> Iterator[str]:
    """Rows of digits without end, two bytes a cell: what takes the most memory for its size."""
    random = np.random.default_rng(0)
    yield ",".join(f"x{k}" for k in range(DIGITS)) + ",label\n"
    while True:
        label = random.integers(0, 2, AT_ONCE)
        table = random.poisson(np.where(np.arange(DIGITS) < 20, 1.0 + label[:, None], 0.4)).clip(0, 9)
        for row, name in zip(table.tolist(), label.tolist(), strict=True):
            yield ",".join(map(str, row)) + f",{name}\n"


LINES = {"svmlight": svmlight_lines, "csv": csv_lines}


def write(path: Path, size: float) -> int:
    """So many bytes of text, to the end of a line."""
    written = 0
    with path.open("w") as file:
        for line in LINES[path.suffix[1:]]():
            file.write(line)
            written += len(line)
            if written >= size:
                return written
    raise AssertionError("lines are without end")


def run(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Peak resident bytes and seconds of one command."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mcf_cli", *arguments], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"mcf {' '.join(arguments)} ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(unit * used.ru_maxrss), time.perf_counter() - start


def measure(folder: Path, kind: str, megabytes: float, in_memory: bool, only: str | None) -> bool:
    path = folder / f"rows.{kind}"
    size = write(path, megabytes * 1e6)
    above = "100TB" if in_memory else str(size // 2)
    environment = os.environ | {"MCF_DATA_HOME": str(folder / "home"), "MCF_CHUNKS_ABOVE": above}
    print(f"{kind}, {size / 1e6:,.0f} MB of text, {'in memory' if in_memory else 'in chunks'}", flush=True)
    met = True
    runs = {
        name: [*words, str(path), "--out", str(folder / "out"), "--quiet"] for name, words in COMMANDS.items()
    }
    runs["predict"] = ["predict", "--data", str(path), "--out", str(folder / "predictions.csv"), "--model"]
    for name, arguments in runs.items():
        if only and name not in (only, "train"):
            continue
        if name == "predict":
            arguments.append(str(next((folder / "out").rglob("model.npz"))))
        peak, seconds = run(arguments, environment)
        met = met and peak <= max(BOUND * size, FLOOR)
        print(
            f"{name:>22s}: peak {peak / 1e6:8,.0f} MB, {peak / size:5.2f} times the file, {seconds:6.0f} s",
            flush=True,
        )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=300.0)
    parser.add_argument("--format", choices=LINES, default="svmlight")
    parser.add_argument("--in-memory", action="store_true", help="do not go through chunks")
    parser.add_argument("--only", help="this command besides train")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcf-large-") as folder:
        met = measure(Path(folder), options.format, options.megabytes, options.in_memory, options.only)
    return 0 if met or options.in_memory else 1


if __name__ == "__main__":
    sys.exit(main())
