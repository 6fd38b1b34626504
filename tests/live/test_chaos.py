"""Rankings through bad nights; `benchmarks/chaos.py` plays many more of them."""

from __future__ import annotations

from collections import Counter

import pytest
from worlds.chaos import BROUGHT_ABOUT, ENDINGS, SERVER_FAULTS, Night
from worlds.stages import made_stage, real_stage


@pytest.mark.long
def test_a_night_in_which_writing_breaks_off_and_servers_fail(tmp_path):
    folder = tmp_path / "night"
    folder.mkdir()
    night = Night(made_stage(tmp_path / "stage"), folder, seed=3932, sessions=1, kills=False).run()
    assert not night.troubles
    faults = "torn write", "tokens outside the count", "capacity lost"
    assert all(night.fired[fault] for fault in faults)
    assert night.pairs and not night.wrong


@pytest.mark.slow
def test_nights_over_real_translations_lose_nothing(shared, tmp_path):
    data = shared / "data"
    if not (data / "texts" / "wmt24_en-de.jsonl.gz").exists():
        pytest.skip(f"no real outputs here: {data} holds no texts of wmt24_en-de")
    stage = real_stage(tmp_path / "stage", data)
    fired: Counter[str] = Counter()
    troubles, pairs, wrong = [], 0, 0
    kinds = {*SERVER_FAULTS, *ENDINGS[:-1], *BROUGHT_ABOUT}
    for seed in range(36):  # a rare fault may come too late for the session that was to see it
        if seed >= 12 and kinds <= set(fired):
            break
        folder = tmp_path / str(seed)
        folder.mkdir()
        night = Night(stage, folder, seed).run()
        fired += night.fired
        troubles += night.troubles
        pairs, wrong = pairs + night.pairs, wrong + night.wrong
    assert not troubles
    assert kinds <= set(fired)
    assert pairs and not wrong
