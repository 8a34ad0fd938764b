"""Whether a file is what the registry says it is, and which data sets are here."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mcf_cli.datasets import archives, home, registry
from mcf_cli.datasets.archives import BadFile
from mcf_cli.datasets.entry import Content, Entry, File, Form
from mcf_cli.errors import McfError


@dataclass(frozen=True)
class Here:
    """A form of a data set that is here, whole and verified."""

    entry: Entry
    form: Form
    paths: dict[str, Path]  # by the name of the File, without .gz or .xz
    sha256: str  # of the contents, however they are packed
    checked: str  # "sha256", or "structure" where a content has no public checksum
    source: str

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.paths.values())


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _reviews(pieces: Iterable[bytes], rows: int | None) -> None:
    """Blitzer's format: ``term:count`` pairs and a label, one review a line."""
    count = 0
    for count, line in enumerate(_lines(pieces), 1):
        if not re.search(rb"#label#:(positive|negative)\s*$", line):
            raise BadFile(f"has no #label# in line {count}")
    if count != rows:
        raise BadFile(f"holds {count:,} reviews, not {rows:,}")


def _rdf(pieces: Iterable[bytes], rows: int | None) -> None:
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


STRUCTURES: dict[str, Callable[[Iterable[bytes], int | None], None]] = {"reviews": _reviews, "rdf": _rdf}


def content_sha256(stream: IO[bytes], content: Content | None = None) -> str:
    """The sha256 of a stream; a ``content`` without a public checksum must also have the right structure."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for piece in archives.chunks(stream):
            digest.update(piece)
            yield piece

    if content is not None and content.sha256 is None:
        STRUCTURES[content.structure](pieces(), content.rows)
    for _ in pieces():
        pass
    return digest.hexdigest()


def check_content(stream: IO[bytes], content: Content) -> str:
    """The sha256 of a stream that holds ``content``; BadFile if it does not."""
    digest = content_sha256(stream, content)
    if content.sha256 is not None and digest != content.sha256:
        raise BadFile(f"has the wrong checksum (sha256 {digest[:16]}..., not {content.sha256[:16]}...)")
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
        raise BadFile("is no archive, or a damaged one")
    return combined_sha256(_check_members(path, file))


def _check_members(path: Path, file: File) -> dict[str, str]:
    digests: dict[str, str] = {}
    for name, stream in archives.members(path):
        content = match_by_name(name, file.contents)
        if content is not None:
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
    known = home.current_stamp(path)
    if known is not None and not again and known.get("sha256") == (expected_sha256(file) or known["sha256"]):
        return known
    digest = check_file(path, file)
    source = home.read_stamps(path.parent).get(path.name, {}).get("source", "found in place")
    return stamp(path, file, digest, source)


def stamp(path: Path, file: File, sha256: str, source: str) -> dict:
    """Remember that ``path`` was found good."""
    checked = "sha256" if all(content.sha256 for content in file.contents) else "structure"
    return home.write_stamp(path, sha256=sha256, checked=checked, source=source)


def form_here(entry: Entry, form: Form, *, again: bool = False) -> Here | None:
    """The form if all its files are here and good, None if one is missing; BadFile if one is bad."""
    paths, stamps = {}, {}
    for file in form.files:
        path = home.find(entry.name, *file.names)
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
        checked="structure" if any(s["checked"] == "structure" for s in stamps.values()) else "sha256",
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
    why = f"{damage}." if damage else f"{wanted} is not in {home.data_home()}."
    command = f"mcf data get {entry.name}{option}"
    raise McfError(f"{why}\nRun `{command}`, or `mcf data import PATH` if you have a copy.")


def catalogue(entries: Iterable[Entry], *, again: bool = False) -> list[dict]:
    """One record a data set; ``again`` verifies every file anew, whatever the stamps say."""
    return [_record(entry, again) for entry in entries]


def _record(entry: Entry, again: bool) -> dict:
    forms = [_form_record(entry, form, again) for form in entry.forms]
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "homepage": entry.homepage,
        "here": any(form["state"] == "here" and form["enough"] for form in forms),
        "folder": str(home.dataset_folder(entry.name)),
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
