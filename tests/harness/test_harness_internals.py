"""Finding tasks, and the hook into the harness's evaluation."""

from __future__ import annotations

import inspect
import shutil
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.internals import task_index
from lm_eval_ccat.harness.internals.names import attribute
from lm_eval_ccat.harness.opening import shipped_tasks, with_shipped_tasks


def test_the_hook_is_installed_once_and_leaves_other_tasks_to_the_harness(bench):
    import lm_eval.evaluator

    from lm_eval_ccat.live.adaptive import install_hook

    install_hook()
    first = lm_eval.evaluator.evaluate
    install_hook()
    assert lm_eval.evaluator.evaluate is first
    assert inspect.signature(first) == inspect.signature(inspect.unwrap(first))
    assert "adaptive" not in bench.stock(["choices"], bootstrap_iters=0)


def test_a_second_copy_of_the_shipped_tasks_is_one_warning(tmp_path, caplog):
    """The harness warns of each task that a later folder holds too."""
    shipped = Path(__file__).resolve().parents[2] / "task_configs"
    copies = tmp_path / "copies"
    shutil.copytree(shipped, copies)
    with caplog.at_level("WARNING"):
        internals.task_manager(["ccat_govreport"], [str(shipped), str(copies)])
    [warned] = [r.getMessage() for r in caplog.records if "overrides" in r.getMessage()]
    assert warned.startswith("Task 'ccat_") and str(copies) in warned and "not listed" in warned


def test_the_shipped_folder_named_by_the_user_counts_once(tmp_path):
    shipped = str(shipped_tasks())
    assert with_shipped_tasks([]) == [shipped]
    beside = str(tmp_path)
    assert with_shipped_tasks([f"{shipped}/../task_configs", beside]) == [shipped, beside]


def index_of(*names, folder=None):
    return attribute(internals.task_manager(names, folder), "task_index|_task_index")


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("mmlu", {"GROUP": 5, "TAG": 4, "TASK": 57}),
        ("glue", {"TAG": 1, "TASK": 9}),
        ("xlsum_*_prompt_1", {"TASK": 12}),  # what they include has no ending
        ("truthfulqa_m??", {"TASK": 2}),
    ],
)
def test_what_is_asked_for_is_found_as_in_the_whole_index(name, kinds):
    found = index_of(name)
    whole = attribute(internals.resolve("lm_eval.tasks:TaskManager")(), "task_index|_task_index")
    assert found == {task: whole[task] for task in found}
    assert Counter(entry.kind.name for entry in found.values()) == kinds
    assert {n for n in whole if fnmatch(n, name)} <= set(found)


def test_a_task_of_ones_own_reads_none_of_the_harness_s_files(tmp_path, monkeypatch):
    (tmp_path / "one.yaml").write_text("task: mine\ndataset_path: json\n")
    (tmp_path / "both.yaml").write_text("group: both\ntask: [mine]\n")
    monkeypatch.setattr(task_index, "_texts", lambda: pytest.fail("the harness's files are read"))
    assert {"mine", "both"} <= set(index_of("mine", "both", folder=str(tmp_path)))
    for file in ("one.yaml", "both.yaml"):
        index_of(str(tmp_path / file), folder=str(tmp_path))
    index_of(str(tmp_path / "one.yaml"))


def test_a_misspelt_stock_task_is_refused_with_close_names():
    with pytest.raises(UsageError, match="no task, group or tag has that name; did you mean gsm8k"):
        index_of("gsm8kk")


def test_a_group_of_ones_own_brings_its_stock_members_beside_others(tmp_path):
    """Also where it stands in the place of a member of the harness's group, or is a file."""
    (tmp_path / "musr.yaml").write_text("group: leaderboard_musr\ntask: [arc_easy]\n")
    assert "arc_easy" in index_of("leaderboard", folder=str(tmp_path))
    assert "arc_easy" in index_of(str(tmp_path / "musr.yaml"))
