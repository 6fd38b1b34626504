"""Rankings recorded earlier say the same now: what was asked, and every figure."""

import json
from functools import cache
from typing import Any

import golden
import pytest

CASES = list(golden.cases())


@cache
def recorded() -> dict[str, Any]:
    return golden.read()


def difference(was: Any, now: Any, near: float, at: str = "") -> str:
    """Where two values differ first; "" where they do not."""
    if isinstance(was, dict) and isinstance(now, dict):
        if was.keys() != now.keys():
            return f"{at}: keys {sorted(was.keys() ^ now.keys())}"
        found = (difference(was[k], now[k], near, f"{at}/{k}") for k in was)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            return f"{at}: {len(was)} entries, now {len(now)}"
        found = (difference(a, b, near, f"{at}/{i}") for i, (a, b) in enumerate(zip(was, now)))
    elif isinstance(was, float) and isinstance(now, (int, float)):
        return "" if abs(was - now) <= near * max(1.0, abs(was)) else f"{at}: {was}, now {now}"
    else:
        return "" if was == now else f"{at}: {was!r}, now {now!r}"
    return next(filter(None, found), "")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_ranking_is_as_it_was(case, request):
    data = request.getfixturevalue("shared") / "data" / "scores" if case.real else None
    was = recorded()[str(case)]
    # Real scores are recorded and replayed on one machine; elsewhere sums may round otherwise.
    near = 1e-12 if case.real else 1e-9
    asks, moments = golden.run(case, data)
    asks = json.loads(json.dumps(asks))
    found = difference(was["asks"], asks, near)
    if found:  # then what was asked is asked again, to see whether it is choices alone
        moments = golden.run(case, data, was["asks"])[1]
    figures = difference(was["moments"], moments, near)
    assert not figures, figures
    assert not found, f"other items are asked, though the figures are the same: {found}"
