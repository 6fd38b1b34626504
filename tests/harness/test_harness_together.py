"""A group of tasks under one budget: documents go where the group's score needs them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lm_eval.tasks import TaskManager
from local_bench import COMMON, Copyist, documents

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.live import adaptive_evaluate, simple_evaluate

TASK = """
task: NAME
output_type: generate_until
num_fewshot: 0
doc_to_text: "Copy: {{source}}\\n"
doc_to_target: "{{target}}"
generation_kwargs: {until: ["\\n\\n"], temperature: 0.0}
metric_list:
  - {metric: chrf}
"""
GROUP = """
group: both
task: [short, long]
aggregate_metric_list:
  - {metric: chrf, weight_by_size: WEIGHTED}
metadata: {version: 1.0}
"""
SIZES = {"short": 12, "long": 36}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Two tasks of one metric, a group of them, and a bank for each."""
    folder = tmp_path_factory.mktemp("suite")
    rows = documents("test", 36)
    for name, n in SIZES.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows[:n]))
        common = COMMON.replace("DATA", str(folder / f"{name}.jsonl"))
        common = common.replace("TRAIN", str(folder / f"{name}.jsonl"))
        (folder / f"{name}.yaml").write_text(common + TASK.replace("NAME", name))
    for weighted in ("true", "false"):
        (folder / f"both_{weighted}.yaml").write_text(
            GROUP.replace("WEIGHTED", weighted).replace("both", f"both_{weighted}")
        )
    banks = {}
    for name in SIZES:
        table = np.stack([scores(folder, name, 0.25 + 0.1 * j, f"m{j}") for j in range(5)])
        banks[name] = calibrate(
            ScoreTable.from_arrays(table, [f"m{j}" for j in range(5)], metric="chrf", task=name),
            "paper",
        )
    return folder, banks


def manager(folder):
    return TaskManager(include_path=str(folder), include_defaults=False)


def scores(folder, task, skill, name):
    """Sentence chrF of every document, on [0, 1]."""
    import sacrebleu

    results = simple_evaluate(
        Copyist(skill, name), tasks=[task], task_manager=manager(folder), bootstrap_iters=0
    )
    return [
        sacrebleu.sentence_chrf(s["filtered_resps"][0], [s["target"]]).score / 100
        for s in results["samples"][task]
    ]


@pytest.mark.parametrize("weighted", ["true", "false"])
def test_one_budget_for_a_group(suite, weighted):
    folder, banks = suite
    lm = Copyist(0.7, "new")
    results = adaptive_evaluate(
        lm,
        tasks=[f"both_{weighted}"],
        task_manager=manager(folder),
        bank=banks,
        budget={"items": 18},
        adaptive_batch_size=1,
        bootstrap_iters=0,
    )
    blocks = results["adaptive"]
    counts = {t: blocks[t]["items"] for t in SIZES}
    assert sum(counts.values()) <= 18 and min(counts.values()) >= 4
    assert len(lm.seen) == sum(counts.values())
    if weighted == "true":  # three quarters of the weight is on the long one
        assert counts["long"] > counts["short"]
    assert all("budget" in blocks[t]["stopped_because"] for t in SIZES)


def test_tasks_without_a_common_score_share_the_budget_equally(suite):
    folder, banks = suite
    results = adaptive_evaluate(
        Copyist(0.7, "new"),
        tasks=["short", "long"],
        task_manager=manager(folder),
        bank=banks,
        budget={"items": 16},
        bootstrap_iters=0,
    )
    assert [results["adaptive"][t]["items"] for t in ("short", "long")] == [8, 8]
