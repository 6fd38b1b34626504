"""Finding tasks, and the hook into the harness's evaluation."""

from __future__ import annotations

import functools
import inspect
import shutil
from pathlib import Path

import pytest

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.internals import tasks
from lm_eval_ccat.harness.internals.names import attribute
from lm_eval_ccat.harness.session import shipped_tasks, with_shipped_tasks


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
    assert with_shipped_tasks([f"{shipped}/../task_configs", str(tmp_path)]) == [
        shipped,
        str(tmp_path),
    ]


@pytest.fixture(scope="module", autouse=True)
def files_read_once():
    """The texts of the harness's 14,000 task files."""
    texts = functools.cache(lambda: list(genuine()))
    genuine = tasks._texts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_texts", texts)
        yield


def test_a_misspelt_stock_task_is_refused_with_close_names_and_a_right_one_is_found() -> None:
    with pytest.raises(UsageError, match="no task, group or tag has that name; did you mean gsm8k"):
        internals.task_manager(["gsm8kk"])
    manager = internals.task_manager(["gsm8k"])
    # The harness's 14,000 files stay unread.
    assert set(attribute(manager, "task_index|_task_index")) == {"gsm8k"}
    assert internals.static_configs(manager, "gsm8k")["gsm8k"]["num_fewshot"] == 5


@pytest.mark.slow
def test_a_stock_task_found_by_its_file_is_that_of_the_whole_index() -> None:
    whole = attribute(internals.task_manager(["mmlu"]), "task_index|_task_index")
    for name in ("gsm8k", "hellaswag", "truthfulqa_gen"):
        quick = attribute(internals.task_manager([name]), "task_index|_task_index")[name]
        assert (quick.kind, quick.yaml_path) == (whole[name].kind, whole[name].yaml_path)
        assert quick.cfg == whole[name].cfg


def test_a_group_of_ones_own_brings_its_stock_members_beside_others(tmp_path) -> None:
    """Also where it stands in the place of a member of the harness's group."""
    (tmp_path / "musr.yaml").write_text("group: leaderboard_musr\ntask: [arc_easy]\n")
    index = attribute(
        internals.task_manager(["leaderboard"], str(tmp_path)), "task_index|_task_index"
    )
    assert "arc_easy" in index
