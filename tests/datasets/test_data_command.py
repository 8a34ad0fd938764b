"""``mcf data`` as a user runs it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcf_cli.datasets.store.registry import ENTRIES

from tests.datasets.faulty_server import Cut, Server
from tests.datasets.real_data import SHARED

ROOT = Path(__file__).parents[2]
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="no shared/data beside the checkout")


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def mcf(home: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MCF_DATA_HOME": str(home), "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "mcf_cli", "data", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def state(home: Path) -> dict[str, dict[str, str]]:
    records = json.loads(mcf(home, "list", "--json").stdout)
    return {record["name"]: {form["form"]: form["state"] for form in record["forms"]} for record in records}


def test_an_empty_data_home_is_listed_as_empty(tmp_path):
    result = mcf(tmp_path / "home", "list")
    assert result.returncode == 0
    assert result.stdout.count("not here: run `mcf data get") == 7
    assert not (tmp_path / "home").exists(), "looking changes nothing"


@needs_shared
def test_importing_the_shared_data_finds_and_verifies_all_of_it(tmp_path):
    result = mcf(tmp_path, "import", SHARED)
    assert result.returncode == 0, result.stderr
    here = state(tmp_path)
    assert here["amazon"] == {
        "processed_acl": "missing",
        "svmlight": "here",
        "labelled": "here",
        "terms": "here",
    }
    assert here["amazon-raw"] == {"raw": "here"}
    assert here["reuters"] == {"matrix": "here", "sgml": "here", "json": "missing"}
    assert here["dmoz"] == {"pages-second-level": "here", "pages-top-level": "here", "rdf": "missing"}
    assert here["splice"] == {"uci": "here", "pairs": "missing"}
    originals = {path.name: path for path in SHARED.rglob("*")}
    copies = [path for path in tmp_path.glob("*/*") if path.is_file() and not path.name.startswith(".")]
    assert len(copies) == 16
    assert all(copy.read_bytes() == originals[copy.name].read_bytes() for copy in copies), "never modified"
    assert mcf(tmp_path, "verify").returncode == 0
    assert mcf(tmp_path, "verify", "splice", "mnist").returncode == 1


@needs_shared
def test_a_data_home_served_over_http_is_a_mirror(tmp_path, server):
    for path in SHARED.glob("*/*"):
        faults = [Cut(100_000)] if path.suffix == ".mat" else []
        server.serve(f"/{path.relative_to(SHARED).as_posix()}", path.read_bytes(), *faults)
    names = ("amazon", "reuters", "dmoz", "splice")
    result = mcf(tmp_path, "get", *names, "--from", "mirror", MCF_MIRROR=server.url)
    assert result.returncode == 0, result.stderr
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == list(names)
    assert all("verified" in line and server.url in line for line in result.stdout.splitlines())


@needs_shared
def test_damage_is_found_named_and_repaired(tmp_path, server):
    mcf(tmp_path, "import", SHARED / "splice")
    path = tmp_path / "splice" / "splice.data"
    path.write_bytes(path.read_bytes().replace(b"EI", b"IE", 1))
    result = mcf(tmp_path, "verify")
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "wrong checksum" in result.stderr and str(path) in result.stderr
    assert "DAMAGED" in mcf(tmp_path, "list").stdout
    server.serve("/splice/splice.data", (SHARED / "splice" / "splice.data").read_bytes())
    assert mcf(tmp_path, "get", "splice", "--from", "mirror", MCF_MIRROR=server.url).returncode == 0
    assert mcf(tmp_path, "verify", "splice").returncode == 0


def test_what_is_known_of_a_data_set_comes_as_json_too(tmp_path):
    facts = json.loads(mcf(tmp_path, "info", "builtin-splice", "--json").stdout)
    assert (facts["examples"], facts["features"], sum(facts["classes"].values())) == (945, 240, 945)
    records = json.loads(mcf(tmp_path, "verify", "--json").stdout)
    assert [record["name"] for record in records] == list(ENTRIES)
    assert all(source for record in records for source in record["sources"])


def test_a_failure_names_each_source_and_exits_2(tmp_path, server):
    server.serve("/splice/splice.data", b"<html>Service unavailable</html>")
    server.serve("/splice/splice-pairs.data", b"EI,-,ACGT\n")
    result = mcf(tmp_path, "get", "splice", "--from", "mirror", "--quiet", MCF_MIRROR=server.url)
    assert result.returncode == 2
    assert result.stderr.startswith("mcf: could not get splice") and "Traceback" not in result.stderr
    assert "HTML page" in result.stderr and "wrong checksum" in result.stderr
    assert "mcf data import" in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


def test_no_network_is_one_clear_error(tmp_path):
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    result = mcf(tmp_path, "get", "amazon", "--quiet", NO_PROXY="", no_proxy="", MCF_MIRROR="", **nowhere)
    assert result.returncode == 2
    assert result.stderr.count("cannot be reached") == 3 and "Check the network" in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get",), "or use --all"),
        (("get", "minst"), "did you mean `mnist`?"),
        (("info", "amazon-bokks"), "did you mean `amazon-books`?"),
        (("info", "splice", "--form", "xml"), "has no form 'xml'"),
        (("get", "mnist", "--form", "png"), "has no form 'png'"),
        (("import", "nowhere"), "does not exist"),
        (("get", "mnist", "--from", "ftp"), "ftp"),
    ],
)
def test_bad_usage_exits_2_without_a_traceback(tmp_path, arguments, words):
    result = mcf(tmp_path, *arguments)
    assert result.returncode == 2
    assert words in result.stderr and "Traceback" not in result.stderr


@needs_shared
def test_a_read_only_data_home_can_be_used_as_it_is(tmp_path):
    home = tmp_path / "home"
    shutil.copytree(SHARED / "splice", home / "splice")
    before = sorted(home.rglob("*"))
    (home / "splice").chmod(0o555)
    assert "[x] uci" in mcf(home, "list").stdout
    if os.geteuid() != 0:  # root writes where it likes
        assert sorted(home.rglob("*")) == before
    assert mcf(home, "get", "splice", "--from", "mirror").returncode == 0


@needs_shared
@pytest.mark.parametrize("name", ["amazon", "reuters", "dmoz", "splice"])
def test_the_data_script_gets_and_verifies(name, tmp_path):
    shutil.copytree(SHARED / name, tmp_path / name)
    result = run_script(name, tmp_path)
    assert result.returncode == 0, result.stderr
    assert all(Path(line).is_relative_to(tmp_path / name) for line in result.stdout.splitlines())


def test_there_is_a_data_script_for_every_data_set_and_it_fails_clearly(tmp_path):
    scripts = {path.stem.removeprefix("get_") for path in (ROOT / "data_scripts").glob("get_*.py")}
    assert scripts == {name.replace("-", "_") for name in ENTRIES}
    (tmp_path / "file").touch()
    result = run_script("mnist", tmp_path / "file")
    assert result.returncode == 2 and "MCF_DATA_HOME" in result.stderr


def run_script(name: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MCF_DATA_HOME": str(home)}
    command = [sys.executable, str(ROOT / "data_scripts" / f"get_{name}.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_clean_deletes_what_can_be_computed_again_and_nothing_else(tmp_path):
    home, table = tmp_path / "home", tmp_path / "mine.csv"
    rows = [f"{row % 5},{row % 3},{row % 2}" for row in range(40)]
    table.write_text("\n".join(["a,b,label", *rows]) + "\n")
    train = [
        sys.executable,
        "-m",
        "mcf_cli",
        "train",
        "--dataset",
        str(table),
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "MCF_DATA_HOME": str(home), "PYTHONPATH": str(ROOT), "MCF_CHUNKS_ABOVE": "0"}
    subprocess.run(train, env=environment, check=True, capture_output=True)
    (chunks,) = (home / "derived").glob("chunks-*")
    (home / "derived" / "notes.txt").write_text("mine")
    (home / "mnist").mkdir()
    asked = mcf(home, "clean")
    assert asked.returncode != 0 and chunks.name in asked.stdout and chunks.exists(), "nobody said yes"
    cleaned = mcf(home, "clean", "--yes")
    assert cleaned.returncode == 0 and "Deleted" in cleaned.stdout, cleaned
    assert not chunks.exists()
    assert (home / "derived" / "notes.txt").exists() and (home / "mnist").exists()
    assert "nothing to delete" in mcf(home, "clean").stdout
