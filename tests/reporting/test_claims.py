"""Claims: the file is sound, each predicate can hold and can fail, and no verdict hides what it rests on."""

import csv
import io
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from mcf_cli.errors import McfError
from mcf_cli.experiments.load import claims_file
from mcf_cli.experiments.trial import METHOD_VERSION
from mcf_cli.reporting import claims as judging
from mcf_cli.reporting.claims import VOCABULARY
from mcf_cli.reporting.comparison import NotEnough
from mcf_cli.reporting.results import read_results
from mcf_cli.reporting.series import tidy
from mcf_cli.reporting.verdicts import DIFFERS, HOLDS, NOT_RUN, STRONGER, UNDECIDED, VERDICTS

from tests.reporting import made_up_results, made_up_rows

FILE = Path(__file__).parents[2] / "configs" / "claims.yaml"
BLANKOUT, POISSON = {"corruption": "blankout"}, {"corruption": "poisson"}
# Tasks and numbers that the reproduction must not forget, each with the words of a claim's paper value.
MUST_ASK = {
    "blankout-improves": "5 of 6", "poisson-improves": "5 of 6", "amazon-best-q": "0.8 or 0.9",
    "amazon-reduction": "22%", "amazon-rise": "0.9", "l2-zero": "0", "dmoz-reduction": "25%",
    "dmoz-every-size": "every size", "reuters-every-size": "every size", "explicit-blankout-falls": "falls",
    "explicit-poisson-limit": "MCF", "surrogates-beat-plain": "plain", "jensen-beats-approximation": "most",
    "variational-beats-approximation": "most", "jensen-beats-variational": "tends", "splice-gain": "0.6",
    "splice-relative-gain": "15%", "splice-best-q": "0.15 to 0.4", "splice-multinomial": "no improvement",
    "deletion-quadratic": "40%", "deletion-exponential": "47%", "deletion-logistic": "60%",
    "deletion-fdrop": "every level", "cost-exponential": "2", "cost-logistic": "10", "cifar-like-mcrbm": "29.1%",
    "splice-logistic-best": "logistic", "cheaper-than-fdrop": "cheaper", "linear-in-n": "O(N)",
    "no-dearer-than-copies": "copies", "sparse-high-dimensional": "sparse", "weight-undertraining": "non-zero",
    "poisson-outliers": "outliers", "poisson-clip": "cutoff", "gaussian-is-ridge": "ridge", "laplace-is-ridge": "ridge",
    "quadratic-convex": "convex", "exponential-convex": "convex", "jensen-convex": "convex", "data-sizes": "sizes",
}  # fmt: skip


def ask(word, rows, **parameters):
    predicate = VOCABULARY[word].model_validate(parameters)
    return predicate.judge(tidy(made_up_rows.with_evidence(rows), predicate.metric))


def scaled(rows, factor, **where):
    """The rows, with the values of some methods changed."""
    chosen = pd.Series(True, index=rows.index)
    for column, value in where.items():
        chosen &= rows[column] == value
    return rows.assign(value=rows["value"].where(~chosen, rows["value"] * factor))


def judged(tmp_path, claim, items, **more):
    """The judgement of one claim on items written to a folder."""
    for name, (rows, options) in items.items():
        made_up_results.write_item(tmp_path, name, rows, **options)
    content = yaml.safe_load(FILE.read_text())
    one = {"id": "it", "place": "Section 1", "quote": "so", "paper": "so", **claim}
    content |= {"claims": [one], "reasons": {}, **more}
    found = judging.Claims.model_validate(content)
    return judging.judge_all(found, read_results(tmp_path))[0]


SO = {"method": METHOD_VERSION, "text": "so"}
IMPROVES = {"items": ["fig3"], "data": ["amazon"], "check": {"below_at_every_level": {"method": POISSON}}}


def test_the_file_is_valid_and_asks_all_that_it_must():
    found = {claim.id: claim for claim in judging.load_claims(FILE).claims}
    for name, words in MUST_ASK.items():
        assert words in found[name].paper
    ours = judging.load_claims(claims_file(beyond=True)).claims
    assert {word for claim in [*found.values(), *ours] for word in claim.check} == set(VOCABULARY)


def test_table3_has_a_claim_for_each_of_its_nine_numbers_and_each_column():
    checks = [claim.check for claim in judging.load_claims(FILE).claims if claim.items == ["table3"]]
    stated = {check["error_is"]["states"] for check in checks if "error_is" in check}
    assert stated >= {29.1, 29.4, 30.0, 32.3, 32.5, 32.6, 37.9, 39.5, 39.7}
    assert sum("order_of" in check for check in checks) >= 3


def test_every_item_that_a_claim_asks_of_has_a_config():
    wanted = {name for claim in judging.load_claims(FILE).claims for name in claim.items}
    assert {name for name in wanted if not (FILE.parent / f"{name}.yaml").exists()} == set()


SWEEP = made_up_rows.q_sweep()
CLOSE = made_up_rows.q_sweep([0.9, 0.95, 0.99])
NIGHT = made_up_rows.nightmare()


def chosen(plain, corrupted):
    """The sweep with an l2 for plain models and one for the others."""
    return SWEEP.assign(
        l2=[plain if corruption == "none" else corrupted for corruption in SWEEP["corruption"]]
    )


def timed(power):
    """Learning curves whose seconds grow with a power of N."""
    rows = made_up_rows.learning_curve()
    return rows.assign(seconds=[0.01 * size**power for size in rows["train_size"]])


def sloped(slope):
    """The sweep, with errors that rise or fall with q."""
    return SWEEP.assign(value=[0.3 + slope * (0 if pd.isna(q) else q) for q in SWEEP["q"]])


AT_HALF = {"method": {"loss": "logistic", "corruption": "dropout"}, "level": "deletion", "at": 0.5}
SURROGATES = made_up_rows.surrogates()
APPROXIMATION = {"over": {"surrogate": "quadratic", **BLANKOUT}, "level": "q"}


@pytest.mark.parametrize(
    ("word", "parameters", "rows", "broken"),
    [
        ("below_at_every_level", {"method": POISSON}, SWEEP, scaled(SWEEP, 1.5, dataset="amazon-dvd", **POISSON)),
        ("below_at_every_level", {"method": BLANKOUT, "level": "q", "above": 0.25, "at_least": 3, "of": 4},
         scaled(SWEEP, 1.5, dataset="amazon-dvd", q=0.4), scaled(SWEEP, 1.5, q=0.4)),
        ("beats_in_most", {"method": {"surrogate": "jensen"}, **APPROXIMATION},
         SURROGATES, scaled(SURROGATES, 1.3, surrogate="jensen")),
        ("beats_in_most", {"method": {"surrogate": "jensen"}, **APPROXIMATION, "take": "mean"},
         SURROGATES, scaled(SURROGATES, 1.3, surrogate="jensen")),
        ("beats_in_most", {"method": BLANKOUT, "over": POISSON, "level": "q", "at_best": True},
         SWEEP, scaled(SWEEP, 0.5, **POISSON)),
        ("best_level_between", {"method": BLANKOUT, "low": 0.6, "high": 0.9}, SWEEP, scaled(SWEEP, 0.5, q=0.3)),
        ("reduction", {"method": BLANKOUT, "level": "q"}, SWEEP, scaled(SWEEP, 1.5, **BLANKOUT)),
        ("reduction", {**AT_HALF, "states": 33}, NIGHT, scaled(NIGHT, 1.1, corruption="dropout")),
        ("reduction", {"method": POISSON, "unit": "points", "take": "mean", "states": 2.0, "digits": 1},
         SWEEP, scaled(SWEEP, 1.05, **POISSON)),
        ("reduction", {"method": POISSON, "take": "median"}, SWEEP, scaled(SWEEP, 1.2, **POISSON)),
        ("reduction", {"method": {"corruption": "multinomial"}, "level": "q", "at": 0.3, "unit": "points",
                       "at_most": 0}, made_up_rows.splice(), scaled(made_up_rows.splice(), 0.7, q=0.3)),
        ("smaller_gain", {"method": {"corruption": "blankout"}, "than": {"method": {"corruption": "dropout"}},
                          "level": "deletion"}, NIGHT, scaled(NIGHT, 0.3, **BLANKOUT)),
        ("more_effective", {"method": BLANKOUT, "these": ["amazon-books"], "those": ["amazon-dvd"]},
         scaled(SWEEP, 1.1, dataset="amazon-dvd", **BLANKOUT), scaled(SWEEP, 0.9, dataset="amazon-dvd", **BLANKOUT)),
        ("rises_after", {"method": BLANKOUT, "start": 0.9}, CLOSE, scaled(CLOSE, 0.5, q=0.99)),
        ("smaller_l2", {"method": BLANKOUT, "count": "zero"}, chosen(0.1, 0.0), chosen(0.0, 0.1)),
        ("smaller_l2", {"method": BLANKOUT, "count": "weaker"}, chosen(0.1, 0.01), chosen(0.01, 0.1)),
        ("falls_with_copies", {"method": BLANKOUT}, made_up_rows.explicit(),
         made_up_rows.explicit().assign(value=lambda rows: 0.4 - rows["value"])),
        ("limit_is_best", {"method": BLANKOUT}, made_up_rows.explicit(),
         scaled(made_up_rows.explicit(), 1.2, copies="inf")),
        ("error_is", {"method": {"loss": "quadratic", **POISSON}, "states": 29.1},
         made_up_rows.cifar(), scaled(made_up_rows.cifar(), 1.1, **POISSON)),
        ("order_of", {"methods": [{"loss": "logistic", **BLANKOUT}, {"loss": "logistic", **POISSON}]},
         made_up_rows.cifar(), scaled(made_up_rows.cifar(), 0.9, **POISSON)),
        ("cost_is", {"method": {"loss": "exponential"}, "states": 2},
         made_up_rows.cost(), scaled(made_up_rows.cost(), 5.0)),
        ("cheaper", {"method": BLANKOUT, "over": {"corruption": "dropout"}},
         NIGHT.assign(seconds=NIGHT["corruption"].map({"blankout": 1.0}).fillna(3.0)),
         NIGHT.assign(seconds=NIGHT["corruption"].map({"blankout": 9.0}).fillna(3.0))),
        ("grows_linearly", {"method": POISSON}, timed(0.9), timed(1.5)),
        ("no_dearer_than_copies", {"method": BLANKOUT}, made_up_rows.explicit().assign(seconds=lambda rows: [
            1.0 if c == "inf" else 2.0 * c for c in rows["copies"]]),
         made_up_rows.explicit().assign(seconds=lambda rows: [999.0 if c == "inf" else c for c in rows["copies"]])),
        ("no_dearer_than_copies", {"method": BLANKOUT, "than": "fewest"}, made_up_rows.explicit().assign(
            seconds=lambda rows: [0.5 if c == "inf" else c for c in rows["copies"]]),
         made_up_rows.explicit().assign(seconds=lambda rows: [2.0 if c == "inf" else c for c in rows["copies"]])),
        ("falls_with_level", {"method": BLANKOUT}, sloped(-0.1), sloped(0.1)),
        ("below_at_every_level", {"method": AT_HALF["method"], "over": {"corruption": "fdrop"}, "level": "deletion",
                                  "last": True}, scaled(NIGHT, 2.0, deletion=0.3, corruption="dropout"),
         scaled(NIGHT, 0.2, deletion=NIGHT["deletion"].max(), corruption="fdrop")),
        ("bounds_lie_above", {}, made_up_rows.bounds(), scaled(made_up_rows.bounds(), 0.5, metric="bound")),
        ("no_gap", {"corruptions": ["gaussian"]},
         pd.DataFrame([made_up_rows.row(corruption="gaussian", metric="largest_gap_paper", value=1e-9)]),
         pd.DataFrame([made_up_rows.row(corruption="gaussian", metric="largest_gap_paper", value=1e-3)])),
    ],
)  # fmt: skip
def test_a_predicate_holds_on_rows_that_have_it_and_differs_on_rows_that_do_not(
    word, parameters, rows, broken
):
    assert ask(word, rows, **parameters).verdict == HOLDS
    finding = ask(word, broken, **parameters)
    assert finding.verdict == DIFFERS
    assert finding.short


def test_more_than_stated_is_stronger_and_a_lower_cost_or_error_too():
    assert (
        ask("reduction", scaled(NIGHT, 0.5, corruption="dropout"), **AT_HALF, states=33).verdict == STRONGER
    )
    low = scaled(made_up_rows.cifar(), 0.9, **POISSON)
    assert ask("error_is", low, method={"loss": "quadratic", **POISSON}, states=29.1).verdict == STRONGER
    assert ask("cost_is", made_up_rows.cost(), method={"loss": "exponential"}, states=10).verdict == STRONGER


def test_a_tie_is_undecided_and_says_what_would_decide():
    rows = made_up_rows.frame([
        made_up_rows.row(dataset="dmoz", loss="logistic", corruption="none", value=0.20),
        made_up_rows.row(dataset="dmoz", loss="logistic", corruption="poisson", value=0.20),
    ])  # fmt: skip
    tie = ask("below_at_every_level", rows, method=POISSON)
    assert (tie.verdict, tie.estimate.value) == (UNDECIDED, 0.0)
    assert "wide" in tie.short
    close = ask("below_at_every_level", scaled(rows, 1 - 1e-3, **POISSON), method=POISSON)
    assert close.verdict == UNDECIDED
    assert close.short.endswith("times as many test examples would decide")


def test_a_stated_number_needs_as_many_test_examples_as_the_papers():
    parameters = {"method": {"loss": "quadratic", **POISSON}, "states": 29.1, "examples": 10_000}
    finding = ask("error_is", made_up_rows.cifar(), **parameters)
    assert finding.verdict == UNDECIDED
    assert finding.short == "4,000 test examples, where the paper has 10,000"


def test_a_stated_number_that_repeats_blur_is_undecided():
    """Two runs far apart: their mean is the number, the interval wider than that of one run on as many examples."""
    once = made_up_rows.cifar()
    apart = pd.concat([scaled(once, 0.9).assign(repeat=0), scaled(once, 1.1).assign(repeat=1)])
    parameters = {"method": {"loss": "quadratic", **POISSON}, "states": 29.1, "examples": 4000}
    assert ask("error_is", once, **parameters).verdict == HOLDS
    assert ask("error_is", apart, **parameters).verdict == UNDECIDED


def test_simulations_are_never_of_the_paper_and_every_category_is_counted_apart(tmp_path):
    claim = {"category": "simulation", "check": {"computed": {"what": "clip_helps", "expects": "positive"}}}
    simulated = judged(tmp_path, claim, {})
    assert (simulated.data, simulated.of_the_paper, simulated.kind) == ("a simulation", False, "exact")
    slip = judged(tmp_path, {"category": "misprint", "check": {"computed": {"what": "erratum_16"}}}, {})
    tried = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {})})
    assert (slip.verdict, tried.kind) == (DIFFERS, "interval")
    assert list(judging.tally([simulated, slip, tried])) == [
        "simulations", "possible misprints", "experiments on real data",
    ]  # fmt: skip


def test_only_experiments_are_called_that():
    claims = judging.load_claims(FILE).claims
    assert {c.category for c in claims if c.id.startswith("erratum-")} == {"misprint"}
    assert not [c.id for c in claims if c.category == "experiment" and "computed" in c.check]
    errata = (FILE.parent.parent / "docs" / "errata.md").read_text()
    listed = {f"erratum-{int(n):02d}" for n in re.findall(r"^\*\*(\d+)\.", errata, re.MULTILINE)}
    asked = {c.id for c in claims if c.id.startswith("erratum-")}
    assert listed - asked == {"erratum-11"}, "which leave-one-out asks"


def test_our_own_words_are_not_in_quotation_marks():
    claims = {claim.id: claim for claim in judging.load_claims(FILE).claims}
    assert claims["erratum-07"].quoted.startswith("In our words: the gradient")
    assert claims["erratum-18"].quoted.startswith("“")


def test_a_size_is_compared_on_the_papers_own_files_and_as_it_is_rounded(tmp_path):
    shapes = {"amazon-books": {"columns": 20}, "dmoz": {"columns": 99}}
    rows = pd.concat([
        made_up_rows.q_sweep(datasets=("amazon-books",)), made_up_rows.q_sweep(datasets=("dmoz",), source="substitute"),
    ])  # fmt: skip
    claim = {"items": ["fig3"], "check": {"data_size": {"shapes": shapes}}}
    found = judged(tmp_path, claim, {"fig3": (rows, {})})
    assert (found.verdict, found.estimate) == (HOLDS, 0)
    claim["check"] = {"data_size": {"shapes": {"amazon-books": {"columns": 30}}, "to": 30}}
    assert judged(tmp_path, claim, {}).verdict == HOLDS
    claim["check"] = {"data_size": {"shapes": {"amazon-books": {"columns": 40}}, "to": 10}}
    assert judged(tmp_path, claim, {}).verdict == DIFFERS


def test_rows_without_errors_example_by_example_decide_nothing(tmp_path):
    judgement = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {"evidence": False})})
    assert (judgement.verdict, judgement.low) == (UNDECIDED, None)
    assert judgement.estimate == 4
    assert "older version" in judgement.short


def test_numbers_in_words_are_those_of_the_rows():
    rows = made_up_rows.frame([
        made_up_rows.row(dataset="amazon-dvd", loss="logistic", corruption="none", value=0.20),
        made_up_rows.row(dataset="amazon-dvd", loss="logistic", corruption="blankout", q=0.5, value=0.15),
    ])  # fmt: skip
    words = ask("reduction", rows, method=BLANKOUT, level="q", states=22).measured
    assert (
        words
        == "25.0% (22.0% to 28.0%) lower (Amazon DVD, logistic, blankout, q = 0.5: 15.00% against 20.00%)"
    )


def test_repeats_are_averaged_before_they_are_compared():
    rows = made_up_rows.learning_curve(datasets=(("dmoz", "substitute"),))
    finding = ask("below_at_every_level", rows, method=POISSON, level="train_size")
    assert "15 points" in finding.measured  # three losses and five sizes, not five times as many


def test_q_zero_is_the_plain_model_and_never_counts_as_corrupted():
    rows = SWEEP[SWEEP["corruption"] == "blankout"]
    finding = ask("below_at_every_level", rows, method=BLANKOUT, level="q")
    assert "of 108 points" in finding.measured


def test_q_zero_that_was_chosen_beside_a_plain_model_is_mcfs():
    common = {"dataset": "reuters", "loss": "logistic", "train_size": 100}
    rows = made_up_rows.frame([
        made_up_rows.row(**common, corruption="none", repeat=0, value=0.20),
        made_up_rows.row(**common, corruption="none", repeat=1, value=0.30),
        made_up_rows.row(**common, corruption="blankout", q=0.0, repeat=0, value=0.20),
        made_up_rows.row(**common, corruption="blankout", q=0.5, repeat=1, value=0.28),
    ])  # fmt: skip
    finding = ask("reduction", rows, method=BLANKOUT, level="train_size")
    assert finding.measured.endswith("24.00% against 25.00%)")


def test_the_plain_model_competes_for_the_best_level():
    rows = SWEEP[SWEEP["corruption"] == "blankout"]
    best_at_zero = scaled(rows, 0.1, q=0.0)
    finding = ask("best_level_between", best_at_zero, method=BLANKOUT, low=0.5, high=0.9)
    assert finding.measured.startswith("best q: 0 (12×)")
    assert finding.verdict == DIFFERS


def test_on_one_data_set_levels_are_counted():
    parameters = {"method": AT_HALF["method"], "over": {"corruption": "fdrop"}, "level": "deletion"}
    finding = ask(
        "below_at_every_level", scaled(NIGHT, 2.0, deletion=0.3, corruption="dropout"), **parameters
    )
    assert finding.measured.startswith("least gain -")
    assert finding.measured.endswith("below at 8 of 10 points")
    assert finding.short.endswith("below 0.00 points")
    many = ask("below_at_every_level", NIGHT, method={"corruption": "dropout"}, level="deletion", above=0)
    assert many.measured.endswith("below at 27 of 27 points")


def test_a_cost_is_judged_on_each_data_set():
    cost = scaled(made_up_rows.cost(), 5.0, dataset="reuters")
    finding = ask("cost_is", cost, method={"loss": "exponential"}, states=2)
    assert finding.measured.endswith("the middle of 2 data sets: Amazon books 1.6, Reuters 8.0")
    assert (finding.estimate.low, finding.estimate.high) == pytest.approx((1.6, 8.0))
    assert (finding.verdict, finding.estimate.kind) == (
        UNDECIDED,
        "range",
    )  # 4.8 does not round to 2


def test_corruptions_have_their_usual_names_and_an_order_is_shown_whole(tmp_path):
    gaps = pd.DataFrame([made_up_rows.row(corruption="gaussian", metric="largest_gap_paper", value=1e-3)])
    assert "Gaussian 0.001" in ask("no_gap", gaps, corruptions=["gaussian"]).measured
    methods = [{"loss": "logistic", **BLANKOUT}, {"loss": "logistic", **POISSON}]
    claim = {"items": ["table3"], "check": {"order_of": {"methods": methods}}}
    judgement = judged(tmp_path, claim, {"table3": (made_up_rows.cifar(), {})})
    assert "logistic, blankout 29.00% &lt; logistic, Poisson 30.00% |" in judging.claims_markdown([judgement])


def test_an_error_that_does_not_fall_is_undecided():
    flat = made_up_rows.explicit().assign(value=0.2)
    assert ask("falls_with_copies", flat, method=BLANKOUT).verdict == UNDECIDED


def test_a_number_that_the_paper_quotes_has_its_own_source():
    parameters = {"method": {"loss": "quadratic", **POISSON}, "states": 31.2}
    finding = ask("error_is", made_up_rows.cifar(), whose="Coates et al. have", **parameters)
    assert finding.measured.endswith("where Coates et al. have 31.2%")


@pytest.mark.parametrize("wrong", [{"status": "failed"}, {"metric": "validation_error"}])
def test_failed_rows_and_other_metrics_are_no_evidence(tmp_path, wrong):
    rows = made_up_rows.q_sweep().assign(**wrong)
    judgement = judged(tmp_path, IMPROVES, {"fig3": (rows, {})})
    assert judgement.verdict == NOT_RUN


def test_missing_items_and_missing_methods_are_not_run_and_say_why(tmp_path):
    assert "fig3 has not been run" in judged(tmp_path, IMPROVES, {}).measured
    without = SWEEP[SWEEP["corruption"] != "poisson"]
    judgement = judged(tmp_path, IMPROVES, {"fig3": (without, {})})
    assert judgement.verdict == NOT_RUN
    assert "poisson" in judgement.measured


@pytest.mark.parametrize(
    ("source", "words", "of_the_paper"),
    [("real", "real data", True), ("substitute", "a substitute", False)],
)
def test_a_verdict_says_what_data_it_rests_on(tmp_path, source, words, of_the_paper):
    rows = made_up_rows.q_sweep(source=source)
    judgement = judged(tmp_path, IMPROVES, {"fig3": (rows, {"notes": ["5,000-term form"]})})
    assert (judgement.verdict, judgement.data, judgement.of_the_paper) == (HOLDS, words, of_the_paper)
    assert any("5,000-term form" in note for note in judgement.notes)


def test_built_in_rows_never_get_a_verdict(tmp_path):
    real = made_up_rows.q_sweep(datasets=("amazon-books",))
    stand_in = scaled(made_up_rows.q_sweep(datasets=("builtin-reviews",), source="builtin"), 2.0, **POISSON)
    both = judged(tmp_path, IMPROVES, {"fig3": (pd.concat([real, stand_in]), {})})
    assert (both.verdict, both.data) == (HOLDS, "real data")
    alone = judged(tmp_path, IMPROVES, {"fig3": (stand_in, {})})
    assert alone.verdict == NOT_RUN and "says nothing about the paper" in alone.measured


def test_a_part_of_an_item_is_called_partial(tmp_path):
    judgement = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {"done": 3, "expected": 50})})
    assert judgement.partial == "fig3 PARTIAL 3/50"


def test_both_multi_class_forms_are_answered_and_the_released_one_judged(tmp_path):
    rows = made_up_rows.q_sweep(datasets=("reuters",), forms=("shared", "pairwise"))
    broken = scaled(rows, 1.5, corruption="poisson", multiclass="shared")
    judgement = judged(tmp_path, {**IMPROVES, "data": ["reuters"]}, {"fig3": (broken, {})})
    assert judgement.verdict == DIFFERS
    assert any("pairwise" in words and "it holds" in words for words in judgement.also)


def test_verdicts_name_the_form_on_several_classes_only():
    rows = made_up_rows.q_sweep(datasets=("reuters",), forms=("shared",))
    few = rows[(rows["loss"] == "logistic") & (rows["q"].isna() | (rows["q"] == 0.8))]
    words = ask("reduction", few, method=BLANKOUT, level="q").measured
    assert "Reuters, logistic (shared), blankout, q = 0.8" in words
    words = ask("reduction", few.assign(multiclass=""), method=BLANKOUT, level="q").measured
    assert "Reuters, logistic, blankout, q = 0.8" in words


def test_the_plain_model_of_one_form_serves_the_other(tmp_path):
    rows = made_up_rows.q_sweep(datasets=("reuters",), forms=("shared", "pairwise"))
    broken = scaled(rows, 1.5, corruption="poisson", multiclass="shared")
    kept = (broken["multiclass"] == "shared") | broken["corruption"].eq("poisson")
    once = broken[kept & (broken["loss"] == "logistic")]
    judgement = judged(tmp_path, {**IMPROVES, "data": ["reuters"]}, {"fig3": (once, {})})
    assert any("pairwise" in words and "it holds" in words for words in judgement.also)


def test_a_gain_over_a_weak_plain_model_only_is_reported_as_that(tmp_path):
    rows = scaled(SWEEP, 1.2, **POISSON)
    weak = scaled(SWEEP[SWEEP["corruption"] == "none"], 2.0)
    judgement = judged(
        tmp_path, IMPROVES, {"fig3": (rows, {}), "weak": (weak, {})}, weak_baselines=["weak", "never-run"]
    )
    assert judgement.verdict == DIFFERS
    assert any(words.startswith("It holds only against the under-regularised") for words in judgement.also)


@pytest.mark.parametrize(
    ("edges", "words"),
    [("l2 high", " (its l2 at the end of its grid)"), ("", ""),
     (["l2 high", "", ""] * 4, " (its l2 at the end of its grid in 4 of 12 fits)")],
)  # fmt: skip
def test_a_weak_plain_model_at_the_end_of_its_grid_is_called_that(tmp_path, edges, words):
    weak = scaled(SWEEP[SWEEP["corruption"] == "none"], 2.0).assign(edge=edges)
    items = {"fig3": (scaled(SWEEP, 1.2, **POISSON), {}), "weak": (weak, {})}
    (also,) = judged(tmp_path, IMPROVES, items, weak_baselines=["weak"]).also
    assert also.endswith(f"against 32.00%{words}")


def test_a_weak_plain_model_of_another_training_size_is_no_opponent(tmp_path):
    rows = made_up_rows.learning_curve(datasets=(("dmoz", "substitute"),))
    weak = made_up_rows.q_sweep(datasets=("dmoz",))
    check = {"below_at_every_level": {"method": POISSON, "level": "train_size"}}
    claim = {"items": ["fig5"], "data": ["dmoz"], "check": check}
    judgement = judged(tmp_path, claim, {"fig5": (rows, {}), "weak": (weak, {})}, weak_baselines=["weak"])
    assert judgement.verdict != NOT_RUN
    assert judgement.also == ()


def test_the_better_of_two_penalties_is_chosen_on_validation_rows(tmp_path):
    common = {"dataset": "mnist", "deletion": 0.5, "loss": "logistic"}
    plain = {"l2": (0.40, 0.30), "l1": (0.20, 0.50)}  # validation and test error: l1 wins the first
    rows = [
        made_up_rows.row(**common, corruption="none", penalty=penalty, metric=metric, value=value)
        for penalty, values in plain.items()
        for metric, value in zip(("validation_error", "test_error"), values, strict=True)
    ]
    rows.append(made_up_rows.row(**common, corruption="dropout", q=0.5, value=0.25))
    claim = {"items": ["fig9"], "data": ["mnist"], "check": {"reduction": {**AT_HALF, "states": 33}}}
    judgement = judged(tmp_path, claim, {"fig9": (made_up_rows.frame(rows), {})})
    assert "25.00% against 30.00%" in judgement.measured
    assert any(
        "better of l1 and l2" in words and "25.00% against 50.00%" in words for words in judgement.also
    )


def test_the_unbiased_form_is_answered_beside_the_biased_one(tmp_path):
    claim = {"items": ["fig9"], "data": ["mnist"], "check": {"reduction": {**AT_HALF, "states": 33}}}
    judgement = judged(tmp_path, claim, {"fig9": (NIGHT, {})})
    assert judgement.verdict == HOLDS
    assert any("unbiased" in words and "it differs" in words for words in judgement.also)


def test_the_unbiased_form_is_compared_with_unbiased_others(tmp_path):
    over = {"loss": ["quadratic", "exponential"], "corruption": "dropout"}
    check = {"beats_in_most": {"method": AT_HALF["method"], "over": over, "level": "deletion"}}
    rows = scaled(NIGHT, 0.5, corruption="blankout", loss="quadratic")
    judgement = judged(tmp_path, {"items": ["fig9"], "data": ["mnist"], "check": check}, {"fig9": (rows, {})})
    assert judgement.verdict == HOLDS
    assert any("With unbiased blankout" in words and "lower in 10 of 20" in words for words in judgement.also)


@pytest.mark.parametrize(
    ("source", "profile"), [("real", "quick"), ("builtin", "paper"), ("builtin", "smoke")]
)
def test_reasons_stand_beside_the_full_run_only(tmp_path, source, profile):
    why = {"reasons": {"it": {"method": METHOD_VERSION, "text": "The grid was small."}}}
    rows = made_up_rows.q_sweep(source=source)
    assert judged(tmp_path, IMPROVES, {"fig3": (rows, {"profile": profile})}, **why).reason == ""
    assert judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {})}, **why).reason == "The grid was small."


@pytest.mark.parametrize(
    ("environment", "shown"),
    [({"method": 7}, True), ({"method": 8}, False), ({"mcf": "1.1.0"}, False), ({"mcf": "2.0.0"}, False)],
)
def test_a_reason_stands_beside_rows_of_its_own_method_version_only(tmp_path, environment, shown):
    why = {"reasons": {"it": {"method": 7, "text": "The grid was small."}}}
    judgement = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {"environment": environment})}, **why)
    assert bool(judgement.reason) == shown


def test_the_package_tells_the_method_where_the_run_did_not(tmp_path):
    why = {"reasons": {"it": {"method": 9, "text": "The grid was small."}}}
    of_two = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {"environment": {"mcf": "2.0.0"}})}, **why)
    assert of_two.reason == "The grid was small."


def test_commands_travel_with_the_judgement(tmp_path):
    judgement = judged(tmp_path, IMPROVES, {"fig3": (SWEEP, {"profile": "quick"})})
    assert judgement.command == "mcf reproduce fig3 --profile quick"
    assert any("quick" in note for note in judgement.notes)


def test_csv_has_a_line_for_every_claim_and_quotes_what_needs_it(tmp_path):
    made_up_results.write_all(tmp_path)
    found = judging.load_claims(FILE)
    lines = list(
        csv.DictReader(io.StringIO(judging.claims_csv(judging.judge_all(found, read_results(tmp_path)))))
    )
    assert [line["id"] for line in lines] == [claim.id for claim in found.claims]
    assert {line["verdict"] for line in lines} <= set(VERDICTS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"check": {"eval": {}}}, "not a predicate"),
        ({"check": {"error_is": {"method": {}, "states": 1, "colour": 1}}}, "colour"),
        ({"data": ["imagenet"]}, "imagenet"),
        ({"id": "amazon-rise"}, "amazon-rise appear twice"),
        (
            {"check": {"reduction": {"method": {}, "states": 1, "at_most": 2}}},
            "one of states, at_most and at_least",
        ),
        ({"check": {"reduction": {"method": {}, "at": 0.5, "states": 40}}}, "level"),
        ({"check": {"below_at_every_level": {"method": {}, "of": 0}}}, "greater than or equal to 1"),
        ({"check": {"computed": {"what": "everything"}}}, "is not a check"),
    ],
)
def test_a_wrong_claim_is_one_clear_error(tmp_path, change, words):
    content = yaml.safe_load(FILE.read_text())
    content["claims"][0] |= change
    target = tmp_path / "claims.yaml"
    target.write_text(yaml.safe_dump(content))
    with pytest.raises(McfError, match=words):
        judging.load_claims(target)


def test_a_reason_without_a_claim_is_an_error(tmp_path):
    target = tmp_path / "claims.yaml"
    target.write_text(yaml.safe_dump({**yaml.safe_load(FILE.read_text()), "reasons": {"gone": SO}}))
    with pytest.raises(McfError, match="gone"):
        judging.load_claims(target)


def test_an_error_quotes_no_more_of_the_file_than_a_line(tmp_path):
    target = tmp_path / "claims.yaml"
    target.write_text(yaml.safe_dump({**yaml.safe_load(FILE.read_text()), "reasons": {"gone" * 2000: SO}}))
    with pytest.raises(McfError, match="gone") as error:
        judging.load_claims(target)
    assert len(str(error.value)) < 600


def test_a_question_that_rows_cannot_answer_is_not_answered():
    with pytest.raises(NotEnough):
        ask("reduction", NIGHT, **{**AT_HALF, "at": 0.55})
