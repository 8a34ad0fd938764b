"""What README.md and results/README.md say in numbers, written from results/: `python docs/readme.py`.

`make report` runs it.
"""

import csv
import json
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "holds": ("hold", "holds"),
    "stronger": ("are stronger than stated", "is stronger than stated"),
    "differs": ("differ", "differs"),
    "undecided": ("are undecided", "is undecided"),
    "not run": ("were not run", "was not run"),
}
OTHERS = {
    "algebra": "statements of algebra",
    "simulation": "simulations",
    "misprint": "possible misprints",
}


def block(name: str) -> re.Pattern[str]:
    """What stands between two comments."""
    start, end = f"<!-- {name}: written by `make report` -->\n", f"<!-- end of {name} -->"
    return re.compile(f"(?<={re.escape(start)}).*?(?={re.escape(end)})", re.DOTALL)


def claims_block(results: Path) -> str:
    """How many experiments have which verdict, on what data; what is no experiment; the forest plot, if any."""
    with open(results / "claims.csv", newline="", encoding="utf-8") as file:
        everything = list(csv.DictReader(file))
    claims = [claim for claim in everything if claim.get("category", "experiment") == "experiment"]
    subject = "claims about experiments" if len(claims) < len(everything) else "claims"
    substitutes = sum("substitute" in claim["data"] for claim in claims)
    rest = "rests" if substitutes == 1 else "rest"
    aside = f" {substitutes} {rest} wholly or in part on a substitute for the paper's data."
    aside *= substitutes > 0
    lines = [f"**Of {len(claims)} {subject}, {_listed(claims)}.**{aside}{_others(everything)}"]
    if (results / "claims.png").exists():
        lines += [
            "",
            "![Every claim with a number: the paper's, ours and its 95% interval](results/claims.png)",
        ]
    return "\n".join([*lines, ""])


def _listed(claims: list[dict[str, str]]) -> str:
    """``20 hold, 1 differs``."""
    counts = Counter(claim["verdict"] for claim in claims)
    return ", ".join(
        f"{counts[word]} {forms[counts[word] == 1]}" for word, forms in WORDS.items() if counts[word]
    )


def _others(claims: list[dict[str, str]]) -> str:
    """A sentence on each other category, of which results of versions before 2.0 know none."""
    found = {name: [c for c in claims if c.get("category") == name] for name in OTHERS}
    return "".join(
        f" Of {len(group)} {OTHERS[name]}, {_listed(group)}." for name, group in found.items() if group
    )


def times_block(results: Path) -> str:
    """What each item took, by its trials' own clocks, and on which commit and machine it ran."""
    lines, total = ["| item | trials | core minutes |", "|---|--:|--:|"], 0.0
    found: dict[str, set[str]] = {"commit": set(), "lock": set(), "platform": set()}
    for path in sorted(results.glob("*/environment.json")):
        environment = json.loads(path.read_text(encoding="utf-8"))
        trials = environment["trials"]
        minutes = trials["seconds"] / 60
        total += minutes
        partial = "" if trials["done"] == trials["expected"] else f" of {trials['expected']:,}"
        lines.append(f"| {path.parent.name} | {trials['done']:,}{partial} | {minutes:.1f} |")
        for key, values in found.items():
            dirty = ", with changes" if key == "commit" and environment.get("dirty") else ""
            values.add(f"{environment.get(key)}{dirty}")
    words = "; ".join(f"{key} {' and '.join(sorted(values))}" for key, values in found.items())
    return "\n".join([*lines, f"| in all | | {total:.0f} |", "", f"All items: {words}.", ""])


def written(text: str, name: str, content: str) -> str:
    """The text with one block as the results have it."""
    if not block(name).search(text):
        raise SystemExit(f"There is no place for the {name}: restore the two comments around them.")
    return block(name).sub(lambda found: content, text)


def with_claims(text: str, results: Path) -> str:
    """The README's text with its paragraph on the claims."""
    return written(text, "claims", claims_block(results))


def with_times(text: str, results: Path) -> str:
    """The text of results/README.md with its table."""
    return written(text, "times", times_block(results))


if __name__ == "__main__":
    results = ROOT / "results"
    for page, fill in ((ROOT / "README.md", with_claims), (results / "README.md", with_times)):
        page.write_text(fill(page.read_text(encoding="utf-8"), results), encoding="utf-8")
