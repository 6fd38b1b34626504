"""The contract with the harness: the names we use exist, and its version is one we know."""

from __future__ import annotations

import ast
import inspect
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import lm_eval_ccat
from lm_eval_ccat.errors import HarnessError
from lm_eval_ccat.harness import internals


@pytest.mark.parametrize("name", internals.USED)
def test_the_installed_harness_has_every_internal_name_we_use(name):
    assert internals.resolve(name) is not None


def test_every_name_that_is_resolved_is_listed():
    folder = Path(internals.__file__).parent
    names = [
        node.value
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("lm_eval.")
        and ":" in node.value
    ]
    assert set(names) == set(internals.USED)


def test_no_other_module_names_an_internal_of_the_harness():
    root = Path(lm_eval_ccat.__file__).parent
    allowed = {
        "harness/task.py": {"lm_eval.api.task"},  # a base class cannot come lazily
        "cli/harness_passthrough.py": {"lm_eval.__main__"},
    }
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root).as_posix()
        if where in allowed and allowed[where] is None:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for module in modules:
                if module.split(".")[0] == "lm_eval" and not where.startswith("demo/"):
                    assert module in (allowed.get(where) or set()), f"{where} imports {module}"


def test_the_requirement_is_the_range_we_know():
    [ours] = [r for r in map(Requirement, requires("lm-eval-ccat") or ()) if r.name == "lm-eval"][
        :1
    ]
    low, high = (".".join(map(str, bound)) for bound in internals.SUPPORTED)
    assert ours.specifier.contains(low) and not ours.specifier.contains(high)
    internals.require_supported_version()


@pytest.mark.parametrize("version", ["0.4.12", "0.5", "0.5.1", "1.0", "not installed"])
def test_another_version_is_refused(version, monkeypatch):
    monkeypatch.setattr(internals.names, "harness_version", lambda: version)
    with pytest.raises(HarnessError, match=r"install lm-eval>=0\.4\.13,<0\.5"):
        internals.require_supported_version()


def test_the_hook_is_installed_once_and_leaves_other_tasks_to_the_harness(bench):
    import lm_eval.evaluator

    from lm_eval_ccat.live.evaluate import install_hook

    install_hook()
    first = lm_eval.evaluator.evaluate
    install_hook()
    assert lm_eval.evaluator.evaluate is first
    assert inspect.signature(first) == inspect.signature(inspect.unwrap(first))
    assert "adaptive" not in bench.stock(["choices"], bootstrap_iters=0)
