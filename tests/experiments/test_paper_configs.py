"""The configs of the paper's items: what the report compares was run alike, in every profile."""

from itertools import product
from pathlib import Path

import pytest
from mcf_cli.experiments.config import PROFILES
from mcf_cli.experiments.load import item_files, load_config

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_multi_class_form_that_verdicts_rest_on_is_always_run(profile):
    """Read from the grids, for real data and what stands in for it: a plan would first make visual words."""
    for path in item_files(CONFIGS):
        config = load_config(path, profile=profile).config
        for dataset in {name for entry in config.datasets for name in (entry.name, entry.fallback) if name}:
            forms: dict[tuple, set] = {}
            for methods in config.grid or []:
                if methods.multiclass and (methods.only_on is None or dataset in methods.only_on):
                    for which in product(methods.corruption, methods.surrogate or ["jensen"]):
                        forms.setdefault(which, set()).update(methods.multiclass)
            assert all("shared" in run for run in forms.values()), f"{path.name}, {dataset}: {forms}"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("weak", "item"), [("weak-text", "fig3"), ("weak-digits", "fig9")])
def test_a_weak_opponent_learns_from_as_many_rows_as_the_models_it_is_compared_with(weak, item, profile):
    own, theirs = (
        load_config(CONFIGS / f"{name}.yaml", profile=profile).config.evaluation for name in (weak, item)
    )
    assert (own.train, own.test) == (theirs.train, theirs.test)
