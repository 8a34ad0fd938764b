"""The pages name tests and files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "results" / "README.md"])
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_it_names_is_there(page):
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [
        path for path in re.findall(r"\b(?:tests|mcf_cli)/[\w/]+\.py\b", text) if not (ROOT / path).exists()
    ]
    assert missing == []


def test_every_fault_has_what_happens_now_and_a_test():
    section = RELIABILITY.split("## Faults found in 1.1\n")[1]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(rows) > 15
    assert [row for row in rows if not re.search(r" \| [^|]+ \| `tests/[^|]+ \|$", row)] == []


def test_the_page_on_speed_does_not_compare_with_earlier_versions():
    text = (ROOT / "docs" / "performance.md").read_text()
    assert re.findall(r"[Vv]ersion 1\.|\bof 1\.1\b|\bin 1\.1\b|[Bb]efore, now", text) == []
