"""The commands about one model: train fits and saves it, predict applies it to new data."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from mcf_cli.cli.experiments import run_or_dry_run
from mcf_cli.cli.options import NUMBER_LIST, RATES, GroupedCommand, RunOptions, run_options
from mcf_cli.experiments.flags import Request, load_request
from mcf_cli.experiments.load import SCRATCH
from mcf_cli.experiments.plan import make_plan
from mcf_cli.experiments.run import MODEL, RunOutcome, with_own_folder
from mcf_cli.experiments.train import (
    METRICS,
    check_one_model,
    final_model,
    number_errors,
    save_model,
)
from mcf_cli.files import write_text
from mcf_cli.reporting.advice import beside_plain, beside_words


@click.command(
    "train",
    cls=GroupedCommand,
    epilog="Example: mcf train --dataset reviews.csv --corruption dropout --q 0.3,0.5,0.7",
)
@click.option(
    "--loss", help="quadratic, exponential or logistic.  [default: logistic, or quadratic for a regression]"
)
@click.option(
    "--corruption",
    help="none, blankout, dropout, gaussian, laplace, poisson, bitswap, multinomial, thinning, uniform, "
    "group_dropout or group_blankout.",
)
@click.option(
    "--q",
    type=RATES,
    help="The corruption level, several to choose from, or observed (how often each column is missing).",
)
@click.option("--l2", type=NUMBER_LIST, help="The penalty, or several to choose from.")
@click.option(
    "--final",
    type=click.Choice(["train", "all"]),
    help="Fit the saved model to training rows or to all rows; errors come from held-out rows either way.  "
    "[default: train]",
)
@click.option(
    "--missing",
    type=click.Choice(["deleted", "mean", "conditional"]),
    help="How to treat missing cells in rows to predict.  [default: deleted]",
)
@run_options
def train_command(
    options: RunOptions,
    loss: str | None,
    corruption: str | None,
    q: object,
    l2: object,
    final: str | None,
    missing: str | None,
) -> None:
    """Fit one model, print its errors and the plain model's, and write model.npz, metrics.json and config.yaml.

    Validation rows choose among several l2 or q. Without --config it trains on built-in reviews, with the
    logistic loss and blankout. The folder is then named after data, loss and corruption; a folder that holds
    another model is left alone.
    """
    if options.task == "regression" and options.config is None:
        loss = loss or "quadratic"
    flags = {"select.q": q, "select.l2": l2, "final": final, "missing": missing}
    method = {"loss": loss, "corruption": corruption}
    losses, corruptions = ((word,) if word else () for word in method.values())
    train_model(Request("train", ("split",), flags, losses, corruptions, method=method), options)


def train_model(request: Request, options: RunOptions) -> None:
    """Train and exit: 0 with a model, 1 when a trial failed."""
    plan, out = make_plan(load_request(request, options.config, options.given())), options.out or SCRATCH
    check_one_model(plan)
    plan = with_own_folder(plan, out, MODEL, named=options.config is not None, force=options.force)
    outcome = run_or_dry_run(plan, options, out)
    if outcome is None:
        return
    if not outcome.ok:
        for label, reason in outcome.failures.items():
            click.echo(f"failed: {label}: {reason}", err=True)
        sys.exit(1)
    plain = beside_plain(outcome)
    model, dataset, metrics = final_model(outcome)
    metrics |= {"plain": plain} if plain else {}
    save_model(model, dataset, metrics, outcome.folder)
    write_text(outcome.folder / METRICS, json.dumps(metrics, indent=2) + "\n")
    _say(outcome, metrics, options)


def _say(outcome: RunOutcome, metrics: dict[str, Any], options: RunOptions) -> None:
    if options.as_json:
        click.echo(json.dumps({**metrics, "model": str(outcome.folder / MODEL)}))
        return
    chosen = ", ".join(f"{name} {value}" for name, value in metrics["chosen"].items())
    mark = {"real": "", "user": ""}.get(metrics["data_source"], f" ({metrics['data_source']} data)")
    click.echo(f"{metrics['dataset']}{mark}: {chosen}")
    click.echo(_errors(metrics))
    if "plain" in metrics:
        click.echo(beside_words(metrics["plain"]))
    for sentence in _further(metrics):
        click.echo(sentence)
    click.echo(f"Written to {outcome.folder}: {MODEL}, {METRICS}, config.yaml")


def _errors(metrics: dict[str, Any]) -> str:
    if "test_error" in metrics:
        return f"training error {metrics['train_error']:.2%}, test error {metrics['test_error']:.2%}"
    return "; ".join(
        f"{word} rows: {number_errors(metrics[f'{name}_mse'], metrics[f'{name}_r2'])}"
        for name, word in {"train": "training", "test": "test"}.items()
    )


def _further(metrics: dict[str, Any]) -> list[str]:
    """What else a reader of the errors has to know."""
    rows, missing, said = metrics["rows"], metrics["missing"], []
    for name, what, form in (("error", "error", ".2%"), ("mse", "mean squared error", ".4g")):
        if repeats := metrics.get(f"test_{name}_over_repeats"):
            spread = f"{repeats['mean']:{form}} ± {repeats['deviation']:{form}}"
            said.append(
                f"test {what} over {repeats['count']} repeats: {spread}; the model is that of the first"
            )
    if any(missing.values()):
        said.append(
            f"missing values: {missing['train']:,} in the training rows, taken as deleted; "
            f"{missing['test']:,} in the test rows, taken as {metrics['missing_as']}"
        )
    if not metrics["converged"]:
        said.append("the fit did not converge: raise fit.max_iter, fit.tol (--set) or l2")
    if metrics["fitted_to"] == "all":
        said.append(
            f"the errors come from a fit to {rows['train']:,} rows, with {rows['test']:,} held out; "
            f"{MODEL} is fitted to all of them"
        )
    return said


@click.command(
    "predict",
    cls=GroupedCommand,
    epilog="Example: mcf predict --model model.npz --data new.csv",
)
@click.option(
    "--model",
    "model_path",
    type=click.Path(path_type=Path),
    required=True,
    help="A model.npz that `mcf train` wrote.",
)
@click.option(
    "--data", required=True, help="A .svmlight, .csv, .tsv or .npz file, or the name of a data set."
)
@click.option("--out", type=click.Path(path_type=Path), help="The CSV to write.  [default: stdout]")
@click.option("--probabilities", is_flag=True, help="Add the probability of each class (logistic loss).")
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="Whether svmlight columns count from 0 or from 1.  [default: from 0 if a column 0 occurs, else from 1]",
)
@click.option("--ignore-extra", is_flag=True, help="Ignore columns that the model does not know.")
@click.option(
    "--missing",
    type=click.Choice(["deleted", "mean", "conditional"]),
    help="How to treat missing cells.  [default: as the model was trained]",
)
def predict_command(
    model_path: Path,
    data: str,
    out: Path | None,
    probabilities: bool,
    zero_based: bool | None,
    ignore_extra: bool,
    missing: str | None,
) -> None:
    """Write predictions as CSV: row, prediction and, with --probabilities, the probability of each class.

    Named columns are matched by name, in any order. A label column is compared with the predictions. Columns are
    scaled as in training. Missing cells count as deleted, unless the model was trained with --missing mean or
    conditional.
    """
    from mcf_cli.experiments.train import (
        choose_missing,
        compared,
        compared_numbers,
        load_model,
        opened_rows,
        write_predictions,
    )
    from mcf_cli.files import refuse_own_input, whole_file

    if out is not None:
        refuse_own_input("--out", out, data, model_path)
    model = load_model(model_path)
    choose_missing(model, missing)
    with opened_rows(data, model, zero_based, ignore_extra) as (X, labels, notices):
        for notice in notices:
            click.echo(notice, err=True)
        if out is None:
            write = partial(click.echo, nl=False, color=True)  # as it is: click takes escapes out of data too
            predicted = write_predictions(write, model, X, probabilities)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(out) as part, part.open("w", encoding="utf-8") as file:
                predicted = write_predictions(file.write, model, X, probabilities)
    if labels is not None:
        classes = getattr(model, "classes_", None)  # a regressor has none
        said = (
            compared_numbers(predicted, labels, data)
            if classes is None
            else compared(predicted, labels, classes, data)
        )
        if said:
            click.echo(said, err=True)
