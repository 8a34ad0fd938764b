"""The numbers of a fixed sample of trials change with METHOD_VERSION or not at all."""

from typing import get_args

import pytest
from mcf_cli.core.corruptions import BY_NAME
from mcf_cli.experiments.config import Aid, CorruptionName, LossName, Multiclass, Penalty, Surrogate
from mcf_cli.experiments.protocols import Evaluation
from mcf_cli.experiments.trial import METHOD_VERSION

from tests.experiments import golden


def test_the_numbers_of_the_sample_are_those_of_this_method_version(tmp_path):
    version, stored = golden.read()
    words = golden.verdict(version, golden.differences(stored, golden.measured(tmp_path)))
    assert not words, words


def test_a_changed_number_or_choice_is_noticed_and_a_rounding_is_not():
    _, stored = golden.read()
    index, row = next((i, row) for i, row in enumerate(stored) if row["metric"] == "objective")

    def found(**changes):
        rows = [*stored[:index], row | changes, *stored[index + 1 :]]
        return golden.differences(stored, rows)

    assert found(value=row["value"] * (1 + 1e-9)) == []
    assert len(found(value=row["value"] * (1 + 1e-6))) == 1
    assert len(found(l2=10 * row["l2"])) == 1
    assert len(found(converged=not row["converged"])) == 1
    assert golden.differences(stored, stored[:-1])


def test_the_verdict_says_what_to_do():
    assert golden.verdict(METHOD_VERSION, []) == ""
    assert "raise METHOD_VERSION" in golden.verdict(METHOD_VERSION, ["a number"])
    assert "golden --write" in golden.verdict(METHOD_VERSION - 1, [])


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("loss", LossName),
        ("surrogate", Surrogate),
        ("multiclass", Multiclass),
        ("penalty", Penalty),
        ("corruption", CorruptionName),
        ("aid", Aid),
    ],
)
def test_the_sample_has_every_method_that_a_config_may_name(key, words):
    """A new one needs an item in golden.py; `none` stands in no row as an aid."""
    _, stored = golden.read()
    named = set(get_args(words)) - ({"none"} if key == "aid" else set())
    assert named - {row[key] for row in stored if key in row} == set()


def test_the_sample_has_every_protocol_but_cost():
    ran = {config.get("evaluation", {}).get("protocol", "split") for config in golden.SAMPLE.values()}
    protocols = get_args(get_args(Evaluation)[0])
    named = {word for kind in protocols for word in get_args(kind.model_fields["protocol"].annotation)}
    assert ran == named - {"cost"}


def test_a_config_may_name_every_corruption_of_the_library():
    assert set(get_args(CorruptionName)) == {"none", *BY_NAME, "fdrop"}
