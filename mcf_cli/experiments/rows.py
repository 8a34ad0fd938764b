"""From trials and their records to tidy rows and their evidence, in the order of the config, always the same bytes.

Evidence is which test rows a trial got wrong, one by one, and the validation error of every candidate.
A mean error says nothing about its uncertainty. Errors example by example do, and two methods on the same test rows
can be compared in pairs. A trial keeps them with its test error, packed to bits; the file ``errors.npz`` beside
rows.csv holds those of an item, so that committed files alone repeat every verdict.

The arrays of the file (``row`` counts the lines of rows.csv from 0, its heading left out):

| array | holds |
|---|---|
| ``row``, ``test_set`` | a line with a test error, and the number of its set of test rows |
| ``wrong`` | one bit per test row, in the order of the data set; every line starts on a whole byte |
| ``tested``, ``set_size`` | the test sets: one bit per row of the data set, and how many rows the data set has |
| ``set_hash`` | sha256 of the data and the numbers of the test rows, 16 digits |
| ``candidate_row``, ``_level``, ``_l2``, ``_fold``, ``_error`` | what was chosen from (all are ``candidate_...``) |
"""

import base64
import csv
import hashlib
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcf_cli.core.selection import first_best
from mcf_cli.experiments.config import LEVELS
from mcf_cli.experiments.store import Record
from mcf_cli.experiments.trial import Trial, edge_of
from mcf_cli.files import read_arrays, whole_file

ROW_COLUMNS = (
    *("item", "dataset", "data_source", "loss", "surrogate", "multiclass", "penalty", "corruption"),
    *("q", "sigma", "scale", "clip", "budget", "l2", "deletion", "train_size", "copies", "lam", "margin"),
    *("aid", "flips", "features"),
    *("repeat", "fold", "metric", "value", "n_iter", "converged", "edge", "seconds", "status", "reason"),
    *("a", "column_groups"),
)
SELDOM = ("a", "column_groups")  # columns that are there only where a row has something in them
METHOD_COLUMNS = (
    "loss",
    "surrogate",
    "multiclass",
    "penalty",
    "corruption",
    *LEVELS,
    "clip",
    "aid",
    "column_groups",
)
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


def used_columns(rows: Sequence[Row]) -> list[str]:
    """The columns of rows.csv that these rows need."""
    return [
        name for name in ROW_COLUMNS if name not in SELDOM or any(row.get(name) is not None for row in rows)
    ]


def rows_csv(rows: Iterable[Row]) -> str:
    """rows.csv: floats in their shortest exact form, empty cells for what does not apply."""
    rows, text = list(rows), io.StringIO()
    used = used_columns(rows)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(used)
    for row in rows:
        writer.writerow([cell_text(row.get(column)) for column in used])
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
    row |= {name: params[name] for name in ("repeat", "train_size", "flips") if name in params}
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


ERRORS = "errors.npz"
EVIDENCE = "evidence"  # the key in a result row, never a column of rows.csv
Candidate = tuple[float | None, float, tuple[float, ...]]  # level where one is chosen, l2, errors by fold


def evidence_of(
    wrong: np.ndarray, rows: np.ndarray, data: tuple[str, int], candidates: Sequence[Candidate] = ()
) -> dict[str, Any]:
    """What a trial keeps beside a test error, as plain JSON.

    Parameters
    ----------
    wrong : array of bool
        Which of the tested rows were classified wrongly.
    rows : array of int
        Their numbers in the data set.
    data : (str, int)
        The sha256 of the data set and how many rows it has.
    candidates : sequence of (level, l2, errors by fold)
        What was chosen from.
    """
    sha256, size = data
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    digest = hashlib.sha256(sha256.encode() + np.sort(rows).astype("<i8").tobytes()).hexdigest()
    return {
        "wrong": _packed(wrong[np.argsort(rows, kind="stable")]),
        "tested": _packed(mask),
        "set_size": size,
        "set_hash": digest[:16],
        "candidates": [[level, l2, list(errors)] for level, l2, errors in candidates],
    }


def _packed(bits: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode("ascii")


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)


@dataclass(frozen=True)
class Evidence:
    """The evidence of an item's rows: the arrays of errors.npz."""

    arrays: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Evidence":
        """What the rows of a run keep."""
        numbers, sets, wrong, candidates = [], [], [], []
        known: dict[str, int] = {}
        masks, sizes = [], []
        for number, row in enumerate(rows):
            kept = row.get(EVIDENCE)
            if not kept:
                continue
            if kept["set_hash"] not in known:
                known[kept["set_hash"]] = len(known)
                masks.append(_unpacked(kept["tested"]))
                sizes.append(kept["set_size"])
            numbers.append(number)
            sets.append(known[kept["set_hash"]])
            wrong.append(_unpacked(kept["wrong"]))
            candidates += [
                (number, np.nan if level is None else level, l2, fold, error)
                for level, l2, errors in kept["candidates"]
                for fold, error in enumerate(errors)
            ]
        table = np.array(candidates, dtype=np.float64).reshape(-1, 5)
        empty = np.zeros(0, np.uint8)
        return cls(
            {
                "row": np.array(numbers, dtype=np.int32),
                "test_set": np.array(sets, dtype=np.int32),
                "wrong": np.concatenate([empty, *wrong]),
                "tested": np.concatenate([empty, *masks]),
                "set_size": np.array(sizes, dtype=np.int64),
                "set_hash": np.array(list(known), dtype="<U16"),
                "candidate_row": table[:, 0].astype(np.int32),
                "candidate_level": table[:, 1],
                "candidate_l2": table[:, 2],
                "candidate_fold": table[:, 3].astype(np.int32),
                "candidate_error": table[:, 4],
            }
        )

    @classmethod
    def read(cls, folder: Path) -> "Evidence":
        """What lies in an item's folder; nothing where an older version wrote it. ValueError where it is damaged."""
        path = folder / ERRORS
        found = cls(read_arrays(path)) if path.exists() else cls.of(())
        lost = set(cls.of(()).arrays) - set(found.arrays)
        if lost:
            raise ValueError(f"{ERRORS} lacks {sorted(lost)[0]}")
        return found

    def write(self, folder: Path) -> None:
        """Write errors.npz, the same bytes for the same rows; no file where there is nothing to keep."""
        path = folder / ERRORS
        if not len(self.arrays["row"]):
            path.unlink(missing_ok=True)
            return
        with whole_file(path) as part, part.open("wb") as file:
            np.savez_compressed(file, **dict(self.arrays))  # type: ignore[arg-type]

    def test_rows(self) -> list[np.ndarray]:
        """The numbers of the rows of each test set."""
        starts = np.concatenate([[0], np.cumsum(-(-self.arrays["set_size"] // 8))])
        tested = self.arrays["tested"]
        if starts[-1] != len(tested):
            raise ValueError(f"{ERRORS}: its test sets do not fit their sizes")
        return [
            np.flatnonzero(np.unpackbits(tested[start:end], count=int(size)))
            for start, end, size in zip(starts[:-1], starts[1:], self.arrays["set_size"], strict=True)
        ]

    def by_row(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """(numbers of the tested rows, which of them are wrong) by the line of rows.csv."""
        sets = self.test_rows()
        numbers, order = self.arrays["row"], self.arrays["test_set"]
        if len(numbers) != len(order) or (len(order) and not 0 <= order.min() <= order.max() < len(sets)):
            raise ValueError(f"{ERRORS}: a line names a test set that is not there")
        wrong, start, found = self.arrays["wrong"], 0, {}
        for number, place in zip(numbers.tolist(), order.tolist(), strict=True):
            tested = sets[place]
            end = start + -(-len(tested) // 8)
            if end > len(wrong):
                raise ValueError(f"{ERRORS}: its errors are cut short")
            found[number] = (tested, np.unpackbits(wrong[start:end], count=len(tested)).astype(bool))
            start = end
        return found
