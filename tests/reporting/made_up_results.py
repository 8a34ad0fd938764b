"""A results folder as `mcf reproduce` leaves it, filled with made-up rows."""

import json

import numpy as np
import yaml
from mcf_cli.experiments.rows import EVIDENCE, Evidence, evidence_of
from mcf_cli.experiments.trial import METHOD_VERSION
from mcf_cli.reporting import figures
from mcf_cli.reporting.panels import save_figure

from tests.reporting import made_up_rows

COLUMNS = (
    *(
        "item",
        "dataset",
        "data_source",
        "loss",
        "surrogate",
        "multiclass",
        "penalty",
        "corruption",
        "q",
        "budget",
    ),
    *(
        "l2",
        "deletion",
        "train_size",
        "copies",
        "lam",
        "margin",
        "repeat",
        "fold",
        "metric",
        "value",
        "status",
    ),
)
SIX = (*made_up_rows.AMAZON, "reuters", "dmoz")
ITEMS = {
    "fig1": (made_up_rows.bounds, {"figure": 1}),
    "fig3": (lambda: made_up_rows.q_sweep(datasets=SIX, forms=("pairwise", "shared")), {"figure": 3}),
    "fig4": (lambda: made_up_rows.q_sweep([0.9, 0.95, 0.99, 0.999]), {"figure": 4}),
    "fig5": (made_up_rows.learning_curve, {"figure": 5}),
    "fig6": (made_up_rows.explicit, {"figure": 6}),
    "fig7": (made_up_rows.surrogates, {"figure": 7}),
    "fig8": (made_up_rows.splice, {"figure": 8}),
    "fig9": (made_up_rows.nightmare, {"figure": 9}),
    "table3": (lambda: renamed(made_up_rows.cifar(), "cifar10-words"), {"table": 3}),
    "cost": (made_up_rows.cost, {"section": "Exponential loss"}),
    "loo": (made_up_rows.leave_one_out, {"section": "Quadratic loss"}),
}


def renamed(rows, dataset):
    return rows.assign(dataset=dataset)


def write_item(
    folder,
    name,
    rows,
    paper=None,
    *,
    done=10,
    expected=10,
    notes=(),
    profile="paper",
    figure=False,
    evidence=True,
    environment=None,
):
    """One item's files, with errors example by example; ``figure`` draws it too."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    if evidence:
        rows = made_up_rows.with_evidence(rows).reset_index(drop=True)
        kept = [
            {EVIDENCE: evidence_of(line.wrong, line.tested, ("made up", made_up_rows.EXAMPLES))}
            if isinstance(line.wrong, np.ndarray)
            else {}
            for line in rows.itertuples()
        ]
        Evidence.of(kept).write(target)
        rows = rows.drop(columns=["wrong", "tested"])
    rows = rows.reindex(columns=[*dict.fromkeys([*COLUMNS, *rows.columns])])
    rows.to_csv(target / "rows.csv", index=False)
    config = {"item": name, "title": f"Item {name}", "paper": paper or {}}
    (target / "config.yaml").write_text(yaml.safe_dump(config))
    datasets = rows[["dataset", "data_source"]].dropna().drop_duplicates().to_dict("records")
    known = {"mcf": "0", "method": METHOD_VERSION} if environment is None else environment
    environment = {
        **known, "commit": "c0ffee", "python": "3", "packages": {"numpy": "2"}, "platform": "made up",
        "cores": 2, "profile": profile, "trials": {"expected": expected, "done": done, "failed": 0, "seconds": 120.0},
        "data": [
            {"name": d["dataset"], "source": d["data_source"], "sha256": "ab" * 32, "notes": list(notes),
             "shape": [10, 20], "n_classes": 2}
            for d in datasets
        ],
    }  # fmt: skip
    (target / "environment.json").write_text(json.dumps(environment))
    if figure:
        save_figure(figures.draw(rows, (paper or {}).get("figure")), target / "figure")


def write_all(folder, figures_of=()):
    """Every item of the paper, some with figures."""
    for name, (make, paper) in ITEMS.items():
        write_item(folder, name, make(), paper, figure=name in figures_of)
