"""What a surrogate makes of the expected loss that it bounds, beside its test error."""

from typing import Any

from mcf_cli.core.prediction import expected_loss
from mcf_cli.datasets.dataset import Dataset
from mcf_cli.experiments.evaluate import fitted, metric_rows
from mcf_cli.experiments.learners import make_corruption
from mcf_cli.experiments.rows import EVIDENCE
from mcf_cli.experiments.trial import Params


def with_expected_loss(params: Params, dataset: Dataset) -> list[dict[str, Any]]:
    """A split, and the mean of E log(1 + e^{-y z}) under the method's corruption, exact and without l2.

    Rows of `train_expected_loss` and `test_expected_loss` stand beside the test error. The plain model has none: it
    bounds nothing.
    """
    dataset, (train, test), choice, solution = fitted(params, dataset)
    rows = metric_rows(choice, solution, dataset.X[test], dataset, test)
    if params["method"]["corruption"] == "none":
        return rows
    corruption = make_corruption(params["method"], dataset)
    for part, those in (("train", train), ("test", test)):
        value = expected_loss(
            solution.coef, solution.intercept, dataset.X[those], dataset.y[those], corruption
        )
        common = {name: cell for name, cell in rows[0].items() if name != EVIDENCE}
        rows.append({**common, "metric": f"{part}_expected_loss", "value": value})
    return rows
