"""Finished trials on disk: one line of JSON each, appended and flushed before the next trial is reported.

A process killed while writing leaves at most one torn line at the end; the next writer cuts it off. Every
line carries a checksum of its bytes, so a damaged one is noticed and its trial is run again. One writer at a
time holds the lock.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcf_cli.errors import McfError
from mcf_cli.experiments.files import clear_leftovers, disk_explained, write_text
from mcf_cli.experiments.trials import canonical

CACHE = ".cache"
Record = dict[str, Any]


class Store:
    """The records of one item below an output folder; the last record of a key counts."""

    def __init__(self, out: Path, item: str) -> None:
        self.out = out
        self.folder = out / CACHE / item
        self.path = self.folder / "trials.jsonl"
        self._file: Any = None

    def records(self) -> dict[str, Record]:
        """All readable records by key. A damaged or unfinished line counts as never written."""
        records = {}
        for line in self._lines():
            record = _decode(line)
            if record is not None:
                records[record["key"]] = record
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

    def append(self, record: Record) -> None:
        """Put one record on disk; it is there when this returns."""
        line = _encode(record)
        with disk_explained(self.out):
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())

    def forget(self) -> None:
        """Delete every record of the item."""
        with self._locked():
            shutil.rmtree(self.folder)

    def _lines(self) -> list[bytes]:
        """The lines that were written to their end."""
        try:
            return self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def _cut_torn_line(self) -> None:
        """Remove what follows the last line break: a later append would otherwise be glued to it."""
        with contextlib.suppress(FileNotFoundError), self.path.open("r+b") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)


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


_HEAD, _MIDDLE, _TAIL = b'{"check":"', b'","record":', b"}"
_BODY = len(_HEAD) + 16 + len(_MIDDLE)


def _encode(record: Record) -> bytes:
    body = canonical(record).encode()
    return _HEAD + _checksum(body) + _MIDDLE + body + _TAIL + b"\n"


def _decode(line: bytes) -> Record | None:
    """The record of a line; the checksum covers its bytes as they lie there."""
    body = line[_BODY : -len(_TAIL)]
    if line != _HEAD + _checksum(body) + _MIDDLE + body + _TAIL:
        return None
    record = json.loads(body)
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode()
