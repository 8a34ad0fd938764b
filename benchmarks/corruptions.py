"""Processor time and memory of fits under one corruption beside another, each fit in a process of its own.

    python -m benchmarks.corruptions text dense --rounds 2

`text`: Gaussian noise beside blankout on Zipf counts, 11,314 x 100,000, 20 classes; `quarter`: a quarter of the
rows and terms. `dense`: blankout beside the plain model on normal features, 50,000 x 300, five classes. The first of
each group is the unit; memory is the peak above the state before the fit.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mcf_cli import Blankout, Gaussian
from mcf_cli.core.problem import Problem

from benchmarks.shapes import zipf_shape

Rows = tuple[Any, np.ndarray]
CORRUPTIONS = {"blankout": Blankout(q=0.5), "gaussian": Gaussian(sigma=0.1), "plain": None}


def text_rows(share: int = 1) -> Rows:
    shape = zipf_shape("text", 11_314 // share, 100_000 // share, 20, 150)
    return shape.X, shape.y


def dense_rows(classes: int = 5) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 300))
    scores = X @ rng.normal(size=(300, classes)) * 0.1
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


ROWS: dict[str, Callable[[], Rows]] = {
    "text": text_rows,
    "quarter": lambda: text_rows(4),
    "dense": dense_rows,
}
NOISE = [
    [(name, loss, form) for name in ("blankout", "gaussian")]
    for loss, form in (("logistic", "pairwise"), ("logistic", "shared"), ("quadratic", "pairwise"))
]
# data: groups of (corruption, loss, form)
GROUPS: dict[str, list[list[tuple[str, str, str]]]] = {
    "text": NOISE,
    "quarter": NOISE,
    "dense": [
        [("plain", "logistic", "pairwise")]
        + [("blankout", "logistic", form) for form in ("pairwise", "shared")]
    ],
}


def peak() -> float:
    """Megabytes that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fitted(rows: str, name: str, loss: str, form: str, l2: float, tol: float) -> dict[str, Any]:
    """One fit after a small one that loads the compiled loops."""
    X, y = ROWS[rows]()
    Problem(X[:500], y[:500], loss=loss, multiclass=form, n_classes=int(y.max()) + 1).solve(
        CORRUPTIONS[name], 1.0, max_iter=1
    )
    before, start = peak(), time.process_time()
    solution = Problem(X, y, loss=loss, multiclass=form).solve(CORRUPTIONS[name], l2, tol=tol)
    return {
        "seconds": time.process_time() - start,
        "megabytes": peak() - before,
        "iterations": solution.n_iter,
        "converged": solution.converged,
        "objective": solution.objective,
    }


def in_a_process(*arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.corruptions", "--one", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=["text", "dense"])
    parser.add_argument("--l2", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(fitted(*options.one)))
        return
    for rows in options.rows:
        for group in GROUPS[rows]:
            found: dict[tuple[str, str, str], list[dict[str, Any]]] = {case: [] for case in group}
            for _ in range(options.rounds):
                for case, fits in found.items():
                    fits.append(in_a_process(rows, *case, options.l2, options.tol))
            unit = min(fit["seconds"] for fit in found[group[0]])
            for case, fits in found.items():
                best = min(fits, key=lambda fit: fit["seconds"])
                told = f"{best['seconds']:.2f} s, {best['megabytes']:.0f} MB, {best['iterations']} it"
                converged = "" if best["converged"] else ", not converged"
                ratio = best["seconds"] / unit
                print(
                    f"{rows}, {', '.join(case)}: {ratio:.2f}; {told}{converged}; {best['objective']:.9f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
