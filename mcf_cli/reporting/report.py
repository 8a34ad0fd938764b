"""The report: the claims first, then every item with its figure, its table and where its numbers come from.

    paths = write_report(Path("results"), Path("configs/claims.yaml"))

writes claims.csv and claims.md, report.md and report.html into the results folder. The html file needs nothing but
itself: figures are embedded, styles are inline, there is no script. The same rows give the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
import yaml

from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.run import spoken_time
from mcf_cli.reporting import claims as judging
from mcf_cli.reporting import tables
from mcf_cli.reporting.captions import WEAK_SUBJECT, caption
from mcf_cli.reporting.claims import Claims, Judgement
from mcf_cli.reporting.results import ItemResults, read_results, rerun_command
from mcf_cli.reporting.series import SOURCE_MARKS, dataset_label

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
TEMPLATES = jinja2.PackageLoader("mcf_cli.reporting")


class ReportPaths(NamedTuple):
    """What was written."""

    claims: Path
    table: Path
    markdown: Path
    html: Path


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
        return [j for j in self.judgements if j.verdict == judging.DIFFERS]

    @cached_property
    def columns(self) -> list[tuple[str, bool]]:
        """The table's headings, and whether their column holds numbers."""
        shown = self.table.shown
        return [(str(name), tables.is_number_column(shown[name])) for name in shown]

    @property
    def lines(self) -> list[list[str]]:
        return [["" if pd.isna(cell) else str(cell) for cell in line] for line in self.table.shown.to_numpy()]


def write_report(
    results_folder: Path, claims_file: Path | None, partial: Mapping[str, str] | None = None
) -> ReportPaths:
    """Judge the claims on what the folder holds and write claims.csv, claims.md, report.md and report.html there.

    ``partial`` is what the store knows better than the folder: ``PARTIAL 12/50`` or nothing, by item.
    """
    claims = judging.load_claims(claims_file) if claims_file else Claims(data={}, claims=[])
    results = read_results(results_folder, partial)
    judgements = judging.judge_all(claims, results)
    facts = {
        "sections": _sections(claims, results, judgements),
        "tally": judging.tally(judgements),
        "total": len(judgements),
        "totals": {word: sum(j.verdict == word for j in judgements) for word in judging.VERDICTS},
        "set_apart": any(j.verdict != judging.NOT_RUN and not j.of_the_paper for j in judgements),
        "built_in": any(j.data == judging.BUILT_IN for j in judgements),
        "environments": _environments(results),
    }
    paths = ReportPaths(
        *(results_folder / name for name in ("claims.csv", "claims.md", "report.md", "report.html"))
    )
    results_folder.mkdir(parents=True, exist_ok=True)
    write_text(paths.claims, judging.to_csv(judgements))
    write_text(paths.table, judging.to_markdown(judgements))
    write_text(paths.markdown, _markdown().get_template("report.md.j2").render(facts))
    write_text(paths.html, _html().get_template("report.html.j2").render(facts))
    return paths


def _html() -> jinja2.Environment:
    return jinja2.Environment(
        loader=TEMPLATES,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


class Prepared(str):
    """Markdown that is written as it is."""


def _markdown() -> jinja2.Environment:
    """Markdown renders html too, so every name is escaped here as well."""

    def escaped(value: Any) -> Any:
        return value if isinstance(value, Prepared) else tables.escape_markdown(str(value))

    environment = jinja2.Environment(
        loader=TEMPLATES,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=escaped,
    )
    environment.filters["prepared"] = Prepared
    return environment


def _sections(
    claims: Claims, results: Mapping[str, ItemResults], judgements: list[Judgement]
) -> list[Section]:
    """Items in the order of the claims, then those that no claim asks of."""
    names = [*claims.items, *(name for name in results if name not in claims.items)]
    return [
        _section(
            name,
            results.get(name),
            tuple(j for j in judgements if j.claim.items[0] == name),
            weak=name in claims.weak_baselines,
        )
        for name in names
    ]


def _section(
    name: str, item: ItemResults | None, judgements: tuple[Judgement, ...], weak: bool = False
) -> Section:
    if item is None:
        return Section(name, name, rerun_command([name]), judgements)
    table = _table(item)
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


def _table(item: ItemResults) -> tables.Table | None:
    if not item.any_finished:
        return None
    return tables.build(
        item.rows,
        paper_table=item.paper.get("table"),
        done=item.trials.get("done"),
        expected=item.trials.get("expected"),
    )


def _caption(item: ItemResults, weak: bool) -> str:
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


def _facts(item: ItemResults) -> list[tuple[str, str]]:
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
    facts.append(("Commit", str(environment.get("commit") or "unknown")))
    return facts


def _data_words(facts: Mapping[str, Any]) -> str:
    source = str(facts.get("source", ""))
    words = f"{dataset_label(facts['name'], '')} ({SOURCE_MARKS.get(source, source)})"
    shape = facts.get("shape")
    words += f": {shape[0]:,} × {shape[1]:,}" if shape else ""
    words += f", {facts['n_classes']} classes" if facts.get("n_classes") else ""
    words += f", sha256 {facts['sha256'][:12]}" if facts.get("sha256") else ""
    return ". ".join([words, *(str(note).rstrip(".") for note in facts.get("notes") or ())])


def _environments(results: Mapping[str, ItemResults]) -> list[tuple[str, str]]:
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
