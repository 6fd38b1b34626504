"""The page of a run that goes on: it is written again, and loads itself again."""

from __future__ import annotations

import time

import pytest
from synthetic import make_run

from lm_eval_ccat.report import LivePage, read_run, write_report

LIMIT = 120.0


def until(condition) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def going(tmp_path):
    """A run without its result, and that result."""
    folder = make_run(
        tmp_path / "run", n_models=2, n_items=40, budget=30, hostile=False, n_calibration=6
    )
    result = (folder / "result.json").read_bytes()
    (folder / "result.json").unlink()
    return folder, result


def test_a_page_loads_itself_again_only_while_the_run_goes_on(going, tmp_path) -> None:
    folder, result = going
    live = write_report(folder, tmp_path / "live.html", refresh=7).read_text("utf-8")
    assert '<noscript><meta http-equiv="refresh" content="7"></noscript>' in live
    assert 'data-refresh="7"' in live
    (folder / "result.json").write_bytes(result)
    done = write_report(folder, tmp_path / "done.html", refresh=7).read_text("utf-8")
    assert "refresh" not in done.split("<script")[0]


def test_a_live_page_follows_a_run_that_has_not_begun(going) -> None:
    folder, _ = going
    away = folder.rename(folder.with_name("later"))
    with LivePage(folder, seconds=0.05):
        away.rename(folder)
        until((folder / "report.html").exists)
    assert "data-refresh" in (folder / "report.html").read_text("utf-8")
    assert not read_run(folder).finished


@pytest.mark.parametrize("text", ["soon", "nan"])
def test_seconds_are_checked(text, capsys) -> None:
    from lm_eval_ccat.cli.main import main

    with pytest.raises(SystemExit, match="2"):
        main(["rank", "nowhere", "--watch", text])
    assert f"--watch: SECONDS is a number from 1 to 86400, not '{text}'" in capsys.readouterr().err
