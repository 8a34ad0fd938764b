"""What the correction for wrong labels costs: `python -m benchmarks.label_noise [amazon-books] [--l2 1e-3 1e-2]`.

A share of the training labels is wrong, drawn by seed. For each l2 the same model is fitted to them as they are and
with the rate known, in turns, and the processor time, the objective and the test error of both are printed.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from time import process_time

import numpy as np
from mcf_cli import MCFClassifier, datasets


def main() -> None:
    """Print one line for each l2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", default="amazon-books", help="a data set of two classes")
    parser.add_argument("--l2", type=float, nargs="+", default=[1e-4, 1e-3, 1e-2, 1e-1])
    parser.add_argument("--flips", type=float, default=0.2, help="the share of wrong labels")
    parser.add_argument("--corruption", help="for example blankout; none by default")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    data = datasets.load(given.dataset)
    train, test = data.splits["predefined"]
    X, y = data.X[train], data.y[train]
    seen = np.where(np.random.default_rng(0).random(len(y)) < given.flips, 1 - y, y)
    MCFClassifier(corruption=given.corruption, l2=1.0).fit(X[:200], seen[:200])  # compiles what is compiled
    print("      l2   times   seconds        objective        test error")
    for l2 in given.l2:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        models = {}
        for _ in range(given.rounds):
            for corrected in (False, True):
                noise = given.flips if corrected else None
                model = MCFClassifier(corruption=given.corruption, l2=l2, tol=1e-3, label_noise=noise)
                start = process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # what it warns of is in the table
                    models[corrected] = model.fit(X, seen)
                seconds[corrected].append(process_time() - start)
        plain, ours = (statistics.median(seconds[corrected]) for corrected in (False, True))
        objectives = " ".join(f"{models[c].objective_:8.3f}" for c in (False, True))
        errors = " ".join(f"{1 - models[c].score(data.X[test], data.y[test]):7.1%}" for c in (False, True))
        print(f"{l2:8.0e} {ours / plain:6.1f}x {plain:6.2f} {ours:6.2f} {objectives} {errors}", flush=True)


if __name__ == "__main__":
    main()
