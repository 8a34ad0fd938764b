"""What every fault is measured against: the same sweep, undisturbed; and small disks."""

import subprocess
from pathlib import Path

import pytest

from tests.faults.real_mcf import SWEEP, TRIALS, mcf, results_in, store_in


@pytest.fixture(scope="session")
def undisturbed_run(tmp_path_factory):
    """The output folder of a sweep that nothing happened to."""
    out = tmp_path_factory.mktemp("undisturbed")
    result = mcf(*SWEEP, "--out", out)
    assert result.code == 0, result.err
    assert store_in(out).read_bytes().count(b"\n") == TRIALS
    return out


@pytest.fixture(scope="session")
def undisturbed(undisturbed_run):
    """The results of that sweep."""
    return results_in(undisturbed_run)


@pytest.fixture
def mounted(tmp_path):
    """A function that mounts a small disk, or skips the test where that is not allowed."""
    folders = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            done = False
        if not done:
            pytest.skip("a disk cannot be mounted here (needs root)")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)
