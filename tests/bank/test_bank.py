"""An item bank survives its file, and a damaged file gives one clear error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("bank") / "b.json"
    calibrate(table(), method="paper").save(path)
    return json.loads(path.read_text())


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0.0, 0.999), junk=st.binary(max_size=20))
def test_truncated_files_are_refused(tmp_path_factory, document, cut, junk):
    text = json.dumps(document).encode()
    path = tmp_path_factory.mktemp("cut") / "cut.json"
    path.write_bytes(text[: int(cut * len(text))] + junk)
    with pytest.raises(BankError):
        ItemBank.load(path)


def test_a_missing_bank_names_the_remedy(tmp_path):
    with pytest.raises(BankError, match="calibrate"):
        ItemBank.load(tmp_path / "none.json")


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


def test_paper_removes_items_that_discriminate_negatively():
    t = table(n_items=12)
    raw = t.raw.copy()
    raw[:, 5] = raw[::-1, 5]
    bank = calibrate(ScoreTable.from_arrays(raw, list(t.models), scale=t.scale), method="paper")
    assert not bank.kept[5] and "5" in map(str, bank.provenance["report"]["removed"])
