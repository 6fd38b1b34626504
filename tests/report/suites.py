"""A run directory of several tasks or several metrics, made by the real Ranker and journal."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
from scipy.special import expit
from worlds.journals import Teller

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.live.result import state
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.runs.directory import RunDirectory
from lm_eval_ccat.runs.rebuild import make_ranker, save_banks

SCALES = {"share": Scale(), "errors": Scale(0.0, 10.0, higher_is_better=False)}


def make_suite(
    folder: Path,
    tasks: tuple[str, ...] = ("summaries",),
    metrics: tuple[str, ...] = ("share", "errors"),
    n_items: int = 60,
    budget: int = 80,
    method: str = "default",
    finished: bool = True,
) -> Path:
    """Write journal, result and banks as `rank` leaves them."""
    rng = np.random.default_rng(7)
    models = ["system-A", "system-B", "system-C"]
    ability = np.concatenate([np.linspace(-1.0, 1.0, 10), [0.7, 0.0, -0.6]])
    banks, told = {}, {}
    for task in tasks:
        ease = rng.normal(0.0, 1.0, n_items)
        mu = expit(ease + ability[:, None])
        for metric in metrics:
            scores = rng.beta(mu * 6 + 1e-3, (1 - mu) * 6 + 1e-3)
            table = ScoreTable.from_arrays(
                SCALES[metric].restore(scores[:10]),
                models=[f"known-{j}" for j in range(10)],
                doc_ids=list(range(n_items)),
                scale=SCALES[metric],
                metric=metric,
                task=task,
                filter="none",
            )
            banks.setdefault(task, {})[metric] = calibrate(table, method=method)
            told[task, metric] = scores[10:]
    weights = {t: {m: 1.0 / len(tasks) / len(metrics) for m in metrics} for t in tasks}
    arguments = {
        "models": dict.fromkeys(models, 1.0), "units": None, "confidence": 0.95, "warmup": 5,
        "budget": budget, "max_items": None, "seed": 0, "weights": weights, "options": {},
    }  # fmt: skip
    outcomes = {
        t: {
            m: {
                "metric": m, "filter": "none", "label": m, "key": f"{m},none",
                "scale": SCALES[m].to_dict(), "weight": 1.0,
            }
            for m in metrics
        }
        for t in tasks
    }  # fmt: skip
    run = RunDirectory(folder)
    run.start(
        {
            "config": {"task": "+".join(tasks), "models": [{"name": m} for m in models]},
            "bank_sha256": "+".join(b.sha256 for of in banks.values() for b in of.values()),
            "task": {"name": "+".join(tasks), "metric": metrics[0]},
            "versions": {"lm_eval_ccat": "0.1.0", "lm_eval": "0.4.13"},
            "ranker": arguments,
            "report": {
                "metric": f"weighted mean of {', '.join(metrics)}",
                "key": f"{metrics[0]},none",
                "scale": Scale().to_dict(),
                "estimand": "Estimates are of the weighted mean over all documents",
                "currency": "items",
                "outcomes": outcomes,
            },
        }
    )
    save_banks(banks, folder)
    run.journal.read_new()
    run.journal.durable = False
    clock = itertools.count(1.7e9, 0.4)
    ranker = Teller(make_ranker(banks, arguments), run.journal, clock=lambda: next(clock))
    while not ranker.ranker.done:
        for model, (task, doc) in ranker.ask(3):
            unit = {m: float(told[task, m][models.index(model)][doc]) for m in metrics}
            raw = {m: float(SCALES[m].restore(u)) for m, u in unit.items()}
            ranker.answer(
                model, (task, doc), unit, 1.0, raw=raw, seconds=0.3,
                responses=[[f"answer of {task} to {doc}"]],
            )  # fmt: skip
    run.journal.close()
    for task in tasks:
        out = folder / "system-A" / "org__name"
        out.mkdir(parents=True, exist_ok=True)
        with (out / f"samples_{task}_2026-01-01T00-00-00.jsonl").open("w") as stream:
            for doc in range(n_items):
                prompt = {"gen_args_0": {"arg_0": f"Prompt {doc} of {task}", "arg_1": {}}}
                row = {"doc_id": doc, "target": f"Target {doc}", "arguments": prompt}
                stream.write(json.dumps(row) + "\n")
    if finished:
        run.write_json("result.json", state(folder).content)
    return folder
