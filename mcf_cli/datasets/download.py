"""Downloading one file over HTTP(S): resumed where it broke off, retried while that helps, never trusted.

pooch fetches whole files only, so the loop that resumes is our own; the checksum is the caller's affair.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
from urllib3.exceptions import HTTPError, NewConnectionError

from mcf_cli.datasets.archives import looks_like_html
from mcf_cli.datasets.home import atomic_file
from mcf_cli.datasets.progress import Silent
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


class SourceFailed(Exception):
    """Why a source did not deliver, in words for the user."""


class NotThere(SourceFailed):
    """The server answers and does not have the file."""


class _Interrupted(Exception):
    """Worth another try."""


def download(url: str, part: Path, *, patience: Patience, report: Silent, label: str) -> None:
    """Fetch ``url`` into ``part``, going on from what a broken or killed download left there."""
    failures = 0
    with requests.Session() as session:
        session.headers["User-Agent"] = f"mcf/{__version__}"
        while True:
            before = _size(part)
            try:
                return _attempt(session, url, part, patience, report, label)
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
    session: requests.Session, url: str, part: Path, patience: Patience, report: Silent, label: str
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
        with (
            open(part, "ab" if offset else "wb", buffering=0) as handle,
            report.bar(label, total, offset) as add,
        ):
            for piece in _pieces(response):
                if handle.tell() == 0 and looks_like_html(piece):
                    raise SourceFailed("the server sends an HTML page in place of the data")
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
    status = response.status_code
    if status in RETRY_STATUS:
        raise _Interrupted(f"the server answers {status} {response.reason}")
    if status in (404, 410):
        raise NotThere(f"the server answers {status} {response.reason}")
    if status not in (200, 206):
        raise SourceFailed(f"the server answers {status} {response.reason}")


def _reason(error: Exception) -> object:
    return getattr(error.args[0], "reason", None) if error.args else None


def _plain(error: Exception) -> str:
    text = repr(error)
    for sign, meaning in (
        ("NameResolution", "its name is not known here: no network?"),
        ("Failed to resolve", "its name is not known here: no network?"),
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
    with atomic_file(_memory(part)) as handle:
        handle.write(json.dumps({"validator": mark}).encode())


def _recall(part: Path) -> str:
    try:
        return str(json.loads(_memory(part).read_text(encoding="utf-8"))["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
