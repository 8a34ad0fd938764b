"""A killed run goes on where it was, repeats at most what was in flight, and ends with the same bytes."""

import subprocess
import sys
from pathlib import Path

from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.rows import ERRORS
from mcf_cli.experiments.run import progress_of, run_plan, stored_outcome
from mcf_cli.experiments.store import Store

from tests.experiments.tiny import Recorder, tiny_plan, without_seconds
from tests.experiments.trials_for_killing import plan_for_killing

KILLS = 20


def test_killed_twenty_times_and_resumed_the_rows_are_those_of_an_undisturbed_run(tmp_path):
    killed = subprocess.run(
        [sys.executable, "-m", "tests.experiments.killed_runs", str(tmp_path / "killed"), str(KILLS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == 0, killed.stderr
    counts = [int(word) for word in killed.stdout.split()]
    assert len(counts) == KILLS
    assert counts == sorted(counts)

    plan, listener = plan_for_killing(), Recorder()
    resumed = run_plan(plan, tmp_path / "killed", Engine("serial"), listener)
    undisturbed = run_plan(plan, tmp_path / "undisturbed", Engine("serial"), Recorder())
    assert resumed.ok
    assert len(listener.todo) == len(plan.trials) - counts[-1]
    # Whole lines only, each trial once: nothing finished was run again.
    assert Store(tmp_path / "killed", "killed").path.read_bytes().count(b"\n") == len(plan.trials)
    assert without_seconds(resumed.folder / "rows.csv") == without_seconds(undisturbed.folder / "rows.csv")
    assert (resumed.folder / ERRORS).read_bytes() == (undisturbed.folder / ERRORS).read_bytes()


def test_a_second_run_has_nothing_to_do_and_writes_the_same_bytes(tmp_path):
    plan = tiny_plan()
    first = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    content = (first.folder / "rows.csv").read_bytes()
    listener = Recorder()
    run_plan(plan, tmp_path, Engine("serial"), listener)
    assert listener.todo == []
    assert (first.folder / "rows.csv").read_bytes() == content


def test_force_runs_everything_again(tmp_path):
    plan, listener = tiny_plan(), Recorder()
    run_plan(plan, tmp_path, Engine("serial"), Recorder())
    run_plan(plan, tmp_path, Engine("serial"), listener, force=True)
    assert len(listener.finished_trials) == len(plan.trials)


def test_a_wider_grid_runs_only_what_is_new_and_a_narrower_one_shows_only_what_it_asks_for(tmp_path):
    def plan(levels):
        return tiny_plan(grid=[{"loss": "quadratic", "corruption": "blankout", "q": levels}])

    run_plan(plan([0.1, 0.2]), tmp_path, Engine("serial"), Recorder())
    listener = Recorder()
    run_plan(plan([0.1, 0.2, 0.3]), tmp_path, Engine("serial"), listener)
    assert [trial.params["method"]["q"] for trial in listener.todo] == [0.3]
    narrow = run_plan(plan([0.2]), tmp_path, Engine("serial"), Recorder())
    assert {row["q"] for row in narrow.rows} == {0.2}


def test_what_stops_in_the_middle_is_partial_and_chooses_nothing_from_half_the_candidates(tmp_path):
    def stop(finished):
        if finished == 6:
            raise KeyboardInterrupt

    plan = tiny_plan()
    outcome = run_plan(plan, tmp_path, Engine("serial"), Recorder(stop))
    assert outcome.interrupted
    assert outcome.partial == f"PARTIAL 6/{len(plan.trials)}"
    # Five and six are the two candidates of dropout: with both there, one is chosen.
    assert {row["corruption"] for row in outcome.rows} == {"blankout", "dropout"}
    assert len({row["q"] for row in outcome.rows if row["corruption"] == "dropout"}) == 1

    def stop_earlier(finished):
        if finished == 5:
            raise KeyboardInterrupt

    earlier = run_plan(plan, tmp_path / "earlier", Engine("serial"), Recorder(stop_earlier))
    assert {row["corruption"] for row in earlier.rows} == {"blankout"}


def test_failures_are_recorded_shown_and_tried_again_while_the_others_go_on(tmp_path):
    """Ten folds of five rows cannot be: that trial fails, and only that one."""
    plan = tiny_plan(
        evaluation={"protocol": "learning-curve", "sizes": [5, 60], "test": 50},
        grid=[{"loss": "quadratic", "corruption": ["none", "poisson"]}],
        select={"l2": [0.1, 1.0], "folds": 10},
    )
    outcome = run_plan(plan, tmp_path, Engine("serial"), Recorder())
    assert not outcome.ok
    assert (outcome.progress.done, outcome.progress.failed) == (2, 2)
    assert all("10 folds need at least as many rows" in reason for reason in outcome.failures.values())
    failed = [row for row in outcome.rows if row["status"] == "failed"]
    assert [row["train_size"] for row in failed] == [5, 5]
    assert stored_outcome(tmp_path, "tiny").failures == outcome.failures
    listener = Recorder()
    run_plan(plan, tmp_path, Engine("serial"), listener)
    assert [trial.params["train_size"] for trial in listener.todo] == [5, 5]


def test_changed_data_is_another_trial(tmp_path):
    keys = []
    for scale in (1, 2):
        data = tmp_path / "data.csv"
        data.write_text("a,b,label\n" + "".join(f"{k * scale % 7},{k % 5},{k % 2}\n" for k in range(40)))
        grid = [{"loss": "quadratic", "corruption": "none"}]
        plan = tiny_plan(datasets=[{"name": str(data), "options": {"seed": scale}}], grid=grid, evaluation={})
        keys.append({trial.key for trial in plan.trials})
    assert not keys[0] & keys[1]


def test_committed_results_tell_how_long_a_fresh_run_takes(tmp_path):
    plan = tiny_plan()
    run_plan(plan, tmp_path, Engine("serial"), Recorder())
    Store(tmp_path, "tiny").forget()
    progress = progress_of(plan, {}, folder=tmp_path / "tiny")
    assert progress.done == 0
    assert progress.seconds_left > 0
    assert progress_of(plan, {}, folder=tmp_path / "elsewhere").seconds_left is None
