"""The Ranker and its journal together: what is on disk when, what is told when, what adds up."""

from __future__ import annotations

import gc
import json
import os
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from worlds.boards import bank_of
from worlds.journals import Teller

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.journal import Journal, JournalFile
from lm_eval_ccat.masking import MASK, forget, remember
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.records import BeyondBank, End, Fail, Header, Interrupt, Item, Lost, Session, Tell
from lm_eval_ccat.runs.book import Book, NewAsk
from lm_eval_ccat.runs.directory import LOG, RunDirectory
from lm_eval_ccat.runs.kept_answers import KeptAnswers
from lm_eval_ccat.runs.tally import Tally


def bank() -> ItemBank:
    return replace(bank_of("paper", 30), task="")


def fresh(**options: Any) -> Ranker:
    return Ranker(bank(), {"a": 1.0, "b": 2.0}, warmup=4, max_items=8, **options)


def teller(lines: list[bytes] | None = None, clock: Callable[[], float] = time.time) -> Teller:
    book = Teller(fresh(), Journal(lines), clock=clock)
    book.read()
    return book


def numbered(book: Book, n: int) -> list[Tell]:
    """Asks as a line makes them; the records of their answers, by number."""
    asks = [NewAsk(book.add_ask(*pair), book.n_told) for pair in book.ranker.ask(n)]
    book.write_asks(asks)
    return [
        Tell(n=ask.number, model=ask.model, item=ask.item, score=0.5, cost=1.0) for ask, _ in asks
    ]


class Recorder(Journal):
    """Says what happened in which order, and may refuse."""

    def __init__(self, happened: list[str]) -> None:
        super().__init__()
        self.happened = happened
        self.full = False

    def append(self, records: Any) -> list[int]:
        if self.full:
            raise RunError("No space left on device")
        records = list(records)
        places = super().append(records)
        self.happened += [f"written {record.kind.value}" for record in records]
        return places

    def make_durable(self) -> None:
        self.happened.append("durable")


def test_a_score_is_on_disk_for_good_before_the_ranker_knows_it():
    happened: list[str] = []
    book = Teller(fresh(), Recorder(happened))
    [(model, item)] = book.ask(1)
    tell = book.ranker.tell

    def told(*args, **kwargs):
        happened.append("applied")
        tell(*args, **kwargs)

    book.ranker.tell = told
    book.answer(model, item, 0.5, 1.0)
    assert happened == ["written ask", "written tell", "durable", "applied"]


def test_what_the_disk_refuses_the_ranker_never_hears():
    journal = Recorder([])
    book = Teller(fresh(), journal)
    [(model, item)] = book.ask(1)
    journal.full = True
    for call, *words in (
        (book.answer, model, item, 0.5, 1.0), (book.fail, model, item, "HTTP 400"),
        (book.release, model, item), (book.drop, model, "HTTP 401"), (book.stop, "time"),
    ):  # fmt: skip
        with pytest.raises(RunError, match="No space"):
            call(*words)
    result = book.ranker.result()
    assert result.items[model] == [] and not result.set_aside and not book.done
    assert book.claims == {(model, item)} and not book.answers


def test_the_first_answer_to_an_ask_counts_and_the_second_is_paid():
    lines: list[bytes] = []
    book = Book(fresh(budget=40.0), Journal(lines))
    [record] = numbered(book, 1)
    book.write([record])
    book.tell(book.asks[0])
    book.write([replace(record, score=0.9)])
    assert book.answers[record.pair].score == 0.5 and not book.waiting
    paid = {"cost": 2.5, "usd": 2.5, "column": "unknown"}
    book.event(Lost(model="a", item=record.item, why="hung", **paid))
    again = Book(fresh(budget=40.0), Journal(lines))
    again.read()
    for one in (book, again):
        assert one.ranker.budget == 37.5 and one.tally.money("a")["unknown"] == 2.5
        assert one.tally.attempts["a"] == {"hung": 1}


def test_what_is_lost_after_the_end_lowers_the_budget_when_the_run_goes_on():
    lines: list[bytes] = []
    book = Book(fresh(budget=40.0), Journal(lines))
    records = numbered(book, 3)
    book.write(records[1:2])  # behind an ask without an answer: at the end it counts all the same
    book.event(End(reason="a deadline", gaps=True))
    book.settle()
    book.event(Lost(model="a", item=Item(("", 1)), cost=2.0, why="deadline"))
    assert book.done and book.ranker.result().stopped_because == "a deadline"
    assert book.n_told == 1 and not book.ranker.in_flight
    assert book.ranker.budget == 40.0  # the result that was stated stands
    book.write([Session(event="resume")])
    again = Book(fresh(budget=40.0), Journal(lines))
    again.read()
    assert again.ranker.budget == 38.0 and not again.done and len(again.unanswered) == 2
    again.settle()
    assert again.n_told == 0  # the run goes on, and the line waits again


def test_what_the_journal_says_adds_up_and_is_read_back():
    lines: list[bytes] = []
    now = 1000.0
    book = teller(lines, clock=lambda: now)
    book.write([Session(event="start")])
    first, second, failed, released = book.ask(4)
    now += 12.0
    tokens = Tokens(100, 7, "usage")
    about = {"seconds": 0.5, "tokens": tokens, "usd": 1.5}
    book.answer(*first, 0.5, 1.5, empty=True, **about)
    book.answer(*second, 0.5, 1.5, **about)
    book.fail(*failed, "HTTP 400", cost=0.25, seconds=0.5)
    book.release(*released)
    now += 1000.0  # nobody was there
    book.write([Session(event="resume")])
    now += 3.0
    book.write([Interrupt()])
    spent = Counter({first[0]: 1.5}) + Counter({second[0]: 1.5}) + Counter({failed[0]: 0.25})
    again = teller(lines, clock=lambda: now)
    for one in (book, again):
        tally = one.tally
        assert one.ranker.result().cost == {model: spent[model] for model in "ab"}
        assert tally.money_of_all == {"billed": 3.0, "assumed": 0.0, "unknown": 0.0}
        assert sum(tally.answered.values()) == 2
        assert sum(tally.seconds.values()) == pytest.approx(1.5)
        assert [(t.input, t.output) for t in tally.tokens.values()] == [(100, 7)] * 2
        assert sum(tally.empty_outputs.values()) == 1
        assert {s for of in tally.token_sources.values() for s in of} == {"usage"}
        [[failure]] = tally.failures.values()
        assert failure[1] == "HTTP 400"
        assert len(one.answers) == 2 and not one.claims and one.closed
        assert tally.elapsed == one.elapsed() == pytest.approx(15.0)
    now += 1.0
    assert again.elapsed() == pytest.approx(16.0)
    assert again.ranker.result() == book.ranker.result()


def test_columns_of_money_follow_who_counted():
    book = teller()
    sources = ["usage", "tokenizer", "estimate", None]
    for source, (model, item) in zip(sources, book.ask(4, model="a")):
        tokens = None if source is None else Tokens(1, 1, source)
        book.answer(model, item, 0.5, 1.0, usd=1.0, tokens=tokens)
    assert book.tally.money("a") == {"billed": 2.0, "assumed": 2.0, "unknown": 0.0}


def answer(model: str, doc_id: int, **about: Any) -> Tell:
    return Tell(model=model, item=Item(("t", doc_id)), score=0.5, responses=["yes"], **about)


def test_only_what_was_sent_counts_as_asked_and_as_a_price_of_answers():
    tally = Tally()
    tally.count(answer("a", 0, usd=1.0))
    tally.count(answer("a", 1, usd=3.0))
    tally.count(answer("a", 2, usd=9.0, prior="earlier.run"))
    assert tally.asked["a"] == 2 and tally.costs["a"].answers == 2
    # An attempt that presumably was billed costs what answers do; one that may have been, at most.
    assert (
        tally.costs["a"].of_lost_attempt("assumed") == 2.0
        and tally.costs["a"].of_lost_attempt("unknown") == 3.0
    )
    assert tally.costs["b"].of_lost_attempt("unknown") is None


def test_an_answer_beyond_the_bank_is_assumed_to_be_billed_where_its_server_counted_no_tokens():
    tally = Tally()
    for doc_id, source in enumerate(("usage", "estimate")):
        tally.count(BeyondBank(model="a", item=Item(("t", doc_id)), usd=1.0 + doc_id,
                               tokens=Tokens(9.0, 1.0, source)))  # fmt: skip
    assert tally.money("a") == {"billed": 1.0, "assumed": 2.0, "unknown": 0.0}


def test_the_time_of_a_run_is_neither_that_of_a_pause_nor_of_completing_it():
    tally = Tally()
    item: Any = Item(("t", 9))
    beyond = BeyondBank(model="a", item=item, responses=["yes"], time=500.0)
    lost = Lost(model="a", item=item, column="unknown", beyond=True, time=600.0)
    for record in (
        Session(event="start", time=0.0), answer("a", 0, time=10.0),
        Session(event="resume", time=100.0), answer("a", 1, time=105.0), beyond, lost,
    ):  # fmt: skip
        tally.count(record)
    assert tally.elapsed == 15.0 and tally.asked["a"] == 2


@pytest.mark.parametrize(
    ("n", "cut", "unlike"),
    [
        ((100, 100), (30, 0), {("a", "b")}),
        ((100, 100), (15, 0), set()),  # sure, but a small difference
        ((8, 8), (2, 0), set()),  # large, but of few answers
        ((100, 7), (30, 0), set()),  # too few to tell anything
        ((100, 100), (100, 90), set()),
    ],
)
def test_models_are_unlike_by_a_difference_of_shares_that_is_large_and_sure(n, cut, unlike):
    tally = Tally()
    for model, answers, ends in zip("ab", n, cut):
        tally.answered[model] = answers
        tally.finished[model] = {"length": ends, "stop": answers - ends}
    assert tally.unlike_pairs("length") == unlike and tally.unlike_pairs("content_filter") == set()


def test_of_two_records_of_an_answer_the_later_one_is_read_and_it_is_one_answer():
    journal = Journal()
    answers = KeptAnswers(journal)
    for score in (0.25, 0.75):
        [place] = journal.append([Tell(model="a", item=Item(("t", 0)), score=score)])
        answers.keep("a", Item(("t", 0)), place)
    assert answers["a", Item(("t", 0))].score == 0.75 and len(answers) == 1


def test_a_model_s_answers_come_in_the_order_in_which_they_were_given():
    """Whatever the order in which another model met the items."""
    answers, items = KeptAnswers(Journal()), [Item(("t", n)) for n in range(4)]
    for model, order in ("a", (0, 1, 2)), ("b", (2, 3, 0)):
        for place, n in enumerate(order):
            answers.keep(model, items[n], place)
    assert list(answers.of("b")) == [items[2], items[3], items[0]]
    assert [pair for pair in answers if pair[0] == "a"] == [("a", item) for item in items[:3]]
    assert ("b", items[1]) not in answers and len(answers) == 6


def test_a_folder_in_which_nothing_began_is_taken_away_again(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.take()
    (tmp_path / "run" / LOG).write_text("a line\n")
    directory.release()
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
@pytest.mark.parametrize(("rights", "private"), [(0o700, True), (0o750, False), (0o705, False)])
def test_files_are_the_owners_alone_only_in_a_folder_that_is(tmp_path, rights, private):
    file = tmp_path / "results.json"
    file.write_text("{}")
    file.chmod(0o644)
    tmp_path.chmod(rights)
    RunDirectory(tmp_path).tighten()
    assert file.stat().st_mode & 0o777 == (0o600 if private else 0o644)
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), "0.5", None])
def test_a_score_that_is_none_is_refused_before_it_is_written(score):
    lines: list[bytes] = []
    book = teller(lines)
    [(model, item)] = book.ask(1)
    for wrong in (score, {"bleu": 0.5, "chrf": score}):
        with pytest.raises(RunError, match=rf"of {model} on item {item} is not in \[0, 1\]"):
            book.answer(model, item, wrong, 1.0)
    assert len(lines) == 1


@pytest.mark.long
def test_a_journal_is_read_in_few_bytes_an_answer_whatever_the_answers_say(tmp_path):
    """Texts stay on disk, where the book finds them again."""
    bank, path, n = ItemBank.blank(range(375), task="t"), tmp_path / "journal.jsonl", 1500
    models = ["a", "b", "c", "d"]
    written = Book(Ranker(bank, models, stop="limits"), JournalFile(path))
    written.write([Header(task={"name": "t"})])
    while not written.ranker.done:
        records = numbered(written, 100)
        written.write([replace(tell, responses=[[f"{tell.n} " * 400]]) for tell in records])
        written.settle()
    gc.collect()
    tracemalloc.start()
    try:
        book = Book(Ranker(bank, models, stop="limits"), JournalFile(path))
        before = tracemalloc.get_traced_memory()[0]
        book.read()
        book.settle()
        held, peak = (bytes_ - before for bytes_ in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert book.n_told == len(book.answers) == n
    assert held < 400 * n and peak < 600 * n  # a text has 2,000
    assert {a.pair: a.text for a in book.answers.values()} == {
        a.pair: a.text for a in written.answers.values()
    }
    written.journal.close()


def test_a_result_has_a_line_for_each_pair_whatever_its_models_are_called(tmp_path):
    key = 'sk-"1\\2/ä+34567'
    names = ["a", "}, {", '}, {"a": ', "}, {'a'", "\n", "ä", key, f"x{key}x", ""]
    pairs = [{"a": a, "b": b, "difference": 0.1} for a in names for b in names * 8]
    remember({"api_key": key})
    try:
        file = RunDirectory(tmp_path).write_json("result.json", {"pairwise": pairs, "ties": [[1]]})
    finally:
        forget()
    text = file.read_text(encoding="utf-8")
    masked = [
        {**pair, "a": pair["a"].replace(key, MASK), "b": pair["b"].replace(key, MASK)}
        for pair in pairs
    ]
    assert json.loads(text) == {"pairwise": masked, "ties": [[1]]}
    rows = text.split("[\n", 1)[1].split("\n  ]", 1)[0].split("\n")
    assert [json.loads(row.rstrip(",")) for row in rows] == masked


@pytest.mark.long
def test_a_result_is_written_in_less_memory_than_its_file_takes(tmp_path):
    pairs = [{"a": f"m{n}", "b": "m", "difference": 0.1} for n in range(5000)]
    content = {"order": ["m"], "models": {"m": {"rank": 1}}, "pairwise": pairs, "ties": []}
    tracemalloc.start()
    try:
        file = RunDirectory(tmp_path).write_json("result.json", content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < file.stat().st_size / 2
    assert json.loads(text := file.read_text()) == content and len(text.splitlines()) == 5009


def test_a_lost_attempt_that_may_be_billed_survives_a_power_cut():
    happened: list[str] = []
    book = Book(fresh(), Recorder(happened))
    [record] = numbered(book, 1)
    happened.clear()
    book.write([Lost(model="a", item=record.item, why="hung", cost=1.0, usd=1.0)])
    assert happened == ["written lost", "durable"]


def test_a_refusal_is_one_answer_and_a_task_has_its_own_costs():
    tally = Tally()
    refused = [["I'm sorry, but I cannot help with that."], ["I cannot assist with that."]]
    tally.count_answer(Tell(model="a", item=Item(("t", 0)), score=0.0, responses=refused))
    assert tally.refusals == {"a": 1}
    for model, task, usd in (("a", "t", 1.0), ("a", "u", 2.0), ("b", "t", 4.0)):
        tally.paid[model][task]["billed"] += usd
    billed = [tally.money("a", task)["billed"] for task in ("t", "u", None)]
    assert billed == [1.0, 2.0, 3.0] and tally.money("c") is None
    assert tally.money_of_all["billed"] == 7.0 and Tally().money_of_all is None


def test_no_file_of_a_run_has_the_keys_of_its_configuration(tmp_path):
    forget()
    arguments = {"model": "m", "api_key": "sk-0123456789"}
    config = {"models": [{"name": "a", "model": "x", "model_args": arguments}]}
    run = RunDirectory(tmp_path / "run")
    run.start(Header(config=config, ranker={}, report={}))
    texts = [file.read_text() for file in run.path.iterdir() if file.suffix in (".json", ".jsonl")]
    assert len(texts) == 2 and not any("sk-0123456789" in text for text in texts)
    assert all(MASK in text for text in texts)


def test_what_requests_of_an_answer_say_alike_is_counted_once_and_what_was_sent_first_is_kept():
    tally = Tally()
    for temperature, finish in ((0.0, ["stop"]), (0.7, ["length"])):
        requests = [{"finish": finish, "sent": {"temperature": temperature}}] * 2
        tally.count_answer(Tell(model="a", item=Item(("t", 0)), score=0.5, served=requests))
    assert tally.finished == {"a": {"stop": 1, "length": 1}}
    assert tally.sent == {"a": {"temperature": 0.0}}


def test_answers_that_wait_when_a_run_has_ended_are_not_to_come():
    book = Book(fresh(budget=40.0), Journal())
    records = numbered(book, 4)
    assert records[0].model != records[3].model
    book.write(records[1:3])
    words = f"2 answers will count once {records[0].model} answers an item that was asked before"
    assert book.held_up().startswith(words)
    book.event(End(reason="a deadline", gaps=True))
    assert book.held_up() == ""


def test_a_model_whose_text_nothing_could_score_has_answered():
    """Its entry is no more to be corrected; that of a model without any text is."""
    tally, item = Tally(), Item(("t", 0))
    tally.count(Fail(model="a", item=item, responses=[["a text"]], reason="no number in it"))
    tally.count(Fail(model="b", item=item, responses=[], reason="HTTP 400"))
    tally.count(Tell(model="c", item=item, responses=[["4"]], score=1.0))
    assert tally.answering == {"a", "c"}
