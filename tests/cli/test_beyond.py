"""Items beyond the paper: their own command, folder, claims and page, never mixed with the paper's."""

from dataclasses import replace
from pathlib import Path

import pytest
from mcf_cli.experiments.config import PROFILES
from mcf_cli.experiments.load import claims_file, configs_folder, item_files, load_config, shipped_items
from mcf_cli.reporting.claims import load_claims
from mcf_cli.reporting.report import claims_on, write_report
from mcf_cli.reporting.results import Result, rerun_command

from tests.cli.process import done, mcf_in, refused

BEYOND = configs_folder() / "beyond"


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Path:
    """A folder in which every item has been run on built-in data, by the real command."""
    folder = tmp_path_factory.mktemp("beyond")
    done(mcf_in(folder, "reproduce", "--beyond", "--profile", "smoke", "--quiet"))
    return folder


def test_every_item_runs_into_a_folder_of_its_own_with_a_page_without_claims_of_the_paper(ran):
    results = ran / "results" / "smoke" / "beyond"
    assert {path.parent.name for path in results.glob("*/rows.csv")} == shipped_items(beyond=True)
    assert not list((ran / "results" / "smoke").glob("*/rows.csv"))
    page = (results / "report.html").read_text()
    for item in shipped_items(beyond=True):
        assert f'<section id="{item}"' in page
    assert not [claim.id for claim in load_claims(claims_file()).claims if f"claim-{claim.id}" in page]
    assert "Marginalizing Corrupted Features" not in page
    assert not (results / "claims.csv").exists()  # built-in data gets no verdict
    assert "mcf reproduce --beyond bounds --profile smoke" in page


def test_status_and_report_know_the_folder(ran):
    assert "beyond/bounds" in done(mcf_in(ran, "status")).stdout
    assert "beyond/report.html" in done(mcf_in(ran, "report")).stdout  # the folder that was last run into


def test_on_real_data_our_expectations_are_judged_and_the_papers_are_not(ran, tmp_path):
    """Rows of the run, called real: what is asked of them is then decided by the names of the items alone."""
    read = [Result.read(path.parent) for path in (ran / "results/smoke/beyond").glob("*/rows.csv")]
    named = {"builtin-reviews": "amazon-books"}
    rows = {r.name: r.rows.assign(data_source="real", dataset=r.rows["dataset"].replace(named)) for r in read}
    results = {r.name: replace(r, rows=rows[r.name]) for r in read}
    assert claims_on(results) == claims_file(beyond=True)
    report = write_report(tmp_path, claims_on(results), results)
    ours = [claim.id for claim in load_claims(claims_file(beyond=True)).claims]
    lines = report.claims.read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ours
    assert "of our expectations" in " ".join(report.answer)
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert "Beyond the paper: what we expected, and what came out" in text
        assert "statements of the paper" not in text and "the paper's claims" not in text
    mixed = results | {"fig7": replace(results["bounds"], name="fig7")}
    assert claims_on(mixed) == claims_file()  # the paper's items are judged by the paper's claims alone


def test_names_are_disjoint_and_every_claim_is_about_items_that_exist():
    items = shipped_items(beyond=True)
    claims, papers = load_claims(claims_file(beyond=True)), load_claims(claims_file())
    assert items and not items & shipped_items()
    assert {name for claim in claims.claims for name in claim.items} == items
    assert not {claim.id for claim in claims.claims} & {claim.id for claim in papers.claims}
    assert claims.ours and not papers.ours
    assert rerun_command(["bounds"]) == "mcf reproduce --beyond bounds"
    assert rerun_command(["fig7"]) == "mcf reproduce fig7"


@pytest.mark.parametrize("path", item_files(BEYOND), ids=lambda path: path.stem)
def test_an_item_is_called_like_its_file_and_has_every_profile_but_the_full_one(path):
    for profile in PROFILES:
        assert load_config(path, profile=profile).config.item == path.stem
    assert set(load_config(path).config.profiles) == {"smoke", "quick"}


def test_what_cannot_go_with_it_is_refused(tmp_path):
    assert "configs/beyond" in refused(mcf_in(tmp_path, "reproduce", "--beyond", "--configs", "."))
    assert "there is no item 'fig3'" in refused(mcf_in(tmp_path, "reproduce", "--beyond", "fig3"))
