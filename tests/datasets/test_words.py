from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mcf_cli.datasets.features.words import count_matrix, count_words, tokenise


def test_words_are_lower_case_runs_of_letters():
    assert tokenise("Don't BUY 3.5 mln-dlr naïve_Cocoa a") == ["don", "buy", "mln", "dlr", "naïve", "cocoa"]


def test_counts_of_a_small_text():
    X, words = count_words(["the cat the", "", "cat dog"])
    assert words == ("cat", "dog", "the")
    assert np.array_equal(X.toarray(), [[1, 0, 2], [0, 0, 0], [1, 1, 0]])


def test_rare_words_are_left_out():
    _, words = count_words(["aa bb", "aa cc", "aa bb"], min_documents=2)
    assert words == ("aa", "bb")


def test_the_most_common_terms_are_kept_and_ties_are_alphabetical():
    bags = [{"zz": 5, "bb": 1}, {"aa": 1, "cc": 1}]
    assert count_matrix(bags, max_terms=2)[1] == ("aa", "zz")


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5)), min_size=1), st.integers(1, 9)
)
def test_the_matrix_holds_every_count_of_every_kept_term(bags, max_terms):
    X, terms = count_matrix(bags, max_terms=max_terms)
    totals = sum((Counter(bag) for bag in bags), Counter())
    expected = sorted(sorted(totals, key=lambda term: (-totals[term], term))[:max_terms])
    assert list(terms) == expected
    assert X.toarray().tolist() == [[bag.get(term, 0) for term in expected] for bag in bags]
