"""The journal file: whatever is cut off, what was written before is read back."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.harness.prices import Price, Tokens, estimate_tokens
from lm_eval_ccat.live.config import FailureRule, parse_config
from lm_eval_ccat.live.failures import Verdict, attempts_for, http_status, judge, pause
from lm_eval_ccat.runs.journal import JournalFile, MemoryJournal
from lm_eval_ccat.testing.journal import check_journal

TEXTS = st.text(max_size=30)
RECORDS = st.lists(
    st.fixed_dictionaries({"op": st.just("note"), "text": TEXTS, "number": st.floats(0, 1)}),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, more=RECORDS, data=st.data())
def test_cut_at_any_byte_it_goes_on(
    tmp_path_factory: pytest.TempPathFactory, records: list, more: list, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    first = JournalFile(path)
    first.append(records)
    first.close()
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    again = JournalFile(path)
    assert again.read_new() == records[:kept]
    assert (again.torn is not None) == (cut > 0 and whole[cut - 1 : cut] != b"\n")
    again.append(more)
    again.make_durable()
    assert JournalFile(path).read_new() == records[:kept] + more


def test_two_readers_see_each_other_s_records(tmp_path: Path) -> None:
    a, b = JournalFile(tmp_path / "j"), JournalFile(tmp_path / "j")
    a.append([{"op": "note", "of": "a"}])
    assert [r["of"] for r in b.read_new()] == ["a"]
    b.append([{"op": "note", "of": "b"}])
    assert [r["of"] for r in a.read_new()] == ["b"]
    a.append([{"op": "note", "of": "a"}])
    assert [r["of"] for r in JournalFile(tmp_path / "j").read_new()] == ["a", "b", "a"]


def test_a_line_that_is_missing_is_noticed(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "j")
    journal.append([{"op": "note"}] * 5)
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(RunError, match="line 3 carries the number 3"):
        JournalFile(tmp_path / "j").read_new()


def test_a_journal_that_was_closed_takes_nothing_more(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "j")
    journal.append([{"op": "note"}])
    journal.close()
    with pytest.raises(RunError, match="the run has ended"):
        journal.append([{"op": "note"}])


def test_a_header_torn_by_a_crash_is_no_ranking(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"seq": 0, "op": "hea')
    assert not JournalFile(tmp_path / "j").exists()


def test_journals_keep_what_the_rest_relies_on(tmp_path: Path) -> None:
    check_journal(lambda: JournalFile(tmp_path / "j"))
    lines: list[bytes] = []
    check_journal(lambda: MemoryJournal(lines))


class ForgetfulJournal(MemoryJournal):
    def read_new(self) -> list:
        records = super().read_new()
        return [{**r, "item": list(r["item"])} if "item" in r else r for r in records]


def test_the_suite_for_journals_notices_a_wrong_one() -> None:
    lines: list[bytes] = []
    with pytest.raises(AssertionError, match="items as tuples"):
        check_journal(lambda: ForgetfulJournal(lines))


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, data=st.data())
def test_one_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, records: list, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    JournalFile(path).append(records)
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 2))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.raises(RunError, match=r"line \d+"):
        JournalFile(path).read_new()


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    JournalFile(tmp_path / "j").append([{"op": "note"}])
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_records_are_forced_to_the_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    really = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), really(fd)))
    journal = JournalFile(tmp_path / "j")
    journal.append([{"op": "note"}] * 3)
    journal.make_durable()
    assert synced[-1] == (tmp_path / "j").stat().st_size
    before = len(synced)
    journal.make_durable()
    assert len(synced) == before  # nothing new to force


class Answered(Exception):
    def __init__(self, status: int, headers: dict | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers or {}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(429, Verdict.AWAY), (500, Verdict.RETRY), (503, Verdict.AWAY), (408, Verdict.RETRY),
     (400, Verdict.DOCUMENT), (413, Verdict.DOCUMENT), (401, Verdict.MODEL), (404, Verdict.MODEL)],
)  # fmt: skip
def test_what_an_http_status_means(status: int, verdict: Verdict) -> None:
    try:
        try:
            raise Answered(status)
        except Answered as inner:
            raise RuntimeError("wrapped by a client") from inner
    except RuntimeError as error:
        assert http_status(error) == status
        assert judge(error) is verdict


def test_waiting_grows_is_bounded_and_listens_to_the_server() -> None:
    rule = FailureRule(backoff=1.0, max_backoff=10.0)
    assert [pause(rule, n, TimeoutError()) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 10]
    assert pause(rule, 1, Answered(429, {"Retry-After": "6"})) == 6
    assert pause(rule, 1, Answered(429, {"Retry-After": "600"})) == 600
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    assert 90 < pause(rule, 1, Answered(429, {"Retry-After": soon})) <= 100


def test_errors_of_code_are_not_paid_for_again_and_again() -> None:
    rule = FailureRule(attempts=6)
    assert attempts_for(rule, KeyError("choices")) == 2
    for error in (ConnectionResetError(), TimeoutError(), Answered(503),
                  json.JSONDecodeError("x", "y", 0)):  # fmt: skip
        assert attempts_for(rule, error) == 6


def test_prices_add_up() -> None:
    tokens = Tokens(1000, 200, "usage")
    assert Price(input=2.0, output=8.0).cost(tokens, 0.0) == pytest.approx(0.0036)
    assert Price(item=0.5, hour=3600.0).cost(None, 2.0) == pytest.approx(2.5)
    assert not Price().known
    assert (tokens + Tokens(1, 1, "estimate")).source == "estimate"


@given(st.text(max_size=200))
def test_estimated_tokens_are_sensible(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= len(text)
    assert estimate_tokens(text + "word") > estimate_tokens(text)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["confidence", "budget", "warmup", "models", "failures", "harness", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
def test_no_configuration_makes_more_than_a_usage_error(content: dict) -> None:
    from lm_eval_ccat.errors import UsageError

    try:
        parse_config({"task": "t", "bank": "b", **content})
    except UsageError as error:
        assert "`" in str(error)
    else:
        json.dumps(content)
