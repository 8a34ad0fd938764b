"""What there is, what of it is here, where it came from and whether it can be trusted."""

from collections.abc import Iterable
from dataclasses import asdict

from mcf_cli.datasets import fetch, home, verify
from mcf_cli.datasets.archives import BadFile
from mcf_cli.datasets.entry import Entry, Form


def catalogue(entries: Iterable[Entry], *, again: bool = False) -> list[dict]:
    """One record a data set; ``again`` verifies every file anew, whatever the stamps say."""
    return [_record(entry, again) for entry in entries]


def _record(entry: Entry, again: bool) -> dict:
    forms = [_form_record(entry, form, again) for form in entry.forms]
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "homepage": entry.homepage,
        "here": any(form["state"] == "here" and form["enough"] for form in forms),
        "folder": str(home.dataset_folder(entry.name)),
        "forms": forms,
        "sources": [fetch.describe(source) for source in entry.sources],
    }


def _form_record(entry: Entry, form: Form, again: bool) -> dict:
    record = {
        "form": form.name,
        "about": form.about,
        "enough": form.enough,
        "shapes": {name: asdict(shape) for name, shape in form.shapes.items()},
        "files": {file.name: {c.name: c.sha256 for c in file.contents} for file in form.files},
        "state": "missing",
    }
    try:
        here = verify.form_here(entry, form, again=again)
    except BadFile as error:
        return {**record, "state": "damaged", "problem": str(error)}
    if here is None:
        return record
    paths = {name: path.name for name, path in here.paths.items()}
    found = {"state": "here", "source": here.source, "size": here.size, "verified": here.checked}
    return {**record, **found, "sha256": here.sha256, "paths": paths}
