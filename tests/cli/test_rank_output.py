"""What `rank` shows: taken in at a glance, no wider than the terminal, and steered by nobody."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import astuple
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.console import Console

from lm_eval_ccat.cli.live import Display, show
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.money import dollars
from lm_eval_ccat.ranker.columns import ranking_grid
from lm_eval_ccat.ranker.headline import headline
from lm_eval_ccat.report.terminal import notes, print_result
from lm_eval_ccat.shown import safe_streams, visible_json, with_escapes

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
    tied = set(names[:may] if may > 1 else ())
    pairs = [
        {"a": a, "b": b, "p": 0.9, "difference": 0.1 * (j - i), "low": 0.1 * (j - i) - slack,
         "high": 0.1 * (j - i) + 0.05, "decision": "open" if {a, b} <= tied else "decided"}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j
        for slack in [0.5 if {a, b} <= tied else 0.05]
    ]  # fmt: skip
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
        "ranking": " > ".join(names), "interrupted": False, "looks": "every", "familywise": False,
        "usd": 0.12, "scale": {"higher_is_better": True}, **more,
    }  # fmt: skip
    return {"headline": headline(found), **found}


def printed(found: dict, width: int) -> str:
    out = io.StringIO()
    print_result(Console(file=out, width=width, no_color=True, highlight=False), found)
    return out.getvalue()


def test_a_model_costs_what_all_its_attempts_cost():
    found = content("ab")
    found["models"]["a"]["usd"] = 0.07
    assert re.search(r"^ 1 .* \$0\.07 *$", printed(found, 120), re.M)


def test_the_table_says_how_many_items_were_asked_only_where_more_were_than_count():
    found = content("ab")
    found["models"]["a"]["asked"] = found["models"]["b"]["asked"] = 5
    assert "items_asked" not in ranking_grid(found, "").columns
    assert re.search(r"^ 1 .* 5 +\$0", printed(found, 120), re.M)
    found["models"]["a"]["asked"] = 8
    assert re.search(r"^ 1 .* 5 of 8 asked +\$0", printed(found, 120), re.M)
    assert re.search(r"^ 2 .* 5 +\$0", printed(found, 120), re.M)
    grid = ranking_grid(found, "")
    used, asked = (grid.columns.index(name) for name in ("items", "items_asked"))
    assert [(row[used], row[asked]) for row in grid.rows] == [(5, 8), (5, 5)]


def test_a_single_model_scores_in_the_headline_what_the_table_says():
    found = content("a")
    found["models"]["a"] |= {"interval": [44.6951, 66.3402], "standard_error": 3.81}
    found["headline"] = headline(found)
    assert "a scores 44.7 to 66.3;" in found["headline"]
    assert re.search(r"^ 1 +a .* 44\.7 to 66\.3 ", printed(found, 120), re.M)


@pytest.mark.parametrize("json", [None, "all.json", "-"])
def test_a_late_warning_is_said_once(json, tmp_path, capsys):
    found = content(warnings=["the server changed"], finished=True)
    result = SimpleNamespace(content=found, late_warnings=found["warnings"], run_dir=None)
    Display(json=json and (json if json == "-" else str(tmp_path / json))).finished(result)
    out, err = capsys.readouterr()
    text = err if json == "-" else out + err
    assert text.count("the server changed") == 1


TWELVE = ["claude", *(f"org/model-{n}-instruct" for n in range(2, 13))]


@pytest.mark.parametrize(
    ("items", "words"),
    [({"a": 9, "b": 9}, "9 more answers of each"), ({"a": 1, "b": 1}, "1 more answer of each"),
     ({"a": 1_200}, "1,200 more answers of a")],
)  # fmt: skip
def test_what_would_decide_a_pair_is_one_sentence(items, words):
    pair = {"a": "a", "b": "b", "p": 0.8, "items": items, "cost": 0.2, "all_items": True}
    text = " ".join(printed(content(("a", "b"), may=2, open_pairs=[pair]), 200).split())
    assert f"a over b (80%): about {words} ($0.200), nearly all that remain, may decide." in text


@pytest.mark.parametrize("chance", [0.6, 0.994, 0.996, 1.0])
def test_the_headline_and_the_table_round_a_chance_alike(chance):
    lines = printed(content("ab", may=2, best=chance), 200).splitlines()
    [of_headline] = re.findall(r"better than b \((.*?%)\)", lines[0])
    [of_table] = re.findall(r"[<>]?\d+%", next(line for line in lines if line.startswith(" 1")))
    assert of_headline == of_table


@pytest.mark.parametrize("width", [48, 60, 80, 120])
def test_twelve_models_undecided_at_the_budget_are_taken_in_at_a_glance(width):
    lines = [line.rstrip() for line in printed(content(TWELVE, may=5), width).splitlines()]
    assert " ".join(lines[:6]).startswith(
        "claude is probably the best (92%), and leads org/model-2-instruct by 0.10 bleu (-0.40 to "
        "0.15); 5 of 12 may be; 95% at every look, order of full runs"
    )
    assert max(map(len, lines[:-1])) <= width and lines[-1] == "task:s|" * 20
    assert sum(bool(line.strip()) for line in lines) <= (30 if width >= 60 else 45)
    text = " ".join(" ".join(lines).split())
    assert "(80%): about 30 more answers of claude and 40 of org/model-2-instruct ($0.200)" in text
    assert "About 190 more answers ($0.380) would decide all 4 open neighbours" in text
    assert all(f" {n}{'=' if n <= 5 else ' '} " in "\n".join(lines) for n in range(1, 13))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (content("ab"), "a leads b by 0.100 bleu (0.050 to 0.150)"),
        (content("abc"), "a leads b by 0.100 bleu (0.050 to 0.150), both lead c"),
        (content("abcd", ties=["cd"]),
         "a leads b by 0.100 bleu (0.050 to 0.150), both lead {c, d}"),
        (content("abc", ties=["bc"], ranking="a > {b, c}"),
         "a > {b, c}, a leads b by 0.100 bleu (0.050 to 0.150)"),
        (content("ab", scale={"higher_is_better": False}, pairwise=[
            {"a": "a", "b": "b", "difference": -1.9, "low": -3.1, "high": -0.6}]),
         "a leads b by 1.9 bleu (0.6 to 3.1)"),
        (content([f"model-{n}-with-a-long-name" for n in range(9)]),
         "model-0-with-a-long-name leads model-1-with-a-long-name by 0.100 bleu (0.050 to 0.150), "
         "both lead the 7 others"),
        (content("abcd", may=3, best=0.4),
         "a leads b by 0.10 bleu (-0.40 to 0.15); 3 of 4 may be the best"),
        (content("abcd", may=3),
         "a is probably the best (92%), and leads b by 0.10 bleu (-0.40 to 0.15); 3 of 4 may be"),
        (content("abc", may=3, best=0.1),
         "a leads b by 0.10 bleu (-0.40 to 0.15); b is the likeliest to be the best (45%), "
         "3 of 3 may be"),
        (content("abc", may=3, pairwise=[
            {"a": a, "b": b, "decision": "equivalent", "difference": 1, "low": -1, "high": 3}
            for a, b in ("ab", "ac", "bc")]),
         "3 models are equivalent; a leads b by 1.0 bleu (-1.0 to 3.0)"),
        (content("ab", may=2, best=0.997),
         "a is probably better than b (>99%), by 0.10 bleu (-0.40 to 0.15)"),
        (content("a"), "a scores 0.100 to 0.300"),
        (content("ab", may=2, best=0.5, pairwise=[
            {"a": "a", "b": "b", "decision": "open", "difference": -0.0, "low": -1, "high": 1}]),
         "a and b cannot be told apart: no difference seen (-1.0 to 1.0)"),
        (content("ab", may=2, pairwise=[
            {"a": "a", "b": "b", "decision": "equivalent", "difference": 1, "low": -1, "high": 3}]),
         "a and b are equivalent, 1.0 bleu (-1.0 to 3.0) apart"),
    ],
)  # fmt: skip
def test_the_headline_says_who_leads_by_how_much_and_how_sure_that_is(found, sentence):
    n = len(found["order"])
    by = "" if "bleu" in sentence else " by bleu"
    by += ", lower is better" * (not found["scale"]["higher_is_better"])
    what = "mean" if len(found["models"]) == 1 else "order"  # a single model has no order
    assert headline(found) == (
        f"{sentence}; 95% at every look, {what} of full runs of these 100 items{by}; "
        f"asked {5 * n} of {100 * n}, $0.120 of about {dollars(0.2 * n)}"
    )
    in_full = content("a")
    in_full["models"]["a"]["interval"] = [0.2, 0.2]
    assert headline(in_full).startswith("a scores 0.200; 95%")
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
    shown = printed(found, 200)
    assert words in shown and "2 of the 3 decided pairs do not hold yet" in shown
    assert "a over b was decided earlier" in shown
    for pair in found["pairwise"]:
        pair["population"] = {pair["a"], pair["b"]} != {"a", "c"}
    assert "1 of the 3 decided pairs does not hold yet" in printed(found, 200)


def test_markdown_says_who_failed_and_in_what_the_cost_is():
    """Tokens are the cost where they are the currency, and have no column of their own."""
    found = content("ab")
    found["models"]["b"]["failed"] = [{"doc_id": n, "reason": "HTTP 500"} for n in (3, 4)]
    for unit in ("usd", "tokens", "items"):
        found["scale"], found["cost_unit"] = Scale().to_dict(), unit
        _, names, _, notes = astuple(ranking_grid(found, "t"))[:4]
        assert "b failed on 2 items, not seen and not scored as 0" in notes
        assert f"cost: in {unit}" in notes and "cost" in names and "tokens" not in names


@pytest.mark.long
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
    assert f"“{LONG}”" in row and "0.10 (-0.40 to 0.15)" in row


def test_what_to_mind_stands_before_what_it_cost_and_where_it_is_from():
    found = content(warnings=["3 of 5 answers are empty"])
    found["models"][LONG] |= {
        "findings": ["may score better than every model of the bank"],
        "sample": {"n": 12, "estimate": 0.25, "standard_error": 0.031, "interval": [0.18, 0.32]},
        "failed": [{"doc_id": 3, "reason": "HTTP 400"}],
    }
    lines = notes(found)
    starts = [
        "Warning",
        f"{LONG} may score",
        f"{LONG} failed on 1 document",
        "By the random",
        "Spent",
    ]
    places = [next(n for n, line in enumerate(lines) if line.startswith(s)) for s in starts]
    assert places == sorted(places)
    # The bank has a part in these figures, and its mistakes have none.
    sample = f"By the random documents, true however wrong the bank is: {LONG} 0.250 ± 0.031"
    assert lines[places[3]].startswith(f"{sample} (from 12)")
    found["models"][LONG]["sample"]["estimate"] = 1.016  # unbiased, yet no score lies there
    assert any(f"{LONG} 1.000 ± 0.031" in line for line in notes(found))


def test_only_what_draws_may_send_escapes_to_a_terminal(monkeypatch, capsys):
    display = Display(quiet=True)
    for _ in range(3):  # said once
        display.warn("model \x1b[2Jm is away [bold]")
    assert capsys.readouterr().err == "warning: model ␛[2Jm is away [bold]\n"
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    with safe_streams():
        print("\x1b[2Jgone")
        with_escapes(sys.stdout).write("\x1b[1mbold")
    assert out.getvalue() == "␛[2Jgone\n\x1b[1mbold"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
def test_a_terminal_without_a_sign_for_a_name_shows_its_number_and_json_stays_json(
    encoding, monkeypatch
):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, newline=""))
    with safe_streams():
        print(visible_json({"model": "ünï→模型 😀"}))
        sys.stdout.flush()
    assert json.loads(raw.getvalue().decode(encoding)) == {"model": "ünï→模型 😀"}
    assert (b"\\u6a21" in raw.getvalue()) == (encoding != "utf-8")


@pytest.mark.parametrize(
    ("typed", "starts"),
    [("\n", False), ("n\n", False), ("Y\n", True), (" yes \n", True), ("", False)],
)
def test_nothing_but_yes_starts_what_costs_money(typed, starts, monkeypatch, capsys):
    terminal = io.StringIO(typed)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert Display().confirm("It may cost $9. Start?") is starts
    assert capsys.readouterr().err == "It may cost $9. Start? [y/N] "
