"""Get and verify mnist, as `mcf data get mnist` does."""

from mcf_cli.datasets import fetch

if __name__ == "__main__":
    fetch.script("mnist")
