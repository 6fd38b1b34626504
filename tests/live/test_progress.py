"""What people read while a run goes on: the models asked, on one screen, in the result's ranks."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import ProgressBar
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.report.terminal import MOST_IN_LINE, Progress


class Watched(Progress):
    """Keeps what it would show when the run ends, on a terminal of 80 x 24."""

    def end(self) -> None:
        self.said = self.line()
        self.console = Console(file=io.StringIO(), width=80, height=24)
        self.console.print(self.table())
        self.drawn = self.console.file.getvalue()
        super().end()


@pytest.mark.long
def test_only_the_models_asked_are_told_in_the_ranks_of_the_result(bench, server):
    watched = Watched()
    config = bench.config(
        server.url, ["m03", "m09"], bank="default.bank.json", known="known.parquet", max_items=20,
        entry={"price": {"item": 0.01}},
    )  # fmt: skip
    models = rank(config, observer=watched).content["models"]
    assert len(models) == 8
    for text in (watched.said, watched.drawn):
        assert {name for name in models if name in text} == {"m03", "m09"}
    for name in ("m03", "m09"):
        block = models[name]
        low, high = block["rank_range"]
        ranks = f"{low} to {high}" if low < high else f"{low}"
        assert f"{name} {ranks} ({block['n_items']}, ${block['usd']:.3g}" in watched.said


@pytest.mark.long
def test_many_models_take_a_line_and_a_screen(bench):
    watched = Watched()
    entries = [
        {"name": f"system-with-a-rather-long-name-{n:03}", "model": "dummy"} for n in range(60)
    ]
    path = bench.config("", [], models=entries, bank=None, max_items=12, stop="limits")
    rank(path, observer=watched)
    assert len(watched.said) < 8 * 80 and len(watched.drawn.splitlines()) <= 24
    assert re.search(rf" and {60 - MOST_IN_LINE} more; 720 items", watched.said)


def test_the_first_answer_of_a_bar_has_no_error(capsys):
    """One answer does not tell how far scores scatter: it was said to err by .71."""
    ranker, bar = Ranker(ItemBank.blank(range(9)), ["m"], stop="limits"), ProgressBar()
    plan = SimpleNamespace(documents=lambda: range(9), title="t", scale=Scale(), label="acc")
    tally = SimpleNamespace(answered={"m": 0})
    bar.begin(plan, SimpleNamespace(tally=tally, ranker=ranker))
    shown = []
    for score in (0.5, 1.0):
        [(model, item)] = ranker.ask()
        ranker.tell(model, item, score)
        tally.answered["m"] += 1
        bar.tick()
        shown.append(bar._bar.postfix)
    assert shown[0] == "acc 0.5" and shown[1].startswith("acc 0.75 ± ")
