"""From trials and their records to tidy rows, in the order of the config, with the same bytes every time."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from mcf_cli.core.selection import first_best
from mcf_cli.experiments.config import LEVELS
from mcf_cli.experiments.evidence import EVIDENCE
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trial import Trial, edge_of

ROW_COLUMNS = (
    *("item", "dataset", "data_source", "loss", "surrogate", "multiclass", "penalty", "corruption"),
    *("q", "sigma", "scale", "clip", "budget", "l2", "deletion", "train_size", "copies", "lam", "margin"),
    *("repeat", "fold", "metric", "value", "n_iter", "converged", "edge", "seconds", "status", "reason"),
)
METHOD_COLUMNS = ("loss", "surrogate", "multiclass", "penalty", "corruption", *LEVELS, "clip")
Row = dict[str, Any]


def build_rows(item: str, trials: Iterable[Trial], records: Mapping[str, Record]) -> list[Row]:
    """The rows of the expected trials that are done or failed.

    Where a level is chosen, the group's rows wait until every candidate has run: a choice among the first few
    would look like a result and not be one.
    """
    rows: list[Row] = []
    for group in _groups(trials):
        found = [records.get(trial.key) for trial in group]
        rows += [
            _failed_row(item, t, r)
            for t, r in zip(group, found, strict=True)
            if r and r["status"] == "failed"
        ]
        if None in found:
            continue
        done = [(t, r) for t, r in zip(group, found, strict=True) if r and r["status"] == "ok"]
        for trial, record, results in _chosen(done):
            rows += [_row(item, trial, record, result) for result in results]
    return rows


def without_evidence(rows: Iterable[Row]) -> list[Row]:
    """The rows as users see them; errors example by example have a file of their own."""
    return [{name: value for name, value in row.items() if name != EVIDENCE} for row in rows]


def rows_csv(rows: Iterable[Row]) -> str:
    """rows.csv: floats in their shortest exact form, empty cells for what does not apply."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ROW_COLUMNS)
    for row in rows:
        writer.writerow([cell_text(row.get(column)) for column in ROW_COLUMNS])
    return text.getvalue()


def _groups(trials: Iterable[Trial]) -> list[list[Trial]]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.group, []).append(trial)
    return list(groups.values())


def _chosen(done: list[tuple[Trial, Record]]) -> list[tuple[Trial, Record, list[Row]]]:
    """Per cell (a deletion level or fold) the lowest validation error; ties go to the weakest corruption."""
    if not done or done[0][0].chosen_level is None:
        return [(trial, record, record["rows"]) for trial, record in done]
    levels = sorted(trial.level for trial, _ in done)
    candidates: dict[tuple, list[tuple[float, Trial, Record, list[Row]]]] = {}
    for trial, record in sorted(done, key=lambda pair: pair[0].level):
        for cell, results in _cells(record["rows"]).items():
            error = next(row["value"] for row in results if row["metric"].startswith("validation_"))
            candidates.setdefault(cell, []).append((error, trial, record, results))
    chosen = []
    for found in candidates.values():
        _, trial, record, results = found[first_best([error for error, *_ in found])]
        edge = edge_of(trial.level, levels, str(trial.chosen_level))
        marked = [{**row, "edge": " ".join(filter(None, [row.get("edge"), edge]))} for row in results]
        chosen.append((trial, record, [_with_candidates(row, found) for row in marked]))
    return chosen


def _with_candidates(row: Row, found: list[tuple[float, Trial, Record, list[Row]]]) -> Row:
    """A row's evidence with every level that was tried, not the chosen one alone."""
    if EVIDENCE not in row:
        return row
    tried = [
        [trial.level, *rest]
        for _, trial, _, results in found
        for other in results
        for _, *rest in other.get(EVIDENCE, {}).get("candidates", ())
    ]
    return {**row, EVIDENCE: {**row[EVIDENCE], "candidates": tried}}


def _cells(results: list[Row]) -> dict[tuple, list[Row]]:
    cells: dict[tuple, list[Row]] = {}
    for row in results:
        cells.setdefault((row.get("deletion"), row.get("fold")), []).append(row)
    return cells


def _row(item: str, trial: Trial, record: Record, result: Row) -> Row:
    return {**_base(item, trial), "seconds": record["seconds"], "status": "ok", **result}


def _failed_row(item: str, trial: Trial, record: Record) -> Row:
    return {
        **_base(item, trial),
        "seconds": record["seconds"],
        "status": "failed",
        "reason": record["reason"],
    }


def _base(item: str, trial: Trial) -> Row:
    params = trial.params
    method = params.get("method", {})
    row = {"item": item, "dataset": params.get("dataset"), "data_source": trial.data_source}
    row |= {name: method[name] for name in METHOD_COLUMNS if name in method}
    row |= {name: params[name] for name in ("repeat", "train_size") if name in params}
    if params["protocol"] == "explicit":
        row["copies"] = "inf" if params["copies"] is None else params["copies"]
    return row


def cell_text(value: Any) -> str:
    """A cell of rows.csv."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
