"""Gets the demo data from the address on the command line: a process to kill, to run twice, to starve."""

import sys

from mcf_cli.datasets.store import fetch
from mcf_cli.errors import McfError

from tests.datasets.demo_entry import demo

try:
    fetch.get(demo(sys.argv[1]))
except McfError as error:
    sys.exit(f"mcf: {error}")
