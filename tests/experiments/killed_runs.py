"""Start a sweep, SIGKILL it after a random number of new records, and again, as often as asked.

Run as a script of its own so that each attempt is a fork of a process that has everything imported already:
`python -m tests.experiments.killed_runs OUT ATTEMPTS`. Prints the number of records after each kill.
"""

import os
import random
import signal
import sys
from pathlib import Path

from mcf_cli.experiments import evaluate as protocols  # noqa: F401  (imported once, before any fork)
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.run import run_plan

from tests.experiments.tiny import Recorder
from tests.experiments.trials_for_killing import plan_for_killing

PLAN = plan_for_killing()  # the data it loads stays in memory for every attempt


def attempt(out: Path, wanted_bytes: int) -> None:
    """Fork a run and kill it once the store has grown to the wanted size."""
    child = os.fork()
    if child == 0:
        run_plan(PLAN, out, Engine("serial"), Recorder())
        os._exit(0)
    store = out / ".cache" / "killed" / "trials.jsonl"
    while not os.waitpid(child, os.WNOHANG)[0]:
        if store.exists() and store.stat().st_size >= wanted_bytes:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        os.sched_yield()
    raise SystemExit("the run ended before it was killed")


if __name__ == "__main__":
    folder, attempts = Path(sys.argv[1]), int(sys.argv[2])
    moments = random.Random(2013)
    path = folder / ".cache" / "killed" / "trials.jsonl"
    for _ in range(attempts):
        size = path.stat().st_size if path.exists() else 0
        attempt(folder, size + moments.randint(1, 900))
        print(path.read_bytes().count(b"\n"))
