"""Running trials: in this process, in worker processes, or on a dask cluster. The records are the same.

Each engine takes specs and yields records as they finish, in any order. Closing the generator stops the work.
Inside a worker `run_spec` turns one small spec into one record, whatever happens in between.
"""

import contextlib
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from mcf_cli.datasets.dataset import Dataset
from mcf_cli.errors import McfError, RunError
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trial import canonical_json

Spec = dict[str, Any]

# A dask worker may have several threads; the caches and the BLAS limit belong to the process.
_ONE_AT_A_TIME = threading.Lock()


def run_spec(spec: Spec) -> Record:
    """Run one trial on one BLAS thread; an exception becomes a failed record with its reason."""
    from threadpoolctl import threadpool_limits

    with _ONE_AT_A_TIME, threadpool_limits(1):
        start = time.perf_counter()
        record: Record = {"key": spec["key"], "params": spec["params"], "status": "ok"}
        try:
            rows = _evaluate(spec["params"], spec["data"])
            canonical_json(rows)  # refuses NaN and infinity, which mean that something went wrong
            record["rows"] = rows
        except Exception as error:
            record |= {"status": "failed", "reason": reason_of(error)}
        return record | {"seconds": round(time.perf_counter() - start, 4)}


def reason_of(error: BaseException) -> str:
    """One line for the record, the status table and the rows."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _evaluate(params: dict[str, Any], data: dict[str, Any]) -> list[dict[str, Any]]:
    from mcf_cli.experiments import evaluate

    if params["protocol"] == "bounds":
        return evaluate.bounds(params)
    protocols = {
        "cv": evaluate.cross_validation,
        "nightmare": evaluate.nightmare,
        "label-noise": evaluate.label_noise,
        "anytime": evaluate.anytime,
        "cost": evaluate.cost,
        "loo": evaluate.leave_one_out_trial,
    }
    return protocols.get(params["protocol"], evaluate.split)(params, _verified(params, data))


def _verified(params: dict[str, Any], data: dict[str, Any]) -> Dataset:
    """The data set by name, and a check that this machine's copy is the one the trial was planned for."""
    from mcf_cli.experiments.trial import data_of

    dataset = data_of(data)
    if dataset.sha256 != params["data_sha256"]:
        raise ValueError(
            f"this worker's {data['name']} differs from the planner's (sha256 {dataset.sha256[:12]}...)"
        )
    return dataset


EngineName = Literal["serial", "processes", "dask"]
DIED = "the worker process died while running this trial: killed, or out of memory"


@dataclass(frozen=True)
class Engine:
    """Which engine, how many workers, and for dask optionally where."""

    name: EngineName = "serial"
    jobs: int = 1
    scheduler: str | None = None

    def run(self, specs: list[Spec]) -> Iterator[Record]:
        """Records in the order in which they finish."""
        if not specs:
            return iter(())
        jobs = self.no_more_than(len(specs)).jobs
        if self.name == "dask":
            return _run_dask(specs, jobs, self.scheduler)
        if self.name == "processes" and self.jobs > 1:
            return _run_processes(specs, jobs)
        return map(run_spec, specs)

    def suited(self, protocol: str, trials: int) -> "Engine":
        """With no more workers than trials; times are taken one by one, with nothing beside them."""
        return Engine() if protocol == "cost" else self.no_more_than(trials)

    def no_more_than(self, trials: int) -> "Engine":
        """With no more workers than trials. Of processes there are two: one would be this one, and must not die."""
        fewest = 2 if self.name == "processes" else 1
        return replace(self, jobs=min(self.jobs, max(fewest, trials)))


def make_engine(name: str | None, jobs: int, scheduler: str | None) -> Engine:
    """Flags to an engine: several jobs mean processes, a scheduler means dask; 0 jobs means all cores."""
    if scheduler and name not in (None, "dask"):
        raise McfError(f"--scheduler works with --engine dask only, not with {name}.")
    if jobs < 0:
        raise McfError(f"--jobs {jobs}: expected a number of workers, or 0 for one per core.")
    count = jobs or available_cores()
    chosen = name or ("dask" if scheduler else "processes" if count > 1 else "serial")
    return Engine(cast(EngineName, chosen), count, scheduler)


def available_cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_processes(specs: list[Spec], jobs: int) -> Iterator[Record]:
    """A pool of processes. A death takes the pool along: what it had in hand is then run one at a time."""
    waiting = {spec["key"]: spec for spec in specs}
    suspects: list[str] = []
    while waiting:
        alone = suspects.pop(0) if suspects else None
        batch = [waiting[alone]] if alone else list(waiting.values())
        try:
            for record in _pool(batch, jobs):
                del waiting[record["key"]]
                yield record
        except _pool_died() as error:
            if alone:
                yield failed(waiting.pop(alone), error)
            else:
                suspects = list(waiting)[: 2 * jobs]


def _pool(specs: list[Spec], jobs: int) -> Iterator[Record]:
    from joblib import Parallel, delayed, parallel_config

    # joblib replaces a worker that has grown; its trials are taken over, and nobody has to be warned.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
    begin = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1, **begin):
        records = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(
            delayed(run_spec)(spec) for spec in specs
        )
        try:
            yield from records
        except (GeneratorExit, KeyboardInterrupt):
            _kill_pool()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that work was cancelled is no news
                records.close()
            raise


def _begin_worker(parent: int) -> None:
    """Before its first trial, for there may be none: a worker whose parent is killed ends.

    Ctrl-C reaches the whole process group; what is to happen then is the parent's business.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _kill_pool() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor(reuse=True).shutdown(wait=False, kill_workers=True)


def _pool_died() -> type[Exception]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return BrokenProcessPool


def _run_dask(specs: list[Spec], jobs: int, scheduler: str | None) -> Iterator[Record]:
    """Futures on a dask cluster; dask itself moves the trials of a dead worker to another one."""
    distributed = _import_distributed()
    with _client(distributed, jobs, scheduler) as client:
        specs_of = {
            client.submit(run_spec, spec, key=f"mcf-{spec['key']}", pure=False): spec for spec in specs
        }
        try:
            for future in distributed.as_completed(specs_of):
                yield _record_of(future, specs_of[future])
                future.release()
        finally:
            with contextlib.suppress(*_SCHEDULER_LOST):
                client.cancel(list(specs_of))


_SCHEDULER_LOST = (CancelledError, OSError, TimeoutError)


def _record_of(future: Any, spec: Spec) -> Record:
    """The record of a finished trial, or of one that failed; the scheduler's death is neither."""
    try:
        if future.status == "finished":
            return future.result()
        if future.status == "error":
            return failed(spec, future.exception())
    except _SCHEDULER_LOST:
        pass  # it died between the answer and its fetching
    raise RunError(
        "the connection to the dask scheduler was lost. Finished trials are kept: start it again, then repeat the "
        "command."
    )


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise McfError(
            "--engine dask needs dask: install the extra `dask` (in the checkout: pip install '.[dask]')."
        ) from None
    return distributed


@contextlib.contextmanager
def _client(distributed: Any, jobs: int, scheduler: str | None) -> Iterator[Any]:
    if scheduler:
        try:
            client = distributed.Client(scheduler, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise McfError(f"no dask scheduler answers at {scheduler} ({reason_of(error)}).") from None
        logging.disable(
            logging.CRITICAL
        )  # what dask has to say of a lost scheduler fills pages; we say it in a line
        try:
            with client:
                yield client
        finally:
            logging.disable(logging.NOTSET)
        return
    cluster = distributed.LocalCluster(
        n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def failed(spec: Spec, error: BaseException) -> Record:
    """The record of a trial that took its worker down."""
    died = type(error).__name__ in ("KilledWorker", "TerminatedWorkerError", "BrokenProcessPool")
    reason = DIED if died else reason_of(error)
    return {
        "key": spec["key"],
        "params": spec["params"],
        "status": "failed",
        "reason": reason,
        "seconds": 0.0,
    }
