"""Finished trials on disk: one line of JSON each, appended and flushed before the next trial is reported.

A process killed while writing leaves at most one torn line at the end; the next writer cuts it off. Every
line carries a checksum, so a damaged one is noticed and its trial is run again. One writer at a time holds
the lock.
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
from mcf_cli.experiments.files import write_text
from mcf_cli.experiments.trials import canonical

CACHE = ".cache"
Record = dict[str, Any]


class Store:
    """The records of one item below an output folder; the last record of a key counts."""

    def __init__(self, out: Path, item: str) -> None:
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
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as lock:
            _acquire(lock, self.folder.parent.parent, wait)
            self._cut_torn_line()
            with self.path.open("ab") as self._file:
                try:
                    yield self
                finally:
                    self._file = None

    def save_plan(self, text: str) -> None:
        """Keep what the latest run expects, so that status and report know it without the config."""
        write_text(self.folder / "plan.json", text)

    def saved_plan(self) -> str | None:
        """The latest plan, None when the item was never run here."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "plan.json").read_text(encoding="utf-8")
        return None

    def append(self, record: Record) -> None:
        """Put one record on disk; it is there when this returns."""
        self._file.write(_encode(record))
        self._file.flush()
        os.fsync(self._file.fileno())

    def forget(self) -> None:
        """Delete every record of the item."""
        with self.writing():
            pass
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


def _encode(record: Record) -> bytes:
    body = canonical(record)
    return f'{{"check":"{_checksum(body)}","record":{body}}}\n'.encode()


def _decode(line: bytes) -> Record | None:
    try:
        outer = json.loads(line)
        record = outer["record"]
        sound = outer["check"] == _checksum(canonical(record)) and isinstance(record["key"], str)
    except (ValueError, TypeError, KeyError):
        return None
    return record if sound else None


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
