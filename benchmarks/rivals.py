"""Time to reach the test error of a marginalised model without marginalising: `python -m benchmarks.rivals`.

The claim under test: reaching the accuracy of MCF by explicit corruption costs at least 20 times more.

q and l2 are those with which MCF does best on a validation part of the training rows, one pair for each loss, and a
rival has the pair of its loss; with `--own`, each rival has the pair with which it does best itself. PyTorch's learning
rate is chosen on the same part. No choosing is timed. Then everyone is fitted to all training rows, and a rival gets
more copies, or more passes, until its median error over a few seeds is MCF's plus a tolerance or its budget is over.

The test rows say when to stop, for everyone: the first number of copies or passes that is good enough counts, and the
time is that of the right number of copies alone; MCF's is that of the loosest tolerance that is good enough. In MCF's
favour: q and l2 suit it, unless `--own`. Everything runs in one process with the same number of threads. `reuters`,
with 65 classes, is run on demand: choosing for it takes long.
Writes benchmarks/rivals.json.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from mcf_cli.core.problem import Problem
from threadpoolctl import threadpool_limits

from benchmarks.contestants import (
    MAX_ITER,
    TOL,
    Point,
    Rival,
    Settings,
    fitted,
    logistic_lbfgs,
    marginalised,
    rivals,
    why_not,
)
from benchmarks.tasks import TASKS, Task, tasks

CLAIM = 20.0
LOSSES = ("logistic", "quadratic")
STOPS = (1e-1, 1e-2, 1e-3, TOL)  # tolerances of MCF; the last is that of its rivals
Q = (0.1, 0.3, 0.5, 0.7, 0.9)
L2 = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # descending: of equals, the strongest is taken
QUICK = ["amazon-books", "amazon-kitchen", "mnist"]
ONE = {"copies": "copy", "passes": "pass"}
Result = dict[str, Any]


# -- choosing, which nobody is charged for -------------------------------------------------------------------
def choose(loss: str, task: Task) -> tuple[Settings, float]:
    """q and l2 with the lowest validation error of MCF, and that error; each l2 starts from the one before."""
    problem = Problem(task.fitting.X, task.fitting.y, loss=loss, n_classes=task.n_classes)
    errors = {}
    for q in Q:
        settings, solution = Settings(task.corruption(q=q), L2[0]), None
        for l2 in L2:
            solution = problem.solve(settings.corruption, l2, solution, max_iter=MAX_ITER, tol=10 * TOL)
            errors[settings._replace(l2=l2)] = task.validation.error(solution)
    best = min(errors, key=errors.__getitem__)
    return best, errors[best]


def tuned(rival: Rival, task: Task, shared: Settings, own: bool) -> Settings:
    """The shared settings, or the rival's own, with the learning rate that does best."""
    pairs = [Settings(task.corruption(q=q), l2) for q, l2 in product(Q, L2)] if own else [shared]
    candidates = [settings._replace(rate=rate) for settings in pairs for rate in rival.rates]
    return candidates[0] if len(candidates) == 1 else min(candidates, key=lambda s: tried(rival, task, s))


def tried(rival: Rival, task: Task, settings: Settings) -> float:
    """Validation error after the few copies or passes that a choice is made with."""
    for point in rival.run(task.fitting, task.validation, settings, seed=0):
        if point.amount >= rival.tried:
            break
    return point.error


# -- measuring ------------------------------------------------------------------------------------------------
def measure_mcf(loss: str, task: Task, options: Any) -> tuple[Settings, Result]:
    """Median times of whole fits, converged and at the loosest tolerance that is as good.

    One step of another fit comes first: what is loaded or compiled once is not a fit's.
    """
    settings, validation_error = choose(loss, task)
    model = marginalised(loss, settings)
    fitted(model.set_params(max_iter=1), task.train.X, task.train.y)
    model.set_params(max_iter=MAX_ITER)
    converged = timed(model, task, options.seeds)
    first = (timed(model.set_params(tol=tol), task, options.seeds) for tol in STOPS)
    enough = next(fit for fit in first if fit["error"] <= allowed(converged, options.tolerance))
    return settings, {
        **shown(settings),
        "validation_error": validation_error,
        "error": converged["error"],  # what rivals have to reach
        "converged_fit": converged,
        "seconds": enough["seconds"],  # of the loosest fit that reaches it too
        "first_fit": enough,
    }


def timed(model: Any, task: Task, rounds: int) -> Result:
    """The median time of a fit, and what came of it."""
    seconds = []
    for _ in range(rounds):
        start = perf_counter()
        fitted(model, task.train.X, task.train.y)
        seconds.append(perf_counter() - start)
    return {
        "tol": model.tol,
        "seconds": median(seconds),
        "error": task.test.error(model),
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def measure_plain(task: Task) -> Result:
    """scikit-learn's LogisticRegression on the clean rows with its own best l2: what no corruption at all gives."""

    def fit(part: Any, l2: float) -> Any:
        return fitted(logistic_lbfgs(len(part.y), l2), part.X, part.y)

    l2 = min(L2, key=lambda l2: task.validation.error(fit(task.fitting, l2)))
    start = perf_counter()
    model = fit(task.train, l2)
    return {"l2": l2, "seconds": perf_counter() - start, "error": task.test.error(model)}


def measure_rival(rival: Rival, task: Task, settings: Settings, goal: float, options: Any) -> Result:
    """Medians over seeds, amount by amount, until the error is `goal` or less or the budget is over.

    What has begun is finished, so that a rival may overrun; seeds that the budget has no room for are left out. As
    for MCF, a little of the work is done once before the clock runs.
    """
    next(rival.run(task.fitting, task.validation, settings, seed=0))
    trials = [rival.run(task.train, task.test, settings, seed) for seed in range(options.seeds)]
    start, curve, stopped = perf_counter(), [], None
    while stopped is None:
        points = within(trials, start + options.budget)
        if not points:
            stopped = "no room for more copies"
            break
        seconds, error = (median(point[field] for point in points) for field in (1, 2))
        curve.append({"amount": points[0].amount, "seconds": seconds, "error": error, "seeds": len(points)})
        if error <= goal:
            stopped = "reached"
        elif perf_counter() > start + options.budget:
            stopped = "budget"
    return {"unit": rival.unit, **shown(settings), "stopped": stopped, "curve": curve}


def within(trials: Iterable[Any], deadline: float) -> list[Point]:
    """The next point of each trial; none is begun after the deadline but the first."""
    points = []
    for trial in trials:
        if points and perf_counter() > deadline:
            break
        points += [point] if (point := next(trial, None)) else []
    return points


def shown(settings: Settings) -> Result:
    rate = {} if settings.rate is None else {"learning_rate": settings.rate}
    return {"q": settings.corruption.q, "l2": settings.l2, **rate}


# -- comparing ------------------------------------------------------------------------------------------------
def against(curve: list[Result], mcf: Result, tolerance: float) -> Result:
    """Cost of the first point as good as MCF; without one, the cost of the last point, which was not enough."""
    good = [point for point in curve if point["error"] <= allowed(mcf, tolerance)]
    point = good[0] if good else curve[-1]
    return {
        "reached": bool(good),
        "amount": point["amount"],
        "seconds": point["seconds"],
        "ratio": point["seconds"] / mcf["seconds"],
        "best_error": min(point["error"] for point in curve),
    }


def allowed(mcf: Result, tolerance: float) -> float:
    """The error that counts as the same; the last digits of a share of rows are no reason to miss it."""
    return mcf["error"] + tolerance + 1e-12


def verdict(duels: dict[str, Result]) -> Result:
    """Whether the cheapest way to MCF's error costs CLAIM times as much; a rival that never got there costs more
    than what it was given, so it can leave the question open but cannot refute."""
    cheapest = min(duels, key=lambda name: duels[name]["ratio"])
    arrived = [duel["ratio"] for duel in duels.values() if duel["reached"]]
    said = "fails" if any(ratio < CLAIM for ratio in arrived) else "open"
    if duels[cheapest]["ratio"] >= CLAIM:
        said = "holds"
    return {"claim": said, "cheapest": cheapest, **duels[cheapest]}


def compete(task: Task, options: Any) -> Result:
    """Everyone on one task, printed on the way."""
    print(f"\n{task}")
    found = {loss: measure_mcf(loss, task, options) for loss in LOSSES}
    mcf = {loss: result for loss, (_, result) in found.items()}
    plain = measure_plain(task)
    for loss, result in mcf.items():
        first, whole = (fitted_line(result[f"{name}_fit"]) for name in ("first", "converged"))
        print(
            f"  {'MCF, ' + loss:36s}{first}; converged {whole.strip()}; q={result['q']:g}, l2={result['l2']:g}"
        )
    print(f"  {'LogisticRegression, no corruption':36s}{fitted_line(plain)}, l2={plain['l2']:g}", flush=True)
    print(f"  {'':36s}" + "".join(f"{'to the error of MCF, ' + loss:48s}" for loss in LOSSES).rstrip())
    goal = min(allowed(result, options.tolerance) for result in mcf.values())
    entries: dict[str, Result] = {}
    for rival in rivals(task.n_classes):
        if reason := why_not(rival):
            entries[rival.name] = {"skipped": reason}
            print(f"  {rival.name:36s}skipped: {reason}")
            continue
        settings = tuned(rival, task, found[rival.loss][0], options.own)
        entry = measure_rival(rival, task, settings, goal, options)
        entry["against"] = {loss: against(entry["curve"], mcf[loss], options.tolerance) for loss in LOSSES}
        entries[rival.name] = entry
        cells = "".join(f"{duel_line(entry['against'][loss], rival.unit):48s}" for loss in LOSSES)
        print(f"  {rival.name:36s}{cells.rstrip()}", flush=True)
    ran = {name: entry["against"] for name, entry in entries.items() if "against" in entry}
    claims = {loss: verdict({name: duels[loss] for name, duels in ran.items()}) for loss in LOSSES}
    absent = [name for name in entries if name not in ran]
    best = min(LOSSES, key=lambda loss: mcf[loss]["error"])
    for loss, claim in claims.items():
        word = "MCF at its best" if loss == best else "MCF"
        print(f"  {word}, {loss}: {claim_line(claim, absent)}", flush=True)
    return {
        "task": task.name,
        "data": task.source,
        "description": str(task),
        "mcf": mcf,
        "plain": plain,
        "rivals": entries,
        "claims": claims,
        "best": best,
        "absent": absent,
    }


# -- printing -------------------------------------------------------------------------------------------------
def fitted_line(result: Result) -> str:
    return f"{result['seconds']:9.3f} s, error {result['error']:.2%}"


def duel_line(duel: Result, unit: str) -> str:
    amount = f"{duel['amount']} {ONE[unit] if duel['amount'] == 1 else unit}"
    if duel["reached"]:
        return f"{duel['ratio']:.2f} x with {amount}"
    return f"> {duel['ratio']:.2f} x, not reached: {duel['best_error']:.2%}, {amount}"


def claim_line(claim: Result, absent: list[str]) -> str:
    """A verdict without a rival that might have been the cheapest says so."""
    bound = "" if claim["reached"] else "more than "
    cost = f"the cheapest rival costs {bound}{claim['ratio']:.2f} x ({claim['cheapest']})"
    meaning = {
        "holds": f"at least {CLAIM:g} x HOLDS",
        "fails": f"at least {CLAIM:g} x FAILS",
        "open": f"at least {CLAIM:g} x is OPEN: a larger budget would tell",
    }
    missing = f"; judged without {'; '.join(absent)}" if absent else ""
    return f"{meaning[claim['claim']]}; {cost}{missing}"


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in ("numpy", "scipy", "scikit-learn", "numba", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def same_threads(threads: int) -> Any:
    """The same number for our own threads, BLAS, OpenMP and PyTorch."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(threads)
    return threadpool_limits(threads)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=QUICK, help=f"of {', '.join(TASKS)}")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds a rival has on a task, all seeds")
    parser.add_argument(
        "--tolerance", type=float, default=0.001, help="error above MCF's that counts as the same"
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of which the median is taken")
    parser.add_argument("--rows", type=int, default=10_000, help="training rows at most; MNIST has 60,000")
    parser.add_argument("--own", action="store_true", help="each rival has its own best q and l2")
    parser.add_argument(
        "--builtin", action="store_true", help="built-in data even where real data is at hand"
    )
    parser.add_argument("--threads", type=int, default=1, help="for every contestant")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("rivals.json"))
    options = parser.parse_args()
    if unknown := set(options.tasks) - set(TASKS):
        parser.error(f"no task is called {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    if options.seeds < 1 or options.threads < 1 or options.rows < 10:
        parser.error("--seeds and --threads must be 1 or more, --rows 10 or more")
    return options


def main() -> None:
    options = parsed()
    used = {name: value for name, value in vars(options).items() if name not in ("out", "tasks")}
    pair = "their own" if options.own else "MCF's"
    print(
        f"Reaching the test error of MCF within {100 * options.tolerance:g} points by explicit corruption. "
        f"Threads: {options.threads} for everyone.\nRivals have {pair} q and l2; seeds: {options.seeds}; budget: "
        f"{options.budget:g} s each. Times are medians, in units of the MCF fit."
    )
    with same_threads(options.threads):
        results = [compete(task, options) for task in tasks(options.tasks, options.rows, options.builtin)]
    report = {"claimed_ratio": CLAIM, "settings": used, "versions": versions(), "tasks": results}
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {options.out}")


if __name__ == "__main__":
    main()
