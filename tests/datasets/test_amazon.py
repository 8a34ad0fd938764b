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
