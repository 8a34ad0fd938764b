"""docs/method.md points at code that exists, and covers every corruption and loss there is."""

import re
from pathlib import Path

import pytest
from mcf_cli.core import corruptions, losses
from mcf_cli.core.losses.base import Loss

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "method.md").read_text()
LINKS = sorted(set(re.findall(r"\[`(\w+)`\]\(([^)]+)\)", TEXT)))
NAMES = {name for name, _ in LINKS}
HEADS = ("| class |", "| function |")  # the last column of the heading lines


@pytest.mark.parametrize(("name", "target"), LINKS, ids=lambda value: value)
def test_a_linked_name_is_defined_in_the_linked_file(name, target):
    source = (DOCS / target).resolve().read_text()
    assert re.search(rf"^(class|def) {name}\b", source, re.MULTILINE)


def test_every_row_of_the_tables_names_its_class():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.rstrip().endswith(HEADS)]
    assert len(rows) > 25
    assert [row for row in rows if not re.search(r"\[`\w+`\]\(\.\./mcf_cli/core/", row)] == []


def test_every_corruption_and_every_loss_is_on_the_page():
    families = {c.__name__ for c in vars(corruptions).values() if is_public(c, corruptions.Corruption)}
    families -= {"Corruption", "Coded", "Linear", "Identity"}
    formulas = {c.__name__ for c in vars(losses).values() if is_public(c, Loss)}
    formulas -= {"Loss", "MarginLoss", "SoftmaxLoss"}
    assert len(families) == 12
    assert len(formulas) == 8
    assert families | formulas <= NAMES


def is_public(thing, base):
    return isinstance(thing, type) and issubclass(thing, base) and not thing.__name__.startswith("_")


def test_every_erratum_that_is_named_has_an_entry():
    entries = set(re.findall(r"^\*\*(\d+)\.", (DOCS / "errata.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"\[E(\d+)\]\(errata\.md\)", TEXT))
    assert named
    assert named <= entries
