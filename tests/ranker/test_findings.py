"""What a person should know of a model reaches the result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.report.terminal import notes


def world(n_items: int = 100) -> ScoreTable:
    rng = np.random.default_rng(4)
    skill = np.array([*np.linspace(-1.5, 0.0, 12), 3.5, -0.7])[:, None]
    scores = 1 / (
        1 + np.exp(-skill - rng.normal(size=n_items) + 0.4 * rng.normal(size=(14, n_items)))
    )
    return ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(12)] + ["far", "usual"])


def test_a_model_beyond_the_bank_is_named_and_one_within_is_not():
    table = world()
    bank = calibrate(table.without(["far", "usual"]))
    ranker = Ranker(bank, {"far": 1.0, "usual": 1.0}, budget=80, stop="limits")
    while not ranker.done:
        for model, item in ranker.ask(2):
            ranker.tell(model, item, float(table.select([model]).scores[0, item]))
    found = ranker.result()
    assert any("better than every model of the bank" in text for text in found.findings["far"])
    assert "usual" not in found.findings
    content = {
        **found.to_dict(), "cost_unit": "items", "seconds": 1.0, "estimand": "The mean",
    }  # fmt: skip
    assert any(line.startswith("far scores better than every model") for line in notes(content))
    # A bank of an earlier version does not know how far models depart from it.
    known = {k: v for k, v in bank.constants.items() if k != "departures"}
    older = Ranker(replace(bank, constants=known), {"usual": 1.0})
    for item, score in list(zip(table.doc_ids, table.select(["usual"]).scores[0]))[:30]:
        older.tell("usual", item, float(score))
    [finding] = older.result().findings["usual"]
    assert finding.endswith("calibrate the bank again")
