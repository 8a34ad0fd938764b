"""Many random inputs for every parser: `python -m tests.fuzz.campaign --inputs 1000000 --seed 2013`.

Prints how many were read, refused and neither; an input of the last kind is kept, and the exit code is 1. Input k of
a parser depends on the seed, its name and k alone, so that a finding can be repeated with `--only NAME --first K`.
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.mutations import draw
from tests.fuzz.parsers import PARSERS, Finding, judge, spoilt


def made(name: str, seed: int, number: int) -> bytes:
    """Input number ``number``: now and then random bytes, mostly a valid file with a few changes."""
    source = random.Random(f"{seed} {name} {number}")
    if source.random() < 0.05:
        return source.randbytes(source.randrange(400))
    return spoilt(name, source.randrange(100), draw(source), packed=source.random() < 0.3)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inputs", type=int, default=100_000, help="over all parsers")
    options.add_argument("--seed", type=int, default=2013)
    options.add_argument("--only", choices=list(PARSERS), action="append")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    given = options.parse_args()
    names = given.only or list(PARSERS)
    findings: dict[str, str] = {}
    print(
        f"{'parser':<14}{'inputs':>10}{'read':>10}{'refused':>10}{'neither':>10}{'seconds':>10}", flush=True
    )
    for name in names:
        start, counts = time.perf_counter(), Counter()
        for number in range(given.first, given.first + given.inputs // len(names)):
            content = made(name, given.seed, number)
            try:
                counts[judge(name, content)] += 1
            except Finding as finding:
                counts["neither"] += 1
                if (
                    findings.setdefault(" ".join(str(finding).split()[:4]), f"{name} {number}")
                    == f"{name} {number}"
                ):
                    given.keep.mkdir(exist_ok=True)
                    (given.keep / f"{name}-{number}").write_bytes(content)
                    print(f"  {name} input {number}: {finding}", flush=True)
        each = [counts.total(), counts["read"], counts["refused"], counts["neither"]]
        print(
            f"{name:<14}" + "".join(f"{n:>10,}" for n in each) + f"{time.perf_counter() - start:>10.1f}",
            flush=True,
        )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
