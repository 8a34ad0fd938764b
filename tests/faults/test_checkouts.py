"""environment.json names the commit of the code, not of whatever repository the code happens to lie in."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.faults.real_mcf import ROOT

BOUNDS = ["bounds", "--q", "0.5", "--lambda", "0.5"]


def git(folder, *arguments):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *who, "-C", folder, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def python(code, *arguments):
    """Python with the package in the folder ``code``, started as a git hook would start it."""
    variables = {**os.environ, "PYTHONPATH": str(code), "GIT_DIR": str(ROOT / ".git"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=variables, cwd=code.parent
    ).stdout


def checkout_of(code):
    asked = "import json; from mcf_cli.experiments.run import checkout; print(json.dumps(checkout()))"
    return json.loads(python(code, "-c", asked))


@pytest.fixture
def repository(tmp_path):
    """Somebody's repository with a commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "readme").write_text("theirs")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "theirs")
    return folder


def test_a_package_installed_below_a_repository_has_no_commit(repository):
    code = repository / "lib" / "site-packages"
    shutil.copytree(ROOT / "mcf_cli", code / "mcf_cli", ignore=shutil.ignore_patterns("__pycache__"))
    assert checkout_of(code) == {"commit": None}


def test_a_checkout_has_its_commit_and_says_when_it_is_dirty(repository, tmp_path):
    shutil.copytree(ROOT / "mcf_cli", repository / "mcf_cli", ignore=shutil.ignore_patterns("__pycache__"))
    git(repository, "add", "mcf_cli")
    git(repository, "commit", "-qm", "the code")
    (repository / "notes.txt").write_text("beside the code")
    commit = git(repository, "rev-parse", "HEAD")
    assert checkout_of(repository) == {"commit": commit}
    with (repository / "mcf_cli" / "version.py").open("a") as file:
        file.write("# changed\n")
    python(repository, "-m", "mcf_cli", *BOUNDS, "--out", tmp_path / "out")
    environment = json.loads((tmp_path / "out" / "bounds" / "environment.json").read_text())
    assert (environment["commit"], environment["dirty"]) == (commit, True)
