"""The command as users start it: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def mcf_in(folder: Path, *arguments: object) -> subprocess.CompletedProcess:
    """Run ``mcf`` with the arguments to its end."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "MCF_DATA_HOME": str(folder / "home"),
    }
    return subprocess.run(
        [sys.executable, "-m", "mcf_cli", *map(str, arguments)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def done(result: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
    """The result of a command that succeeded."""
    assert result.returncode == 0, result.stderr
    return result


def refused(result: subprocess.CompletedProcess) -> str:
    """What a command said that refused its input: a line or two, exit code 2."""
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr and result.stderr.count("mcf: ") == 1, result.stderr
    return result.stderr
