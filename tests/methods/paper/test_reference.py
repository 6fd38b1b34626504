"""The method "paper" agrees with the paper authors' own implementation in every figure."""

import json

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.paper import test as paper_test

CASES = [
    "simulated",
    "translation_rougeL",
    "two_configs_missing_narrow_range",
    "binary_equal_difficulties_small_bank",
]


@pytest.fixture(scope="module", params=CASES)
def case(request, shared):
    document = json.loads((shared / "reference" / "paper_reference.json").read_text())
    assert [c["name"] for c in document["cases"]] == CASES
    return next(c for c in document["cases"] if c["name"] == request.param)


@pytest.fixture(scope="module")
def bank(case):
    scores = np.array(case["calibration_scores"], dtype=float)
    if scores.ndim == 2:
        scores = scores[:, None, :]
    names = list(case["expected"]["ability"])
    table = ScoreTable.from_arrays(
        scores.reshape(-1, scores.shape[2]),
        models=[n for n in names for _ in range(scores.shape[1])],
        configs=[f"c{c}" for _ in names for c in range(scores.shape[1])],
    )
    return calibrate(table, method="paper", rescale="none")


def test_calibration(case, bank):
    expected = case["expected"]
    kept = [i for i in range(bank.n_items) if bank.kept[i]]
    assert kept == [int(i) for i in expected["item_difficulty"]]
    difficulty, report = bank.parameters["difficulty"][kept], bank.provenance["report"]
    assert difficulty == pytest.approx([*expected["item_difficulty"].values()], rel=0, abs=1e-9)
    for name in ("k", "discrimination"):
        assert bank.constants[name] == pytest.approx(expected[name], abs=1e-9)
    assert report["abilities"] == pytest.approx(expected["ability"], abs=1e-9)
    assert len(report["removed"]) == expected["items_removed_negative_correlation"]


@pytest.mark.long
def test_ranking(case, bank, monkeypatch):
    # Of items that tell the same the reference takes the first; here a draw decides.
    monkeypatch.setattr(paper_test, "tie_order", lambda seed, n_items: np.arange(n_items))
    held_out = np.array(case["heldout_scores"], dtype=float)
    expected = case["expected"]
    names = list(expected["per_model"])
    tokens = np.add(case["item_input_tokens"], case["item_output_tokens"])
    ranker = Ranker(
        bank,
        models={n: p / 1e6 for n, p in zip(names, case["price_per_million_tokens"])},
        units=tokens,
        confidence=case["confidence"],
        warmup=case["warmup_items"],
        budget=case["budget"],
        max_items=case["max_items_per_model"],
        looks="one",
    )
    trace: dict[str, list[tuple[float, float]]] = {n: [] for n in names}
    while not ranker.done:
        ((model, item),) = ranker.ask()
        ranker.tell(model, item, held_out[names.index(model), item])
        trace[model].append(ranker.result().abilities[model])
    result = ranker.result()

    assert result.order == expected["ranking"]
    assert sum(map(len, result.items.values())) == expected["total_items"]
    assert sum(result.cost.values()) == pytest.approx(expected["total_cost"], abs=1e-9)
    for pair, p in expected["pairwise"].items():
        a, b = pair.split(">")
        assert result.pairwise[a, b] == pytest.approx(p, abs=1e-9)
        assert result.pairwise[b, a] == pytest.approx(1 - p, abs=1e-9)
    for model, figures in expected["per_model"].items():
        assert result.items[model] == figures["items"]
        path = np.transpose([figures["theta"], figures["standard_error"]])
        assert np.array(trace[model]) == pytest.approx(path, rel=0, abs=1e-9)
        assert result.cost[model] == pytest.approx(figures["cost"], abs=1e-9)
