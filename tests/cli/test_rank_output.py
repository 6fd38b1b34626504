"""What `rank` shows on a terminal: whole names, and nothing that steers it."""

from __future__ import annotations

import io
import sys

import pytest

from lm_eval_ccat.cli.live import Display
from lm_eval_ccat.cli.rank_output import print_result
from lm_eval_ccat.cli.streams import safe_streams, to_draw

LONG = "ccat-demo:system=titled-keywords-of-a-model-whose-name-is-longer-than-eighty-columns-are"
HOSTILE = "a > b\x1b[2J\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def content() -> dict:
    block = {
        "rank": 1, "interval": [0.1, 0.3], "estimate": 0.2, "n_items": 5, "cost": 5.0,
        "set_aside": None, "failed": [{"doc_id": 3, "reason": f"said {HOSTILE}"}],
    }  # fmt: skip
    return {
        "headline": "“a > b␛[2J⟨U+202E⟩”", "metric": "bleu", "confidence": 0.95, "ties": [],
        "models": {LONG: block, HOSTILE: {**block, "rank": 2}}, "order": [LONG, HOSTILE],
        "pairwise": [{"a": LONG, "b": HOSTILE, "p": 0.99}], "separated_within_ties": [],
        "cost_unit": "items", "stopped_because": "done", "estimand": "e", "signature": "s",
    }  # fmt: skip


def test_names_are_shown_whole_quoted_and_visible() -> None:
    from rich.console import Console

    out = Terminal()
    print_result(Console(file=out, width=60, no_color=True, highlight=False), content())
    shown = out.getvalue()
    assert f"“{LONG}”" in shown and "“a > b␛[2J⟨U+202E⟩”" in shown
    assert "[2J" not in shown.replace("␛[2J", "") and "\u202e" not in shown


def test_an_open_pair_beyond_the_confidence_is_explained() -> None:
    from lm_eval_ccat.cli.rank_output import notes

    found = content()
    pair = {"a": LONG, "b": HOSTILE, "items": {LONG: 3}, "cost": 3.0, "all_items": False}
    for p, explained in ((0.9, False), (0.998, True)):
        lines = notes({**found, "open_pairs": [{**pair, "p": p}]})
        assert any("however often one looks" in line for line in lines) is explained


def test_what_random_documents_say_by_themselves_stands_below_the_table() -> None:
    from lm_eval_ccat.cli.rank_output import notes

    found = content()
    assert not any("random documents" in line for line in notes(found))
    sample = {"n": 12, "estimate": 0.25, "standard_error": 0.031, "interval": [0.18, 0.32]}
    found["models"][LONG]["sample"] = sample
    [line] = [line for line in notes(found) if "random documents" in line]
    assert f"{LONG} 0.250 ± 0.031 (12)" in line


def test_only_what_draws_may_send_escapes_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    with safe_streams():
        print("\x1b[2Jgone")
        to_draw(sys.stdout).write("\x1b[1mbold")
    assert out.getvalue() == "␛[2Jgone\n\x1b[1mbold"


def test_a_warning_is_said_once_and_visibly(capsys: pytest.CaptureFixture) -> None:
    display = Display(quiet=True)
    for _ in range(3):
        display.warn("model \x1b[2Jm is away [bold]")
    assert capsys.readouterr().err == "warning: model ␛[2Jm is away [bold]\n"
