"""Get and verify amazon-raw, as `mcf data get amazon-raw` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("amazon-raw")
