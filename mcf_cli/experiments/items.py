"""The paper's items: one YAML each in configs/."""

from pathlib import Path

from mcf_cli.datasets.registry import nearest
from mcf_cli.errors import McfError

# Where `mcf reproduce` writes by default: only the paper's scale touches the committed results.
FOLDERS = {"paper": Path("results"), "quick": Path("results/quick"), "smoke": Path("results/demo")}
SCRATCH = Path("results/scratch")  # where every other command does
CLAIMS = "claims.yaml"  # what the report asks of the items; lies beside their configs


def claims_file() -> Path | None:
    """The paper's claims, None where there are no configs."""
    try:
        path = configs_folder() / CLAIMS
    except McfError:
        return None
    return path if path.exists() else None


def configs_folder(given: Path | None = None) -> Path:
    """The folder given, else configs/ here, else configs/ of the checkout that this code runs from."""
    checkout = Path(__file__).resolve().parents[2]
    for folder in [given] if given else [Path("configs"), checkout / "configs"]:
        if folder.is_dir():
            return folder
    raise McfError("the paper's configs are not here: give their folder with --configs.")


def item_files(folder: Path, names: tuple[str, ...] = ()) -> list[Path]:
    """The configs of the named items, of all items without names, in the order of the paper."""
    files = [path for path in folder.glob("*.yaml") if path.name != CLAIMS]
    known = {path.stem: path for path in sorted(files, key=_paper_order)}
    for name in names:
        if name not in known:
            raise McfError(f"there is no item {name!r}{nearest(name, known)}")
    return [known[name] for name in names] if names else list(known.values())


def _paper_order(path: Path) -> tuple[int, int, str]:
    """fig1 before fig10, figures before tables before the rest."""
    stem = path.stem
    kind = next((rank for rank, prefix in enumerate(("fig", "table")) if stem.startswith(prefix)), 2)
    digits = "".join(ch for ch in stem if ch.isdigit())
    return kind, int(digits or 0), stem
