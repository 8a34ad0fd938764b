"""Open Directory (DMOZ) pages by topic. The paper's 8,980 pages are not public: this is a SUBSTITUTE."""

import codecs
import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, NoReturn
from xml.parsers import expat

from mcf_cli.datasets.dataset import (
    CountOption,
    Dataset,
    encode_labels,
    fingerprint,
    identical_rows,
    seeded_split,
)
from mcf_cli.datasets.features import words
from mcf_cli.datasets.features.words import Documents, cached_documents
from mcf_cli.datasets.formats.archives import READ_CHUNK, malformed, numbered_lines, open_bytes
from mcf_cli.datasets.store.verify import Here

TOPICS = 16
PAGES = 8980  # the paper's N, taken from the millions of the dump
MAX_TEXT = 2**20

ABOUT = {
    "pages-second-level": ("crawled pages, the 16 largest second-level topics", 2),
    "pages-top-level": ("crawled pages, top-level topics", 1),
    "rdf": ("titles and descriptions of the directory, top-level topics", 1),
}


class Page(NamedTuple):
    """A page of the directory; topic is its path, as in Top/Arts/Music."""

    url: str
    topic: str
    text: str


def load_dmoz(here: Here, min_documents: CountOption = 10, pages: CountOption = PAGES) -> Dataset:
    """Counts of the words of at least `min_documents` pages; `pages` are taken from an RDF dump."""
    about, _ = ABOUT[here.form.name]
    key = fingerprint("dmoz", here.form.name, here.sha256, min_documents, pages, words.WORDS_VERSION)
    counted = cached_documents("dmoz", key, lambda: count_dmoz(here, min_documents, pages))
    y, class_names = encode_labels(counted.labels)
    return Dataset(
        name="dmoz",
        X=counted.counts,
        y=y,
        class_names=class_names,
        source="substitute",
        sha256=key,
        description=f"Open Directory: {about}, counts of words",
        feature_names=counted.terms,
        splits={"fixed": seeded_split(len(y))},
        groups=identical_rows(counted.counts),
        notes=(f"SUBSTITUTE for the paper's DMOZ pages, which are not public: {about}",),
    )


def count_dmoz(here: Here, min_documents: int, pages: int) -> Documents:
    """Word counts and topics of the pages under the largest topics."""
    _, level = ABOUT[here.form.name]
    path = next(iter(here.paths.values()))
    found = sample_pages(read_rdf(path), pages) if here.form.name == "rdf" else list(read_pages(path))
    labels = [topic_at(page.topic, level) for page in found]
    largest = {topic for topic, _ in Counter(labels).most_common(TOPICS)}
    kept = [(page, label) for page, label in zip(found, labels, strict=True) if label in largest]
    counts, terms = words.count_words((page.text for page, _ in kept), min_documents)
    return Documents(counts, terms, tuple(label for _, label in kept))


def topic_at(topic: str, level: int) -> str:
    """The first levels of a topic's path: Top/Arts/Music/Styles at level 2 is Arts/Music."""
    steps = [step for step in topic.split("/") if step]
    if steps and steps[0].lower() == "top":
        steps = steps[1:]
    return "/".join(step.capitalize() if k == 0 else step for k, step in enumerate(steps[:level]))


def read_pages(path: Path) -> Iterator[Page]:
    """Crawled pages, one JSON object {url, topic, text} per line."""
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, path):
            try:
                page = json.loads(line)
                fields = Page(page["url"], page["topic"], page["text"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                malformed(path, f"line {number}", f"expected an object with url, topic and text ({error})")
            if not all(isinstance(field, str) for field in fields):
                malformed(path, f"line {number}", "expected url, topic and text to be strings")
            yield fields


def sample_pages(pages: Iterator[Page], size: int) -> list[Page]:
    """The pages whose addresses have the smallest hashes: a fixed sample in little memory, in any order."""

    def rank(page: Page) -> bytes:
        return hashlib.sha256(page.url.encode()).digest()

    return heapq.nsmallest(size, pages, key=rank)


def read_rdf(path: Path) -> Iterator[Page]:
    """Title and description of every external page of `content.rdf.u8`, streamed."""
    with open_bytes(path) as stream:
        parser = _RdfParser(path)
        yield from parser.pages(stream)


class _RdfParser:
    """Feeds expat piece by piece. Entities that a file declares are refused, so nothing can expand."""

    FIELDS = ("d:Title", "d:Description", "topic")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Page] = []
        self.url: str | None = None
        self.field: str | None = None
        self.values: dict[str, str] = {}
        self.expat = expat.ParserCreate()
        self.expat.EntityDeclHandler = self._refuse
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._text

    def pages(self, stream: IO[bytes]) -> Iterator[Page]:
        # The dumps hold stray bytes and control characters, which XML forbids: they become spaces.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            while piece := stream.read(READ_CHUNK):
                self.expat.Parse(decoder.decode(piece).translate(_CONTROL), False)
                yield from self.found
                self.found = []
            self.expat.Parse(decoder.decode(b"", True), True)
        except expat.ExpatError as error:
            fault = expat.errors.messages[error.code]
            malformed(self.path, f"line {error.lineno}", f"expected the RDF dump of DMOZ ({fault})")
        yield from self.found

    def _refuse(self, name: str, *_: object) -> NoReturn:
        line = self.expat.CurrentLineNumber
        malformed(self.path, f"line {line}", f"the file declares an entity ({name}), which is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "ExternalPage":
            self.url, self.values = attributes.get("about", ""), {}
        elif self.url is not None and tag in self.FIELDS:
            self.field = tag

    def _text(self, text: str) -> None:
        if self.field is not None:
            joined = self.values.get(self.field, "") + text
            if len(joined) > MAX_TEXT:
                malformed(self.path, f"line {self.expat.CurrentLineNumber}", f"{self.field} is too long")
            self.values[self.field] = joined

    def _end(self, tag: str) -> None:
        if tag == self.field:
            self.field = None
        elif tag == "ExternalPage" and self.url is not None:
            title, description, topic = (self.values.get(field, "") for field in self.FIELDS)
            if topic:
                self.found.append(Page(self.url, topic, f"{title}\n{description}"))
            self.url = None


_CONTROL = {code: " " for code in range(32) if chr(code) not in "\t\n\r"}
