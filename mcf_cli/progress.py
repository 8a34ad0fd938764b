"""What a user sees while something runs: a bar on a terminal, a few plain lines elsewhere, nothing when quiet.

The standard streams are usable even where they are closed. Names of files, columns and classes and the words of
servers may hold escape sequences, which could retitle a terminal or rewrite what it shows. They become visible
here, in the one place that all text passes.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

from mcf_cli.errors import shown_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from mcf_cli.experiments.run import RunProgress
    from mcf_cli.experiments.store import Record
    from mcf_cli.experiments.trial import Trial

# All control characters but line feed and tab, marks that reverse the direction of text, and bytes that are no text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    r"""The text with control characters spelt out.

    >>> plain("\x1b[2Jgone\n")
    '\\x1b[2Jgone\n'
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class PlainStream:
    """A stream that spells out control characters; on stdout only on a terminal, for elsewhere it carries data."""

    def __init__(self, behind: TextIO, always: bool) -> None:
        self.behind = behind
        self._spells = always or behind.isatty()

    def write(self, text: str) -> int:
        shown = plain(text) if self._spells else text
        try:
            self.behind.write(shown)
        except UnicodeEncodeError:
            encoding = self.behind.encoding or "ascii"
            self.behind.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # a way around
            raise AttributeError(name)
        return getattr(self.behind, name)


def behind(stream: Any) -> Any:
    """The stream itself, for control sequences of our own."""
    return stream.behind if isinstance(stream, PlainStream) else stream


def console(*, stderr: bool = False, **options: Any) -> Console:
    """A rich console whose own control sequences pass and whose text is plain."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(plain(segment.text), segment.style)

    return PlainConsole(file=behind(sys.stderr if stderr else sys.stdout), **options)


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Within the block stdout and stderr exist and are plain; a reader who has gone away is no news."""
    _replace_closed_streams()
    original = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PlainStream(sys.stdout, always=False), PlainStream(sys.stderr, always=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = original
        for stream in original:
            _flush(stream)


def _replace_closed_streams() -> None:
    """What is closed becomes the null device: the next file that is opened must not take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, so this one
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def _flush(stream: TextIO) -> None:
    """Python itself flushes at its end, and complains there if nobody reads any more."""
    try:
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


Advance = Callable[[int], None]


class Silent:
    """Says nothing; what the library uses unless told otherwise."""

    def say(self, text: str) -> None:
        pass

    @contextlib.contextmanager
    def bar(self, label: str, total: int | None, done: int = 0) -> Iterator[Advance]:
        yield lambda count: None

    def busy(self, label: str) -> contextlib.AbstractContextManager:
        """For work of unknown length that reports nothing itself."""
        self.say(f"  {label}")
        return contextlib.nullcontext()


class ByteLines(Silent):
    """Plain lines on standard error: for logs, pipes and dumb terminals."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def bar(self, label: str, total: int | None, done: int = 0) -> Iterator[Advance]:
        self.say(f"  {label}: {shown_bytes(total) if total else 'unknown size'}" + _resumed(done))
        quarter = 4 * done // total if total else 0

        def advance(count: int) -> None:
            nonlocal done, quarter
            done += count
            if total and 4 * done // total > quarter and done < total:
                quarter = 4 * done // total
                self.say(f"  {label}: {25 * quarter}%")

        yield advance


class ByteBars(Silent):
    """A live bar with size, rate and time left."""

    def __init__(self) -> None:
        self.console = console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    @contextlib.contextmanager
    def bar(self, label: str, total: int | None, done: int = 0) -> Iterator[Advance]:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("  {task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(label, total=total, completed=done)
            yield lambda count: progress.update(task, advance=count)

    def busy(self, label: str) -> contextlib.AbstractContextManager:
        return self.console.status(label)


def reporter(quiet: bool = False) -> Silent:
    """The reporter that fits where standard error goes."""
    if quiet:
        return Silent()
    return ByteBars() if sys.stderr.isatty() else ByteLines()


def counter() -> Callable[[str, int, int], None]:
    """Stage, share done and time left on standard error: a moving line on a terminal, else every quarter."""
    began: dict[str, tuple[float, int]] = {}
    quarters: dict[str, int] = {}
    moving = sys.stderr.isatty()

    def report(stage: str, done: int, total: int) -> None:
        start, first = began.setdefault(stage, (time.monotonic(), done))
        rate = (done - first) / max(time.monotonic() - start, 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        line = f"{stage}: {done:,} of {total:,}{left}"
        if moving:
            end = "" if done < total else "\n"
            print(f"\r\x1b[K{line}", end=end, file=behind(sys.stderr), flush=True)
        elif quarters.get(stage) != 4 * done // total:
            quarters[stage] = 4 * done // total
            ByteLines().say(line)

    return report


def _resumed(done: int) -> str:
    return f", resumed at {shown_bytes(done)}" if done else ""


WIDE = 110  # columns of a terminal from which the best result so far has room beside the bar


class NoTrials:
    """Says nothing."""

    def started(self, progress: RunProgress, todo: list[Trial]) -> None:
        """Nothing to say."""

    def finished(self, trial: Trial, record: Record) -> None:
        """Nothing to say."""


class BestSoFar:
    """The lowest test error among the finished trials."""

    def __init__(self) -> None:
        self.error: float | None = None
        self.text = ""

    def see(self, trial: Trial, record: Record) -> None:
        errors = [row["value"] for row in record.get("rows", ()) if row["metric"] == "test_error"]
        if errors and (self.error is None or min(errors) < self.error):
            self.error = min(errors)
            self.text = f"best {self.error:.2%} {trial.label}"


class TrialLines:
    """A line for the first trial, for every hundredth of the work, and for every failure."""

    def __init__(self) -> None:
        self.total = self.count = 0

    def started(self, progress: RunProgress, todo: list[Trial]) -> None:
        self.total = len(todo)
        click.echo(progress.sentence(), err=True)

    def finished(self, trial: Trial, record: Record) -> None:
        self.count += 1
        failed = record["status"] == "failed"
        milestone = self.count * 100 // self.total > (self.count - 1) * 100 // self.total
        if failed or milestone or self.count == 1:
            result = f"FAILED {record['reason']}" if failed else f"{record['seconds']:.2f} s"
            click.echo(f"[{self.count}/{self.total}] {trial.label}: {result}", err=True)


class TrialBar:
    """Overall bar, time left, the running trial, and the best result so far."""

    def __init__(self, display: Any, workers: int) -> None:
        self.display, self.workers = display, workers
        self.best = BestSoFar()
        self.waiting: OrderedDict[str, Trial] = OrderedDict()  # a dict gets slow when its first items go

    def started(self, progress: RunProgress, todo: list[Trial]) -> None:
        self.display.console.print(progress.sentence(), highlight=False, markup=False)
        self.waiting = OrderedDict((trial.key, trial) for trial in todo)
        self.task = self.display.add_task(self._running(), total=len(todo), best="")

    def finished(self, trial: Trial, record: Record) -> None:
        self.waiting.pop(trial.key, None)
        self.best.see(trial, record)
        if record["status"] == "failed":
            self.display.console.print(
                f"failed: {trial.label}: {record['reason']}", style="red", highlight=False, markup=False
            )
        self.display.update(self.task, advance=1, description=self._running(), best=self.best.text)

    def _running(self) -> str:
        others = min(self.workers, len(self.waiting)) - 1
        label = next(iter(self.waiting.values())).label if self.waiting else "done"
        return f"{label} and {others} more" if others > 0 else label


@contextlib.contextmanager
def listening(quiet: bool, workers: int) -> Iterator[Any]:
    """The listener that suits where stderr goes."""
    if quiet:
        yield NoTrials()
    elif sys.stderr.isatty():
        with _rich_progress() as display:
            yield TrialBar(display, workers)
    else:
        yield TrialLines()


def _rich_progress() -> Any:
    from rich.progress import Progress

    screen = console(stderr=True)
    return Progress(*columns(screen.width), console=screen, transient=True, expand=True)


def columns(width: int) -> list[Any]:
    """The parts of the bar. Count and time left always have room; the best result goes first, the trial's name is cut.

    Names of data are text: what looks like markup in them is not.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    name = Column(ratio=2, no_wrap=True, overflow="ellipsis")
    best = Column(ratio=3, no_wrap=True, overflow="ellipsis")
    shown = [
        TextColumn("{task.description}", markup=False, table_column=name),
        BarColumn(bar_width=min(40, width // 5)),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    if width >= WIDE:
        shown.append(TextColumn("{task.fields[best]}", style="green", markup=False, table_column=best))
    return shown
