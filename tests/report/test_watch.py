"""The page of a run that goes on: it is written again, and loads itself again."""

from __future__ import annotations

import time

import pytest
from synthetic import make_run

from lm_eval_ccat.report import LivePage, page, read_run, stored_run, write_report

LIMIT = 120.0


def until(condition) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.long
def test_a_page_follows_a_run_and_loads_itself_again_only_while_it_goes_on(tmp_path) -> None:
    usual = {"n_models": 2, "n_items": 40, "budget": 30, "hostile": False, "n_calibration": 6}
    away, folder = make_run(tmp_path / "later", **usual), tmp_path / "run"
    result = (away / "result.json").read_bytes()
    (away / "result.json").unlink()
    with LivePage(folder, seconds=0.05):  # which has not begun
        away.rename(folder)
        until((folder / "report.html").exists)
    assert "data-refresh" in (folder / "report.html").read_text("utf-8")
    assert not read_run(folder).finished
    live = write_report(folder, refresh=7).read_text("utf-8")
    assert '<noscript><meta http-equiv="refresh" content="7"></noscript>' in live
    assert 'data-refresh="7"' in live
    (folder / "result.json").write_bytes(result)
    done = write_report(folder, refresh=7).read_text("utf-8")
    assert "refresh" not in done.split("<script")[0]


@pytest.mark.long
def test_a_run_that_goes_on_while_it_is_read_has_its_course(tmp_path, monkeypatch) -> None:
    usual = {"n_models": 2, "n_items": 40, "budget": 30, "hostile": False, "n_calibration": 6}
    folder = make_run(tmp_path / "run", **usual)
    (folder / "result.json").unlink()
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-12]))
    is_of_journal = stored_run.is_of_journal

    def growing(*read):
        known = is_of_journal(*read)
        journal.write_bytes(b"".join(lines))
        return known

    monkeypatch.setattr(stored_run, "is_of_journal", growing)
    run = read_run(folder)
    assert stored_run.replayed_course(run) is not None
    assert run.n_lines == len(lines) - 12


@pytest.mark.long
def test_a_page_that_cannot_be_written_is_rendered_as_seldom_as_one_that_can(tmp_path, monkeypatch):
    usual = {"n_models": 2, "n_items": 40, "budget": 30, "hostile": False, "n_calibration": 6}
    folder = make_run(tmp_path / "run", **usual)
    (folder / "report.html").unlink(missing_ok=True)
    (folder / "report.html").mkdir()
    rendered, pauses, live = [], [], LivePage(folder, seconds=77.0)
    render = page.render
    monkeypatch.setattr(page, "render", lambda *args: rendered.append(1) or render(*args))

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 3

    monkeypatch.setattr(live._stop, "wait", wait)
    live._follow()
    assert len(rendered) == 2 and pauses == [1.0, 77.0, 77.0]
