"""What report.html shows beyond report.md: the answer in sentences, charts, every claim with its rows and origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pandas as pd

from mcf_cli.reporting import charts, verdicts
from mcf_cli.reporting.claims import CATEGORIES, COMPUTED, Claims, Judgement
from mcf_cli.reporting.comparison import is_plain, plain_rows
from mcf_cli.reporting.results import Result
from mcf_cli.reporting.series import dataset_label, datasets_in
from mcf_cli.reporting.statistics import Estimate, Quantities
from mcf_cli.reporting.verdicts import spoken_interval

PURPOSE = (
    "Features go missing: words are not used, sensors fail, pixels are lost. Marginalised corrupted features (MCF) "
    "train a linear model for that, on its expected loss when features are corrupted at random, at about the cost of "
    "a plain one."
)
OPEN_QUESTIONS = (
    "These are questions that the paper leaves open. What we expected was written down before the run; the verdicts "
    "say whether it came out so. None of them counts for or against the paper."
)
HEADLINE = "fig9"  # the item whose figure stands at the top, and whose claim is told first
HEADLINE_CLAIM = "deletion-logistic"
UNIT_TITLES = {"%": "per cent", "points": "percentage points", "times": "times the cost of a plain gradient"}


@dataclass(frozen=True)
class ClaimEntry:
    """A claim in the list: its judgement, and what the filters and its details need."""

    judgement: Judgement
    data: tuple[str, ...]
    losses: tuple[str, ...]
    notes: tuple[int, ...]
    origin: tuple[tuple[str, str], ...]
    number: str


def page_facts(
    claims: Claims, results: Mapping[str, Result], judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """What the html template takes beside the sections and counts of both reports."""
    notes = list(dict.fromkeys(note for j in judgements for note in j.notes))
    entries = [_entry(j, claims, results, notes) for j in judgements]
    drawn = {name: chart for name, result in results.items() if (chart := charts.item_chart(result.finished))}
    numbers = list(_numbers(judgements))
    if numbers:
        drawn["forest"] = charts.forest(numbers)
    if HEADLINE in results and judgements and (first := headline_chart(results[HEADLINE])):
        drawn[f"{HEADLINE}-headline"] = first
    return {
        "claims": entries,
        "notes": notes,
        "answer": answer(judgements, claims.ours) if judgements else measured_answer(results),
        "choices": {
            "categories": list(dict.fromkeys(j.claim.category for j in judgements)),
            "items": list(dict.fromkeys(name for j in judgements for name in j.claim.items)),
            "data": list(dict.fromkeys(name for entry in entries for name in entry.data)),
            "losses": list(dict.fromkeys(name for entry in entries for name in entry.losses)),
        },
        "numbers": numbers,
        "charts": drawn,
        "library": chart_library(),
    }


class Script(str):
    """A script of a package that we depend on, which no user has a hand in: written as it is."""

    def __html__(self) -> str:
        return self


def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; nothing where the package that carries them is not installed."""
    try:
        import vl_convert
    except ImportError:
        return ""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Script(script.replace("</script", "<\\/script"))


def headline_chart(result: Result) -> charts.Chart | None:
    """The logistic loss under deletion, with dropout and without, beside the hinge loss and the worst case."""
    rows = result.finished
    ours = (rows["loss"] == "logistic") & rows["corruption"].isin(["none", "dropout"])
    ours &= rows["multiclass"].isna() | rows["multiclass"].isin(["", "shared"])
    rivals = (rows["loss"] == "hinge") & rows["corruption"].isin(["none", "fdrop"])
    return charts.item_chart(rows[(ours | rivals) & (rows["penalty"] != "l1")])


def answer(judgements: Sequence[Judgement], ours: bool = False) -> tuple[str, ...]:
    """What a reader should know after a minute, written from the numbers."""
    judged = [j for j in judgements if j.verdict != verdicts.NOT_RUN]
    sentences = [OPEN_QUESTIONS if ours else PURPOSE]
    first = next((j for j in judged if j.claim.id == HEADLINE_CLAIM), None)
    if first is not None:
        sentences.append(
            f"With half of the pixels of MNIST deleted, its error is {_number(first)} lower than that of "
            f"the plain logistic model. The paper says {first.claim.paper}."
        )
    tried = [j for j in judgements if j.claim.category == "experiment"]
    subject = "expectations of ours" if ours else "checkable statements about experiments"
    sentences.append(_count_sentence(tried, subject))
    others = [
        _count_sentence([j for j in judgements if j.claim.category == name], words)
        for name, words in CATEGORIES.items()
        if name != "experiment"
    ]
    sentences += [" ".join(words)] if (words := [w for w in others if w]) else []
    differing = [j for j in tried if j.verdict == verdicts.DIFFERS]
    if differing:
        places = list(dict.fromkeys(j.claim.id if ours else j.claim.place for j in differing))
        shown = ", ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else "")
        subject = "What came out differently:" if ours else "Experiments that differ are in"
        sentences.append(
            f"{subject} {shown}; each claim below has its numbers and, where we know it, the reason."
        )
    sentences.append(_sureness([j for j in tried if j.verdict != verdicts.NOT_RUN]))
    return tuple(sentences)


MOST_SENTENCES = 3
HALF = 0.5  # the deletion level that is told of a run over many


def measured_answer(results: Mapping[str, Result]) -> tuple[str, ...]:
    """Without claims: of up to three items the marginalised model that validation chooses, beside the plain one.

    On built-in data that shows what the method is for; it says nothing about the paper.
    """
    lines = [line for result in results.values() if (line := _beside_plain(result))]
    return tuple(lines[:MOST_SENTENCES])


def _beside_plain(result: Result) -> str:
    frame = result.finished
    if frame["deletion"].nunique() > 1:
        levels = frame["deletion"].dropna()
        frame = frame[frame["deletion"] == levels.iloc[(levels - HALF).abs().argmin()]]
    errors, choice = (frame[frame["metric"] == name] for name in ("test_error", "validation_error"))
    choice = choice[~is_plain(choice) & ~choice["corruption"].isin(["fdrop", "none"])]
    plain = plain_rows(errors)
    choice = choice[choice["dataset"].isin(plain["dataset"]) & choice["loss"].isin(plain["loss"])]
    if choice.empty:
        return ""
    best = choice.loc[choice["value"].idxmin()]
    keys = ["dataset", "method", "repeat", "fold", "q", "train_size", "copies"]
    ours = errors[(errors[keys].fillna(-1) == best[keys].fillna(-1)).all(axis=1)]
    theirs = plain[(plain["dataset"] == best["dataset"]) & (plain["loss"] == best["loss"])]
    theirs = theirs[theirs["repeat"].fillna(-1) == (best["repeat"] if pd.notna(best["repeat"]) else -1)]
    if pd.notna(best["train_size"]):
        theirs = theirs[theirs["train_size"] == best["train_size"]]
    if ours.empty or theirs.empty:
        return ""
    level = f", {best['deletion']:.0%} deleted" if pd.notna(best["deletion"]) else ""
    name = dataset_label(str(best["dataset"]), str(best["data_source"]))
    return f"{name}{level}, test error: {_two_errors(str(best['method']), ours, theirs)} ({result.name})."


def _two_errors(method: str, ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """Both errors and their difference, with 95% intervals where errors are known example by example."""
    cells = Quantities.of_errors([ours, theirs])
    apart = cells.differences([0], [1])
    if cells.influence is None or apart.influence is None:
        return f"{method} {cells.values[0]:.1%}, plain {cells.values[1]:.1%}"
    errors = [
        spoken_interval(Estimate.between(value, max(0.0, value - half), min(100.0, value + half)), "%")
        for value, half in zip(100 * cells.values, 100 * cells.halves(), strict=True)
    ]
    value, half = 100 * apart.values[0], 100 * apart.halves()[0]
    low, high = (value - half, value + half) if value > 0 else (-value - half, -value + half)
    word = "more" if value > 0 else "fewer"
    return (
        f"{method} {errors[0]}, plain {errors[1]}: {abs(value):.1f} points {word} "
        f"(95% interval {low:.1f} to {high:.1f})"
    )


def _sureness(judged: Sequence[Judgement]) -> str:
    """How many answers of experiments have an interval, a range or neither, and what they rest on."""
    kinds = Counter(j.kind for j in judged)
    words = f"{kinds['interval']} of {len(judged)} answers of experiments have a 95% interval"
    words += f", {kinds['range']} the range of several measurements" if kinds["range"] else ""
    words += f", {kinds['exact']} an exact number" if kinds["exact"] else ""
    aside = sum(1 for j in judged if not j.of_the_paper)
    return words + (
        f". {aside} rest wholly or in part on data that only stands in for the paper's." if aside else "."
    )


def _count_sentence(judgements: Sequence[Judgement], subject: str) -> str:
    """``Of 70 checkable statements about experiments, 20 hold, 15 differ and 30 are undecided.``; empty for none."""
    if not judgements:
        return ""
    counts = Counter(j.verdict for j in judgements)
    stronger, left = counts[verdicts.STRONGER], counts[verdicts.NOT_RUN]
    parts = [f"{counts[verdicts.HOLDS]} hold"]
    parts += [f"{stronger} turn{'s' * (stronger == 1)} out stronger than stated"] if stronger else []
    parts += [f"{counts[verdicts.DIFFERS]} differ"]
    undecided = counts[verdicts.UNDECIDED]
    parts += [f"{undecided} are undecided by this much data"] if undecided else []
    words = f"Of {len(judgements)} {subject}, {', '.join(parts[:-1])} and {parts[-1]}"
    return f"{words}; {left} {'was' if left == 1 else 'were'} not run." if left else f"{words}."


def _number(j: Judgement) -> str:
    """The number behind a judgement with its interval, empty where it has none."""
    finding = j.finding
    if finding is None or not isfinite(finding.estimate.value) or not finding.unit:
        return ""
    return spoken_interval(finding.estimate, finding.unit)


def _numbers(judgements: Sequence[Judgement]) -> Iterator[dict[str, Any]]:
    """The points of the forest plot, unit by unit."""
    found = [(j, j.finding) for j in judgements if j.finding and _number(j) and j.claim.home != COMPUTED]
    units = list(dict.fromkeys(finding.unit for _, finding in found))
    for j, finding in sorted(found, key=lambda pair: units.index(pair[1].unit)):
        estimate, region = finding.estimate, finding.region
        point: dict[str, Any] = {
            "claim": j.claim.id,
            "paper": j.claim.paper,
            "measured": _number(j),
            "verdict": j.verdict,
            "y": estimate.value,
            "unit": UNIT_TITLES.get(finding.unit, finding.unit),
            "href": f"#claim-{j.claim.id}",
        }
        ends = {"low": estimate.low, "high": estimate.high}
        ends["stated"] = next(
            (v for v in (region.stated, region.low, region.high) if v is not None and isfinite(v)), None
        )
        yield point | {name: value for name, value in ends.items() if value is not None and isfinite(value)}


def _entry(j: Judgement, claims: Claims, results: Mapping[str, Result], notes: list[str]) -> ClaimEntry:
    found = [results[name] for name in j.claim.items if name in results]
    groups = [claims.data[name] for name in j.claim.data]
    wanted = {name for group in groups for name in group.names}
    pairs = dict.fromkeys(
        pair for result in found for pair in datasets_in(result.rows) if isinstance(pair[0], str)
    )
    labels = [dataset_label(*pair) for pair in pairs if not wanted or pair[0] in wanted]
    origin: dict[str, str] = {}
    for result in found:
        environment = result.environment
        origin |= {"Commit": str(environment.get("commit") or "unknown")}
        origin |= {"Lock": str(environment["lock"])} if environment.get("lock") else {}
    return ClaimEntry(
        judgement=j,
        data=tuple(labels),
        losses=tuple(dict.fromkeys(_losses(j.claim.check))),
        notes=tuple(notes.index(note) + 1 for note in j.notes),
        origin=tuple(origin.items()),
        number=_number(j),
    )


def _losses(check: Any) -> Iterator[str]:
    """The losses that a question names."""
    if isinstance(check, Mapping):
        for key, value in check.items():
            if key == "loss":
                yield from [value] if isinstance(value, str) else value
            else:
                yield from _losses(value)
