"""A suite bank is a folder: one file per outcome, and suite.json."""

from __future__ import annotations

import json

import pytest

from lm_eval_ccat.bank import ItemBank, SuiteBank
from lm_eval_ccat.errors import BankError


def test_a_suite_comes_back_as_it_was_and_a_damaged_one_is_refused_in_one_line(tmp_path):
    bleu, chrf = (ItemBank.blank(range(3), task="a/b", metric=m) for m in ("bleu", "chrf"))
    other = ItemBank.blank(range(5), task="a_b", metric="bleu")
    suite = SuiteBank({"a/b": {"bleu": bleu, "chrf": chrf}, "a_b": other})
    with pytest.raises(BankError, match="no item bank in this folder"):
        SuiteBank.load(tmp_path)
    suite.save(tmp_path)
    loaded = SuiteBank.load(tmp_path)
    assert list(loaded) == ["a/b", "a_b"] and list(loaded["a/b"]) == ["bleu", "chrf"]
    assert [b.sha256 for _, _, b in loaded.banks()] == [b.sha256 for _, _, b in suite.banks()]
    # Two names that become one on disk are two files.
    assert len(list(tmp_path.glob("*.bank.json"))) == 3
    whole = (tmp_path / "suite.json").read_text()
    for damage, says in (
        (lambda c: c["tasks"]["a_b"].update(bleu="../x.json"), "not the name of a file"),
        (lambda c: c["tasks"]["a_b"].update(bleu="gone.bank.json"), "no such item bank"),
        (lambda c: c["checksums"].clear(), "not the bank that suite.json names"),
        (lambda c: c.update(version=2), "version 1"),
        (lambda c: c.update(tasks=[]), "not a readable suite bank"),
        (lambda c: c.update(tasks={}), "no bank"),
    ):
        content = json.loads(whole)
        damage(content)
        (tmp_path / "suite.json").write_text(json.dumps(content))
        with pytest.raises(BankError, match=says) as error:
            SuiteBank.load(tmp_path)
        assert "\n" not in str(error.value)
    with pytest.raises(BankError, match="of the methods other, sample"):
        SuiteBank({m: ItemBank.blank(range(2), method=m) for m in ("sample", "other")})
