"""The words under a figure or table: what is shown, which variants were run, and on what data."""

from __future__ import annotations

import pandas as pd

from mcf_cli.reporting.series import CORRUPTIONS, SURROGATE_NAMES, dataset_label, datasets_in, in_order, tidy

SUBJECTS = {
    1: "Bounds on the expected logistic loss of one blanked-out feature, as a function of its margin.",
    3: "Test error against the corruption level q; dashed lines are the plain models, which q = 0 equals.",
    4: "Test error against the corruption level q, from 0.9 on.",
    5: "Test error against the number of training examples: mean and standard deviation over random subsets.",
    6: "Test error against the number M of explicitly corrupted copies; the big marker is MCF, their limit.",
    7: "Test error of MCF logistic loss by each of its three surrogates, against the blankout level q.",
    8: "Test error against the corruption level q, with standard errors over runs of cross-validation.",
    9: "Test error against the share of pixels deleted at test time.",
}
FORMS = {
    "pairwise": "pairwise (the true bound)",
    "shared": "shared (as in the authors' released code)",
}
CORRUPTION_NAMES = {**CORRUPTIONS, "blankout": "unbiased blankout", "dropout": "biased blankout"}
SOURCE_SENTENCES = {
    "builtin": "built-in data, not the paper's",
    "substitute": "a substitute for the paper's data",
    "user": "the user's own data",
}


def caption(
    rows: pd.DataFrame, paper_figure: int | None = None, notes: tuple[str, ...] = (), subject: str = ""
) -> str:
    """What is shown, the variants actually used, the data that is not the paper's, and ``notes``.

    ``subject`` is the first sentence of what is no figure of the paper.
    """
    frame = tidy(rows, metric=None)
    sentences = [SUBJECTS.get(paper_figure, subject or "Test error.")]
    sentences += _variants(frame)
    if "dataset" in frame:
        sentences += _sources(frame)
    return " ".join([*sentences, *(f"{text.rstrip('.')}." for text in notes)])


def _variants(frame: pd.DataFrame) -> list[str]:
    corrupted = frame[~frame["corruption"].isin(["none", "fdrop"])]
    sentences = []
    names = [
        CORRUPTION_NAMES.get(name, name) for name in in_order(corrupted["corruption"], tuple(CORRUPTIONS))
    ]
    if names:
        sentences.append(f"Corruption: {', '.join(names)}.")
    logistic = corrupted[corrupted["loss"] == "logistic"]
    surrogates = [name for name in in_order(logistic["surrogate"], tuple(SURROGATE_NAMES)) if name]
    if surrogates:
        sentences.append(f"Logistic loss by {_joined([SURROGATE_NAMES[name] for name in surrogates])}.")
    elif len(logistic):
        sentences.append(f"Logistic loss by {SURROGATE_NAMES['jensen']}.")
    forms = [FORMS[name] for name in in_order(logistic["multiclass"], tuple(FORMS)) if name in FORMS]
    if forms:
        sentences.append(f"Multi-class logistic form: {_joined(forms)}.")
    return sentences


def _sources(frame: pd.DataFrame) -> list[str]:
    return [
        f"{dataset_label(name, '')}: {SOURCE_SENTENCES[source]}."
        for name, source in datasets_in(frame)
        if source in SOURCE_SENTENCES
    ]


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
