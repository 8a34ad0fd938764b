"""Made-up rows with the columns of rows.csv and curves of a plausible shape, and evidence that fits them."""

import numpy as np
import pandas as pd

AMAZON = ("amazon-books", "amazon-dvd", "amazon-electronics", "amazon-kitchen")
LOSSES = ("quadratic", "exponential", "logistic")


def row(**values):
    base = {"item": "made-up", "data_source": "real", "metric": "test_error", "status": "ok", "repeat": 0}
    return {**base, "l2": 0.0, "converged": True, "n_iter": 10, "seconds": 0.1, **values}


def frame(rows):
    return pd.DataFrame(rows)


EXAMPLES = 4000
FOLDS = 10


def with_evidence(rows, examples=EXAMPLES):
    """Errors example by example that give the rows' values, to the nearest example; metrics beside errors have none.

    Some examples are harder than others, the same ones for all methods.
    """
    order = np.random.default_rng(3).permutation(examples)
    tested, wrong, values = [], [], []
    for line in rows.to_dict("records"):
        if line["metric"] != "test_error" or line["status"] != "ok":
            tested.append(np.nan), wrong.append(np.nan), values.append(line["value"])
            continue
        fold = line.get("fold")
        here = np.arange(examples) if fold is None or pd.isna(fold) else np.arange(int(fold), examples, FOLDS)
        rank = np.argsort(np.argsort(order[here]))
        marks = rank < round(line["value"] * len(here))
        tested.append(here), wrong.append(marks), values.append(marks.mean())
    columns = {name: pd.Series(cells, index=rows.index, dtype=object) for name, cells in
               (("tested", tested), ("wrong", wrong))}  # fmt: skip
    return rows.assign(value=values, **columns)


def valley(q, start, depth, best):
    return start - depth * (1 - ((q - best) / best) ** 2) + 0.4 * max(0.0, q - 0.93)


def q_sweep(levels=None, datasets=AMAZON, source="real", forms=("pairwise",)):
    levels = np.round(np.arange(0, 1.0, 0.1), 2) if levels is None else levels
    rows = []
    for d, dataset in enumerate(datasets):
        for k, loss in enumerate(LOSSES):
            start = 0.19 - 0.01 * d + 0.008 * k
            for form in forms if loss == "logistic" else ("",):
                common = {"dataset": dataset, "data_source": source, "loss": loss, "multiclass": form}
                shift = 0.006 if form == "shared" else 0.0
                rows += [
                    row(**common, corruption="blankout", q=q, value=valley(q, start + shift, 0.03, 0.85))
                    for q in levels
                ]
                rows.append(row(**common, corruption="none", value=start + shift))
                rows.append(row(**common, corruption="poisson", value=start + shift - 0.02))
    return frame(rows)


def bounds():
    rows, q = [], 0.5
    for z in np.round(np.arange(-4, 4.01, 0.1), 3):
        exact = q * np.log(2) + (1 - q) * np.logaddexp(0, -z / (1 - q))
        common = {"corruption": "blankout", "q": q, "margin": z}
        rows.append(row(**common, metric="expected_loss", value=exact))
        for lam in (0.0, 0.1, 0.25, 0.5):
            kappa = [np.log(q + (1 - q) * np.exp(t / (1 - q))) for t in (lam * z, (lam - 1) * z)]
            rows.append(row(**common, metric="bound", lam=lam, value=np.logaddexp(*kappa) - lam * z))
    return frame(rows)


def learning_curve(datasets=(("dmoz", "substitute"), ("reuters", "real"))):
    rng, rows = np.random.default_rng(0), []
    for d, (dataset, source) in enumerate(datasets):
        for k, loss in enumerate(LOSSES):
            for size in (100, 500, 1000, 2000, 4000):
                for repeat in range(5):
                    for gain, corruption in enumerate(("none", "poisson", "blankout")):
                        error = (0.9 - 0.04 * gain - 0.03 * k) * size**-0.16 - 0.1 * d + rng.normal(0, 0.008)
                        common = {"dataset": dataset, "data_source": source, "loss": loss, "repeat": repeat}
                        rows.append(row(**common, corruption=corruption, train_size=size, value=error))
    return frame(rows)


def explicit():
    rows = []
    for corruption, limit in (("blankout", 0.155), ("poisson", 0.165)):
        for copies in (1, 2, 4, 8, 16, 32, 64, 128, 256, "inf"):
            error = limit if copies == "inf" else limit + 0.05 * copies**-0.6
            common = {"dataset": "amazon-books", "loss": "quadratic", "corruption": corruption}
            rows.append(row(**common, copies=copies, value=error))
    return frame(rows)


def surrogates(datasets=AMAZON):
    rows = []
    for d, dataset in enumerate(datasets):
        for k, surrogate in enumerate(("quadratic", "jensen", "variational")):
            common = {
                "dataset": dataset,
                "loss": "logistic",
                "surrogate": surrogate,
                "corruption": "blankout",
            }
            for q in np.round(np.arange(0, 1, 0.1), 2):
                error = valley(q, 0.18 - 0.01 * d, 0.02 + 0.004 * k, 0.8)
                rows.append(row(**common, q=q, value=error))
    return frame(rows)


def splice(source="real"):
    rng, rows = np.random.default_rng(1), []
    for corruption, depth in (("blankout", 0.006), ("multinomial", -0.004)):
        for q in np.round(np.arange(0, 0.61, 0.05), 2):
            for repeat in range(10):
                for fold in range(10):
                    error = valley(q, 0.045, depth, 0.3) + rng.normal(0, 0.006)
                    common = {"dataset": "splice", "data_source": source, "loss": "logistic"}
                    rows.append(
                        row(**common, corruption=corruption, q=q, repeat=repeat, fold=fold, value=error)
                    )
    return frame(rows)


def nightmare(source="real", unbiased=True):
    rows = []
    families = [("dropout", "l2", 0.55), ("none", "l2", 1.0), ("none", "l1", 0.95)]
    families += [("blankout", "l2", 0.97)] if unbiased else []
    for deletion in np.round(np.arange(0, 0.91, 0.1), 2):
        common = {"dataset": "mnist", "data_source": source, "deletion": deletion}
        for k, loss in enumerate(LOSSES):
            for corruption, penalty, factor in families:
                error = 0.08 + 0.03 * (2 - k) / 2 + factor * 0.8 * deletion**2
                method = {"loss": loss, "corruption": corruption, "penalty": penalty}
                rows.append(row(**common, **method, value=min(error, 0.9)))
        for corruption, factor in (("none", 0.8), ("fdrop", 0.7)):
            rows.append(
                row(**common, loss="hinge", corruption=corruption, value=0.08 + 0.8 * factor * deletion**2)
            )
    return frame(rows)


def cifar(source="real"):
    errors = {"none": (0.33, 0.40, 0.325), "poisson": (0.29, 0.39, 0.30), "blankout": (0.32, 0.38, 0.29)}
    return frame(
        [
            row(dataset="cifar10", data_source=source, loss=loss, corruption=corruption, value=value)
            for corruption, values in errors.items()
            for loss, value in zip(LOSSES, values, strict=True)
        ]
    )


def cost():
    rows = []
    for dataset in ("amazon-books", "reuters"):
        for loss, ratio in (("quadratic", 1.1), ("exponential", 1.6), ("logistic", 2.2)):
            for corruption in ("blankout", "poisson"):
                common = {"dataset": dataset, "loss": loss, "corruption": corruption}
                rows.append(row(**common, metric="gradient_ratio", value=ratio))
                rows.append(row(**common, metric="term_by_term_ratio", value=20 * ratio))
    return frame(rows)


def leave_one_out():
    rows = []
    for corruption in ("blankout", "poisson", "gaussian"):
        for l2, error in ((0.0, 0.3), (0.01, 0.25), (0.1, 0.2), (1.0, 0.28)):
            common = {"dataset": "builtin-reviews", "data_source": "builtin", "loss": "quadratic", "l2": l2}
            for name, shift, gap in (("refitted", 0.0, 0.0), ("exact", 0.0, 1e-14), ("paper", -0.02, 0.01)):
                method = {"corruption": corruption, "q": 0.5 if corruption == "blankout" else None}
                rows.append(row(**common, **method, metric=f"loo_error_{name}", value=error + shift))
                rows.append(row(**common, **method, metric=f"largest_gap_{name}", value=gap))
    return frame(rows)
