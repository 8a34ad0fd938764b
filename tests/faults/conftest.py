"""What every fault is measured against: the same sweep, undisturbed."""

import pytest
from real_mcf import SWEEP, TRIALS, mcf, results_in, store_in


@pytest.fixture(scope="session")
def undisturbed_run(tmp_path_factory):
    """The output folder of a sweep that nothing happened to."""
    out = tmp_path_factory.mktemp("undisturbed")
    result = mcf(*SWEEP, "--out", out)
    assert result.code == 0, result.err
    assert store_in(out).read_bytes().count(b"\n") == TRIALS
    return out


@pytest.fixture(scope="session")
def undisturbed(undisturbed_run):
    """The results of that sweep."""
    return results_in(undisturbed_run)
