"""A pytest plugin for `run.py`: a few cases of every test function, one case of each before the second of any.

The files that matter most to the mutant come first, with more cases than the others. The slow tests, which the
others make up for, are left out unless asked for. Hypothesis does not shrink what it finds: that a test fails is all
that matters here.
"""

import os
import random
from itertools import chain, zip_longest
from pathlib import Path

import mcf_cli
from hypothesis import Phase, settings

assert Path(mcf_cli.__file__).is_relative_to(Path.cwd()), "these tests would not run the mutant"

SLOW = (
    "test_bounds.py",
    "test_differential.py",
    "test_a_fit_needs_at_most_three_times_its_input",
    "test_grid_search_reaches_the_corruption_parameter",
)

settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate], database=None, deadline=None)
settings.load_profile("mutation")


def pytest_collection_modifyitems(items):
    files = dict.fromkeys(item.path.name for item in items)  # in the order of the command line
    first = list(files)[: int(os.environ["MUTATION_FIRST"])]
    items[:] = a_few(items, "MUTATION_CASES", lambda name: name in first) + a_few(
        items, "MUTATION_OTHERS", lambda name: name not in first
    )


def a_few(items, most, chosen):
    cases = {}
    for item in items:
        slow = any(name in item.nodeid for name in SLOW)
        if chosen(item.path.name) and (not slow or os.environ["MUTATION_SLOW"] == "1"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    most = int(os.environ[most])
    kept = [random.Random(name).sample(known, min(most, len(known))) for name, known in cases.items()]
    return [item for item in chain.from_iterable(zip_longest(*kept)) if item is not None]
