"""Runs that are copied to an object store, here to fsspec's own in memory."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest

from lm_eval_ccat import rank
from lm_eval_ccat.errors import RunError, UsageError
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.runs import directory
from lm_eval_ccat.runs.book import Book
from lm_eval_ccat.runs.directory import RunDirectory

URL = "memory://bucket/models.run"
FAR = "/bucket/models.run"
TWO = ["m03", "m09"]
MEMORY = fsspec.filesystem("memory")
HERE = Path("models.run/journal.jsonl")


class Stopping(Observer):
    """Stops a run once the store has some of its answers; keeps what is warned of."""

    def __init__(self, stops: bool) -> None:
        self.stops, self.warnings = stops, []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def begin(self, plan: object, book: Book) -> None:
        self.book = book

    def tick(self) -> None:
        if self.stops and sum(self.book.tally.answered.values()):
            while not MEMORY.exists(f"{FAR}/journal.jsonl"):
                time.sleep(0.01)  # it is copied while the run lasts
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(directory, "COPY_SECONDS", 0.02)
    monkeypatch.setattr("lm_eval_ccat.live.sender.TICK", 0.0)
    MEMORY.store.clear()


def lay(far: str, here: str) -> None:
    """Write a journal, and a bank, to the store and to the folder."""
    if far:
        MEMORY.pipe({f"{FAR}/journal.jsonl": far.encode(), f"{FAR}/banks/all.json": b"{}"})
    if here:
        HERE.parent.mkdir()
        HERE.write_text(here)


def journals() -> tuple[str, str]:
    """What the store and the folder hold."""
    far = f"{FAR}/journal.jsonl"
    return (
        MEMORY.cat(far).decode() if MEMORY.exists(far) else "",
        HERE.read_text() if HERE.exists() else "",
    )


def test_a_run_goes_on_from_the_store_on_another_machine(bench, server):
    config = bench.config(server.url, TWO, max_items=20, stop="limits")
    assert rank(config, run_dir=URL, observer=Stopping(True)).interrupted
    shutil.rmtree("models.run")  # the machine is gone
    with pytest.raises(RunError, match=r"holds a run; continue it with --resume"):
        rank(config, run_dir=URL)
    asked = sum(server.asked.values())
    result = rank(config, run_dir=URL, resume=True)
    assert 0 < asked < 40 and sum(server.asked.values()) <= 40 + 2 * 8  # what was on the wire
    assert {len(items) for items in result.ranking.items.values()} == {20}
    files = [p for p in Path("models.run").rglob("*") if p.is_file() and p.suffix != ".lock"]
    here = {p.relative_to("models.run").as_posix(): p.read_bytes() for p in files}
    far = MEMORY.find(FAR)
    assert {name.split("models.run/")[1]: MEMORY.cat(name) for name in far} == here


def test_a_store_that_fails_stops_no_run(bench, server, monkeypatch):
    monkeypatch.setattr(type(MEMORY), "put_file", Mock(side_effect=RuntimeError("no such bucket")))
    watcher = Stopping(False)
    rank(bench.config(server.url, TWO, max_items=20), run_dir=URL, observer=watcher)
    [said] = [text for text in watcher.warnings if "cannot copy" in text]
    assert "no such bucket" in said and (Path("models.run") / "result.json").is_file()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *((url, "a name is missing") for url in ("memory://", "memory:///", "s3://bucket/./")),
        ("s3://bucket/..", "a name is missing"),
        ("nowhere://a/b", "nowhere"),
    ],
)
def test_a_url_needs_a_name_and_a_store(url, said):
    with pytest.raises(UsageError, match=said), directory.stored(url, False, print):
        pass
    with pytest.raises(UsageError, match="only `rank` copies a run to an object store"):
        RunDirectory(url)


@pytest.mark.parametrize(
    ("far", "here", "fetched"),
    [
        ("1\n2\n3\n", "1\n2\n", "1\n2\n3\n"),  # another machine went on
        ("1\n2\n3\n", "1\n2", "1\n2\n3\n"),  # and this one had crashed
        ("1\n2", "1\n2\n3\n", "1\n2\n3\n"),  # this machine crashed between two copies
        ("1\n9", "1\n2\n3\n", "1\n2\n3\n"),  # and a line was copied in part
        ("1\n", "", "1\n"),
    ],
)
def test_the_longer_journal_of_a_run_goes_on(far, here, fetched):
    lay(far, here)
    with directory.stored(URL, True, print):
        assert HERE.read_text() == fetched
    assert journals() == (far, fetched), "nothing went on, so nothing is copied"
    with directory.stored(URL, True, print), HERE.open("a") as journal:
        journal.write("4\n")
    assert journals() == (fetched + "4\n",) * 2
    assert not Path("models.run.part").exists()


@pytest.mark.parametrize(
    ("far", "here", "resume", "said"),
    [
        ("1\n2\n", "1\n3\n", True, r"models\.run holds another run than .*move the folder"),
        ("", "1\n", False, r"the folder .*models\.run holds a run; .* move the folder away"),
        ("1\n", "2\n", False, r"memory://bucket/models\.run holds a run"),
    ],
)
def test_a_folder_of_another_run_never_reaches_the_store(far, here, resume, said):
    lay(far, here)
    with pytest.raises(RunError, match=said), directory.stored(URL, resume, print):
        pass
    assert journals() == (far, here)


def test_a_run_that_is_refused_is_not_copied():
    lay("", "1\n")
    with pytest.raises(RunError), directory.stored(URL, True, print):
        time.sleep(0.1)
        raise RunError("other models")
    assert not MEMORY.find("/")


def test_a_fetch_that_is_stopped_leaves_no_run(monkeypatch):
    lay("1\n2\n", "")
    real = type(MEMORY).get_file

    def half(self: object, far: str, here: str, **known: object) -> None:
        real(self, far, here, **known)
        if here.endswith("journal.jsonl.part"):
            Path(here).write_text("1\n")
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(MEMORY), "get_file", half)
        with pytest.raises(KeyboardInterrupt), directory.stored(URL, True, print):
            pass
    assert journals() == ("1\n2\n", "")
    with directory.stored(URL, True, print) as folder:
        assert (folder / "banks" / "all.json").read_text() == "{}"
    assert journals() == ("1\n2\n",) * 2


def test_a_store_that_cannot_be_read_is_said(monkeypatch):
    monkeypatch.setattr(type(MEMORY), "exists", Mock(side_effect=RuntimeError("no credentials")))
    said = r"memory://bucket/models\.run: cannot read the store \(no credentials\)"
    with pytest.raises(RunError, match=said), directory.stored(URL, False, print):
        pass


def test_folders_are_made_where_a_store_needs_them(tmp_path):
    url = f"file://{tmp_path}/far/runs/models.run"
    warnings: list[str] = []
    with directory.stored(url, False, warnings.append):
        lay("", "1\n")
        Path("models.run/banks").mkdir()
        Path("models.run/banks/all.json").write_text("{}")
    far = tmp_path / "far" / "runs" / "models.run"
    assert {p.name for p in far.rglob("*.json*")} == {"journal.jsonl", "all.json"} and not warnings
