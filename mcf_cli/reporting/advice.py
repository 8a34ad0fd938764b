"""What ``mcf compare`` advises: every corruption beside the plain model, a verdict in a sentence, a command to paste.

The method is chosen by its validation error alone. Test errors then say, in pairs with those of the plain model on the
same rows, whether the choice is better. So the interval of that one difference is not bent by the choice.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcf_cli.errors import McfError
from mcf_cli.experiments.config import LEVEL_OF, LEVELS, Config, Fit
from mcf_cli.experiments.engine import run_spec
from mcf_cli.experiments.plan import Plan, PlannedData
from mcf_cli.experiments.protocols import TrainTest
from mcf_cli.experiments.rows import Evidence, cell_text
from mcf_cli.experiments.run import RunOutcome
from mcf_cli.files import write_text
from mcf_cli.reporting.results import Result
from mcf_cli.reporting.series import SOURCE_MARKS, dataset_label
from mcf_cli.reporting.statistics import Quantities
from mcf_cli.reporting.tables import Table, markdown

ADVICE = "advice.md"
STORED = "advice.json"  # the same for the report
_FEWEST = (
    6  # rows on which two models differ: with fewer, chance alone puts all on one side in over 5% of cases
)
_FEWEST_ROWS = 4 * _FEWEST  # of which a quarter tests
_MOST_TIMES = 1000  # times the test rows: beyond that no one would collect them
_METHOD = ["loss", "corruption", "surrogate", "multiclass", "penalty", "clip", "column_groups"]
_PAIRED = [*_METHOD, *LEVELS, "l2", "repeat"]


@dataclass(frozen=True)
class Contender:
    """One method with what validation chose for it. Errors are shares; ``difference`` is from the plain model."""

    method: dict[str, Any]
    l2: float
    validation_error: float
    test_error: float
    interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    differing: int  # test rows that one of the two gets wrong and the other right

    @property
    def words(self) -> str:
        """``blankout (q 0.5)``."""
        level = LEVEL_OF.get(self.method["corruption"])
        name = "the plain model" if self.method["corruption"] == "none" else self.method["corruption"]
        return f"{name} ({level} {cell_text(self.method[level])})" if level else name


@dataclass(frozen=True)
class Advice:
    """What to train on one data set, at one share of deleted features.

    Parameters
    ----------
    dataset, data_source : str
        The data, and whether it is real, the user's or built in.
    deletion : float or None
        The share of features deleted in validation and test rows; None where nothing is.
    candidates : sequence of Contender
        The methods, the plain model among them.
    plain, chosen : int
        The places of the plain model and of the method with the lowest validation error.
    verdict : str
        ``better``, ``worse``, ``unclear``, or ``plain`` where validation chose the plain model.
    sentence : str
        The verdict in words.
    command : str
        The ``mcf train`` line of the model to take: the chosen one where it is clearly better, else the plain one.
    """

    dataset: str
    data_source: str
    deletion: float | None
    candidates: Sequence[Contender]
    plain: int
    chosen: int
    verdict: str
    sentence: str
    command: str

    @property
    def title(self) -> str:
        """``Compared on reviews (built-in), 50% of the features deleted``."""
        mark = SOURCE_MARKS.get(self.data_source, self.data_source)
        deleted = f", {self.deletion:.0%} of the features deleted" if self.deletion else ""
        return f"Compared on {dataset_label(self.dataset, '')} ({mark}){deleted}"

    @property
    def table(self) -> Table:
        """The candidates, a line each: errors in per cent, differences in points."""
        several = len({each.method["loss"] for each in self.candidates}) > 1
        lines = []
        for place, each in enumerate(self.candidates):
            level = LEVEL_OF.get(each.method["corruption"])
            words = [f"{each.method['loss']},"] if several else []
            words.append("plain" if each.method["corruption"] == "none" else each.method["corruption"])
            words += [f"{level}={cell_text(each.method[level])}"] if level else []
            words += ["*"] if place == self.chosen else []
            apart = (
                "" if place == self.plain else _with_ends(each.difference, each.difference_interval, "+z.1f")
            )
            lines.append(
                {
                    "method": " ".join(words),
                    "l2": f"{each.l2:g}",
                    "valid.": f"{100 * each.validation_error:.1f}",
                    "test error (95%)": _with_ends(each.test_error, each.interval),
                    "from plain (95%)": apart,
                }
            )
        note = "* lowest validation error (valid.). Errors in %, differences in points."
        return Table(self.title, pd.DataFrame(lines), pd.DataFrame(lines), (note,))

    @property
    def markdown(self) -> str:
        """The table, the verdict and the command."""
        return f"{markdown(self.table)}\n{self.sentence}\n\n    {self.command}\n"

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"candidates": [asdict(each) for each in self.candidates]}


def check_comparable(plan: Plan) -> None:
    """Refuse, before any fit, what leaves nothing to compare with or nothing to choose by."""
    for part in plan.parts:
        name, rows = part.facts.name, part.facts.shape[0]
        if rows < _FEWEST_ROWS:
            raise McfError(
                f"{name} has {rows} rows, too few to compare methods: with fewer than {_FEWEST_ROWS} "
                "no difference could be told from chance."
            )
    methods = [trial.params["method"] for trial in plan.trials]
    if not any(_is_plain(method) for method in methods):
        raise McfError(
            "compare needs the plain model: give its grid an entry with corruption none and penalty l2."
        )
    if any(trial.params["select"]["by"] == "none" for trial in plan.trials):
        raise McfError(
            "compare chooses by validation error, and one l2 leaves nothing to validate: give at least two."
        )


def advise(result: Result, plan: Plan) -> list[Advice]:
    """The advice for every data set and share of deleted features; none where the plain model did not finish."""
    rows, found = result.finished, []
    for part in plan.parts:
        here = rows[rows["dataset"] == part.facts.name]
        tests = here[here["metric"] == "test_error"]
        for deletion in sorted(tests["deletion"].dropna().unique()) or [None]:
            groups = _by_method(here if deletion is None else here[here["deletion"] == deletion])
            methods = [_method_of(result.rows.loc[group.index[0]]) for group in groups]
            if any(map(_is_plain, methods)):
                found.append(_advice(groups, methods, plan.config, part, deletion))
    return found


def beside_plain(outcome: RunOutcome) -> dict[str, Any] | None:
    """The plain model of a trained one, for its metrics: the same rows, folds and penalties, without corruption.

    It is evaluated here and kept in no store; with repeats it is the first one's. None for a model that is plain
    itself, for a regression, for rows that stay on disk, and where missing cells are filled before prediction.
    """
    place, row = next((k, row) for k, row in enumerate(outcome.rows) if row["metric"].startswith("test_"))
    trial, evidence = outcome.plan.trials[0], outcome.evidence.by_row()
    filled = outcome.plan.config.missing not in (None, "deleted")
    if row["corruption"] == "none" or place not in evidence or trial.data.get("in_chunks") or filled:
        return None
    method = {"loss": row["loss"], "corruption": "none", "penalty": "l2"}
    found = run_spec({**trial.spec(), "params": {**trial.params, "method": method}})
    if found["status"] != "ok":
        return {"failed": found["reason"]}
    errors = {each["metric"]: each for each in found["rows"]}
    plain = errors["test_error"]
    sides = [(row, evidence[place]), (plain, Evidence.of([plain]).by_row()[0])]
    groups = [
        pd.DataFrame([{**side, "dataset": row["dataset"], "repeat": 0, "tested": rows, "wrong": wrong}])
        for side, (rows, wrong) in sides
    ]
    ours, theirs = _contenders(groups, [row, method], np.full(2, np.nan), plain=1)
    return {
        "l2": theirs.l2,
        "validation_error": errors["validation_error"]["value"] if "validation_error" in errors else None,
        "test_error": theirs.test_error,
        "difference": ours.difference,
        "difference_interval": list(ours.difference_interval),
        "verdict": _verdict(ours),
    }


def beside_words(plain: Mapping[str, Any]) -> str:
    """``plain model, l2 0.01: test error 9.00%; this one makes 1.20 points fewer (95% interval 0.40 to 2.00): ...``."""
    if "failed" in plain:
        return f"plain model: failed ({plain['failed']})"
    points, word, ends = _apart(plain["difference"], plain["difference_interval"])
    verdict = {"unclear": "no clear difference"}.get(plain["verdict"], f"clearly {plain['verdict']}")
    return (
        f"plain model, l2 {cell_text(plain['l2'])}: test error {plain['test_error']:.2%}; this one makes "
        f"{100 * points:z.2f} points {word} (95% interval {_range(ends, 'z.2f')}): {verdict}"
    )


def write_advice(found: Sequence[Advice], folder: Path) -> None:
    """advice.md and advice.json beside rows.csv; none are left from an earlier run where there is no advice."""
    if not found:
        for name in (ADVICE, STORED):
            (folder / name).unlink(missing_ok=True)
        return
    write_text(folder / ADVICE, "\n".join(each.markdown for each in found))
    write_text(folder / STORED, json.dumps([each.to_dict() for each in found], indent=1) + "\n")


def read_advice(folder: Path) -> list[Advice]:
    """What was advised when the item was run; nothing for other items."""
    if not (folder / STORED).exists():
        return []
    try:
        return [
            Advice(**{**each, "candidates": tuple(Contender(**line) for line in each["candidates"])})
            for each in json.loads((folder / STORED).read_text(encoding="utf-8"))
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise McfError(f"{folder / STORED} cannot be read ({error}): run mcf compare again.") from None


def _with_ends(share: float, ends: tuple[float, float], form: str = "z.1f") -> str:
    """``12.4 (10.1, 14.7)``."""
    return f"{100 * share:{form}} ({100 * ends[0]:{form}}, {100 * ends[1]:{form}})"


def _range(interval: tuple[float, float], form: str = "z.1f") -> str:
    return f"{100 * interval[0]:{form}} to {100 * interval[1]:{form}}"


def _is_plain(method: Mapping[str, Any]) -> bool:
    return method["corruption"] == "none" and _trainable(method)


def _trainable(method: Mapping[str, Any]) -> bool:
    """What ``mcf train`` can save: no baselines."""
    return method["loss"] != "hinge" and method["penalty"] == "l2"


def _method_of(row: pd.Series) -> dict[str, Any]:
    """The method of a row as a trial has it: what it has no value for is left out."""
    level = LEVEL_OF.get(row["corruption"])
    names = [*_METHOD, *([level] if level else [])]
    known = {name: row[name] for name in names if pd.notna(row.get(name)) and row[name] != ""}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in known.items()}


def _by_method(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The test errors of each method with their validation errors, one a repeat.

    Of levels that a config fixes, the one with the lowest validation error stands for the method. A method that
    failed in some repeats is left out: its mean would be one over other rows.
    """
    tests, validation = (rows[rows["metric"] == f"{name}_error"] for name in ("test", "validation"))
    known = validation[[*_PAIRED, "value"]].rename(columns={"value": "validation"}).drop_duplicates(_PAIRED)
    both = tests.reset_index().merge(known, on=_PAIRED, how="left").set_index("index")
    groups = [
        group.sort_values("validation", kind="stable").drop_duplicates("repeat").sort_values("repeat")
        for _, group in both.groupby(_METHOD, sort=False, dropna=False)
    ]
    most = max(map(len, groups), default=0)
    return [group for group in groups if len(group) == most and group["validation"].notna().all()]


def _advice(
    groups: list[pd.DataFrame],
    methods: list[dict[str, Any]],
    config: Config,
    part: PlannedData,
    deletion: float | None,
) -> Advice:
    validation = np.array([group["validation"].mean() for group in groups])
    plain = _lowest(validation, [_is_plain(method) for method in methods])
    trainable = _lowest(validation, [_trainable(method) for method in methods])
    chosen = plain if validation[plain] <= validation[trainable] else trainable  # ties go to the plain model
    candidates = _contenders(groups, methods, validation, plain)
    rows = int(Quantities.of_errors([groups[plain]]).examples[0])
    verdict = "plain" if chosen == plain else _verdict(candidates[chosen])
    sentence = _sentence(verdict, candidates[chosen], candidates[plain], rows)
    if deletion:
        sentence = f"With {deletion:.0%} of the features deleted: {sentence[0].lower()}{sentence[1:]}"
    taken = candidates[chosen if verdict == "better" else plain]
    return Advice(
        part.facts.name,
        part.facts.source,
        deletion,
        tuple(candidates),
        plain,
        chosen,
        verdict,
        sentence,
        training_line(config, part.reference, taken),
    )


def _lowest(values: np.ndarray, allowed: Sequence[bool]) -> int:
    return int(np.argmin(np.where(allowed, values, np.inf)))


def _contenders(
    groups: list[pd.DataFrame], methods: list[dict[str, Any]], validation: np.ndarray, plain: int
) -> list[Contender]:
    """With 95% intervals, each for itself; the differences are paired."""
    cells = Quantities.of_errors(groups)
    apart = cells.differences(range(len(groups)), [plain] * len(groups))
    half, half_apart = cells.halves(), apart.halves()
    return [
        Contender(
            method,
            float(groups[k]["l2"].iloc[0]),
            float(validation[k]),
            float(cells.values[k]),
            (max(0.0, float(cells.values[k] - half[k])), min(1.0, float(cells.values[k] + half[k]))),
            float(apart.values[k]),
            (float(apart.values[k] - half_apart[k]), float(apart.values[k] + half_apart[k])),
            _differing(groups[k], groups[plain]),
        )
        for k, method in enumerate(methods)
    ]


def _differing(one: pd.DataFrame, other: pd.DataFrame) -> int:
    """The distinct test rows on which two methods differ in some repeat; both were tested on the same rows."""
    rows = [
        tested[first != second]
        for tested, first, second in zip(one["tested"], one["wrong"], other["wrong"], strict=True)
    ]
    return len(np.unique(np.concatenate(rows)))


def _verdict(chosen: Contender) -> str:
    low, high = chosen.difference_interval
    if chosen.differing < _FEWEST or low <= 0 <= high:
        return "unclear"
    return "better" if high < 0 else "worse"


def _apart(difference: float, interval: Sequence[float]) -> tuple[float, str, tuple[float, float]]:
    """How many points, fewer or more errors than the plain model, and their interval in the same direction."""
    low, high = interval
    return (difference, "more", (low, high)) if difference > 0 else (-difference, "fewer", (-high, -low))


def _sentence(verdict: str, chosen: Contender, plain: Contender, rows: int) -> str:
    if verdict == "plain":
        return "No corruption has a lower validation error than the plain model. Train the plain model."
    points, word, ends = _apart(chosen.difference, chosen.difference_interval)
    errors = (
        f"{chosen.words} makes {chosen.test_error:.1%} errors, the plain model {plain.test_error:.1%}: "
        f"{100 * points:z.1f} points {word} (95% interval {_range(ends)}, {rows:,} test rows)."
    )
    if verdict == "better":
        return f"Clearly better: {errors}"
    if verdict == "worse":
        return f"Clearly worse, though validation preferred it: {errors} Train the plain model."
    return f"No clear difference: {errors} Train the plain model{_what_would_decide(chosen, rows)}."


def _what_would_decide(chosen: Contender, rows: int) -> str:
    """How many test rows would decide, if the difference stayed as it is."""
    if chosen.difference == 0:
        return ""
    low, high = chosen.difference_interval
    factor = max(((high - low) / 2 / chosen.difference) ** 2, _FEWEST / max(chosen.differing, 1))
    if factor > _MOST_TIMES:
        return "; more rows would hardly decide it"
    needed = math.ceil(factor * rows)
    digit = 10 ** max(len(str(needed)) - 2, 0)
    return f"; some {math.ceil(needed / digit) * digit:,} test rows would decide, if the difference stays"


def training_line(config: Config, reference: Mapping[str, Any], candidate: Contender) -> str:
    """The ``mcf train`` line that fits a candidate to the same rows, with the level and l2 chosen for it."""
    method, options = candidate.method, dict(reference["options"])
    words = ["mcf", "train", "--dataset", str(reference["name"])]
    for name in ("label", "test"):
        if name in options:
            words += [f"--{name}", str(options.pop(name))]
    options.pop("task", None)
    words += ["--column-groups", method["column_groups"]] if "column_groups" in method else []
    words += ["--scale", config.scale] if config.scale != "none" else []
    words += ["--seed", str(config.seed)] if config.seed != Config.model_fields["seed"].default else []
    words += ["--loss", method["loss"], "--corruption", method["corruption"]]
    level = LEVEL_OF.get(method["corruption"])
    settings: dict[str, Any] = {f"datasets.0.options.{name}": value for name, value in options.items()}
    if level == "q":
        words += ["--q", cell_text(method["q"])]
    elif level:
        settings[f"select.{level}"] = method[level]
    words += ["--l2", cell_text(candidate.l2)]
    if method["corruption"] != "none":
        usual = {"surrogate": "jensen", "multiclass": "pairwise", "clip": None}
        settings |= {
            f"grid.0.{name}": method[name] for name in usual if method.get(name, usual[name]) != usual[name]
        }
    settings |= _unusual("evaluation", config.evaluation, TrainTest())
    settings |= _unusual("fit", config.fit, Fit())
    for key, value in settings.items():
        words += ["--set", f"{key}={cell_text(value)}"]
    return shlex.join(words)


def _unusual(key: str, given: Any, usual: Any) -> dict[str, Any]:
    """The settings of a part of a config that differ from its defaults; the protocol is always that of train."""
    names = set(type(usual).model_fields) - {"protocol"}
    return {
        f"{key}.{name}": value
        for name in sorted(names)
        if (value := getattr(given, name)) != getattr(usual, name)
    }
