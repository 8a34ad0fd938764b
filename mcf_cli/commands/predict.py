"""``mcf predict``: a saved model on new data."""

from pathlib import Path

import click


@click.command("predict")
@click.option(
    "--model", "model_path", type=click.Path(path_type=Path), required=True, help="model.npz of `mcf train`."
)
@click.option("--data", required=True, help="A .svmlight, .csv or .npz file, or the name of a data set.")
@click.option("--out", type=click.Path(path_type=Path), help="The CSV to write; default: stdout.")
@click.option("--probabilities", is_flag=True, help="Add the probability of each class (logistic loss).")
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="How svmlight columns count; default: from 0 where a column 0 occurs, else from 1.",
)
def command(
    model_path: Path, data: str, out: Path | None, probabilities: bool, zero_based: bool | None
) -> None:
    """Predictions as CSV: row, prediction, and on request the probability of each class."""
    from mcf_cli.experiments.files import write_text
    from mcf_cli.experiments.predicting import compared, load_model, predictions_csv, read_rows

    model = load_model(model_path)
    X, labels, notices = read_rows(data, model.n_features_in_, zero_based)
    for notice in notices:
        click.echo(notice, err=True)
    text, predicted = predictions_csv(model, X, probabilities)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, text)
    if labels is not None and hasattr(model, "classes_"):  # a regressor has none
        click.echo(compared(predicted, labels, model.classes_, data), err=True)
