"""Finished trials on disk: one line of JSON each, appended and flushed before the next trial is reported.

A process killed while writing leaves at most one torn line at the end; the next writer cuts it off. Every
line carries a checksum of its bytes, so a damaged one is noticed and its trial is run again. One writer at a
time holds the lock.
"""

import contextlib
import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mcf_cli.errors import McfError
from mcf_cli.experiments.trial import canonical_json
from mcf_cli.files import clear_leftovers, disk_explained, is_leftover, take_lock, write_text

CACHE = ".cache"
PLAN_FORMAT = "mcf-plan"  # by which a plan, and so a store, is known as ours
PLAN, TRIALS, LOCK, HOLDER = "plan.json", "trials.jsonl", "lock", "holder"  # all that a store holds
MAX_RECORD = 2**26  # bytes: no record is as long
Record = dict[str, Any]


class Store:
    """The records of one item below an output folder; the last record of a key counts."""

    def __init__(self, out: Path, item: str) -> None:
        self.out = out
        self.folder = out / CACHE / item
        self.path = self.folder / TRIALS
        self._file: Any = None

    def records(self) -> dict[str, Record]:
        """All readable records by key. A damaged or unfinished line counts as never written."""
        records: dict[str, Record] = {}
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            sound = (body for body in map(_body_of, file) if body is not None)
            # Records that are decoded together share the strings of their keys, which saves time and memory.
            while bodies := list(islice(sound, 1000)):
                for record in json.loads(b"[" + b",".join(bodies) + b"]"):
                    records[record["key"]] = record
        return records

    @contextlib.contextmanager
    def writing(self, wait: bool = False) -> Iterator["Store"]:
        """Hold the writer's lock and the file; refuse (or wait) when another run holds it."""
        self._refuse_strangers()
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

    def _refuse_strangers(self) -> None:
        """Files of another program that have the names of ours would be overwritten."""
        files = [path for path in (self.folder / PLAN, self.path) if path.exists() and path.stat().st_size]
        if files and not is_store(self.folder):
            raise McfError(
                f"{files[0]} was not written by mcf, or is damaged: move it away, or choose another --out."
            )

    @contextlib.contextmanager
    def _locked(self, wait: bool = False) -> Iterator[None]:
        """The lock of the item, with a word for others about who holds it."""
        holder = self.folder / HOLDER

        def busy() -> None:
            if not wait:
                with contextlib.suppress(OSError):
                    raise self._is_held(holder.read_text(encoding="utf-8"))
                raise self._is_held("another process")

        with disk_explained(self.out):
            lock = take_lock(self.folder / LOCK, busy)
        with lock:
            with disk_explained(self.out):
                holder.write_text(f"process {os.getpid()}", encoding="utf-8")
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    holder.unlink()

    def _is_held(self, holder: str) -> McfError:
        return McfError(
            f"{self.out} is being written by {holder}. Add --wait to wait for it, or choose another --out."
        )

    def save_plan(self, text: str) -> None:
        """Keep what the latest run expects, so that status and report know it without the config."""
        with disk_explained(self.out):
            write_text(self.folder / PLAN, text)

    def saved_plan(self) -> str | None:
        """The latest plan, None when the item was never run here."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / PLAN).read_text(encoding="utf-8")
        return None

    def append(self, record: Record) -> None:
        """Put one record on disk; it is there when this returns."""
        body = canonical_json(record).encode()
        line = _HEAD + _checksum(body) + _MIDDLE + body + _END
        with disk_explained(self.out):
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())

    def forget(self) -> list[str]:
        """Delete every record of the item; the names of files there that are not ours, and stay."""
        with self._locked(), disk_explained(self.out):
            names = sorted(path.name for path in self.folder.iterdir())
            for name in (TRIALS, PLAN, *filter(is_leftover, names), HOLDER):
                (self.folder / name).unlink(missing_ok=True)
            others = [name for name in names if name != LOCK and (self.folder / name).exists()]
            with contextlib.suppress(PermissionError):  # Windows keeps a file that is open
                (self.folder / LOCK).unlink()
                if not others:
                    self.folder.rmdir()
            return others

    def _cut_torn_line(self) -> None:
        """Remove what follows the last line break: a later append would otherwise be glued to it."""
        with contextlib.suppress(FileNotFoundError), self.path.open("r+b") as file:
            if file.seek(0, os.SEEK_END):
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    end = content.rfind(b"\n") + 1
                file.truncate(end)


def items_in(out: Path) -> list[str]:
    """The items that were ever run into an output folder; another program may keep things of its own beside them."""
    return sorted(path.parent.name for path in (out / CACHE).glob(f"*/{PLAN}") if is_store(path.parent))


def is_store(folder: Path) -> bool:
    """Whether a folder holds a plan or a record that a run wrote."""
    return _holds_plan(folder) or _holds_record(folder)


def _holds_plan(folder: Path) -> bool:
    try:
        plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        ours = plan.get("format") == PLAN_FORMAT or {"parts", "notices", "profile"} <= set(
            plan
        )  # the latter: 1.x
        return ours and plan["config"]["item"] == folder.name
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _holds_record(folder: Path) -> bool:
    """Among the first lines: one may be damaged, not all."""
    try:
        with (folder / TRIALS).open("rb") as file:
            return any(
                _body_of(line) is not None
                for line in islice(iter(lambda: file.readline(MAX_RECORD), b""), 20)
            )
    except OSError:
        return False


# The keys of a record are sorted, so that its own key comes first.
_HEAD, _MIDDLE, _END = b'{"check":"', b'","record":', b"}\n"
_BODY = len(_HEAD) + 16 + len(_MIDDLE)
_KEY = b'{"key":"'


def _body_of(line: bytes) -> bytes | None:
    """The record in a line, still encoded; None unless every byte is as it was written."""
    body = line[_BODY : -len(_END)]
    sound = line == _HEAD + _checksum(body) + _MIDDLE + body + _END
    return body if sound and body.startswith(_KEY) else None


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode()
