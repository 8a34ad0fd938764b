"""What each command runs when it is given no config: small experiments on built-in data."""

from typing import Any

LOSSES = ["quadratic", "exponential", "logistic"]
L2 = [0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0]
LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]

DEFAULTS: dict[str, dict[str, Any]] = {
    "train": {
        "item": "train",
        "datasets": ["builtin-reviews"],
        "grid": [{"loss": "logistic", "corruption": "blankout"}],
        "select": {"l2": L2, "q": LEVELS},
    },
    "sweep-q": {
        "item": "sweep-q",
        "datasets": ["builtin-reviews"],
        "grid": [
            {"loss": LOSSES, "corruption": "blankout", "q": {"from": 0, "to": 0.9, "step": 0.1}},
            {"loss": LOSSES, "corruption": "poisson"},
        ],
        "select": {"l2": L2},
    },
    "nightmare": {
        "item": "nightmare",
        "datasets": ["builtin-digits"],
        "evaluation": {"protocol": "nightmare", "deletion": [0, 0.25, 0.5, 0.75], "validation": 0.2},
        "grid": [
            {"loss": LOSSES, "corruption": "dropout"},
            {"loss": LOSSES, "corruption": "none", "penalty": ["l2", "l1"]},
            {"loss": "hinge"},
            {"loss": "hinge", "corruption": "fdrop"},
        ],
        "select": {"l2": [1e-4, 1e-3, 1e-2, 0.1], "q": [0.2, 0.5, 0.8], "budget": [3, 10]},
    },
    "learning-curve": {
        "item": "learning-curve",
        "datasets": ["builtin-topics"],
        "evaluation": {"protocol": "learning-curve", "sizes": [100, 200, 400]},
        "grid": [
            {"loss": LOSSES, "corruption": ["none", "poisson"]},
            {"loss": LOSSES, "corruption": "blankout"},
        ],
        "select": {"l2": [1e-4, 1e-2, 1.0], "q": [0.3, 0.6, 0.9], "by": "holdout"},
        "repeats": 2,
    },
    "explicit": {
        "item": "explicit",
        "datasets": ["builtin-reviews"],
        "evaluation": {"protocol": "explicit", "copies": [1, 2, 4, 8, 16]},
        "grid": [
            {"loss": "quadratic", "corruption": "blankout"},
            {"loss": "quadratic", "corruption": "poisson"},
        ],
        "select": {"l2": L2, "q": [0.3, 0.6, 0.9], "by": "holdout"},
    },
    "bounds": {"item": "bounds", "evaluation": {"protocol": "bounds"}},
    "table": {
        "item": "table",
        "datasets": ["builtin-textures"],
        "grid": [
            {"loss": LOSSES, "corruption": ["none", "poisson"]},
            {"loss": LOSSES, "corruption": "blankout"},
        ],
        "select": {"l2": [1e-4, 1e-2, 1.0], "q": [0.2, 0.5, 0.8], "by": "holdout"},
    },
}

STARTING_FILE = """\
# An experiment for mcf. Check it with `mcf config check FILE`, run it with `mcf sweep-q --config FILE`.
# Every key is explained by `mcf config schema`.

item: my-experiment            # the results go to <out>/my-experiment
datasets:                      # names from `mcf data list`, or paths to .svmlight, .csv or .npz files
  - {name: amazon-books, fallback: builtin-reviews}
seed: 2013                     # decides splits, folds and deleted features; the same for every method

grid:                          # product within an entry, union across entries
  - loss: [quadratic, exponential, logistic]
    corruption: blankout       # none, blankout, dropout, gaussian, laplace, poisson, bitswap, multinomial
    q: {from: 0.0, to: 0.9, step: 0.1}     # or one value, or a list
  - {loss: [quadratic, exponential, logistic], corruption: poisson}

select:                        # chosen on validation rows
  l2: [0, 1.0e-4, 1.0e-3, 1.0e-2, 0.1]
  by: cv                       # cv, holdout, or loo (quadratic loss only)
  folds: 5

evaluation: {protocol: split}  # split, cv, learning-curve, nightmare, explicit, bounds, cost, loo
repeats: 1

profiles:                      # what --profile smoke or --profile quick overrides
  smoke:
    datasets: [builtin-reviews]
    select: {l2: [1.0e-3, 1.0e-2], by: holdout}
"""
