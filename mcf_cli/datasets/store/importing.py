"""Taking in what the user already has: known contents are found by their bytes, verified, put in place."""

import contextlib
import gzip
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from mcf_cli.datasets.formats import archives
from mcf_cli.datasets.formats.archives import BadFile
from mcf_cli.datasets.store import registry, verify
from mcf_cli.datasets.store.entry import Content, Entry, File
from mcf_cli.errors import McfError

Say = Callable[[str], None]
WORTH_MENTIONING = 10**8  # bytes that take a noticeable time to read


@dataclass(frozen=True)
class FoundAt:
    """Where a content was found: a file, or a member of an archive."""

    path: Path
    member: str = ""
    number: int = 0  # of the member: two of them may have the same name

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with archives.open_unpacked(self.path) as stream:
                yield stream
            return
        for number, (_, stream) in enumerate(archives.members(self.path)):
            if number == self.number:
                yield stream
                return


@dataclass
class Findings:
    """What a search turned up."""

    places: dict[Content, FoundAt] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # files that have a known name and the wrong content
    files: int = 0
    impure: set[Path] = field(
        default_factory=set
    )  # archives with a problem, a content twice or under another name

    def add(self, content: Content, place: FoundAt) -> None:
        """The first place where a content is found counts."""
        if place.member and (content in self.places or not verify.match_by_name(place.member, [content])):
            self.impure.add(place.path)
        self.places.setdefault(content, place)

    def inside(self, path: Path) -> set[Content]:
        return {content for content, place in self.places.items() if place.member and place.path == path}


def search(path: Path, entries: Iterable[Entry], say: Say = lambda text: None) -> Findings:
    """Look through a file, a folder or an archive for contents that the registry knows."""
    contents = set().union(*map(contents_of, entries))
    findings = Findings()
    for candidate in _files_below(path):
        if candidate.stat().st_size > WORTH_MENTIONING:
            say(f"looking through {candidate}")
        try:
            found = _search_file(candidate, contents)
        except BadFile as error:
            found = Findings(problems=[f"{candidate} {error}"])  # nothing of a bad archive is kept
        except OSError as error:
            found = Findings(problems=[f"{candidate} cannot be read ({error.strerror})"])
        findings.files += 1
        findings.problems += found.problems
        findings.impure |= found.impure
        findings.places = {**found.places, **findings.places}
    return findings


def contents_of(entry: Entry) -> set[Content]:
    """All that can be recognised of a data set."""
    return {content for form in entry.forms for file in form.files for content in file.contents}


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            candidate = Path(folder, name)
            if not name.startswith(".") and candidate.is_file():
                yield candidate


def _plain_name(path: Path) -> str:
    return path.as_posix().removesuffix(".gz").removesuffix(".xz")


def _search_file(path: Path, contents: set[Content]) -> Findings:
    findings = Findings()
    if archives.is_archive(path):
        for number, (name, stream) in enumerate(archives.members(path)):
            _search_stream(stream, name, FoundAt(path, name, number), contents, findings)
    else:
        with archives.open_unpacked(path) as stream:
            _search_stream(stream, _plain_name(path), FoundAt(path), contents, findings)
    return findings


def _search_stream(
    stream: IO[bytes], name: str, place: FoundAt, contents: set[Content], findings: Findings
) -> None:
    where = f"{place.path} ({name})" if place.member else str(place.path)
    namesake = verify.match_by_name(name, contents)
    if namesake is not None and namesake.sha256 is None:
        try:
            verify.check_content(stream, namesake)
        except BadFile as error:
            findings.problems.append(f"{where} {error}")
            findings.impure.add(place.path)
        else:
            findings.add(namesake, place)
        return
    digest = verify.content_sha256(stream)
    known = [content for content in contents if content.sha256 == digest]
    if namesake is not None and not known:
        findings.problems.append(f"{where} has the name but not the content of {namesake.name}")
        findings.impure.add(place.path)
    for content in known:
        findings.add(content, place)


def place_all(findings: Findings, entry: Entry, source: str, say: Say = lambda text: None) -> list[Path]:
    """Copy what was found of ``entry`` into the data home; the caller holds the lock. Good files stay."""
    files = [file for form in entry.forms for file in form.files]
    singles = [file for file in files if not file.is_archive]
    packed = sorted((file for file in files if file.is_archive), key=lambda file: -len(file.contents))
    placed: list[Path] = []
    served: set[Content] = set()
    for file in packed:  # an archive that holds these contents, all of them good, is kept as it is
        container = _container(findings, file)
        if container is not None and not served.issuperset(file.contents):
            name = _stored_name(file, container)
            placed += _put(entry, file, name, source, say, partial(_copy, container))
            served.update(file.contents)
    for file in singles:
        content = file.contents[0]
        if content in findings.places and content not in served:
            placed += _put_single(entry, file, findings.places[content], source, say)
            served.add(content)
    for file in packed:
        found = findings.places.keys() >= set(file.contents)
        if found and not served.issuperset(file.contents):
            name = f"{file.name}.gz"
            placed += _put(entry, file, name, source, say, partial(_pack, findings, file))
            served.update(file.contents)
    return placed


def _container(findings: Findings, file: File) -> Path | None:
    places = {findings.places[content].path for content in file.contents if content in findings.places}
    for path in sorted(places - findings.impure):  # of the others the verified members alone are taken
        if findings.inside(path) == set(file.contents) and tarfile.is_tarfile(path):
            return path
    return None


def _stored_name(file: File, path: Path) -> str:
    """A name that the registry knows, the file's own if possible, with the suffix of its compression."""
    own = Path(_plain_name(path)).name
    return (own if own in file.names else file.name) + archives.compression(path)


def _put_single(entry: Entry, file: File, place: FoundAt, source: str, say: Say) -> list[Path]:
    if place.member:
        return _put(entry, file, file.name, source, say, lambda to: _unpack(place, to))
    name = _stored_name(file, place.path)
    return _put(entry, file, name, source, say, lambda to: _copy(place.path, to))


def _put(
    entry: Entry, file: File, name: str, source: str, say: Say, write: Callable[[Path], None]
) -> list[Path]:
    """Write, verify, then move into place, unless a good copy is there already."""
    present = verify.find(entry.name, *file.names)
    if present is not None:
        with contextlib.suppress(BadFile):
            verify.stamped(present, file)
            say(f"{entry.name}: {present.name} is here already, verified")
            return []
    with work_folder(entry.name) as work:
        write(work / name)
        return [put_in_place(entry, file, work / name, name, source, say)]


def put_in_place(
    entry: Entry, file: File, path: Path, name: str, source: str, say: Say = lambda text: None
) -> Path:
    """Verify ``path`` and move it into the data home under ``name``; BadFile if it is not ``file``."""
    digest = verify.check_file(path, file)
    target = verify.data_path(entry.name, name)
    replaced = verify.find(entry.name, *file.names)
    os.replace(path, target)
    if replaced is not None and replaced != target:
        replaced.unlink()  # a bad copy under another suffix would be found first
    verify.stamp(target, file, digest, source)
    say(f"{entry.name}: {name} verified")
    return target


@contextlib.contextmanager
def work_folder(dataset: str) -> Iterator[Path]:
    """A temporary folder on the disk of the data home."""
    with tempfile.TemporaryDirectory(dir=verify.partial_folder(dataset), prefix=verify.WORK) as folder:
        yield Path(folder)


def _copy(path: Path, to: Path) -> None:
    shutil.copyfile(path, to)


def _unpack(place: FoundAt, to: Path) -> None:
    with place.open() as stream, open(to, "wb") as handle:
        for chunk in archives.chunks(stream):
            handle.write(chunk)


def _pack(findings: Findings, file: File, to: Path) -> None:
    """A tar of loose contents, the same bytes every time."""
    with (
        open(to, "wb") as handle,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=handle, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for content in file.contents:
            with tempfile.TemporaryFile(dir=to.parent) as loose:
                with findings.places[content].open() as stream:
                    shutil.copyfileobj(stream, loose)
                member = tarfile.TarInfo(content.name)
                member.size = loose.tell()
                loose.seek(0)
                archive.addfile(member, loose)


def import_path(
    path: Path, say: Say = lambda text: None, entries: Iterable[Entry] | None = None
) -> dict[str, list[Path]]:
    """Find, verify and take in every known content at ``path``: file, folder or archive."""
    if not path.exists():
        raise McfError(f"{path} does not exist.")
    entries = list(registry.ENTRIES.values() if entries is None else entries)
    findings = search(path, entries, say)
    taken: dict[str, list[Path]] = {}
    for entry in entries:
        if contents_of(entry) & findings.places.keys():
            with verify.home_explained(), verify.locked(entry.name, say):
                try:
                    taken[entry.name] = place_all(findings, entry, f"import {path}", say)
                except BadFile as error:  # it changed while we were reading it
                    raise McfError(f"{path}: the data of {entry.name} {error}.\nTry again.") from error
    if not taken:
        raise McfError(_nothing_found(path, findings))
    for problem in findings.problems:
        say(f"skipped: {problem}")
    return taken


def _nothing_found(path: Path, findings: Findings) -> str:
    if findings.problems:
        return "nothing was imported: " + "; ".join(findings.problems) + ".\nGet a fresh copy and try again."
    return (
        f"nothing in {path} is known to mcf ({findings.files} files looked at).\n"
        "`mcf data list` names the data sets and their files."
    )
