"""What a result says of a run: on which scales, of which parts, at what cost, and how surely."""

from __future__ import annotations

import re

import pytest
from runs.test_salvage import run  # noqa: F401
from worlds.boards import drive
from worlds.journals import Teller

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.live.result import (
    Result,
    _cost_block,
    _doubts_of_cut_answers,
    board_of,
    result_of,
    state_terms,
    warnings_of_equal_scores,
    with_scales_of_header,
)
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.money import no_money
from lm_eval_ccat.records import Change, Header, Item, Tell
from lm_eval_ccat.runs.tally import ScoreRange, Tally

SCALES = {"points": Scale(0, 100), "errors": Scale(0, 40, higher_is_better=False)}


def test_parts_stand_on_their_own_scales_and_their_shares_sum_to_1():
    banks = {t: ItemBank.blank(range(12), task=t, metric=t, scale=s) for t, s in SCALES.items()}
    ranker = Ranker(
        banks, {"a": 1.0, "b": 1.0}, weights={"points": 1.0, "errors": 3.0}, stop="limits",
        warmup=6, budget=24, known={"k": 0.4},
    )  # fmt: skip
    found = drive(ranker, lambda model, item: (item[1] + (model == "a")) / 13)
    outcomes = {t: {t: {"metric": t, "filter": None, "weight": 1.0, "scale": s.to_dict()}}
                for t, s in SCALES.items()}  # fmt: skip
    facts = Header(task={"name": "both"}, report={"outcomes": outcomes, "scale": Scale().to_dict()})
    ranking = with_scales_of_header(found, facts.report)
    columns = {column["name"]: column for column in board_of(ranking)}
    for task, width in (("points", 100), ("errors", 40)):
        for model, cell in columns[task]["models"].items():
            part = found.tasks[task]
            assert cell["standard_error"] == pytest.approx(width * part.standard_errors[model])
            raw = width * (part.estimates[model] if width == 100 else 1 - part.estimates[model])
            assert cell["estimate"] == pytest.approx(raw)
    # A known model has its mean alone; one that is new is not known by five items.
    assert columns["average"]["models"]["k"]["estimate"] == pytest.approx(0.4)
    assert [columns[t]["models"].get("k") for t in SCALES] == [None, None]
    content = ranking.to_dict()
    state_terms(content, facts)
    shares = {term["task"]: term["weight"] for term in content["terms"]}
    assert shares == pytest.approx({"points": 0.25, "errors": 0.75})


@pytest.mark.parametrize(
    ("paid", "usd"),
    [({}, None), ({"billed": 2.0}, 2.0), ({"billed": 2.0, "assumed": 0.5, "unknown": 4.0}, 2.5)],
)
def test_dollars_are_those_billed_and_assumed(paid, usd):
    """What may have been billed for an answer that was lost stands beside them."""
    tally = Tally()
    if paid:
        tally.paid["a"]["t"] = {**no_money(), **paid}
    content = Result(Ranker(ItemBank.blank(range(9)), ["a", "b"]).result(), tally=tally).content
    assert content["usd"] == content["models"]["a"].get("usd") == usd
    assert content["money"] == ({**no_money(), **paid} if paid else None)


def of_run(book: Teller, **options):
    ranking = book.ranker.result()
    return result_of(ranking, book.journal.header, None, book, None, seconds=0.0, **options)


@pytest.mark.long
def test_only_a_run_that_another_one_repeats_has_a_signature_without_its_journal(run):  # noqa: F811
    book = Teller.of(run)
    plain = of_run(book)
    assert "journal:" not in plain.signature and not plain.warnings
    book.drop("c", "its server is gone")
    book.restore("c")
    assert re.search(r"\|journal:[0-9a-f]{12}$", of_run(book).signature)
    assert plain.signature == of_run(book).signature.partition("|journal:")[0]
    timed = Teller.of(run)
    timed.tally.ever_set_aside, timed.tally.by_clock = False, "the run ended at a deadline"
    result = of_run(timed)
    assert re.search(r"\|journal:[0-9a-f]{12}$", result.signature)
    [warning] = result.warnings
    assert warning.startswith("the run ended at a deadline, so another run")


@pytest.mark.parametrize(
    ("empty", "limit", "told", "partial"),
    [
        (1, None, False, False),
        (2, None, True, False),
        (2, 0.5, True, False),
        (1, 0.05, True, True),
        (2, 2 / 11, True, False),  # as many as the user allows
    ],
)
def test_answers_without_text_are_told_if_they_are_many_and_end_a_run_beyond_its_limit(
    run, empty, limit, told, partial  # noqa: F811
):  # fmt: skip
    """`empty` of the first eleven answers."""
    book = Teller.of(run)
    book.tally.answered["a"] = 11
    book.tally.empty_outputs["a"] = empty
    result = of_run(book, fail_on_empty=limit)
    assert bool(result.warnings) == told
    assert (result.exit_code == 4) == partial
    if told:
        assert result.warnings[0].startswith(f"{empty} of 11 answers of a are empty")


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (["length", "length", "stop"], "2 reached the token limit before any text"),
        (["length", "stop", "stop"], "look at its stop sequences"),
    ],
)
def test_answers_that_reasoning_left_without_text_are_told_with_the_limit_to_raise(
    run, reasons, told  # noqa: F811
):  # fmt: skip
    book, tally = Teller.of(run), Tally()
    for doc_id, reason in enumerate(["length", *reasons]):
        text = "42" if doc_id == 0 else ""
        tally.count_answer(
            Tell(model="a", item=Item(("t", doc_id)), score=0.5, responses=[[text]], empty=not text,
                 served=[{"finish": [reason]}])
        )  # fmt: skip
    book.tally.answered, book.tally.empty_outputs = tally.answered, tally.empty_outputs
    book.tally.empty_at_limit = tally.empty_at_limit
    assert f"3 of 4 answers of a are empty (75%) and were scored as such: {told}" in "\n".join(
        of_run(book).warnings
    )


def test_a_model_that_the_user_has_taken_out_leaves_no_gap(run):  # noqa: F811
    book = Teller.of(run)
    book.drop("c", "its server is gone")
    assert of_run(book).exit_code == 4
    book.tally.changes.append(Change(settings=["config.models[c]: leaves"]))
    assert of_run(book).exit_code != 4


@pytest.mark.parametrize(("score", "told"), [(0.0, True), (1.0, True), (0.5, False)])
def test_answers_that_all_score_the_lowest_or_the_highest_are_told(run, score, told):  # noqa: F811
    """As where no answer is found in the texts: every model is equivalent to every other."""
    book, tally = Teller.of(run), Tally()
    for name in ("a", "b"):
        for doc_id in range(20):
            tally.count_answer(
                Tell(model=name, item=Item(("t", doc_id)), score=score, raw=5 * score)
            )
    book.tally.scores = tally.scores
    said = f"all 40 answers of a, b score {5 * score:g} on t: "
    assert [text.startswith(said) for text in of_run(book).warnings] == [True] * told
    tally.count_answer(Tell(model="b", item=Item(("t", 20)), score=0.25, raw=1.25))
    alone = "all 20 answers of a score 0 on t, unlike those of other models: answers may"
    assert [text.startswith(alone) for text in of_run(book).warnings] == [True] * (score == 0.0)
    # Three answers are too few to be told of, but they are like those of the other model.
    few = warnings_of_equal_scores(
        {"a": ScoreRange(20, score, score), "b": ScoreRange(3, score, score)}, "t"
    )
    assert [text.partition(":")[0] for text in few] == [
        f"all 20 answers of a score {score:g} on t"
    ] * told


def test_shares_of_answers_that_were_cut_are_of_all_answers():
    tally = Tally()
    tally.answered.update(a=20, b=20)
    tally.finished.update(a={"length": 10}, b={"length": 1})
    [text] = _doubts_of_cut_answers(tally, ())
    assert "different rates: 50% of those of a, 5% of those of b" in text


def test_a_model_s_seconds_are_those_of_its_answers():
    tally = Tally()
    tally.asked["a"], tally.seconds["a"] = 3, 12.5
    block = _cost_block(tally, "a")
    assert (block["asked"], block["seconds"]) == (3, 12.5) and "usd" not in block
