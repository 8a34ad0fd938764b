"""The report: the claims first, then every item with its figure, its table and where its numbers come from.

    paths = write_report(Path("results"), Path("configs/claims.yaml"))

writes claims.csv and claims.md, report.md and report.html into the results folder; without claims, as for a user's
own experiment, report.md and report.html alone. The html file needs nothing but itself: figures, charts, styles and
script are in it, and without the script it is whole all the same. The same rows give the same bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from mcf_cli.experiments.load import claims_file, shipped_items
from mcf_cli.experiments.run import spoken_time
from mcf_cli.files import write_text
from mcf_cli.progress import plain
from mcf_cli.reporting import claims as judging
from mcf_cli.reporting import tables, verdicts
from mcf_cli.reporting.advice import Advice, read_advice
from mcf_cli.reporting.captions import WEAK_SUBJECT, caption
from mcf_cli.reporting.claims import Claims, Judgement
from mcf_cli.reporting.page import HEADLINE, measured_answer, page_facts
from mcf_cli.reporting.results import Result, read_results, rerun_command
from mcf_cli.reporting.series import SOURCE_MARKS, dataset_label

FULL_REPORT = "../report.html"  # the committed one, from results/demo or results/smoke
MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
TEMPLATES = jinja2.PackageLoader("mcf_cli.reporting")


@dataclass(frozen=True)
class Report:
    """What was written, and the answer in a few lines."""

    markdown: Path
    html: Path
    claims: Path | None = None
    table: Path | None = None
    article: Path | None = None
    answer: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.claims, self.table, self.article, self.markdown, self.html) if path]


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
    advice: tuple[Advice, ...] = ()

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
    """The claims that a folder's results can answer, on real data or a substitute; else nothing is judged.

    The paper's claims where a result is of the paper, else ours where one is beyond it: one page never judges both.
    """
    for beyond in (False, True):
        names = set(results) & shipped_items(beyond)
        sources = {s for name in names for s in results[name].rows["data_source"].dropna()}
        if sources & {"real", "substitute"}:
            return claims_file(beyond)
    return None


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
    sections = _sections(claims, results, judgements)
    facts: dict[str, Any] = {
        "sections": sections,
        "tally": judging.tally(judgements),
        "total": len(judgements),
        "ours": claims.ours,
        "words": verdicts.VERDICTS,
        "totals": _totals(judgements),
        "built_in": any(_on_built_in(result) for result in results.values()),
        "environments": _environments(results),
    }
    results_folder.mkdir(parents=True, exist_ok=True)
    report = Report(
        markdown=results_folder / "report.md",
        html=results_folder / "report.html",
        claims=results_folder / "claims.csv" if claims_path else None,
        table=results_folder / "claims.md" if claims_path else None,
        article=results_folder / "article.md" if claims_path and not claims.ours else None,
        answer=_answer(judgements, claims.ours) if judgements else measured_answer(results),
    )
    if report.claims and report.table:
        write_text(report.claims, judging.claims_csv(judgements))
        write_text(report.table, judging.claims_markdown(judgements, claims.ours))
    write_text(report.markdown, _markdown().get_template("report.md.j2").render(facts))
    facts |= page_facts(claims, results, judgements)
    facts |= {
        "title": _title(judgements, results, claims.ours),
        "headline": next((s for s in sections if s.name == HEADLINE and s.run), None) if judgements else None,
        "full_report": FULL_REPORT if (results_folder / FULL_REPORT).exists() else "",
        "forest_uri": _forest(results_folder, facts["numbers"]),
    }
    if report.article:
        with_interval = sum(j.kind == "interval" for j in judgements)
        facts |= {
            "judgements": judgements,
            "with_interval": with_interval,
            "no_interval": verdicts.NO_INTERVAL,
        }
        write_text(report.article, _markdown().get_template("article.md.j2").render(facts))
    write_text(report.html, _html().get_template("report.html.j2").render(facts))
    return report


def _totals(judgements: list[Judgement]) -> dict[str, int]:
    """How many experiments have which verdict."""
    tried = [j for j in judgements if j.claim.category == "experiment"]
    return {word: sum(j.verdict == word for j in tried) for word in verdicts.VERDICTS}


def _on_built_in(result: Result) -> bool:
    return bool((result.rows["data_source"] == "builtin").any())


def _title(judgements: list[Judgement], results: Mapping[str, Result], ours: bool) -> str:
    if ours:
        return "Beyond the paper: what we expected, and what came out"
    if judgements:
        return "Does “Marginalizing Corrupted Features” hold?"
    return "mcf on built-in data" if all(map(_on_built_in, results.values())) else "Results"


def _forest(folder: Path, numbers: list[dict[str, Any]]) -> str:
    """The static forest plot, written beside claims.md for readers of the README too."""
    from mcf_cli.reporting.measurements import forest_figure  # matplotlib takes a while to import
    from mcf_cli.reporting.panels import save_figure

    if not numbers:
        return ""
    save_figure(forest_figure(numbers), folder / "claims")
    return _figure_uri(folder / "claims.svg")


def _answer(judgements: list[Judgement], ours: bool = False) -> tuple[str, ...]:
    """How many claims hold, on what data, and item by item."""
    judged = [j for j in judgements if j.verdict != verdicts.NOT_RUN]
    if not any(j.claim.items for j in judged):
        return ()
    lines, whose = [], "our expectations" if ours else "the paper's claims"
    for data, counts in judging.tally(judged).items():
        lines.append(f"{data[0].upper()}{data[1:]}: {_counted(counts, whose)}.")
    tried = [j for j in judged if j.claim.category == "experiment"]
    items = dict.fromkeys(j.claim.home for j in tried)
    good = (verdicts.HOLDS, verdicts.STRONGER)
    shares = {name: [j.verdict in good for j in tried if j.claim.home == name] for name in items}
    listed = ", ".join(f"{name} {sum(held)} of {len(held)}" for name, held in shares.items())
    return (*lines, f"What holds or is stronger, item by item: {listed}.")


def _counted(counts: Mapping[str, int], claims: str) -> str:
    """``3 of the paper's claims hold, 1 is stronger than stated, 2 differ, 4 are undecided``."""
    words = {
        verdicts.HOLDS: f"of {claims} {{hold}}",
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
        advice=tuple(read_advice(item.folder)),
    )


def _caption(item: Result, weak: bool) -> str:
    if not item.any_finished:
        return f"{item.title}. Every trial failed."
    subject = WEAK_SUBJECT if weak else f"{item.title}."
    if item.rows["metric"].str.startswith("loo_").any():
        examples = (item.config.get("evaluation") or {}).get("train")
        subject += f" {examples:,} examples." if examples else ""
    return caption(item.rows_by_example, item.paper.get("figure"), tuple(item.notes_on(item.notes)), subject)


def _figure_uri(figure: Path | None) -> str:
    if figure is None:
        return ""
    content = figure.read_bytes()
    if figure.suffix == ".svg":  # to a hundredth of a point, without indentation: the page must fit in a mail
        content = re.sub(rb"(\d\d\.\d{2})\d+|(?<=\n) +", rb"\1", content)
    return f"data:{MEDIA[figure.suffix]};base64,{base64.b64encode(content).decode('ascii')}"


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
