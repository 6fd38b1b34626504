"""The score tables that ranking quality is measured on, read from ``../shared/data``.

Left out, as the data's own notes ask: human references among the systems, systems whose scores
equal another's on every item, and entries flagged as adversarial or as the judge's own reference.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from lm_eval_ccat import ScoreTable

SHARED = Path(os.environ.get("CCAT_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))

DATASETS: list[tuple[str, str]] = [
    ("wmt24_en-de", "bleu"),
    ("wmt24_en-de", "chrf"),
    ("wmt24_en-de", "rougeL"),
    ("wmt24_en-es", "chrf"),
    ("wmt24_en-es", "ter"),
    ("wmt23_de-en", "rougeL"),
    ("alpaca_eval2_weighted", "weighted_winrate"),
    ("wildbench_v20522_gpt4turbo", "judge_score"),
    ("zeroeval_gsm", "acc"),
    ("mqm_newstest2021_ende", "mqm"),
    ("realsumm_abs", "rouge_1_f_score"),
    ("realsumm_abs", "bert_f_score"),
    ("metabench_gsm8k_v1", "acc"),
]
#: Constants are chosen on the first ones and confirmed on the others, which share no scores.
_CHOOSE = ("wmt24_en-de", "alpaca_eval2_weighted", "zeroeval_gsm", "realsumm_abs")
CHOOSE = [pair for pair in DATASETS if pair[0] in _CHOOSE]
CONFIRM = [pair for pair in DATASETS if pair not in CHOOSE]
_READING: dict[str, dict[str, object]] = {
    "ter": {"lower_is_better": True},
    "mqm": {"range": (0.0, 25.0), "lower_is_better": True},
    "bert_f_score": {"range": (-1.0, 1.0)},
}
_FLAGGED = {"NullModel", "gpt4_gamed", "gpt4_1106_preview"}
_LEADERBOARD_MODELS = 100  # drawn from metabench's 5,041


def load(dataset: str, metric: str) -> tuple[ScoreTable, list[str]]:
    """A table ready to replay, and what was left out of it."""
    path = SHARED / "data" / "scores" / f"{dataset}.parquet"
    table = ScoreTable.read(path, metric=metric, **_READING.get(metric, {}))  # type: ignore[arg-type]
    human = [m for m in table.models if m.startswith(("ref-", "refA", "Human", "synthetic_ref"))]
    flagged = [m for m in table.models if m in _FLAGGED]
    table = table.without(human + flagged)
    repeated = _repeated(table)
    table = table.without(repeated)
    if table.scale.cap is not None:  # what is estimated is the capped mean, so it is the truth too
        table = replace(table, raw=table.scale.restore(table.scores))
    notes = [
        f"{len(found)} {what}"
        for found, what in (
            (human, "human references"),
            (flagged, "flagged entries"),
            (repeated, "exact duplicates"),
        )
        if found
    ]
    if dataset.startswith("metabench"):
        drawn = np.random.default_rng(0).permutation(len(table.models))[:_LEADERBOARD_MODELS]
        table = table.select([table.models[i] for i in sorted(drawn)])
        notes.append(f"{_LEADERBOARD_MODELS} models drawn of the rest")
    return table, notes


def _repeated(table: ScoreTable) -> list[str]:
    """Models whose scores equal an earlier model's on every item."""
    scores, seen, repeated = np.nan_to_num(table.model_scores(), nan=-1.0), set(), []
    for model, row in zip(table.models, scores):
        key = row.tobytes()
        if key in seen:
            repeated.append(model)
        seen.add(key)
    return repeated
