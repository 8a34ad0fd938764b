"""A sweep of a hundred thousand tiny trials, all but a few of them done: how soon it goes on, and in how much memory.

    python -m benchmarks.longrun --trials 100000 --left 300

Prints seconds and peak memory of planning, of reading the store and of starting again, then runs what is left with
the engine and prints the memory at every quarter of it, and how often progress was reported.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

from mcf_cli.experiments.engine import Engine, run_spec
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.run import progress_of, run_plan
from mcf_cli.experiments.store import Store

LEVELS = 100


def tiny_sweep(trials: int) -> dict:
    """So many trials on eighty digits: a hundred levels of blankout, repeated."""
    return {
        "item": "longrun",
        "datasets": ["builtin-digits"],
        "evaluation": {"train": 80, "test": 100},
        "grid": [{"loss": "quadratic", "corruption": "blankout", "q": [k / LEVELS for k in range(LEVELS)]}],
        "select": {"l2": [0.1]},
        "repeats": max(1, trials // LEVELS),
    }


def memory() -> float:
    """Megabytes that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Watch:
    """Measures from one lap to the next."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> float:
        seconds, cpu = time.perf_counter() - self.start, time.process_time() - self.cpu
        print(f"{name:<34}{seconds:8.2f} s{cpu:8.2f} s CPU{memory():8.0f} MB", flush=True)
        self.__init__()
        return seconds


class Quarters:
    """A listener that notes the memory at every quarter of what is left to run."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.count, self.total = watch, 0, 0

    def started(self, progress: object, todo: list) -> None:
        self.total = len(todo)
        self.watch.lap(f"started, {len(todo)} left to run")

    def finished(self, trial: object, record: object) -> None:
        self.count += 1
        if 4 * self.count // self.total > 4 * (self.count - 1) // self.total:
            self.watch.lap(f"{self.count} reported")


def fill(store: Store, plan: Plan, left: int) -> None:
    """Write the records of all but the last trials: the numbers of one real trial, under every key."""
    example = run_spec(plan.trials[0].spec())
    with store.writing():
        for trial in plan.trials[: len(plan.trials) - left]:
            store.append({**example, "key": trial.key, "params": trial.params})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trials", type=int, default=100_000)
    options.add_argument("--left", type=int, default=300)
    given = options.parse_args()
    loaded = load_config(tiny_sweep(given.trials))
    plan = make_plan(loaded)  # reads the data and imports what is needed: part of any start
    # In memory where that can be had: a real disk takes milliseconds to make sure of each of the records to start with.
    memory_disk = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory_disk) as folder:
        out = Path(folder)
        store, watch = Store(out, "longrun"), Watch()
        fill(store, plan, given.left)
        watch.lap(f"written, {store.path.stat().st_size / 1e6:.0f} MB")
        plan = make_plan(loaded)
        trials = len(plan.trials)
        seconds = watch.lap(f"planned, {trials:,} trials")
        records = store.records()
        seconds += watch.lap(f"read, {len(records):,} records")
        progress_of(plan, records)
        seconds += watch.lap("counted")
        print(f"resume start: {seconds:.2f} s", flush=True)
        del records
        watch = Watch()
        outcome = run_plan(plan, out, Engine("serial"), Quarters(watch))
        watch.lap(f"rows written, {len(outcome.rows):,}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"peak memory: {peak:.0f} MB; complete: {outcome.ok}")


if __name__ == "__main__":
    main()
