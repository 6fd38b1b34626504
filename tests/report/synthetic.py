"""Run directories made by the real Ranker and journal from simulated models; no harness needed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from worlds.journals import Teller

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.live.result import state
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.records import Header, Interrupt, Session
from lm_eval_ccat.runs.directory import RunDirectory, make_ranker, save_banks

WORDS = (
    "river stone lamp garden winter engine paper silver bridge morning letter window "
    "market shadow copper forest signal harbor meadow thunder"
).split()
PERCENT = Scale(0.0, 100.0)
HOSTILE = {
    0: "<script>window.pwned = 1; document.title = 'pwned'</script>"
    "<img src=x onerror='window.pwned=2'>",
    1: "\u202eright to left override\u202c and a NUL \x00 and a bell \x07",
    2: "</script><script>window.pwned = 3</script><!-- --> ]]> {{ 7*7 }} &lt;b&gt;",
    3: "שלום עולם \u200f مرحبا",
    4: "endless " * 20_000,
    5: "x" * 100_000,
    6: "Z\u0351\u036f\u0321" * 400,
    7: "\ud800 lone surrogate \u2028 separators \u2029",
}


def sentence(rng: np.random.Generator, length: int) -> str:
    return " ".join(rng.choice(WORDS, length)).capitalize() + "."


def make_run(
    folder: Path,
    n_models: int = 6,
    n_items: int = 300,
    budget: int = 240,
    seed: int = 0,
    hostile: bool = True,
    method: str = "paper",
    finished: bool = True,
    prices: bool = True,
    n_calibration: int = 14,
    scale: Scale = PERCENT,
    leaderboard: bool = False,
    eventful: bool = False,
    warmup: int = 10,
    tasks: tuple[str, ...] = ("summaries",),
    metrics: tuple[str, ...] = ("chrf",),
) -> Path:
    """Write journal, result, banks and samples files as `rank` leaves them."""
    rng = np.random.default_rng(seed)
    ability = np.append(np.linspace(-1.2, 1.2, n_calibration), rng.normal(0.2, 0.7, n_models))
    known = [f"calibrator-{j:02}" for j in range(n_calibration)]
    models = [f"system-{j:03}" for j in range(n_models)]
    if hostile:
        models[-1] = "<b onmouseover=alert(1)>evil</b>"
    scales = dict(zip(metrics, (scale, Scale(0.0, 10.0, higher_is_better=False))))
    ids = range(n_items)
    banks: dict[str, dict[str, Any]] = {}
    own, means = {}, {}
    for task in tasks:
        ease, slope = rng.normal(0.2, 1.1, n_items), rng.uniform(0.6, 1.5, n_items)
        mu = expit(ease + slope * ability[:, None])
        for metric in metrics:
            scores = rng.beta(mu * 6 + 1e-3, (1 - mu) * 6 + 1e-3)
            table = ScoreTable.from_arrays(
                scales[metric].restore(scores[:n_calibration]), models=known, doc_ids=ids,
                scale=scales[metric], metric=metric, task=task, filter="none",
            )  # fmt: skip
            banks.setdefault(task, {})[metric] = calibrate(table, method=method)
            own[task, metric] = scores[n_calibration:]
            means = dict(zip(known, table.model_scores().mean(axis=1).tolist()))
    several = len(own) > 1
    bank = banks if several else banks[tasks[0]][metrics[0]]
    drawn = rng.choice([0.001, 0.002, 0.004], n_models)
    price = {m: float(p) if prices else 1.0 for m, p in zip(models, drawn)}
    arguments: dict[str, Any] = {
        "models": price, "units": None, "confidence": 0.95, "warmup": warmup,
        "budget": budget * sum(price.values()) / n_models, "max_items": None, "seed": 0,
        "options": {},
    }  # fmt: skip
    report: dict[str, Any] = {
        "metric": f"weighted mean of {', '.join(metrics)}" if several else f"sentence_{metrics[0]}",
        "key": f"{metrics[0]},none" if several else f"sentence_{metrics[0]},none",
        "scale": (Scale() if several else scale).to_dict(),
        "estimand": f"Estimates are of the mean over all {n_items} documents",
        "currency": "usd" if prices else "items",
    }
    if several:
        arguments["weights"] = {t: {m: 1.0 / len(own) for m in metrics} for t in tasks}
        of_each = {
            m: {
                "metric": m, "filter": "none", "label": m, "key": f"{m},none",
                "scale": scales[m].to_dict(), "weight": 1.0,
            }
            for m in metrics
        }  # fmt: skip
        report["outcomes"] = dict.fromkeys(tasks, of_each)
    if leaderboard:
        arguments["known"] = means
    name = "+".join(tasks)
    entry = {"model": "local-completions", "model_args": {"api_key": "***"}}
    config = {
        "task": name, "confidence": 0.95, "warmup": warmup, "seed": 0,
        "familywise": False, "budget": {"items": budget},
        "models": [{"name": m, **entry} for m in models],
    }  # fmt: skip
    run = RunDirectory(folder)
    run.start(
        Header(
            config=config,
            bank_sha256="+".join(b.sha256 for of in banks.values() for b in of.values()),
            task={"name": name, "metric": metrics[0], "filter": "none", "documents": n_items},
            versions={"lm_eval_ccat": "0.1.0", "lm_eval": "0.4.13"},
            ranker=arguments,
            report=report,
        )
    )
    list(run.journal.read_new())
    run.journal.durable = False
    save_banks(bank, folder)
    clock = itertools.count(1.7e9, 0.4)
    journaled = Teller(make_ranker(bank, run.read_header()), run.journal, clock=lambda: next(clock))
    prompts = {(t, d): f"Prompt {d} of {t}: {sentence(rng, 30)}" for t in tasks for d in ids}
    fails, releases = ({7, 33}, {12, 40}) if eventful else ({25} if hostile else (), ())
    asked = 0
    while not journaled.ranker.done:
        for model, item in journaled.ask(4):
            task, doc = item if several else (tasks[0], item)
            asked += 1
            if asked in fails:
                reason = "HTTP 400: <script>window.pwned=9</script> too long"
                journaled.fail(model, item, reason, cost=0.0005 if eventful else None)
                continue
            if asked in releases:
                journaled.release(model, item)
                journaled.write([Session(event="resume")])
                continue
            if eventful and asked == 60:
                journaled.drop(models[0], "HTTP 401")
            if (model, item) not in journaled.claims:
                continue
            at = models.index(model), doc
            unit = {m: float(own[task, m][at]) for m in metrics}
            raw = {m: float(scales[m].restore(u)) for m, u in unit.items()}
            text = f"Answer of {task} to {doc}. {sentence(rng, int(rng.integers(5, 25)))}"
            if hostile and asked % 11 < len(HOSTILE):
                text = HOSTILE[asked % 11]
            journaled.answer(
                model,
                item,
                unit if several else unit[metrics[0]],
                price[model],
                raw=raw if several else raw[metrics[0]],
                seconds=0.3,
                tokens=Tokens(40.0, 12.0, "usage") if prices else None,
                prompt_sha256="0" * 64,
                responses=[[text]],
            )
    if eventful:
        journaled.write([Interrupt()])
    run.journal.close()
    if finished:
        run.write_json("result.json", state(folder).content)
    out = folder / "model_0" / "org__name"
    out.mkdir(parents=True)
    for task in tasks:
        with (out / f"samples_{task}_2026-01-01T00-00-00.jsonl").open("w") as stream:
            for doc in ids:
                arguments = {"gen_args_0": {"arg_0": prompts[task, doc], "arg_1": {}}}
                row = {"doc_id": doc, "target": f"Target {doc}", "arguments": arguments}
                stream.write(json.dumps(row) + "\n")
    return folder


def make_suite(folder: Path, **changes: Any) -> Path:
    """A run of several tasks or several metrics."""
    usual = {
        "n_models": 3, "n_items": 60, "budget": 80, "seed": 7, "hostile": False, "prices": False,
        "method": "default", "n_calibration": 10, "scale": Scale(), "warmup": 5,
        "metrics": ("share", "errors"),
    }  # fmt: skip
    return make_run(folder, **{**usual, **changes})
