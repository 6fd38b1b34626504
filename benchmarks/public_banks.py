"""Makes the public banks that come with the package, from scores that others have published.

``python benchmarks/public_banks.py`` writes `banks/mmlu_pro`, fourteen banks as one suite, from the
published answers of models to MMLU-Pro (repository TIGER-AI-Lab/MMLU-Pro, folder eval_results,
Apache-2.0). An item carries the hash that the harness gives to its document, made from the eight
columns of the data set; it was never compared with the hub's copy of the data set.

``python benchmarks/public_banks.py judge`` ranks four of the models by banks that are made of the
others, and by random items alone (`sample`): pairs decided, pairs decided wrongly, and errors of
estimates, each with the standard error over rankings of its difference from `sample`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.quality_data import SHARED
from lm_eval_ccat import ItemBank, Ranker, ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.harness.internals.task import hash_text
from lm_eval_ccat.money import estimate_tokens
from lm_eval_ccat.upkeep.score_tables import make_bank

ROOT = Path(__file__).resolve().parents[1]
DATA = SHARED / "data" / "mmlu_pro"
SOURCE = "https://github.com/TIGER-AI-Lab/MMLU-Pro, eval_results, commit f418b11"
MADE = "2026-11-23"
#: Worked examples before each question, in the harness's tasks.
SHOTS = 5
#: Questions of which the published answers hold two versions; they stay out.
TWO_VERSIONS = frozenset(map(int, """
    94 96 120 143 305 321 1289 2129 2253 2394 2453 2634 2817 3983 5457 5664 5666 6392 6921 7063
    7780 8015 8110 8122 8142 8230 8236 8263 8410 8419 8447 8547 8572 8582 8584 8618 8630 8680 8693
    8757 8762 8780 8881 8882 8884 8933 8955 11289
""".split()))  # fmt: skip


def task_of(category: str) -> str:
    """The harness's task of a category of the data set."""
    return f"mmlu_pro_{category.replace(' ', '_')}"


def tables() -> dict[str, ScoreTable]:
    """The published scores of every `mmlu_pro_*` task of the harness, by task.

    A document is named by its place among those of its category, as the harness counts them.
    """
    documents: dict[str, list[dict[str, object]]] = {}
    for document in pq.read_table(DATA / "documents.parquet").to_pylist():
        documents.setdefault(str(document["category"]), []).append(document)
    columns = pq.read_table(DATA / "scores.parquet").to_pydict()
    scores = dict(zip(zip(columns["model"], columns["question_id"]), columns["score"]))
    models = sorted(set(columns["model"]))
    by_task = {}
    for category, of_category in sorted(documents.items()):
        task = task_of(category)
        items = {
            doc_id: document
            for doc_id, document in enumerate(of_category)
            if document["question_id"] not in TWO_VERSIONS
        }
        asked = [document["question_id"] for document in items.values()]
        by_task[task] = ScoreTable.from_arrays(
            np.array([[scores.get((model, q), np.nan) for q in asked] for model in models]),
            models,
            list(items),
            metric="exact_match",
            filter="custom-extract",
            task=task,
            doc_hashes=[
                hash_text(json.dumps(d, indent=2, ensure_ascii=False)) for d in items.values()
            ],
            settings={"num_fewshot": SHOTS},
        )
    return by_task


def tokens_by_task() -> dict[str, dict[str, float]]:
    """Mean tokens of an item of every task: of five worked examples, a question and an answer.

    An answer is as long as the published texts are up to the task's stop, in the mean; so is the
    worked part of an example, whose own text is not among what was published.
    """
    questions, answers = dict[str, list[float]](), dict[str, list[float]]()
    category_of: dict[int, str] = {}
    for document in pq.read_table(DATA / "documents.parquet").to_pylist():
        category = category_of[document["question_id"]] = document["category"]
        text = "\n".join([document["question"], *document["options"]])
        questions.setdefault(category, []).append(estimate_tokens(text))
    columns = pq.read_table(DATA / "texts.parquet").to_pydict()
    for question, text in zip(columns["question_id"], columns["text"]):
        length = estimate_tokens(text.partition("Question:")[0])
        answers.setdefault(category_of[question], []).append(length)
    tokens = {}
    for category, lengths in questions.items():
        question, answer = np.mean(lengths), np.mean(answers[category])
        read = round(float((SHOTS + 1) * question + SHOTS * answer))
        tokens[task_of(category)] = {"input": read, "output": round(float(answer))}
    return tokens


def public(table: ScoreTable, tokens: Mapping[str, float] | None = None) -> ItemBank:
    """A bank of published scores, which says where they come from and what an item takes."""
    bank = make_bank(table, keep_scores=True, published_elsewhere=True)
    facts = {"sources": [SOURCE], "license": "Apache-2.0", **({"tokens": tokens} if tokens else {})}
    return replace(bank, made=MADE, provenance={**bank.provenance, **facts})


def ranked(bank: ItemBank, table: ScoreTable, n_items: int, seed: int) -> tuple[float, ...]:
    """Rank a table's models; return shares of pairs decided and wrong, and the squared error."""
    scores = dict(zip(table.models, table.model_scores()))
    place = {doc_id: n for n, doc_id in enumerate(table.doc_ids)}
    ranker = Ranker(bank, list(scores), max_items=n_items, stop="limits", seed=seed)
    while pairs := ranker.ask(8):
        for model, doc_id in pairs:
            ranker.tell(model, doc_id, float(scores[model][place[doc_id]]))
    ranking, truth = ranker.result(), {model: row.mean() for model, row in scores.items()}
    decided = [pair for pair, word in ranking.decisions.items() if word == "decided"]
    rank = {model: n for n, model in enumerate(ranking.order)}
    wrong = [(a, b) for a, b in decided if (truth[a] > truth[b]) != (rank[a] < rank[b])]
    error = np.mean([(ranking.estimates[model] - truth[model]) ** 2 for model in truth])
    return len(decided) / len(ranking.decisions), len(wrong) / len(ranking.decisions), error


def judge(folds: int = 4, counts: Sequence[int] = (20, 50, 100, 200)) -> None:
    """Print what banks decide of models that are not in them, beside random items alone."""
    found: dict[int, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {n: [] for n in counts}
    for task, table in tables().items():
        whole = table.take(np.flatnonzero(np.isfinite(table.raw).all(axis=0)))
        blank = ItemBank.blank(whole.doc_ids, task=task, metric="exact_match")
        for fold in range(folds):
            held = np.random.default_rng([fold, len(whole.doc_ids)]).permutation(whole.models)[:4]
            bank, new = public(whole.without(held)), whole.select(sorted(held))
            for n in counts:
                both = ranked(bank, new, n, fold), ranked(blank, new, n, fold)
                found[n].append(both)
    for n, rankings in found.items():
        of_bank, at_random = np.array(rankings).transpose(1, 2, 0)
        print(f"{n} items of each of 4 models, {len(rankings)} rankings")
        for what, bank, sample in zip(("decided", "wrong", "squared error"), of_bank, at_random):
            error = (bank - sample).std(ddof=1) / len(rankings) ** 0.5
            print(f"  {what}: bank {bank.mean():.4f}, sample {sample.mean():.4f} +- {error:.4f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["judge"]:
        judge()
    else:
        tokens = tokens_by_task()
        suite = SuiteBank({task: public(table, tokens[task]) for task, table in tables().items()})
        suite.save(ROOT / "banks" / "mmlu_pro", compressed=True)
        print(suite, sum(f.stat().st_size for f in (ROOT / "banks").rglob("*.gz")), "bytes")
