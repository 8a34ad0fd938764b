"""Fits with the variational bound beside fits with Jensen's, in turns, on the processor's clock.

    python -m benchmarks.surrogates amazon dense pixels splice

Both minimise to the same `tol`; the number printed first is the ratio of the best times.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from mcf_cli import Blankout, Gaussian
from mcf_cli.core.problem import Problem, Solution

from benchmarks.shapes import shapes

Rows = tuple[str, Any, np.ndarray]
CORRUPTIONS = {"blankout": Blankout(q=0.5), "gaussian": Gaussian(sigma=0.1)}


def dense_rows() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 300))
    y = (X @ rng.normal(size=300) + 5.0 * rng.normal(size=5_000) > 0).astype(int)
    return "dense, 5,000 x 300", X, y


def pixel_rows() -> Rows:
    """Two digits of MNIST."""
    (shape,) = shapes(["mnist"])
    held = np.flatnonzero((shape.y == 3) | (shape.y == 8))[:4_000]
    X = sp.csr_matrix(shape.X[held])
    X.data = X.data / X.data.max()
    return f"pixels, {X.shape[0]:,} x {X.shape[1]}", X, (shape.y[held] == 8).astype(int)


def splice_rows() -> Rows:
    from mcf_cli.datasets import load

    data = load("splice")
    return "splice, three classes", sp.csr_matrix(data.X), data.y


def paper_rows(name: str) -> Rows:
    (shape,) = shapes([name])
    return str(shape), shape.X, shape.y


ROWS: dict[str, Callable[[], Rows]] = {"dense": dense_rows, "pixels": pixel_rows, "splice": splice_rows}


def contest(X: Any, y: np.ndarray, corruption: Any, l2: float, tol: float, rounds: int) -> Iterator[str]:
    """One line for each form of the multi-class loss."""
    for form in ("pairwise", "shared") if y.max() > 1 else ("pairwise",):
        seconds: dict[str, list[float]] = {"jensen": [], "variational": []}
        found: dict[str, Solution] = {}
        for _ in range(rounds):
            for name, taken in seconds.items():
                problem = Problem(X, y, surrogate=name, multiclass=form)
                start = time.process_time()
                found[name] = problem.solve(corruption, l2, tol=tol)
                taken.append(time.process_time() - start)
        best = {name: min(taken) for name, taken in seconds.items()}
        told = ", ".join(
            f"{name} {best[name]:.3f} s ({solution.n_iter} it{'' if solution.converged else ', not converged'})"
            for name, solution in found.items()
        )
        yield f"{form}: {best['variational'] / best['jensen']:.1f}; {told}; {found['variational'].objective:.9f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=["amazon", "dense", "pixels", "splice"])
    parser.add_argument("--corruptions", nargs="*", default=list(CORRUPTIONS), choices=list(CORRUPTIONS))
    parser.add_argument("--l2", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in options.rows:
        told, X, y = ROWS[name]() if name in ROWS else paper_rows(name)
        print(told, flush=True)
        for corruption in options.corruptions:
            arguments = X, y, CORRUPTIONS[corruption], options.l2, options.tol, options.rounds
            for line in contest(*arguments):
                print(f"  {corruption}, {line}", flush=True)


if __name__ == "__main__":
    main()
