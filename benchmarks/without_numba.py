"""What numba costs and gains: processor seconds of `mcf --help`, of a first fit, and of whole fits.

    python -m benchmarks.without_numba --rounds 2

Processes with and without numba take turns; so do the fits, in one process and on one thread.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from mcf_cli import Blankout, MCFClassifier

from benchmarks.rivals import same_threads
from benchmarks.selection import DATA

HIDDEN = "import sys; sys.modules['numba'] = None\n"
HELP = """
import sys, time
sys.argv = ["mcf", "--help"]
from mcf_cli.cli.main import run_cli
try:
    run_cli()
except SystemExit:
    print("seconds", time.process_time())
"""
FIRST_FIT = """
import time
import numpy as np, scipy.sparse as sp
from mcf_cli import MCFClassifier
rng, N, D, words = np.random.default_rng(0), 6_000, 20_000, 100
columns = (D * rng.random(N * words) ** 3).astype(int)
X = sp.csr_matrix((np.ones(N * words), (np.repeat(np.arange(N), words), columns)), shape=(N, D))
X.sum_duplicates()
y, model, start = rng.integers(0, 2, N), MCFClassifier(l2=0.1, tol=1e-2), time.process_time()
model.fit(X, y)
print("seconds", time.process_time() - start)
"""


def seconds_of(code: str, **environment: str) -> float:
    """What a process of its own prints as its last word."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def processes(rounds: int) -> None:
    for name, code in {"mcf --help": HELP, "first fit": FIRST_FIT}.items():
        pairs = [(seconds_of(code), seconds_of(HIDDEN + code)) for _ in range(rounds)]
        best = [min(each) for each in zip(*pairs, strict=True)]
        print(f"{name}: with {best[0]:.2f} s, without {best[1]:.2f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"first fit, empty cache: {seconds_of(FIRST_FIT, NUMBA_CACHE_DIR=folder):.2f} s", flush=True)


def fits(names: list[str], rounds: int) -> None:
    for name in names:
        X, y = DATA[name]()
        seconds: dict[str, list[float]] = {"1": [], "0": []}
        for _ in range(1 + rounds):  # the first loads the loops
            for switch, taken in seconds.items():
                os.environ["MCF_NUMBA"] = switch
                model = MCFClassifier(corruption=Blankout(q=0.3), l2=1e-3, tol=1e-3)
                start = time.process_time()
                model.fit(X, y)
                taken.append(time.process_time() - start)
        loops, numpy = (min(taken[1:]) for taken in seconds.values())
        print(
            f"{name} {X.shape}: with {loops:.2f} s, without {numpy:.2f} s, {numpy / loops:.2f} x", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["digits", "splice", "amazon"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    processes(options.rounds)
    with same_threads(1):
        fits(options.data, options.rounds)


if __name__ == "__main__":
    main()
