"""Intervals: paired, over examples and not over runs on the same ones, right in 95% of all cases."""

import numpy as np
import pandas as pd
import pytest
from mcf_cli.reporting.statistics import Estimate, Quantities
from mcf_cli.reporting.verdicts import DIFFERS, HOLDS, STRONGER, UNDECIDED, Finding, Region, decide
from scipy import stats


def cell(*runs, dataset="made-up", tested=None):
    """The rows of one method: which examples were wrong in each run."""
    rows = [
        {"dataset": dataset, "repeat": n, "value": wrong.mean(), "wrong": wrong,
         "tested": np.arange(len(wrong)) if tested is None else tested[n]}
        for n, wrong in enumerate(runs)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def draw(rng, chance, count=500):
    return rng.random(count) < chance


def test_a_difference_on_the_same_rows_has_mcnemars_error():
    rng = np.random.default_rng(0)
    first, second = draw(rng, 0.3), draw(rng, 0.2)
    only_first, only_second = np.sum(first & ~second), np.sum(second & ~first)
    found = Quantities.of_errors([cell(first), cell(second)]).differences([0], [1])
    n = len(first)
    mcnemar = np.sqrt(only_first + only_second - (only_first - only_second) ** 2 / n) / n
    assert found.values[0] == pytest.approx((only_first - only_second) / n)
    assert found.errors()[0] == pytest.approx(mcnemar)
    half = found.bands().half(1.0)[0]
    assert half == pytest.approx(stats.norm.ppf(0.975) * mcnemar)


def test_what_is_hard_for_both_does_not_widen_a_difference():
    rng = np.random.default_rng(1)
    hard, noise = draw(rng, 0.3), draw(rng, 0.02)
    other = cell(hard ^ noise)
    paired = Quantities.of_errors([cell(hard), other]).differences([0], [1])
    elsewhere = Quantities.of_errors([cell(hard), other.assign(dataset="another")]).differences([0], [1])
    assert paired.errors()[0] < elsewhere.errors()[0] / 3


def test_runs_on_the_same_examples_are_not_more_examples():
    wrong = draw(np.random.default_rng(2), 0.2)
    once, often = (Quantities.of_errors([cell(*[wrong] * runs)]).errors()[0] for runs in (1, 50))
    assert often == pytest.approx(once)
    assert once == pytest.approx(np.sqrt(wrong.mean() * (1 - wrong.mean()) / len(wrong)))


def test_chance_between_repeats_is_added():
    rng = np.random.default_rng(3)
    runs = [draw(rng, chance) for chance in (0.1, 0.2, 0.3, 0.2)]
    found = Quantities.of_errors([cell(*runs)])
    over_runs = stats.sem([run.mean() for run in runs])
    share = np.mean(runs, axis=0)
    over_examples = np.sqrt(np.mean((share - share.mean()) ** 2) / len(share))
    assert found.errors()[0] == pytest.approx(np.hypot(over_runs, over_examples))


def test_folds_add_up_to_the_whole():
    wrong = draw(np.random.default_rng(4), 0.25)
    parts = [np.arange(k, len(wrong), 5) for k in range(5)]
    folds = cell(*(wrong[part] for part in parts), tested=parts).assign(repeat=0)
    whole, pieces = Quantities.of_errors([cell(wrong)]), Quantities.of_errors([folds])
    assert pieces.values[0] == pytest.approx(whole.values[0])
    assert pieces.errors()[0] == pytest.approx(whole.errors()[0])


def test_reductions_have_the_error_that_resampling_finds():
    rng = np.random.default_rng(5)
    plain = draw(rng, 0.3, 2000)
    ours = plain & draw(rng, 0.8, 2000)
    found = Quantities.of_errors([cell(ours), cell(plain)]).reductions([0], [1])
    again = []
    for _ in range(1000):
        rows = rng.integers(0, 2000, 2000)
        again.append(1 - ours[rows].mean() / plain[rows].mean())
    assert found.errors()[0] == pytest.approx(np.std(again), rel=0.1)


def test_intervals_are_right_in_about_95_of_100_cases_alone_and_together():
    rng = np.random.default_rng(6)
    chances, alone, together = np.array([0.1, 0.12, 0.2, 0.3]), 0, 0
    for _ in range(150):
        level = rng.random(600)  # how hard an example is, for all methods
        cells = Quantities.of_errors([cell(level < chance) for chance in chances])
        bands, one = cells.bands(), cells.mean().bands()
        together += bool(np.all((bands.low() <= chances) & (chances <= bands.high())))
        alone += bool(one.low()[0] <= chances.mean() <= one.high()[0])
    assert 0.9 <= alone / 150 <= 0.995
    assert 0.9 <= together / 150 <= 0.995


@pytest.mark.parametrize(
    ("runs", "spread"), [(2, 0.0), (2, 0.02), (2, 0.06), (3, 0.02), (3, 0.06), (10, 0.06)]
)
def test_intervals_over_few_repeats_are_right_in_about_95_of_100_cases(runs, spread):
    """The chance of an error differs from run to run; the interval is for its mean over all runs there could be."""
    rng, right = np.random.default_rng(9), 0
    for _ in range(600):
        chances = 0.3 + spread * rng.standard_normal(runs)
        cells = Quantities.of_errors([cell(*(draw(rng, chance, 400) for chance in chances))])
        right += bool(abs(cells.values[0] - 0.3) <= cells.halves()[0])
    assert 0.935 <= right / 600 <= 0.998


def test_intervals_over_few_repeats_hold_together():
    """Of five methods whose runs differ each on its own."""
    rng, right = np.random.default_rng(10), 0
    for _ in range(200):
        runs = 0.3 + 0.05 * rng.standard_normal((5, 3))
        cells = Quantities.of_errors([cell(*(draw(rng, chance, 400) for chance in line)) for line in runs])
        right += bool(np.all(np.abs(cells.values - 0.3) <= cells.bands().half(1.0)))
    assert right / 200 >= 0.93


def test_more_examples_narrow_an_interval_by_their_root():
    found = Quantities.of_errors([cell(draw(np.random.default_rng(7), 0.2))])
    estimate = Estimate.of(found, np.mean)
    low, high = estimate.at(4.0)
    assert high - low == pytest.approx((estimate.high - estimate.low) / 2)


def test_more_examples_leave_what_repeats_differ_by():
    rng = np.random.default_rng(11)
    runs = [draw(rng, chance) for chance in (0.1, 0.3)]
    endless = Estimate.of(Quantities.of_errors([cell(*runs)]), np.mean).at(1e12)
    means = [run.mean() for run in runs]
    assert (endless[1] - endless[0]) / 2 == pytest.approx(stats.t.ppf(0.975, 1) * stats.sem(means), rel=1e-4)


def test_equal_answers_are_a_tie_of_at_least_one_example():
    wrong = draw(np.random.default_rng(8), 0.2)
    tie = Estimate.of(Quantities.of_errors([cell(wrong), cell(wrong)]).differences([0], [1]), np.min)
    assert tie.value == 0
    assert tie.high > 1 / len(wrong)
    assert decide(tie, Region.positive()) == UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "region", "word"),
    [
        (0.1, 0.3, Region.positive(), HOLDS),
        (-0.1, 0.3, Region.positive(), UNDECIDED),
        (-0.3, -0.1, Region.positive(), DIFFERS),
        (0.0, 0.0, Region.positive(), UNDECIDED),
        (21.0, 23.0, Region.number(22, 0, "above"), HOLDS),
        (23.0, 25.0, Region.number(22, 0, "above"), STRONGER),
        (10.0, 20.0, Region.number(22, 0, "above"), DIFFERS),
        (1.0, 1.4, Region.number(10, 0, "below"), STRONGER),
        (20.0, 22.2, Region.number(22, 0, "above"), UNDECIDED),  # the median of a range does not round to it
        (4.0, 6.0, Region(low=4.5), UNDECIDED),
        (5.0, 6.0, Region(low=4.5), HOLDS),
        (3.0, 4.0, Region(low=4.5), DIFFERS),
    ],
)
def test_the_word_follows_from_interval_and_region(low, high, region, word):
    finding = Finding("so", Estimate.between((low + high) / 2, low, high), region)
    assert finding.verdict == word
    assert bool(finding.short) == (word != HOLDS)


@pytest.mark.parametrize(("widest", "word"), [(2.0, HOLDS), (1.9, UNDECIDED)])
def test_a_number_that_is_merely_touched_holds_if_the_interval_is_as_narrow_as_the_papers(widest, word):
    touched = Estimate.between(22.4, 21.4, 23.4, "interval")
    finding = Finding("so", touched, Region.number(22, 0, "above", 10, widest))
    assert finding.verdict == word
    inside = Estimate.between(22.0, 21.6, 22.4, "interval")
    assert decide(inside, Region.number(22, 0, "above", 10, widest=0.1)) == HOLDS
