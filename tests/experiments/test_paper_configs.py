"""The configs of the paper's items: what the report compares was run alike, in every profile."""

from pathlib import Path

import pytest
from mcf_cli.experiments.config import PROFILES
from mcf_cli.experiments.load import item_files, load_config
from mcf_cli.experiments.plan import make_plan

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_multi_class_form_that_verdicts_rest_on_is_always_run(profile):
    for path in item_files(CONFIGS):
        forms: dict[tuple, set] = {}
        for trial in make_plan(load_config(path, profile=profile)).trials:
            method = trial.params.get("method", {})
            if "multiclass" in method:
                which = trial.params["dataset"], method["corruption"], method["surrogate"]
                forms.setdefault(which, set()).add(method["multiclass"])
        assert all("shared" in run for run in forms.values()), f"{path.name}: {forms}"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("weak", "item"), [("weak-text", "fig3"), ("weak-digits", "fig9")])
def test_a_weak_opponent_learns_from_as_many_rows_as_the_models_it_is_compared_with(weak, item, profile):
    own, theirs = (
        load_config(CONFIGS / f"{name}.yaml", profile=profile).config.evaluation for name in (weak, item)
    )
    assert (own.train, own.test) == (theirs.train, theirs.test)
