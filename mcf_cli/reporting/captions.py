"""The caption of an item's figure: what it shows, the variants actually used, and the data that is not the paper's."""

from __future__ import annotations

import pandas as pd

from mcf_cli.reporting.series import (
    CORRUPTIONS,
    SURROGATE_NAMES,
    collection,
    dataset_label,
    datasets_in,
    in_order,
    interval_words,
    known_by_example,
    tidy,
    varying,
)

SUBJECTS = {
    1: "Bounds on the expected logistic loss of one blanked-out feature, as a function of its margin.",
    3: "Test error against the corruption level q; dashed lines are the plain models, the same as q = 0.",
    4: "Test error against the corruption level q, from 0.9 upwards.",
    5: "Test error against the number of training examples: means over random subsets.",
    6: "Test error against the number M of explicitly corrupted copies; the big marker is MCF, the limit.",
    7: "Test error of the MCF logistic loss with each of its three surrogates, against the blankout level q.",
    8: "Test error against the corruption level q.",
    9: "Test error against the share of pixels deleted at test time.",
}

WEAK_SUBJECT = "Plain models with l2 divided by about N, as the authors' released code does at q = 0."
FORMS = {
    "pairwise": "pairwise (Jensen's bound)",
    "shared": "shared (another upper bound, that of the authors' released code)",
}
ENDS = {"q": "q = {:g}", "train_size": "N = {:,.0f}", "deletion": "{:.0%} deleted", "copies": "M = {:g}"}
AID_SENTENCES = {
    "mean": "Marked values are replaced by the mean of the training rows.",
    "conditional": "Or by their mean given what is observed.",
    "reduced": "The reduced model is the one that a fit to the observed columns gives.",
    "known-rates": "l2 is chosen on labels that are as wrong as those of training.",
    "unlabelled": "The unlabelled rows are the rest of the training rows.",
    "target-rates": "Rates of the target come from reviews that are not tested, without labels.",
    "autoencoder": "The autoencoder learns from training rows and untested rows of the target, without labels.",
    "autoencoder-test": "Where test rows are seen, it learns from those too, without labels (transductive).",
    "by-weight": "Features that are not read count as 0.",
}
SINGLE_SPLIT = (3, 4, 6, 7)
TWO_BLANKOUTS = (
    "Dropout sets features to zero and leaves the others as they are, which is what happens at test time (the paper "
    "calls it blankout too); blankout also scales them up. The right panel compares the two."
)

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
    sentences = [SUBJECTS.get(paper_figure or 0, subject or "Test error.")]
    sentences += _variants(frame)
    sentences += [AID_SENTENCES[aid] for aid in in_order(frame["aid"], ()) if aid in AID_SENTENCES]
    if "dataset" in frame:
        sentences += [*_early_ends(frame), *_intervals(frame), *_scales(frame, paper_figure)]
        sentences += _sources(frame, notes)
    return " ".join([*sentences, *(f"{text.rstrip('.')}." for text in notes)])


def _variants(frame: pd.DataFrame) -> list[str]:
    corrupted = frame[~frame["corruption"].isin(["none", "fdrop"])]
    sentences = []
    names = [CORRUPTIONS.get(name, name) for name in in_order(corrupted["corruption"], tuple(CORRUPTIONS))]
    if names:
        sentences.append(f"Corruption: {', '.join(names)}.")
    if {"blankout", "dropout"} <= set(corrupted["corruption"]) and frame["deletion"].nunique() > 1:
        sentences.append(TWO_BLANKOUTS)
    logistic = corrupted[corrupted["loss"] == "logistic"]
    if logistic["lam"].notna().any():  # bounds themselves, each with its lambda
        return sentences
    surrogates = [name for name in in_order(logistic["surrogate"], tuple(SURROGATE_NAMES)) if name]
    if surrogates:
        sentences.append(f"Logistic loss by {_joined([SURROGATE_NAMES[name] for name in surrogates])}.")
    elif len(logistic):
        sentences.append(f"Logistic loss by {SURROGATE_NAMES['jensen']}.")
    forms = [FORMS[name] for name in in_order(logistic["multiclass"], tuple(FORMS)) if name in FORMS]
    if forms:
        sentences.append(f"Multi-class logistic form: {_joined(forms)}.")
    if len(forms) > 1 and (logistic["multiclass"] == "").any() and varying(frame):
        sentences.append("With two classes there is one form, drawn as pairwise.")
    return sentences


def _early_ends(frame: pd.DataFrame) -> list[str]:
    """Where one multi-class form was run over fewer levels than the other, so that its curve ends early."""
    axis = varying(frame)
    forms = frame[frame["multiclass"].isin(FORMS)]
    if axis not in ENDS or forms["multiclass"].nunique() < 2:
        return []
    last = forms.groupby(["multiclass", "dataset", "corruption"], sort=False)[axis].max().dropna()
    furthest = last.groupby(level=["dataset", "corruption"]).transform("max")
    early = last[last < furthest].rename("level").reset_index()
    sentences = []
    for (form, level), ends in early.groupby(["multiclass", "level"], sort=False):
        datasets, corruptions = list(dict.fromkeys(ends["dataset"])), list(dict.fromkeys(ends["corruption"]))
        every = set(last[form].index.get_level_values("corruption"))
        words = f"The {form} form was run up to {ENDS[axis].format(level)} on "
        words += _joined([dataset_label(name, "") for name in datasets])
        if set(corruptions) != every:
            words += f" with {_joined([CORRUPTIONS.get(name, name) for name in corruptions])} corruption"
        sentences.append(f"{words}.")
    return sentences


def _intervals(frame: pd.DataFrame) -> list[str]:
    """What bars and bands mean, and what they do not."""
    errors = frame[frame["metric"] == "test_error"]
    over = interval_words(errors) if len(errors) else ""
    if not over:
        return []
    paired = known_by_example(errors) and errors["method"].nunique() > 1
    apart = " Methods share their test rows, so their differences are surer than bars that overlap suggest."
    return [f"Bars and bands are 95% intervals {over}.{apart if paired else ''}"]


def _scales(frame: pd.DataFrame, paper_figure: int | None) -> list[str]:
    """What a reader of small differences must know."""
    single = frame["repeat"].nunique() <= 1 and frame["fold"].isna().all()
    if paper_figure not in SINGLE_SPLIT or not single:
        return []
    if frame["dataset"].nunique() == 1:
        return ["One split; the error axis does not begin at 0."]
    same = len({collection(name) for name in frame["dataset"]}) < frame["dataset"].nunique()
    spans = ", but span equally many points for data sets of one collection" if same else ""
    return [f"One split; error axes differ from panel to panel and do not begin at 0{spans}."]


def _sources(frame: pd.DataFrame, notes: tuple[str, ...]) -> list[str]:
    """What is not the paper's data, where no note says it already."""
    labels = {
        dataset_label(name, ""): source for name, source in datasets_in(frame) if source in SOURCE_SENTENCES
    }
    return [
        f"{label}: {SOURCE_SENTENCES[source]}."
        for label, source in labels.items()
        if not any(note.startswith(f"{label}: SUBSTITUTE") for note in notes)
    ]


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
