"""Real WMT outputs behind a loopback server, ranked through an ordinary YAML with bleu."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml
from loopback import CompletionsServer

from lm_eval_ccat.cli.main import main

RANKED = ["Claude-3.5", "IKUN-C", "CycleL", "NVIDIA-NeMo", "Mistral-Large"]

#: As translation tasks of the harness are written; nothing in it knows of adaptive testing.
TASK = """\
task: wmt_loopback
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
  cache_dir: {cache}
test_split: test
output_type: generate_until
doc_to_text: "English phrase: {{{{source}}}}\\nGerman phrase:"
doc_to_target: "{{{{reference}}}}"
generation_kwargs:
  until: ["\\n"]
metric_list:
  - metric: bleu
    aggregation: bleu
    higher_is_better: true
  - metric: chrf
    aggregation: chrf
    higher_is_better: true
metadata:
  version: 1.0
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["default", "paper"])
def test_confident_pairs_of_real_translations_are_right(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture, method: str
) -> None:
    from lm_eval_ccat import ScoreTable, calibrate

    file = shared / "data" / "texts" / "wmt24_en-de.jsonl.gz"
    scores = shared / "data" / "scores" / "wmt24_en-de.parquet"
    if not (file.exists() and scores.exists()):
        pytest.skip(f"no real outputs here: {file} or {scores} is absent")
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        rows = sorted((json.loads(line) for line in stream), key=lambda r: int(r["doc_id"]))
    assert [int(r["doc_id"]) for r in rows] == list(range(len(rows)))
    data = tmp_path / "wmt.jsonl"
    with data.open("w", encoding="utf-8") as out:
        for r in rows:
            out.write(json.dumps({"source": r["source"], "reference": r["reference"]}) + "\n")
    (tmp_path / "wmt_loopback.yaml").write_text(
        TASK.format(data=json.dumps(str(data)), cache=json.dumps(str(tmp_path / "cache")))
    )
    table = ScoreTable.read(scores, metric="bleu")
    truth = dict(zip(table.models, table.model_scores().mean(axis=1)))
    calibrate(table.without(RANKED), method=method).save(tmp_path / "wmt.bank.json")

    outputs: dict[str, dict[str, str]] = {name: {} for name in RANKED}
    for r in rows:
        prompt = f"English phrase: {r['source']}\nGerman phrase:"
        for name in RANKED:
            # A few sources occur twice; a server cannot tell them apart and gives one answer.
            outputs[name].setdefault(prompt, r["outputs"][name])
    with CompletionsServer(outputs) as server:
        config = tmp_path / "wmt.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "task": "wmt_loopback",
                    "bank": "wmt.bank.json",
                    "budget": {"items": 450},
                    "models": [
                        {
                            "name": name,
                            "model": "local-completions",
                            "model_args": {
                                "model": name,
                                "base_url": server.url,
                                "tokenizer_backend": "none",
                                "num_concurrent": 4,
                            },
                        }
                        for name in RANKED
                    ],
                    "harness": {"include_path": "."},
                }
            )
        )
        code = main(["rank", str(config), "--json"])
    captured = capsys.readouterr()
    assert code in (0, 3), captured.err
    content = json.loads(captured.out)
    assert content["key"] == "sentence_bleu,none"
    assert "not the corpus bleu" in content["estimand"]
    sure = [p for p in content["pairwise"] if p["p"] > 0.975]
    assert len(sure) >= 5
    assert [(p["a"], p["b"]) for p in sure if truth[p["a"]] < truth[p["b"]]] == []
    assert content["items_administered"] <= sum(server.answered.values()) <= 450
    for name in RANKED:
        assert 0 <= content["models"][name]["estimate"] <= 100
    saved = next((config.with_suffix(".run") / RANKED[0]).glob("results_*.json"))
    results = json.loads(saved.read_text())["results"]["wmt_loopback"]
    assert "sentence_bleu,none" in results and "bleu,none" not in results
