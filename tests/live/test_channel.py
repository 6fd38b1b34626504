"""What a model's channel makes of a result: slots, attempts, second answers, and its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.harness.transport import ServerError
from lm_eval_ccat.live.channel import FEWEST_TRIED, Channel, Sending
from lm_eval_ccat.live.charges import Charge
from lm_eval_ccat.live.failures import Failure, State
from lm_eval_ccat.live.models import Answer, ToRate
from lm_eval_ccat.live.sender import Returned, Sender
from lm_eval_ccat.live.spec import FailureRule
from lm_eval_ccat.records import Item, Lost, Tell, Unrated
from lm_eval_ccat.runs.book import LEFT, TOLD, Ask


@pytest.mark.parametrize(
    ("failed", "answered", "leaves"), [(5, 5, False), (6, 4, True), (4, 5, False), (9, 0, False)]
)
def test_a_model_leaves_when_more_than_the_stated_share_of_ten_documents_failed(
    failed, answered, leaves
):
    tally = SimpleNamespace(failures={"a": range(failed)}, answered={"a": answered}, set_aside={})
    aside: list[str] = []
    line: Any = SimpleNamespace(
        book=SimpleNamespace(tally=tally, unanswered=[]),
        away=set(),
        set_aside=lambda name, reason, back: aside.append(name),
    )
    spec = SimpleNamespace(failures=FailureRule(share=0.5))
    model: Any = SimpleNamespace(name="a", title="a")
    plan: Any = SimpleNamespace(spec=spec, most_repeats=1)
    Channel(model, plan, line)._set_aside_if(False, "refused")
    assert aside == ["a"] * leaves


ITEMS = [Item(("t", number)) for number in range(20)]
BUSY, REFUSED, MALFORMED = (
    ServerError("status", "no", status=status) for status in (500, 403, 400)
)


def channel(**of_model: Any) -> Any:
    """The channel of a model whose line notes what arrives, and who is set aside."""
    tally = SimpleNamespace(failures={}, answered={}, set_aside={})
    book = SimpleNamespace(
        tally=tally, unanswered=[], n_told=0, has=lambda pair: False, unrated={},
        journal=SimpleNamespace(item_to_json=lambda item: item[1]),
    )  # fmt: skip
    line: Any = SimpleNamespace(
        book=book,
        away=set(),
        arrival=False,
        aside=[],
        arrived=[],
        record_lost=lambda record: None,
        put_back=list,
    )
    line.arrive = line.arrived.extend
    line.set_aside = lambda name, reason, back: line.aside.append(reason)
    charges = SimpleNamespace(
        charge=lambda *_, **__: Charge(1.0, 0.5), of_lost_attempt=lambda *_: Charge(0.0, None)
    )
    spec = SimpleNamespace(failures=FailureRule())
    plan: Any = SimpleNamespace(spec=spec, charges=charges, most_repeats=1)
    model: Any = SimpleNamespace(name="a", title="a", slots=4, scoring=set(), remote=True)
    model.__dict__.update(of_model)
    return Channel(model, plan, line)


def call(*numbers: int, **about: Any) -> Sending:
    return Sending([Ask(number, "a", ITEMS[number]) for number in numbers], **about)


def test_a_slot_is_taken_by_calls_that_wait_for_the_model_and_by_no_other():
    made = channel(scoring={ITEMS[1]})
    made.wire += [call(0), call(1), call(2, extra=True)]
    assert made.free_slots == 3
    made.model.scoring.clear()  # it was scored, and another takes the slot
    assert made.free_slots == 2


def test_a_server_is_silent_if_a_second_request_gets_no_answer_either():
    made = channel()
    made.sent(call(0), 0.0)
    assert not made.silent(1000.0)  # a single answer may take that long
    made.sent(call(0, extra=True), 30.0)
    assert not made.silent(59.0) and made.silent(61.0)
    made.model.scoring.add(ITEMS[1])
    assert not made.silent(61.0)


def test_breaks_of_the_run_delay_what_a_server_is_taken_for_by_their_own_length():
    """However often the run is busy, a server that never answers is silent in the end."""
    made, first = channel(), call(0)
    made.sent(first, 0.0)
    made.sent(call(0, extra=True), 30.0)
    late = made.resend_at(first)
    for second in range(31, 51):
        made.note_break(second, second + 0.5)  # ten seconds in all
    assert made.resend_at(first) == late + 10.0
    assert not made.silent(69.0) and made.silent(71.0)
    made.note_break(71.0, 4000.0)
    assert made.silent(4000.0)


def test_failures_of_a_judge_are_in_a_row_if_no_answer_was_scored_between_them():
    made = channel()
    lost = Answer(item=ITEMS[0], score=None, unscored=("no rating",))
    scored = Answer(item=ITEMS[1], score=0.5)
    most = made.failure_rule.in_a_row
    made.count_unscored([*[lost] * (most - 1), scored, *[lost] * (most - 1)])
    assert not made.line.aside
    made.count_unscored([lost])
    assert made.line.aside == [f"{most} documents failed in a row; last: no rating"]
    # Of a model that has scores, a few in a row are chance.
    scored_before = channel()
    scored_before.book.tally.answered[scored_before.name] = 30
    scored_before.count_unscored([lost] * (FEWEST_TRIED - 1))
    assert not scored_before.line.aside
    scored_before.count_unscored([lost])
    assert scored_before.line.aside


def test_what_a_judge_leaves_out_is_warned_of_once_a_model_and_always_in_the_log(caplog):
    made = channel()
    caplog.set_level("INFO")
    answers = [Answer(item=item, score=0.5, unscored=("no rating",)) for item in ITEMS[:3]]
    made.count_unscored(answers[:2])
    made.count_unscored(answers[2:])
    levels = [(record.levelname, record.args[1]) for record in caplog.records]
    assert levels == [("WARNING", 0), ("INFO", 1), ("INFO", 2)]


def test_an_attempt_waits_for_its_time_and_no_other_attempt():
    made, late, soon = channel(), call(0), call(1)
    made.retries += [(9.0, late), (5.0, soon)]
    assert made.take_due(4.9) is None
    assert made.take_due(5.0) is soon and made.take_due(8.9) is None
    assert made.take_due(9.0) is late and not made.retries


def failing_for_good() -> Any:
    """A channel of a server that answers, but for three documents at no attempt."""
    made = channel()
    for number in range(3):
        sending = call(number, sent=1.0)
        for attempt in range(1, made.failure_rule.attempts + 1):
            sending.sent = 10.0 * number + attempt
            made.answered(call(9, sent=sending.sent + 0.5), sending.sent + 0.6)
            made.failed(sending, BUSY, sending.sent + 0.7)
            sending = made.retries.pop()[1] if made.retries else sending
    assert [failed.attempts for failed in made.line.arrived] == [made.failure_rule.attempts] * 3
    made.line.arrived.clear()
    made.failed(call(5, sent=100.0), BUSY, 100.1)
    return made


def test_a_document_that_fails_like_others_before_is_tried_once_more_and_holds_up_nobody():
    made = failing_for_good()
    assert made.kept_slots == 0  # others may go ahead
    made.answered(call(6, sent=100.0), 100.2)  # sent before it failed, so it says nothing
    assert made.take_due(100.2) is None
    made.answered(call(7, sent=100.15), 100.3)
    again = made.take_due(100.3)
    made.sent(again, 100.3)
    made.failed(again, BUSY, 100.4)
    [failed] = made.line.arrived
    assert (failed.item, failed.attempts) == (ITEMS[5], 2) and not made.retries


@pytest.mark.parametrize("helped", [False, True])
def test_a_document_gets_all_attempts_unless_the_server_answers_others_and_no_attempt_helped(
    helped,
):
    """A server that is down, or that now and then answers at a further attempt."""
    made = failing_for_good()
    if helped:
        made.answered(call(8, sent=100.05, attempt=2), 100.2)
        made.answered(call(7, sent=100.15), 100.3)
        assert made.kept_slots == 1
    assert made.take_due(100.9) is None
    again = made.take_due(101.1)
    made.sent(again, 101.1)
    made.failed(again, BUSY, 101.2)
    [(_, further)] = made.retries
    assert further.attempt == 3 and not made.line.arrived


@pytest.mark.parametrize("waits", [False, True])
def test_an_ask_of_two_calls_is_left_to_the_other_which_counts_its_attempts_on(waits):
    made, failed, unrelated = channel(), call(0, 1, 2, 3, attempt=3), call(9)
    [first, second, told, left] = failed.asks
    told.state, left.state = TOLD, LEFT
    other = Sending([second], extra=True)
    made.wire += [failed, unrelated] if waits else [failed, unrelated, other]
    made.retries += [(9.0, other)] if waits else []
    assert made._asks_left_to(failed) == [first, left]
    assert (failed.attempt, other.attempt, unrelated.attempt) == (3, 4, 1)
    assert made._asks_left_to(failed) == [first, left] and other.attempt == 4


def test_a_second_answer_is_paid_and_does_not_count():
    made = channel()
    told = {("a", ITEMS[1])}
    made.book.has = lambda pair: pair in told
    answers = [Answer(item=item, score=0.5) for item in ITEMS[:3]]
    found = made.records(call(0, 1, 2), answers, {("a", ITEMS[2])})
    assert [type(record) for record in found] == [Tell, Lost, Lost]
    assert [record.cost for record in found] == [1.0] * 3
    assert {record.why for record in found[1:]} == {"second answer"}


@pytest.mark.parametrize(("status", "given_up"), [(429, 0), (500, 1)])
def test_an_item_that_fails_alone_is_given_up_but_for_the_rate_of_its_server(status, given_up):
    made = channel()
    refused, answered = call(0, attempt=made.failure_rule.attempts), call(1)
    made.sent(refused, 1.0)
    made.sent(answered, 2.0)
    made.wire.clear()
    made.answered(answered, 3.0)
    made.failed(refused, ServerError("status", "no", status=status), 4.0)
    assert len(made.line.arrived) == given_up and not made.line.aside


def test_documents_of_a_batch_that_fails_are_tried_one_by_one():
    made = channel()
    made.failed(call(0, 1, 2), MALFORMED, 1.0)
    assert [[ask.number for ask in sending.asks] for _, sending in made.retries] == [[0], [1], [2]]
    assert not made.line.arrived and not made.line.aside
    made.retries.clear()
    made.failed(call(1), MALFORMED, 2.0)
    [failed] = made.line.arrived
    assert (failed.item, failed.reason) == (ITEMS[1], "no")


def test_who_has_answered_is_tried_again_when_it_is_refused_once():
    for has_answered in (False, True):
        made = channel()
        if has_answered:
            made.answered(call(3, sent=1.0), 2.0)
        made.failed(call(0), REFUSED, 3.0)
        assert bool(made.line.aside) == (not has_answered)
        if not has_answered:
            continue
        for attempt in range(2, made.failure_rule.attempts + 1):
            [(_, again)] = made.retries
            assert again.attempt == attempt and not made.line.aside
            made.retries.clear()
            made.failed(again, REFUSED, 10.0 * attempt)
        assert made.line.aside == ["no"]


def test_documents_that_fail_with_no_answer_between_them_mean_that_the_server_is_away():
    for sent, answered, away in (
        (1.0, None, True),
        (1.0, 0.5, True),  # what was sent before them says nothing
        (1.0, 2.0, False),  # a later request was answered: they fail alone
    ):
        made = channel()
        if answered is not None:
            made.answered(call(9, sent=answered), 5.0)
        for number in range(made.failure_rule.in_a_row):
            assert made.availability.state is State.OPEN
            made.failed(call(number, sent=sent), BUSY, 6.0)
        assert (made.availability.state is State.WAITING) == away
        assert len(made.retries) == (
            0 if away else made.failure_rule.in_a_row
        )  # else each by itself


def test_a_server_that_is_back_gets_few_requests_at_once():
    made = channel()
    for number in range(20):
        made.answered(call(number, sent=1.0), 2.0)
    assert not made.pace.wait(2.0, in_flight=20)
    for number in range(3):
        made.failed(call(number, sent=2.0), BUSY, 3.0)
    assert made.availability.admit(9.0)
    made.answered(call(0, sent=9.0), 9.5)
    assert not made.pace.wait(9.5, in_flight=2) and made.pace.wait(9.5, in_flight=3)


def test_all_of_128_slots_are_in_use_after_the_first_answer():
    made = channel()
    made.availability.require_probe()
    assert made.availability.admit(1.0) and not made.availability.admit(1.0)
    made.answered(call(0, sent=1.0), 2.0)
    assert made.availability.admit(2.0) and not made.pace.wait(2.0, in_flight=127)


def test_a_document_that_a_full_run_needs_ends_it():
    ask = Ask(-1, "a", ITEMS[0])
    with pytest.raises(RunError, match="does not answer document 0, which a full run needs: no"):
        channel().failed(Sending([ask]), MALFORMED, 1.0)


def test_two_requests_for_one_document_have_no_more_attempts_than_one():
    """One that fails leaves the document to the other, which is then the next attempt."""
    made, ask = channel(), Ask(0, "a", ITEMS[0])
    failing = Sending([ask])
    for attempt in range(2, made.failure_rule.attempts + 1):
        twin = Sending([ask], extra=True)
        made.wire[:] = [twin]
        made.failed(failing, BUSY, float(attempt))
        assert not made.retries and twin.attempt == attempt
        failing = twin
    made.wire.clear()
    made.failed(failing, BUSY, 99.0)
    [failed] = made.line.arrived
    assert failed.attempts == made.failure_rule.attempts and not made.retries


def test_a_second_request_waits_as_long_as_usual_answers_take_by_now():
    made = channel()
    made.answered(call(0, sent=0.0), 100.0)
    assert made.median == 100.0
    first = made.resend_at(call(3, sent=0.0))
    for number in (1, 2):
        made.answered(call(number, sent=100.0), 900.0)
    assert made.median == 800.0 and made.resend_at(call(3, sent=0.0)) == pytest.approx(8 * first)


def test_a_server_that_is_away_is_told_of_once_a_minute(caplog):
    """It is probed every five seconds."""
    made, sending = channel(), call(0)
    failure = Failure(ServerError("connection", "refused"))
    with caplog.at_level("WARNING"):
        for second in range(0, 200, 5):
            made.availability.state = State.PROBING if second else State.OPEN
            probe = {"asks": sending.asks, "failure": failure, "sending": sending}
            made._note_outage(SimpleNamespace(**probe, moment=float(second)))
    first, *later = (record.getMessage() for record in caplog.records)
    assert first == "a does not answer (refused); it is asked again for up to 15 min"
    assert later == [f"a has not answered for {n} of 15 min" for n in (1, 2, 3)]


@pytest.mark.parametrize(("judged", "cause"), [(True, "a judge away"), (False, "machine busy")])
def test_a_slow_score_is_put_down_to_a_judge_only_where_there_is_one(judged, cause, caplog):
    channel(is_judged=judged).warn_of_scoring(call(0), 1000.0)
    assert cause in caplog.text


def test_of_two_answers_to_an_ask_that_arrive_together_one_waits_for_its_judge():
    made = channel()
    calls = [call(1), call(1, extra=True)]
    returned = [Returned(made, sending, ToRate([Answer(ITEMS[1], None)])) for sending in calls]
    sender: Any = SimpleNamespace(_returned=lambda timeout: returned)
    [record] = Sender._arrived(sender, 0.0).records
    assert isinstance(record, Unrated)
    # Both are rated then: the first counts, and the second is paid, too.
    made.wire += calls
    rated = [Returned(made, sending, [Answer(ITEMS[1], 0.5)]) for sending in calls]
    sender._returned = lambda timeout: rated
    assert [type(record) for record in Sender._arrived(sender, 0.0).records] == [Tell, Lost]
