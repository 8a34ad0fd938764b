"""Get and verify splice, as `mcf data get splice` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("splice")
