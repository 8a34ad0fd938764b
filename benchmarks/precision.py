"""How precisely Newton's steps should be solved: `python -m benchmarks.precision splice symbols reviews`.

A fit at the default tolerance with the rule as it is, with steps that are always solved to 2% (no early exit), and with
steps that always end early (30%). It counts products with the second derivative and evaluations, which do not depend on
what else the machine does; a product and an evaluation cost about the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from mcf_cli import Blankout
from mcf_cli.core.design.objective import Hessian, Objective
from mcf_cli.core.problem import Problem
from mcf_cli.core.solvers import newton

from benchmarks.estimators import SHAPES, Data, symbols

RULES = {"rule": newton._DOUBT, "always 2%": (0.02, 0.02), "always early": (0.3, 0.3)}
DATA: dict[str, Callable[[], Data]] = SHAPES | {"splice": lambda: symbols(3_190)}
MODELS: dict[str, tuple[Any, str]] = {
    "plain": (None, "pairwise"),
    "blankout, `shared`": (Blankout(q=0.5), "shared"),
    "blankout, `pairwise`": (Blankout(q=0.5), "pairwise"),
}


class Counted:
    """A method that counts its calls."""

    calls = 0

    def __init__(self, owner: type, name: str):
        method = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            Counted.calls += 1
            return method(*arguments)

        setattr(owner, name, counted)


def work(X: Any, y: np.ndarray, corruption: Any, form: str) -> tuple[int, float]:
    """Products and evaluations of one fit, and its objective."""
    Counted.calls = 0
    solution = Problem(X, y, multiclass=form).solve(corruption, 0.5 / len(y), max_iter=400)
    return Counted.calls, solution.objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=["splice", "reviews"], help=f"of {', '.join(DATA)}")
    options = parser.parse_args()
    Counted(Hessian, "product")
    Counted(Objective, "expand")
    print(f"| | {' | '.join(RULES)} | rule / better | objectives differ by |\n|---|--:|--:|--:|--:|--:|")
    for shape in options.shapes:
        X, codes = DATA[shape]()
        y = np.unique(codes, return_inverse=True)[1]
        for name, (corruption, form) in MODELS.items():
            if form == "shared" and y.max() == 1:
                continue
            found = {}
            for rule, doubt in RULES.items():
                newton._DOUBT = doubt
                found[rule] = work(X, y, corruption, form)
            calls, values = zip(*found.values(), strict=True)
            spread = max(values) / min(values) - 1.0
            counts = " | ".join(map(str, calls))
            print(f"| {shape}, {name} | {counts} | {calls[0] / min(calls):.2f} | {spread:.0e} |", flush=True)


if __name__ == "__main__":
    main()
