"""Choosing l2: where a path is left, where the final fit begins, and selections that differ by data set."""

import numpy as np
import pytest
from mcf_cli.core.selection import WORSE_IN_A_ROW
from mcf_cli.datasets import load
from mcf_cli.datasets.splits import Draw, divide, train_test
from mcf_cli.errors import McfError
from mcf_cli.experiments.evaluate import choose_l2, delete, draw_of, fit_chosen, nightmare, training_on
from mcf_cli.experiments.learners import make_learner

from tests.experiments.tiny import tiny_plan

L2 = [10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-6, 0.0]
DRAW = Draw(7, "builtin-reviews", 0)
HOLDOUT = {"l2": L2, "by": "holdout", "fraction": 0.25}


def reviews(loss="logistic", corruption="blankout", n=240):
    dataset = load("builtin-reviews")
    method = {"loss": loss, "corruption": corruption, "penalty": "l2"}
    method |= {"q": 0.3} if corruption == "blankout" else {}
    rows = np.arange(n)
    learner = make_learner({"method": method, "fit": {"max_iter": 200, "tol": 1e-7}}, dataset, rows)
    return training_on(dataset, rows, learner)


def test_a_path_is_left_once_it_only_gets_worse():
    validated = choose_l2(reviews("quadratic", "none"), HOLDOUT, DRAW).validated
    errors, solutions = validated.pooled, validated.solutions
    visited = np.isfinite(errors)
    assert len(solutions) == visited.sum()
    assert visited[: len(solutions)].all()
    assert not visited.all()  # a plain least-squares fit without a penalty is a bad one
    assert (errors[len(solutions) - WORSE_IN_A_ROW : len(solutions)] > errors.min()).all()
    for place in range(WORSE_IN_A_ROW, len(solutions) - 1):
        tail = errors[place - WORSE_IN_A_ROW + 1 : place + 1]
        assert not (tail > errors[: place - WORSE_IN_A_ROW + 1].min()).all(), (
            "it should have been left before"
        )


@pytest.mark.parametrize("select", [HOLDOUT, {"l2": L2, "by": "cv", "folds": 3}], ids=["holdout", "cv"])
def test_the_final_fit_is_the_one_from_scratch(select):
    training = reviews()
    choice = choose_l2(training, select, DRAW)
    assert choice.nearby is not None
    ours = fit_chosen(training.learner, choice)
    *_, (_, from_zero) = training.learner.path([l2 for l2 in L2 if l2 >= choice.l2])
    assert ours.objective == pytest.approx(from_zero.objective, rel=1e-9)
    np.testing.assert_allclose(ours.coef, from_zero.coef, atol=1e-4)


def test_a_data_set_may_have_a_selection_of_its_own():
    own = {"name": "builtin-reviews", "select": {"l2": [0.5], "by": "cv", "folds": 3}}
    plan = tiny_plan(datasets=["builtin-digits", own])
    selections = {trial.params["dataset"]: trial.params["select"] for trial in plan.trials}
    assert selections["builtin-digits"] == {"l2": [0.01, 0.1, 1.0], "by": "holdout", "fraction": 0.25}
    by_level = [t.params["select"] for t in plan.trials if t.params["dataset"] == "builtin-reviews"]
    assert {"l2": [0.5], "by": "cv", "folds": 3} in by_level


def test_a_wrong_selection_of_a_data_set_is_refused_with_its_place():
    own = {"name": "builtin-digits", "select": {"folds": 1}}
    with pytest.raises(McfError, match=r"datasets\.0\.select"):
        tiny_plan(datasets=[own])


def test_leaving_one_out_of_rows_that_lack_a_class_predicts_the_codes_of_the_data():
    dataset = load("builtin-topics")
    rows = np.flatnonzero(np.isin(dataset.y, [1, 3]))[:60]
    method = {"loss": "quadratic", "corruption": "blankout", "penalty": "l2", "q": 0.3}
    learner = make_learner({"method": method, "fit": {"max_iter": 200, "tol": 1e-7}}, dataset, rows)
    assert set(learner.loo(0.1)) <= {1, 3}
    assert np.mean(learner.loo(0.1) == dataset.y[rows]) > 0.8


@pytest.mark.parametrize(
    "select", [{"l2": L2, "by": "cv", "folds": 3}, HOLDOUT | {"l2": [1.0, 0.01]}], ids=["cv", "holdout"]
)
def test_repeated_divisions_are_the_single_one_and_others(select):
    once = choose_l2(reviews(n=120), select, DRAW).validated
    thrice = choose_l2(reviews(n=120), {**select, "repeats": 3}, DRAW).validated
    parts = len(once.counts)
    assert len(thrice.counts) == 3 * parts
    np.testing.assert_array_equal(thrice.sums[:parts], once.sums)
    assert any((thrice.sums[k * parts : (k + 1) * parts] != once.sums).any() for k in (1, 2))
    np.testing.assert_allclose(thrice.pooled, thrice.sums.sum(axis=0) / thrice.counts.sum())


def test_repeats_reach_the_trials_and_a_single_division_keeps_their_keys():
    one, single, three = (
        tiny_plan(select={"l2": [0.01, 0.1], "q": [0.2, 0.6], "by": "cv", "folds": 3, **more})
        for more in ({}, {"repeats": 1}, {"repeats": 3})
    )
    keys = [[trial.key for trial in plan.trials] for plan in (one, single, three)]
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])
    assert all(trial.params["select"]["repeats"] == 3 for trial in three.trials)


def test_leave_one_out_cannot_be_repeated():
    with pytest.raises(McfError, match="leave-one-out draws nothing"):
        tiny_plan(
            grid=[{"loss": "quadratic", "corruption": "none"}],
            select={"l2": [0.1, 1], "by": "loo", "repeats": 2},
        )


def test_refitted_models_are_those_of_all_training_rows_at_the_chosen_l2():
    evaluation = {"protocol": "nightmare", "train": 150, "test": 200, "deletion": [0.0, 0.5], "refit": True}
    grid = [{"loss": "quadratic", "corruption": "dropout", "q": 0.3}]
    trial = tiny_plan(evaluation=evaluation, grid=grid).trials[0]
    dataset = load("builtin-digits")
    errors = [row for row in nightmare(trial.params, dataset) if row["metric"] == "test_error"]
    draw = draw_of(trial.params)
    train, test = train_test(dataset, trial.params["evaluation"], draw)
    for row in errors:
        (_, solution), *_ = make_learner(trial.params, dataset, train).path([row["l2"]])
        X = delete(dataset.X[test], row["deletion"], draw, "deleted in test")
        assert row["value"] == np.mean(solution.predict(X) != dataset.y[test])
    assert len(errors) == 2


def test_every_mask_has_errors_of_its_own_and_all_choose_together():
    evaluation = {"protocol": "nightmare", "train": 150, "test": 200, "deletion": [0.5], "masks": 3}
    grid = [{"loss": "quadratic", "corruption": "dropout", "q": 0.3}]
    trial = tiny_plan(evaluation=evaluation, grid=grid, select={"l2": [1e-3, 1e-1]}).trials[0]
    dataset = load("builtin-digits")
    draw = draw_of(trial.params)
    train, test = train_test(dataset, trial.params["evaluation"], draw)
    kept, held = divide(train, 0.1, dataset.groups, draw, "validation rows")
    fits = dict(make_learner(trial.params, dataset, kept).path([1e-1, 1e-3]))
    names = ["", " 2", " 3"]

    def error(l2: float, rows: np.ndarray, purpose: str) -> float:
        predicted = fits[l2].predict(delete(dataset.X[rows], 0.5, draw, purpose))
        return float(np.mean(predicted != dataset.y[rows]))

    pooled = {l2: np.mean([error(l2, held, f"deleted in validation{name}") for name in names]) for l2 in fits}
    rows = [row for row in nightmare(trial.params, dataset) if row["metric"] == "test_error"]
    best = min(fits, key=lambda l2: (pooled[l2], -l2))
    assert {row["l2"] for row in rows} == {best}
    expected = [(mask, error(best, test, f"deleted in test{name}")) for mask, name in enumerate(names)]
    assert [(row["fold"], row["value"]) for row in rows] == expected
    assert len({value for _, value in expected}) > 1  # the masks differ
