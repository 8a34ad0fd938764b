"""Mutation testing of mcf_cli/core: small faults are put into the code, and the tests of core should notice.

    pip install cosmic-ray
    python -m tests.mutation.run --sample 200 --seed 2013 --out mutants.json
    python -m tests.mutation.run --again mutants.json        # those that survived, against the tests of today

The sample is drawn from all mutants, in proportion to what each module has and at least --least from each. A mutant
lives in a temporary copy of the tree, so nothing is left behind. The tests of tests/core run until one fails:
up to --cases cases of each function in the files that matter most to the module, then --others of the rest (see
`order.py`). What outlasts --timeout counts as killed and is listed apart. A run that was cut short goes on from its
--out file.

Operators, of cosmic-ray: arithmetic, comparison and unary swaps; and/or; True/False; added `not`; numbers +1 and -1;
break/continue; loops without a turn; exceptions not caught. Of our own: augmented assignments swapped, statements
deleted, None returned. Annotations, the text of messages and what is raised are left alone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import parso
import parso.python.tree  # before cosmic_ray, whose plugins import it in an order that fails
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[2]
CORE = "mcf_cli/core"
LOOPS = "kernels/loops"
MEMORY = 6 << 30  # bytes of address space: a mutant may ask for any size of array

# Loaded once for all mutants. Not numba: it reads where its cache is when it is loaded.
LOADED = "hypothesis scipy.integrate scipy.optimize scipy.sparse.csgraph scipy.stats sklearn.linear_model "
LOADED += "sklearn.model_selection sklearn.utils.estimator_checks"

SWAPS = {
    "ReplaceBinaryOperator": "Add_Sub Sub_Add Mul_Div Div_Mul Pow_Mul FloorDiv_Mul Mod_Mul LShift_RShift "
    "BitAnd_BitOr BitOr_BitAnd",
    "ReplaceComparisonOperator": "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_GtE GtE_Lt Gt_LtE LtE_Gt Eq_NotEq NotEq_Eq "
    "Is_IsNot IsNot_Is",
    "ReplaceUnaryOperator": "USub_UAdd Delete_Not Delete_Invert",
}
OTHERS = (
    "AddNot ReplaceAndWithOr ReplaceOrWithAnd ReplaceTrueWithFalse ReplaceFalseWithTrue NumberReplacer "
    "ReplaceBreakWithContinue ReplaceContinueWithBreak ZeroIterationForLoop ExceptionReplacer"
)

# The tests that say most about a module, or about what else is in its folder, in the order in which they are run.
# The others of tests/core come after them.
RELEVANT = {
    "corruptions": "corruptions groups losses estimators newton",
    "corruptions/characteristic": "expected",
    "design": "design losses newton kernels",
    "estimators": "estimators plain",
    "kernels": "kernels gate",
    "losses": "losses newton bounds",
    "losses/expected": "expected",
    "missing": "missing estimators",
    "model_file": "persistence",
    "prediction": "estimators bounds",
    "problem": "solvers losses plain estimators",
    "selection": "estimators",
    "solvers": "solvers plain stability stopping",
    "solvers/least_squares": "least_squares solvers",
    "solvers/leave_one_out": "leave_one_out",
    "solvers/newton": "newton solvers plain stability",
    "solvers/normal_equations": "least_squares solvers",
}


def modules() -> list[str]:
    """Every module of core, as its path below it without the suffix."""
    paths = sorted((ROOT / CORE).rglob("*.py"))
    return [path.relative_to(ROOT / CORE).with_suffix("").as_posix() for path in paths if path.stat().st_size]


def relevant(module: str) -> list[str]:
    """The test files that come first for the module."""
    names = RELEVANT.get(module) or RELEVANT[module.partition("/")[0]]
    return [
        str(path.relative_to(ROOT))
        for name in names.split()
        for path in (ROOT / "tests").rglob(f"test_{name}.py")
    ]


class Rewrite(Operator):
    """A mutation by text, of the nodes that `target` gives a new text for."""

    def target(self, node):
        raise NotImplementedError

    def mutation_positions(self, node):
        if self.target(node) is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        prefix = node.get_first_leaf().prefix
        return parso.python.tree.Name(self.target(node), node.start_pos, prefix)

    @classmethod
    def examples(cls):
        return ()


class SwapAugmented(Rewrite):
    swaps = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}  # noqa: RUF012

    def target(self, node):
        return self.swaps.get(getattr(node, "value", None))


class ReturnNone(Rewrite):
    def target(self, node):
        return (
            "return None" if node.type == "return_stmt" and node.get_code().strip() != "return None" else None
        )


class DeleteStatement(Rewrite):
    """Calls on a line of their own, augmented assignments, and assignments to an item or attribute."""

    def target(self, node):
        if node.parent is None or node.parent.type != "simple_stmt":
            return None
        changes = node.type == "expr_stmt" and (
            node.children[1].type != "operator"
            or node.children[1].value != "="
            or node.children[0].type in ("atom_expr", "power")
        )
        return "pass" if changes or node.type in ("atom_expr", "power") else None


def operators() -> dict[str, Operator]:
    names = [f"{kind}_{swap}" for kind, swaps in SWAPS.items() for swap in swaps.split()] + OTHERS.split()
    known = {name: get_operator(f"core/{name}")() for name in names}
    return known | {kind.__name__: kind() for kind in (SwapAugmented, ReturnNone, DeleteStatement)}


@dataclass(frozen=True)
class Mutant:
    module: str
    operator: str
    occurrence: int
    line: int

    def code(self, source: str) -> str:
        return mutate_code(source, operators()[self.operator], self.occurrence)


def source_of(module: str) -> str:
    return (ROOT / CORE / f"{module}.py").read_text()


def all_mutants(module: str) -> list[Mutant]:
    source = source_of(module)
    skipped, nodes = set(left_alone(source)), list(ast_nodes(get_ast(source)))
    found = []
    for name, operator in operators().items():
        positions = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Mutant(module, name, n, line)
            for n, (line, column) in enumerate(positions)
            if not any(start <= (line, column) < end for start, end in skipped)
        ]
    return found


def left_alone(source: str):
    """Where annotations, formatted strings, raised exceptions and statements of type alone begin and end."""
    for node in ast.walk(ast.parse(source)):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.AnnAssign) and node.value is None:
            parts.append(node)
        parts += [node] if isinstance(node, ast.JoinedStr | ast.Raise) else []
        for part in parts:
            if isinstance(part, ast.AST):
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def sample(mutants: dict[str, list[Mutant]], n: int, seed: int, least: int) -> list[Mutant]:
    """In proportion to the modules' mutants, `least` or more from each; only such as differ and can be compiled."""
    total, rng, drawn = sum(map(len, mutants.values())), random.Random(seed), []
    for module, known in mutants.items():
        source, wanted, kept = source_of(module), max(least, round(n * len(known) / total)), []
        for mutant in rng.sample(known, len(known)):
            if len(kept) < wanted and is_mutant(source, mutant.code(source)):
                kept.append(mutant)
        drawn += kept
    return rng.sample(drawn, len(drawn))  # so that a run cut short is still a sample of all modules


def is_mutant(source: str, code: str) -> bool:
    try:
        return ast.dump(ast.parse(code)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class Tree:
    """A copy of the package and its tests, one module of which is a mutant's for a while."""

    def __init__(self, folder: str, options: argparse.Namespace):
        self.folder, self.options = Path(folder), options
        ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
        for name in ("mcf_cli", "tests", "benchmarks"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", self.folder)

    def files(self, module: str) -> list[str]:
        first = relevant(module)
        others = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/core").glob("test_*.py"))
        return first + [name for name in others if name not in first]

    def outcome(self, module: str, code: str) -> tuple[str, float, str]:
        """Whether it was "killed", "survived" or "timed out", the seconds it took, and the test that failed."""
        path, log = self.folder / CORE / f"{module}.py", self.folder / "log"
        original, own_cache = path.read_text(), tempfile.mkdtemp(dir=self.folder)
        changed = code != original
        if changed:
            # Nothing that was compiled earlier may stand in for the mutant: its bytecode is neither written nor
            # found, and mutants of the compiled loops have a numba cache of their own.
            path.write_text(code)
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()
        environment = {
            "PYTHONPATH": str(self.folder),
            "NUMBA_CACHE_DIR": own_cache if changed and module == LOOPS else str(self.folder / "numba"),
            "MUTATION_FIRST": str(len(relevant(module))),
            "MUTATION_CASES": str(self.options.cases),
            "MUTATION_OTHERS": str(self.options.others),
            "MUTATION_SLOW": str(int(self.options.slow)),
        }
        arguments = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.mutation.order",
            "-W",
            "ignore",
            *self.files(module),
        ]
        began = time.monotonic()
        try:
            process = os.fork()  # numpy, scipy and scikit-learn are loaded already; mcf_cli is not
            if process == 0:
                self._be_the_tests(environment, arguments, log, write_bytecode=not changed)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        finally:
            path.write_text(original)
            shutil.rmtree(own_cache, ignore_errors=True)
        output = log.read_text()
        failed = [
            line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))
        ]
        by = failed[0] if failed else output[-2000:]
        overran = status in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
        result = "timed out" if overran else "survived" if status == 0 else "killed"
        return result, round(time.monotonic() - began, 1), by

    def _be_the_tests(self, environment: dict, arguments: list, log: Path, write_bytecode: bool) -> None:
        seconds = self.options.timeout
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.alarm(
            20 * seconds
        )  # for what waits and never works; a busy machine must not count against a mutant
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(self.folder)
        os.environ.update(environment)
        sys.dont_write_bytecode = not write_bytecode
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]  # this program's package; the copy has its own
        sys.path.insert(0, str(self.folder))
        code = 3
        try:
            code = int(pytest.main(arguments))
        finally:
            sys.stdout.flush()
            os._exit(code)


def diff(mutant: Mutant) -> str:
    source = source_of(mutant.module)
    lines = difflib.unified_diff(
        source.splitlines(), mutant.code(source).splitlines(), n=0, lineterm="", fromfile="", tofile=""
    )
    changed = "\n".join("    " + line for line in lines if not line.startswith(("---", "+++", "@@")))
    return f"{CORE}/{mutant.module}.py:{mutant.line} {mutant.operator}\n{changed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=200, help="about how many mutants")
    parser.add_argument("--least", type=int, default=5, help="mutants of each module, at least")
    parser.add_argument("--seed", type=int, default=2013)
    parser.add_argument(
        "--cases", type=int, default=6, help="cases of a test function in the files that come first"
    )
    parser.add_argument("--others", type=int, default=1, help="cases of a test function in the other files")
    parser.add_argument("--slow", action="store_true", help="the slow tests too")
    parser.add_argument("--timeout", type=int, default=90, help="CPU seconds for the tests of a mutant")
    parser.add_argument("--modules", nargs="*", default=modules(), help="e.g. losses/margin")
    parser.add_argument("--out", type=Path, help="results as JSON, kept after every mutant")
    parser.add_argument("--again", type=Path, help="a file of --out: only what survived there is run")
    options = parser.parse_args()

    if options.again:
        known = json.loads(options.again.read_text())
        drawn = [Mutant(**entry["mutant"]) for entry in known if entry["result"] == "survived"]
    else:
        mutants = {module: all_mutants(module) for module in options.modules}
        drawn = sample(mutants, options.sample, options.seed, options.least)
        print(f"{sum(map(len, mutants.values()))} mutants, {len(drawn)} drawn", flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # a stop ends in the report, without the copy
    for name in LOADED.split():
        importlib.import_module(name)
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    done = {Mutant(**entry["mutant"]) for entry in results}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder, options)
        result, seconds, what = tree.outcome("problem", source_of("problem"))
        print(f"without a mutant: {seconds:.0f} s", flush=True)
        if result != "survived":
            sys.exit(f"the tests fail without a mutant:\n{what}")
        with contextlib.suppress(KeyboardInterrupt):
            for mutant in [mutant for mutant in drawn if mutant not in done]:
                result, seconds, by = tree.outcome(mutant.module, mutant.code(source_of(mutant.module)))
                results.append({"mutant": asdict(mutant), "result": result, "seconds": seconds, "by": by})
                print(f"{result:9} {seconds:4.0f} s  {diff(mutant)}", flush=True)
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1))
    report(drawn, results)


def report(drawn: list[Mutant], results: list[dict]) -> None:
    print(f"\n{'module':28}{'mutants':>9}{'killed':>9}{'survived':>10}{'timed out':>11}")
    for module in [*sorted({mutant.module for mutant in drawn}), "all"]:
        counted = Counter(
            entry["result"] for entry in results if module in ("all", entry["mutant"]["module"])
        )
        numbers = counted.total(), counted["killed"], counted["survived"], counted["timed out"]
        print("{:28}{:9}{:9}{:10}{:11}".format(module, *numbers))
    print("\nSurvivors:")
    for entry in results:
        if entry["result"] == "survived":
            print(diff(Mutant(**entry["mutant"])))


if __name__ == "__main__":
    main()
