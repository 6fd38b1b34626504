"""Pages of a comparison and of a leaderboard."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.report.board import Board, Row
from lm_eval_ccat.report.board_files import update_board


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 300)
    rows = [
        {"model": m, "doc_id": i, "score": float(np.clip(base[i] + gap + rng.normal(0, 0.1), 0, 1))}
        for m, gap in (("old", 0.0), ("<b>new</b>", 0.1))
        for i in range(300)
    ]
    path = tmp_path / "scores.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return str(path)


def test_compare_writes_a_page_that_says_what_it_prints(table, tmp_path, capsys) -> None:
    page = tmp_path / "out" / "page.html"
    call = ["compare", table, table, "--models", "old,<b>new</b>", "--html", str(page)]
    assert main([*call, "--margin", "0.01"]) == 0
    [said] = [line for line in capsys.readouterr().out.splitlines() if "better than" in line]
    html = page.read_text("utf-8")
    shown = html.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
    assert said.partition(": ")[2] in shown
    assert "<b>new" not in html and "<script" not in html
    assert "default-src 'none'; style-src 'sha256-" in html
    circle = float(re.search(r'<circle cx="([\d.]+)%', html)[1])
    low, high = map(float, re.search(r'class="range" x1="([\d.]+)%" x2="([\d.]+)%"', html).groups())
    zero = float(re.search(r'class="zero" x1="([\d.]+)%', html)[1])
    assert zero < low < circle < high, "the candidate is better"
    ticks = re.findall(r'<text x="([\d.]+)%"[^>]*>([^<]+)</text>', html)
    places = {float(label): float(x) for x, label in ticks}
    assert sorted(places.values()) == [places[label] for label in sorted(places)]
    assert places[0.0] == zero


def test_a_leaderboard_has_a_page(tmp_path) -> None:
    board = Board("gsm", "ter", "none", Scale(cap=2.0), n_items=100).with_rows(
        [Row("a", 0.4, 0.0, 100, False), Row("b <i>", 0.9, 0.0, 100, False)]
    )
    made = update_board(tmp_path / "board", board, [Row("new", 0.5, 0.2, 12, True, signature="s")])
    html = (tmp_path / "board.html").read_text("utf-8")
    names = re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', html)
    assert names == [r.model.replace("<", "&lt;").replace(">", "&gt;") for r in made.rows]
    assert "≈ 0.5" in html and "12 of 100" in html and "lower is better" in html
    assert "2 models may be the best of 3." in html
