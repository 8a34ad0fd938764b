"""The report: the claims first, then every item with its figure, its table and where its numbers come from.

    paths = write_report(Path("results"), Path("configs/claims.yaml"))

writes claims.csv and claims.md, report.md and report.html into the results folder; without claims, as for a user's
own experiment, report.md and report.html alone. The html file needs nothing but
itself: figures are embedded, styles are inline, there is no script. The same rows give the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from mcf_cli.experiments.load import claims_file, configs_folder, item_files
from mcf_cli.experiments.run import spoken_time
from mcf_cli.files import write_text
from mcf_cli.progress import plain
from mcf_cli.reporting import claims as judging
from mcf_cli.reporting import tables, verdicts
from mcf_cli.reporting.claims import Claims, Judgement
from mcf_cli.reporting.results import Result, read_results, rerun_command
from mcf_cli.reporting.series import (
    CORRUPTIONS,
    SOURCE_MARKS,
    SURROGATE_NAMES,
    dataset_label,
    datasets_in,
    in_order,
    tidy,
    varying,
)

SUBJECTS = {
    1: "Bounds on the expected logistic loss of one blanked-out feature, as a function of its margin.",
    3: "Test error against the corruption level q; dashed lines are the plain models, which q = 0 equals.",
    4: "Test error against the corruption level q, from 0.9 on.",
    5: "Test error against the number of training examples: mean and standard deviation over random subsets.",
    6: "Test error against the number M of explicitly corrupted copies; the big marker is MCF, their limit.",
    7: "Test error of MCF logistic loss by each of its three surrogates, against the blankout level q.",
    8: "Test error against the corruption level q, with standard errors.",
    9: "Test error against the share of pixels deleted at test time.",
}

WEAK_SUBJECT = "Plain models with l2 divided by about N, as the authors' released code does at q = 0."
FORMS = {
    "pairwise": "pairwise (Jensen's bound)",
    "shared": "shared (another upper bound, that of the authors' released code)",
}
ENDS = {"q": "q = {:g}", "train_size": "N = {:,.0f}", "deletion": "{:.0%} deleted", "copies": "M = {:g}"}
SINGLE_SPLIT = (3, 4, 6, 7)
TWO_BLANKOUTS = (
    "Dropout sets features to zero and leaves the others as they are, which is what happens at test time (the paper "
    "calls it blankout too); blankout also scales them up. The right panel compares the two."
)

SOURCE_SENTENCES = {
    "builtin": "built-in data, not the paper's",
    "substitute": "a substitute for the paper's data",
    "user": "the user's own data",
}


def caption(
    rows: pd.DataFrame, paper_figure: int | None = None, notes: tuple[str, ...] = (), subject: str = ""
) -> str:
    """What is shown, the variants actually used, the data that is not the paper's, and ``notes``.

    ``subject`` is the first sentence of what is no figure of the paper.
    """
    frame = tidy(rows, metric=None)
    sentences = [SUBJECTS.get(paper_figure or 0, subject or "Test error.")]
    sentences += _variants(frame)
    if "dataset" in frame:
        sentences += [*_early_ends(frame), *_scales(frame, paper_figure), *_sources(frame, notes)]
    return " ".join([*sentences, *(f"{text.rstrip('.')}." for text in notes)])


def _variants(frame: pd.DataFrame) -> list[str]:
    corrupted = frame[~frame["corruption"].isin(["none", "fdrop"])]
    sentences = []
    names = [CORRUPTIONS.get(name, name) for name in in_order(corrupted["corruption"], tuple(CORRUPTIONS))]
    if names:
        sentences.append(f"Corruption: {', '.join(names)}.")
    if {"blankout", "dropout"} <= set(corrupted["corruption"]) and frame["deletion"].nunique() > 1:
        sentences.append(TWO_BLANKOUTS)
    logistic = corrupted[corrupted["loss"] == "logistic"]
    if logistic["lam"].notna().any():  # bounds themselves, each with its lambda
        return sentences
    surrogates = [name for name in in_order(logistic["surrogate"], tuple(SURROGATE_NAMES)) if name]
    if surrogates:
        sentences.append(f"Logistic loss by {_joined([SURROGATE_NAMES[name] for name in surrogates])}.")
    elif len(logistic):
        sentences.append(f"Logistic loss by {SURROGATE_NAMES['jensen']}.")
    forms = [FORMS[name] for name in in_order(logistic["multiclass"], tuple(FORMS)) if name in FORMS]
    if forms:
        sentences.append(f"Multi-class logistic form: {_joined(forms)}.")
    if len(forms) > 1 and (logistic["multiclass"] == "").any() and varying(frame):
        sentences.append("With two classes there is one form, drawn as pairwise.")
    return sentences


def _early_ends(frame: pd.DataFrame) -> list[str]:
    """Where one multi-class form was run over fewer levels than the other, so that its curve ends early."""
    axis = varying(frame)
    forms = frame[frame["multiclass"].isin(FORMS)]
    if axis not in ENDS or forms["multiclass"].nunique() < 2:
        return []
    last = forms.groupby(["multiclass", "dataset", "corruption"], sort=False)[axis].max().dropna()
    furthest = last.groupby(level=["dataset", "corruption"]).transform("max")
    early = last[last < furthest].rename("level").reset_index()
    sentences = []
    for (form, level), ends in early.groupby(["multiclass", "level"], sort=False):
        datasets, corruptions = list(dict.fromkeys(ends["dataset"])), list(dict.fromkeys(ends["corruption"]))
        every = set(last[form].index.get_level_values("corruption"))
        words = f"The {form} form was run up to {ENDS[axis].format(level)} on "
        words += _joined([dataset_label(name, "") for name in datasets])
        if set(corruptions) != every:
            words += f" with {_joined([CORRUPTIONS.get(name, name) for name in corruptions])} corruption"
        sentences.append(f"{words}.")
    return sentences


def _scales(frame: pd.DataFrame, paper_figure: int | None) -> list[str]:
    """What a reader of small differences must know."""
    single = frame["repeat"].nunique() <= 1 and frame["fold"].isna().all()
    if paper_figure not in SINGLE_SPLIT or not single:
        return []
    if frame["dataset"].nunique() == 1 and paper_figure != 6:
        return ["One split; the error axis does not begin at 0."]
    return ["One split; axes differ from panel to panel and do not begin at 0."]


def _sources(frame: pd.DataFrame, notes: tuple[str, ...]) -> list[str]:
    """What is not the paper's data, where no note says it already."""
    labels = {
        dataset_label(name, ""): source for name, source in datasets_in(frame) if source in SOURCE_SENTENCES
    }
    return [
        f"{label}: {SOURCE_SENTENCES[source]}."
        for label, source in labels.items()
        if not any(note.startswith(f"{label}: SUBSTITUTE") for note in notes)
    ]


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
TEMPLATES = jinja2.PackageLoader("mcf_cli.reporting")


@dataclass(frozen=True)
class Report:
    """What was written, and the answer in a few lines."""

    markdown: Path
    html: Path
    claims: Path | None = None
    table: Path | None = None
    answer: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.claims, self.table, self.markdown, self.html) if path]


@dataclass(frozen=True)
class Section:
    """One item as the templates need it; an item that was not run has a name, a command and its claims."""

    name: str
    title: str
    command: str
    judgements: tuple[Judgement, ...]
    run: bool = False
    caption: str = ""
    table: tables.Table | None = None
    markdown_table: str = ""
    figure_uri: str = ""
    figure_file: str = ""
    config: str = ""
    partial: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def differences(self) -> list[Judgement]:
        """The claims that are not simply so, which reasons are written about."""
        return [j for j in self.judgements if j.verdict not in (verdicts.HOLDS, verdicts.NOT_RUN)]

    @property
    def _shown(self) -> pd.DataFrame:
        return self.table.shown if self.table else pd.DataFrame()

    @cached_property
    def columns(self) -> list[tuple[str, bool]]:
        """The table's headings, and whether their column holds numbers."""
        shown = self._shown
        return [(str(name), tables.is_number_column(shown[name])) for name in shown]

    @property
    def lines(self) -> list[list[str]]:
        return [["" if pd.isna(cell) else str(cell) for cell in line] for line in self._shown.to_numpy()]


def claims_on(results: Mapping[str, Result]) -> Path | None:
    """The paper's claims where a result is of the paper; of a user's own experiment the paper says nothing."""
    return claims_file() if set(results) & {path.stem for path in item_files(configs_folder())} else None


def write_report(
    results_folder: Path, claims_path: Path | None, results: Mapping[str, Result] | None = None
) -> Report:
    """Judge the claims on the results, by default the folder's, and write report and claims files there.

    Without a claims file it is a report of the items alone, and claims files of earlier reports stay as they are.
    """
    claims = (
        judging.load_claims(claims_path)
        if claims_path
        else Claims(data={}, weak_baselines=[], claims=[], reasons={})
    )
    results = read_results(results_folder) if results is None else results
    judgements = judging.judge_all(claims, results)
    from_items = [j for j in judgements if j.claim.items]  # the others say themselves what they look at
    facts = {
        "sections": _sections(claims, results, judgements),
        "tally": judging.tally(judgements),
        "total": len(judgements),
        "words": verdicts.VERDICTS,
        "totals": {word: sum(j.verdict == word for j in judgements) for word in verdicts.VERDICTS},
        "set_apart": any(j.verdict != verdicts.NOT_RUN and not j.of_the_paper for j in from_items),
        "built_in": any(j.data == judging.BUILT_IN for j in from_items),
        "environments": _environments(results),
    }
    results_folder.mkdir(parents=True, exist_ok=True)
    report = Report(
        markdown=results_folder / "report.md",
        html=results_folder / "report.html",
        claims=results_folder / "claims.csv" if claims_path else None,
        table=results_folder / "claims.md" if claims_path else None,
        answer=_answer(judgements),
    )
    if report.claims and report.table:
        write_text(report.claims, judging.claims_csv(judgements))
        write_text(report.table, judging.claims_markdown(judgements))
    write_text(report.markdown, _markdown().get_template("report.md.j2").render(facts))
    write_text(report.html, _html().get_template("report.html.j2").render(facts))
    return report


def _answer(judgements: list[Judgement]) -> tuple[str, ...]:
    """How many claims hold, on what data, and item by item."""
    judged = [j for j in judgements if j.verdict != verdicts.NOT_RUN and (j.claim.items or j.of_the_paper)]
    if not any(j.claim.items for j in judged):
        return ()
    lines = []
    for data, counts in judging.tally(judged).items():
        words = f"On {data}" if data != judging.NONE_NEEDED else "Without data"
        words += " (which says nothing about the paper's)" if data == judging.BUILT_IN else ""
        lines.append(f"{words}: {_counted(counts)}.")
    items = dict.fromkeys(j.claim.home for j in judged)
    good = (verdicts.HOLDS, verdicts.STRONGER)
    shares = {name: [j.verdict in good for j in judged if j.claim.home == name] for name in items}
    listed = ", ".join(f"{name} {sum(held)} of {len(held)}" for name, held in shares.items())
    return (*lines, f"What holds or is stronger, item by item: {listed}.")


def _counted(counts: Mapping[str, int]) -> str:
    """``3 of the paper's claims hold, 1 is stronger than stated, 2 differ, 4 are undecided``."""
    words = {
        verdicts.HOLDS: "of the paper's claims {hold}",
        verdicts.STRONGER: "{be} stronger than stated",
        verdicts.DIFFERS: "{differ}",
        verdicts.UNDECIDED: "{be} undecided",
    }
    forms = [
        {"hold": "hold", "be": "are", "differ": "differ"},
        {"hold": "holds", "be": "is", "differ": "differs"},
    ]
    return ", ".join(
        f"{counts[word]} {text.format(**forms[counts[word] == 1])}" for word, text in words.items()
    )


def _html() -> jinja2.Environment:
    def visible(value: Any) -> Any:
        return value if hasattr(value, "__html__") or not isinstance(value, str) else plain(value)

    return jinja2.Environment(
        loader=TEMPLATES,
        autoescape=True,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


class Prepared(str):
    """Markdown that is written as it is."""

    def __html__(self) -> str:
        return self


def _markdown() -> jinja2.Environment:
    """Markdown renders html too, so every name is escaped here as well; what would slip through is escaped as html."""

    def escaped(value: Any) -> Prepared:
        return value if isinstance(value, Prepared) else Prepared(tables.escape_markdown(str(value)))

    def code(text: str) -> Prepared:
        """Between backticks nothing is markup but a backtick."""
        return Prepared(" ".join(text.replace("`", "'").split()))

    environment = jinja2.Environment(
        loader=TEMPLATES,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=escaped,
    )
    environment.filters |= {"prepared": Prepared, "code": code}
    return environment


def _sections(claims: Claims, results: Mapping[str, Result], judgements: list[Judgement]) -> list[Section]:
    """Items in the order of the claims, then those that no claim asks of."""
    names = [*claims.items, *(name for name in results if name not in claims.items)]
    return [
        _section(
            name,
            results.get(name),
            tuple(j for j in judgements if j.claim.home == name),
            weak=name in claims.weak_baselines,
        )
        for name in names
    ]


def _section(
    name: str, item: Result | None, judgements: tuple[Judgement, ...], weak: bool = False
) -> Section:
    if name == judging.COMPUTED:
        return Section(name, "Statements that need no run", "mcf report", judgements)
    if item is None:
        return Section(name, name, rerun_command([name]), judgements)
    table = item.table
    figure = item.figure if item.any_finished else None  # else it is one of an earlier run
    return Section(
        name,
        item.title,
        item.command,
        judgements,
        run=True,
        caption=_caption(item, weak),
        table=table,
        markdown_table=tables.markdown(table).rstrip() if table else "",
        figure_uri=_figure_uri(figure),
        figure_file=f"{name}/{figure.with_suffix('.png').name}" if figure else "",
        config=yaml.safe_dump(item.config, sort_keys=False, default_flow_style=None, width=90),
        partial=item.partial,
        facts=tuple(_facts(item)),
    )


def _caption(item: Result, weak: bool) -> str:
    if not item.any_finished:
        return f"{item.title}. Every trial failed."
    subject = WEAK_SUBJECT if weak else f"{item.title}."
    if item.rows["metric"].str.startswith("loo_").any():
        examples = (item.config.get("evaluation") or {}).get("train")
        subject += f" {examples:,} examples." if examples else ""
    return caption(item.rows, item.paper.get("figure"), tuple(item.notes_on(item.notes)), subject)


def _figure_uri(figure: Path | None) -> str:
    if figure is None:
        return ""
    content = base64.b64encode(figure.read_bytes()).decode("ascii")
    return f"data:{MEDIA[figure.suffix]};base64,{content}"


def _facts(item: Result) -> list[tuple[str, str]]:
    """Where the numbers come from, as (name, value)."""
    environment, trials = item.environment, item.trials
    facts = [("Data", _data_words(facts)) for facts in environment.get("data") or ()]
    if not facts:
        facts = [("Data", "none needed")]
    facts += [("Notice", str(notice)) for notice in environment.get("notices") or ()]
    if trials:
        words = f"{trials.get('done')} of {trials.get('expected')} done"
        words += f", {trials['failed']} failed" if trials.get("failed") else ""
        words += (
            f", {spoken_time(trials['seconds'])} of computing" if trials.get("seconds") is not None else ""
        )
        facts.append(("Trials", words))
    facts.append(("Profile", item.profile))
    changed = " with changes" if environment.get("dirty") else ""
    facts.append(("Commit", f"{environment.get('commit') or 'unknown'}{changed}"))
    return facts


def _data_words(facts: Mapping[str, Any]) -> str:
    source = str(facts.get("source", ""))
    words = f"{dataset_label(facts['name'], '')} ({SOURCE_MARKS.get(source, source)})"
    shape = facts.get("shape")
    words += f": {shape[0]:,} × {shape[1]:,}" if shape else ""
    words += f", {facts['n_classes']} classes" if facts.get("n_classes") else ""
    words += f", sha256 {facts['sha256'][:12]}" if facts.get("sha256") else ""
    return ". ".join([words, *(str(note).rstrip(".") for note in facts.get("notes") or ())])


def _environments(results: Mapping[str, Result]) -> list[tuple[str, str]]:
    """The machines and versions, each with the items that ran there."""
    found: dict[str, list[str]] = {}
    for item in results.values():
        environment = item.environment
        packages = ", ".join(
            f"{name} {version}" for name, version in (environment.get("packages") or {}).items()
        )
        words = f"mcf {environment.get('mcf', '?')}, Python {environment.get('python', '?')}, {packages}; "
        words += f"{environment.get('platform', 'unknown platform')}, {environment.get('cores', '?')} cores"
        found.setdefault(words, []).append(item.name)
    return [(words, ", ".join(names)) for words, names in found.items()]
