"""Colours of the page, from its style sheet: every text reaches the contrast of WCAG AA."""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
import pytest

from lm_eval_ccat.report import chart

STYLE = (resources.files("lm_eval_ccat.report") / "templates" / "style.css").read_text("utf-8")
#: What is written or drawn, and what it stands on.
TEXTS = [
    *((ink, ground) for ink in ("ink", "soft") for ground in ("bg", "panel", "tie", "tie2")),
    *((ink, ground) for ink in ("accent", "bad", "warn") for ground in ("bg", "panel")),
    ("ink", "mark"),
    *((f"c{number}", "bg") for number in range(8)),
]
PAIR = r"--(\w+):light-dark\((#\w+),(#\w+)\)"
MIXED = set(
    re.findall(r"color-mix\(in oklab,var\(--(good|bad)\) (\d+)%,var\(--bg\)\)", STYLE),
)


def colours(dark: bool) -> dict[str, np.ndarray]:
    """Colours by name, linear RGB."""
    pairs = re.findall(PAIR, STYLE)
    assert len(pairs) > 15
    return {name: linear((light, night)[dark]) for name, light, night in pairs}


def linear(code: str) -> np.ndarray:
    digits = code[1:] if len(code) == 7 else "".join(2 * c for c in code[1:])
    v = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def test_charts_in_files_have_the_colours_of_the_page_by_daylight() -> None:
    light = {name: code for name, code, _ in re.findall(PAIR, STYLE)}
    named = {"ink": chart.INK, "soft": chart.SOFT, "line": chart.LINE, "tie": chart.TIE_FILL}
    named |= {"accent": chart.ACCENT, "bad": chart.BAD}
    named |= {f"c{n}": code for n, code in enumerate(chart.COLOURS)}
    assert named.items() <= light.items() and len(chart.COLOURS) == 8


def contrast(a: np.ndarray, b: np.ndarray) -> float:
    low, high = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ c) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


def mixed(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    """Linear RGB of a mixture in OKLab (B. Ottosson, 2020)."""
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    # The second matrix of OKLab is linear, so that mixing before it is the same.
    roots = share * np.cbrt(to_lms @ a) + (1 - share) * np.cbrt(to_lms @ b)
    return np.clip(np.linalg.solve(to_lms, roots**3), 0.0, 1.0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_and_lines_stand_out(dark: bool) -> None:
    assert contrast(linear("#000"), linear("#ffffff")) == pytest.approx(21.0)
    of = colours(dark)
    grounds = [(ink, ground, of[ground]) for ink, ground in TEXTS]
    for name, share in MIXED:  # cells of the matrix
        grounds.append(("ink", name + share, mixed(of[name], of["bg"], int(share) / 100)))
    weak = [(ink, name) for ink, name, ground in grounds if contrast(of[ink], ground) < 4.5]
    assert MIXED and not weak


def test_old_browsers_get_the_light_colours() -> None:
    plain = dict(re.findall(r"--(\w+):(#\w+)[;}\n]", STYLE.split("@supports")[0]))
    assert {n: linear(c).tolist() for n, c in plain.items()} == {
        n: c.tolist() for n, c in colours(False).items()
    }
