import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from mcf_cli.datasets import load
from mcf_cli.datasets.sources import reuters
from mcf_cli.errors import McfError
from sklearn.preprocessing import normalize

from tests.datasets.formats import here, write_tar

STORY = (
    '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="5" NEWID="{number}">\n'
    "<TOPICS>{topics}</TOPICS><TEXT>\n<TITLE>{title}</TITLE><BODY>{body}</BODY></TEXT>\n</REUTERS>\n"
)


def story(number=1, topics="<D>cocoa</D>", title="BAHIA", body="Rain &lt;fell> on\ncocoa"):
    return STORY.format(number=number, topics=topics, title=title, body=body)


def sgml_archive(tmp_path, first):
    empty = story(number=2, topics="").encode("latin-1")
    files = {f"sgm/{name}": empty for name in reuters.SGML_FILES}
    return write_tar(
        tmp_path / "reuters21578.tar.xz", {**files, "sgm/reut2-000.sgm": first.encode("latin-1")}
    )


def sizes(data, rows):
    return sorted(np.bincount(data.y[rows], minlength=len(data.class_names)))


def test_the_matrix_has_the_papers_shape(shared_home):
    data = load("reuters")
    assert data.X.shape == (8293, 18933)
    assert len(data.class_names) == 65
    assert np.bincount(data.y)[:3].tolist() == [3713, 2055, 321]
    assert data.class_names[:3] == ("earn", "acq", "crude")
    assert [len(part) for part in data.splits["modapte"]] == [5946, 2347]
    assert [len(part) for part in data.splits["fixed"]] == [6220, 2073]
    assert next(iter(data.splits)) == "fixed"


def test_the_text_gives_the_same_documents_and_classes(shared_home):
    matrix, text = load("reuters"), load("reuters", form="sgml")
    assert text.X.shape[0] == 8293
    for side in (0, 1):
        assert sizes(matrix, matrix.splits["modapte"][side]) == sizes(text, text.splits["modapte"][side])
    named = {name: size for name, size in zip(text.class_names, np.bincount(text.y), strict=True)}
    for name, size in zip(matrix.class_names, np.bincount(matrix.y), strict=True):
        assert name.startswith("topic ") or named[name] == size
    assert "our tokeniser" in text.notes[0]
    assert "cocoa" in text.feature_names


def test_stories_without_lewis_split_give_the_same_data(shared_home, tmp_path):
    """The JSON package knows numbers, topics and texts only: the division must follow from the numbers."""
    documents = list(reuters.read_sgml(shared_home / "reuters" / "reuters21578-sgm.tar.xz"))
    assert len(documents) == 21578
    chosen = list(reuters.single_topic(iter(documents)))
    path = tmp_path / "reuters-json.jsonl"
    with path.open("w") as stream:
        for document in documents:
            fields = {"id": str(document.number), "topics": document.topics, "body": document.text}
            stream.write(json.dumps(fields) + "\n")
    again = list(reuters.single_topic(reuters.read_json(path)))
    assert [(d.number, d.part, d.topics) for d in again] == [(d.number, d.part, d.topics) for d in chosen]


def test_a_story_is_read_with_its_entities_and_line_breaks(tmp_path):
    path = sgml_archive(tmp_path, '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + story())
    documents = [document for document in reuters.read_sgml(path) if document.number == 1]
    assert documents == [reuters.Document(1, "TRAIN", ("cocoa",), "BAHIA\nRain <fell> on\ncocoa")]


def test_stories_with_no_or_several_topics_or_no_body_are_left_out(tmp_path):
    several = story(number=3, topics="<D>cocoa</D><D>coffee</D>")
    content = story() + story(number=2, topics="") + several + story(number=4, body=" ")
    documents = reuters.single_topic(reuters.read_sgml(sgml_archive(tmp_path, content)))
    assert [document.number for document in documents] == [1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (story()[:-20], "cut short"),
        ("<html>not found</html>", "cut short"),
        (story(number="x"), "line 1: expected a story with NEWID"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, content, message):
    with pytest.raises(McfError) as caught:
        list(reuters.read_sgml(sgml_archive(tmp_path, content)))
    assert "reut2-000.sgm" in str(caught.value)
    assert message in str(caught.value)


def test_missing_files_are_counted(tmp_path):
    path = write_tar(tmp_path / "r.tar", {"reut2-000.sgm": story().encode()})
    with pytest.raises(McfError, match="lacks 21 of the 22"):
        reuters.read_sgml(path)


@pytest.mark.parametrize("line", ["{", "[]", '{"topics": []}', '{"id": "x"}', '{"id": 1, "topics": 3}'])
def test_a_malformed_json_line_is_named(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "1", "topics": ["earn"], "body": "x"}\n' + line + "\n")
    with pytest.raises(McfError, match="line 2: expected a story"):
        list(reuters.read_json(path))


def mat_file(path, **changes):
    arrays = {
        "fea": sp.csc_matrix(np.eye(3)),
        "gnd": np.array([[1], [1], [2]], dtype=np.uint8),
        "trainIdx": np.array([[1], [3]]),
        "testIdx": np.array([[2]]),
    }
    scipy.io.savemat(path, {**arrays, **changes})
    return path


def test_a_small_matrix_is_read(tmp_path):
    data = reuters.load_reuters(here("reuters", "matrix", mat_file(tmp_path / "r.mat")))
    assert data.y.tolist() == [0, 0, 1]
    assert [part.tolist() for part in data.splits["modapte"]] == [[0, 2], [1]]


@pytest.mark.parametrize(
    "changes",
    [{"trainIdx": np.array([[1], [9]])}, {"gnd": np.array([[1]])}, {"gnd": np.array([[1], [2], [99]])}],
)
def test_a_matrix_that_contradicts_itself_is_refused(tmp_path, changes):
    with pytest.raises(McfError, match="expected"):
        reuters.read_matrix(mat_file(tmp_path / "r.mat", **changes))


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"MATLAB 5.0 MAT-file" + bytes(200)])
def test_what_is_no_matrix_is_refused(tmp_path, content):
    path = tmp_path / "r.mat"
    path.write_bytes(content)
    with pytest.raises(McfError):
        reuters.read_matrix(path)


def test_the_json_package_gives_the_documents_of_the_sgml_files(real_form):
    real_form("reuters", "json"), real_form("reuters", "sgml")
    found, text = load("reuters", form="json"), load("reuters", form="sgml")
    assert found.class_names == text.class_names
    assert np.array_equal(found.y, text.y)
    assert np.array_equal(found.splits["modapte"][0], text.splits["modapte"][0])
    assert abs(found.X.shape[1] - text.X.shape[1]) < 10  # the package has lost a few entities
    assert abs(found.X.sum() - text.X.sum()) < 1e-3 * text.X.sum()


def test_words_may_be_weighted(shared_home):
    """What scikit-learn makes of the same counts; labels, groups and splits stay."""
    counts = load("reuters")
    binary, tf, tfidf = (load("reuters", weighting=name) for name in ("binary", "tf", "tf-idf"))
    assert {data.name for data in (binary, tf, tfidf)} == {"reuters-binary", "reuters-tf", "reuters-tf-idf"}
    assert len({data.sha256 for data in (counts, binary, tf, tfidf)}) == 4
    assert ((counts.X > 0) != binary.X).nnz == 0
    np.testing.assert_allclose(tf.X[:50].toarray(), normalize(counts.X)[:50].toarray())
    weights = np.log((1 + 8293) / (1 + (counts.X > 0).sum(axis=0).A1))
    expected = normalize(counts.X @ sp.diags(weights))
    assert abs(tfidf.X - expected).max() < 1e-12
    for data in (binary, tf, tfidf):
        np.testing.assert_array_equal(data.groups, counts.groups)
        np.testing.assert_array_equal(data.splits["fixed"][1], counts.splits["fixed"][1])


def test_an_unknown_weighting_is_refused(shared_home):
    with pytest.raises(McfError, match="weighting"):
        load("reuters", weighting="bm25")
