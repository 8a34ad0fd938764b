"""A small fixed sample of trials whose numbers stand in golden.json: they change with METHOD_VERSION or not at all.

    python -m tests.experiments.golden            # what differs from the numbers in the file
    python -m tests.experiments.golden --write    # after METHOD_VERSION was raised, or the sample itself changed

METHOD_VERSION is part of every trial's key. Where numbers change and it does not, a resumed run would mix numbers of
two kinds in one table. Every protocol but `cost` is here, whose numbers are times; every loss, surrogate, multi-class
form, penalty, corruption and aid. New items go to the end, so that the rows of the others stay where they are.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcf_cli.experiments.engine import Engine
from mcf_cli.experiments.load import load_config
from mcf_cli.experiments.plan import make_plan
from mcf_cli.experiments.run import run_plan
from mcf_cli.experiments.trial import METHOD_VERSION

from tests.experiments.tiny import Recorder

FILE = Path(__file__).with_name("golden.json")
CLOSE = 1e-7  # of a number; steps of an optimiser are not counted, rounding may cost or save one
TINY = 1e-9  # below this a number is rounding: the gap between two formulas that agree
NOT_COMPARED = {"seconds", "n_iter", "status", "data_source"}

Row = dict[str, Any]

REVIEWS = {"name": "builtin-reviews", "options": {"n_train": 60, "n_test": 60, "concepts": 10, "common": 40}}
TOPICS = {"name": "builtin-topics", "options": {"n_train": 60, "n_test": 60, "classes": 3, "common": 40}}
SPLICE = {"name": "builtin-splice", "options": {"n": 120}}
L2 = [0.01, 0.1]
HOLDOUT = {"by": "holdout", "l2": L2}

SAMPLE: dict[str, dict[str, Any]] = {
    "every-corruption": {
        "datasets": [TOPICS],
        "grid": [
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "none"},
            {
                "loss": ["quadratic", "exponential", "logistic"],
                "corruption": ["blankout", "dropout"],
                "q": 0.4,
            },
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "gaussian", "sigma": 0.3},
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "laplace", "scale": 0.3},
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "poisson"},
            {"loss": "logistic", "corruption": "poisson", "clip": 2.0},
        ],
        "select": HOLDOUT,
    },
    "every-bound": {
        "datasets": [REVIEWS, TOPICS],
        "grid": [
            {
                "loss": "logistic",
                "surrogate": ["jensen", "variational"],
                "multiclass": ["pairwise", "shared"],
                "corruption": "blankout",
                "q": 0.5,
            },
            {"loss": "logistic", "surrogate": "quadratic", "corruption": "blankout", "q": 0.5},
        ],
        "select": HOLDOUT,
    },
    "symbols": {
        "datasets": [SPLICE],
        "grid": [
            {"loss": ["quadratic", "logistic"], "corruption": ["bitswap", "multinomial"], "q": [0.1, 0.3]},
        ],
        "select": HOLDOUT,
        "evaluation": {"train": 60, "test": 60},
    },
    "baselines": {
        "datasets": [REVIEWS],
        "grid": [
            {"loss": "hinge", "corruption": "none"},
            {"loss": "hinge", "corruption": "fdrop", "budget": 2, "l2": 1.0},
            {"loss": "logistic", "corruption": "none", "penalty": "l1"},
        ],
        "select": HOLDOUT,
    },
    "chosen-q": {
        "datasets": [REVIEWS],
        "grid": [{"loss": "quadratic", "corruption": ["blankout", "dropout"]}],
        "select": {"by": "loo", "l2": L2, "q": [0.2, 0.5, 0.8]},
        "repeats": 2,
    },
    "folds": {
        "datasets": [SPLICE],
        "grid": [{"loss": "logistic", "corruption": "dropout", "q": 0.3}],
        "select": {"by": "cv", "folds": 2, "l2": L2},
        "evaluation": {"protocol": "cv", "folds": 2},
    },
    "scaled": {
        "datasets": ["builtin-digits"],
        "grid": [{"loss": "quadratic", "corruption": "gaussian", "sigma": 0.5}],
        "select": HOLDOUT,
        "prepare": {"scale": "standard"},
        "evaluation": {"train": 60, "test": 100},
    },
    "learning-curve": {
        "datasets": [REVIEWS],
        "grid": [{"loss": "logistic", "corruption": "blankout", "q": 0.5}],
        "select": HOLDOUT,
        "evaluation": {"protocol": "learning-curve", "sizes": [20, 60]},
        "repeats": 2,
    },
    "nightmare": {
        "datasets": ["builtin-digits"],
        "grid": [{"loss": ["quadratic", "logistic"], "corruption": "dropout"}],
        "select": {"l2": L2, "q": [0.2, 0.5]},
        "evaluation": {"protocol": "nightmare", "train": 60, "test": 100, "deletion": [0.0, 0.5]},
    },
    "copies": {
        "datasets": [REVIEWS],
        "grid": [{"loss": ["quadratic", "logistic"], "corruption": "blankout", "q": 0.5}],
        "select": HOLDOUT,
        "evaluation": {"protocol": "explicit", "copies": [1, 3]},
    },
    "leave-one-out": {
        "datasets": [TOPICS],
        "grid": [{"loss": "quadratic", "corruption": ["blankout", "dropout"], "q": 0.4}],
        "select": {"l2": L2},
        "evaluation": {"protocol": "loo", "train": 30},
    },
    "bounds": {
        "evaluation": {"protocol": "bounds", "q": [0.5], "lambdas": [0.0, 0.25], "margins": [-2, 0, 3]}
    },
    "thinned-and-rounded": {
        "datasets": [TOPICS],
        "grid": [
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "thinning", "q": 0.4},
            {"loss": ["quadratic", "exponential", "logistic"], "corruption": "uniform", "a": 0.3},
        ],
        "select": HOLDOUT,
    },
    "groups": {
        "datasets": [{**TOPICS, "column_groups": 5}],
        "grid": [
            {
                "loss": ["quadratic", "exponential", "logistic"],
                "corruption": ["group_dropout", "group_blankout"],
                "q": 0.4,
            },
        ],
        "select": HOLDOUT,
    },
    "expected-losses": {
        "datasets": [REVIEWS],
        "grid": [
            {"loss": "logistic", "surrogate": ["gaussian", "exact"], "corruption": "blankout", "q": 0.5}
        ],
        "select": HOLDOUT,
        "evaluation": {"protocol": "expected-loss"},
    },
    "wrong-labels": {
        "datasets": [REVIEWS],
        "grid": [{"loss": "logistic", "aid": ["none", "known-rates", "estimated-rates"]}],
        "select": HOLDOUT,
        "evaluation": {"protocol": "label-noise", "flips": [0.0, 0.3]},
    },
    "some-features": {
        "datasets": [REVIEWS],
        "grid": [{"loss": "logistic", "corruption": ["none", "dropout"]}],
        "select": {**HOLDOUT, "q": 0.5},
        "evaluation": {"protocol": "anytime", "features": [5, 20]},
    },
    "marks": {
        "datasets": ["builtin-digits"],
        "grid": [
            {"loss": "quadratic", "aid": ["mean", "conditional", "reduced"]},
            {"loss": "boosting", "corruption": ["none", "dropout"], "l2": 0},
        ],
        "select": {"l2": L2, "q": 0.5},
        "evaluation": {"protocol": "nightmare", "train": 60, "test": 100, "deletion": [0.0, 0.5]},
    },
    "unlabelled": {
        "datasets": [REVIEWS],
        "grid": [
            {
                "loss": "logistic",
                "surrogate": "gaussian",
                "corruption": "blankout",
                "q": 0.5,
                "aid": "unlabelled",
            }
        ],
        "select": HOLDOUT,
        "evaluation": {"protocol": "learning-curve", "sizes": [30]},
    },
    "another-domain": {
        "datasets": [REVIEWS],
        "grid": [
            {"loss": "quadratic", "aid": ["presence", "autoencoder", "autoencoder-test"]},
            {"loss": "quadratic", "corruption": "dropout", "q": 0.5, "aid": "target-rates"},
        ],
        "select": HOLDOUT,
        "autoencoder": {"q": 0.5, "layers": 2, "frequent": 20},
        "evaluation": {"train": 40, "test": 40},
    },
}


def measured(folder: Path) -> list[Row]:
    """The sample's rows, run in this process, without what may differ from one run to the next."""
    rows: list[Row] = []
    for item, config in SAMPLE.items():
        outcome = run_plan(
            make_plan(load_config({"item": item, **config})), folder, Engine("serial"), Recorder()
        )
        assert outcome.ok, outcome.failures
        rows += outcome.rows
    return [{k: v for k, v in row.items() if k not in NOT_COMPARED and v not in (None, "")} for row in rows]


def read() -> tuple[int, list[Row]]:
    """The METHOD_VERSION of the numbers in the file, and its rows."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return content["method_version"], content["rows"]


def write(rows: list[Row]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f'{{"method_version": {METHOD_VERSION}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def same(stored: Any, new: Any) -> bool:
    """Choices are the same; numbers are close."""
    if isinstance(stored, float) and isinstance(new, float):
        return math.isclose(stored, new, rel_tol=CLOSE, abs_tol=TINY)
    return stored == new


def differences(stored: list[Row], new: list[Row]) -> list[str]:
    """A line for every row that differs, and for rows that only one side has."""
    found = []
    for before, now in zip(stored, new, strict=False):
        names = [name for name in {**before, **now} if not same(before.get(name), now.get(name))]
        if names:
            what = ", ".join(f"{name} {before.get(name)!r} -> {now.get(name)!r}" for name in names)
            words = [
                str(now[key]) for key in ("item", "dataset", "loss", "corruption", "metric") if key in now
            ]
            found.append(f"{' '.join(words)}: {what}")
    if len(stored) != len(new):
        found.append(f"{len(stored)} rows -> {len(new)} rows: the sample itself changed")
    return found


def verdict(version: int, found: list[str]) -> str:
    """What to do, or nothing where the numbers are those of the file."""
    if version != METHOD_VERSION:
        return (
            f"golden.json holds numbers of METHOD_VERSION {version}, the code has {METHOD_VERSION}: "
            "take the new ones with `python -m tests.experiments.golden --write` and commit both together"
        )
    if not found:
        return ""
    return (
        "Numbers changed and METHOD_VERSION did not: a resumed run would mix both kinds. If the change is wanted, "
        "raise METHOD_VERSION (mcf_cli/experiments/trial.py) and take the new numbers with "
        "`python -m tests.experiments.golden --write`; if not, it is a fault.\n" + "\n".join(found[:20])
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--write", action="store_true", help="replace the numbers in golden.json")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(Path(folder))
    version, stored = read() if FILE.exists() else (0, [])
    found = differences(stored, rows)
    print(*found, f"{len(rows)} rows, {len(found)} differences", sep="\n")
    if given.write:
        write(rows)
        return 0
    words = verdict(version, found)
    print(words)
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
