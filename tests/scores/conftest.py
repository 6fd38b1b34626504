"""Writes log files in the harness's layout; real ones are in test_logs_of_the_harness.py."""

from __future__ import annotations

import gzip
import json

import pytest


@pytest.fixture
def write_run(tmp_path):
    """Return a function that writes one run of one model, and the directory of all runs."""

    def write(model, rows, *, task="demo", day=1, compress=False, results=True, **changes):
        folder = tmp_path / "logs" / model
        folder.mkdir(parents=True, exist_ok=True)
        date = f"2026-01-{day:02d}T10-00-00.000001"
        lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows]
        data = "".join(line + "\n" for line in lines).encode()
        name = folder / f"samples_{task}_{date}.jsonl"
        if compress:
            name = name.with_suffix(".jsonl.gz")
            data = gzip.compress(data)
        name.write_bytes(data)
        if results:
            keys = {(m, r["filter"]) for r in rows if isinstance(r, dict) for m in r["metrics"]}
            number = len({r["doc_id"] for r in rows if isinstance(r, dict)})
            document = {
                "results": {task: {"alias": task, **{f"{m},{f}": 0.5 for m, f in sorted(keys)}}},
                "configs": {
                    task: {"generation_kwargs": changes.pop("generation", {}), "num_fewshot": 0}
                },
                "versions": {task: changes.pop("version", 1.0)},
                "n-shot": {task: changes.pop("shots", 0)},
                "n-samples": {
                    task: changes.pop("samples", {"original": number, "effective": number})
                },
                "config": {"model_args": {"model": model}, "limit": changes.pop("limit", None)},
                "model_name": model,
                "model_source": "local-completions",
                "chat_template": None,
                **changes,
            }
            (folder / f"results_{date}.json").write_text(json.dumps(document))
        return name

    return write, tmp_path / "logs"
