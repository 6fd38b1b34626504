"""Which documents a run asked is counted beside a bank only where someone began to count."""

from __future__ import annotations

from pathlib import Path

from lm_eval_ccat import ItemBank
from lm_eval_ccat.live.engine import count_usage
from lm_eval_ccat.live.observer import Observer
from lm_eval_ccat.upkeep.usage import read_usage, start_usage


def test_nothing_is_written_beside_a_bank_unasked(tmp_path: Path) -> None:
    bank = tmp_path / "t.bank.json"
    ItemBank.blank(range(5)).save(bank)
    for file in (bank, str(bank), None):
        count_usage(file, [[1, 2]], Observer())
    assert [p.name for p in tmp_path.iterdir()] == ["t.bank.json"]
    start_usage(bank)
    count_usage(str(bank), [[1, 2], [2]], Observer())
    assert read_usage(bank).counts == {1: 1, 2: 2}
    start_usage(bank)
    assert read_usage(bank).tests == 2
