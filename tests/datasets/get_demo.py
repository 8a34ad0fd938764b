"""Gets the demo data from the address on the command line: a process to kill, to run twice, to starve."""

import sys

from demo_entry import demo
from mcf_cli.datasets import fetch
from mcf_cli.errors import McfError

try:
    fetch.get(demo(sys.argv[1]))
except McfError as error:
    sys.exit(f"mcf: {error}")
