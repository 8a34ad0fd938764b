"""Data homes for the tests: one that points to the copies beside the checkout, one that is empty."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("MCF_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(scope="session")
def linked_home(tmp_path_factory):
    """A data home of links, so that nothing is ever written beside the copies."""
    if not SHARED.is_dir():
        pytest.skip(f"real data is not beside the checkout ({SHARED.name}/ in the folder shared/)")
    home = tmp_path_factory.mktemp("home")
    for path in SHARED.glob("*/*"):
        (home / path.parent.name).mkdir(exist_ok=True)
        (home / path.parent.name / path.name).symlink_to(path.resolve())
    return home


@pytest.fixture
def shared_home(linked_home, monkeypatch):
    """MCF_DATA_HOME with everything of shared/data in it."""
    monkeypatch.setenv("MCF_DATA_HOME", str(linked_home))
    return linked_home


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    """MCF_DATA_HOME with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("MCF_DATA_HOME", str(home))
    return home
