"""Get and verify dmoz, as `mcf data get dmoz` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("dmoz")
