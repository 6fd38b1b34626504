"""Rows, ranks and columns that terminal and page share, from rankings written down by hand."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rich.measure import Measurement

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.columns import TERMINAL, columns_of, model_cells
from lm_eval_ccat.ranker.headline import failures_in_words, number_format
from lm_eval_ccat.ranker.verdicts import DECIDED
from lm_eval_ccat.report import terminal
from lm_eval_ccat.report.following import after_ranking, to_decide
from lm_eval_ccat.report.tables import (
    chain,
    count_pairs,
    duration,
    outlook,
    parts,
    percent,
    rank_rows,
)
from lm_eval_ccat.report.terminal import (
    Progress,
    forecast_lines,
    models_table,
    notes,
    print_result,
    shortened,
)
from lm_eval_ccat.report.trust import remarks_on_models, sentences, warnings


def ranking(names="abcd", ties=(), ranges=None, known=(), **more):
    """A ranking of models with estimates .9, .8, .. that are tied in groups."""
    models = {
        name: {
            "rank": n, "rank_range": list((ranges or {}).get(name, (n, n))), "p_best": 0.25,
            "estimate": 1.0 - 0.1 * n, "standard_error": 0.01, "n_items": 0 if name in known else 9,
            "interval": [0.95 - 0.1 * n, 1.05 - 0.1 * n], "known": name in known, "cost": 0.5,
            "failed": [], "set_aside": None,
        }
        for n, name in enumerate(names, 1)
    }  # fmt: skip
    tied = [set(group) for group in ties]
    pairs = [
        {"a": a, "b": b, "p": 0.5 + 0.1 * (j - i), "difference": 0.1 * (j - i), "low": 0.0,
         "high": 0.2 * (j - i), "decision": "open" if any({a, b} <= g for g in tied) else "decided"}
        for i, a in enumerate(names) for j, b in enumerate(names) if i < j
    ]  # fmt: skip
    return {
        "order": list(names), "models": models, "pairwise": pairs, "ties": list(map(list, ties)),
        "separated_within_ties": [], "open_pairs": [], "scale": {"higher_is_better": True},
        "confidence": 0.95, "cost_unit": "items", "cost": 9.0, "warnings": [], "headline": "",
        "stopped_because": "the end", "estimand": "A mean", "looks": "every", "signature": "s",
        "items_of_benchmark": 99, "familywise": False, "ranking": " > ".join(names), **more,
    }  # fmt: skip


def printed(content, width=200):
    out = io.StringIO()
    print_result(Console(file=out, width=width, no_color=True, highlight=False), content)
    return out.getvalue()


# -- the order ------------------------------------------------------------------------------------


def test_a_chain_names_as_many_models_as_it_may():
    tied = ranking("abcde", [("a", "b", "c"), ("d", "e")])
    assert [part.names for part in chain(tied, 4)] == [["a", "b", "c"], ["d"]]
    assert [part.names for part in chain(tied, 3)] == [["a", "b", "c"]]


def test_a_link_of_a_chain_has_its_ranks_where_they_are_open():
    content = ranking("abc", [("a", "b", "c")], {"a": (1, 2), "b": (1, 3), "c": (3, 3)})
    content["separated_within_ties"] = [("a", "c")]
    assert [part.ranks for part in chain(content)] == ["(1 to 2)", "(1 to 3)", ""]


def test_only_models_that_were_asked_have_a_line_of_ranks():
    """Rank r of n is drawn from (r - 1) / n to r / n: its mark stands in the middle."""
    content = ranking("abcd", ranges={"b": (2, 3)}, known=("c",))
    cells, axis = rank_rows(content)
    assert [row.name for row in cells] == ["a", "b", "d"]
    assert [axis.percent_at(tick) for tick in axis.ticks] == [
        100 * (r - 0.5) / 4 for r in (1, 2, 3, 4)
    ]
    assert axis.labels == ("1", "2", "3", "4")


def test_a_model_that_was_not_asked_has_no_figures_in_a_part():
    part = ranking("ab")
    part["models"]["b"]["n_items"] = 0
    [column] = parts({**ranking("ab"), "outcomes": {"acc": {**part, "weight": 0.5}}})
    assert list(column.cells) == ["a"] and column.weight == "0.5"


def test_estimates_by_outcome_are_of_the_models_that_were_asked_and_shown():
    names = [f"m{n:02}" for n in range(30)]
    for known, told in ((names[2:], ["m00", "m01"]), ((), [*names[:20], "... 10 more"])):
        part = ranking([name for name in names if name not in known], weight=0.5)
        text = printed(ranking(names, known=known, outcomes={"acc": part}))
        rows = text.partition("From the same answers")[2].partition("─ \n")[2].splitlines()
        assert [row[1:12].partition("  ")[0].strip() for row in rows[: len(told) + 1]] == [
            *told,
            "",
        ]


def test_a_narrow_terminal_spells_out_the_names_that_it_shows_and_no_others():
    names = [f"a-model-with-a-name-of-some-length-{n:02}" for n in range(30)]
    lines = printed(ranking(names), width=60).splitlines()
    assert [line.partition(" is ")[2] for line in lines if " is a-model" in line] == names[:20]


@pytest.mark.parametrize(
    ("part", "total", "text"),
    [(1, 200, "0.5%"), (9.96, 100, "10.0%"), (3, 100, "3.0%"), (55.4, 100, "55%"), (1, 0, "0%")],
)
def test_a_share_has_a_decimal_below_a_tenth(part, total, text):
    assert percent(part, total) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(89, "89 s"), (3_540, "59 min"), (7_260, "2 h 1 min")]
)
def test_a_duration_is_in_hours_and_minutes_of_sixty(seconds, text):
    assert duration(seconds) == text


def test_full_results_beside_a_ranking_ask_for_no_more_decimals():
    content = ranking("abcdef", known="cdef")
    for name in "cdef":
        content["models"][name]["standard_error"] = 1e-5
    assert number_format(content)(0.123456) == number_format(ranking("ab"))(0.123456)


# -- the terminal ---------------------------------------------------------------------------------


def test_a_narrow_table_loses_first_the_columns_that_leave_first():
    content = ranking("abcd", [("a", "b")], {"a": (1, 2), "b": (1, 2)})
    leaves = {
        column.heading(content): column.drop_order
        for column in columns_of(TERMINAL, content, model_cells(content))
    }
    lost = 0
    for width in range(120, 16, -2):
        table, _ = models_table(content, width)
        left = [str(column.header) for column in table.columns][2:]
        assert left == [name for name in leaves if name in left]
        gone = [leaves[name] for name in leaves if name not in left]
        lost = max(lost, len(gone))
        assert not gone or min(gone) >= max(leaves[name] for name in left)
    assert lost > 1


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["a", "b"], ()),
        (["模型" * 20 + "甲", "模型" * 20 + "乙"], ()),
        ([f"model-{n}" for n in range(30)], ()),
        # The two that are asked have ranks of two digits.
        ([f"model-of-some-name-{n}" for n in range(12)], range(10)),
    ],
    ids=["short", "wide letters", "hidden", "known"],
)
def test_a_table_is_no_wider_than_the_terminal(names, known):
    content = ranking(names, [names[-2:]], known={names[n] for n in known})
    waiting = {names[-1]: 1} if known else None
    for width in range(50, 121, 3):
        console = Console(width=1000)
        table, shown = models_table(content, width, waiting=waiting)
        assert Measurement.get(console, console.options, table).maximum <= width
        assert len(set(shown.values())) == len(shown)


def test_three_long_names_with_equal_ends_stay_apart():
    names = [f"org/model-{letter}-of-a-family-instruct" for letter in "xyz"]
    assert len(set(shortened(names, 12).values())) == 3
    assert len(set(shortened(names[:2], 12).values())) == 2


def test_a_task_with_too_few_items_has_no_estimate_of_its_own():
    cells = {"a": {"items": 3, "too_few": True}, "b": {
        "items": 30, "too_few": False, "estimate": 0.5, "standard_error": 0.1}}  # fmt: skip
    column = {"name": "law", "kind": "task", "weight": 0.5, "items": 99, "models": cells}
    [line] = [x for x in printed(ranking("ab", board=[column])).splitlines() if "law" in x]
    assert "too few items (3)" in line and "0.5 ± 0.1 (30)" in line and "law (50%)" in line


@pytest.mark.parametrize(
    ("repeats", "unit"), [({}, "items"), ({"answers_of_benchmark": 9}, "answers")]
)
def test_the_table_of_tasks_names_what_it_counts(repeats, unit):
    text = printed(ranking("ab", board=[], **repeats))
    assert "standard error" not in text
    column = {"name": "law", "kind": "task", "models": {}}
    text = printed(ranking("ab", board=[column], **repeats))
    assert f"Estimate ± standard error ({unit})" in text


@pytest.mark.parametrize(
    ("equivalent", "said"),
    [
        ((), "Not separated: a, b, c."),
        (("ab", "bc", "ac"), "Equivalent: a, b, c."),
        (("ab", "bc"), "Equivalent or not separated: a, b, c."),
        (("bc",), "Equivalent or not separated: a, b, c."),
    ],
)
def test_models_that_share_a_place_are_equivalent_or_not_separated(equivalent, said):
    content = ranking("abcd", [("a", "b", "c")])
    for pair in content["pairwise"]:
        if pair["a"] + pair["b"] in equivalent:
            pair["decision"] = "equivalent"
    assert notes(content)[0] == said


def test_the_matrix_has_the_probability_that_the_row_is_better():
    content = ranking("abc", [("a", "b")])
    lines = notes(content)
    start = next(n for n, line in enumerate(lines) if line.startswith("Probability that the row"))
    assert lines[start + 1].split() == ["b", "c"]
    assert lines[start + 2].split() == ["a", "60%", "70%"]
    assert lines[start + 3].split() == ["b", "60%"]


def forecast(**changes):
    """A forecast of two models that take an hour and two at a second an answer."""
    model = {
        "price_known": True, "cost_per_item": 0.001, "most_expensive_item": 0.002,
        "cost_estimated": False, "least_items": 20, "most_items": 400, "least_cost": 0.1,
        "most_cost": 2.5, "full_evaluation_cost": 3.0, "in_flight_at_most": 16,
        "most_seconds_at_1s": 3600.0,
    }  # fmt: skip
    way = {
        "items_per_model": 90, "answers": 180, "input_tokens": 9e4, "output_tokens": 1e3,
        "usd": 0.3, "minutes_at_1s": 3.0,
    }  # fmt: skip
    return {
        "task": "t", "documents": 400, "bank": None, "metric": "acc", "budget": {},
        "models": {"a": model, "b": {**model, "most_seconds_at_1s": 7200.0}}, "least_items": 40,
        "repeats": 1,
        "most_items": 800, "least_cost": 0.2, "most_cost": 5.0, "rehearsal": None,
        "overspend_at_most": None, "judge_cost_per_item": None, "ahead": 16, "one_at_a_time": False,
        "loads": None,
        "chance": 0.8, "confidence": 0.95, "familywise": False,
        "smallest_gap_by_items": {100: {"random": 0.1, "full": 0.02}},
        "by_gap": {"0.05": {"random": way}}, **changes,
    }  # fmt: skip


def test_models_that_take_turns_take_the_sum_of_their_times():
    at_once, in_turns = (
        next(line for line in forecast_lines(forecast(one_at_a_time=alone)) if "Time:" in line)
        for alone in (False, True)
    )
    assert "at most 7200 s" in at_once and "at the same time" in at_once
    assert "at most 10800 s" in in_turns and "same time" not in in_turns


def test_what_is_asked_in_passes_are_answers():
    for repeats, asked in ((1, "item"), (3, "answer")):
        head, *lines = forecast_lines(forecast(repeats=repeats))[1:]
        assert head.split()[:4] == ["model", f"{asked}s", "per", asked]
        assert any(line.startswith(f"Together 40 to 800 {asked}s, ") for line in lines)


def test_a_cost_that_is_not_known_is_never_called_nothing():
    lines = forecast_lines(forecast(least_cost=None, most_cost=5.0))
    assert any(re.match(r"Together 40 to 800 items, cost unknown\.", line) for line in lines)
    lines = forecast_lines(forecast(least_cost=0.2, most_cost=None))
    assert any("cost unknown" in line for line in lines)
    played = {
        "rankings": 8, "decided": 0.0, "used": 250.0,
        "cost": {"expected": 2.0, "low": 2.0, "high": 2.0},
    }  # fmt: skip
    played["answers"] = {"expected": 272.0, "low": 272.0, "high": 272.4}
    words = "\n".join(forecast_lines(forecast(rehearsal=played)))
    assert "8 in 10 took 272 answers, ~$2.00; 0% met" in words
    assert "more than twice" not in words


def test_remarks_on_costs_name_whose_are_unknown_and_tell_what_the_mark_means():
    models, way = forecast()["models"], forecast()["by_gap"]["0.05"]["random"]
    exact = {"by_gap": {"0.05": {"random": {**way, "usd": None}}}}
    mark = (
        "~ estimated: prices by token from the lengths of prompts and references, by the hour at a "
        "second an answer."
    )
    no_price = (
        "Costs of b are unknown, because no price is stated: `price:` in the run's configuration "
        "file, --price of `rank`."
    )
    overspend = "Requests in flight at the end may exceed the budget, by at most ~$0.500."
    judge = "Every item includes $0.002 for the judge."
    cases = [
        ({}, []),
        ({"models": {**models, "b": {**models["b"], "price_known": False}}}, [no_price]),
        ({"judge_cost_per_item": 0.002}, [judge]),
        ({"overspend_at_most": 0.0}, []),  # every model is free
        ({"overspend_at_most": 0.5}, [overspend, mark]),
        ({"models": {"a": {**models["a"], "cost_estimated": True}}}, [mark]),
        ({"by_gap": {"0.05": {"random": way}}}, [mark]),
    ]
    for changes, remarks in cases:
        lines = forecast_lines(forecast(**{**exact, **changes}))
        start = lines.index(next(line for line in lines if line.startswith("Tokens by"))) + 1
        assert lines[start : start + len(remarks)] == remarks
        assert lines[start + len(remarks)].startswith("Time:")


def test_a_plan_says_what_it_cannot_tell_and_what_a_budget_does_not_pay():
    def said(**changes):
        return "\n".join(forecast_lines(forecast(**changes)))

    assert "noise between repeats" in said(smallest_gap_by_items={}, by_gap={})
    budgets = {"usd": (0.29, 0.3), "items": (179, 180), "tokens": (90_999, 91_000)}
    for unit, (short, enough) in budgets.items():
        assert "over the budget" in said(budget={unit: short})
        assert "over the budget" not in said(budget={unit: enough})
    hours = {**forecast()["by_gap"]["0.05"]["random"], "minutes_at_1s": 204.7}
    assert re.search(r" 205$", said(by_gap={"0.1": {"random": hours}}), re.M)
    assert re.search(r"557 +~\$0\.000247 ", said(by_gap={"0.1": {"random": {
        "items_per_model": 90, "answers": 180, "input_tokens": 557.0, "output_tokens": 0.0,
        "usd": 0.000247, "minutes_at_1s": 3.0,
    }}}))  # fmt: skip


@pytest.mark.parametrize(
    ("spent", "elapsed", "words"),
    [(30.0, 60.0, "60 s, at most 140 s left"), (90.0, 60.0, "60 s, at most 7 s left"),
     (100.0, 60.0, "60 s, at most 0 s left"), (30.0, 1.0, "1 s")],
)  # fmt: skip
def test_the_time_left_is_what_the_rest_of_the_budget_takes(spent, elapsed, words):
    progress = Progress(quiet=True)
    charges = SimpleNamespace(currency="items", budget=100.0)
    progress.plan = SimpleNamespace(charges=charges, seconds=None)
    progress.book = SimpleNamespace(ranker=SimpleNamespace(spent=spent), elapsed=lambda: elapsed)
    assert progress._spending() == [f"budget {spent:g} of 100 items", words]


# -- what to trust, and what to do next -----------------------------------------------------------


def test_a_model_that_was_set_aside_is_told_once():
    content = ranking("ab")
    failed = [{"doc_id": 3, "reason": "too long"}]
    content["models"]["a"] |= {"set_aside": "HTTP 401", "failed": failed}
    content["models"]["b"] |= {"failed": failed}
    topics = [(topic, text.split()[0]) for topic, text in remarks_on_models(content)]
    assert topics == [("Set aside", "a"), ("Failed", "b")]


def test_the_gravest_warning_comes_first():
    content = ranking("abc")
    content["models"]["a"]["empty_outputs"] = 4
    content["models"]["b"]["failed"] = [{"doc_id": 3, "reason": "too long"}]
    content["models"]["c"]["set_aside"] = "HTTP 401"
    run = SimpleNamespace(
        finished=True, result=content, models=list("abc"), torn=False, bank_of={}, banks={},
        answers=[],
    )  # fmt: skip
    assert [topic for topic, _ in warnings(run)] == ["Set aside", "Failed", "Empty"]


def open_pair(cost=0.004, **items):
    likely = {"likely_items": items, "likely_cost": cost}
    return {"a": "a", "b": "b", "p": 0.8, "items": items, "cost": cost, "all_items": False} | likely


def test_a_pair_that_all_answers_leave_open_has_no_way_to_decide_it():
    pairs = [open_pair(a=30, b=10) | {"out_of_reach": True}] * 2
    content = ranking(
        "ab", open_pairs=pairs, finished=True,
        stopped_because="the limit of 9 items per model is reached",
    )  # fmt: skip
    said = printed(content)
    assert "a over b (80%): not even all answers that remain would decide." in said
    assert said.count("would decide") == 1 and to_decide(content) == ""


def test_the_limit_that_decides_a_pair_is_that_of_the_model_that_needs_more():
    content = ranking(
        "ab", open_pairs=[open_pair(a=30, b=10)], finished=True,
        stopped_because="the limit of 9 items per model is reached",
    )  # fmt: skip
    assert to_decide(content).endswith("--resume --max_items 39")
    content["open_pairs"] = [open_pair(a=30, b=500)]
    assert to_decide(content).endswith("--resume --max_items 99")  # the benchmark has no more


@pytest.mark.parametrize(
    ("spent", "cost", "amount"),
    [
        (1.0, 0.25, "1.25"), (1.0, 0.001, "1.01"), (0.33, 0.332, "0.67"),
        (0.02, 0.0103, "0.031"), (0.0002, 0.000313, "0.00052"),  # a cent is a multiple of these
    ],
)  # fmt: skip
def test_the_budget_that_decides_a_pair_holds_what_was_spent_and_is_rounded_up(spent, cost, amount):
    content = ranking(
        "ab", open_pairs=[open_pair(cost, a=30, b=10)], finished=True, cost=spent, cost_unit="usd",
        stopped_because="the budget is used up",
    )  # fmt: skip
    assert f"--resume --budget_usd {amount} (" in to_decide(content)
    content["cost_unit"] = "items"
    content["cost"] = 18.0
    assert to_decide(content).endswith("--resume --budget_items 58")
    content["open_pairs"] = [open_pair(cost, a=30, b=10_324)]
    assert to_decide(content).endswith("--resume --budget_items 198")  # 2 models, 99 documents


def test_what_is_asked_repeatedly_is_counted_in_answers():
    content = ranking(
        "ab", open_pairs=[open_pair(a=100, b=10)], items_of_benchmark=60, answers_of_benchmark=240,
        stopped_because="the limit of 9 items per model is reached",
    )  # fmt: skip
    assert to_decide(content).endswith("--resume --max_items 109")  # of 4 answers to 60 items
    content |= {"cost": 18.0, "stopped_because": "the budget is used up"}
    assert to_decide(content).endswith("--resume --budget_items 128")
    content["open_pairs"] = [open_pair(a=30, b=10_324)]
    assert to_decide(content).endswith("--resume --budget_items 480")


def test_nobody_knows_in_how_many_seconds_a_pair_is_decided():
    content = ranking("ab", open_pairs=[open_pair(a=30, b=10)], cost=18.0)
    content["stopped_because"] = "the budget of 60 seconds is used up"
    assert to_decide(content) == ""


def test_a_warning_of_a_bank_that_the_result_has_is_told_once():
    bank = SimpleNamespace(warnings=("few models", "no settings"))
    run = SimpleNamespace(
        finished=True, result=ranking("ab", warnings=["bank: few models"]), models=list("ab"),
        torn=False, bank_of={"t": bank}, banks={"t": bank}, answers=[],
    )  # fmt: skip
    assert [*warnings(run)] == [("Doubt", "bank: few models."), ("Items", "t: no settings")]


@pytest.mark.parametrize("answers", [[], ["an answer"]])
def test_a_run_without_answers_has_no_course_that_another_version_could_contradict(answers):
    run = SimpleNamespace(
        finished=True, result=ranking("ab"), models=list("ab"), torn=False, bank_of={}, banks={},
        answers=answers,
    )  # fmt: skip
    said = [topic for topic, _ in warnings(run, with_course=False)]
    assert said == ["Version"] * len(answers) and not [*warnings(run)]


def test_what_set_a_model_aside_is_corrected_before_a_pair_is_decided():
    content = ranking("ab", open_pairs=[open_pair(a=30, b=10)], finished=True, exit_code=4)
    content["stopped_because"] = "the limit of 9 items per model is reached"
    assert "--max_items" in after_ranking(content, Path("x.run"))
    content["models"]["b"]["set_aside"] = "HTTP 401"
    assert after_ranking(content, Path("x.run")).startswith("Next: correct what set b aside")
    content["exit_code"] = 0
    assert "--max_items" in after_ranking(content, Path("x.run"))
    assert after_ranking(content, None) == ""


def test_from_which_models_a_newcomer_is_not_separated_is_said_once():
    """Its place names all of them, its tie in the order only its neighbours."""
    content = ranking(
        ["a", "b", "new", "c", "d", "e"], [("b", "new", "c"), ("d", "e")], known="abcde"
    )
    content["separated_within_ties"] = [["b", "c"]]
    plain = notes(content)
    assert plain[:2] == ["Not separated: b, new, c.", "Not separated: d, e."]
    content["models"]["new"]["place"] = {"in_words": "rank 3 of 6, not separated from a, b, c"}
    placed = notes(content)
    assert [line for line in placed if "separated" in line or "tied" in line] == [
        "Not separated: d, e.", "new: rank 3 of 6, not separated from a, b, c.",
    ]  # fmt: skip


@pytest.mark.parametrize("finding", ["", "may score better than every model of the bank"])
def test_a_run_agrees_with_its_bank_unless_a_model_is_beyond_it(finding):
    content = ranking("ab")
    content["models"]["a"]["findings"] = [finding] if finding else []
    rng = np.random.default_rng(0)
    table = ScoreTable.from_arrays(rng.random((5, 30)), [*"vwxyz"], metric="acc", task="t")
    bank = replace(calibrate(table, "paper"), self_check={"range": [0.2, 0.8]})
    run = SimpleNamespace(result=content, bank_of={"t": bank}, failed=())
    [trust] = [text for topic, text in sentences(run) if topic == "Trust"]
    assert ("This run agrees with that" in trust) == (not finding)


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ([3, 4], "2 answers to 2 documents"),
        ([3, ("t", 3, 2), ("t", 5, 3)], "3 answers to 2 documents"),
        ([("t", 3, 2), ("t", 3, 3)], "2 answers to 1 document"),
    ],
)
def test_answers_that_failed_are_of_so_many_documents(failed, words):
    failures = [{"doc_id": item, "reason": "HTTP 400"} for item in failed]
    assert failures_in_words(failures, repeated=True).startswith(f"failed on {words}; they count")


def test_a_log_gets_plain_lines_and_none_about_nothing(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "header_of_plan", lambda plan: {})
    progress = Progress()
    assert progress.plain, "what pytest reads is no terminal"
    progress.begin(None, None)
    progress.tick()
    assert capsys.readouterr().err == ""


def test_what_is_open_is_told_once_and_what_would_decide_it_is_added_up():
    """Two models that are tied are the whole order, which the first line has shown."""
    assert not [line for line in notes(ranking("ab", [("a", "b")])) if "separated" in line]
    assert notes(ranking("abc", [("a", "b")]))[0] == "Not separated: a, b."
    pairs = [open_pair(a=30, b=10), open_pair(b=40, c=7) | {"a": "b", "b": "c"}]
    said = notes(ranking("abc", [("a", "b"), ("b", "c")], open_pairs=pairs))
    # What b needs for one of them serves the other, too.
    [together] = [line for line in said if line.startswith("About ")]
    assert together.startswith("About 77 more answers would decide all 2 open neighbours")
    assert not any("nearly all that remain" in line for line in said)


def test_what_would_decide_open_pairs_costs_what_answers_of_their_models_have_cost():
    pairs = [open_pair(a=5, b=8), open_pair(b=6, c=7) | {"a": "b", "b": "c"}]
    spent = {name: {"cost": 2.0, "n_items": n} for name, n in {"a": 10, "b": 20, "c": 5}.items()}
    found = outlook({"open_pairs": pairs, "models": spent}, "usd")
    assert found.answers == 20 and found.cost == pytest.approx(5 * 0.2 + 8 * 0.1 + 7 * 0.4)


def test_each_outcome_has_its_own_ranking():
    outcomes = {"bleu": {"ranking": "b > a"}, "chrf": {"ranking": ""}}
    said = notes(ranking("ab", outcomes=outcomes))
    assert said.index("By bleu: b > a.") + 1 == said.index("By chrf: nothing known.")


def test_random_items_say_their_own_estimate_of_their_own_number():
    """An estimate by few items may lie where no score does; the nearest score is said."""
    content = ranking("ab", scale=Scale(0.0, 100.0, higher_is_better=False).to_dict())
    sample = {"estimate": 104.0, "standard_error": 2.5, "n": 12}
    content["models"]["a"] |= {"n_items": 60, "sample": sample}
    [said] = [text for topic, text in remarks_on_models(content) if topic == "Sample"]
    assert re.search(r": a 100(\.0*)? ± 2\.50* \(from 12\)", said)


def test_random_documents_speak_of_the_first_four_models_that_were_asked_some():
    content = ranking("abcdefg", scale=Scale().to_dict())
    drawn = {"n": 12, "estimate": 0.25, "standard_error": 0.031, "interval": [0.18, 0.32]}
    for name in "abdefg":
        content["models"][name]["sample"] = drawn
    content["order"].remove("a")  # it was set aside
    *_, last = remarks_on_models(content)
    said = ", ".join(f"{name} 0.250 ± 0.031 (from 12)" for name in "bdef")
    assert last.topic == "Sample" and last.sentence.endswith(f": {said} and 1 more.")


def test_a_plan_tells_models_apart_whose_long_names_begin_alike():
    names = [f"organization/model-of-a-family-7b-{kind}" for kind in ("base", "chat")]
    lines = forecast_lines(forecast(models=dict.fromkeys(names, forecast()["models"]["a"])))
    heading = next(line for line in lines if line.startswith("model "))
    rows = [line for line in lines if line.startswith("organi")]
    assert [row.split()[0][-5:] for row in rows] == ["-base", "-chat"]
    # Names leave the other columns in their place.
    assert {row.index(" 400") for row in rows} == {heading.index("items") + 1}


def test_a_plan_tells_full_runs_expectations_and_levels_apart():
    models = {"a": {**forecast()["models"]["b"], "full_evaluation_cost": 7.25, "most_cost": 3.5}}
    played = {
        "rankings": 8, "decided": 0.75, "answers": {"expected": 272.0, "low": 100.0, "high": 400.0},
        "used": 250.4, "cost": {"expected": 2.0, "low": 1.0, "high": 3.0},
    }  # fmt: skip
    for familywise, level in ((True, "95% for all pairs together:"), (False, "95%:")):
        lines = forecast_lines(forecast(models=models, rehearsal=played, familywise=familywise))
        [row] = [line for line in lines if line.startswith("a ")]
        assert row.endswith("$7.25") and "$3.50" in row
        [expected] = [line for line in lines if line.startswith("Expected")]
        assert expected.startswith("Expected: asked 272, used 250 of 400, ~$2.00. Of 8 rankings")
        assert "8 in 10 took 100 to 400 answers, ~$1.00 to $3.00; 75% met" in expected
        assert sum("more than twice as much" in line for line in lines) == 1
        assert any(line.endswith(f"of rankings, at {level}") for line in lines)


@pytest.mark.long
def test_all_decided_pairs_of_a_leaderboard_are_counted_though_few_are_listed():
    rng, n_known = np.random.default_rng(0), 120
    scores = (rng.random((n_known, 200)) < np.linspace(0.1, 0.9, n_known)[:, None]).astype(float)
    known = ScoreTable.from_arrays(scores, [f"k{n}" for n in range(n_known)], task="t")
    ranker = Ranker(ItemBank.blank(range(200), task="t"), ["a", "b"], known=known, max_items=60)
    right = {"a": rng.random(200) < 0.6, "b": rng.random(200) < 0.3}
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(right[model][item]))
    ranking = ranker.result()
    state, above = ranking.verdicts.state, np.triu(np.ones((2, n_known + 2), dtype=bool), 1)
    counts = count_pairs(ranking.to_dict())
    assert counts.pairs == 2 * n_known + 1 == above.sum()
    assert counts.decided == (state[above] == DECIDED).sum() > n_known
    neighbours = [pair for pair in pairwise(ranking.order) if {*pair} & {"a", "b"}]
    assert counts.neighbours == len(neighbours) >= 2
    decided = [pair for pair in neighbours if ranking.decisions[pair] == "decided"]
    assert counts.decided_neighbours == len(decided)
