"""The report: complete, self-contained, harmless whatever a data set is called, and the same every time."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import yaml
from mcf_cli.errors import McfError
from mcf_cli.experiments.trial import METHOD_VERSION
from mcf_cli.reporting.charts import item_chart
from mcf_cli.reporting.claims import CATEGORIES
from mcf_cli.reporting.report import claims_on, write_report
from mcf_cli.reporting.results import Result, read_results
from mcf_cli.reporting.series import tidy
from mcf_cli.reporting.tables import escape_markdown
from mcf_cli.reporting.verdicts import VERDICTS

from tests.reporting import made_up_results, made_up_rows

FILE = Path(__file__).parents[2] / "configs" / "claims.yaml"
EVIL = "<script>alert('x')</script>|`*"


class Page(HTMLParser):
    """The tags and addresses of a page, and its text outside styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.ids, self.text, self.open_style = [], [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open_style = tag in ("style", "script")
        values = dict(attributes)
        self.addresses += [values[name] for name in ("src", "href") if values.get(name)]
        self.ids += [values["id"]] if "id" in values else []
        assert not any(name.startswith("on") for name in values)

    def handle_endtag(self, tag):
        self.open_style = False

    def handle_data(self, data):
        self.text += "" if self.open_style else data


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    made_up_results.write_all(folder, figures_of=("fig6",))
    return folder


@pytest.fixture(scope="module")
def page(results):
    return Page(write_report(results, FILE).html.read_text())


def test_html_needs_nothing_but_itself(page):
    assert not {"iframe", "object", "embed"} & set(page.tags)
    outside = [address for address in page.addresses if not address.startswith(("data:", "#"))]
    assert outside == []


def test_styles_fetch_nothing(tmp_path):
    style = re.search(r"<style>(.*?)</style>", write_report(tmp_path, None).html.read_text(), re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    for part in ("prefers-color-scheme: dark", "@media print", "max-width"):
        assert part in style


def test_every_link_leads_somewhere(page):
    targets = {address[1:] for address in page.addresses if address.startswith("#")}
    assert targets <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_claims_come_first_and_every_item_follows(page):
    own = ("main", "headline", "filters", "shown", "where", "charts")
    sections = [
        name for name in page.ids if not name.startswith(("claim-", "why-", "note-")) and name not in own
    ]
    assert sections[:2] == ["forest", "claims"]
    assert set(sections[2:]) == {*made_up_results.ITEMS, "computed", "splice-losses", "splice-reading"}


def test_an_item_shows_where_its_numbers_come_from(page):
    for words in ("c0ffee", "2 min of computing", "mcf reproduce fig6", "sha256 abababababab", "10 × 20"):
        assert words in page.text


def test_table3_stands_beside_the_papers_numbers(page):
    for number in ("32.6", "29.1", "37.9", "29.4"):
        assert number in page.text
    assert "Quadratic, paper" in page.text


def test_figures_are_embedded_in_html_and_linked_in_markdown(results, page):
    images = [address for address in page.addresses if address.startswith("data:image/")]
    assert len(images) == 2, "the figure and the forest plot"
    assert images[0].startswith("data:image/svg+xml;base64,")
    assert "](fig6/figure.png)" in (results / "report.md").read_text()


def test_a_data_set_of_any_name_is_harmless(tmp_path):
    rows = made_up_rows.q_sweep(datasets=(EVIL,), source="user")
    made_up_results.write_item(tmp_path, "sweep", rows, {"figure": 3}, notes=(EVIL,))
    paths = write_report(tmp_path, FILE)
    page = Page(paths.html.read_text())
    assert page.tags.count("script") <= 3, "the numbers, the library and our own"
    assert EVIL[1:].replace("-", " ") in page.text  # shown as it is, not run
    assert "<script" not in paths.markdown.read_text().lower()


def test_a_name_cannot_break_a_line_or_open_a_column_in_markdown():
    assert escape_markdown("a|b\n<c> & *d*") == "a\\|b &lt;c&gt; &amp; \\*d\\*"


def test_the_same_rows_give_the_same_bytes(tmp_path):
    made_up_results.write_item(tmp_path, "fig6", made_up_rows.explicit(), {"figure": 6}, figure=True)
    first = [path.read_bytes() for path in write_report(tmp_path, FILE).files]
    assert [path.read_bytes() for path in write_report(tmp_path, FILE).files] == first


def test_nothing_run_is_a_report_that_says_so(tmp_path):
    paths = write_report(tmp_path, FILE)
    html = paths.html.read_text()
    assert "Not run. Run it with mcf reproduce fig3" in Page(html).text
    assert 'class="verdict not-run"' in html
    claims = yaml.safe_load(FILE.read_text())["claims"]
    assert paths.claims.read_text().count(",not run,") == sum(bool(claim["items"]) for claim in claims)


def test_built_in_data_gets_no_verdict(tmp_path):
    rows = made_up_rows.nightmare(source="builtin").assign(dataset="builtin-digits")
    made_up_results.write_item(tmp_path, "fig9", rows, {"figure": 9})
    results = read_results(tmp_path)
    assert claims_on(results) is None
    text = write_report(tmp_path, FILE, results).html.read_text()
    assert "says nothing about the paper" in text
    assert "../report.html" not in write_report(tmp_path, None, results).html.read_text()
    below = tmp_path / "demo"
    (tmp_path / "report.html").touch()
    assert '"../report.html"' in write_report(below, None, results).html.read_text()
    assert 'class="verdict holds built-in"' not in text


def test_reports_without_built_in_data_carry_no_warning(tmp_path):
    made_up_results.write_item(tmp_path, "fig6", made_up_rows.explicit(), {"figure": 6})
    text = write_report(tmp_path, FILE).html.read_text()
    assert "nothing about the paper" not in text


def test_verdicts_on_a_substitute_are_explained_and_all_are_counted(tmp_path):
    made_up_results.write_item(tmp_path, "fig5", made_up_rows.learning_curve(), {"figure": 5})
    paths = write_report(tmp_path, FILE)
    text = " ".join(Page(paths.html.read_text()).text.split())
    lines = paths.claims.read_text().splitlines()[1:]
    counts = [sum(f",{word}," in line for line in lines) for word in VERDICTS]
    assert sum(counts) == len(lines)
    claims = pd.read_csv(paths.claims)
    tried = claims[claims["category"] == "experiment"]
    held = (tried["verdict"] == "holds").sum()
    assert f"Of {len(tried)} checkable statements about experiments, {held} hold" in text
    for category, words in list(CATEGORIES.items())[1:]:
        assert f"Of {(claims['category'] == category).sum()} {words}, " in text
    intervals = ((tried["kind"] == "interval") & (tried["verdict"] != "not run")).sum()
    judged = (tried["verdict"] != "not run").sum()
    assert f"{intervals} of {judged} answers of experiments have a 95% interval" in text
    assert "data that only stands in for the paper's" in text


def test_partial_items_say_so_in_claim_and_heading(tmp_path):
    made_up_results.write_item(tmp_path, "fig6", made_up_rows.explicit(), {"figure": 6}, done=4, expected=18)
    paths = write_report(tmp_path, FILE)
    assert Page(paths.html.read_text()).text.count("PARTIAL 4/18") >= 3
    assert "PARTIAL 4/18" in paths.claims.read_text()
    known = replace(Result.read(tmp_path / "fig6"), partial="PARTIAL 5/18")
    overruled = write_report(tmp_path, FILE, read_results(tmp_path, {"fig6": known}))
    assert "fig6 PARTIAL 5/18" in overruled.claims.read_text()


def test_a_difference_is_explained_in_a_paragraph(tmp_path):
    content = yaml.safe_load(FILE.read_text()) | {
        "reasons": {"cifar-quadratic-poisson": {"method": METHOD_VERSION, "text": "Another codebook <b>."}}
    }
    target = tmp_path / "claims.yaml"
    target.write_text(yaml.safe_dump(content))
    rows = made_up_rows.cifar().assign(dataset="cifar10-words", value=0.5)
    made_up_results.write_item(tmp_path, "table3", rows, {"table": 3})
    paths = write_report(tmp_path, target)
    page = Page(paths.html.read_text())
    assert "why-cifar-quadratic-poisson" in page.ids
    assert "Another codebook <b>." in page.text
    assert "Another codebook &lt;b&gt;." in paths.markdown.read_text()


def test_results_without_any_claims_still_make_a_report(tmp_path):
    made_up_results.write_item(tmp_path, "sweep", made_up_rows.q_sweep())
    page = Page(write_report(tmp_path, None).html.read_text())
    assert "sweep" in page.ids
    assert "claims" not in page.ids


def test_an_item_whose_trials_all_failed_is_shown_as_that(tmp_path):
    rows = made_up_rows.q_sweep().assign(status="failed", reason="no memory")
    made_up_results.write_item(tmp_path, "fig3", rows, {"figure": 3}, done=0, figure=True)  # an earlier run's
    paths = write_report(tmp_path, FILE)
    page = Page(paths.html.read_text())
    assert "Every trial failed" in page.text
    section = paths.html.read_text().split('id="fig3"')[1].split("</section>")[0]
    assert "<img" not in section
    assert "](fig3/figure.png)" not in paths.markdown.read_text()


def test_an_item_without_a_file_in_configs_is_run_again_from_its_own(tmp_path):
    made_up_results.write_item(tmp_path, "mine", made_up_rows.q_sweep())
    text = Page(write_report(tmp_path, FILE).html.read_text()).text
    assert f"mcf reproduce --config {tmp_path / 'mine' / 'config.yaml'} --out {tmp_path}" in text
    assert "mcf reproduce mine" not in text


def test_captions_name_the_data_set_of_a_note_and_the_number_of_examples(tmp_path):
    made_up_results.write_item(
        tmp_path, "fig6", made_up_rows.explicit(), {"figure": 6}, notes=("5,000-term form",)
    )
    made_up_results.write_item(tmp_path, "loo", made_up_rows.leave_one_out())
    target = tmp_path / "loo" / "config.yaml"
    target.write_text(target.read_text() + "evaluation: {train: 300}\n")
    text = write_report(tmp_path, FILE).markdown.read_text()
    assert "Amazon books: 5,000-term form." in text
    assert "Item loo. 300 examples." in text


def test_plain_models_of_the_released_code_say_what_they_are(tmp_path):
    rows = made_up_rows.q_sweep()
    made_up_results.write_item(tmp_path, "weak-text", rows[rows["corruption"] == "none"])
    text = write_report(tmp_path, FILE).markdown.read_text()
    assert "l2 divided by about N, as the authors' released code does at q = 0." in text


def test_damaged_files_are_one_clear_error(tmp_path):
    made_up_results.write_item(tmp_path, "fig6", made_up_rows.explicit(), {"figure": 6})
    (tmp_path / "fig6" / "environment.json").write_text('{"trials": ')
    with pytest.raises(McfError, match="fig6"):
        write_report(tmp_path, FILE)


def test_rows_without_a_column_that_the_report_needs_are_one_clear_error(tmp_path):
    rows = made_up_rows.explicit()
    made_up_results.write_item(tmp_path, "fig6", rows, {"figure": 6})
    rows.drop(columns="status").to_csv(tmp_path / "fig6" / "rows.csv", index=False)
    with pytest.raises(McfError, match="no column status"):
        write_report(tmp_path, FILE)


def test_the_article_has_every_judged_claim_and_counts_them_as_the_claims_file_does(results, page):
    article = (results / "article.md").read_text()
    judged = pd.read_csv(results / "claims.csv")
    run = judged[judged["verdict"] != "not run"]
    assert article.count("Measured: ") == len(run) > 0
    assert all(escape_markdown(words) in article for words in run["measured"])


def test_the_answer_is_there_in_a_few_lines(results):
    answer = write_report(results, FILE).answer
    assert 2 <= len(answer) <= 8  # a line for each category and kind of data, and one item by item
    assert any("of the paper's claims hold" in line for line in answer)


def test_without_claims_the_answer_is_the_chosen_model_beside_the_plain_one(tmp_path):
    for name, rows in {
        "sweep": made_up_rows.q_sweep(datasets=("amazon-books",)),
        "nightmare": made_up_rows.nightmare(),
    }.items():
        validated = pd.concat([rows, rows.assign(metric="validation_error")])
        made_up_results.write_item(tmp_path, name, validated)
    report = write_report(tmp_path, None)
    assert all("test error: " in line and ", plain " in line for line in report.answer)
    assert all("(95% interval " in line for line in report.answer)
    assert len(report.answer) == 2 and "50% deleted" in report.answer[0]
    assert report.answer[1] in Page(report.html.read_text()).text


def test_a_claim_says_on_the_page_what_was_changed_about_it(page):
    changed = [claim["changed"] for claim in yaml.safe_load(FILE.read_text())["claims"] if "changed" in claim]
    assert changed and all(words in page.text for words in changed)


def test_losses_are_told_apart_without_colour_and_panels_of_a_collection_share_a_scale():
    rows = made_up_rows.with_evidence(made_up_rows.q_sweep())
    chart = item_chart(tidy(rows))
    shapes = {
        str(layer["encoding"]["shape"]) for layer in chart["spec"]["layer"] if "shape" in layer["encoding"]
    }
    assert len(shapes) == 1 and "'field': 'loss'" in shapes.pop()
    ranges = pd.DataFrame([point for point in chart["data"]["values"] if "range" in point])
    ends = ranges.groupby("data")["range"].agg(["min", "max"]).drop_duplicates()
    assert len(ranges["data"].unique()) == 4 and len(ends) == 1
    bands = [layer for layer in chart["spec"]["layer"] if layer["mark"]["type"] == "rect"]
    assert len(bands) == 1, "the intervals of the lines across"
