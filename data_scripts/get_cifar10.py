"""Get and verify cifar10, as `mcf data get cifar10` does."""

from mcf_cli.datasets.store import fetch

if __name__ == "__main__":
    fetch.script("cifar10")
