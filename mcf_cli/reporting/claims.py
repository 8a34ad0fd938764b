"""The paper's sentences as data, each judged by the rows of a run: holds, differs or not run.

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
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, ValidationError, model_validator

from mcf_cli.errors import McfError
from mcf_cli.reporting import predicates
from mcf_cli.reporting.predicates import Finding, Predicate
from mcf_cli.reporting.results import Result, rerun_command, rerun_found
from mcf_cli.reporting.series import ClaimPart, NotEnough, is_plain, plain_rows
from mcf_cli.reporting.tables import escape_markdown
from mcf_cli.yamlfile import read_yaml

VOCABULARY: dict[str, type[Predicate]] = {  # the words of a claim's `check`
    "below_at_every_level": predicates.BelowAtEveryLevel,
    "beats_in_most": predicates.BeatsInMost,
    "best_level_between": predicates.BestLevelBetween,
    "reduction": predicates.Reduction,
    "rises_after": predicates.RisesAfter,
    "chosen_l2_at_most": predicates.ChosenL2AtMost,
    "falls_with_copies": predicates.FallsWithCopies,
    "limit_is_best": predicates.LimitIsBest,
    "value_near": predicates.ValueNear,
    "order_of": predicates.OrderOf,
    "ratio_near": predicates.RatioNear,
    "bounds_lie_above": predicates.BoundsLieAbove,
    "gap_below": predicates.GapBelow,
}

HOLDS, DIFFERS, NOT_RUN = "holds", "differs", "not run"
VERDICTS = (HOLDS, DIFFERS, NOT_RUN)
FORM = "shared"  # the multi-class logistic form of the authors' released code
OTHER_FORM = "With the pairwise multi-class bound"
UNBIASED = "With unbiased blankout"
BETTER_PENALTY = "Against the better of l1 and l2"
WEAK = "Against the under-regularised plain model of the authors' code"
JUDGED = "judged"
Reading = tuple[Predicate, pd.DataFrame]
RUN = ["dataset", "loss", "deletion", "train_size", "repeat", "fold"]
CLAIM_COLUMNS = (
    *("id", "place", "quote", "paper", "verdict", "data", "measured", "short", "also", "partial", "notes"),
    *("reason", "items", "command"),
)


class DataGroup(ClaimPart):
    """A data set of the paper (or several that it treats as one), and what stands in for it in a demo."""

    names: list[str]
    built_in: str


class Claim(ClaimPart):
    """One checkable sentence of the paper."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    place: str
    quote: str
    paper: str  # the paper's number, or its statement in a few words
    items: list[str] = Field(min_length=1)
    data: list[str] = Field([])
    check: dict[str, Any] = Field(min_length=1, max_length=1)
    reading: str = ""  # how a vague word of the sentence is taken

    @model_validator(mode="after")
    def _known(self) -> Claim:
        word = next(iter(self.check))
        if word not in VOCABULARY:
            raise ValueError(f"{word!r} is no predicate; there are {', '.join(VOCABULARY)}")
        VOCABULARY[word].model_validate(self.check[word])
        return self

    @property
    def predicate(self) -> Predicate:
        ((word, parameters),) = self.check.items()
        return VOCABULARY[word].model_validate(parameters)


class Claims(ClaimPart):
    """The claims file."""

    data: dict[str, DataGroup]
    weak_baselines: list[str] = Field([])  # items whose plain models use the authors' own l2 convention
    claims: list[Claim]
    reasons: dict[str, str] = Field({})  # by claim: why it differs, written after a look at the run

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
        """The items that claims ask of first, in the order of the claims."""
        return list(dict.fromkeys(claim.items[0] for claim in self.claims))


@dataclass(frozen=True)
class Judgement:
    """What a run says about a claim."""

    claim: Claim
    verdict: str
    measured: str
    data: str = ""  # real data, a substitute, built-in data, no data needed
    short: str = ""  # by how much it differs
    also: tuple[str, ...] = ()  # the same question asked in other ways
    partial: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""
    command: str = ""

    @property
    def of_the_paper(self) -> bool:
        """Whether the verdict may be held against the paper: real data, or a matter that needs none."""
        return self.verdict != NOT_RUN and self.data in (REAL_DATA, NONE_NEEDED)


REAL_DATA, SUBSTITUTE, MIXED = "real data", "a substitute", "real data and a substitute"
BUILT_IN, NONE_NEEDED = "built-in data", "no data needed"
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
    facts: dict[str, Any] = {
        "partial": ", ".join(f"{item.name} {item.partial}" for item in found if item.partial),
        "command": rerun_found(found),
    }
    groups = [claims.data[name] for name in claim.data]
    rows = _on_data(pd.concat([item.finished for item in found], ignore_index=True), groups)
    weak = [results[name].finished for name in claims.weak_baselines if name in results]
    readings = dict(_readings(rows, claim.predicate, _on_data(pd.concat(weak), groups) if weak else None))
    try:
        finding = _ask(*readings.pop(JUDGED))
    except NotEnough as lack:
        words = f"the rows of {' and '.join(claim.items)} do not answer it: {lack}"
        return Judgement(claim, NOT_RUN, words, **facts)
    data = _kind(rows)
    # Reasons were written about the full run: beside other numbers they would be wrong.
    full = data in OF_FULL_RUN and all(item.profile == "paper" for item in found)
    facts |= {
        "data": data,
        "notes": _notes(rows, found),
        "reason": claims.reasons.get(claim.id, "") if full else "",
    }
    return Judgement(
        claim,
        HOLDS if finding.holds else DIFFERS,
        finding.measured,
        short="" if finding.holds else finding.short,
        also=tuple(_others(readings, finding)),
        **facts,
    )


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
    judged = _of_form(rows, FORM) if len(forms) > 1 else rows
    yield JUDGED, (predicate, judged)
    if len(forms) > 1:
        yield OTHER_FORM, (predicate, _of_form(rows, "pairwise"))
    if predicate.corruption == ["dropout"] and (rows["corruption"] == "blankout").any():
        yield UNBIASED, (predicate.with_corruption("blankout"), judged)
    if predicate.baseline != "plain":
        return
    if (rows["penalty"] == "l1").any():
        yield BETTER_PENALTY, (predicate, _with_better_penalty(judged))
    if weak is not None and set(judged["dataset"]) <= set(weak["dataset"]):
        replaced = pd.concat([judged[~is_plain(judged)], weak[is_plain(weak)]], ignore_index=True)
        yield WEAK, (predicate, replaced)


def _of_form(rows: pd.DataFrame, form: str) -> pd.DataFrame:
    """The rows of one multi-class form; the plain model is the same in all."""
    return rows[rows["multiclass"].isin(["", form]) | is_plain(rows)]


def _with_better_penalty(rows: pd.DataFrame) -> pd.DataFrame:
    """The plain models replaced, run by run, by the penalty with the lower validation error."""
    plain = rows[is_plain(rows)]
    validation = plain[plain["metric"] == "validation_error"].sort_values(["value", "penalty"], kind="stable")
    chosen = validation.drop_duplicates(RUN)[[*RUN, "penalty"]]
    kept = plain.merge(chosen, on=[*RUN, "penalty"], how="inner").assign(penalty="l2")
    return pd.concat([rows[~is_plain(rows)], kept], ignore_index=True)


def _others(readings: Mapping[str, Reading], judged: Finding) -> Iterator[str]:
    """What the other readings answer, where it is not the same answer."""
    for name, (predicate, rows) in readings.items():
        try:
            finding = _ask(predicate, rows)
        except NotEnough:
            continue
        if finding.measured == judged.measured:
            continue
        verdict = HOLDS if finding.holds else DIFFERS
        if name == WEAK and finding.holds and not judged.holds:
            verdict = "holds only so"
        edge = _edge_words(predicate, rows) if name == WEAK else ""
        yield f"{name} it {verdict}: {finding.measured}{edge}"


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
    """How many hold and differ, by the data they rest on; what was not run under the key of that name."""
    counts: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        key = NOT_RUN if judgement.verdict == NOT_RUN else judgement.data
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
        writer.writerow(line)
    return text.getvalue()


def claims_markdown(judgements: Iterable[Judgement]) -> str:
    """claims.md: a line for every claim, the measured answer without its details."""
    lines = ["| claim | the paper | here | judged on | verdict |", "| --- | --- | --- | --- | --- |"]
    for j in judgements:
        here = j.measured.partition("; ")[0] + (f" ({j.short})" if j.short else "")
        cells = (
            f"{j.claim.id} ({j.claim.place})",
            j.claim.paper,
            here,
            j.data,
            f"**{j.verdict}**" if j.verdict == HOLDS else j.verdict,
        )
        lines.append(f"| {' | '.join(map(escape_markdown, cells[:-1]))} | {cells[-1]} |")
    return "\n".join([*lines, ""])
