"""A small data set of our own, so that fetching can be tested without anybody else's."""

import hashlib
import random

from mcf_cli.datasets.store.entry import Content, Download, Entry, File, Form

BYTES = random.Random(2013).randbytes(300_000)


def demo(*urls: str, body: bytes = BYTES) -> Entry:
    """An entry with one file, ``demo.bin``, and a source for each address."""
    file = File("demo.bin", (Content("demo.bin", hashlib.sha256(body).hexdigest()),))
    sources = tuple(Download("plain", (url,)) for url in urls)
    return Entry("demo", "a test", "none", "", (Form("plain", "random bytes", (file,)),), sources)


MEMBERS = {"one/a.txt": b"first content\n" * 50, "two/b.txt": b"second content\n" * 50}


def git_sha1(body: bytes) -> str:
    """The name that git gives to these bytes (`git hash-object`)."""
    return hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()


def demo_archive() -> Entry:
    """An entry with a form that is a tar of two contents, one that lacks the second, and one without a checksum."""
    first, second = MEMBERS.items()
    contents = (
        Content(first[0], hashlib.sha256(first[1]).hexdigest()),
        Content(second[0], None, git_sha1=git_sha1(second[1])),
    )
    unchecked = Content("three/c.rdf", None, structure="rdf")
    forms = (
        Form("tar", "all in one", (File("demo.tar", contents, other_names=("demo-other.tar",)),)),
        Form("first", "the first alone", (File("demo-first.tar", contents[:1]),), enough=False),
        Form("rdf", "no public checksum", (File("c.rdf", (unchecked,)),)),
    )
    return Entry("demo", "a test", "none", "", forms, ())
