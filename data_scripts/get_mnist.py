"""Get and verify mnist, as `mcf data get mnist` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("mnist")
