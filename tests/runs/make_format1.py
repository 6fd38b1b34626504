"""Writes tests/runs/format1: run directories as version 0.1.0 of the package wrote them.

Kept to show how they were made; it needs that version: the journal was of format 1 then.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from lm_eval_ccat.runs.journaled import JournaledRanker

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.runs.directory import RunDirectory
from lm_eval_ccat.runs.rebuild import make_ranker

MODELS = {"m1": 0.5, "m5": 1.0, "m9": 2.0, "m11": 1.0}


def table(n_items: int = 24) -> ScoreTable:
    rng = np.random.default_rng(5)
    skill, ease = np.linspace(-1.2, 1.2, 12)[:, None], rng.normal(size=n_items)[None]
    logits = skill + ease + 0.8 * rng.normal(size=(12, n_items))
    scores = np.round(1.0 / (1.0 + np.exp(-logits)), 6)
    return ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(12)])


def write(folder: Path, method: str, audit: float) -> None:
    scores = table()
    bank = calibrate(scores.without(list(MODELS)), method=method)
    arguments = {
        "models": MODELS, "units": None, "confidence": 0.99, "warmup": 8, "budget": 90.0,
        "max_items": None, "seed": 3, "target_se": None, "stop_when_decided": True,
        "audit": audit, "options": {},
    }  # fmt: skip
    directory = RunDirectory(folder)
    directory.make()
    bank.save(folder / "bank.json")
    directory.start(
        {
            "config": {"task": "t"},
            "bank_sha256": bank.sha256,
            "task": {"name": "t"},
            "versions": {"lm_eval_ccat": "0.1.0", "lm_eval": "0.4.13"},
            "ranker": arguments,
            "report": {"metric": "acc", "key": "acc,none", "scale": bank.scale.to_dict(),
                       "estimand": "Estimates are of the mean acc", "currency": "items"},
        }
    )  # fmt: skip
    directory.journal.read_new()
    times = iter(range(1_700_000_000, 1_800_000_000))
    ranker = JournaledRanker(
        make_ranker(bank, arguments), directory.journal,
        clock=lambda: float(next(times)),
    )  # fmt: skip
    ranker.note("start", op="session")
    answers = 0
    while answers < 34 and (pairs := ranker.ask(3)):
        for model, doc in pairs:
            answers += 1
            score = float(scores.select([model]).scores[0, doc])
            if answers == 9:
                ranker.fail(model, doc, "HTTP 400", cost=0.25)
            elif answers == 12:
                ranker.release(model, doc)
            elif answers == 26:
                ranker.drop(model, "HTTP 401")
            elif (model, doc) in ranker.ranker.in_flight:
                ranker.tell(model, doc, score, MODELS[model] * 1.1, raw=score, seconds=0.3)
    ranker.note("interrupted")
    ranker.ask(2)  # in flight when the process ends
    result = ranker.ranker.result().to_dict()
    (folder / "state.json").write_text(json.dumps(result, indent=1) + "\n")
    directory.release()
    for lock in folder.glob("*.lock"):
        lock.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1], "paper"), "paper", 0.0)
    write(Path(sys.argv[1], "default"), "default", 0.2)
