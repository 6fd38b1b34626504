"""What is no run, and what is no name of a task or metric, is told with what there is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run


@pytest.mark.parametrize(
    "command",
    [
        "compare {} --models m00,m02",
        "compare {}/journals --models m01,m07",
        "calibrate {} -o b.json",
        "verify {} --full LOGS",
    ],
)
def test_a_board_is_no_run_and_its_models_are_compared_elsewhere(board, ccat, command):
    (board.path / "exposure.csv").write_text("task,doc_id,models\nt,0,3\n")  # is no score table
    err = ccat(*command.format(board.path).split(), code=2).err
    assert f"{board.path} is a board" in err and f"`lm-eval-ccat board check {board.path}`" in err
    assert '"Is A better than B?"' in err and "`rank` of both" in err


def test_a_board_names_the_metrics_that_there_are(tmp_path, ccat):
    for model in "ab":
        write_run(tmp_path / "logs", model, rows_of([0, 1]))
    board = "board", "init", tmp_path / "board", "--from", tmp_path / "logs"
    err = ccat(*board, "--metric", "accuracy", code=2).err
    assert err.endswith("no results of metric accuracy; its metrics are exact_match\n")


def test_a_group_is_told_by_its_tasks(tmp_path, ccat):
    for model in "ab":
        for day, task in enumerate(("mp_math", "mp_law"), 1):
            groups = {"group_subtasks": {"mp": ["mp_math", "mp_law"], task: []}}
            write_run(tmp_path / "logs", model, rows_of([0, 1] * 20), task=task, day=day, **groups)
    err = ccat("compare", tmp_path / "logs", "--models", "a,b", "--task", "mp", code=2).err
    assert "'mp' is a group: compare one of its tasks, mp_math, mp_law" in err


@pytest.mark.long
def test_a_model_that_lacks_a_task_is_named_when_a_board_begins(tmp_path, ccat):
    rng = np.random.default_rng(0)
    for number, task in enumerate(("ta", "tb"), 1):
        for n in range(12):
            if (n, task) != (3, "tb"):
                rows = rows_of((rng.random(40) < (n + 1) / 13).astype(int).tolist())
                write_run(tmp_path / "logs", f"m{n}", rows, task=task, day=number)
    said = ccat("board", "init", tmp_path / "board", "--from", tmp_path / "logs", code=4)
    assert "best of 11" in said.out and "m3: not comparable: no results on tb" in said.err


@pytest.mark.long
def test_placing_ends_with_what_it_took(world, board, ccat):
    asked = sum(world.server.asked.values())
    config = world.config(["m03"], entry={"price": {"item": 0.01}})
    *_, last = ccat("board", "place", board.path, config).err.splitlines()
    n = sum(world.server.asked.values()) - asked
    count, spent = re.match(r"(\d+) answers count\. Spent \$(\S+) in ", last).groups()
    assert int(count) <= n <= int(count) + 5 and float(spent) == pytest.approx(n / 100)
