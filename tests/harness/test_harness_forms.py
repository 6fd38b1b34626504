"""A form's own task under the plain harness, and what `bank form FORM LOGS` makes of its logs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lm_eval.tasks import TaskManager
from local_bench import N_DOCS
from worlds.logs import logged

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import BankMismatchError
from lm_eval_ccat.upkeep.forms import form_of, score_form, write_form


@pytest.mark.long
def test_the_plain_harness_runs_a_form_and_its_logs_give_the_whole_score(bench, tmp_path):
    bank = bench.bank("choices", "acc")
    scores = np.random.default_rng(0).integers(0, 2, (14, N_DOCS))
    table = ScoreTable.from_arrays(scores, [f"k{j}" for j in range(14)], bank.doc_ids, metric="acc")
    one = form_of(bank, 12, table)
    assert write_form(one, tmp_path / "form", bench.tasks)[1] == ""
    manager = TaskManager(include_path=str(tmp_path / "form"), include_defaults=False)
    about = {"model_args": {"model": "new"}, "tasks": [one.name], "task_manager": manager}
    rows = logged(tmp_path / "out", "copyist", **about)[one.name]
    by_hash = dict(zip(one.doc_hashes, one.items))
    # The documents are those of the form, in its order, whatever number the harness gives them.
    assert [by_hash[r["doc_hash"]] for r in rows] == list(one.items)
    [[found]] = score_form(one, tmp_path / "out").values()
    scores = {by_hash[r["doc_hash"]]: float(r["acc"]) for r in rows}
    assert found["items"] == 12 and found["estimate"] == pytest.approx(one.estimate(scores)[0])
    # Other documents than the form's are refused.
    [samples] = (tmp_path / "out").rglob("samples_*.jsonl")
    changed = [{**row, "doc_hash": "0" * 64} if n == 3 else row for n, row in enumerate(rows)]
    samples.write_text("".join(json.dumps(r) + "\n" for r in changed))
    with pytest.raises(BankMismatchError, match="document 3 of task"):
        score_form(one, tmp_path / "out")
