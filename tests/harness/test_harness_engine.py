"""An adaptive run is a ranking of one model: retried, journalled and resumed."""

from __future__ import annotations

import numpy as np
import pytest
from local_bench import Copyist

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.live.earlier import read_known
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.ranker.references import means_of_known


class Shaky(Copyist):
    """Loses its connection at one document, or is interrupted there."""

    def __init__(self, at, error):
        super().__init__()
        self.at, self.error = at, error

    def generate_until(self, requests):
        if len(self.calls) + 1 == self.at:
            self.at = 0
            raise self.error("the connection was lost")
        return super().generate_until(requests)


@pytest.mark.long
def test_a_lost_connection_is_tried_again_and_changes_nothing(bench):
    bank, shaky = bench.bank("texts", "chrf"), Shaky(9, ConnectionError)
    found, whole = (bench.adaptive(["texts"], bank, lm, max_items=16) for lm in (shaky, Copyist()))
    for results in (found, whole):
        results["adaptive"]["texts"].pop("seconds")
    for part in ("adaptive", "samples", "results"):
        assert found[part] == whole[part]
    assert len(shaky.calls) == 16


@pytest.mark.long
def test_an_interrupted_full_run_goes_on_with_the_documents_that_the_bank_does_not_offer(
    bench, tmp_path
):
    scores = np.random.default_rng(0).random((6, 30))
    table = ScoreTable.from_arrays(scores, [*"abcdef"], range(30), metric="chrf")
    common = {"bank": calibrate(table, method="paper"), "max_items": 36, "run_dir": tmp_path / "r"}
    stopped, rest = Shaky(33, KeyboardInterrupt), Copyist()
    with pytest.raises(KeyboardInterrupt):
        bench.adaptive(["texts"], lm=stopped, bootstrap_iters=0, **common)
    with pytest.raises(RunError, match="already holds a ranking"):
        bench.adaptive(["texts"], lm=rest, **common)
    full = bench.adaptive(["texts"], lm=rest, bootstrap_iters=0, resume=True, **common)
    stock = bench.stock(["texts"])
    assert full["results"]["texts"]["chrf,none"] == stock["results"]["texts"]["chrf,none"]
    assert full["samples"] == stock["samples"]
    assert (len(stopped.calls), len(rest.calls)) == (32, 4)
    assert not set(map(str, rest.seen)) & set(map(str, stopped.seen))


@pytest.mark.parametrize("cap", [1.0, 2.0])
def test_known_results_of_a_capped_metric_are_capped_as_the_bank_does(cap, tmp_path):
    """TER with cap 2: a mean of 0.428 is 0.786 on [0, 1], whoever reads it."""
    raw = np.array([[0.2, 0.656], [1.5, 3.0], [0.4, 0.9]])
    table, other = (
        ScoreTable.from_arrays(raw, [*"abc"], metric="ter", scale=Scale(cap=c)) for c in (cap, 1.0)
    )
    bank = calibrate(table, method="paper")
    other.write(tmp_path / "other_cap.csv")
    means = means_of_known(read_known(tmp_path / "other_cap.csv", bank), bank)
    assert means["a"][0] == pytest.approx(1 - 0.428 / cap)
    assert means["b"][0] == pytest.approx(np.mean([max(0, 1 - x / cap) for x in (1.5, 3.0)]))
