"""``mcf config``: check a config, start one, or export its schema."""

from pathlib import Path

import click

from mcf_cli.errors import McfError


@click.group("config")
def command() -> None:
    """Check a config file, write a starting file, export the JSON schema."""


@command.command("check", short_help="Validate FILE and print the trials it would run.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--profile", help="Check as this profile would run it.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one value first; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="The trials as JSON.")
def check(file: Path, profile: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Validate FILE, on the data it names too, and print the trials that it would run."""
    import json

    from mcf_cli.experiments.loading import load_config
    from mcf_cli.experiments.plan import make_plan
    from mcf_cli.experiments.run import counted

    plan = make_plan(load_config(file, profile=profile, settings=settings))
    if as_json:
        click.echo(json.dumps([{"key": trial.key, **trial.params} for trial in plan.trials]))
        return
    for notice in plan.notices:
        click.echo(notice, err=True)
    for trial in plan.trials:
        click.echo(trial.label)
    click.echo(f"{file} is valid: {counted(len(plan.trials), 'trial')}.")


@command.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=Path("mcf.yaml"))
def init(file: Path) -> None:
    """Write a commented starting config to FILE (default: mcf.yaml)."""
    from mcf_cli.experiments.defaults import STARTING_FILE

    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(STARTING_FILE)
    except FileExistsError:
        raise McfError(f"{file} exists already: choose another name.") from None
    except OSError as error:
        raise McfError(f"{file}: cannot be written ({error.strerror}).") from None
    click.echo(f"Written: {file}. Edit it, then run `mcf config check {file}`.")


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of a config, for editors."""
    import json

    from mcf_cli.experiments.config import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))
