"""Importing: what is known is found by its content, wherever it lies; the hostile and damaged is refused."""

import gzip
import io
import json
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from mcf_cli.datasets.formats import archives
from mcf_cli.datasets.formats.archives import BadFile
from mcf_cli.datasets.sources import amazon
from mcf_cli.datasets.store import importing, registry, verify
from mcf_cli.datasets.store import verify as home
from mcf_cli.errors import McfError

from tests.datasets.demo_entry import BYTES, MEMBERS, demo, demo_archive, git_sha1
from tests.datasets.formats import write_tar
from tests.datasets.real_data import SHARED

DUMP = b'<RDF><ExternalPage about="x"></ExternalPage></RDF>'


@pytest.fixture(autouse=True)
def data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def data_files(data_home: Path) -> list[str]:
    return sorted(p.name for p in data_home.rglob("*") if p.is_file() and p.name not in ("lock", home.STAMPS))


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


REVIEW = b"good:1 #label#:positive\n"


def mcf(*arguments: object) -> str:
    """What the command says, run as a process of its own."""
    command = [sys.executable, "-m", "mcf_cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def take(path: Path, entry=None) -> dict[str, list[Path]]:
    return importing.import_path(path, entries=[entry or demo()])


@pytest.mark.parametrize(
    ("name", "pack", "stored"),
    [
        ("demo.bin", bytes, "demo.bin"),
        ("renamed by someone.dat", bytes, "demo.bin"),
        ("whatever.gz", gzip.compress, "demo.bin.gz"),
        ("whatever.xz", lzma.compress, "demo.bin.xz"),
        ("wrong-suffix.gz", lzma.compress, "demo.bin.xz"),
    ],
)
def test_a_file_is_known_by_its_content_whatever_its_name(folder, name, pack, stored):
    (folder / name).write_bytes(pack(BYTES))
    assert [path.name for path in take(folder / name)["demo"]] == [stored]
    here = verify.forms_here(demo())[0]
    with archives.open_unpacked(here.paths["demo.bin"]) as stream:
        assert stream.read() == BYTES
    assert here.source == f"import {folder / name}"


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_a_content_is_found_inside_an_archive_in_a_folder(folder, write):
    (folder / "deep").mkdir()
    (folder / "deep" / "notes.txt").write_text("nothing of ours")
    write(folder / "deep" / "archive", {"some/where/x": b"?", "some/where/else": BYTES})
    assert [path.name for path in take(folder)["demo"]] == ["demo.bin"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_kept_as_it_is(folder, mode):
    original = write_tar(folder / "any.name", {f"top/{k}": v for k, v in MEMBERS.items()}, mode)
    (stored,) = take(original, demo_archive())["demo"]
    assert stored.name == "demo.tar" + mode.removeprefix("w").replace(":", ".")
    assert stored.read_bytes() == original.read_bytes()


def test_loose_contents_are_packed_the_same_way_every_time(folder, data_home, monkeypatch, tmp_path):
    for name, body in MEMBERS.items():
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(body)
    (first,) = take(folder, demo_archive())["demo"]
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "second"))
    (second,) = take(write_zip(folder / "all.zip", MEMBERS), demo_archive())["demo"]
    assert first.read_bytes() == second.read_bytes()
    assert verify.forms_here(demo_archive())[0].form.name == "tar"


def test_the_packing_does_not_change_the_hash_of_a_form(folder, monkeypatch, tmp_path):
    hashes = set()
    for mode in ("w", "w:gz", "w:xz"):
        monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / mode.replace(":", "")))
        take(write_tar(folder / "tar", MEMBERS, mode), demo_archive())
        hashes.add(verify.forms_here(demo_archive())[0].sha256)
    assert len(hashes) == 1


def test_without_a_public_checksum_the_structure_is_verified_and_said_so(folder):
    (folder / "three").mkdir()
    (folder / "three" / "c.rdf").write_bytes(DUMP)
    take(folder, demo_archive())
    (here,) = verify.forms_here(demo_archive())
    assert here.checked == "structure"


@pytest.mark.parametrize("spoilt", [DUMP[:-10], b"<RDF></RDF>", b"<html></html>"])
def test_a_wrong_structure_is_refused(folder, data_home, spoilt):
    (folder / "three").mkdir()
    (folder / "three" / "c.rdf").write_bytes(spoilt)
    with pytest.raises(McfError, match=r"c\.rdf"):
        take(folder, demo_archive())
    assert data_files(data_home) == []


def test_importing_twice_changes_nothing(folder):
    (folder / "demo.bin").write_bytes(BYTES)
    (path,) = take(folder)["demo"]
    before = path.stat()
    assert take(folder) == {"demo": []}
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_good_copy_replaces_a_damaged_one(folder, data_home):
    (data_home / "demo").mkdir(parents=True)
    (data_home / "demo" / "demo.bin").write_bytes(BYTES[:-1])
    (folder / "x.gz").write_bytes(gzip.compress(BYTES))
    take(folder)
    assert data_files(data_home) == ["demo.bin.gz"]
    assert verify.forms_here(demo())


def test_a_file_with_a_known_name_and_another_content_is_named(folder, data_home):
    (folder / "demo.bin").write_bytes(BYTES[:-1])
    with pytest.raises(McfError, match=r"demo\.bin has the name but not the content"):
        take(folder)
    assert data_files(data_home) == []


def test_nothing_known_is_one_clear_error(folder):
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(McfError, match="known to mcf"):
        take(folder)
    with pytest.raises(McfError, match="does not exist"):
        take(folder / "nowhere")


def hostile_tar(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Path:
    """The data, and after it a member that ought not to be there."""
    with tarfile.open(path, "w:gz") as archive:
        good = tarfile.TarInfo("demo.bin")
        good.size = len(BYTES)
        archive.addfile(good, io.BytesIO(BYTES))
        bad = tarfile.TarInfo(name)
        bad.type, bad.linkname = kind, target
        bad.size = 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(bad, io.BytesIO(b"evil"))
    return path


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../outside", tarfile.REGTYPE, ""),
        ("a/../../outside", tarfile.REGTYPE, ""),
        ("/outside/of/it", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("link", tarfile.LNKTYPE, "../outside"),
        ("fifo", tarfile.FIFOTYPE, ""),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_a_tar_with_a_member_that_points_elsewhere_is_refused_whole(folder, data_home, name, kind, target):
    path = hostile_tar(folder / "demo.tar.gz", name, kind, target)
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(McfError, match="is refused") as caught:
        take(path)
    assert name in str(caught.value)
    assert sorted(folder.parent.rglob("*")) == before and data_files(data_home) == []


def test_a_refused_archive_does_not_keep_good_data_beside_it_out(folder):
    hostile_tar(folder / "a.tar.gz", "../outside")
    (folder / "b.bin").write_bytes(BYTES)
    said: list[str] = []
    importing.import_path(folder, said.append, entries=[demo()])
    assert verify.forms_here(demo())
    assert any("a.tar.gz is refused" in line for line in said)


@pytest.mark.parametrize("name", ["../outside", "/outside/of/it", "..\\outside", "C:/outside", "a/../../b"])
def test_a_zip_with_a_member_that_points_elsewhere_is_refused_whole(folder, data_home, name):
    path = write_zip(folder / "demo.zip", {"demo.bin": BYTES, name: b"evil"})
    with pytest.raises(McfError, match="points outside"):
        take(path)
    assert data_files(data_home) == []


def test_a_zip_with_a_link_is_refused(folder):
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(folder / "demo.zip", "w") as archive:
        archive.writestr("demo.bin", BYTES)
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(McfError, match="link"):
        take(folder / "demo.zip")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "zip"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.97])
def test_a_truncated_archive_is_refused(folder, data_home, mode, kept):
    path = folder / "demo.tar"
    write_zip(path, {"demo.bin": BYTES}) if mode == "zip" else write_tar(path, {"demo.bin": BYTES}, mode)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(McfError):
        take(path)
    assert data_files(data_home) == []


def test_an_archive_that_unpacks_to_too_much_is_not_read_to_its_end(folder):
    bomb = bytes(20_000_000)
    tar, packed = (
        write_tar(folder / "bomb.tar.gz", {"zeros": bomb}),
        write_zip(folder / "bomb.zip", {"zeros": bomb}),
    )
    for path in (tar, packed):
        with pytest.raises(BadFile, match="unpacks to more than"):
            list(archives.members(path, limit=1_000_000))
    (folder / "bomb.gz").write_bytes(gzip.compress(bomb))
    with (
        archives.open_unpacked(folder / "bomb.gz") as stream,
        pytest.raises(BadFile, match="not read any further"),
    ):
        list(archives.chunks(stream, limit=1_000_000))


def test_a_zip_that_lies_about_its_size_is_refused(folder):
    path = write_zip(folder / "demo.zip", {"demo.bin": BYTES})
    honest, lie = len(BYTES).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(honest, lie))
    with pytest.raises(McfError):
        take(path)


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_is_never_loaded(folder, tmp_path):
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    names = ("cifar-10-batches-py/data_batch_1", "data_batch_1.bin", "mnist.pkl")
    write_tar(folder / "cifar-10-python.tar.gz", dict.fromkeys(names, trap))
    with pytest.raises(McfError):
        importing.import_path(folder)
    assert not (tmp_path / "sprung").exists()


def test_git_gives_the_same_name_to_the_same_bytes(tmp_path):
    (tmp_path / "x").write_bytes(MEMBERS["two/b.txt"])
    told = subprocess.run(["git", "hash-object", tmp_path / "x"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == git_sha1(MEMBERS["two/b.txt"])


def test_a_content_that_git_knows_is_verified_by_its_name_there(folder, data_home):
    (path,) = take(write_tar(folder / "demo.tar", MEMBERS), demo_archive())["demo"]
    (here,) = verify.forms_here(demo_archive())
    assert (here.form.name, here.checked) == ("tar", "git sha1")
    stamps = home.read_stamps(path.parent)
    stamps[path.name]["checked"] = "structure"  # as it was stamped before the name was known
    write_tar(path, {**MEMBERS, "two/b.txt": b"changed"})
    stamps[path.name] |= {"size": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns}
    (path.parent / home.STAMPS).write_text(json.dumps(stamps))
    assert [each.form.name for each in verify.forms_here(demo_archive())] == []


@pytest.mark.parametrize(
    "spoilt",
    [
        [*MEMBERS.items(), ("other/two/b.txt", b"another")],
        [("one/a.txt", b"older"), *MEMBERS.items()],
        [*MEMBERS.items(), *MEMBERS.items()],
        [("renamed", MEMBERS["one/a.txt"]), ("two/b.txt", MEMBERS["two/b.txt"])],
    ],
    ids=["a bad namesake", "a bad one first", "all twice", "renamed"],
)
def test_of_an_archive_that_holds_more_the_verified_members_alone_are_taken(folder, spoilt):
    path = folder / "demo.tar"
    with tarfile.open(path, "w") as archive:
        for name, body in spoilt:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    (stored,) = take(path, demo_archive())["demo"]
    found = {name: stream.read() for name, stream in archives.members(stored)}
    assert found == MEMBERS
    assert verify.forms_here(demo_archive())[0].form.name == "tar"


def test_an_archive_in_place_that_holds_a_content_twice_is_bad(data_home):
    (data_home / "demo").mkdir(parents=True)
    twice = {**MEMBERS, **{f"again/{name}": body for name, body in MEMBERS.items()}}
    write_tar(data_home / "demo" / "demo.tar", twice)
    with pytest.raises(BadFile, match="twice"):
        verify.form_here(demo_archive(), demo_archive().form("tar"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared/data beside the checkout")
@pytest.mark.parametrize("packed", [False, True])
def test_of_a_processed_acl_with_forged_test_reviews_the_training_reviews_alone_are_taken(folder, packed):
    """By the real command. The forged files have the right number of well-formed reviews."""
    members = {
        name: stream.read()
        for name, stream in archives.members(SHARED / "amazon" / "processed_acl-labelled.tar.xz")
    }
    for domain, rows in {"books": 4465, "dvd": 3586, "electronics": 5681, "kitchen": 5945}.items():
        members[f"processed_acl/{domain}/unlabeled.review"] = b"forged_word:1 #label#:negative\n" * rows
    if packed:
        write_tar(folder / "processed_acl.tar.gz", members)
    for name, body in {} if packed else members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    said = mcf("data", "import", folder)
    assert said.count("has the wrong checksum") == 4 and "amazon: 1 files imported" in said
    stored = Path(os.environ["MCF_DATA_HOME"], "amazon", "processed_acl-labelled.tar.gz")
    assert not [name for name, _ in archives.members(stored) if "unlabeled" in name]
    assert "2,000 rows" in mcf("data", "info", "amazon-books", "--form", "labelled")


def test_what_lies_beside_the_training_reviews_is_not_read_with_them(folder, data_home):
    """A folder or archive that somebody put into the data home by hand."""
    path = write_tar(folder / "x.tar", {f"books/{kind}.review": REVIEW for kind in amazon.REVIEW_KINDS})
    form = registry.entry("amazon").form("labelled")
    here = verify.Here(registry.entry("amazon"), form, {"processed_acl-labelled.tar": path}, "", "sha256", "")
    assert amazon.count_amazon(here, "books", 10).counts.shape[0] == 2
