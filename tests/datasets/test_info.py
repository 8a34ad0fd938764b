import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.image import imread
from mcf_cli.datasets import info, load
from mcf_cli.datasets import info as pictures
from mcf_cli.errors import McfError


def test_the_facts_agree_with_the_data():
    data = load("builtin-reviews")
    facts = info.facts(data)
    assert (facts["examples"], facts["features"]) == data.X.shape
    assert sum(facts["classes"].values()) == len(data.y)
    assert facts["non-zero"] == data.X.nnz / np.prod(data.X.shape)
    assert abs(sum(facts["values"].values()) - 1) < 1e-12
    assert facts["splits"] == {"predefined": (400, 800)}


def test_values_are_listed_or_binned():
    assert info.value_shares(sp.csr_matrix([[0, 1, 1, 2]])) == {"1": 2 / 3, "2": 1 / 3}
    assert info.value_shares(np.zeros((2, 2))) == {}
    assert list(info.value_shares(np.arange(1.0, 21)))[-1] == "8 to 20"
    binned = info.value_shares(np.linspace(0.1, 0.9, 90))
    assert len(binned) == 8
    assert abs(sum(binned.values()) - 1) < 1e-12


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("builtin-digits", ["1,797 rows, 64 features", "BUILTIN", "@@"]),
        ("builtin-splice", ["4 symbols each", "repeat another"]),
        ("builtin-reviews", ["negative", "word0:", "400 training, 800 test"]),
        ("builtin-textures", ["checks", "top-left."]),
    ],
)
def test_the_page_shows_shape_classes_and_decoded_examples(name, expected):
    text = info.description_of(load(name))
    for part in expected:
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_an_example_is_decoded_to_its_sequence():
    data = load("builtin-splice")
    sequence = info.example_text(data, 0)
    assert len(sequence) == 60
    assert set(sequence) <= set("ACGT")


def test_a_substitute_says_so(shared_home):
    assert "SUBSTITUTE" in info.description_of(load("dmoz", form="pages-top-level"))


@pytest.mark.parametrize("name", ["builtin-digits", "builtin-splice", "builtin-topics", "builtin-textures"])
def test_a_picture_is_drawn_and_is_not_blank(tmp_path, name):
    path = tmp_path / "picture.png"
    info.plot(load(name), path)
    pixels = imread(path)
    assert min(pixels.shape[:2]) > 200
    assert len(np.unique(pixels[..., 0])) > 10


def test_the_words_drawn_for_a_class_belong_to_it():
    data = load("builtin-topics")
    for code in range(3):
        columns, _ = pictures.top_columns(data, code)
        assert all(data.feature_names[k].startswith(f"term{code}.") for k in columns[:5])


def test_the_columns_drawn_for_dense_data_are_the_larger_ones(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("width,height,label\n1,9,a\n2,8,a\n8,2,b\n9,1,b\n")
    data = load(str(path))
    assert [data.feature_names[pictures.top_columns(data, code)[0][0]] for code in (0, 1)] == [
        "height",
        "width",
    ]


def test_columns_without_names_are_shown_as_the_words_of_another_form(shared_home):
    data = load("reuters")
    assert data.feature_names is None
    worded = info.with_words(data)
    assert "dividend" in worded.feature_names
    assert "column" not in info.description_of(data)


def test_pictures_may_be_vectors_but_not_anything(tmp_path):
    info.plot(load("builtin-digits"), tmp_path / "digits.svg")
    assert (tmp_path / "digits.svg").read_text().lstrip().startswith("<?xml")
    with pytest.raises(McfError, match=r"name it \.png"):
        info.plot(load("builtin-digits"), tmp_path / "digits.xyz")
    with pytest.raises(McfError, match="cannot write"):
        info.plot(load("builtin-digits"), tmp_path / "none" / "digits.png")
    assert [path.name for path in tmp_path.iterdir()] == ["digits.svg"]
