"""An item bank survives its file, and a damaged file gives one clear error."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.metrics.scale import Scale


def table(doc_ids=None, n_items=8, **known) -> ScoreTable:
    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1, 1, 6)[:, None], rng.normal(size=(1, n_items))
    raw = 100 / (1 + np.exp(-skill - ease - 0.2 * rng.normal(size=(6, n_items))))
    return ScoreTable.from_arrays(
        raw, [f"m{i}" for i in range(6)], doc_ids, scale=Scale(0, 100), metric="bleu", **known
    )


@pytest.mark.parametrize("method", ["paper", "default"])
@pytest.mark.parametrize("doc_ids", [None, ["x", "1", "b", "10", "2", "q", "r", "s"]])
def test_round_trip(tmp_path, method, doc_ids):
    bank = calibrate(table(doc_ids, doc_hashes=[f"h{i}" for i in range(8)]), method=method)
    path = tmp_path / "new" / "t.bank.json"
    bank.save(path)
    again = ItemBank.load(path)
    assert again.sha256 == bank.sha256
    assert again.doc_ids == bank.doc_ids == tuple(sorted(doc_ids or range(8)))
    assert {type(d) for d in again.doc_ids} == {str if doc_ids else int}
    assert again.doc_hashes == bank.doc_hashes
    assert again.scale == Scale(0, 100) and again.metric == "bleu"
    for name, values in bank.parameters.items():
        np.testing.assert_array_equal(again.parameters[name], values)
    again.save(path)
    assert ItemBank.load(path).sha256 == bank.sha256


def test_calibration_refuses_what_it_cannot_use():
    with pytest.raises(BankError, match="several models"):
        calibrate(table().select(["m0"]), method="paper")
    with pytest.raises(UsageError, match="nonsense"):
        calibrate(table(), method="nonsense")
    raw = table().raw.copy()
    raw[:, 3] = np.nan
    with pytest.raises(BankError, match="doc_id 3"):
        calibrate(ScoreTable.from_arrays(raw, list("abcdef"), scale=Scale(0, 100)), method="paper")
    flat = np.full((3, 4), 0.5)
    with pytest.raises(BankError, match="same mean"):
        calibrate(ScoreTable.from_arrays(flat, list("abc")), method="paper")
