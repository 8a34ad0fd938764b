"""A small data set of our own, so that fetching can be tested without anybody else's."""

import hashlib
import random

from mcf_cli.datasets.entry import Content, Download, Entry, File, Form

BYTES = random.Random(2013).randbytes(300_000)


def demo(*urls: str, body: bytes = BYTES) -> Entry:
    """An entry with one file, ``demo.bin``, and a source for each address."""
    file = File("demo.bin", (Content("demo.bin", hashlib.sha256(body).hexdigest()),))
    sources = tuple(Download("plain", (url,)) for url in urls)
    return Entry("demo", "a test", "none", "", (Form("plain", "random bytes", (file,)),), sources)


MEMBERS = {"one/a.txt": b"first content\n" * 50, "two/b.txt": b"second content\n" * 50}


def demo_archive() -> Entry:
    """An entry with a form that is a tar of two contents, and one that has no public checksum."""
    contents = tuple(Content(name, hashlib.sha256(body).hexdigest()) for name, body in MEMBERS.items())
    unchecked = Content("three/c.review", None, structure="reviews", rows=2)
    forms = (
        Form("tar", "all in one", (File("demo.tar", contents, other_names=("demo-other.tar",)),)),
        Form("reviews", "no public checksum", (File("c.review", (unchecked,)),)),
    )
    return Entry("demo", "a test", "none", "", forms, ())
