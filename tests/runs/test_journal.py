"""The journal file: whatever is cut off, what was written before is read back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conformance import check_journal
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.runs.journal import Journal, JournalFile

TEXTS = st.text(max_size=30)
RECORDS = st.lists(
    st.fixed_dictionaries({"op": st.just("note"), "text": TEXTS, "number": st.floats(0, 1)}),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, more=RECORDS, data=st.data())
def test_cut_at_any_byte_it_goes_on(tmp_path_factory, records, more, data):
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


def test_a_line_that_is_missing_is_noticed(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "j")
    journal.append([{"op": "note"}] * 5)
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(RunError, match="line 3 carries the number 3"):
        JournalFile(tmp_path / "j").read_new()


def test_a_header_torn_by_a_crash_is_no_ranking(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"seq": 0, "op": "hea')
    assert not JournalFile(tmp_path / "j").exists()


def test_journals_keep_what_the_rest_relies_on(tmp_path: Path) -> None:
    check_journal(lambda: JournalFile(tmp_path / "j"))
    lines: list[bytes] = []
    check_journal(lambda: Journal(lines))


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, data=st.data())
def test_one_changed_byte_is_noticed(tmp_path_factory, records, data):
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


def test_records_are_forced_to_the_disk_before_they_count(tmp_path, monkeypatch):
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


def test_a_disk_that_fills_up_leaves_what_was_whole(tmp_path, monkeypatch):
    journal = JournalFile(tmp_path / "j")
    journal.append([{"op": "note", "n": 1}])
    whole = (tmp_path / "j").read_bytes()

    def half(stream: object, data: bytes) -> None:
        stream.write(data[: len(data) // 2])  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("lm_eval_ccat.runs.journal._write_all", half)
        with pytest.raises(RunError, match=r"cannot write the journal .*No space left"):
            journal.append([{"op": "note", "n": 2}])
    assert (tmp_path / "j").read_bytes() == whole and journal.count == 1
    journal.append([{"op": "note", "n": 3}])
    assert [r["n"] for r in JournalFile(tmp_path / "j").read_new()] == [1, 3]


def test_a_disk_that_refuses_to_sync_is_asked_again(tmp_path, monkeypatch):
    journal = JournalFile(tmp_path / "journal.jsonl")
    journal.append([{"op": "header"}])
    asked = []

    def refuse(handle: int) -> None:
        asked.append(handle)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    for n in (1, 2):
        with pytest.raises(RunError, match="Input/output error"):
            journal.make_durable()
        assert len(asked) == n
    monkeypatch.setattr(os, "fsync", asked.append)
    journal.make_durable()
    journal.make_durable()
    assert len(asked) == 3


def test_a_line_is_written_as_people_read_it() -> None:
    journal = Journal()
    journal.append([{"op": "note", "text": "Bäume \u2713"}])
    assert "Bäume \u2713".encode() in journal.lines[0]


def test_no_line_without_a_seal_follows_one_that_this_version_wrote() -> None:
    header, old = b'{"seq": 0, "op": "header", "version": 1}', b'{"seq": 1, "op": "note"}'
    journal = Journal([header, old])
    assert [r["op"] for r in journal.read_new()] == ["header", "note"]
    journal.append([{"op": "note"}])
    journal.lines.append(b'{"seq": 3, "op": "note"}')
    with pytest.raises(RunError, match="line 4 has no seal"):
        journal.read_new()


def test_a_sealed_line_cannot_be_changed_taken_out_or_added() -> None:
    lines: list[bytes] = []
    Journal(lines).append([{"op": "note", "n": n} for n in range(4)])
    for n in range(4):
        changed = [*lines]
        changed[n] = lines[n].replace(b'"n": %d' % n, b'"n": 9')
        with pytest.raises(RunError, match=f"line {n + 1} does not fit its seal"):
            Journal(changed).read_new()
        if n < 3:
            with pytest.raises(RunError):
                Journal(lines[:n] + lines[n + 1 :]).read_new()
    forged: list[bytes] = []
    Journal(forged).append([{"op": "note", "n": 9}])  # right in itself, before the others
    with pytest.raises(RunError, match="line 2 does not fit its seal"):
        Journal([*forged, *lines[1:]]).read_new()
