"""What arXiv:2601.13885 prints, as data: `paper.json` beside this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def printed() -> Mapping[str, Any]:
    """The paper's figures: ``headline``, ``design``, ``pairs``, and ``tables`` by our names.

    Every table says ``where`` it stands in the paper; its rows are in the order of ``pairs``.
    """
    content = Path(__file__).with_name("paper.json").read_text(encoding="utf-8")
    return dict(json.loads(content))


def pair_of(table: str, metric: str) -> int | None:
    """Position among the paper's pairs of a score table of that name and metric, or None.

    Examples
    --------
    >>> pair_of("ccat_flores200_tur_eng", "bleu"), pair_of("wmt24_en-de", "bleu")
    (6, None)
    """
    metric = metric.removesuffix("_item_scaled")
    for number, pair in enumerate(printed()["pairs"]):
        if table in pair["tables"] and metric in pair["metrics"]:
            return number
    return None
