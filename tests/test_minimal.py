"""The numeric core needs NumPy and little of SciPy: importing it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "datasets", "pandas", "scipy.stats", "lm_eval", "transformers", "evaluate")
LIGHT = [
    "import lm_eval_ccat",
    "from lm_eval_ccat import ScoreTable, ItemBank, calibrate, Ranker, simulate",
]


@pytest.mark.long
@pytest.mark.parametrize("code", LIGHT)
def test_light_commands_import_nothing_heavy(code):
    script = (
        "import sys\ntry:\n    exec(sys.argv[1])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout, done.stdout


ATTRIBUTES = """
import importlib, pkgutil, sys, types
import lm_eval.evaluator, lm_eval.tasks, lm_eval.api.metrics, lm_eval.models.api_models
import lm_eval_ccat

OTHERS = [name for name in sys.modules if not name.startswith(lm_eval_ccat.__name__)]


def attributes():
    found = {}
    for name in OTHERS:
        for key, value in list(vars(sys.modules[name]).items()):
            if isinstance(value, type | types.FunctionType):
                found[name, key] = value
            if isinstance(value, type) and value.__module__ == name:
                found |= {(name, key, inner): part for inner, part in list(vars(value).items())
                          if isinstance(part, types.FunctionType | classmethod | staticmethod)}
    return found


HOOKED = "lm_eval_ccat.live.adaptive"
stock = attributes()
names = [module.name for module in pkgutil.walk_packages(lm_eval_ccat.__path__, "lm_eval_ccat.")]
for module in (*(name for name in names if not name.endswith(("__main__", HOOKED))), HOOKED):
    if module == HOOKED:
        assert HOOKED not in sys.modules and len(names) > 200
        before = attributes()
        assert all(before.get(key) is value for key, value in stock.items())
    importlib.import_module(module)
after = attributes()
print(*sorted(".".join(key) for key, value in stock.items() if after.get(key) is not value))
"""


@pytest.mark.long
def test_importing_a_module_patches_nothing_but_the_hook_of_the_class_of_tasks():
    done = subprocess.run(
        [sys.executable, "-c", ATTRIBUTES], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    hooked = "lm_eval.evaluator.evaluate lm_eval.evaluator.get_git_commit_hash"
    assert done.stdout.splitlines() == [hooked]
