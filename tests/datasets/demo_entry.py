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
