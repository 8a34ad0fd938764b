"""What a method is given besides labelled rows: it changes nothing without a word, and what it says with one."""

from dataclasses import replace

import numpy as np
import pytest
from mcf_cli.core.missing import conditional_scores, conditioning_of
from mcf_cli.core.problem import Problem
from mcf_cli.datasets.splits import Draw
from mcf_cli.errors import McfError
from mcf_cli.experiments import aids
from mcf_cli.experiments.engine import run_spec
from mcf_cli.experiments.evaluate import delete, expected_mistakes
from mcf_cli.experiments.flags import Request, load_request
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import make_plan
from mcf_cli.experiments.rows import build_rows
from mcf_cli.experiments.trial import data_of

from tests.experiments.tiny import TINY, tiny_plan

DRAW = Draw(2013, "any", 0)
REVIEWS = {"datasets": ["builtin-reviews"], "select": {"l2": [0.01, 0.1], "by": "holdout"}}


def ran(**changes) -> list[dict]:
    """The rows of a small experiment, run trial by trial."""
    plan = make_plan(load_config({**TINY, **REVIEWS, **changes}))
    records = {trial.key: run_spec(trial.spec()) for trial in plan.trials}
    assert {record["status"] for record in records.values()} == {"ok"}, records
    return build_rows("tiny", plan.trials, records)


def errors_of(rows: list[dict], *keys: str) -> dict[tuple, float]:
    return {
        tuple(row.get(key) for key in keys): row["value"] for row in rows if row["metric"] == "test_error"
    }


def test_trials_without_an_aid_keep_their_keys():
    plain, none = tiny_plan(), tiny_plan(grid=[{**entry, "aid": "none"} for entry in TINY["grid"]])
    assert [trial.key for trial in plain.trials] == [trial.key for trial in none.trials]
    recipe = tiny_plan(autoencoder={"layers": 2})  # which no method asks for
    assert [trial.key for trial in plain.trials] == [trial.key for trial in recipe.trials]
    assert not any("aid" in trial.params["method"] for trial in plain.trials)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": [{"loss": "logistic", "aid": "conditional"}]}, "nightmare protocol"),
        ({"grid": [{"loss": "hinge", "aid": "presence"}]}, "with an l2 penalty"),
        ({"grid": [{"loss": "logistic", "aid": "autoencoder"}]}, "needs the block `autoencoder`"),
        ({"grid": [{"loss": "logistic", "aid": "target-rates"}]}, "blankout or dropout"),
        ({"grid": [{"loss": "boosting", "l2": 0}]}, "nightmare"),
        ({"grid": [{"loss": "logistic", "aid": "autoencodr"}]}, "autoencoder"),
        ({"evaluation": {"protocol": "expected-loss"}}, "of the logistic loss"),
        (
            {
                "evaluation": {"protocol": "expected-loss"},
                "datasets": ["builtin-digits"],
                "grid": [{"loss": "logistic"}],
            },
            "more than two classes",
        ),
        (
            {
                "evaluation": {"protocol": "label-noise"},
                "grid": [{"loss": "logistic", "aid": "known-rates"}],
                "select": {"l2": [0.0, 0.1]},
            },
            "l2 above 0",
        ),
        (
            {
                "evaluation": {"protocol": "label-noise"},
                "grid": [{"loss": "quadratic", "aid": "known-rates"}],
            },
            "for logistic",
        ),
        ({"evaluation": {"protocol": "label-noise", "flips": 0.5}}, "half of the labels"),
        ({"evaluation": {"protocol": "label-noise", "tilt": 0.5}}, "more than two classes"),
        (
            {
                "evaluation": {"protocol": "learning-curve", "sizes": [50]},
                "grid": [{"loss": "logistic", "corruption": "blankout", "aid": "unlabelled"}],
            },
            "surrogate gaussian",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_any_fit(changes, words):
    with pytest.raises(McfError, match=words):
        make_plan(load_config({**TINY, **changes}))


def test_flipped_labels_have_the_rates_asked_for_and_grow_with_them():
    dataset = data_of({"name": "builtin-reviews", "options": {}})
    train = np.arange(0, len(dataset.y), 2)
    seen = {}
    for rate in (0.0, 0.2, 0.4):
        params = {"flips": rate, "evaluation": {"tilt": 0.5}}
        noisy, T = aids.flipped(params, dataset, train, DRAW)
        wrong = noisy.y != dataset.y
        assert not wrong[1::2].any()  # test labels are right
        for label in (0, 1):
            share = wrong[train][dataset.y[train] == label].mean()
            assert share == pytest.approx(1 - T[label, label], abs=0.08)
        seen[rate] = wrong
        assert noisy.sha256 != dataset.sha256
    assert not seen[0.0].any()
    assert (seen[0.4] >= seen[0.2]).all()


def test_the_corrected_error_of_wrong_labels_is_that_of_right_ones_on_average():
    T = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.0, 0.7]])
    for truth in range(3):
        for predicted in range(3):
            expected = sum(
                T[truth, seen] * expected_mistakes(np.array([predicted]), np.array([seen]), T)[0]
                for seen in range(3)
            )
            assert expected == pytest.approx(float(predicted != truth), abs=1e-12)


def test_without_wrong_labels_known_rates_change_nothing():
    rows = ran(
        evaluation={"protocol": "label-noise", "flips": [0, 0.3], "train": 150, "test": 100},
        grid=[{"loss": "logistic", "aid": ["none", "known-rates", "estimated-rates"]}],
    )
    errors = errors_of(rows, "aid", "flips")
    assert errors[None, 0.0] == errors["known-rates", 0.0]
    assert len(errors) == 6
    found = [row for row in rows if row["metric"] == "rate_of_wrong_labels"]
    assert [row["aid"] for row in found] == ["estimated-rates"] * 2


def test_a_prediction_that_reads_every_feature_is_that_of_the_split_in_any_order():
    methods = [{"loss": "logistic"}, {"loss": "logistic", "corruption": "dropout", "q": 0.5}]
    rows = {"train": 150, "test": 100}
    split = errors_of(ran(evaluation=rows, grid=methods), "corruption")
    some = ran(evaluation={"protocol": "anytime", "features": [5, 50], **rows}, grid=methods)
    read = errors_of(some, "corruption", "features", "aid")
    for corruption in ("none", "dropout"):
        for order in ("by-weight", "random-order"):
            assert read[corruption, 900, order] == split[(corruption,)]
    assert {row["features"] for row in some if row["metric"] == "test_error"} == {5, 50, 900}
    assert {"nonzero_weights", "effective_weights", "mean_weight"} < {row["metric"] for row in some}


def test_the_expected_loss_stands_beside_the_test_error_and_below_every_bound():
    surrogates = ["jensen", "variational", "gaussian", "exact"]
    grid = [
        {"loss": "logistic", "corruption": "blankout", "q": 0.5, "surrogate": surrogates, "l2": 0.01},
        {"loss": "logistic", "l2": 0.01},
    ]
    rows = {"train": 150, "test": 100}
    plain = errors_of(ran(evaluation=rows, grid=grid), "surrogate", "corruption")
    found = ran(evaluation={"protocol": "expected-loss", **rows}, grid=grid)
    assert errors_of(found, "surrogate", "corruption") == plain
    metric = {(row["metric"], row.get("surrogate")): row["value"] for row in found}
    for name in surrogates:
        assert 0 < metric["train_expected_loss", name] < metric["objective", name] + 1e-3
        assert metric["objective", "exact"] <= metric["objective", name] + 1e-3
    losses = [row for row in found if row["metric"].endswith("expected_loss")]
    assert len(losses) == 2 * len(surrogates)  # the plain model has none
    assert not any("evidence" in row for row in losses)


def test_unlabelled_rows_take_part_in_the_fit():
    rows = ran(
        evaluation={"protocol": "learning-curve", "sizes": [60], "test": 100},
        grid=[
            {
                "loss": "logistic",
                "corruption": "blankout",
                "q": 0.5,
                "surrogate": "gaussian",
                "aid": ["none", "unlabelled"],
            }
        ],
    )
    objectives = {row.get("aid"): row["value"] for row in rows if row["metric"] == "objective"}
    assert objectives[None] != objectives["unlabelled"]


def test_the_autoencoder_learns_from_test_rows_only_when_its_name_says_so():
    recipe = {"q": 0.5, "layers": 2, "frequent": 30}
    dataset = data_of({"name": "builtin-reviews", "options": {}})
    train, test = np.arange(100), np.arange(200, 300)
    other = replace(dataset, X=dataset.X.tolil())
    other.X[200:300] = other.X[300:400]  # other test rows
    for aid, same in (("autoencoder", True), ("autoencoder-test", False)):
        params = {"method": {"aid": aid}, "autoencoder": recipe}
        one, two = (aids.aided(params, data, train, test)[1].X[train] for data in (dataset, other))
        assert np.array_equal(one, two) == same
        assert one.shape[1] == dataset.X.shape[1] + 2 * 30


def test_rates_of_the_target_do_not_look_at_the_test_rows():
    dataset = data_of({"name": "builtin-reviews", "options": {}})
    train, test = np.arange(100), np.arange(200, 300)
    params = {"method": {"aid": "target-rates", "q": 0.0, "corruption": "dropout"}}
    rates = aids.aided(params, dataset, train, test)[0]["method"]["q"]
    assert rates.shape == (dataset.X.shape[1],) and (rates >= 0).all() and (rates < 1).all()
    with pytest.raises(ValueError, match="no rows beside"):
        aids.aided(params, dataset, np.arange(600), np.arange(600, len(dataset.y)))


def test_marks_stand_where_zeros_stand():
    X = np.random.default_rng(0).random((20, 30)) + 1.0
    zeros, marks = (f(X, 0.4, DRAW, "deleted in test") for f in (delete, aids.marked))
    np.testing.assert_array_equal(zeros == 0, np.isnan(marks))


def test_conditional_means_and_the_reduced_model_predict_what_the_library_does():
    dataset = data_of({"name": "builtin-digits", "options": {}})
    rows, held = np.arange(300), np.arange(300, 340)
    method = {"loss": "quadratic", "corruption": "none", "penalty": "l2", "aid": "conditional"}
    problem = Problem(dataset.X[rows], dataset.y[rows], loss="quadratic", n_classes=10)
    solution = problem.solve(None, 0.01)
    meet = aids.met_at_test({"method": method}, dataset, rows, delete)
    filled = meet(dataset.X[held], 0.5, DRAW, "deleted in test")
    marks = aids.marked(dataset.X[held], 0.5, DRAW, "deleted in test")
    known = conditioning_of(dataset.X[rows], "conditional")
    ours = conditional_scores(marks, solution.coef, solution.intercept, known)
    np.testing.assert_allclose(solution.decision(filled), ours, atol=1e-8)
    params = {"method": {**method, "aid": "reduced"}}
    model = aids.reduced(params, dataset, rows, 0.01, solution)
    for number, row in enumerate(marks[:10]):
        seen = ~np.isnan(row)
        alone = Problem(dataset.X[rows][:, seen], dataset.y[rows], loss="quadratic", n_classes=10)
        fitted = alone.solve(None, 0.01).decision(row[None, seen])
        reduced = conditional_scores(row[None], solution.coef, solution.intercept, model.conditioning)
        np.testing.assert_allclose(reduced, fitted, atol=1e-6)
        assert model.predict(marks)[number] == fitted.argmax()
    assert model.n_iter == solution.n_iter


def test_every_way_meets_the_same_deleted_pixels_and_trees_take_marks():
    rows = ran(
        datasets=["builtin-digits"],
        evaluation={"protocol": "nightmare", "deletion": [0, 0.5], "train": 200, "test": 100},
        grid=[
            {"loss": "quadratic", "aid": ["none", "mean", "conditional", "reduced"]},
            {"loss": "boosting", "corruption": "dropout", "q": 0.5, "l2": 0},
        ],
        select={"l2": [0.01, 0.1]},
    )
    errors = errors_of(rows, "loss", "aid", "deletion")
    assert len({errors["quadratic", aid, 0.0] for aid in (None, "mean", "conditional", "reduced")}) == 1
    assert errors["quadratic", "conditional", 0.5] < errors["quadratic", None, 0.5]
    assert ("boosting", None, 0.5) in errors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("grid: [{loss: quadratic, aid: presence}]", "takes no `aid`"),
        ("evaluation: {protocol: anytime}", "reproduce"),
    ],
)
def test_a_command_that_knows_no_aids_says_so(tmp_path, change, words):
    file = tmp_path / "aid.yaml"
    file.write_text(f"item: a\ndatasets: [builtin-reviews]\n{change}\n")
    if "grid" not in change:
        file.write_text(file.read_text() + "grid: [{loss: quadratic}]\n")
    with pytest.raises(McfError, match=words):
        load_request(Request("train", ("split",), {}), file, {"flags": {}})
