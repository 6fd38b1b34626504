"""An adaptive run is a ranking of one model: retried, journalled and resumed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from local_bench import Copyist

from lm_eval_ccat import ScoreTable, adaptive_evaluate, calibrate
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.live.earlier import read_known
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.ranker.references import means_of_known


class Shaky(Copyist):
    """Breaks its connection at one document, once or always, or is interrupted there."""

    def __init__(self, skill=0.7, name="copyist", at=9, times=1, error=ConnectionError):
        super().__init__(skill, name)
        self.at, self.left, self.error = at, times, error

    def generate_until(self, requests):
        if len(self.calls) + 1 >= self.at and self.left:
            self.left -= 1
            raise self.error("the connection was lost")
        return super().generate_until(requests)


def run(bench, lm, **arguments):
    arguments.setdefault("bootstrap_iters", 0)
    arguments.setdefault("max_items", 16)
    bank = bench.bank("texts", "chrf")
    return adaptive_evaluate(
        lm, tasks=["texts"], bank=bank, task_manager=bench.manager(), **arguments
    )


def same(a, b):
    for results in (a, b):
        results["adaptive"]["texts"].pop("seconds")
    assert a["adaptive"] == b["adaptive"] and a["samples"] == b["samples"]
    assert a["results"] == b["results"]


def test_a_lost_connection_is_tried_again_and_changes_nothing(bench):
    shaky = Shaky()
    same(run(bench, shaky), run(bench, Copyist()))
    assert shaky.left == 0 and len(shaky.calls) == 16


def test_an_interrupted_run_goes_on_where_it_was(bench, tmp_path):
    stopped = Shaky(error=KeyboardInterrupt, at=13)
    with pytest.raises(KeyboardInterrupt):
        run(bench, stopped, run_dir=tmp_path / "run")
    tells = [
        r for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()
        if (r := json.loads(line))["op"] == "tell"
    ]  # fmt: skip
    assert len(tells) == 12
    with pytest.raises(RunError, match="already holds a ranking"):
        run(bench, Copyist(), run_dir=tmp_path / "run")
    rest = Copyist()
    resumed = run(bench, rest, run_dir=tmp_path / "run", resume=True)
    assert len(rest.calls) == 4
    assert not set(map(str, rest.seen)) & set(map(str, stopped.seen))
    same(resumed, run(bench, Copyist()))


def test_a_full_run_is_resumed_with_the_documents_that_the_bank_does_not_offer(bench, tmp_path):
    table = ScoreTable.from_arrays(
        np.random.default_rng(0).random((6, 30)),
        models=list("abcdef"),
        doc_ids=list(range(30)),
        metric="chrf",
    )
    bank = calibrate(table, method="paper")
    common = dict(
        tasks=["texts"], bank=bank, task_manager=bench.manager(), max_items=36, bootstrap_iters=0
    )
    stopped = Shaky(error=KeyboardInterrupt, at=33)
    with pytest.raises(KeyboardInterrupt):
        adaptive_evaluate(stopped, run_dir=tmp_path / "run", **common)
    rest = Copyist()
    full = adaptive_evaluate(rest, run_dir=tmp_path / "run", resume=True, **common)
    stock = bench.stock(["texts"], bootstrap_iters=0)
    assert full["results"]["texts"]["chrf,none"] == stock["results"]["texts"]["chrf,none"]
    assert full["samples"] == stock["samples"]
    assert len(stopped.calls) == 32 and len(rest.calls) == 4
    assert not set(map(str, rest.seen)) & set(map(str, stopped.seen))


@pytest.mark.parametrize("cap", [1.0, 2.0])
def test_known_results_of_a_capped_metric_are_capped_as_the_bank_does(cap, tmp_path):
    """TER with cap 2: a mean of 0.428 is 0.786 on [0, 1], whoever reads it."""
    raw = np.array([[0.2, 0.656], [1.5, 3.0], [0.4, 0.9]])
    names = ["a", "b", "c"]
    scale = Scale(cap=cap)
    table = ScoreTable.from_arrays(raw, names, metric="ter", scale=scale)
    bank = calibrate(table, method="paper")
    assert bank.scale == scale
    ScoreTable.from_arrays(raw, names, metric="ter", scale=Scale(cap=1.0)).write(
        tmp_path / "other_cap.csv"
    )
    means = means_of_known(read_known(tmp_path / "other_cap.csv", bank), bank)
    assert means["a"][0] == pytest.approx(1 - 0.428 / cap)
    assert means["b"][0] == pytest.approx(np.mean([max(0, 1 - x / cap) for x in (1.5, 3.0)]))
