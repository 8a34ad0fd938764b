"""Helpers that dress small files up as a verified form of a data set."""

import io
import tarfile
from pathlib import Path

from mcf_cli.datasets.store import registry
from mcf_cli.datasets.store.verify import Here


def here(name: str, form: str, *paths: Path) -> Here:
    """What a loader is given, for files that a test has just written, in the order of the form's files."""
    entry = registry.entry(name)
    chosen = entry.form(form)
    named = {file.name: path for file, path in zip(chosen.files, paths, strict=True)}
    return Here(entry, chosen, named, sha256="0" * 64, checked="sha256", source="test")


def write_tar(path: Path, members: dict[str, bytes], mode: str | None = None) -> Path:
    """A tar archive, compressed as its suffix or else the mode says."""
    mode = mode or {".gz": "w:gz", ".xz": "w:xz"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
