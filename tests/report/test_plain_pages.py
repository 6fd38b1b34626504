"""The page of a comparison."""

from __future__ import annotations

import re

import numpy as np

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.ranker.difference import Difference
from lm_eval_ccat.report.plain import figures


def test_compare_writes_a_page_that_says_what_it_prints(tmp_path, capsys) -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 300)
    scores = [np.clip(base + gap + rng.normal(0, 0.1, 300), 0, 1) for gap in (0.0, 0.1)]
    table, page = str(tmp_path / "scores.csv"), tmp_path / "out" / "page.html"
    ScoreTable.from_arrays(scores, ["old", "<b>new</b>"]).write(table)
    call = ["compare", table, table, "--models", "old,<b>new</b>", "-o", str(page)]
    assert main([*call, "--margin", "0.01"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "better than" in line]
    said = lines[0]
    html = page.read_text("utf-8")
    shown = html.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
    assert "P(better) >99.9%" in said
    assert said.partition(": ")[2] in shown and len(lines) == 2  # one for each question
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


def test_an_interval_has_its_lower_end_first():
    found = Difference(300, None, 0.5, 0.52, 0.02, -0.01, 0.05, 0.9, "not known", None)
    assert figures(found) == "+0.020 [-0.010, +0.050], P(better) 90%, 300 documents"
