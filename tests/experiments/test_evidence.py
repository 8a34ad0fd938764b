"""Errors example by example: they are those of the rows, on the rows named, and every candidate is there."""

import numpy as np
import pytest
from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.rows import ERRORS, Evidence, evidence_of
from mcf_cli.experiments.run import run_plan
from mcf_cli.experiments.store import Store
from mcf_cli.reporting.results import Result

from tests.experiments.tiny import Recorder, tiny_plan


def run(folder, **changes):
    return run_plan(tiny_plan(**changes), folder, Engine("serial"), Recorder())


def test_bits_come_back_on_their_rows_whatever_the_order():
    rows, wrong = np.array([7, 2, 11]), np.array([True, False, True])
    kept = evidence_of(wrong, rows, ("data", 13), [(0.5, 0.1, (0.25, 0.75))])
    found = Evidence.of([{"metric": "objective"}, {"evidence": kept}])
    tested, marked = found.by_row()[1]
    assert tested.tolist() == [2, 7, 11]
    assert marked.tolist() == [False, True, True]
    assert found.arrays["candidate_error"].tolist() == [0.25, 0.75]
    assert found.arrays["candidate_level"].tolist() == [0.5, 0.5]


def test_the_file_repeats_every_test_error_and_methods_share_their_test_rows(tmp_path):
    outcome = run(tmp_path)
    read = Evidence.read(outcome.folder)
    errors = {n: row["value"] for n, row in enumerate(outcome.rows) if row["metric"] == "test_error"}
    assert {n: wrong.mean() for n, (_, wrong) in read.by_row().items()} == pytest.approx(errors)
    assert len(read.arrays["set_hash"]) == 1
    assert len(read.test_rows()[0]) == 100


def test_folds_partition_the_rows(tmp_path):
    outcome = run(tmp_path, evaluation={"protocol": "cv", "folds": 3, "train": 60})
    tested = [rows for rows, _ in Evidence.read(outcome.folder).by_row().values()][:3]
    together = np.concatenate(tested)
    assert len(together) == len(set(together.tolist())) == 60


def test_every_candidate_of_l2_and_q_is_kept_fold_by_fold_and_the_chosen_one_is_among_the_best(tmp_path):
    outcome = run(tmp_path, select={"l2": [0.01, 0.1, 1.0], "q": [0.2, 0.6], "by": "cv", "folds": 4})
    arrays = Evidence.read(outcome.folder).arrays
    for number, row in enumerate(outcome.rows):
        if row["metric"] != "test_error":
            continue
        own = arrays["candidate_row"] == number
        means: dict = {}
        columns = ("candidate_level", "candidate_l2", "candidate_fold", "candidate_error")
        for level, l2, fold, error in zip(*(arrays[name][own] for name in columns), strict=True):
            means.setdefault((None if np.isnan(level) else level, l2), {})[fold] = error
        chosen = row["corruption"] == "dropout"
        assert len(means) == (6 if chosen else 3)
        assert all(len(folds) == 4 for folds in means.values())
        found = {key: np.mean(list(folds.values())) for key, folds in means.items()}
        assert found[row["q"] if chosen else None, row["l2"]] == pytest.approx(min(found.values()))


def test_a_record_without_evidence_gives_rows_without_it(tmp_path):
    plan = tiny_plan()
    outcome = run(tmp_path)
    records = Store(tmp_path, "tiny").records()
    with Store(tmp_path, "tiny").writing() as store:
        for record in records.values():
            rows = [{k: v for k, v in row.items() if k != "evidence"} for row in record["rows"]]
            store.append({**record, "rows": rows})
    again = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    assert again.rows == outcome.rows
    assert not (again.folder / ERRORS).exists()
    assert Result.read(again.folder).finished["wrong"].isna().all()


def test_errors_of_other_rows_are_refused(tmp_path):
    outcome = run(tmp_path)
    path = outcome.folder / "rows.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines[4:]]) + "\n")
    with pytest.raises(McfError, match="does not belong"):
        _ = Result.read(outcome.folder).finished


def test_a_damaged_file_is_one_clear_error(tmp_path):
    outcome = run(tmp_path)
    path = outcome.folder / ERRORS
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(McfError, match="cannot be read"):
        Result.read(outcome.folder)
