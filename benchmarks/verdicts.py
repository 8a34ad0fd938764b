"""Which verdicts two runs do not share, from the claims.csv of each.

    python -m benchmarks.verdicts results/claims.csv results/second/claims.csv

A run with another seed should give the same verdict for every claim that is decided (holds, stronger or differs).
Decided claims whose verdict changes are printed and counted; the exit code is 1 if there are more than --allow.
"""

import argparse
import csv
from pathlib import Path

DECIDED = {"holds", "stronger", "differs"}


def verdicts(path: Path) -> dict[str, str]:
    """Verdict by claim."""
    with open(path, newline="", encoding="utf-8") as file:
        return {line["id"]: line["verdict"] for line in csv.DictReader(file)}


def changed(first: dict[str, str], second: dict[str, str]) -> list[tuple[str, str, str]]:
    """Claims that a run decides and the other does not decide alike, or lacks."""
    pairs = [(claim, first.get(claim, "absent"), second.get(claim, "absent")) for claim in first | second]
    return [(claim, one, two) for claim, one, two in pairs if one != two and {one, two} & DECIDED]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verdicts that two runs do not share.")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--allow", type=int, default=2, help="how many may change (default 2)")
    given = parser.parse_args(arguments)
    for path in (given.first, given.second):
        if not path.is_file():
            parser.error(f"{path} is no file: `mcf report` writes claims.csv.")
    found = changed(verdicts(given.first), verdicts(given.second))
    for claim, one, two in found:
        print(f"{claim}: {one}, then {two}")
    print(f"{len(found)} of the decided claims changed")
    return int(len(found) > given.allow)


if __name__ == "__main__":
    raise SystemExit(main())
