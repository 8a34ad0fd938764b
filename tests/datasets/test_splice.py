import random

import numpy as np
import pytest
from mcf_cli.datasets import load
from mcf_cli.datasets.sources import splice
from mcf_cli.errors import McfError

from tests.datasets.formats import here

SEQUENCE = "ACGT" * 15


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_uci_file_has_the_papers_shape(shared_home):
    data = load("splice")
    assert data.X.shape == (3190, 480)
    assert dict(zip(data.class_names, np.bincount(data.y), strict=True)) == {"EI": 767, "IE": 768, "N": 1655}
    assert data.blocks == 8
    assert len(data.groups) - len(np.unique(data.groups)) == 185
    assert (data.source, data.notes) == ("real", ())


def test_copies_may_be_set_apart_and_the_data_says_so(shared_home):
    kept, apart = load("splice"), load("splice", together=False)
    assert apart.groups is None
    assert apart.sha256 != kept.sha256
    assert apart.notes == ("identical sequences may stand in training and test rows",)
    np.testing.assert_array_equal(apart.X.toarray(), kept.X.toarray())


def test_four_symbols_leave_out_the_uncertain_sequences_and_say_so(shared_home):
    data = load("splice", symbols=4)
    assert data.X.shape == (3175, 240)
    assert "15 sequences" in data.notes[0]
    assert data.sha256 != load("splice").sha256


def test_every_block_holds_one_symbol_and_spells_the_sequence(shared_home):
    data = load("splice")
    assert (data.X.reshape(3190 * 60, 8).sum(axis=1) == 1).all()
    decoded = ["".join(data.feature_names[k][-1] for k in data.X[[row]].indices) for row in range(50)]
    records = splice.read_records(shared_home / "splice" / "splice.data")
    assert decoded == [sequence for sequence, _ in records[:50]]


def test_the_order_of_the_rows_does_not_matter(shared_home, tmp_path):
    lines = (shared_home / "splice" / "splice.data").read_text().splitlines()
    random.Random(0).shuffle(lines)
    other = splice.load_splice(here("splice", "uci", write(tmp_path / "splice.data", *lines)))
    data = load("splice")
    assert other.sha256 == data.sha256
    assert (other.X != data.X).nnz == 0
    assert np.array_equal(other.y, data.y)


def test_copies_share_a_group(tmp_path):
    other = "T" + SEQUENCE[1:]
    path = write(tmp_path / "s", f"EI, a, {SEQUENCE}", f"N, b, {other}", f"N, c, {SEQUENCE}")
    groups = splice.load_splice(here("splice", "uci", path)).groups
    assert sorted(np.bincount(groups)) == [1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"EI, {SEQUENCE}", "expected 'class, name, sequence'"),
        (f"XX, name, {SEQUENCE}", "expected a class of EI, IE, N, got 'XX'"),
        (f"EI, name, {SEQUENCE}A", "expected 60 symbols, got 61"),
        (f"EI, name, {SEQUENCE[:-1]}Z", "got 'Z'"),
        ("<html>Not found</html>", "expected 'class, name, sequence'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, message):
    path = write(tmp_path / "splice.data", f"N, good, {SEQUENCE}", line)
    with pytest.raises(McfError) as caught:
        splice.read_records(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert message in str(caught.value)


def test_an_empty_file_is_an_error(tmp_path):
    with pytest.raises(McfError, match="holds no sequences"):
        splice.read_records(write(tmp_path / "splice.data"))


def test_an_odd_number_of_symbols_is_refused(shared_home):
    with pytest.raises(McfError, match="choose 8"):
        load("splice", symbols=5)


def test_the_package_gives_the_same_data(real_form):
    real_form("splice", "uci"), real_form("splice", "pairs")
    assert load("splice", form="pairs").sha256 == load("splice", form="uci").sha256
