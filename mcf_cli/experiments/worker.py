"""What runs inside a worker: one small spec in, one record out, whatever happens in between."""

import threading
import time
from typing import Any

from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trials import canonical

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
            canonical(rows)  # refuses NaN and infinity, which mean that something went wrong
            record["rows"] = rows
        except Exception as error:
            record |= {"status": "failed", "reason": reason_of(error)}
        return record | {"seconds": round(time.perf_counter() - start, 4)}


def reason_of(error: BaseException) -> str:
    """One line for the record, the status table and the rows."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _evaluate(params: dict[str, Any], data: dict[str, Any]) -> list[dict[str, Any]]:
    from mcf_cli.experiments import diagnostics, protocols

    protocol = params["protocol"]
    if protocol == "bounds":
        return diagnostics.bounds(params)
    dataset = _verified(params, data)
    if protocol in ("cost", "loo"):
        return {"cost": diagnostics.cost, "loo": diagnostics.leave_one_out}[protocol](params, dataset)
    evaluate = {"cv": protocols.cross_validation, "nightmare": protocols.nightmare}.get(
        protocol, protocols.split
    )
    return evaluate(params, dataset)


def _verified(params: dict[str, Any], data: dict[str, Any]) -> Dataset:
    """The data set by name, and a check that this machine's copy is the one the trial was planned for."""
    from mcf_cli.experiments.plan import load_data

    dataset = load_data(data["name"], tuple(sorted(data["options"].items())))
    if dataset.sha256 != params["data_sha256"]:
        raise ValueError(
            f"this worker's {data['name']} differs from the planner's (sha256 {dataset.sha256[:12]}...)"
        )
    return dataset
