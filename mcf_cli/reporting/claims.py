"""The paper's sentences as data, each judged by the rows of a run: holds, stronger, differs, undecided or not run.

    claims = load_claims(Path("configs/claims.yaml"))
    judgements = judge_all(claims, read_results(Path("results")))

A claim is judged on real data where there is any, else on built-in data, and says which. Where the rows allow
it, the same question is asked of other readings too: the other multi-class form of the logistic loss, and other
plain models to compare with. Those answers stand beside the verdict and do not change it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import AliasChoices, Field, ValidationError, model_validator

from mcf_cli.errors import McfError
from mcf_cli.reporting.comparison import (
    ClaimPart,
    NotEnough,
    is_plain,
    of_form,
    plain_rows,
    with_better_penalty,
)
from mcf_cli.reporting.predicates import VOCABULARY, facts
from mcf_cli.reporting.predicates.base import Predicate, WithoutRows
from mcf_cli.reporting.results import Result, rerun_command, rerun_found
from mcf_cli.reporting.tables import escape_markdown
from mcf_cli.reporting.verdicts import HOLDS, NOT_RUN, STRONGER, UNDECIDED, VERDICTS, Finding
from mcf_cli.yamlfile import read_yaml

FORM = "shared"  # the multi-class logistic form of the authors' released code
OTHER_FORM = "With the pairwise multi-class bound"
UNBIASED = "With unbiased blankout"
BETTER_PENALTY = "Against the better of l1 and l2"
WEAK = "Against the under-regularised plain model of the authors' code"
JUDGED = "judged"
Reading = tuple[Predicate, pd.DataFrame]
CLAIM_COLUMNS = (
    *("id", "place", "quote", "paper", "verdict", "data", "measured", "short", "also", "partial", "notes"),
    *("reason", "items", "command", "estimate", "low", "high", "unit", "paper_value", "region_low"),
    *("region_high", "changed", "kind", "category"),
)
CATEGORIES = {  # what kind of statement a claim is: each is counted apart
    "experiment": "experiments",
    "algebra": "statements of algebra",
    "simulation": "simulations",
    "misprint": "possible misprints",
}
COMPUTED = "computed"  # where claims stand that no item answers


class DataGroup(ClaimPart):
    """A data set of the paper (or several that it treats as one), and what stands in for it in a demo."""

    names: list[str]
    built_in: str


class Claim(ClaimPart):
    """One checkable sentence: of the paper, or an expectation of ours, written before its run."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    place: str
    # Ours are a `question` and what we `expected`, in the places of the paper's sentence and number.
    quote: str = Field(validation_alias=AliasChoices("quote", "question"))
    paper: str = Field(validation_alias=AliasChoices("paper", "expected"))  # a number, or a few words
    items: list[str] = Field([])  # none where the answer is computed on the spot
    data: list[str] = Field([])
    check: dict[str, Any] = Field(min_length=1, max_length=1)
    category: Literal["experiment", "algebra", "simulation", "misprint"] = "experiment"
    wording: Literal["paper", "ours"] = (
        "paper"  # whose words the quote is in: ours are not in quotation marks
    )
    reading: str = ""  # how a vague word of the sentence is taken
    changed: str = ""  # what was changed after a look at results, and the verdict before

    @model_validator(mode="after")
    def _known(self) -> Claim:
        word = next(iter(self.check))
        if word not in VOCABULARY:
            raise ValueError(f"{word!r} is not a predicate; the predicates are {', '.join(VOCABULARY)}")
        VOCABULARY[word].model_validate(self.check[word])
        return self

    @property
    def predicate(self) -> Predicate | WithoutRows:
        ((word, parameters),) = self.check.items()
        return VOCABULARY[word].model_validate(parameters)

    @property
    def quoted(self) -> str:
        """The sentence, in quotation marks where the words are the paper's."""
        return f"“{self.quote}”" if self.wording == "paper" else f"In our words: {self.quote}"

    @property
    def home(self) -> str:
        """The item that it stands with."""
        return self.items[0] if self.items else COMPUTED


class Reason(ClaimPart):
    """Why a claim came out as it did, written by hand after a look at the rows of one METHOD_VERSION."""

    method: int  # beside rows of another one it is not shown
    text: str


class Claims(ClaimPart):
    """The claims file."""

    ours: bool = False  # expectations beyond the paper, which have a page of their own
    data: dict[str, DataGroup]
    weak_baselines: list[str] = Field([])  # items whose plain models use the authors' own l2 convention
    claims: list[Claim]
    reasons: dict[str, Reason] = Field({})  # by claim

    @model_validator(mode="after")
    def _consistent(self) -> Claims:
        ids = [claim.id for claim in self.claims]
        twice = {name for name in ids if ids.count(name) > 1}
        lost = set(self.reasons) - set(ids)
        groups = {name for claim in self.claims for name in claim.data} - set(self.data)
        for words, names in (
            ("appear twice", twice),
            ("have a reason but no claim", lost),
            ("are no data", groups),
        ):
            if names:
                raise ValueError(f"{', '.join(sorted(names))} {words}")
        return self

    @property
    def items(self) -> list[str]:
        """The items that claims stand with, in the order of the claims."""
        return list(dict.fromkeys(claim.home for claim in self.claims))


@dataclass(frozen=True)
class Judgement:
    """What a run says about a claim.

    Attributes
    ----------
    verdict : str
        One of holds, stronger, differs, undecided, not run.
    measured : str
        The answer in words.
    finding : Finding or None
        The number behind it: its interval, its unit, and the region that the sentence claims. None when not run.
    data : str
        What it rests on: real data, a substitute, built-in data, no data needed.
    short : str
        How far outside the region it lies, or what would decide it.
    also : tuple of str
        The same question asked in other ways.
    """

    claim: Claim
    verdict: str
    measured: str
    finding: Finding | None = None
    data: str = ""
    short: str = ""
    also: tuple[str, ...] = ()
    partial: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""
    command: str = ""

    @property
    def estimate(self) -> float | None:
        """The number, in ``unit``."""
        return self.finding.estimate.value if self.finding else None

    @property
    def low(self) -> float | None:
        """The lower end of its 95% interval."""
        return self.finding.estimate.low if self.finding else None

    @property
    def high(self) -> float | None:
        """The upper end of its 95% interval."""
        return self.finding.estimate.high if self.finding else None

    @property
    def kind(self) -> str:
        """What stands around the number: an interval, a range, nothing as it is exact; empty where none is known."""
        return self.finding.estimate.kind if self.finding and self.finding.estimate.at else ""

    @property
    def unit(self) -> str:
        """Of the number and the region."""
        return self.finding.unit if self.finding else ""

    @property
    def paper_value(self) -> float | None:
        """The number that the paper states, where it states one."""
        return self.finding.region.stated if self.finding else None

    @property
    def region(self) -> tuple[float, float] | None:
        """What the sentence claims of the number; infinite where it has no end."""
        return (self.finding.region.low, self.finding.region.high) if self.finding else None

    @property
    def of_the_paper(self) -> bool:
        """Whether the verdict may be held against the paper: real data, or a matter that needs none."""
        return self.verdict != NOT_RUN and self.data in (REAL_DATA, NONE_NEEDED)


REAL_DATA, SUBSTITUTE, MIXED = "real data", "a substitute", "real data and a substitute"
BUILT_IN, NONE_NEEDED, SIMULATED = "built-in data", "no data needed", "a simulation"
OF_FULL_RUN = (REAL_DATA, SUBSTITUTE, MIXED, NONE_NEEDED)


def load_claims(path: Path) -> Claims:
    """Read and check the claims file."""
    if not path.exists():
        raise McfError(f"{path} does not exist: it should hold the paper's claims.")
    try:
        return Claims.model_validate(read_yaml(path))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(word) for word in problem["loc"])
        raise McfError(f"{path}: {place[:80]}: {problem['msg'][:300]}") from None  # either may quote the file


def judge_all(claims: Claims, results: Mapping[str, Result]) -> list[Judgement]:
    """Every claim, in the order of the file."""
    return [judge(claim, claims, results) for claim in claims.claims]


def judge(claim: Claim, claims: Claims, results: Mapping[str, Result]) -> Judgement:
    """One claim; what cannot be answered is not run, and says what is missing."""
    missing = [name for name in claim.items if name not in results]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        words = f"{' and '.join(missing)} {verb} not been run"
        return Judgement(claim, NOT_RUN, words, command=rerun_command(claim.items))
    found = [results[name] for name in claim.items]
    told: dict[str, Any] = {
        "partial": ", ".join(f"{item.name} {item.partial}" for item in found if item.partial),
        "command": rerun_found(found) if found else "mcf report",
    }
    predicate = claim.predicate
    try:
        if isinstance(predicate, WithoutRows):
            return _judged(claim, predicate.answer(found), _on_the_spot(claim), told)
        groups = [claims.data[name] for name in claim.data]
        rows = _on_data(pd.concat([item.finished for item in found], ignore_index=True), groups)
        weak = [results[name].finished for name in claims.weak_baselines if name in results]
        readings = dict(_readings(rows, predicate, _on_data(pd.concat(weak), groups) if weak else None))
        finding = _ask(*readings.pop(JUDGED))
    except NotEnough as lack:
        words = f"the rows of {' and '.join(claim.items)} do not answer it: {lack}"
        return Judgement(claim, NOT_RUN, words, **told)
    data = _kind(rows)
    if data == BUILT_IN:
        return Judgement(
            claim, NOT_RUN, f"only built-in data was run, which says nothing about {_whose(claims)}", **told
        )
    told |= {
        "notes": _notes(rows, found),
        "reason": _reason(claims.reasons.get(claim.id), data, found),
        "also": tuple(_others(readings, finding)),
    }
    return _judged(claim, finding, data, told)


def _reason(reason: Reason | None, data: str, found: Iterable[Result]) -> str:
    """Reasons are about the full run of one version of the method: beside other numbers they would be wrong."""
    if reason is None or data not in OF_FULL_RUN:
        return ""
    same = all(item.profile == "paper" and item.method == reason.method for item in found)
    return reason.text if same else ""


def _whose(claims: Claims) -> str:
    return "real data" if claims.ours else "the paper's"


def _judged(claim: Claim, finding: Finding, data: str, told: Mapping[str, Any]) -> Judgement:
    return Judgement(claim, finding.verdict, finding.measured, finding, data, finding.short, **told)


def _on_the_spot(claim: Claim) -> str:
    """What data an answer without rows rests on."""
    if claim.category == "simulation":
        return SIMULATED
    return REAL_DATA if isinstance(claim.predicate, facts.DataSize) else NONE_NEEDED


def _on_data(rows: pd.DataFrame, groups: list[DataGroup]) -> pd.DataFrame:
    """The rows on the groups' data sets; on what stands in for them only where none of them was run."""
    if not groups:
        return rows
    named = rows[rows["dataset"].isin([name for group in groups for name in group.names])]
    return named if len(named) else rows[rows["dataset"].isin([group.built_in for group in groups])]


def _ask(predicate: Predicate, rows: pd.DataFrame) -> Finding:
    if rows.empty:
        raise NotEnough("no finished rows on its data")
    rows = rows if predicate.metric is None else rows[rows["metric"] == predicate.metric]
    if rows.empty:
        raise NotEnough(f"no finished rows of {predicate.metric}")
    return predicate.judge(rows)


def _readings(
    rows: pd.DataFrame, predicate: Predicate, weak: pd.DataFrame | None
) -> Iterator[tuple[str, Reading]]:
    """Every way to ask the question of the rows, the one that is judged first."""
    forms = set(rows["multiclass"]) - {""}
    judged = of_form(rows, FORM) if len(forms) > 1 else rows
    yield JUDGED, (predicate, judged)
    if len(forms) > 1:
        yield OTHER_FORM, (predicate, of_form(rows, "pairwise"))
    if predicate.corruption == ["dropout"] and (rows["corruption"] == "blankout").any():
        yield UNBIASED, (predicate.with_corruption("blankout"), judged)
    if predicate.baseline != "plain":
        return
    if (rows["penalty"] == "l1").any():
        yield BETTER_PENALTY, (predicate, with_better_penalty(judged))
    if weak is not None and set(judged["dataset"]) <= set(weak["dataset"]):
        replaced = pd.concat([judged[~is_plain(judged)], weak[is_plain(weak)]], ignore_index=True)
        yield WEAK, (predicate, replaced)


def _others(readings: Mapping[str, Reading], judged: Finding) -> Iterator[str]:
    """What the other readings answer, where it is not the same answer."""
    for name, (predicate, rows) in readings.items():
        try:
            finding = _ask(predicate, rows)
        except NotEnough:
            continue
        if finding.measured == judged.measured:
            continue
        verdict = "is undecided" if finding.verdict == UNDECIDED else finding.verdict
        if finding.verdict == STRONGER:
            verdict = "is stronger"
        right = (HOLDS, STRONGER)
        only = name == WEAK and finding.verdict in right and judged.verdict not in right
        said = f"It holds only {name[0].lower()}{name[1:]}" if only else f"{name} it {verdict}"
        edge = _edge_words(predicate, rows) if name == WEAK else ""
        yield f"{said}: {finding.measured}{edge}"


def _edge_words(predicate: Predicate, rows: pd.DataFrame) -> str:
    """Says so where the plain models compared with would have chosen a larger l2 than they were offered."""
    plain = plain_rows(rows[rows["metric"] == "test_error"])
    plain = predicate.compared(plain)
    edge = plain["edge"].astype(str).str.contains("l2 high") if "edge" in plain else pd.Series(dtype=bool)
    if not edge.any():
        return ""
    return (
        " (its l2 at the end of its grid"
        + ("" if edge.all() else f" in {edge.sum()} of {len(edge)} fits")
        + ")"
    )


def _kind(rows: pd.DataFrame) -> str:
    """What data a judgement rests on, in words."""
    sources = set(rows["data_source"].dropna()) - {"none", ""}
    if not sources:
        return NONE_NEEDED
    if sources <= {"real", "substitute"}:
        return MIXED if len(sources) == 2 else REAL_DATA if sources == {"real"} else SUBSTITUTE
    return BUILT_IN if sources == {"builtin"} else "own or mixed data"


def _notes(rows: pd.DataFrame, found: Iterable[Result]) -> tuple[str, ...]:
    """What must be said of the data sets used, each note once with the sets it is about; and the profile."""
    names = list(dict.fromkeys(rows["dataset"].dropna()))
    notes = dict.fromkeys(note for item in found for note in item.notes_on(names))
    reduced = [item.name for item in found if item.profile == "quick"]
    return (*notes, *([f"reduced grids and sets (profile quick): {', '.join(reduced)}"] if reduced else []))


def tally(judgements: Iterable[Judgement]) -> dict[str, dict[str, int]]:
    """How many hold and differ: experiments by the data they rest on, what is none apart, and what was not run."""
    counts: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        key = CATEGORIES[judgement.claim.category]
        key += f" on {judgement.data}" if judgement.claim.category == "experiment" else ""
        key = NOT_RUN if judgement.verdict == NOT_RUN else key
        counts.setdefault(key, dict.fromkeys(VERDICTS, 0))[judgement.verdict] += 1
    return counts


def claims_csv(judgements: Iterable[Judgement]) -> str:
    """claims.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CLAIM_COLUMNS)
    for j in judgements:
        claim = j.claim
        line = [claim.id, claim.place, claim.quote, claim.paper, j.verdict, j.data, j.measured, j.short]
        line += ["; ".join(j.also), j.partial, "; ".join(j.notes), j.reason, " ".join(claim.items), j.command]
        low, high = j.region or (None, None)
        numbers = [_number(v) for v in (j.estimate, j.low, j.high)]
        numbers += [j.unit, *(_number(v) for v in (j.paper_value, low, high))]
        writer.writerow([*line, *numbers, claim.changed, j.kind, claim.category])
    return text.getvalue()


def _number(value: float | None) -> str:
    """A number of claims.csv, to six digits: more would differ from machine to machine. Nothing for what has no end."""
    return "" if value is None or not isfinite(value) else f"{value:.6g}"


def claims_markdown(judgements: Iterable[Judgement], ours: bool = False) -> str:
    """claims.md: a line for every claim, the measured answer without its details."""
    head = f"| claim | {'expected' if ours else 'the paper'} | here (95% interval) | judged on | verdict |"
    lines = [head, "| --- | --- | --- | --- | --- |"]
    for j in judgements:
        here = j.measured.partition("; ")[0] + (f" ({j.short})" if j.short else "")
        cells = (f"{j.claim.id} ({j.claim.place})", j.claim.paper, here, j.data)
        verdict = f"**{j.verdict}**" if j.verdict in (HOLDS, STRONGER) else j.verdict
        lines.append(f"| {' | '.join(map(escape_markdown, cells))} | {verdict} |")
    return "\n".join([*lines, ""])
