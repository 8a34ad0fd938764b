"""The page on missing features: its example runs, and shows what it says."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "missing.md").read_text()


def test_the_example_runs_and_conditional_beats_the_other_ways():
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, names)
    assert names["errors"]["conditional"] < min(names["errors"]["mean"], names["errors"]["deleted"])
