"""Finished trials on disk: one line of JSON each, appended and flushed before the next trial is reported.

A process killed while writing leaves at most one torn line at the end; the next writer cuts it off. Every
line carries a checksum of its bytes, so a damaged one is noticed and its trial is run again. One writer at a
time holds the lock.
"""

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcf_cli.errors import McfError
from mcf_cli.experiments.collecting import collector_paused
from mcf_cli.experiments.files import clear_leftovers, disk_explained, write_text
from mcf_cli.experiments.trials import canonical

CACHE = ".cache"
Record = Mapping[str, Any]


class StoredRecord(Mapping[str, Any]):
    """A record as its bytes, decoded where it is looked at: of most, a long run asks only how they ended."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __getitem__(self, name: str) -> Any:
        if name == "status" and self._body.endswith(_OK):
            return "ok"
        return self.decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoded())

    def __len__(self) -> int:
        return len(self.decoded())

    def decoded(self) -> dict[str, Any]:
        return json.loads(self._body)


def whole(record: Record) -> Record:
    """All of a record, to be looked at more than once."""
    return record.decoded() if isinstance(record, StoredRecord) else record


class Store:
    """The records of one item below an output folder; the last record of a key counts."""

    def __init__(self, out: Path, item: str) -> None:
        self.out = out
        self.folder = out / CACHE / item
        self.path = self.folder / "trials.jsonl"
        self._file: Any = None

    def records(self) -> dict[str, Record]:
        """All readable records by key. A damaged or unfinished line counts as never written."""
        records: dict[str, Record] = {}
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file, collector_paused():
            for line in file:
                body = _body_of(line)
                if body is not None:
                    records[_key_of(body)] = StoredRecord(body)
        return records

    @contextlib.contextmanager
    def writing(self, wait: bool = False) -> Iterator["Store"]:
        """Hold the writer's lock and the file; refuse (or wait) when another run holds it."""
        with self._locked(wait):
            with disk_explained(self.out):
                clear_leftovers(self.folder)
                self._cut_torn_line()
                file = self.path.open("ab", buffering=0)  # a failed write must not be tried again at the end
            with file as self._file:
                try:
                    yield self
                finally:
                    self._file = None

    @contextlib.contextmanager
    def _locked(self, wait: bool = False) -> Iterator[None]:
        """The lock of the item. Whoever forgets an item removes the lock too: then it is not the lock any more."""
        path = self.folder / "lock"
        while True:
            with disk_explained(self.out):
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = path.open("a+")
            with lock:
                _acquire(lock, self.out, wait)
                if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                    yield
                    return

    def save_plan(self, text: str) -> None:
        """Keep what the latest run expects, so that status and report know it without the config."""
        with disk_explained(self.out):
            write_text(self.folder / "plan.json", text)

    def saved_plan(self) -> str | None:
        """The latest plan, None when the item was never run here."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "plan.json").read_text(encoding="utf-8")
        return None

    def append(self, record: Record) -> StoredRecord:
        """Put one record on disk; it is there when this returns."""
        body = canonical(record).encode()
        line = _HEAD + _checksum(body) + _MIDDLE + body + _END
        with disk_explained(self.out):
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        return StoredRecord(body)

    def forget(self) -> None:
        """Delete every record of the item."""
        with self._locked():
            shutil.rmtree(self.folder)

    def _cut_torn_line(self) -> None:
        """Remove what follows the last line break: a later append would otherwise be glued to it."""
        with contextlib.suppress(FileNotFoundError), self.path.open("r+b") as file:
            if file.seek(0, os.SEEK_END):
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    end = content.rfind(b"\n") + 1
                file.truncate(end)


def items_in(out: Path) -> list[str]:
    """The items that were ever run into an output folder."""
    return sorted(path.parent.name for path in (out / CACHE).glob("*/plan.json"))


def _acquire(lock: Any, out: Path, wait: bool) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        if not wait:
            raise McfError(
                f"{out} is being written by {holder}. Wait for it (--wait does so), or choose another --out."
            ) from None
        fcntl.flock(lock, fcntl.LOCK_EX)
    lock.seek(0)
    lock.truncate()
    lock.write(f"process {os.getpid()}")
    lock.flush()


# The keys of a record are sorted, so that its own key comes first and how it ended last.
_HEAD, _MIDDLE, _END = b'{"check":"', b'","record":', b"}\n"
_BODY = len(_HEAD) + 16 + len(_MIDDLE)
_KEY, _OK = b'{"key":"', b'"status":"ok"}'


def _body_of(line: bytes) -> bytes | None:
    """The record in a line, still encoded; None unless every byte is as it was written."""
    body = line[_BODY : -len(_END)]
    sound = line == _HEAD + _checksum(body) + _MIDDLE + body + _END
    return body if sound and body.startswith(_KEY) else None


def _key_of(body: bytes) -> str:
    return body[len(_KEY) : body.index(b'"', len(_KEY))].decode()


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode()
