"""Journals: whatever is cut off, what was written before is read back, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.journal import Journal, JournalFile
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.records import (
    RECORDS,
    VERSION,
    Asks,
    Change,
    Drop,
    Header,
    Interrupt,
    Item,
    NewerRecord,
    Record,
    Restore,
    Tell,
    record_of,
)

DROPS = st.lists(
    st.builds(Drop, model=st.text(max_size=30), reason=st.just(""), time=st.floats(0, 1)),
    min_size=1,
    max_size=8,
)
HEADER = Header()
TELL = Tell(
    model="m/ä\u202e\x00\ud800",
    item=Item(("task", 3)),
    score={"bleu": 0.1, "chrf": 1.0},
    cost=1e-300,
    tokens=Tokens(7, 2, "usage"),
    responses=[['", "sum": "00000000"}']],
)
ASK = Asks(pairs=[("m", Item(("", 1))), ("m", Item(("t", "x")))], draws=[None, 0.125], after=[0, 0])
NOTE = Interrupt()


@pytest.fixture(params=["in memory", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Opens one journal, empty at first, as another object each time."""
    lines: list[bytes] = []
    return lambda: JournalFile(tmp_path / "j") if request.param == "file" else Journal(lines)


def test_objects_of_one_journal_take_turns(opened):
    first, second = opened(), opened()
    assert list(first.read_new()) == [] and first.count == 0
    first.append([HEADER])
    first.append([TELL, ASK])
    first.make_durable()
    first.append([])
    assert list(first.read_new()) == [], "an object does not read what it appended itself"
    assert list(second.read_new()) == [HEADER, TELL, ASK], "another reads all, items as tuples"
    second.append([TELL])
    assert list(second.read_new()) == [] and list(first.read_new()) == [TELL]
    assert first.count == second.count == 4 and first.digest == second.digest
    first.append([NOTE])
    assert list(second.read_new()) == [NOTE]
    assert list(opened().read_new()) == [HEADER, TELL, ASK, TELL, NOTE]


@pytest.mark.parametrize("wrong", [float("nan"), object()])
def test_nothing_counts_of_what_cannot_be_read_back(opened, wrong):
    journal = opened()
    journal.append([HEADER])
    with pytest.raises((ValueError, TypeError)):
        journal.append([TELL, replace(TELL, score=wrong)])
    assert journal.count == 1 and list(opened().read_new()) == [HEADER]
    journal.close()
    with pytest.raises(RunError, match="is closed"):
        journal.append([TELL])


def test_the_identity_of_a_run_follows_its_changes(opened):
    header = Header(config={"budget": 1}, bank_sha256="x")
    writer, reader = opened(), opened()
    writer.append([header, Change(identity={"config": {"budget": 2}})])
    list(reader.read_new())
    for journal in (writer, reader):
        assert journal.header == header
        assert journal.identity == replace(header, config={"budget": 2})


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(records=DROPS, more=DROPS, data=st.data())
def test_cut_at_any_byte_it_goes_on(tmp_path_factory, records, more, data):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    first = JournalFile(path)
    first.append(records)
    first.close()
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    rest = data.draw(
        st.sampled_from([b"", b"x" * 2000])
    )  # as long as what is written next, or longer
    path.write_bytes(whole[:cut] + rest)
    kept = whole[:cut].count(b"\n")
    again = JournalFile(path)
    assert again.exists() == (kept > 0) and list(again.read_new()) == records[:kept]
    assert (again.torn is not None) == bool(rest or (cut and whole[cut - 1] != ord("\n")))
    again.append(more)
    again.make_durable()
    last = JournalFile(path)
    assert list(last.read_new()) == records[:kept] + more and last.torn is None


@settings(max_examples=60, deadline=None)
@given(records=DROPS, data=st.data())
def test_one_changed_byte_is_noticed(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("journal") / "j"
    JournalFile(path).append(records)
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 2))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    journal = JournalFile(path)
    with pytest.raises(RunError, match=r"line \d+"):
        list(journal.read_new())
    # It stands before the line that is damaged, so that what is sound is known.
    assert whole[: journal.size].count(b"\n") == journal.count == bytes(whole[:at]).count(b"\n")


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_only_the_owner_may_read_it(tmp_path):
    JournalFile(tmp_path / "j").append([NOTE])
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_records_are_forced_to_the_disk_until_it_takes_them(tmp_path, monkeypatch):
    synced: list[int] = []
    really, broken = os.fsync, [2]

    def sync(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)
        if broken[0] > 0:
            broken[0] -= 1
            raise OSError(5, "Input/output error")
        really(handle)

    journal = JournalFile(tmp_path / "j")
    journal.append([NOTE] * 3)
    monkeypatch.setattr(os, "fsync", sync)
    for _ in range(2):
        with pytest.raises(RunError, match="Input/output error"):
            journal.make_durable()
    journal.make_durable()
    journal.make_durable()  # nothing new to force
    assert synced == [(tmp_path / "j").stat().st_size] * 3


def test_a_disk_that_fills_up_leaves_what_was_whole(tmp_path, monkeypatch):
    journal = JournalFile(tmp_path / "j")
    journal.append([Header(task={"name": "a"})])
    whole = (tmp_path / "j").read_bytes()

    def half(stream: object, data: bytes) -> None:
        stream.write(data[: len(data) // 2])  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("lm_eval_ccat.journal._write_all", half)
        with pytest.raises(RunError, match=r"cannot write the journal .*No space left"):
            journal.append([Change(identity={"task": {"name": "b"}})])
    assert (tmp_path / "j").read_bytes() == whole and journal.count == 1
    assert journal.identity == journal.header and journal.header.task == {"name": "a"}
    journal.append([NOTE])
    journal.append([NOTE])
    assert list(JournalFile(tmp_path / "j").read_new()) == [Header(task={"name": "a"}), NOTE, NOTE]


def test_a_line_is_written_as_people_read_it():
    journal = Journal()
    journal.append([Restore(model="Bäume \u2713")])
    assert "Bäume \u2713".encode() in journal.lines[0]


def test_a_line_without_a_seal_is_refused():
    journal = Journal()
    journal.append([NOTE])
    journal.lines.append(b'{"seq": 1, "op": "interrupt"}')
    with pytest.raises(RunError, match="line 2 has no seal"):
        list(journal.read_new())


def test_a_sealed_line_cannot_be_taken_out_or_added():
    lines: list[bytes] = []
    Journal(lines).append([Restore(model=str(n)) for n in range(4)])
    forged: list[bytes] = []
    Journal(forged).append([Restore(model="9")])  # right in itself, before the others
    wrong = [("line 2 does not fit its seal", [*forged, *lines[1:]])]
    for n in range(3):
        wrong.append((f"line {n + 1} carries the number {n + 1}", lines[:n] + lines[n + 1 :]))
    for trouble, some in wrong:
        with pytest.raises(RunError, match=trouble):
            list(Journal(some).read_new())


def example_of(kind: str) -> Record:
    """A record with a value in every field."""
    values = {
        "tokens": Tokens(7, 2, "usage"), "item": Item(("t", 1)), "pairs": [("m", Item(("t", 1)))],
        "draws": [0.5], "after": 3, "n": 4, "version": VERSION, "score": 0.25, "raw": 25.0,
        "windows": {"m": 16}, "wire": {"m": 8}, "identity": {"config": {}},
    }  # fmt: skip
    by_type = {"bool": True, "float": 0.5, "int": 2, "list": ["x"], "dict": {"x": 1}}
    record = RECORDS[kind]
    return record(**{
        field.name: [3] if (kind, field.name) == ("ask", "after") else values.get(
            field.name, by_type.get(re.match(r"\w+", str(field.type))[0], "x")
        )
        for field in record.fields()
    })  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_read_as_it_was_written_with_every_field(opened, kind):
    record, header = example_of(kind), Header(report={"outcomes": {}})  # of several tasks
    opened().append([header, record])
    _, read = list(opened().read_new())
    assert read == record and read.kind == kind
    assert read.to_json().keys() == {"op", *(field.name for field in record.fields())}


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ({"op": "merge"}, NewerRecord, "a record 'merge' that this version does not know"),
        ({"model": "m"}, NewerRecord, "a record None that this version does not know"),
        ({"op": "restore", "model": "m", "by": "x"}, NewerRecord, "'restore' with 'by', which"),
        ({"op": "drop", "model": "m"}, RunError, "a record 'drop' without 'reason'"),
    ],
)
def test_a_record_that_this_version_does_not_know_is_refused(line, error, words):
    with pytest.raises(RunError, match=words) as refused:
        record_of(line, where="the journal")
    assert type(refused.value) is error
