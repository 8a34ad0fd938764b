"""A result is the same made of a run and read from its folder, and needs no data once the run is over."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from mcf_cli.errors import McfError
from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.load import configs_folder, load_config
from mcf_cli.experiments.plan import make_plan
from mcf_cli.experiments.rows import rows_csv
from mcf_cli.experiments.run import DIGIT, run_plan
from mcf_cli.reporting.claims import claims_csv, judge_all, load_claims
from mcf_cli.reporting.results import SHOWN, Result, present, rows_frame

from tests.experiments.tiny import Recorder, tiny_plan

NIGHTMARE = {
    "evaluation": {"protocol": "nightmare", "train": 60, "test": 40, "deletion": [0.0, 0.5, 0.8]},
    "grid": [{"loss": "quadratic", "corruption": ["none", "dropout"]}],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The outcome of a small run of Figure 9's kind."""
    return run_plan(tiny_plan(**NIGHTMARE), tmp_path_factory.mktemp("out"), Engine(), Recorder())


def files_of(result, remove=SHOWN):
    for name in remove:
        (result.folder / name).unlink(missing_ok=True)
    present(result, to_screen=False)
    return {name: (result.folder / name).read_bytes() for name in SHOWN}


def test_a_fresh_result_is_the_one_that_is_read(ran):
    fresh, read = Result.of(ran), Result.read(ran.folder)
    pd.testing.assert_frame_equal(fresh.rows, read.rows, check_exact=True)
    assert (fresh.name, fresh.config, fresh.partial, fresh.trials, fresh.profile) == (
        *(read.name, read.config, read.partial, read.trials, read.profile),
    )
    assert files_of(fresh) == files_of(read)


@pytest.mark.parametrize(
    "cells",
    [
        {"q": ["observed", 0.5, None]},
        {"q": [0.5, 1e-7, 0.30000000000000004]},
        {"copies": [1, 4, "inf"]},
        {"converged": [True, False, None]},
        {"converged": [True, False, True]},
        {"n_iter": [3, None, 5], "repeat": [0, 1, 2], "edge": ["", "l2 high", ""]},
    ],
    ids=lambda cells: ", ".join(f"{name} {values}" for name, values in cells.items()),
)
def test_rows_become_what_their_file_reads_back_as(cells, tmp_path):
    rows = [{name: values[k] for name, values in cells.items()} | {"status": "ok"} for k in range(3)]
    (tmp_path / "rows.csv").write_text(rows_csv(rows))
    read = pd.read_csv(tmp_path / "rows.csv", keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(rows_frame(rows), read, check_exact=True)


def test_the_digit_under_figure_9_is_kept_by_the_run(ran):
    """It is drawn from the file, so that a folder without it has no samples."""
    result = Result.of(ran)
    assert result.digit.shape == (8, 8) and result.digit.max() > 0
    drawn = files_of(result)["figure.svg"]
    kept = (ran.folder / DIGIT).read_bytes()
    (ran.folder / DIGIT).unlink()
    assert Result.read(ran.folder).digit is None
    assert files_of(Result.read(ran.folder))["figure.svg"].count(b"<image") < drawn.count(b"<image")
    (ran.folder / DIGIT).write_bytes(kept)


@pytest.mark.parametrize("damaged", ["cut", "a list", "text"])
def test_a_digit_that_is_no_image_is_an_error(damaged, ran):
    path = ran.folder / DIGIT
    kept = path.read_bytes()
    try:
        if damaged == "cut":
            path.write_bytes(kept[:100])
        else:
            np.savez(path, digit=np.arange(3.0) if damaged == "a list" else np.array([["a"]]))
        with pytest.raises(McfError, match=r"cannot be read .*run its command again"):
            _ = Result.read(ran.folder).digit
    finally:
        path.write_bytes(kept)


def test_a_run_over_one_deletion_level_keeps_no_digit(tmp_path):
    """Not even that of an earlier run."""
    (tmp_path / "tiny").mkdir()
    old = tmp_path / "tiny" / DIGIT
    np.savez(old, digit=np.ones((2, 2)))
    plan = tiny_plan(
        evaluation={**NIGHTMARE["evaluation"], "deletion": [0.5]},
        grid=[{"loss": "quadratic"}],
        select={"l2": [1.0]},
    )
    outcome = run_plan(plan, tmp_path, Engine(), Recorder())
    assert outcome.ok and outcome.folder == old.parent and not old.exists()


def of_books(rows):
    return rows.assign(dataset="amazon-books", data_source="real")


def test_committed_files_alone_repeat_every_verdict_and_interval(tmp_path):
    plan = make_plan(load_config(configs_folder() / "fig6.yaml", profile="smoke"))
    ran = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    claims = load_claims(configs_folder() / "claims.yaml")
    asked = claims.model_copy(update={"claims": [c for c in claims.claims if c.items == ["fig6"]]})
    with_store, from_files = (  # as if on real data: built-in data gets no verdict
        claims_csv(judge_all(asked, {"fig6": replace(result, rows=of_books(result.rows))}))
        for result in (Result.of(ran), Result.read(ran.folder))
    )
    assert ",holds," in from_files
    assert from_files == with_store


def test_a_standard_error_is_over_examples_not_over_runs_on_the_same_ones(tmp_path):
    config = {"item": "tiny", "datasets": ["builtin-splice"], "evaluation": {"protocol": "cv", "folds": 3, "train": 90},
              "repeats": 3, "grid": [{"loss": "quadratic", "corruption": "none"}],
              "select": {"l2": [0.1], "by": "holdout"}}  # fmt: skip
    ran = run_plan(make_plan(load_config(config)), tmp_path, Engine("serial"), Recorder())
    result = Result.read(ran.folder)
    error, low, high = result.table.frame[["test_error", "test_error low", "test_error high"]].iloc[0] / 100
    assert (high - low) / (2 * 1.96) > 0.7 * np.sqrt(error * (1 - error) / 90)
    assert result.table.notes[0] == "± is half the 95% interval, over test examples and 3 runs"
