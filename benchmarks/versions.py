"""What the whole paper would take another version, in a folder CHECKOUT: `python -m benchmarks.versions CHECKOUT`.

From each item that it plans some trials are drawn at random, and run one by one by that version and by this one, as a
user would run them, on one thread. A trial that the other version has not finished within the cap counts as the cap,
so that its hours are a lower bound. The ratio is over trials that this version finishes, and a lower bound too. A
trial that one of the two does not know is left out.
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


def compare(other: Path, item: str, options: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds the item takes the other version at least, and both versions on trials that this one finished."""
    config = yaml.safe_load((other / "configs" / f"{item}.yaml").read_text())
    trials = [trial for trial in planned(other, item) if trial["protocol"] != "explicit" or trial["copies"]]
    drawn = random.Random(options.seed).sample(trials, min(options.sample, len(trials)))

    def both(trial: Trial) -> tuple[Took | None, Took | None]:
        single = alone(config, trial)
        return run(other, single, options.cap), run(HERE, single, options.cap)

    with ThreadPoolExecutor(options.jobs) as pool:
        pairs = [(old, new) for old, new in pool.map(both, drawn) if old and new]
    if not pairs:
        print(f"{item:8s}{len(trials):8d}{0:8d}   no trial runs in both", flush=True)
        return 0.0, 0.0, 0.0
    scale = len(trials) / len(pairs)
    total = scale * sum(old.seconds for old, _ in pairs)
    fair = [(scale * old.seconds, scale * new.seconds) for old, new in pairs if new.whole]
    olds, news = (sum(side) for side in zip(*fair, strict=True)) if fair else (0.0, 0.0)
    cut = sum(not old.whole for old, _ in pairs)
    ratio = f"{olds / news:12.1f}" if fair else f"{'-':>12s}"
    print(
        f"{item:8s}{len(trials):8d}{len(pairs):8d}{cut:8d}{total / 3600:14.2f}{len(fair):10d}{ratio}",
        flush=True,
    )
    return total, olds, news


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a folder with the other version")
    parser.add_argument("items", nargs="*", default=ITEMS)
    parser.add_argument("--sample", type=int, default=8, help="trials drawn from each item")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a trial has")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    columns = f"{'item':8s}{'trials':>8s}{'drawn':>8s}{'cut':>8s}{'other, hours':>14s}"
    print(columns + f"{'finished':>10s}{'other/this':>12s}")
    totals = [compare(options.checkout.resolve(), item, options) for item in options.items]
    total, olds, news = (sum(side) for side in zip(*totals, strict=True))
    ratio = f"{olds / news:.1f} x on what this one finished" if news else "nothing that this one finished"
    print(f"the other version: {total / 3600:.1f} core hours or more; {ratio}")


if __name__ == "__main__":
    main()
