import numpy as np
import pytest
from mcf_cli.datasets import load
from mcf_cli.datasets.sources import amazon
from mcf_cli.errors import McfError

from tests.datasets.formats import here, write_tar

TEST_SIZES = {"books": 4465, "dvd": 3586, "electronics": 5681, "kitchen": 5945}
REVIEWS = {
    "books/positive.review": "good:2 book:1 very_good:1 #label#:positive\n",
    "books/negative.review": "bad:1 book:3 ::2 #label#:negative\n",
    "books/unlabeled.review": "book:1 good:1 #label#:positive\nbad:4 #label#:negative\n",
}


def archive(tmp_path, members):
    files = {f"processed_acl/{name}": text.encode() for name, text in members.items()}
    return write_tar(tmp_path / "processed_acl.tar.gz", files)


@pytest.mark.parametrize("domain", TEST_SIZES)
def test_the_svmlight_files_hold_the_papers_documents_and_division(shared_home, domain):
    data = load(f"amazon-{domain}")
    train, test = data.splits["predefined"]
    assert data.X.shape == (2000 + TEST_SIZES[domain], 5000)
    assert np.bincount(data.y[train]).tolist() == [1000, 1000]
    assert len(test) == TEST_SIZES[domain]
    assert (data.X.data == np.round(data.X.data)).all()
    assert (data.X.data > 0).all()
    assert "5,000-term form" in data.notes


def test_the_labelled_reviews_are_the_training_documents_of_the_svmlight_files(shared_home):
    """The two forms name no terms in common, but the counts of the most frequent terms must be the same."""
    labelled = load("amazon-books", form="labelled")
    short = load("amazon-books", form="svmlight")
    train = short.splits["predefined"][0]
    assert labelled.X.shape[0] == len(train)
    totals, short_totals = (np.asarray(X.sum(axis=0)).ravel() for X in (labelled.X, short.X[train]))
    assert np.array_equal(np.sort(totals)[-50:], np.sort(short_totals)[-50:])
    assert "no test set" in labelled.notes[0]


def test_without_the_test_files_the_svmlight_form_is_taken(shared_home):
    assert load("amazon-dvd", form="auto").sha256 == load("amazon-dvd", form="svmlight").sha256


def test_a_source_gives_its_training_reviews_and_the_targets_test_reviews(shared_home):
    shifted = load("amazon-dvd", form="svmlight", source="books")
    books, dvd = load("amazon-books", form="svmlight"), load("amazon-dvd", form="svmlight")
    train, test = shifted.splits["shift"]
    for rows, whole, part in ((train, books, 0), (test, dvd, 1)):
        own = whole.splits["predefined"][part]
        assert abs(shifted.X[rows] - whole.X[own]).nnz == 0
        assert np.array_equal(shifted.y[rows], whole.y[own])
    assert shifted.name == "amazon-books-to-dvd"
    assert shifted.sha256 != load("amazon-books", form="svmlight", source="dvd").sha256
    with pytest.raises(McfError, match="the domain itself"):
        load("amazon-dvd", form="svmlight", source="dvd")
    with pytest.raises(McfError, match="form: svmlight"):
        load("amazon-dvd", form="labelled", source="books")


@pytest.mark.parametrize("packed", [True, False])
def test_processed_acl_gives_training_then_test_reviews(tmp_path, empty_home, packed):
    if packed:
        path = archive(tmp_path, REVIEWS)
    else:
        path = tmp_path
        (tmp_path / "books").mkdir()
        for name, text in REVIEWS.items():
            (tmp_path / name).write_text(text)
    data = amazon.load_amazon(here("amazon", "processed_acl", path), "amazon-books")
    assert data.feature_names == (":", "bad", "book", "good", "very_good")
    assert data.X.toarray().tolist() == [[0, 0, 1, 2, 1], [2, 1, 3, 0, 0], [0, 0, 1, 1, 0], [0, 4, 0, 0, 0]]
    assert data.y.tolist() == [1, 0, 1, 0]
    assert [part.tolist() for part in data.splits["predefined"]] == [[0, 1], [2, 3]]
    assert data.notes == ()


def test_only_the_most_common_terms_are_kept(tmp_path, empty_home):
    data = amazon.load_amazon(
        here("amazon", "processed_acl", archive(tmp_path, REVIEWS)), "amazon-books", terms=2
    )
    assert data.feature_names == ("bad", "book")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("book:1 good\n", "line 1: expected 'term:count', got 'good'"),
        ("book:x #label#:positive\n", "got 'book:x'"),
        ("book:1\n", "expected '#label#:positive'"),
        ("book:1 #label#:good\n", "got '#label#:good'"),
        (f"book:{'9' * 5000} #label#:positive\n", "expected 'term:count'"),
    ],
)
def test_a_malformed_review_is_named(tmp_path, text, message):
    path = archive(tmp_path, {**REVIEWS, "books/positive.review": text})
    with pytest.raises(McfError) as caught:
        amazon.read_processed_acl(path, "books", 10)
    assert "books/positive.review, line 1" in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_part_is_named(tmp_path):
    path = archive(tmp_path, {"books/positive.review": REVIEWS["books/positive.review"]})
    with pytest.raises(McfError, match=r"lacks books/negative\.review"):
        amazon.read_processed_acl(path, "books", 10)


def test_strange_columns_or_labels_are_refused(tmp_path):
    for content in ("1 5000:1\n", "2 1:1\n"):
        (tmp_path / "books.svmlight").write_text(content)
        with pytest.raises(McfError, match="expected labels"):
            amazon.read_svmlight(tmp_path / "books.svmlight", tmp_path / "books.svmlight")


def test_raw_reviews_are_counted_as_processed_acl_was():
    tokens = amazon.review_tokens("It's GREAT! In 1999, I paid 5 or 1/2 of (that) - see pp. 3-4: wow,good")
    assert tokens == [
        *(
            "it's",
            "great",
            "in",
            "<year>",
            "i",
            "paid",
            "<num>",
            "or",
            "<fraction>",
            "of",
            "(that)",
            "",
            "see",
        ),
        *("pp", "<dash-num>", "wow", "good"),
    ]
    terms = amazon.review_terms(["it", "is", "", "so", "good", "good"])
    assert terms == {"so": 1, "good": 2, "so_good": 1, "good_good": 1}


@pytest.mark.parametrize("domain", TEST_SIZES)
def test_raw_reviews_have_the_papers_shape(shared_home, domain):
    data = load(f"amazon-raw-{domain}")
    train, test = data.splits["seeded"]
    assert data.X.shape == (6000, 20000)
    assert np.bincount(data.y).tolist() == [3000, 3000]
    assert np.bincount(data.y[train]).tolist() == [1000, 1000] and len(test) == 4000
    assert not set(data.groups[train]) & set(data.groups[test]), "a copy stands on both sides"
    assert len(np.unique(data.groups)) < 6000
    assert data.source == "substitute" and data.notes == (
        "raw reviews, 20,000 terms, not the paper's documents",
    )
    other = load(f"amazon-raw-{domain}", seed=1)
    assert other.sha256 != data.sha256 and not np.array_equal(other.splits["seeded"][0], train)


def test_a_division_keeps_groups_together_and_classes_even():
    y, groups = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 1, 2, 3, 3])
    for seed in range(10):
        train, test = amazon.balanced_split(y, groups, 1, seed)
        assert y[train].tolist() == [0, 1] and not set(groups[train]) & set(groups[test])
    with pytest.raises(McfError, match="too few rows"):
        amazon.balanced_split(y, groups, 4, 0)


def test_the_svmlight_columns_have_the_names_of_the_labelled_terms(shared_home):
    """The training totals of every column are those of the term that names it."""
    short, labelled = load("amazon-kitchen"), load("amazon-kitchen", form="labelled", terms=10**6)
    totals = dict(zip(labelled.feature_names, np.asarray(labelled.X.sum(axis=0)).ravel(), strict=True))
    found = np.asarray(short.X[short.splits["predefined"][0]].sum(axis=0)).ravel()
    assert len(short.feature_names) == 5000
    assert found.tolist() == [totals.get(term, 0) for term in short.feature_names]
