"""How many threads a fit uses, work shared out to them and room for each; BLAS keeps to one thread during a fit."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

_inside = threading.local()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mcf")


@cache
def _libraries() -> ThreadpoolController:
    """What is loaded by the first fit; to look for it takes as long as a small fit."""
    return ThreadpoolController()


_fits, _counting = 0, threading.Lock()
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread: a limit of the whole process, which the first fit sets and the last to end lifts."""
    global _fits, _limit
    with _counting:
        _fits += 1
        if _fits == 1:
            _limit = _libraries().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _counting:
            _fits -= 1
            if _fits == 0:
                _limit.restore_original_limits()


def _after_fork() -> None:
    """A child inherits the pool without its threads, and what the fits of its parent count and hold."""
    global _fits, _counting
    _pool.cache_clear()
    _counting = threading.Lock()
    if _fits:
        _fits = 0
        _limit.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def available_cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Threads that sparse products may use: OMP_NUM_THREADS, as for BLAS, else the cores of this process."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdigit() and int(allowed) > 0 else available_cores()


def in_threads(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """[function(item) for item in items]; scipy's products and the compiled loop release the interpreter lock.

    What runs in a thread already stays in it: its own parts would wait for threads that wait for them.
    """
    if len(items) == 1 or getattr(_inside, "thread", False) or threads() == 1:
        return [function(item) for item in items]

    def marked(item: Any) -> Any:
        _inside.thread = True
        return function(item)

    return list(_pool(threads()).map(marked, items))


def a_few_at_a_time(function: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
    """function(item) for each item in order, as many at a time as there are threads: results can be large."""
    n = threads() if len(items) > 1 else 1
    for start in range(0, len(items), n):
        yield from in_threads(function, items[start : start + n])


def _shares(n: int) -> list[slice]:
    edges = np.linspace(0, n, threads() + 1).astype(int)
    return [slice(start, end) for start, end in itertools.pairwise(edges)]


class Scratch(threading.local):
    """Room for one table a thread, which the tables of all blocks of a design take turns in."""

    room: np.ndarray = np.empty(0)

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Elsewhere there is room of its own: a design may travel to a worker."""
        return Scratch, ()

    def table(self, rows: int, width: int) -> np.ndarray:
        if len(self.room) < rows * width:
            self.room = np.empty(rows * width)
        return self.room[: rows * width].reshape(rows, width)
