"""The `mcf` entry point itself."""

import subprocess
import sys

import mcf_cli


def mcf(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcf_cli", *arguments], capture_output=True, text=True, check=False
    )


def test_version_is_the_package_version():
    result = mcf("--version")
    assert result.returncode == 0
    assert result.stdout.strip() == f"mcf, version {mcf_cli.__version__}"


def test_help_lists_commands_without_importing_scikit_learn():
    code = "import sys; from mcf_cli.cli.main import run_cli\ntry: run_cli(['--help'])\nexcept SystemExit: pass\n"
    code += "heavy = {'numpy', 'sklearn', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules); assert not heavy, heavy"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Usage: mcf" in result.stdout


def test_an_unknown_command_exits_2_without_a_traceback():
    result = mcf("trian")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
