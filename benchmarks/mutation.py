"""What share of small bugs the tests notice, one at a time, over what decides money and ranks.

Each mutant changes one place of one module: a comparison, an arithmetic or boolean operator, a
constant, or a statement that is left out.  The tests named beside the module run against it in a
process of their own, forked from one that has imported everything else; a mutant is caught when a
test fails or the time is up.  Prints the share caught of each module and the survivors::

    nice python benchmarks/mutation.py                      # a sample of 40 mutants per module
    nice python benchmarks/mutation.py --all --modules runs/lines.py

Needs a system with ``fork``.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "lm_eval_ccat"
_FILE = ("tests/runs/test_journal.py", "tests/runs/test_salvage.py")
_CALLS = ("tests/runs/test_journaled.py", "tests/runs/test_changed_runs.py")
_RANKER = ("tests/ranker/test_money.py", "tests/ranker/test_living.py")
_MANY = ("tests/ranker/test_ranker.py", "tests/ranker/test_tasks.py")
#: Modules over money, scales, weights, decisions and journal, with the tests that should notice.
MODULES: dict[str, tuple[str, ...]] = {
    "metrics/scale.py": ("tests/metrics/test_scale.py", "tests/metrics/test_registry.py"),
    "harness/prices.py": ("tests/harness/test_prices.py",),
    "runs/lines.py": (*_FILE, "tests/runs/test_format1.py"),
    "runs/journal.py": _FILE,
    "runs/calls.py": (*_CALLS, "tests/runs/test_format1.py"),
    "runs/identity.py": ("tests/runs/test_changed_runs.py",),
    "runs/journaled.py": _CALLS,
    "ranker/ranks.py": ("tests/ranker/test_ranks.py",),
    "ranker/stopping.py": ("tests/ranker/test_rules.py", "tests/ranker/test_stopping.py"),
    "ranker/ledger.py": ("tests/ranker/test_ledger.py", *_RANKER, *_MANY),
    "ranker/turn.py": (
        "tests/ranker/test_turns_by_hand.py",
        "tests/ranker/test_turns.py",
        "tests/ranker/test_audit.py",
        *_RANKER,
        *_MANY,
    ),
    "ranker/result.py": ("tests/ranker/test_result.py", "tests/ranker/test_ranks.py"),
    "ranker/known.py": ("tests/ranker/test_fixed_points.py", "tests/ranker/test_known.py"),
    "ranker/audit.py": ("tests/ranker/test_audit.py",),
    "ranker/weighted.py": (
        "tests/ranker/test_weighted.py",
        "tests/ranker/test_tasks.py",
        "tests/ranker/test_outcomes.py",
    ),
}

_COUNTER = "counts changes; only whether it has changed is ever asked"
_NO_COUNT = "stands for no count of changes, as any number below 0 does"
#: Mutants that behave as the code does: (module, line of the source, what) and why. They are named
#: in the output and not counted.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("ranker/ledger.py", "self.crew = 0  # changes of who takes part", "0 changed"): _COUNTER,
    ("ranker/ledger.py", "self.changes = 0", "0 changed"): _COUNTER,
    ("ranker/ledger.py", "self.crew += 1", "Add -> Sub: self.crew += 1"): _COUNTER,
    ("ranker/ledger.py", "self.crew += 1", "1 changed"): _COUNTER,
    ("ranker/ledger.py", "self.changes += 1", "Add -> Sub: self.changes += 1"): _COUNTER,
    ("ranker/ledger.py", "self.changes += 1", "1 changed"): _COUNTER,
    (
        "ranker/ledger.py",
        "def _touch(self, account: Account | None = None, task: int = 0) -> None:",
        "0 changed",
    ): "whoever names an account names its task",
    (
        "ranker/stopping.py",
        "if left < 1e-9 * self.amount:",
        "Lt -> LtE: left < 1e-09 * self.amount",
    ): "decides whether a rest of exactly a billionth is printed as 0",
    (
        "ranker/turn.py",
        "active = [j for j in self._ledger.active if accounts[j].n < most]",
        "Lt -> LtE: accounts[j].n < most",
    ): "a model with that many items has its warm-up behind it, as the next lines find",
    (
        "ranker/turn.py",
        "models, prices = [models[n] for n in free], [1.0] * len(free)",
        "1.0 changed",
    ): "the order of the free models is the same at any price that they share",
    (
        "ranker/turn.py",
        "return sorted(able, key=self._load)[:1]",
        "1 changed",
    ): "of several turns in a warm-up the first is taken",
    (
        "ranker/turn.py",
        "if turn.task is not None and len(ledger.contents.tasks) > 1:",
        "Gt -> GtE: len(ledger.contents.tasks) > 1",
    ): "of a single task the items are all items",
    (
        "ranker/turn.py",
        "if len(candidates) == 1 or first.task is not None:",
        "1 changed",
    ): "of a single candidate the best is that one",
    (
        "runs/journal.py",
        "self._file.close()",
        "dropped: self._file.close()",
    ): "CPython closes a file that nobody holds any more",
    (
        "ranker/weighted.py",
        "self._seen = np.full((n, m), -1)",
        "1 changed",
    ): _NO_COUNT,
    (
        "ranker/weighted.py",
        "self._error_at = np.full((n, m), -1)  # `Outcomes.changes` when the error was computed",
        "1 changed",
    ): _NO_COUNT,
    (
        "ranker/weighted.py",
        "self._at = [-1] * n  # `Outcomes.changes` when all of this was computed",
        "1 changed",
    ): _NO_COUNT,
    (
        "ranker/weighted.py",
        "return np.asarray(np.where(np.isinf(df), ndtr(z), stdtr(np.minimum(df, 1e9), z)))",
        "1000000000.0 changed",
    ): "Student's distribution with a billion degrees of freedom is the normal one",
    (
        "ranker/weighted.py",
        "w * w * o.policy.curable(model) if (here & o.bank.kept).any() else -1.0",
        "1.0 changed",
    ): "any number below 0 will do",
    (
        "ranker/weighted.py",
        "return np.ones((1, 1))",
        "1 changed",
    ): "of a single outcome no correlation is read",
}  # fmt: skip

#: Imported once, before the forks; nothing of the package itself.
PRELOADED = (
    "numpy", "scipy.special", "scipy.stats", "hypothesis", "pytest", "filelock", "rich.console",
    "lm_eval.tasks", "lm_eval.loggers", "aiohttp", "requests",
)  # fmt: skip

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed place."""

    module: str
    line: int
    what: str
    tree: ast.Module


def places(tree: ast.Module) -> list[tuple[int, int, int, str]]:
    """Every place that may be changed: number of its node, variant, line, what in words."""
    skipped = _uncounted(tree)
    return [
        (number, variant, getattr(node, "lineno", 0), what)
        for number, node in enumerate(ast.walk(tree))
        if node not in skipped
        for variant, what in enumerate(_changes(node))
    ]


def mutant(module: str, tree: ast.Module, place: tuple[int, int, int, str]) -> Mutant:
    """A module with one place changed."""
    number, variant, line, what = place
    changed = copy.deepcopy(tree)
    target = next(n for i, n in enumerate(ast.walk(changed)) if i == number)
    _apply(changed, target, variant)
    return Mutant(module, line, what, ast.fix_missing_locations(changed))


def _uncounted(tree: ast.Module) -> set[ast.AST]:
    """Annotations, messages, imports and what only typing sees: no test could or should notice."""
    out: set[ast.AST] = set()

    def leave(node: ast.AST | None) -> None:
        if node is not None:
            out.update(ast.walk(node))

    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            leave(node.annotation)
        elif isinstance(node, ast.arg):
            leave(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                leave(decorator)
            if isinstance(node, ast.FunctionDef):
                leave(node.returns)
                if node.name in ("__repr__", "__str__"):
                    leave(node)
        elif isinstance(node, ast.JoinedStr):
            leave(node)
        elif isinstance(node, ast.Raise):
            for part in ast.iter_child_nodes(node):
                leave(part)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            leave(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            leave(node)  # a docstring
    return out


def _changes(node: ast.AST) -> list[str]:
    """What may be changed at a node, in words."""
    if isinstance(node, ast.Compare):
        return [
            f"{type(op).__name__} -> {COMPARED[type(op)].__name__}: {ast.unparse(node)}"
            for op in node.ops
        ]
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in COMPUTED:
        text = ast.unparse(node)
        found = [f"{type(node.op).__name__} -> {COMPUTED[type(node.op)].__name__}: {text}"]
        return [*found, f"dropped: {text}"] if isinstance(node, ast.AugAssign) else found
    if isinstance(node, ast.BoolOp):
        return [f"and <-> or: {ast.unparse(node)}"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        return [f"{type(node.op).__name__} dropped: {ast.unparse(node)}"]
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return [f"{node.value!r} changed"]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [f"dropped: {ast.unparse(node)}"]
    if isinstance(node, ast.Raise):
        return [f"dropped: {ast.unparse(node)[:80]}"]
    return []


def _apply(tree: ast.Module, node: ast.AST, variant: int) -> None:
    if isinstance(node, ast.Compare):
        node.ops[variant] = COMPARED[type(node.ops[variant])]()
    elif isinstance(node, ast.AugAssign) and variant == 1:
        _replace(tree, node, ast.Pass())
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = COMPUTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        _replace(tree, node, node.operand)
    elif isinstance(node, ast.Constant):
        value = node.value
        assert isinstance(value, (bool, int, float))
        node.value = (not value) if isinstance(value, bool) else value + 1
    else:
        _replace(tree, node, ast.Pass())


def _replace(tree: ast.Module, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list):
                value[:] = [new if v is old else v for v in value]


class MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant in place of its module."""

    def __init__(self, root: Path, mutant: Mutant) -> None:
        self.file = root / PACKAGE / mutant.module
        stem = ".".join(Path(mutant.module).with_suffix("").parts)
        self.name = f"{PACKAGE}.{stem}".removesuffix(".__init__")
        self.mutant = mutant

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """The mutant's specification, for its own name only."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.file, loader=self)

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        """The default module object."""

    def exec_module(self, module) -> None:  # type: ignore[no-untyped-def]
        """Run the changed code in place of the file's."""
        exec(compile(self.mutant.tree, str(self.file), "exec"), module.__dict__)


def survives(root: Path, mutant: Mutant | None, tests: Sequence[str], limit: float) -> bool:
    """Whether all tests pass with the mutant (None: with the code as it is)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgrp()
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.chdir(root)
            sys.path.insert(0, str(root))
            if mutant is not None:
                sys.meta_path.insert(0, MutantFinder(root, mutant))
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--noconftest"]
            code = int(pytest.main([*options, "--hypothesis-seed=0", *tests]))
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="*", help="only these (default: all of MODULES)")
    parser.add_argument("--tests", nargs="*", help="these tests in place of the modules' own")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--sample", type=int, default=40, help="mutants per module")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    import hypothesis  # noqa: F401  for the forks

    root = args.root.resolve()
    caught_in_all = made_in_all = 0
    for module in args.modules or MODULES:
        tests = args.tests or list(MODULES[module])
        source = (root / PACKAGE / module).read_text(encoding="utf-8")
        tree, lines = ast.parse(source), ["", *map(str.strip, source.splitlines())]
        chosen = found = places(tree)
        if not args.all and len(found) > args.sample:
            chosen = sorted(random.Random(args.seed).sample(found, args.sample))
        started = time.monotonic()
        if not survives(root, None, tests, 600.0):
            print(f"{module}: its tests fail without any mutant; nothing is measured", flush=True)
            return 1
        limit = 10.0 + 5.0 * (time.monotonic() - started)
        same = [p for p in chosen if (module, lines[p[2]], p[3]) in EQUIVALENT]
        made = [mutant(module, tree, place) for place in chosen if place not in same]
        survivors = [m for m in made if survives(root, m, tests, limit)]
        caught = len(made) - len(survivors)
        caught_in_all, made_in_all = caught_in_all + caught, made_in_all + len(made)
        of = "" if len(chosen) == len(found) else f" (a sample of {len(found)})"
        print(f"{module}: {caught} of {len(made)} caught{of}", flush=True)
        for survivor in survivors:
            print(f"    line {survivor.line}: {survivor.what}"[:160], flush=True)
        for _, _, line, what in same:
            why = EQUIVALENT[module, lines[line], what]
            print(f"    equivalent, line {line}: {what}: {why}"[:200], flush=True)
    print(f"all: {caught_in_all} of {made_in_all} caught, {caught_in_all / made_in_all:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
