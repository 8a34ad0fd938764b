"""A config says what it means, and a bad one is refused with its place and the nearest right word."""

import inspect
import json

import numpy as np
import pytest
from mcf_cli.core.corruptions import BY_NAME
from mcf_cli.errors import McfError
from mcf_cli.experiments.config import BIASED, GROUPED, LEVEL_OF, LEVELS, Config
from mcf_cli.experiments.flags import DEFAULTS, STARTING_FILE
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import Plan, make_plan
from mcf_cli.experiments.run import config_yaml

from tests.experiments.tiny import TINY

GOOD = """\
item: good
datasets: [builtin-digits]
grid:
  - loss: [quadratic, logistic]
    corruption: blankout
    q: {from: 0.0, to: 0.9, step: 0.1}
  - {loss: quadratic, corruption: poisson}
select: {l2: [0, 1e-4], by: cv}
profiles:
  smoke:
    select: {folds: 3}
"""

# (what is put in place of what, the line of the error, words that must be in the message)
BAD = {
    "unknown key": ("select: {", "selekt: {", 8, ["`selekt`", "did you mean `select`"]),
    "a key of 1.x": (
        "item: good",
        "item: good\npaper: {section: Results}",
        2,
        ["paper.section", "unknown key"],
    ),
    "unknown key below": (
        "corruption: blankout",
        "coruption: blankout",
        5,
        ["grid.0.coruption", "`corruption`"],
    ),
    "unknown word": ("logistic]", "logistik]", 4, ["grid.0.loss", "'logistik'", "`logistic`"]),
    "wrong type": ("[builtin-digits]", "7", 2, ["datasets", "expected a list", "found 7"]),
    "not a number": ("1e-4", "tiny", 8, ["select.l2.1", "valid number", "'tiny'"]),
    "a truth value": ("1e-4", "true", 8, ["select.l2.1", "expected a number"]),
    "q of 1": ("to: 0.9", "to: 1.0", 6, ["grid.0.q", "[0, 1)", "1.0"]),
    "negative l2": ("1e-4", "-1", 8, ["select.l2", "negative"]),
    "infinite l2": ("1e-4", ".inf", 8, ["select.l2", "finite"]),
    "range without end": (", to: 0.9", "", 6, ["grid.0.q.to", "missing"]),
    "backward range": ("to: 0.9", "to: -1", 6, ["grid.0.q.to", "upwards"]),
    "q of poisson": ("corruption: poisson", "corruption: poisson, q: 0.5", 7, ["grid.1.q", "poisson"]),
    "surrogate of quadratic": (
        "corruption: poisson",
        "surrogate: jensen",
        7,
        ["grid.1.surrogate", "quadratic"],
    ),
    "exact loss of ten classes": (
        "{loss: quadratic, corruption: poisson",
        "{loss: logistic, corruption: poisson, surrogate: exact",
        7,
        ["grid.1.surrogate", "builtin-digits has more than two classes"],
    ),
    "hinge with mcf": ("{loss: quadratic", "{loss: hinge", 7, ["grid.1.corruption", "hinge"]),
    "loo of logistic": ("by: cv", "by: loo", 8, ["select.by", "quadratic loss only"]),
    "bad profile": ("folds: 3", "folds: 1", 11, ["select.folds", "greater than or equal to 2"]),
    "given twice": ("item: good", "item: good\nitem: again", 2, ["`item`", "twice", "line 1"]),
    "syntax": ("[builtin-digits]", "[builtin-digits", 3, ["not valid YAML"]),
    "anchor": ("[builtin-digits]", "&a [builtin-digits]", 2, ["anchors"]),
    "a tag": ("item: good", "item: !!python/name:os.system", 1, ["not valid YAML"]),
    "no such data": ("builtin-digits", "builtin-digit", 2, ["datasets.0", "builtin-digits"]),
    "no such file": ("builtin-digits", "nowhere.csv", 2, ["datasets.0", "nowhere.csv"]),
    "thinning without a q": (
        "corruption: poisson",
        "corruption: thinning, sigma: 0.1",
        7,
        ["sigma", "thinning"],
    ),
    "multinomial on pixels": ("corruption: poisson", "corruption: multinomial, q: 0.1", 7, ["one-hot"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_config_names_the_file_the_line_and_the_remedy(name, tmp_path):
    old, new, line, words = BAD[name]
    assert old in GOOD
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(McfError) as error:
        make_plan(load_config(path))
    message = str(error.value)
    assert f"{path}, line {line}: " in message
    for word in words:
        assert word in message
    assert message.count("\n") <= 1


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: " + "[" * 100_000, "levels deep"),
        ("{a: " * 100_000, "levels deep"),
        ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "anchors"),
        ("x" * 2_000_000, "larger than"),
        ("- 1\n- 2", "key: value"),
        ("", "key: value"),
        ("\x00", "not valid YAML"),
    ],
    ids=["deep lists", "deep mappings", "anchor bomb", "huge", "a list", "empty", "control character"],
)
def test_hostile_yaml_is_refused_in_one_line(text, word, tmp_path):
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with pytest.raises(McfError, match=word) as error:
        load_config(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


BLANKOUT = {"loss": "quadratic", "corruption": "blankout"}
IMPOSSIBLE = {
    "cost chooses no level": (
        {"evaluation": {"protocol": "cost"}, "grid": [BLANKOUT]},
        "blankout needs `q` here: ",
    ),
    "loo chooses no level": (
        {"evaluation": {"protocol": "loo"}, "grid": [BLANKOUT]},
        "blankout needs `q` here: ",
    ),
    "loo of l1": (
        {"evaluation": {"protocol": "loo"}, "grid": [{"loss": "quadratic", "penalty": "l1"}]},
        "l2 penalties only",
    ),
    "cost of the plain model": (
        {"evaluation": {"protocol": "cost"}, "grid": [{"loss": "logistic"}]},
        "none is the plain model",
    ),
    "cost of multinomial": (
        {
            "datasets": ["builtin-splice"],
            "evaluation": {"protocol": "cost"},
            "grid": [{"loss": "logistic", "corruption": "multinomial", "q": 0.1}],
        },
        "multinomial corrupts whole blocks",
    ),
    "l1 chosen by loo": (
        {"grid": [{"loss": "quadratic", "penalty": "l1"}], "select": {"by": "loo"}},
        r"select\.by: .* l2 penalties only",
    ),
    "copies chosen by loo": (
        {"evaluation": {"protocol": "explicit"}, "grid": [BLANKOUT], "select": {"by": "loo", "q": [0.5]}},
        r"select\.by: .* not for corrupted copies",
    ),
    "own selection": (
        {"datasets": [{"name": "builtin-digits", "select": {"by": "loo"}}]},
        r"datasets\.0\.select: .* quadratic loss only",
    ),
    "no rows": (
        {"evaluation": {"protocol": "learning-curve", "sizes": [0, 20]}},
        r"sizes: expected 1 or more",
    ),
    "no copies": ({"evaluation": {"protocol": "explicit", "copies": 0}}, r"copies: expected 1 or more"),
}


@pytest.mark.parametrize(("changes", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_trial_could_run_is_refused_before_any_fit(changes, words):
    with pytest.raises(McfError, match=words) as error:
        make_plan(load_config({**TINY, **changes}))
    assert "\n" not in str(error.value)


def test_methods_for_other_data_sets_are_not_held_against_a_set():
    grid = [
        {"loss": "quadratic"},
        {"loss": "logistic", "corruption": "multinomial", "q": 0.1, "only_on": ["builtin-splice"]},
    ]
    sets = [{"name": "builtin-digits", "select": {"by": "loo"}}, "builtin-splice"]
    trials = make_plan(load_config({**TINY, "datasets": sets, "grid": grid})).trials
    assert [trial.params["select"]["by"] for trial in trials] == ["loo", "holdout", "holdout"]


def test_a_misspelt_data_set_is_hinted_at_once():
    with pytest.raises(McfError) as error:
        make_plan(load_config({**TINY, "datasets": ["builtin-digit"]}))
    assert str(error.value).count("did you mean") == 1


def test_poisson_on_negative_data_is_refused_before_any_fit(tmp_path):
    data = tmp_path / "negative.csv"
    data.write_text("a,b,label\n" + "".join(f"{k - 3},{k},{k % 2}\n" for k in range(8)))
    config = {**TINY, "datasets": [str(data)], "grid": [{"loss": "logistic", "corruption": "poisson"}]}
    with pytest.raises(
        McfError, match="Poisson corruption needs values of 0 or more, and the smallest is -3"
    ):
        make_plan(load_config(config))


def test_a_range_includes_its_end_and_has_round_values():
    config = load_config(
        {**TINY, "select": {"l2": {"from": 1e-3, "to": 10, "factor": 10}, "q": [0.5]}}
    ).config
    assert config.select.l2 == [0.001, 0.01, 0.1, 1.0, 10.0]
    grid = [{"loss": "quadratic", "corruption": "blankout", "q": {"from": 0, "to": 0.9, "step": 0.1}}]
    assert load_config({**TINY, "grid": grid}).config.grid[0].q == [k / 10 for k in range(10)]


def test_flags_beat_the_profile_beats_the_file_beats_the_default(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(GOOD)
    assert load_config(path).config.select.folds == 5
    assert load_config(path, profile="smoke").config.select.folds == 3
    assert load_config(path, profile="smoke", settings=["select.folds=7"]).config.select.folds == 7
    assert load_config(path, flags={"seed": 4}).config.seed == 4
    assert load_config(path, settings=["grid.0.q=[0.5]"]).config.grid[0].q == [0.5]


@pytest.mark.parametrize(
    "setting", ["folds", "=3", "select..folds=3", "grid.9.q=0.5", "select.fold=3", "seed=[1"]
)
def test_a_bad_setting_is_named(setting, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(GOOD)
    with pytest.raises(McfError, match="--set"):
        load_config(path, settings=[setting])


def test_the_resolved_config_gives_the_same_trials_again(tmp_path):
    plan = make_plan(load_config(TINY))
    path = tmp_path / "config.yaml"
    path.write_text(config_yaml(plan.config))
    assert [t.key for t in make_plan(load_config(path)).trials] == [t.key for t in plan.trials]


def test_every_default_and_the_starting_file_are_valid(tmp_path):
    for default in DEFAULTS.values():
        load_config(default)
    path = tmp_path / "start.yaml"
    path.write_text(STARTING_FILE)
    load_config(path, profile="smoke")


def test_the_schema_knows_ranges_words_and_forbids_the_rest():
    schema = json.loads(json.dumps(Config.model_json_schema()))
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]["Range"]["properties"]) == {"from", "to", "step", "factor"}
    assert "logistic" in json.dumps(schema["$defs"]["GridEntry"])


def test_a_results_folder_and_a_plan_of_1_x_are_read_though_their_keys_are_gone(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(GOOD + "paper: {figure: 3, section: Results, claims: [a]}\n")
    with pytest.raises(McfError, match="unknown key `section`"):
        load_config(config)
    (tmp_path / "rows.csv").touch()
    loaded = load_config(config)
    assert loaded.config.paper.figure == 3
    plan = make_plan(load_config(TINY))
    plain = json.loads(plan.to_json())
    plain["config"]["paper"] = {"figure": None, "table": None, "section": "Results", "claims": []}
    assert [trial.key for trial in Plan.from_json(json.dumps(plain)).trials] == [t.key for t in plan.trials]


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_config_knows_of_a_corruption_is_what_its_class_does(name):
    """Its strength and whether it is biased, on one-hot counts, which all of them take."""
    takes = inspect.signature(BY_NAME[name]).parameters
    assert [level for level in LEVELS if level in takes] == ([LEVEL_OF[name]] if name in LEVEL_OF else [])
    given = {LEVEL_OF[name]: 0.3} if name in LEVEL_OF else {}
    given |= {"groups": 2} if name in GROUPED else {"blocks": 2} if name == "multinomial" else {}
    x = np.array([1.0, 0.0, 0.0, 1.0])
    assert (name in BIASED) == (not np.allclose(BY_NAME[name](**given).mean(x), x))
