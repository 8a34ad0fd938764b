import gzip
import hashlib

import numpy as np
import pytest
from mcf_cli.datasets import load
from mcf_cli.datasets.sources import dmoz
from mcf_cli.errors import McfError

from tests.datasets.formats import here

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<RDF xmlns:r="http://r" xmlns:d="http://d" xmlns="http://x">\n'
)


def external(url, topic, title="Title", description="Some words &amp; more"):
    return (
        f'<ExternalPage about="{url}"><d:Title>{title}</d:Title><d:Description>{description}</d:Description>'
        f"<priority>1</priority><topic>{topic}</topic></ExternalPage>\n"
    )


def rdf(tmp_path, *parts, head=HEAD, tail="</RDF>\n"):
    path = tmp_path / "content.rdf.u8.gz"
    path.write_bytes(gzip.compress((head + "".join(parts) + tail).encode("utf-8", "surrogateescape")))
    return path


def test_the_second_level_pages(shared_home):
    data = load("dmoz")
    assert data.X.shape == (5626, 16605)
    assert len(data.class_names) == 16
    assert np.bincount(data.y).min() == 139
    assert [len(part) for part in data.splits["fixed"]] == [4220, 1406]
    assert data.source == "substitute"
    assert data.notes[0].startswith("SUBSTITUTE")


def test_the_top_level_pages(shared_home):
    data = load("dmoz", form="pages-top-level")
    counts = dict(zip(data.class_names, np.bincount(data.y), strict=True))
    assert (data.X.shape[0], len(counts)) == (2266, 15)
    assert (counts["Sports"], counts["Regional"]) == (378, 8)


def test_the_dump_gives_titles_descriptions_and_topics(tmp_path):
    pages = [
        external("http://a", "Top/Arts/Music"),
        external("http://b", "Top/Science", "Two", "lines\nof it"),
    ]
    found = list(
        dmoz.read_rdf(rdf(tmp_path, '<Topic r:id="Top/Arts"><d:Title>Arts</d:Title></Topic>', *pages))
    )
    assert found == [
        dmoz.Page("http://a", "Top/Arts/Music", "Title\nSome words & more"),
        dmoz.Page("http://b", "Top/Science", "Two\nlines\nof it"),
    ]


def test_stray_bytes_and_control_characters_do_not_stop_the_dump(tmp_path):
    found = list(dmoz.read_rdf(rdf(tmp_path, external("u", "Top/A", "bell\x07", "bad\udcff"))))
    assert found[0].text == "bell \nbad\ufffd"


def test_the_dump_is_sampled_by_address_whatever_its_order(tmp_path):
    pages = [dmoz.Page(f"http://{k}", "Top/A", "x") for k in range(100)]
    chosen = dmoz.sample_pages(iter(pages), 10)
    assert chosen == dmoz.sample_pages(reversed(pages), 10)
    assert chosen[0].url == min(
        (page.url for page in pages), key=lambda u: hashlib.sha256(u.encode()).digest()
    )


def test_a_dump_becomes_a_data_set(tmp_path, empty_home):
    topics = ["Top/Arts/Music", "Top/Science/Physics", "Top/Arts"]
    path = rdf(tmp_path, *(external(f"http://{k}", topics[k % 3]) for k in range(30)))
    data = dmoz.load_dmoz(here("dmoz", "rdf", path), min_documents=1, pages=20)
    assert data.X.shape[0] == 20
    assert data.class_names == ("Arts", "Science")
    assert data.feature_names == ("more", "some", "title", "words")


def test_an_entity_is_refused_and_never_expanded(tmp_path):
    bomb = '<!DOCTYPE RDF [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n<RDF xmlns:d="http://d">'
    with pytest.raises(McfError, match="declares an entity"):
        list(dmoz.read_rdf(rdf(tmp_path, external("u", "Top/A", "&b;"), head=bomb)))
    outside = '<!DOCTYPE RDF [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<RDF xmlns:d="http://d">'
    with pytest.raises(McfError, match="declares an entity"):
        list(dmoz.read_rdf(rdf(tmp_path, external("u", "Top/A", "&a;"), head=outside)))


def test_a_dump_that_is_cut_short_or_no_dump_is_an_error(tmp_path):
    with pytest.raises(McfError, match="line 4: expected the RDF dump"):
        list(dmoz.read_rdf(rdf(tmp_path, external("u", "Top/A"), tail="")))
    with pytest.raises(McfError, match="expected the RDF dump"):
        list(dmoz.read_rdf(rdf(tmp_path, head="<html><p>not found", tail="</html>")))


def test_an_endless_field_is_refused(tmp_path):
    with pytest.raises(McfError, match="too long"):
        list(dmoz.read_rdf(rdf(tmp_path, external("u", "Top/A", "x" * (dmoz.MAX_TEXT + 1)))))


@pytest.mark.parametrize(
    "line", ["{", "3", '{"url": "u", "topic": "t"}', '{"url": 1, "topic": "t", "text": "x"}']
)
def test_a_malformed_page_is_named(tmp_path, line):
    path = tmp_path / "pages.jsonl"
    path.write_text('{"url": "u", "topic": "Top/A", "text": "x"}\n' + line + "\n")
    with pytest.raises(McfError, match="line 2: expected"):
        list(dmoz.read_pages(path))


def test_topics_are_cut_at_their_level():
    assert dmoz.topic_at("Top/Arts/Music/Styles", 2) == "Arts/Music"
    assert dmoz.topic_at("Top/kids and teens/x", 1) == "Kids and teens"
