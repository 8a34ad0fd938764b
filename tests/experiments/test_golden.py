"""The numbers of a fixed sample of trials change with METHOD_VERSION or not at all."""

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


def test_the_sample_has_every_loss_corruption_and_protocol():
    _, stored = golden.read()
    assert {row["loss"] for row in stored if "loss" in row} == {
        "quadratic",
        "exponential",
        "logistic",
        "hinge",
    }
    assert {row["corruption"] for row in stored if "corruption" in row} == {
        *("none", "blankout", "dropout", "gaussian", "laplace", "poisson", "bitswap", "multinomial", "fdrop"),
    }
    protocols = {config.get("evaluation", {}).get("protocol", "split") for config in golden.SAMPLE.values()}
    assert protocols == {"split", "cv", "learning-curve", "nightmare", "explicit", "bounds", "loo"}
