"""What a person should know of a model reaches the result."""

from __future__ import annotations

from dataclasses import replace

from worlds.boards import bank_of, draw

from lm_eval_ccat import Ranker


def test_a_model_beyond_the_bank_is_named_and_one_within_is_not():
    bank, scores = bank_of("default", 100), draw([3.5, -0.7], 100, 4)
    ranker = Ranker(bank, ["far", "usual"], stop="limits")
    # A bank of an earlier version does not know how far models depart from it.
    known = {k: v for k, v in bank.constants.items() if k != "departures"}
    older = Ranker(replace(bank, constants=known), ["usual"])
    for item in range(40):
        ranker.tell("far", item, float(scores[0, item]))
        ranker.tell("usual", item, float(scores[1, item]))
        older.tell("usual", item, float(scores[1, item]))
    [finding] = ranker.result().findings.pop("far")
    assert "better than every model of the bank" in finding
    assert "usual" not in ranker.result().findings
    [finding] = older.result().findings["usual"]
    assert finding.endswith("calibrate the bank again")
