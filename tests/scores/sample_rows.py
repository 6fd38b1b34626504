"""Log files in the layout of the harness; real ones are in tests of the room harness."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any


def sample_row(doc_id, values, *, filter="none", doc=None, answer="an answer", target="gold"):
    """One row as lm_eval.evaluator writes it, keys in its order."""
    doc = {"question": f"question {doc_id}"} if doc is None else doc
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": 'a "prompt"\n', "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": filter,
        "metrics": list(values),
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": "p" * 64,
        "target_hash": "t" * 64,
        **values,
    }


def write_run(
    logs: Path,
    model: str,
    rows: list[Any],
    *,
    task: str = "demo",
    day: int = 1,
    compress: bool = False,
    results: bool = True,
    filters: list[str] | None = None,
    **changes: Any,
) -> Path:
    """Write one run of one model; its sample file. `changes` are of its results file."""
    folder = logs / model
    folder.mkdir(parents=True, exist_ok=True)
    date = f"2026-01-{day:02d}T10-00-00.000001"
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows]
    data = "".join(line + "\n" for line in lines).encode()
    name = folder / f"samples_{task}_{date}.jsonl{'.gz' if compress else ''}"
    name.write_bytes(gzip.compress(data) if compress else data)
    if results:
        named = [r for r in rows if isinstance(r, dict)]
        keys = {(m, f) for r in named for m in r["metrics"]
                for f in (filters or [r.get("filter", "none")])}  # fmt: skip
        number = len({r["doc_id"] for r in named})
        config = {"generation_kwargs": changes.pop("generation", {}), "num_fewshot": 0}
        if filters:
            config["filter_list"] = [{"name": name} for name in filters]
        document = {
            "results": {task: {"alias": task, **{f"{m},{f}": 0.5 for m, f in sorted(keys)}}},
            "configs": {task: config},
            "versions": {task: changes.pop("version", 1.0)},
            "n-shot": {task: changes.pop("shots", 0)},
            "n-samples": {task: changes.pop("samples", {"original": number, "effective": number})},
            "config": {"model_args": {"model": model}, "limit": changes.pop("limit", None)},
            "model_name": model,
            "model_source": "local-completions",
            "chat_template": None,
            **changes,
        }
        (folder / f"results_{date}.json").write_text(json.dumps(document))
    return name
