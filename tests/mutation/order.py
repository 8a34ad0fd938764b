"""A pytest plugin for `run.py`: a few cases of every test function, one case of each before the second of any.

The slow tests, which the others make up for, are left out unless asked for. Hypothesis does not shrink what it finds:
that a test fails is all that matters here.
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
    "test_stress.py",
    "test_a_fit_needs_at_most_three_times_its_input",
    "test_grid_search_reaches_the_corruption_parameter",
)

settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate], database=None, deadline=None)
settings.load_profile("mutation")


def pytest_collection_modifyitems(items):
    cases = {}
    for item in items:
        if os.environ["MUTATION_SLOW"] == "1" or not any(name in item.nodeid for name in SLOW):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    most = int(os.environ["MUTATION_CASES"])
    kept = [random.Random(name).sample(known, min(most, len(known))) for name, known in cases.items()]
    items[:] = [item for item in chain.from_iterable(zip_longest(*kept)) if item is not None]
