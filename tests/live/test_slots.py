"""More slots make a run faster, and neither dearer nor another run."""

from __future__ import annotations

import pytest
from worlds.bench import facts

from lm_eval_ccat.live.sender import Sender

FOUR = ["m01", "m05", "m07", "m11"]


@pytest.mark.parametrize(
    ("models", "bank"),
    [(FOUR, "default.bank.json"), (["m01", "m11"], None), (["m05", "m07"], None)],
)  # fmt: skip
def test_more_slots_cost_no_more_and_change_nothing(bench, server, capsys, models, bank):
    server.latency = 0.03
    contents = []
    for slots in (8, 64):
        before = sum(server.asked.values())
        entry = {"concurrency": slots}
        contents.append(bench.ranked(server, models, bank=bank, entry=entry, name=f"of{slots}"))
        received = sum(server.asked.values()) - before
        used, asked = contents[-1]["items_administered"], contents[-1]["asked"]
        assert asked == received <= 1.15 * used + 16 * len(models)
        assert asked == sum(block["asked"] for block in contents[-1]["models"].values())
        every = bench.n_docs * len(models)
        beyond = f", used {used}" if asked > used else ""
        said = f"asked {asked}{beyond} of {every}"
        assert contents[-1]["headline"].endswith(said) and said in capsys.readouterr().out
    few, many = map(facts, contents)
    assert few == many


def test_a_run_to_its_limits_uses_all_slots_and_every_answer(bench, server):
    server.latency = 0.5
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, stop="limits", max_items=60, entry={"concurrency": 32}
    )
    assert content["asked"] == content["items_administered"] == 120
    assert max(server.most_at_once.values()) > 16


def test_a_run_that_waits_for_first_answers_sleeps(bench, server, monkeypatch):
    server.latency, waits = 0.5, []
    genuine = Sender.collect
    monkeypatch.setattr(
        Sender, "collect", lambda *args, **named: (waits.append(args), genuine(*args, **named))
    )
    models, entry = ["m01", "m05", "m11"], {"concurrency": 8}
    bench.ranked(server, models, stop="limits", max_items=4, warmup=4, entry=entry)
    assert len(waits) < 40  # by a look every 2 ms, 250 before the first answer
