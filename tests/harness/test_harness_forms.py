"""A form's own task under the plain harness, and what `bank form --score` makes of its logs."""

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


@pytest.fixture
def form(bench, tmp_path):
    """A form of twelve documents of `choices`, made of scores of other models."""
    bank = bench.bank("choices", "acc")
    scores = np.random.default_rng(0).integers(0, 2, (14, N_DOCS))
    table = ScoreTable.from_arrays(scores, [f"k{j}" for j in range(14)], bank.doc_ids, metric="acc")
    made = form_of(bank, 12, table)
    assert write_form(made, tmp_path / "form", bench.tasks)[1] == ""
    return made, tmp_path


def stock(folder, name):
    manager = TaskManager(include_path=str(folder / "form"), include_defaults=False)
    about = {"skill": 0.7, "name": "new", "model": "new"}
    return logged(folder / "out", "copyist", model_args=about, tasks=[name], task_manager=manager)[
        name
    ]


def test_the_plain_harness_runs_a_form_and_its_logs_give_the_whole_score(form):
    one, folder = form
    rows = stock(folder, one.name)
    by_hash = dict(zip(one.doc_hashes, one.items))
    # The documents are those of the form, in its order, whatever number the harness gives them.
    assert [by_hash[r["doc_hash"]] for r in rows] == list(one.items)
    [[found]] = score_form(one, folder / "out").values()
    scores = {by_hash[r["doc_hash"]]: float(r["acc"]) for r in rows}
    assert found["items"] == 12 and found["estimate"] == pytest.approx(one.estimate(scores)[0])


def test_other_documents_than_the_form_s_are_refused(form):
    one, folder = form
    stock(folder, one.name)
    [samples] = (folder / "out").rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    rows[3]["doc_hash"] = "0" * 64
    samples.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(BankMismatchError, match="document 3 of task"):
        score_form(one, folder / "out")
