"""SIGKILL in the middle of `mcf data get`, again and again: the file ends whole, verified, and is never restarted.

MCF_KILLS=100 makes a campaign of it.
"""

import os
import random

import pytest

from tests.datasets.faulty_server import Server, Stall
from tests.faults.real_mcf import kill, mcf, start, until

KILLS = int(os.environ.get("MCF_KILLS", 4))
PAGE = '<ExternalPage about="http://a.org/{0}"><d:Title>page {0}</d:Title><topic>Top/Arts</topic></ExternalPage>\n'
DUMP = f'<?xml version="1.0"?><RDF>\n{"".join(PAGE.format(k) for k in range(20_000))}</RDF>\n'.encode()
GET = ("data", "get", "dmoz", "--form", "rdf", "--from", "mirror")


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_a_storm_of_kills_ends_with_the_verified_file(server, tmp_path):
    places = {"MCF_DATA_HOME": str(tmp_path), "MCF_MIRROR": server.url}
    moments = random.Random(2013)
    for _ in range(KILLS):
        # Counted from where the download is resumed; the process is killed when these bytes are on their way.
        server.serve("/dmoz/content.rdf.u8", DUMP, Stall(moments.randrange(len(DUMP) // KILLS)))
        server.stalled.clear()
        process = start(*GET, **places)
        until(server.stalled.is_set, process)
        assert kill(process), "it ended before it was killed"
        assert not (tmp_path / "dmoz" / "content.rdf.u8").exists(), "what is not whole is not in place"
    result = mcf(*GET, **places)
    assert result.code == 0, result.err
    assert (tmp_path / "dmoz" / "content.rdf.u8").read_bytes() == DUMP
    assert "structure verified" in mcf("data", "verify", "dmoz", **places).out
    starts = [int(wanted.removeprefix("bytes=").rstrip("-")) for _, wanted in server.requests if wanted]
    assert starts == sorted(starts), "what had come was fetched again"
    assert [path.name for path in (tmp_path / "dmoz" / ".partial").iterdir()] == ["lock"]


def test_a_kill_and_then_a_changed_file_never_gives_a_mixture(server, tmp_path):
    places = {"MCF_DATA_HOME": str(tmp_path), "MCF_MIRROR": server.url}
    older = DUMP.replace(b"page", b"leaf")
    server.serve("/dmoz/content.rdf.u8", older, Stall(len(older) // 2), etag='"older"')
    process = start(*GET, **places)
    until(server.stalled.is_set, process)
    assert kill(process)
    server.serve("/dmoz/content.rdf.u8", DUMP, etag='"newer"')
    assert mcf(*GET, **places).code == 0
    assert (tmp_path / "dmoz" / "content.rdf.u8").read_bytes() == DUMP
