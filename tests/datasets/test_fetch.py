"""Fetching over HTTP from a server that misbehaves: the data ends whole and verified, or nothing is left."""

import gzip
import io
import os
import resource
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from mcf_cli.datasets.store import fetch, verify
from mcf_cli.datasets.store import verify as home
from mcf_cli.datasets.store.fetch import Patience
from mcf_cli.errors import McfError

from tests.datasets.demo_entry import BYTES, demo
from tests.datasets.faulty_server import Cut, IgnoreRange, Lie, Server, Stall, Status, WrongRange

QUICK = Patience(connect_timeout=30, read_timeout=30, retries=3, backoff=0)
IMPATIENT = replace(QUICK, read_timeout=1)  # for servers that stall
HTML = b"<!DOCTYPE html><html><body>Not available</body></html>" * 100


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MCF_MIRROR", raising=False)
    return tmp_path / "home"


def files_in(folder: Path) -> list[str]:
    """Everything below the data home except locks and stamps."""
    bookkeeping = {"lock", home.STAMPS}
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and p.name not in bookkeeping)


def get(*urls: str, patience: Patience = QUICK, **options):
    return fetch.get(demo(*urls, **options), patience=patience)


def refusal(*urls: str, **options) -> str:
    with pytest.raises(McfError) as caught:
        get(*urls, **options)
    return str(caught.value)


def test_a_file_is_downloaded_verified_and_not_asked_for_again(server, data_home):
    url = server.serve("/demo.bin", BYTES)
    here = get(url)
    assert here.paths["demo.bin"].read_bytes() == BYTES
    assert (here.checked, here.source) == ("sha256", url)
    get(url)
    assert len(server.requests) == 1
    assert files_in(data_home) == ["demo.bin"]


def test_a_gzipped_copy_is_verified_by_its_content(server):
    url = server.serve("/demo.bin.gz", gzip.compress(BYTES, 1))
    here = get(url)
    assert here.paths["demo.bin"].name == "demo.bin.gz"
    assert here.sha256 == get(url).sha256 == verify.forms_here(demo(url))[0].sha256


@pytest.mark.parametrize("fault", [Cut(100_000), Stall(70_000), Lie(2 * len(BYTES))], ids=repr)
def test_a_download_that_breaks_off_is_resumed_where_it_stopped(server, fault):
    here = get(server.serve("/demo.bin", BYTES, fault), patience=IMPATIENT)
    assert here.paths["demo.bin"].read_bytes() == BYTES
    starts = [wanted for _, wanted in server.requests]
    assert starts[0] is None and starts[1].startswith("bytes=") and starts[1] != "bytes=0-"


@pytest.mark.parametrize(
    "faults",
    [
        (Status(500), Status(503), Status(429)),
        (Cut(100_000), IgnoreRange()),
        (Cut(100_000), WrongRange()),
        (Cut(1), Cut(1), Cut(0)),
        (Cut(80_000), Status(500), Cut(80_000), Stall(80_000)),
    ],
    ids=repr,
)
def test_a_server_that_comes_round_is_forgiven(server, faults):
    here = get(server.serve("/demo.bin", BYTES, *faults), patience=IMPATIENT)
    assert here.paths["demo.bin"].read_bytes() == BYTES


def test_retries_end_when_nothing_more_comes(server, data_home):
    message = refusal(server.serve("/demo.bin", BYTES, *[Status(500)] * 20))
    assert "500" in message and "4 times in a row" in message
    assert len(server.requests) == 4
    assert files_in(data_home) == []


def test_two_versions_of_a_file_are_never_joined(server):
    old = bytes(len(BYTES))
    url = server.serve("/demo.bin", old, *[Cut(100_000)] + [Status(500)] * 4)
    refusal(url)
    server.serve("/demo.bin", BYTES, etag='"2"')
    assert get(url).paths["demo.bin"].read_bytes() == BYTES
    assert len(server.requests) == 6, "the new version is sent whole, in answer to the request to resume"


def test_a_spoilt_partial_download_is_started_again(server, data_home):
    url = server.serve("/demo.bin", bytes(len(BYTES)), Cut(100_000), *[Status(500)] * 4, etag="")
    refusal(url)
    server.serve("/demo.bin", BYTES, etag="")
    assert get(url).paths["demo.bin"].read_bytes() == BYTES
    assert files_in(data_home) == ["demo.bin"]


@pytest.mark.parametrize(
    ("body", "faults", "words"),
    [
        (BYTES[:-1] + b"!", (), "wrong checksum"),
        (BYTES, (Lie(1000),), "wrong checksum"),
        (BYTES[:1000], (), "wrong checksum"),
        (HTML, (), "HTML page"),
        (BYTES, (Status(404),), "404"),
        (BYTES, (Status(403),), "403"),
        (b"", (), "wrong checksum"),
    ],
    ids=["changed", "short length", "truncated", "html", "404", "403", "empty"],
)
def test_what_is_not_the_data_is_refused_and_leaves_nothing(server, data_home, body, faults, words):
    url = server.serve("/demo.bin", body, *faults)
    message = refusal(url)
    assert words in message and url in message and "mcf data import" in message
    assert files_in(data_home) == []


@pytest.mark.parametrize(
    "faults", [(), (Stall(len(BYTES), announced=False),)], ids=["announced", "unannounced"]
)
def test_a_server_that_sends_more_than_the_data_can_be_is_not_listened_to(server, data_home, faults):
    entry = replace(demo(server.serve("/demo.bin", BYTES, *faults)), largest=100_000)
    with pytest.raises(McfError, match="more than 100,000 bytes, which cannot be the data"):
        fetch.get(entry, patience=QUICK)
    assert files_in(data_home) == []


def test_the_command_refuses_a_mirror_that_announces_a_terabyte(server, data_home):
    server.serve("/splice/splice.data", BYTES, Lie(10**12))
    command = [sys.executable, "-m", "mcf_cli", "data", "get", "splice", "--form", "uci", "--from", "mirror"]
    environment = {**os.environ, "MCF_MIRROR": server.url}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "which cannot be the data" in result.stderr
    assert "Traceback" not in result.stderr and files_in(data_home) == []


def test_an_archive_that_holds_the_data_is_looked_through(server, data_home):
    def packed(body: bytes) -> bytes:
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
            archive.writestr("folder/demo.bin", body)
        return buffer.getvalue()

    url = server.serve("/all.zip", packed(BYTES[:-1]))
    assert "has the name but not the content of demo.bin" in refusal(url)
    assert files_in(data_home) == []
    server.serve("/all.zip", packed(BYTES), Cut(100_000))
    assert get(url).paths["demo.bin"].read_bytes() == BYTES
    assert files_in(data_home) == ["demo.bin"]


def test_a_truncated_gzip_file_is_called_damaged(server, data_home):
    message = refusal(server.serve("/demo.bin.gz", gzip.compress(BYTES)[:-2000]))
    assert "truncated or damaged" in message
    assert files_in(data_home) == []


def test_the_next_source_is_tried_and_every_failure_is_named(server):
    gone, page = server.serve("/a/demo.bin", BYTES, Status(404)), server.serve("/b/demo.bin", HTML)
    unreachable = "http://127.0.0.1:9/demo.bin"
    good = server.serve("/c/demo.bin", BYTES)
    message = refusal(unreachable, gone, page)
    failures = message.splitlines()[1:4]
    assert all(url in line for url, line in zip((unreachable, gone, page), failures, strict=True))
    assert "cannot be reached" in message and "404" in message and "HTML" in message
    server.serve("/a/demo.bin", BYTES, Status(404))
    assert get(unreachable, gone, page, good).source == good


def test_what_a_failed_source_left_to_resume_goes_when_another_delivers(server, data_home):
    broken = server.serve("/a/demo.bin", BYTES, Cut(100_000), *[Status(500)] * 8)
    refusal(broken)
    assert any(name.endswith(".part") for name in files_in(data_home))
    assert get(broken, server.serve("/b/demo.bin", BYTES)).source.endswith("/b/demo.bin")
    assert files_in(data_home) == ["demo.bin"]


def test_good_data_survives_a_failure_beside_it(server, data_home):
    get(server.serve("/demo.bin", BYTES))
    other = demo(server.serve("/other/demo.bin", b"bad"), body=b"another version")
    before = (data_home / "demo" / "demo.bin").stat()
    with pytest.raises(McfError):
        fetch.get(other, patience=QUICK)
    after = (data_home / "demo" / "demo.bin").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_file_that_changed_since_it_was_verified_is_fetched_again(server, data_home):
    url = server.serve("/demo.bin", BYTES)
    path = get(url).paths["demo.bin"]
    path.write_bytes(BYTES[:-1])
    assert verify.forms_here(demo(url)) == []
    assert get(url).paths["demo.bin"].read_bytes() == BYTES
    assert len(server.requests) == 2


def test_the_users_own_mirror_comes_first(server, monkeypatch):
    monkeypatch.setenv("MCF_MIRROR", f"{server.url}/mirror/")
    server.serve("/mirror/demo/demo.bin.xz", b"", Status(500))
    server.serve("/mirror/demo/demo.bin.gz", gzip.compress(BYTES))
    here = get(server.serve("/demo.bin", BYTES))
    assert here.source == f"{server.url}/mirror (plain)"


def test_what_a_killed_process_left_is_cleared_away(server, data_home):
    left = data_home / "demo" / home.PARTIAL / "work-left"
    left.mkdir(parents=True)
    (left / "demo.bin").write_bytes(BYTES)
    (left.parent / ".demo.bin.12345678.part.json.tmp").touch()
    (left.parent.parent / f".{home.STAMPS}.tmp").touch()
    get(server.serve("/demo.bin", BYTES))
    assert files_in(data_home) == ["demo.bin"] and not left.exists()


def test_sources_can_be_restricted_by_kind(server):
    with pytest.raises(McfError, match="no source of this kind"):
        fetch.get(demo(server.serve("/demo.bin", BYTES)), kinds=["npm"], patience=QUICK)
    assert server.requests == []


def start(script: str, *arguments: str, **options) -> subprocess.Popen:
    """Another process that gets the demo data."""
    root = Path(__file__).parents[2]
    paths = [str(root), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", f"tests.datasets.{script}", *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


def at_most_100_kilobytes_a_file() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


@pytest.mark.parametrize("position", [0, 1, 65_536, 150_000, len(BYTES) - 1, len(BYTES)])
def test_a_download_killed_at_any_byte_ends_well_next_time(server, data_home, position):
    """The server keeps quiet about the length, so that the process still waits after the last byte."""
    url = server.serve("/demo.bin", BYTES, Stall(position, announced=False))
    process = start("get_demo", url)
    assert server.stalled.wait(60), process.communicate(timeout=60)[1]
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stderr.close()
    assert verify.form_here(demo(url), demo(url).forms[0]) is None
    assert get(url).paths["demo.bin"].read_bytes() == BYTES
    assert files_in(data_home) == ["demo.bin"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
def test_a_process_killed_at_any_step_on_the_disk_is_made_good_next_time(server, tmp_path, monkeypatch):
    url = server.serve("/demo.bin", BYTES)
    process = start("killed_gets", url, str(tmp_path))
    _, words = process.communicate(timeout=60)
    assert process.returncode == 0, words
    homes = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(homes) > 10
    for each in homes:
        monkeypatch.setenv("MCF_DATA_HOME", str(each))
        assert get(url).paths["demo.bin"].read_bytes() == BYTES
        assert files_in(each) == ["demo.bin"], f"killed before step {each.name}"


def test_two_processes_at_once_both_end_well_and_download_once(server, data_home):
    url = server.serve("/demo.bin", BYTES, Stall(1000))
    first = start("get_demo", url)
    assert server.stalled.wait(60)
    second = start("get_demo", url)
    server.released.set()  # the first request ends short; whoever holds the lock resumes it
    for process in (first, second):
        assert process.wait(60) == 0, process.stderr.read()
        process.stderr.close()
    assert (data_home / "demo" / "demo.bin").read_bytes() == BYTES
    assert len(server.requests) == 2
    assert files_in(data_home) == ["demo.bin"]


def test_a_file_larger_than_may_be_written_is_one_clear_error(server, data_home):
    process = start("get_demo", server.serve("/demo.bin", BYTES), preexec_fn=at_most_100_kilobytes_a_file)
    _, words = process.communicate(timeout=60)
    assert process.returncode and "Traceback" not in words
    assert "cannot write" in words and "MCF_DATA_HOME" in words
    assert files_in(data_home) == []


@pytest.fixture
def small_disk(data_home):
    """A data home with room for less than the demo data."""
    data_home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(data_home)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("a small disk cannot be mounted here (needs root)")
    yield data_home
    subprocess.run(["umount", str(data_home)], check=True)


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(server, small_disk):
    message = refusal(server.serve("/demo.bin", BYTES))
    assert "No space left" in message and "Make room" in message
    assert files_in(small_disk) == []


def test_a_data_home_that_cannot_be_made_is_one_clear_error(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "file" / "home"))
    assert "MCF_DATA_HOME" in refusal(server.serve("/demo.bin", BYTES))
