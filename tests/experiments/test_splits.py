"""Splits, folds and deletions: the same for every method, groups never divided."""

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli.datasets.splits import Draw, divide, first, folds
from mcf_cli.experiments.evaluate import delete

DRAW = Draw(2013, "some-data", 0)


@pytest.mark.parametrize("groups", [None, np.arange(50) // 3], ids=["no groups", "groups of three"])
def test_folds_test_every_row_once_and_keep_groups_whole(groups):
    divisions = folds(50, 5, groups, DRAW, "test")
    assert sorted(np.concatenate([test for _, test in divisions])) == list(range(50))
    for train, test in divisions:
        assert len(train) + len(test) == 50
        assert 7 <= len(test) <= 13
        if groups is not None:
            assert not set(groups[train]) & set(groups[test])


def test_divide_keeps_groups_whole_and_takes_about_the_share():
    groups = np.arange(60) // 2
    kept, taken = divide(np.arange(60), 0.25, groups, DRAW, "test")
    assert not set(groups[kept]) & set(groups[taken])
    assert len(taken) in (14, 15, 16)


def test_draws_depend_on_seed_data_repeat_and_purpose():
    rows = np.arange(100)
    draws = [DRAW, Draw(1, "some-data", 0), Draw(2013, "other", 0), Draw(2013, "some-data", 1)]
    orders = [tuple(draw.shuffle(rows, "a")) for draw in draws] + [tuple(DRAW.shuffle(rows, "b"))]
    assert len(set(orders)) == 5
    assert orders[0] == tuple(Draw(2013, "some-data", 0).shuffle(rows, "a"))


def test_a_smaller_subset_lies_in_a_larger_one():
    rows = np.arange(100)
    assert set(first(rows, 10, DRAW, "x")) < set(first(rows, 40, DRAW, "x"))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_deletion_zeroes_about_its_share_and_more_at_a_higher_level(make):
    X = make(np.ones((200, 50)))
    shares, previous = [], None
    for level in (0.0, 0.3, 0.7):
        deleted = delete(X, level, DRAW, "test")
        deleted = deleted.toarray() if sp.issparse(deleted) else deleted
        shares.append(1 - deleted.mean())
        assert previous is None or np.all(deleted <= previous)
        previous = deleted
    assert shares[0] == 0
    assert shares[1:] == pytest.approx([0.3, 0.7], abs=0.02)
    assert np.all(make(X).sum() == 200 * 50)
