"""Two tables of the pages from small score tables made by a seed: does the code still make them so?

    python benchmarks/remade.py           makes them, and says what differs from remade.json
    python benchmarks/remade.py --write   keeps them

They go through what makes docs/evidence/experiments.md (the table "main") and the first table of
docs/evidence/tables.md. Figures of real scores take hours; these take a minute, and CI compares
them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import looks
from benchmarks.paper import measure
from lm_eval_ccat import ItemBank, ScoreTable, calibrate

KEPT = Path(__file__).with_suffix(".json")


def made(n_models: int, n_items: int) -> ScoreTable:
    """Scores of models that differ in ability and taste, on items that differ in difficulty."""
    rng = np.random.default_rng(n_models)
    logit = np.linspace(-1.0, 1.0, n_models)[:, None] + rng.normal(size=n_items)
    logit += 0.7 * np.outer(rng.normal(size=n_models), rng.normal(size=n_items))
    scores = 1.0 / (1.0 + np.exp(-logit)) + 0.1 * rng.normal(size=logit.shape)
    names = [f"m{j:02d}" for j in range(n_models)]
    return ScoreTable.from_arrays(np.clip(scores, 0.0, 1.0), names, metric="bleu")


def limits() -> dict[str, dict[str, float]]:
    """Of two models, by each method: equal ones called different, real ones decided, items."""
    table, out = made(24, 200), {}
    held = [table.models[j] for j in (5, 6, 10, 11, 17, 18)]
    y = table.select(held).scores
    for method in ("default", "paper", "sample"):
        blank = ItemBank.blank(range(table.n_items), task="made", metric="bleu")
        bank = blank if method == "sample" else calibrate(table.without(held), method)
        shown = looks.two(
            looks.Field({"made": bank}, {"made": y}, 0), np.random.default_rng(1), max_items=80
        )
        out[method] = {what: float(np.mean(v)) for what, v in shown.items()}
    return out


def experiments() -> list[list[Any]]:
    """Our rows of the table "main"."""
    with tempfile.TemporaryDirectory() as folder:
        made(12, 80).write(Path(folder) / "flores200.parquet")
        measure.main(
            [
                "--scores", folder, "--out", folder, "--methods", "default,paper",
                "--studies", "replay", "--folds", "2", "--seeds", "1", "--items_per_model", "12",
            ]
        )  # fmt: skip
        found = json.loads((Path(folder) / "experiments.json").read_text(encoding="utf-8"))
    rows = [r for t in found["tables"] if t["name"] == "main" for r in t["rows"]]
    return [r for r in rows if not r[2].startswith("printed")]


def different(was: Any, now: Any, at: str = "") -> list[str]:
    """Where two sets of figures differ by more than rounding."""
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        return [x for k in was for x in different(was[k], now[k], f"{at} {k}")]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [x for k, (a, b) in enumerate(zip(was, now)) for x in different(a, b, f"{at} {k}")]
    if isinstance(was, float) and isinstance(now, (int, float)):
        return [] if abs(was - now) <= 1e-6 * max(abs(was), 1.0) else [f"{at}: {was}, now {now}"]
    return [] if was == now else [f"{at}: {was}, now {now}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures as they are now")
    given = parser.parse_args()
    found = {"limits": limits(), "experiments": experiments()}
    if given.write:
        text = json.dumps(found).replace("}, ", "},\n").replace("], ", "],\n")
        KEPT.write_text(text + "\n", encoding="utf-8")
        return 0
    wrong = different(json.loads(KEPT.read_text(encoding="utf-8")), found)
    print("\n".join(wrong) or "both tables are as they were")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
