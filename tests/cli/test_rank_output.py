"""What `rank` shows: taken in at a glance, no wider than the terminal, and steered by nobody."""

from __future__ import annotations

import io
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.console import Console

from lm_eval_ccat.cli.live import Display, show
from lm_eval_ccat.ranker.headline import headline
from lm_eval_ccat.report.terminal import notes, print_result
from lm_eval_ccat.shown import safe_streams, to_draw

LONG = "ccat-demo:system=titled-keywords-of-a-model-whose-name-is-longer-than-eighty-columns-are"
HOSTILE = "a > b\x1b[2J\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def content(names=(LONG, HOSTILE), may: int = 1, best: float = 0.92, **more) -> dict:
    """A ranking of which so many models may be the best."""
    models = {
        name: {
            "rank": n, "rank_range": [1 if n <= may else n, max(n, may)], "interval": [0.1, 0.3],
            "p_best": best if n == 1 else (1 - best) / max(may - 1, 1), "estimate": 0.2,
            "standard_error": 0.05, "n_items": 5, "cost": 0.01, "set_aside": None, "failed": [],
        }
        for n, name in enumerate(names, start=1)
    }  # fmt: skip
    ties = [list(names[:may])] if may > 1 else []
    pairs = [
        {"a": a, "b": b, "p": 0.9, "decision": "open" if {a, b} <= set(names[:may]) else "decided"}
        for a in names
        for b in names
        if a != b
    ]
    open_pairs = [
        {"a": a, "b": b, "p": 0.8, "items": {a: 30, b: 40}, "cost": 0.2, "all_items": False}
        for a, b in pairwise(names[:may])
    ]
    found = {
        "metric": "bleu", "confidence": 0.95, "ties": ties, "models": models, "order": list(names),
        "pairwise": pairs, "separated_within_ties": [], "open_pairs": open_pairs, "warnings": [],
        "cost_unit": "usd", "cost": 0.12, "seconds": 3.0, "stopped_because": "budget used up",
        "estimand": "Estimates are of the mean", "items_of_benchmark": 100,
        "signature": "task:s|" * 20,
        "ranking": " > ".join(names), "interrupted": False, **more,
    }  # fmt: skip
    return {"headline": headline(found), **found}


def printed(found: dict, width: int) -> str:
    out = io.StringIO()
    print_result(Console(file=out, width=width, no_color=True, highlight=False), found)
    return out.getvalue()


TWELVE = ["claude", *(f"org/model-{n}-instruct" for n in range(2, 13))]


@pytest.mark.parametrize(
    ("items", "words"),
    [({"a": 9, "b": 9}, "9 more answers of each"), ({"a": 1, "b": 1}, "1 more answer of each"),
     ({"a": 1_200}, "1,200 more answers of a")],
)  # fmt: skip
def test_what_would_decide_a_pair_is_one_sentence(items, words):
    pair = {"a": "a", "b": "b", "p": 0.8, "items": items, "cost": 0.2, "all_items": True}
    text = " ".join(printed(content(("a", "b"), may=2, open_pairs=[pair]), 200).split())
    assert f"a over b (80%): about {words} ($0.200), nearly all that remain, would decide." in text


@pytest.mark.parametrize("width", [48, 60, 80, 120])
def test_twelve_models_undecided_at_the_budget_are_taken_in_at_a_glance(width):
    lines = [line.rstrip() for line in printed(content(TWELVE, may=5), width).splitlines()]
    assert " ".join(lines[:2]).startswith(
        "claude is probably the best (92%); 5 of 12 may be, using 5.0% of the items"
    )
    assert max(map(len, lines[:-1])) <= width and lines[-1] == "task:s|" * 20
    assert sum(bool(line.strip()) for line in lines) <= (30 if width >= 60 else 42)
    text = " ".join(" ".join(lines).split())
    assert "(80%): about 30 more answers of claude and 40 of org/model-2-instruct ($0.200)" in text
    assert "About 190 more answers ($0.380) would decide all 4 open neighbours" in text
    assert all(f" {n}{'=' if n <= 5 else ' '} " in "\n".join(lines) for n in range(1, 13))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (content("abc"), "a > b > c, each at 95%"),
        (content([f"model-{n}" for n in range(9)]), "model-0 is the best of 9 models at 95%"),
        (content("abcd", may=3, best=0.4), "a leads (40%); 3 of 4 may be the best"),
        (content("ab", may=2, best=0.997), "a is probably better than b (99%)"),
        (content("a"), "a scores 0.1 to 0.3"),
        ({**content("ab", may=2), "pairwise": [{"a": "a", "b": "b", "decision": "equivalent"}]},
         "a and b are equivalent at 95%"),
    ],
)  # fmt: skip
def test_the_headline_says_who_is_best_and_how_sure_that_is(found, sentence):
    assert headline(found).startswith(f"{sentence}, using ")
    assert headline(content("")) == "nothing is ranked: no model has answered"


@pytest.mark.parametrize(
    ("asked", "words"),
    [("benchmark", "order of full runs of these 100 items"),
     ("population", "order on items like these 100")],
)  # fmt: skip
def test_the_question_is_named_and_what_stands_beyond_it(asked, words):
    found = content("abc", question=asked, withdrawn=[["a", "b"]])
    for pair in found["pairwise"]:
        pair["population"] = {pair["a"], pair["b"]} == {"a", "c"}
    shown = printed(found, 80)
    assert words in shown and "2 of the 3 decided pairs do not hold yet" in shown
    assert "a over b was decided earlier" in shown


def test_of_a_leaderboard_the_new_models_and_their_neighbours_are_shown():
    found = content([f"m{n:03}" for n in range(200)])
    for name, block in found["models"].items():
        block["known"] = name != "m120"
    shown = printed(found, 80)
    assert all(name in shown for name in ("m000", "m119", "m120", "m121", "... 196 more"))
    assert "m118" not in shown


def test_names_are_told_in_full_quoted_and_visible():
    shown = printed(content(), 60)
    assert f"is “{LONG}”" in shown and "“a > b␛[2J⟨U+202E⟩”" in shown
    assert "[2J" not in shown.replace("␛[2J", "") and "\u202e" not in shown
    out = io.StringIO()  # a file or a pipe: every column whole
    show(SimpleNamespace(content=content(may=2), run_dir=None), None, out)
    [row] = [line for line in out.getvalue().splitlines() if line.startswith(" 1=")]
    assert f"“{LONG}”" in row and "90%" in row


def test_what_to_mind_stands_before_what_it_cost_and_where_it_is_from():
    found = content(warnings=["3 of 5 answers are empty"])
    found["models"][LONG] |= {
        "findings": ["scores better than every model of the bank"],
        "sample": {"n": 12, "estimate": 0.25, "standard_error": 0.031, "interval": [0.18, 0.32]},
        "failed": [{"doc_id": 3, "reason": "HTTP 400"}],
    }
    lines = notes(found)
    starts = ["Warning", f"{LONG} scores", f"{LONG} failed on 1 document", "By the random", "Spent"]
    places = [next(n for n, line in enumerate(lines) if line.startswith(s)) for s in starts]
    assert places == sorted(places)
    assert f"{LONG} 0.250 ± 0.031 (from 12)" in lines[places[3]]


def test_only_what_draws_may_send_escapes_to_a_terminal(monkeypatch, capsys):
    display = Display(quiet=True)
    for _ in range(3):  # said once
        display.warn("model \x1b[2Jm is away [bold]")
    assert capsys.readouterr().err == "warning: model ␛[2Jm is away [bold]\n"
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    with safe_streams():
        print("\x1b[2Jgone")
        to_draw(sys.stdout).write("\x1b[1mbold")
    assert out.getvalue() == "␛[2Jgone\n\x1b[1mbold"
