"""Where data lies, whether a file is what the registry says it is, and which data sets are here.

Each data set has a folder below ``MCF_DATA_HOME``. Stamps say what was verified; a lock lets one process at a time
change a data set.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mcf_cli.datasets.formats import archives
from mcf_cli.datasets.formats.archives import BadFile
from mcf_cli.datasets.store import registry
from mcf_cli.datasets.store.entry import CHECKS, Content, Entry, File, Form
from mcf_cli.errors import McfError
from mcf_cli.files import disk_explained, take_lock, write_text

# A canonical file is stored as it came: as it is, or compressed.
SUFFIXES = ("", ".gz", ".xz")
STAMPS = ".verified.json"
PARTIAL = ".partial"
WORK = "work-"  # the prefix of temporary folders below .partial


def data_home() -> Path:
    """``MCF_DATA_HOME``, or the ``mcf`` folder in the user's cache."""
    chosen = os.environ.get("MCF_DATA_HOME")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as error:  # there is no such user, or no home
            raise McfError(f"MCF_DATA_HOME={chosen}: {error}. Write the folder out in full.") from error
    from platformdirs import user_cache_path

    return user_cache_path("mcf")


def dataset_folder(dataset: str) -> Path:
    """The folder of one data set, which need not exist."""
    return data_home() / dataset


def data_path(dataset: str, filename: str) -> Path:
    """The path of one file of a data set, which need not exist."""
    return dataset_folder(dataset) / filename


def find(dataset: str, *names: str) -> Path | None:
    """The first of ``names`` that is there, as it is or with ``.gz`` or ``.xz`` behind it."""
    for name in names:
        for suffix in SUFFIXES:
            path = data_path(dataset, name + suffix)
            if path.is_file():
                return path
    return None


def make_folder(folder: Path) -> Path:
    """Create a folder below the data home, or say what stands in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise McfError(
            f"cannot create {folder} ({error.strerror}).\n"
            "Set MCF_DATA_HOME to a folder that you can write to."
        ) from error
    return folder


def home_explained() -> contextlib.AbstractContextManager[None]:
    """An error of the disk that holds the data, not of a source, in words for the user."""
    advice = "Make room there, or set MCF_DATA_HOME to another folder; data already there is untouched."
    return disk_explained(data_home(), advice, McfError)


def partial_folder(dataset: str) -> Path:
    """Where unfinished work lies: on the same disk, so that moving into place is atomic."""
    return make_folder(dataset_folder(dataset) / PARTIAL)


def read_stamps(folder: Path) -> dict[str, dict]:
    """What was verified: by file name its size, mtime_ns, sha256, source and how it was checked."""
    try:
        stamps = json.loads((folder / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # a lost stamp costs a new verification, nothing else
    return stamps if isinstance(stamps, dict) else {}


def current_stamp(path: Path) -> dict | None:
    """The stamp of ``path`` if the file has not changed since it was verified."""
    stamp = read_stamps(path.parent).get(path.name)
    if not isinstance(stamp, dict):
        return None
    status = path.stat()
    unchanged = stamp.get("size") == status.st_size and stamp.get("mtime_ns") == status.st_mtime_ns
    return stamp if unchanged else None


def write_stamp(path: Path, **facts: str) -> dict:
    """Remember that ``path`` was verified; where nothing can be written, verification is simply repeated."""
    status = path.stat()
    stamp = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, **facts}
    stamps = {**read_stamps(path.parent), path.name: stamp}
    kept = {name: value for name, value in stamps.items() if (path.parent / name).exists()}
    with contextlib.suppress(OSError):
        write_text(path.parent / STAMPS, json.dumps(kept, indent=1, sort_keys=True))
    return stamp


@contextlib.contextmanager
def locked(dataset: str, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Hold the lock of a data set, waiting for another process if there is one.

    Whoever holds it may remove what a killed process left behind, except downloads that can be resumed.
    """
    waiting = f"{dataset}: waiting for another mcf process that is using it"
    with take_lock(partial_folder(dataset) / "lock", lambda: say(waiting)):
        for leftover in leftovers(dataset):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    leftover.unlink()
        yield


def leftovers(dataset: str) -> list[Path]:
    """What a killed process left behind and nobody needs; downloads that can be resumed are not among it."""
    folder = dataset_folder(dataset)
    partial = folder / PARTIAL
    orphans = [path for path in partial.glob("*.part.json") if not path.with_suffix("").exists()]
    unsaved = [path for pattern in (f".{STAMPS}.*", ".*.npz.*") for path in folder.glob(pattern)]
    return [*unsaved, *partial.glob(".*.part.json.*"), *partial.glob(f"{WORK}*"), *orphans]


@dataclass(frozen=True)
class Here:
    """A form of a data set that is here, whole and verified."""

    entry: Entry
    form: Form
    paths: dict[str, Path]  # by the name of the File, without .gz or .xz
    sha256: str  # of the contents, however they are packed
    checked: str  # the weakest of the CHECKS that its files passed
    source: str

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.paths.values())


def _rdf(pieces: Iterable[bytes]) -> None:
    """The Open Directory's dump: an XML file of external pages that ends where it should."""
    pages, head, tail = 0, b"", b""
    for piece in pieces:
        head = head or piece[:4096]
        joined = tail[-16:] + piece
        pages += joined.count(b"<ExternalPage ")
        tail = joined[-64:]
    if b"<RDF" not in head or not pages:
        raise BadFile("is not a DMOZ content dump")
    if b"</RDF>" not in tail:
        raise BadFile("is cut short: </RDF> is missing at its end")


STRUCTURES: dict[str, Callable[[Iterable[bytes]], None]] = {"rdf": _rdf}


def _git_blob(pieces: Iterable[bytes], expected: str) -> None:
    """Git hashes the length before the bytes, so they are kept until it is known."""
    with tempfile.SpooledTemporaryFile(max_size=2**25) as kept:
        for piece in pieces:
            kept.write(piece)
        digest = hashlib.sha1(b"blob %d\0" % kept.tell(), usedforsecurity=False)
        kept.seek(0)
        while piece := kept.read(archives.ARCHIVE_CHUNK):
            digest.update(piece)
    if digest.hexdigest() != expected:
        raise _wrong_checksum("git blob", digest.hexdigest(), expected)


def _wrong_checksum(kind: str, found: str, expected: str) -> BadFile:
    return BadFile(f"has the wrong checksum ({kind} {found[:16]}..., not {expected[:16]}...)")


def content_sha256(stream: IO[bytes], content: Content | None = None) -> str:
    """The sha256 of a stream; a ``content`` that has none to compare is checked in its own way."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for piece in archives.chunks(stream):
            digest.update(piece)
            yield piece

    if content is not None and content.check == "git sha1":
        _git_blob(pieces(), content.git_sha1 or "")
    elif content is not None and content.check == "structure":
        STRUCTURES[content.structure](pieces())
    for _ in pieces():
        pass
    return digest.hexdigest()


def check_content(stream: IO[bytes], content: Content) -> str:
    """The sha256 of a stream that holds ``content``; BadFile if it does not."""
    digest = content_sha256(stream, content)
    if content.sha256 is not None and digest != content.sha256:
        raise _wrong_checksum("sha256", digest, content.sha256)
    return digest


def check_file(path: Path, file: File) -> str:
    """The sha256 of the contents of ``path``; BadFile if they are not those of ``file``."""
    with open(path, "rb") as handle:
        if archives.looks_like_html(handle.read(512)):
            raise BadFile("is an HTML page, not data")
    if not file.is_archive:
        with archives.open_unpacked(path) as stream:
            return check_content(stream, file.contents[0])
    if not archives.is_archive(path):
        raise BadFile("is not an archive, or is damaged")
    return combined_sha256(_check_members(path, file))


def _check_members(path: Path, file: File) -> dict[str, str]:
    digests: dict[str, str] = {}
    for name, stream in archives.members(path):
        content = match_by_name(name, file.contents)
        if content is not None:
            if content.name in digests:
                raise BadFile(f"holds {content.name} twice")
            try:
                digests[content.name] = check_content(stream, content)
            except BadFile as error:
                raise BadFile(f"holds {name!r}, which {error}") from error
    missing = [content.name for content in file.contents if content.name not in digests]
    if missing:
        raise BadFile(f"lacks {', '.join(missing[:3])}{' and more' if len(missing) > 3 else ''}")
    return digests


def match_by_name(path: str, contents: Iterable[Content]) -> Content | None:
    """The content whose name ends ``path``."""
    for content in contents:
        if path == content.name or path.endswith("/" + content.name):
            return content
    return None


def combined_sha256(digests: dict[str, str]) -> str:
    """One hash for several contents, whatever their order."""
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listing.encode()).hexdigest()


def expected_sha256(file: File) -> str | None:
    """What ``check_file`` returns for a good file, if that is publicly known."""
    digests = {content.name: content.sha256 for content in file.contents if content.sha256 is not None}
    if len(digests) < len(file.contents):
        return None
    return combined_sha256(digests) if file.is_archive else file.contents[0].sha256


def stamped(path: Path, file: File, *, again: bool = False) -> dict:
    """The stamp of a verified file, from the last time or from verifying it now; BadFile if it is bad."""
    known = current_stamp(path)
    if known is not None and not again and known.get("checked") == file.check:
        expected = expected_sha256(file)
        if expected in (None, known.get("sha256")):
            return known
    digest = check_file(path, file)
    source = read_stamps(path.parent).get(path.name, {}).get("source", "found in place")
    return stamp(path, file, digest, source)


def stamp(path: Path, file: File, sha256: str, source: str) -> dict:
    """Remember that ``path`` was found good."""
    return write_stamp(path, sha256=sha256, checked=file.check, source=source)


def form_here(entry: Entry, form: Form, *, again: bool = False) -> Here | None:
    """The form if all its files are here and good, None if one is missing; BadFile if one is bad."""
    paths, stamps = {}, {}
    for file in form.files:
        path = find(entry.name, *file.names)
        if path is None:
            return None
        try:
            stamps[file.name] = stamped(path, file, again=again)
        except BadFile as error:
            raise BadFile(f"{path} {error}") from error
        paths[file.name] = path
    return Here(
        entry=entry,
        form=form,
        paths=paths,
        sha256=combined_sha256({name: stamp["sha256"] for name, stamp in stamps.items()}),
        checked=min((stamp["checked"] for stamp in stamps.values()), key=CHECKS.index),
        source=", ".join(dict.fromkeys(stamp["source"] for stamp in stamps.values())),
    )


def forms_here(name: str | Entry) -> list[Here]:
    """Every form of a data set that is here and good, the best first. Bad files are passed over."""
    entry = name if isinstance(name, Entry) else registry.entry(name)
    found = []
    for form in entry.forms:
        try:
            here = form_here(entry, form)
        except BadFile:
            continue
        if here is not None:
            found.append(here)
    return found


def require(name: str, form: str | None = None) -> Here:
    """The best form of a data set that is here (or the one asked for); an McfError says how to get it."""
    entry = registry.entry(name)
    candidates = [entry.form(form)] if form else [each for each in entry.forms if each.enough]
    damage = ""
    for candidate in candidates:
        try:
            here = form_here(entry, candidate)
        except BadFile as error:
            damage = damage or str(error)
            continue
        if here is not None:
            return here
    wanted, option = (f"{entry.name} (form {form})", f" --form {form}") if form else (entry.name, "")
    why = f"{damage}." if damage else f"{wanted} is not in {data_home()}."
    command = f"mcf data get {entry.name}{option}"
    raise McfError(f"{why}\nRun `{command}`, or `mcf data import PATH` if you have a copy.")


def catalogue(entries: Iterable[Entry], *, again: bool = False) -> list[dict]:
    """One record per data set; ``again`` verifies every file anew, whatever the stamps say."""
    return [_record(entry, again) for entry in entries]


def _record(entry: Entry, again: bool) -> dict:
    forms = [_form_record(entry, form, again) for form in entry.forms]
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "homepage": entry.homepage,
        "here": any(form["state"] == "here" and form["enough"] for form in forms),
        "folder": str(dataset_folder(entry.name)),
        "forms": forms,
        "sources": [source.label for source in entry.sources],
    }


def _form_record(entry: Entry, form: Form, again: bool) -> dict:
    record = {
        "form": form.name,
        "about": form.about,
        "enough": form.enough,
        "shapes": {name: asdict(shape) for name, shape in form.shapes.items()},
        "files": {file.name: {c.name: c.sha256 for c in file.contents} for file in form.files},
        "state": "missing",
    }
    try:
        here = form_here(entry, form, again=again)
    except BadFile as error:
        return {**record, "state": "damaged", "problem": str(error)}
    if here is None:
        return record
    paths = {name: path.name for name, path in here.paths.items()}
    found = {"state": "here", "source": here.source, "size": here.size, "verified": here.checked}
    return {**record, **found, "sha256": here.sha256, "paths": paths}
