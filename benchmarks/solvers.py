"""Newton's method beside L-BFGS on the paper's shapes: a path of l2, warm starts, the same stopping rule.

    python -m benchmarks.solvers amazon reuters mnist

Both stop when no entry of the gradient in scaled weights exceeds tol. The objectives are printed beside the times: a
solver that stops higher has not done the same work.
"""

import argparse
import time
from typing import Any

from mcf_cli import Blankout
from mcf_cli.core.problem import Problem

from benchmarks.shapes import PAPER, Shape, shapes

L2 = [1e-1, 1e-2, 1e-3, 1e-4]


def path(
    shape: Shape, method: str, tol: float, max_iter: int, **options: Any
) -> list[tuple[float, int, float]]:
    """Seconds, iterations and objective of each fit along L2."""
    problem, solution, steps = Problem(shape.X, shape.y, **options), None, []
    for l2 in L2:
        start = time.perf_counter()
        solution = problem.solve(Blankout(q=0.5), l2, solution, max_iter, tol, method)
        steps.append((time.perf_counter() - start, solution.n_iter, solution.objective))
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=["amazon", "reuters"], help=f"of {', '.join(PAPER)}")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-iter", type=int, default=300, help="of L-BFGS; a limit on what is waited for")
    options = parser.parse_args()
    for shape in shapes(options.shapes, real=True):
        print(f"\n{shape}")
        forms = {"": {}} if shape.n_classes == 2 else {"shared": {"multiclass": "shared"}, "pairwise": {}}
        for name, form in forms.items():
            found = {m: path(shape, m, options.tol, options.max_iter, **form) for m in ("newton", "lbfgs")}
            total = {method: sum(step[0] for step in steps) for method, steps in found.items()}
            print(
                f"  logistic {name}: L-BFGS takes {total['lbfgs'] / total['newton']:.1f} x the time of Newton"
            )
            for method, steps in found.items():
                told = ", ".join(f"{s:.2f} s ({n} it, {value:.5f})" for s, n, value in steps)
                print(f"    {method:7s} {total[method]:8.2f} s: {told}")


if __name__ == "__main__":
    main()
