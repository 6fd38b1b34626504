"""Real input: documents of MMLU-Pro under the data set's name, and a server of published answers.

The task files are the harness's own, unmodified. Prompts are not the published ones: the data have
no ``validation`` split, so five test documents of each category, with a published text as
``cot_content``, stand in for the worked examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DATA_SET = "TIGER-Lab/MMLU-Pro"
#: The models whose texts are published, best first.
MODELS = (
    "Meta-Llama-3_1-70B", "Qwen1.5-72B-Chat", "mathstral-7B", "Phi-3-mini-4k-instruct",
    "Meta-Llama-3_1-8B", "Meta-Llama-3-8B", "Mistral-7B-v0.1",
)  # fmt: skip
_EXAMPLES = 5
_EXPLAINS = "mathstral-7B"


def task_of(category: str) -> str:
    """The harness's task of a category."""
    return f"mmlu_pro_{category.replace(' ', '_')}"


@cache
def documents(data: Path) -> list[dict[str, Any]]:
    """All documents, in the order of the data set."""
    rows: list[dict[str, Any]] = pq.read_table(data / "mmlu_pro" / "documents.parquet").to_pylist()
    return rows


@cache
def texts(data: Path) -> dict[str, dict[int, str]]:
    """What each model wrote, by question."""
    by_model: dict[str, dict[int, str]] = {}
    table = pq.read_table(data / "mmlu_pro" / "texts.parquet").to_pydict()
    for model, question, text in zip(table["model"], table["question_id"], table["text"]):
        by_model.setdefault(model, {})[question] = text
    return by_model


@cache
def scores(data: Path) -> dict[tuple[str, int], float]:
    """The published score of each model and question."""
    table = pq.read_table(data / "mmlu_pro" / "scores.parquet").to_pydict()
    return dict(zip(zip(table["model"], table["question_id"]), map(float, table["score"])))


@cache
def letters(data: Path) -> dict[tuple[str, int], str | None]:
    """The letter that the publishers' script took from each answer, if it took one."""
    table = pq.read_table(data / "mmlu_pro" / "scores.parquet").to_pydict()
    return dict(zip(zip(table["model"], table["question_id"]), table["pred"]))


def write_data(folder: Path, data: Path, categories: tuple[str, ...]) -> None:
    """Write the data set with all documents of some categories; `folder` is the working folder."""
    rows = [row for row in documents(data) if row["category"] in categories]
    examples = []
    for category in categories:
        first = [row for row in rows if row["category"] == category][:_EXAMPLES]
        for row in first:
            text = texts(data)[_EXPLAINS][row["question_id"]].strip()
            examples.append({**row, "cot_content": f"A: Let's think step by step. {text}"})
    place = folder / DATA_SET
    place.mkdir(parents=True)
    for split, of_split in (("test", rows), ("validation", examples)):
        pq.write_table(pa.Table.from_pylist(of_split), place / f"{split}.parquet")


class Answers(Mapping[str, str]):
    """A model's published texts, by a prompt that ends with the document's question."""

    def __init__(self, data: Path, model: str) -> None:
        self._texts = {
            _shown(row): texts(data)[model][row["question_id"]] for row in documents(data)
        }

    def __getitem__(self, prompt: str) -> str:
        return self._texts[prompt.rpartition("Question:\n")[2].partition("\nAnswer:")[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _shown(row: Mapping[str, Any]) -> str:
    """A document as the harness's prompt shows it."""
    options = [f"{letter}. {text.strip()}" for letter, text in zip("ABCDEFGHIJ", row["options"])]
    return "\n".join([row["question"], "Options:", *options])
