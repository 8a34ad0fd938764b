"""Get and verify amazon, as `mcf data get amazon` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("amazon")
