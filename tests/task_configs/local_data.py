"""Small data sets under the hub paths and with columns of the paper's five benchmarks.

Texts are docstrings of the standard library: real prose, at hand everywhere.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import json
import random
import statistics
import subprocess
import textwrap
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "task_configs"
SKILLS = {"m1": 0.15, "m2": 0.35, "m3": 0.55, "m4": 0.75, "m5": 0.95}
LOGGED = ("m1", "m3", "m5")
N = 12

#: The metric of each task.
TASKS = {
    "ccat_biolaysumm_plos": "rougeL",
    "ccat_biolaysumm_plos_rouge": "fkgl",
    "ccat_govreport": "rougeL",
    "ccat_flores200_tur_eng": "bleu",
    "ccat_truthfulqa_gen": "bertscore_diff",
    "ccat_truthfulqa_gen_judge": "judge_score",
    "ccat_nemotron_pii": "pii_score",
}
#: They load the weights of an encoder, and PyTorch with it, which takes seconds.
ENCODED = ("ccat_biolaysumm_plos", "ccat_truthfulqa_gen")


def _texts() -> list[tuple[str, str]]:
    """(a longer text, its beginning) of functions with a long docstring."""
    modules = (argparse, collections, statistics, subprocess, textwrap)
    members = (one for module in modules for _, one in sorted(inspect.getmembers(module)))
    docs = (" ".join((inspect.getdoc(one) or "").split()) for one in members)
    texts = [text for text in dict.fromkeys(docs) if len(text) > 200][:N]
    return [(text[:600], ". ".join(text.split(". ")[:2])) for text in texts]


def run_command(model_args: dict[str, object], tasks: list[str], output: str) -> list[str]:
    """A command line of `run`, ours or the harness's."""
    named = ",".join(f"{key}={value}" for key, value in model_args.items())
    command = ["run", "--model", "ccat-forgetful", "--model_args", named, "--log_samples"]
    command += ["--tasks", ",".join(tasks), "--include_path", str(CONFIGS)]
    return [*command, "--output_path", output]


def _write(folder: Path, splits: dict[str, dict[str, list[dict]]]) -> None:
    """A data set as the hub keeps it: a README whose header names each configuration's files."""
    folder.mkdir(parents=True)
    header = ["---", "configs:"]
    for config, rows_of in splits.items():
        header += [f"- config_name: {config}", "  data_files:"]
        for split, rows in rows_of.items():
            name = f"{config}/{split}.jsonl"
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            header += [f"  - split: {split}", f"    path: {name}"]
    (folder / "README.md").write_text("\n".join([*header, "---", "# Local data"]) + "\n")


def write_data(root: Path) -> dict[str, str]:
    """Write all data sets under ``root``; what a perfect model answers, by a key in its prompt."""
    texts = _texts()
    rng = random.Random(7)
    answers: dict[str, str] = {}

    plos = [
        {"article": f"Article {i:02d}. {text}", "summary": summary}
        for i, (text, summary) in enumerate(texts)
    ]
    _write(root / "BioLaySumm/BioLaySumm2025-PLOS", {"default": {"validation": plos}})
    answers |= {row["article"]: row["summary"] for row in plos}

    reports = [
        {"report": f"Report {i:02d}. {text}", "summary": summary}
        for i, (text, summary) in enumerate(texts)
    ]
    _write(root / "ccdv/govreport-summarization", {"document": {"validation": reports}})
    answers |= {row["report"]: row["summary"] for row in reports}

    def sentences(language: str, make) -> list[dict]:
        about = {"iso_639_3": language, "iso_15924": "Latn"}
        return [{"id": i, "text": make(i, text), **about} for i, (_, text) in enumerate(texts)]

    def turkish(i: int, text: str) -> str:
        return f"Cümle {i:02d}: " + " ".join(word[::-1] for word in text.split())

    english = sentences("eng", lambda i, text: text)
    rng.shuffle(english)  # the two languages are joined by id, not by position
    source = sentences("tur", turkish)
    _write(
        root / "openlanguagedata/flores_plus",
        {"tur_Latn": {"devtest": source}, "eng_Latn": {"devtest": english}},
    )
    answers |= {row["text"]: texts[row["id"]][1] for row in source}

    questions = [
        {
            "question": f"Question {i:02d}: what is true of {summary[:40]}?",
            "best_answer": summary,
            "correct_answers": [summary, text[:120]],
            "incorrect_answers": ["The moon is made of green cheese.", "Nobody wrote it."],
        }
        for i, (text, summary) in enumerate(texts)
    ]
    _write(root / "truthfulqa/truthful_qa", {"generation": {"validation": questions}})
    answers |= {row["question"]: row["best_answer"] for row in questions}

    documents = []
    for i, (text, _) in enumerate(texts):
        values = {
            "first_name": rng.choice(["Ada", "Grace", "Edsger", "Barbara"]),
            "email": f"person{i}@example.org",
            "pin": f"{i:04d}",  # the data set gives some numbers as numbers: 0007 becomes 7
            "city": rng.choice(["Lima", "Oslo", "Kyoto"]),
        }
        body = (
            f"Document {i:02d}. {values['first_name']} of {values['city']} ({values['email']}) "
            f"entered {values['pin']}. {text[:200]}"
        )
        spans = []
        for label, value in values.items():
            start = body.index(value)
            given = int(value) if label == "pin" else value
            spans.append({"start": start, "end": start + len(value), "text": given, "label": label})
        documents.append({"uid": f"u{i}", "text": body, "spans": repr(spans), "locale": "us"})
        answers[body] = "\n".join(f"{value} | {label}" for label, value in values.items())
    _write(root / "nvidia/Nemotron-PII", {"default": {"test": documents}})
    return answers
