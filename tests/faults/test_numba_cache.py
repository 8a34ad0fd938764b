"""Where numba cannot keep its code, or finds half of it, a fit ends as ever, with one warning. Real processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mcf_cli
import pytest

pytest.importorskip("numba", reason="the compiled loops are the optional extra [fast]")

# Three classes and few pairs: the smallest loop does the work. numpy adds in another order, in the last digits.
FIT = """
import numpy as np, scipy.sparse as sp
from mcf_cli.core.corruptions import Blankout
from mcf_cli.core.problem import Problem
X = sp.random(1500, 300, density=0.05, format="csr", random_state=0)
X.data[:] = 1.0
fit = Problem(X, np.arange(1500) % 3, multiclass="shared").solve(Blankout(0.5), l2=0.1)
print(f"{fit.objective:.12f}")
"""


def fitted(**environment):
    """What a fit prints, and the warnings that came with it."""
    done = subprocess.run(
        [sys.executable, "-c", FIT],
        env={**os.environ, "NUMBA_CACHE_DIR": "", "MCF_NUMBA": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "Warning" in line]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with the compiled code of a fit, and what the fit printed."""
    folder = tmp_path_factory.mktemp("numba")
    printed, warned = fitted(NUMBA_CACHE_DIR=str(folder))
    assert not warned and list(folder.rglob("*.nbc")), "no loop was compiled"
    return folder, printed


@pytest.mark.parametrize(("kind", "size"), [("nbi", 0), ("nbc", 700)], ids=["empty index", "half the code"])
def test_a_damaged_file_is_replaced(kind, size, kept, tmp_path):
    folder, printed = kept
    own = shutil.copytree(folder, tmp_path / "cache")
    for file in own.rglob(f"*.{kind}"):
        os.truncate(file, size)
    found, warned = fitted(NUMBA_CACHE_DIR=str(own))
    assert found == printed
    assert len(warned) == 1 and "numba's cache was damaged; it has been rebuilt" in warned[0]
    assert all(file.stat().st_size > size for file in own.rglob(f"*.{kind}"))
    if kind == "nbc":
        assert fitted(NUMBA_CACHE_DIR=str(own)) == (printed, [])


def test_a_package_and_a_home_that_cannot_be_written_to(kept, tmp_path):
    """Files in the place of folders stop root too. numba looks beside the loops, then below the home."""
    package = shutil.copytree(
        Path(mcf_cli.__file__).parent, tmp_path / "mcf_cli", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("in the way")
    (tmp_path / "file").write_text("in the way")
    home = str(tmp_path / "file" / "home")
    found, warned = fitted(PYTHONPATH=str(tmp_path), HOME=home, XDG_CACHE_HOME=home, PYTHONSAFEPATH="1")
    assert found == kept[1]
    assert len(warned) == 1 and "NUMBA_CACHE_DIR" in warned[0]
    assert str(package) in warned[0], "another package was used"


def test_a_disk_without_room(kept, mounted):
    found, warned = fitted(NUMBA_CACHE_DIR=str(mounted("size=16k")))
    assert found == kept[1]
    assert len(warned) == 1 and "No space left on device" in warned[0] and "NUMBA_CACHE_DIR" in warned[0]


@pytest.mark.parametrize(
    "fault", ["raise RuntimeError('no LLVM')", "def njit(*a, **k): raise OSError('no LLVM')"]
)
def test_a_numba_that_does_not_work_is_done_without(fault, kept, tmp_path):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(fault + "\nfrom . import types\n")
    (tmp_path / "numba" / "types.py").write_text("def __getattr__(name): return lambda *a, **k: None\n")
    found, warned = fitted(PYTHONPATH=str(tmp_path))
    assert float.fromhex(found.strip()) == pytest.approx(float.fromhex(kept[1].strip()), rel=1e-12)
    assert len(warned) == 1 and "no LLVM" in warned[0] and "numpy is used instead" in warned[0]
