"""With every document administered an adaptive run is the harness's own, value for value."""

from __future__ import annotations

import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat.scores.readers.logged_runs import SCORER

CASES = [
    ("texts", "bleu", {}),
    ("texts", "chrf", {"apply_chat_template": True, "fewshot_as_multiturn": True}),
    ("texts", "ter", {"system_instruction": "Copy with care."}),
    ("choices", "acc_norm", {"num_fewshot": 1}),
    ("continued", "acc", {"num_fewshot": 2}),
    ("sums", "exact_match,majority", {"apply_chat_template": True}),
]


@pytest.mark.long
@pytest.mark.parametrize("task, metric, settings", CASES)
def test_values_rows_and_prompts_are_those_of_the_harness(bench, task, metric, settings):
    stock_lm, full_lm, part_lm = Copyist(), Copyist(), Copyist()
    settings["bootstrap_iters"] = 10 if metric == "bleu" else 0
    stock = bench.stock([task], stock_lm, **settings)
    part = bench.adaptive([task], "", part_lm, metrics=[metric], max_items=12, **settings)
    rows = {(row["doc_id"], row["filter"]): row for row in stock["samples"][task]}
    chosen = [(row["doc_id"], row["filter"]) for row in part["samples"][task]]
    assert len({doc for doc, _ in chosen}) == 12
    assert part["samples"][task] == [rows[pair] for pair in rows if pair in set(chosen)]
    assert set(map(str, part_lm.seen)) < set(map(str, stock_lm.seen))

    full = bench.adaptive(
        [task], "", full_lm, metrics=[metric], max_items=N_DOCS, stop="limits", **settings
    )
    for key, value in stock["results"][task].items():
        assert full["results"][task][key] == value, key
    for results in (full, stock):  # beside what the harness writes: what computed the metrics
        for config in results["configs"].values():
            (config["metadata"] or {}).pop(SCORER, None)
    for part in ("samples", "n-samples", "configs", "versions", "n-shot", "group_subtasks"):
        assert full[part] == stock[part], part
    assert sorted(map(str, full_lm.seen)) == sorted(map(str, stock_lm.seen))
    block = full["adaptive"][task]
    assert (block["items"], block["standard_error"]) == (N_DOCS, 0.0)
    assert block["interval"] == [pytest.approx(block["estimate"])] * 2
    assert block["stopped_because"] == "every document was run"
