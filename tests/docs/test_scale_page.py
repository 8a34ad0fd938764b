"""The examples of docs/scale.md run as they stand, in a folder of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["chunks", "dask"])
def test_an_example_runs(example, tmp_path):
    if "dask" in example:
        pytest.importorskip("distributed")
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
