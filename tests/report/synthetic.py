"""A run directory made by the real Ranker and journal from simulated models; no harness needed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
from scipy.special import expit
from worlds.journals import Teller

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.runs.directory import RunDirectory
from lm_eval_ccat.runs.rebuild import make_ranker

WORDS = (
    "river stone lamp garden winter engine paper silver bridge morning letter window "
    "market shadow copper forest signal harbor meadow thunder"
).split()
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
    budget: int | None = 240,
    seed: int = 0,
    hostile: bool = True,
    method: str = "paper",
    finished: bool = True,
    prices: bool = True,
    n_calibration: int = 14,
    confidence: float = 0.95,
    scale: Scale | None = None,
    named_documents: bool = False,
    leaderboard: bool = False,
    audit: float = 0.0,
    eventful: bool = False,
) -> Path:
    """Write journal, result, config, bank and samples files as `rank` leaves them."""
    rng = np.random.default_rng(seed)
    ability = np.concatenate(
        [np.linspace(-1.2, 1.2, n_calibration), rng.normal(0.2, 0.7, n_models)]
    )
    ease, slope = rng.normal(0.2, 1.1, n_items), rng.uniform(0.6, 1.5, n_items)
    mu = expit(ease + slope * ability[:, None])
    scores = rng.beta(mu * 6 + 1e-3, (1 - mu) * 6 + 1e-3)
    names = [f"calibrator-{j:02}" for j in range(n_calibration)]
    models = [
        f"system-{chr(65 + j)}" if n_models <= 26 else f"system-{j:03}" for j in range(n_models)
    ]
    if hostile:
        models[-1] = "<b onmouseover=alert(1)>evil</b>"
    scale = scale or Scale(0.0, 100.0)
    ids = [f"doc/{d:05}" if named_documents else d for d in range(n_items)]
    table = ScoreTable.from_arrays(
        scale.restore(scores[:n_calibration]),
        models=names,
        doc_ids=ids,
        scale=scale,
        metric="chrf",
        task="summaries",
        filter="none",
    )
    bank = calibrate(table, method=method)
    own = {m: scores[n_calibration + j] for j, m in enumerate(models)}
    run = RunDirectory(folder)
    price = {m: float(p) for m, p in zip(models, rng.choice([0.001, 0.002, 0.004], n_models))}
    arguments = {
        "models": price if prices else dict.fromkeys(models, 1.0),
        "units": None,
        "confidence": confidence,
        "warmup": 10,
        "budget": budget and budget * (sum(price.values()) / n_models if prices else 1.0),
        "max_items": None,
        "seed": 0,
        "audit": audit,
        "options": {},
    }
    if leaderboard:
        means = table.model_scores().mean(axis=1)
        arguments["known"] = dict(zip(names, means.tolist()))
    config = {
        "task": "summaries",
        "confidence": confidence,
        "warmup": 10,
        "seed": 0,
        "information": "first",
        "familywise": False,
        "budget": {"items": budget} if budget else {},
        "models": [
            {"name": m, "model": "local-completions", "model_args": {"api_key": "***"}}
            for m in models
        ],
    }
    run.start(
        {
            "config": config,
            "bank_sha256": bank.sha256,
            "task": {"name": "summaries", "metric": "chrf", "filter": "none", "documents": n_items},
            "versions": {"lm_eval_ccat": "0.1.0", "lm_eval": "0.4.13"},
            "ranker": arguments,
            "report": {
                "metric": "sentence_chrf",
                "key": "sentence_chrf,none",
                "scale": scale.to_dict(),
                "estimand": f"Estimates are of the mean chrf over all {n_items} documents",
                "currency": "usd" if prices else "items",
            },
        }
    )
    run.journal.read_new()
    bank.save(folder / "bank.json")
    clock = itertools.count(1.7e9, 0.4)
    ranker = make_ranker(bank, arguments)
    run.journal.durable = False
    journaled = Teller(ranker, run.journal, clock=lambda: next(clock))
    prompts = {d: f"Summarise: {sentence(rng, 30)}" for d in ids}
    position = {d: i for i, d in enumerate(ids)}
    answered: dict[str, list[int | str]] = {m: [] for m in models}
    outputs: dict[tuple[str, int | str], str] = {}
    asked = 0
    while not ranker.done:
        pairs = journaled.ask(4)
        for model, doc in pairs:
            asked += 1
            if eventful and asked in (7, 33):
                journaled.fail(model, doc, "HTTP 400", cost=0.0005)
                continue
            if eventful and asked in (12, 40):
                journaled.release(model, doc, why="interrupted")
                journaled.note("resume", op="session")
                continue
            if eventful and asked == 60:
                journaled.drop(models[0], "HTTP 401")
            if (model, doc) not in journaled.claims:
                continue
            if hostile and asked == 25:
                journaled.fail(model, doc, "HTTP 400: <script>window.pwned=9</script> too long")
                continue
            unit = float(own[model][position[doc]])
            text = sentence(rng, int(rng.integers(5, 25)))
            if hostile and asked % 11 < len(HOSTILE):
                text = HOSTILE[asked % 11]
            outputs[model, doc] = text
            answered[model].append(doc)
            journaled.answer(
                model,
                doc,
                unit,
                arguments["models"][model],
                raw=float(scale.restore(unit)),
                seconds=0.3,
                tokens={"input": 40.0, "output": 12.0, "source": "usage"} if prices else None,
                prompt_sha256="0" * 64,
                responses=[[text]],
            )
    if eventful:
        journaled.note("interrupted")
    run.journal.close()
    if finished:
        run.write_json("result.json", ranker.result().to_dict())
    for j, model in enumerate(models):
        out = folder / f"model_{j}" / "org__name"
        out.mkdir(parents=True)
        with (out / "samples_summaries_2026-01-01T00-00-00.jsonl").open("w") as stream:
            for doc in answered[model]:
                row = {
                    "doc_id": doc,
                    "target": f"Target {doc}",
                    "arguments": {"gen_args_0": {"arg_0": prompts[doc], "arg_1": {}}},
                    "resps": [[outputs[model, doc]]],
                }
                stream.write(json.dumps(row) + "\n")
    return folder
