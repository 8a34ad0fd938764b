"""A trial: one evaluation, everything that its numbers depend on, and a key made of exactly that."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

# Raise this when a change of code changes numbers: every stored trial is then out of date.
METHOD_VERSION = 5


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, shortest floats that read back the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Trial:
    """``params`` decide the numbers; the other fields only say where the data is and what the rows show.

    When ``chosen_level`` names a level ("q"), this trial is one candidate of several, and only the one with
    the lowest validation error reaches the rows.
    """

    params: dict[str, Any]
    data: dict[str, Any]
    data_source: str
    chosen_level: str | None = None

    @cached_property
    def key(self) -> str:
        """A hash of the parameters (the data's sha256 among them) and the method version."""
        return hashlib.sha256(canonical([METHOD_VERSION, self.params]).encode()).hexdigest()

    @cached_property
    def group(self) -> str:
        """What the candidates for one choice have in common."""
        if self.chosen_level is None:
            return self.key
        method = {name: value for name, value in self.params["method"].items() if name != self.chosen_level}
        return canonical({**self.params, "method": method})

    @property
    def level(self) -> float:
        """The value of the level that is being chosen."""
        return self.params["method"][self.chosen_level]

    def spec(self) -> dict[str, Any]:
        """The little that travels to a worker."""
        return {"key": self.key, "params": self.params, "data": self.data}

    @property
    def label(self) -> str:
        """A short name for progress lines."""
        params, method = self.params, self.params.get("method", {})
        words = [
            params.get("dataset", ""),
            method.get("loss", params["protocol"]),
            method.get("surrogate", ""),
        ]
        words += [
            method.get("multiclass", ""),
            "l1" if method.get("penalty") == "l1" else "",
            method.get("corruption", ""),
        ]
        words += [f"{name}={method[name]:g}" for name in ("q", "sigma", "scale", "budget") if name in method]
        words += [
            f"{name}={params[name]}"
            for name in ("train_size", "copies", "lam")
            if params.get(name) is not None
        ]
        words += [f"repeat {params['repeat'] + 1}"] if params.get("repeat") else []
        return " ".join(word for word in words if word and word != "none")


@dataclass(frozen=True)
class Repeated:
    """Trials that differ in their repeat alone. Their keys are hashed from their common beginning once."""

    params: dict[str, Any]
    data: dict[str, Any]
    data_source: str
    chosen_level: str | None = None

    def trial(self, repeat: int) -> Trial:
        """One of them, with its key."""
        trial = Trial({**self.params, "repeat": repeat}, self.data, self.data_source, self.chosen_level)
        beginning, end = self._halves
        digest = beginning.copy()
        digest.update(f"{repeat}{end}".encode())
        vars(trial)["key"] = digest.hexdigest()  # what its cached property would come to
        return trial

    @cached_property
    def _halves(self) -> tuple[Any, str]:
        """The hash of what stands before the repeat, and what stands behind it.

        Sorted by name, only the seed, the selection and a size come after it: nothing that could look like it.
        """
        text = canonical([METHOD_VERSION, {**self.params, "repeat": 0}])
        before, mark, after = text.rpartition('"repeat":0')
        return hashlib.sha256(f"{before}{mark[:-1]}".encode()), after
