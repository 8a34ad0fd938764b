"""Ctrl-C within a second or two, even while the main thread sits in a long matrix factorisation.

Python delivers KeyboardInterrupt between bytecodes, so a LAPACK call of a minute would hold it back. The
signal itself is seen at once by a thread; when the main thread has not reacted a second later, the process
ends. That is safe: every finished trial is already on disk.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

PATIENCE = 1.0


@contextlib.contextmanager
def prompt_interrupt(last_words: str) -> Iterator[None]:
    """Within the block SIGINT ends the process after ``PATIENCE`` seconds if nothing else does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    left = threading.Event()
    watcher = threading.Thread(target=_watch, args=(theirs, left, last_words), daemon=True)
    previous = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(previous)
        ours.close()  # the watcher reads the end of the stream and returns
        watcher.join()
        theirs.close()


def _watch(stream: socket.socket, left: threading.Event, last_words: str) -> None:
    while data := stream.recv(1):
        if data[0] == signal.SIGINT and not left.wait(PATIENCE):
            sys.stderr.write(f"\x1b[?25h\n{last_words}\n" if sys.stderr.isatty() else f"{last_words}\n")
            sys.stderr.flush()
            os._exit(1)
