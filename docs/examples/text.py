"""
Text: other words could have been used
======================================

A review says "good" in one of many words, and most of them are rare. Blankout deletes words at random while
the model learns, so it cannot lean on the frequent ones alone and has to spread its weight over their rare
synonyms.
The documents are generated to show this one thing; on real reviews the gain is smaller.
"""

import matplotlib.pyplot as plt
import numpy as np
from mcf_cli import Blankout, MCFClassifier, Poisson
from mcf_cli.datasets import load

reviews = load("builtin-reviews")
train, test = reviews.splits["predefined"]
X, y = reviews.X, reviews.y


def fitted(corruption):
    return MCFClassifier(corruption=corruption, l2=1e-3).fit(X[train], y[train])


def error(model):
    return 100 * (1 - model.score(X[test], y[test]))


levels = np.linspace(0, 0.9, 10)
errors = [error(fitted(Blankout(q=q))) for q in levels]
plain, strong, poisson = fitted(None), fitted(Blankout(q=0.8)), fitted(Poisson())

# %%
# The six words of an opinion are ordered from frequent to rare. The right panel shows how much weight a word
# gets by its rank, as a share of what the most frequent one gets.


def weight_by_rank(model):
    opinions = [n for n, name in enumerate(reviews.feature_names) if "." in name]
    sizes = np.abs(model.coef_.ravel()[opinions]).reshape(-1, 6).mean(axis=0)
    return sizes / sizes[0]


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(levels, errors, "o-", label="blankout")
left.axhline(error(plain), color="0.4", linestyle="--", label="plain")
left.axhline(error(poisson), color="C1", linestyle=":", label="Poisson, no level to choose")
left.set(xlabel="share q of words deleted in training", ylabel="test error (%)", ylim=(10, 24))
left.legend()
rank = np.arange(1, 7)
right.plot(rank, weight_by_rank(plain), "s--", color="0.4", label="plain")
right.plot(rank, weight_by_rank(strong), "o-", label="blankout, q = 0.8")
right.set(xlabel="rank of the word, from frequent to rare", ylabel="weight, relative to rank 1", ylim=0)
right.legend()
plt.show()
