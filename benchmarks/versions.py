"""What the whole paper would take another version, in a folder CHECKOUT: `python -m benchmarks.versions CHECKOUT`.

From each item some trials are drawn at random, and run one by one by that version and by this one, as a user would run
them, on one thread. A trial that the other version has not finished within the cap counts as the cap, so that its
hours and the ratio are lower bounds. A trial that the other version does not know is left out. With `--own` the trials
are the other version's, whose grids may be larger, and it runs them alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).resolve().parents[1]
PATIENCE = 10  # caps that this version has: it is to finish
LOADING = 30.0  # seconds of grace to start and load the data, which no trial is charged for
ITEMS = ("fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "fig9", "table3")
Trial = dict[str, Any]


class Took(NamedTuple):
    """Seconds of one trial; `whole` unless the cap came first."""

    seconds: float
    whole: bool


def mcf(checkout: Path, *words: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mcf_cli", *words]
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=timeout
    )


def planned(checkout: Path, item: str) -> list[Trial]:
    """The trials of an item at full scale, as that version says."""
    answer = mcf(checkout, "config", "check", f"configs/{item}.yaml", "--json")
    if answer.returncode:
        sys.exit(f"{checkout}: {item} cannot be planned: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def alone(config: dict[str, Any], trial: Trial) -> dict[str, Any]:
    """The item's config with this trial and no other; a repeat is replaced by the first."""
    evaluation = dict(config.get("evaluation", {}))
    for one, many in {"train_size": "sizes", "copies": "copies"}.items():
        if trial.get(one) is not None:
            evaluation[many] = [trial[one]]
    method = {name: value for name, value in trial["method"].items() if value is not None}
    select = dict(trial["select"])
    if select.get("by") in ("deletion", "none"):  # what a plan says where there is nothing to say
        del select["by"]
    return {
        **{key: config[key] for key in ("item", "title", "paper", "seed")},
        "datasets": [trial["dataset"]],
        "grid": [method],
        "evaluation": evaluation,
        "repeats": 1,
        "select": select,
        "fit": trial["fit"],
    }


def run(checkout: Path, config: dict[str, Any], cap: float) -> Took | None:
    """How long the trial takes that version, or None if it does not run there."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{config['item']}.yaml").write_text(yaml.safe_dump(config))
        words = ("reproduce", config["item"], "--configs", folder, "--out", folder, "--quiet")
        try:
            answer = mcf(checkout, *words, timeout=cap + LOADING)
        except subprocess.TimeoutExpired:
            return Took(cap, False)
        rows = Path(folder, config["item"], "rows.csv")
        if answer.returncode or not rows.exists():
            print(f"  {checkout.name}: {answer.stderr.strip()[-200:]}", file=sys.stderr)
            return None
        copies = config["evaluation"].get("copies")
        with rows.open() as file:  # the marginalised model beside the copies is another trial
            own = (row for row in csv.DictReader(file) if not copies or row["copies"] == str(copies[0]))
            seconds = float(next(own)["seconds"])
        return Took(min(seconds, cap), seconds <= cap)


def compare(other: Path, item: str, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds that the item takes the other version, at least, and this one: the sample's, scaled to all trials."""
    source = other if options.own else HERE
    config = yaml.safe_load((source / "configs" / f"{item}.yaml").read_text())
    trials = [trial for trial in planned(source, item) if trial["protocol"] != "explicit" or trial["copies"]]
    drawn = random.Random(options.seed).sample(trials, min(options.sample, len(trials)))

    def both(trial: Trial) -> tuple[Took | None, Took | None]:
        single = alone(config, trial)
        old = run(other, single, options.cap)
        return old, Took(0.0, True) if options.own else run(HERE, single, PATIENCE * options.cap)

    with ThreadPoolExecutor(options.jobs) as pool:
        pairs = [(old, new) for old, new in pool.map(both, drawn) if old and new]
    scale = len(trials) / max(len(pairs), 1)
    olds, news = (scale * sum(pair[side].seconds for pair in pairs) for side in (0, 1))
    cut = sum(not old.whole for old, _ in pairs)
    ratio = f"{olds / news:9.1f}" if news else f"{'-':>9s}"
    counts = f"{item:8s}{len(trials):8d}{len(pairs):8d}{cut:8d}"
    print(f"{counts}{olds / 3600:14.2f}{news / 3600:14.2f}{ratio}", flush=True)
    return olds, news


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a folder with the other version")
    parser.add_argument("items", nargs="*", default=ITEMS)
    parser.add_argument("--sample", type=int, default=8, help="trials drawn from each item")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a trial of the other has")
    parser.add_argument("--own", action="store_true", help="the other version's own trials, run by it alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    print(
        f"{'item':8s}{'trials':>8s}{'drawn':>8s}{'cut':>8s}{'other, hours':>14s}{'this, hours':>14s}{'ratio':>9s}"
    )
    totals = [compare(options.checkout.resolve(), item, options) for item in options.items]
    olds, news = (sum(side) for side in zip(*totals, strict=True))
    beside = f", and {news / 3600:.1f}; {olds / news:.1f} x or more" if news else ""
    print(f"core hours: {olds / 3600:.1f} or more{beside}")


if __name__ == "__main__":
    main()
