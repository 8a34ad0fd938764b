"""Gets the demo data into one home after another, each time killed one step on the disk later than before.

python -m tests.datasets.killed_gets URL FOLDER    # makes FOLDER/1, FOLDER/2, ... until a process lives to its end
"""

import itertools
import os
import signal
import sys

from mcf_cli.datasets.store import fetch

from tests.datasets.demo_entry import demo

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod"}


def kill_before_step(number: int, home: str) -> None:
    """Die just before this process changes something below ``home`` for the nth time."""
    steps = itertools.count(1)

    def watch(event: str, arguments: tuple) -> None:
        writes = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        below = arguments and isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0])
        if (writes or event in CHANGES) and str(below).startswith(home) and next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def main(url: str, folder: str) -> None:
    for number in itertools.count(1):
        child = os.fork()
        if child == 0:
            os.environ["MCF_DATA_HOME"] = home = os.path.join(folder, str(number))
            kill_before_step(number, home)
            fetch.get(demo(url))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != -signal.SIGKILL:
            sys.exit(status)


main(*sys.argv[1:])
