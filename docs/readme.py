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
BLOCK = re.compile(
    r"(?<=<!-- claims: written by `make report` -->\n).*?(?=<!-- end of claims -->)", re.DOTALL
)


def claims_block(results: Path) -> str:
    """How many claims have which verdict, on what data, and the forest plot where there is one."""
    with open(results / "claims.csv", newline="", encoding="utf-8") as file:
        claims = list(csv.DictReader(file))
    counts = Counter(claim["verdict"] for claim in claims)
    listed = ", ".join(
        f"{counts[word]} {forms[counts[word] == 1]}" for word, forms in WORDS.items() if counts[word]
    )
    substitutes = sum("substitute" in claim["data"] for claim in claims)
    rest = "rests" if substitutes == 1 else "rest"
    aside = f" {substitutes} {rest} wholly or in part on a substitute for the paper's data."
    aside *= substitutes > 0
    lines = [f"**Of {len(claims)} claims, {listed}.**{aside}"]
    if (results / "claims.png").exists():
        lines += [
            "",
            "![Every claim with a number: the paper's, ours and its 95% interval](results/claims.png)",
        ]
    return "\n".join([*lines, ""])


def with_claims(text: str, results: Path) -> str:
    """The README's text with the paragraph as the results have it."""
    if not BLOCK.search(text):
        raise SystemExit("README.md has no place for the claims: restore the two comments around them.")
    return BLOCK.sub(lambda found: claims_block(results), text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_claims(readme.read_text(encoding="utf-8"), ROOT / "results"), encoding="utf-8")
