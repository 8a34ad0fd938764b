"""The README's paragraph on the claims, written from results/: `python docs/readme.py`, which `make report` runs."""

import csv
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
BLOCK = re.compile(
    r"(?<=<!-- claims: written by `make report` -->\n).*?(?=<!-- end of claims -->)", re.DOTALL
)


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


def with_claims(text: str, results: Path) -> str:
    """The README's text with the paragraph as the results have it."""
    if not BLOCK.search(text):
        raise SystemExit("README.md has no place for the claims: restore the two comments around them.")
    return BLOCK.sub(lambda found: claims_block(results), text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_claims(readme.read_text(encoding="utf-8"), ROOT / "results"), encoding="utf-8")
