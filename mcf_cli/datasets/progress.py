"""What a user sees while data is on its way: a bar on a terminal, a few plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

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


class Lines(Silent):
    """Plain lines on standard error: for logs, pipes and dumb terminals."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def bar(self, label: str, total: int | None, done: int = 0) -> Iterator[Advance]:
        self.say(f"  {label}: {_megabytes(total) if total else 'unknown size'}" + _resumed(done))
        quarter = 4 * done // total if total else 0

        def advance(count: int) -> None:
            nonlocal done, quarter
            done += count
            if total and 4 * done // total > quarter and done < total:
                quarter = 4 * done // total
                self.say(f"  {label}: {25 * quarter}%")

        yield advance


class Terminal(Silent):
    """A live bar with size, rate and time left."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)

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
    return Terminal() if sys.stderr.isatty() else Lines()


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
            print(f"\r\x1b[K{line}", end="" if done < total else "\n", file=sys.stderr, flush=True)
        elif quarters.get(stage) != 4 * done // total:
            quarters[stage] = 4 * done // total
            Lines().say(line)

    return report


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def _resumed(done: int) -> str:
    return f", resumed at {_megabytes(done)}" if done else ""
