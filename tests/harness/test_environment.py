"""Torch and transformers are loaded only for models that use them; results say the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Stand-ins: what matters is when they are imported and asked.
TORCH = "seeds = []\ndef manual_seed(seed):\n    seeds.append(seed)\n"
COLLECT = "def get_pretty_env_info():\n    return 'a machine with two cores'\n"

SCRIPT = """
import sys
from lm_eval_ccat.harness import internals
import lm_eval.evaluator as evaluator

def described():
    found = {}
    evaluator.add_env_info(found)
    return found

internals.spare_torch()
internals.spare_torch()
evaluator.set_torch_seed(6)
evaluator.set_torch_seed(7)
with internals.keeping_results(False):
    unread = described()
assert unread["pretty_env_info"] == "not described: the results were not saved", unread
assert not {"torch", "transformers"} & set(sys.modules)
STARTS
found = described()
assert found["pretty_env_info"] == "a machine with two cores", found
assert ("torch" in sys.modules) is LOADED
assert "transformers" not in sys.modules
assert found["transformers_version"] == unread["transformers_version"]
assert found["lm_eval_version"] and "upper_git_hash" in found
import torch
assert torch.seeds == [7], torch.seeds
evaluator.set_torch_seed(8)
assert torch.seeds == [7, 8]
"""


@pytest.fixture
def stand_ins(tmp_path):
    utils = tmp_path / "torch" / "utils"
    utils.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (utils / "__init__.py").write_text("")
    (utils / "collect_env.py").write_text(COLLECT)
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("raise SystemExit('was imported')")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize("starts", [True, False])
def test_torch_waits_until_something_else_loads_it(stand_ins, starts):
    """Described by a process of its own that was begun before, or here when none was."""
    script = SCRIPT.replace("STARTS", "internals.describe_machine()" if starts else "")
    script = script.replace("LOADED", str(not starts))
    done = subprocess.run(
        [sys.executable, "-c", script], env=stand_ins, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
