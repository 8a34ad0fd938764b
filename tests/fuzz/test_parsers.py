"""Whatever the bytes: a result or our own clear error; no traceback, no hang, no memory beyond the file's due.

`python -m tests.fuzz.campaign --inputs 1000000` runs as many more as you like.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import KINDS, TOKENS, Change
from tests.fuzz.parsers import PARSERS, judge, spoilt

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
PAYLOADS = st.sampled_from(TOKENS) | st.binary(min_size=1, max_size=12)
CHANGES = st.lists(
    st.builds(Change, st.sampled_from(KINDS), st.floats(0, 1), PAYLOADS), min_size=1, max_size=6
)


@pytest.mark.parametrize("name", PARSERS)
def test_a_valid_file_is_read(name):
    for number, _ in enumerate(PARSERS[name].seeds()):
        assert judge(name, spoilt(name, number, [], packed=True)) == "read"


@pytest.mark.parametrize("name", PARSERS)
@EXAMPLES
@given(number=st.integers(0, 10), changes=CHANGES, packed=st.booleans())
def test_a_spoilt_file_is_read_or_refused(name, number, changes, packed):
    judge(name, spoilt(name, number, changes, packed))


@pytest.mark.parametrize("name", PARSERS)
@EXAMPLES
@given(content=st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(name, content):
    judge(name, content)
