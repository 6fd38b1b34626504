"""A small benchmark on disk, and models without weights that answer it more or less well."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

import lm_eval.models  # noqa: F401  (registers the harness's own, which a first other one stops)
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

WORDS = (
    "the harbour slept under a copper moon while seven old boats turned slowly and nobody counted "
    "their shadows because winter had already closed every window along the quiet northern coast"
).split()
N_DOCS = 36

COMMON = """
dataset_path: json
dataset_kwargs: {data_files: {test: DATA, train: TRAIN}}
test_split: test
metadata: {version: 1.0}
"""

TASKS = {
    "texts": """
task: texts
output_type: generate_until
training_split: train
num_fewshot: 2
doc_to_text: "Copy: {{source}}\\n"
doc_to_target: "{{target}}"
generation_kwargs: {until: ["\\n\\n"], temperature: 0.0}
metric_list:
  - {metric: bleu}
  - {metric: chrf}
  - {metric: ter}
""",
    "choices": """
task: choices
output_type: multiple_choice
fewshot_split: test
num_fewshot: 3
doc_to_text: "{{source}} ->"
doc_to_choice: "{{options}}"
doc_to_target: "{{gold}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
""",
    "continued": """
task: continued
output_type: loglikelihood
training_split: train
num_fewshot: 1
doc_to_text: "{{source}}:"
doc_to_target: " {{target}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
""",
    "sums": """
task: sums
output_type: generate_until
num_fewshot: 0
repeats: 3
doc_to_text: "Q: {{source}}\\nA:"
doc_to_target: "{{number}}"
generation_kwargs: {until: ["\\n\\n"]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
filter_list:
  - name: strict
    filter:
      - {function: regex, regex_pattern: "answer is (\\\\d+)\\\\."}
      - {function: take_first}
  - name: majority
    filter:
      - {function: regex, regex_pattern: "(\\\\d+)"}
      - {function: majority_vote}
      - {function: take_first}
""",
}
GROUP = """
group: all_of_it
task: [choices, sums]
aggregate_metric_list:
  - {metric: acc, weight_by_size: true}
  - {metric: exact_match, weight_by_size: false, filter_list: [strict]}
metadata: {version: 1.0}
"""


def digest(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but the parts."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


def documents(kind: str, n: int) -> list[dict]:
    found = []
    for i in range(n):
        length = 6 + int(8 * digest(kind, i, "length"))
        words = [WORDS[int(digest(kind, i, j) * len(WORDS))] for j in range(length)]
        target = " ".join(words)
        options = [target, " ".join(reversed(words)), " ".join(sorted(words)), "nothing at all"]
        gold = int(digest(kind, i, "gold") * 4)
        options[0], options[gold] = options[gold], options[0]
        source = " ".join(word.upper() for word in words)
        found.append(
            {"source": source, "target": target, "options": options, "gold": gold, "number": 7 * i}
        )
    return found


def write_bench(folder: Path) -> Path:
    """Write data and task configurations; the directory to include."""
    for name, kind, n in (("DATA", "test", N_DOCS), ("TRAIN", "train", 12)):
        lines = [json.dumps(document) for document in documents(kind, n)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    common = COMMON.replace("DATA", str(folder / "DATA.jsonl"))
    common = common.replace("TRAIN", str(folder / "TRAIN.jsonl"))
    tasks = folder / "tasks"
    tasks.mkdir()
    for name, text in TASKS.items():
        (tasks / f"{name}.yaml").write_text(common + text)
    (tasks / "all_of_it.yaml").write_text(GROUP)
    return tasks


@register_model("copyist")
class Copyist(LM):
    """Answers with errors whose share falls with ``skill``; the same for the same prompt, always.

    ``seen`` collects every request in the order of asking, and ``calls`` their number per call.
    """

    tokenizer_name = "copyist"
    answers: ClassVar[dict[str, dict]] = {
        **{d["source"]: d for d in documents("train", 12)},
        **{d["source"]: d for d in documents("test", N_DOCS)},
    }

    def __init__(self, skill: float = 0.7, name: str = "copyist", **_: object) -> None:
        super().__init__()
        self.skill, self.name = float(skill), name
        self.seen: list[tuple] = []
        self.calls: list[int] = []

    def _document(self, prompt: str) -> dict:
        for line in reversed(prompt.replace("<|", "\n").splitlines()):
            for source, document in self.answers.items():
                if source in line:
                    return document
        raise AssertionError(f"no document in {prompt!r}")

    def generate_until(self, requests):
        self.calls.append(len(requests))
        turns: dict[int, int] = {}
        found = []
        for request in requests:
            self.seen.append(request.args)
            turn = turns[id(request)] = turns.get(id(request), -1) + 1
            prompt, document = request.args[0], self._document(request.args[0])
            if "Q: " in prompt:
                right = digest(self.name, prompt, turn) < self.skill
                number = document["number"] + (0 if right else 1 + turn)
                neat = digest(self.name, prompt, turn, "neat") < 0.7
                found.append(f"The answer is {number}." if neat else f"{number}, I think")
                continue
            words = document["target"].split()
            kept = [
                w if digest(self.name, prompt, turn, j) < self.skill else WORDS[j]
                for j, w in enumerate(words)
            ]
            found.append(" ".join(kept))
        return found

    def loglikelihood(self, requests):
        self.calls.append(len(requests))
        found = []
        for request in requests:
            self.seen.append(request.args)
            context, continuation = request.args
            document = self._document(context)
            bonus = self.skill if continuation.strip() == document["target"] else 0.0
            doubt = digest(self.name, context, continuation)
            found.append((bonus - 1.2 * doubt - 1.0, doubt < bonus))
        return found

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        turns = "".join(f"<|{turn['role']}|>{turn['content']}\n" for turn in chat_history)
        return turns + ("<|assistant|>" if add_generation_prompt else "")

    def chat_template(self, chat_template=False):
        return "{{copyist}}"
