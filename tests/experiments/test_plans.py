"""A plan is kept as what its trials follow from, and comes back with the same trials under the same keys."""

from dataclasses import asdict, replace

import pytest
from mcf_cli.errors import McfError
from mcf_cli.experiments.flags import left_to_select
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import Plan, make_plan

from tests.experiments.tiny import TINY, tiny_plan

PLANS = {
    "split": {"repeats": 3},
    "own selection": {"datasets": [{"name": "builtin-digits", "select": {"q": [0.3]}}, "builtin-splice"]},
    "some sets only": {
        "datasets": ["builtin-digits", "builtin-splice"],
        "grid": [
            {"loss": "quadratic"},
            {"loss": "exponential", "only_on": ["builtin-splice"]},
        ],
    },
    "learning curve": {
        "evaluation": {"protocol": "learning-curve", "sizes": [20, 10**6], "test": 50},
        "repeats": 2,
    },
    "explicit": {
        "evaluation": {"protocol": "explicit", "copies": [1, 2]},
        "grid": [{"loss": "quadratic", "corruption": "blankout", "q": 0.5}],
    },
    "bounds": {"datasets": [], "grid": [], "evaluation": {"protocol": "bounds", "q": [0.1, 0.5]}},
}


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS)
def test_a_plan_comes_back_from_json_with_the_same_trials(changes):
    plan = tiny_plan(**changes)
    again = Plan.from_json(plan.to_json())
    assert [trial.key for trial in again.trials] == [trial.key for trial in plan.trials]
    assert [asdict(trial) for trial in again.trials] == [asdict(trial) for trial in plan.trials]
    assert again.notices == plan.notices


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS)
def test_a_key_is_the_hash_of_all_parameters(changes):
    """The quick way to the keys of many repeats gives what hashing each trial alone gives."""
    for trial in tiny_plan(**changes).trials:
        assert trial.key == replace(trial).key


def test_a_grid_entry_may_be_for_some_data_sets_only():
    trials = tiny_plan(**PLANS["some sets only"]).trials
    assert {(trial.params["dataset"], trial.params["method"]["loss"]) for trial in trials} == {
        ("builtin-digits", "quadratic"),
        ("builtin-splice", "quadratic"),
        ("builtin-splice", "exponential"),
    }


def test_a_grid_entry_may_have_its_own_l2_until_a_flag_asks_for_another():
    grid = [
        {"loss": "quadratic", "corruption": "none"},
        {"loss": "exponential", "corruption": "none", "l2": [0, 1e-7]},
    ]
    loaded = load_config({**TINY, "grid": grid})
    assert [t.params["select"]["l2"] for t in make_plan(loaded).trials] == [[0.01, 0.1, 1.0], [0, 1e-7]]
    flagged = load_config({**TINY, "grid": grid}, flags={"select.l2": [0.5]})
    assert {tuple(t.params["select"]["l2"]) for t in make_plan(left_to_select(flagged, {"l2"})).trials} == {
        (0.5,)
    }


def test_a_grid_entry_may_be_for_small_training_sets_only():
    entries = [{"loss": "quadratic"}, {"loss": "exponential", "up_to": 20}]
    curve = {"protocol": "learning-curve", "sizes": [20, 40], "test": 50}
    trials = tiny_plan(evaluation=curve, grid=entries).trials
    assert {(trial.params["train_size"], trial.params["method"]["loss"]) for trial in trials} == {
        (20, "quadratic"),
        (40, "quadratic"),
        (20, "exponential"),
    }
    with pytest.raises(McfError, match="limits the sizes of a learning curve"):
        tiny_plan(grid=entries)


def test_a_learning_curve_without_a_size_that_fits_is_refused():
    curve = {"protocol": "learning-curve", "sizes": [10**6], "test": 50}
    with pytest.raises(
        McfError, match=r"evaluation\.sizes: builtin-digits has .* training rows: no size fits"
    ):
        tiny_plan(evaluation=curve)


def test_a_grid_that_is_for_other_data_sets_is_refused():
    with pytest.raises(McfError, match=r"grid: .* leave no method for this data: nothing to run"):
        tiny_plan(grid=[{"loss": "quadratic", "only_on": ["builtin-splice"]}])


def test_of_one_value_nothing_is_chosen_so_nothing_is_validated():
    entry = {"loss": "quadratic", "corruption": "blankout"}
    in_grid = tiny_plan(grid=[{**entry, "q": 0.5}], select={"l2": 0.1, "by": "cv"})
    in_select = tiny_plan(grid=[entry], select={"l2": 0.1, "q": 0.5, "by": "cv"})
    assert [trial.key for trial in in_select.trials] == [trial.key for trial in in_grid.trials]
    assert in_select.trials[0].params["select"]["by"] == "none"


def test_a_misspelt_data_set_in_the_grid_is_named():
    with pytest.raises(McfError, match="builtin-splce is not a data set; did you mean `builtin-splice`"):
        tiny_plan(grid=[{"loss": "quadratic", "only_on": ["builtin-splce"]}])


def test_more_trials_than_memory_holds_are_counted_and_not_made():
    """Counted by hand: 9,001 levels, 10,000 repeats, 2 losses; and a learning curve of 10,000 sizes."""
    levels = {"from": 0, "to": 0.9, "step": 0.0001}
    grid = [{"loss": ["quadratic", "logistic"], "corruption": "blankout", "q": levels}]
    with pytest.raises(McfError, match=r"asks for 180,020,000 trials, and a plan holds at most 1,000,000"):
        tiny_plan(grid=grid, repeats=10_000)
    sizes = {"protocol": "learning-curve", "sizes": {"from": 10, "to": 109, "step": 1}, "test": 50}
    with pytest.raises(McfError, match=r"asks for 1,800,200 trials"):
        tiny_plan(grid=grid, evaluation=sizes)


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS)
def test_as_many_trials_are_counted_as_are_made(changes, monkeypatch):
    made = len(tiny_plan(**changes).trials)
    monkeypatch.setattr("mcf_cli.experiments.plan.MAX_TRIALS", made - 1)
    with pytest.raises(McfError, match=f"asks for {made} trials"):
        tiny_plan(**changes)


def test_a_set_that_is_here_again_with_other_options_is_a_repeat():
    """As a second codebook is of the same images: its rows join those of the first as another repeat."""
    entries = [{"name": "builtin-splice", "options": {"noise": noise}} for noise in (0.1, 0.2)]
    plan = tiny_plan(datasets=entries, repeats=2)
    assert any("builtin-splice appears again with other options" in notice for notice in plan.notices)
    repeats = {}
    for trial in plan.trials:
        repeats.setdefault(trial.params["data_sha256"], set()).add(trial.params["repeat"])
    assert sorted(map(sorted, repeats.values())) == [[0, 1], [2, 3]]
    assert Plan.from_json(plan.to_json()).trials == plan.trials
