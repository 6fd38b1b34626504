"""The paper's design on live models: every pair of task and metric, over HTTP, two temperatures.

The models are a server's, with answers made up from local data of the data sets' real layout. This
proves the wiring from servers to the tables of `benchmarks/paper`; it claims no ranking. COMET
needs an environment of its own and is tested with its worker.
"""

from __future__ import annotations

import csv
import json
import random
import re

import pytest
import yaml
from judge_server import JudgeServer
from local_data import CONFIGS, N

from benchmarks.paper.measure import main as measure_paper
from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main

pytestmark = pytest.mark.slow

SKILLS = {"s1": 0.2, "s2": 0.35, "s3": 0.5, "s4": 0.65, "s5": 0.75, "s6": 0.9}
HELD_OUT = ("s2", "s4", "s6")
TEMPERATURES = (0.0, 0.7)
#: The paper's pairs but for COMET: task, metric, and its dataset and metric in the tables.
PAIRS = (
    ("ccat_biolaysumm_plos", "rougeL", "BioLaySumm", "ROUGE-L"),
    ("ccat_biolaysumm_plos", "bertscore", "BioLaySumm", "BERTScore"),
    ("ccat_biolaysumm_plos", "fkgl", "BioLaySumm", "FKGL"),
    ("ccat_govreport", "rougeL", "GovReport", "ROUGE-L"),
    ("ccat_truthfulqa_gen_judge", "judge_score", "TruthfulQA", "LLM-Judge"),
    ("ccat_truthfulqa_gen", "bertscore_diff", "TruthfulQA", "BERTScore"),
    ("ccat_flores200_tur_eng", "bleu", "FLORES", "BLEU"),
    ("ccat_nemotron_pii", "pii_score", "Nemotron", "F1"),
)


@pytest.fixture(scope="module")
def server(place):
    """A model server: the model's name is its skill, and a temperature changes what it forgets."""
    answers = json.loads((place / "answers.json").read_text())

    def reply(messages, n):
        body = served.requests[n]
        prompt = messages[-1]["content"]
        [key] = [key for key in answers if key in prompt]
        rng = random.Random(f"{body['model']} {body.get('temperature')} {key}")
        skill = SKILLS[body["model"]]
        lines = [
            " ".join(w if rng.random() < skill else "hum" for w in line.split(" "))
            for line in answers[key].splitlines()
        ]
        return "\n".join(lines)

    with JudgeServer(reply) as served:
        yield served


def model_args(server, name):
    return {"model": name, "base_url": f"{server.base_url}/chat/completions", "num_concurrent": 4}


@pytest.fixture(scope="module")
def http_logs(place, server):
    """Full runs of all models at both temperatures, by the command line."""
    for name in SKILLS:
        # As in the paper, held-out models are tested at T = 0; calibration has all temperatures.
        for temperature in TEMPERATURES[:1] if name in HELD_OUT else TEMPERATURES:
            sampling = "true" if temperature else "false"
            code = main([
                "run", "--model", "local-chat-completions", "--apply_chat_template",
                "--model_args", ",".join(f"{k}={v}" for k, v in model_args(server, name).items()),
                "--tasks", ",".join(dict.fromkeys(task for task, *_ in PAIRS)),
                "--include_path", str(CONFIGS), "--output_path", "http_logs", "--log_samples",
                "--gen_kwargs", f"temperature={temperature},do_sample={sampling}",
            ])  # fmt: skip
            assert code == 0
    return place / "http_logs"


def test_system_messages_and_temperatures_reach_the_server(http_logs, server):
    temperatures = {body["temperature"] for body in server.requests}
    assert temperatures == set(TEMPERATURES)
    roles = {tuple(m["role"] for m in body["messages"]) for body in server.requests}
    assert roles == {("user",), ("system", "user")}


@pytest.mark.parametrize(("task", "metric", "dataset", "label"), PAIRS)
def test_each_pair_is_calibrated_and_ranked_live(
    http_logs, place, server, capsys, task, metric, dataset, label
):
    table = ScoreTable.read(http_logs, task=task, metric=metric)
    assert table.raw.shape == (2 * len(SKILLS) - len(HELD_OUT), N)
    bank = f"{task}.{metric}.bank.json"
    assert main([
        "calibrate", str(http_logs), "--task", task, "--metric", metric, "--method", "paper",
        "--exclude", ",".join(HELD_OUT), "-o", bank,
    ]) == 0  # fmt: skip
    config = {
        "task": task,
        "bank": bank,
        "budget": {"items": 8 * len(HELD_OUT)},
        "harness": {
            "include_path": str(CONFIGS),
            "apply_chat_template": True,
            "gen_kwargs": {"temperature": 0.0, "do_sample": False},
        },
        "models": [
            {"name": name, "model": "local-chat-completions",
             "model_args": model_args(server, name)}
            for name in HELD_OUT
        ],
    }  # fmt: skip
    path = place / f"{task}.{metric}.yaml"
    path.write_text(yaml.safe_dump(config))
    capsys.readouterr()
    code = main(["rank", str(path), "--run_dir", f"http/{task}.{metric}", "--json"])
    ranking = json.loads(capsys.readouterr().out)
    assert code in (0, 3) and set(ranking["order"]) == set(HELD_OUT)
    # What was asked live scores as the full run at that temperature did.
    cold = {
        m: table.raw[r]
        for r, (m, c) in enumerate(zip(table.row_model, table.row_config))
        if not re.search(r"0\.7", c)
    }
    for line in (place / f"http/{task}.{metric}" / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("op") == "tell" and isinstance(record.get("score"), float):
            unit = table.scale.normalise([cold[record["model"]][record["item"]]])[0]
            assert record["score"] == pytest.approx(unit, abs=2e-3)


def test_the_tables_of_the_paper_are_filled_from_the_logs(http_logs, place):
    (place / "tables").mkdir()
    import pyarrow as pa
    from pyarrow import parquet

    for task in dict.fromkeys(task for task, *_ in PAIRS):
        parts = []
        for _, metric, *_ in (p for p in PAIRS if p[0] == task):
            part = place / "part.parquet"
            ScoreTable.read(http_logs, task=task, metric=metric).write(part)
            parts.append(parquet.read_table(part))
        whole = pa.concat_tables(parts, promote_options="permissive")
        parquet.write_table(whole, place / "tables" / f"{task}.parquet")
    code = measure_paper([
        "--scores", "tables", "--out", "of_the_paper", "--methods", "paper",
        "--holdout", "3", "--folds", "2", "--seeds", "2", "--items_per_model", "6",
        "--levels", "5",
    ])  # fmt: skip
    assert code == 0
    with open(place / "of_the_paper" / "main.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for task, _, dataset, label in PAIRS:
        at = next(i for i, r in enumerate(rows) if (r["table"], r["metric"]) == (dataset, label))
        assert rows[at]["figures"] == "printed"
        assert rows[at + 1]["table"] == task and rows[at + 1]["tau"]
    [comet] = [r for r in rows if r["metric"] == "COMET"]
    assert comet["figures"] == "printed; no scores to be had"
