"""Get and verify reuters, as `mcf data get reuters` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("reuters")
