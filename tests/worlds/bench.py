"""A small benchmark with known truth: documents, systems, a task YAML and a bank, on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale

TASK = "loopback_task"
PROMPT = "Repeat the numbers of document {id}."


@dataclass
class Bench:
    """``outputs[model][prompt]`` is what the server says; `table` the true scores of all models.

    `base` holds settings of every configuration that do not say otherwise.
    """

    folder: Path
    outputs: dict[str, dict[str, str]]
    table: ScoreTable
    bank: Path
    n_docs: int
    base: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def truth(self) -> dict[str, float]:
        """The full score of each model."""
        return dict(zip(self.table.models, self.table.raw.mean(axis=1).tolist()))

    def at(self, folder: Path) -> Bench:
        """The same bench with another folder for configurations and run directories."""
        for name in ("tasks", "bank.json", "default.bank.json", "known.parquet"):
            (folder / name).symlink_to(self.folder / name)
        return replace(self, folder=folder, bank=folder / "bank.json")

    def rewrite(self, change: Callable[[str, str], str]) -> None:
        """Give this bench task files of its own: ``change(name, text)`` of each."""
        tasks = self.folder / "tasks"
        texts = {file.name: file.read_text() for file in tasks.iterdir() if file.is_file()}
        if tasks.is_symlink():
            tasks.unlink()
            tasks.mkdir()
        for name, text in texts.items():
            (tasks / name).write_text(change(name, text))

    def config(self, url: str, models: list[str], /, **settings: Any) -> Path:
        """Write a configuration.

        ``entry`` holds settings of each model, ``model_args`` theirs, and ``of`` those of some.
        """
        settings = {"harness": {"include_path": "tasks"}, **self.base, **settings}
        entry = {"model": "local-completions", **settings.pop("entry", {})}
        args = {"base_url": url, "tokenizer_backend": "none", "timeout": 5}
        args |= settings.pop("model_args", {})
        of = settings.pop("of", {})
        path = self.folder / f"{settings.pop('name', 'rank')}.yaml"
        content = {
            "task": TASK,
            "bank": self.bank.name,
            "models": [
                {"name": m, "model_args": {"model": m, **args}, **entry, **of.get(m, {})}
                for m in models
            ],
            **settings,
        }
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def run(self, name: str = "rank") -> Path:
        """The run directory of a configuration."""
        return self.folder / f"{name}.run"

    def ranked(
        self,
        server: Any,
        models: list[str],
        code: tuple[int, ...] = (0, 3),
        more: Sequence[str] = (),
        **settings: Any,
    ) -> dict[str, Any]:
        """The result of a ranking by the command line, with `more` flags."""
        config = self.config(server.url, models, **settings)
        assert main(["rank", str(config), *more]) in code
        return content_of(config)

    def adaptive(self, server: Any, model: str, *flags: Any) -> list[str]:
        """The command line of an adaptive run of one model."""
        args = f"model={model},base_url={server.url},tokenizer_backend=none"
        words = ["run", "--model", "local-completions", "--model_args", args, "--tasks", TASK]
        return [*words, "--include_path", f"{self.folder}/tasks", "--adaptive", *map(str, flags)]


def content_of(config: Path) -> dict[str, Any]:
    """The result of a finished ranking by a configuration."""
    return dict(json.loads((config.with_suffix(".run") / "result.json").read_text()))


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """What a result says, whatever it took to get it and in however many sessions."""
    aside = (
        "headline",
        "seconds",
        "asked",
        "share_saved",
        "usd",
        "money",
        "attempts_lost",
        "run_dir",
        "last_line",
        "journal_sha256",
        "changes",
    )
    kept = {k: v for k, v in content.items() if k not in aside}
    kept["models"] = {
        name: {k: v for k, v in block.items() if k not in aside}
        for name, block in content["models"].items()
    }
    return dict(json.loads(json.dumps(kept)))


def write_adaptive(path: Path, model: str, estimate: float, error: float, **about: Any) -> Path:
    """A results file as an adaptive run of a model leaves it: of task t and metric acc."""
    block = {
        "metric": "acc", "filter": "none", "estimate": estimate, "standard_error": error,
        "interval": [estimate - 1.96 * error, estimate + 1.96 * error], "confidence": 0.95,
        "scale": Scale().to_dict(), "question": "benchmark", "sampled": False,
        "items": 3, "items_total": 9, **about.pop("block", {}),
    }  # fmt: skip
    content = {"model_name": model, "results": {"t": {}}, "adaptive": {"t": block}, **about}
    path.write_text(json.dumps(content))
    return path


def make_bench(folder: Path, n_docs: int = 120, n_models: int = 12, seed: int = 0) -> Bench:
    """Systems copy a document's ten numbers with more or fewer mistakes; scored by shared numbers.

    The score of a document is the share of numbers that are right, so it is continuous.
    """
    rng = np.random.default_rng(seed)
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    numbers = rng.integers(10, 99, size=(n_docs, 10))
    data = tasks / "docs.jsonl"
    with data.open("w") as stream:
        for i, row in enumerate(numbers):
            stream.write(json.dumps({"id": i, "numbers": " ".join(map(str, row))}) + "\n")
    (tasks / "scoring.py").write_text(
        "def process_results(doc, results):\n"
        "    wanted, given = doc['numbers'].split(), results[0].split()\n"
        "    right = sum(a == b for a, b in zip(wanted, given))\n"
        "    return {'share': right / len(wanted)}\n"
    )
    (tasks / f"{TASK}.yaml").write_text(
        f"""\
task: {TASK}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {json.dumps(str(data))}}}
  cache_dir: {json.dumps(str(folder / "cache"))}
test_split: test
output_type: generate_until
doc_to_text: "{PROMPT.format(id="{{id}}")}"
doc_to_target: numbers
process_results: !function scoring.process_results
generation_kwargs: {{until: ["\\n"], max_gen_toks: 64}}
metric_list:
  - {{metric: share, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0, ccat_scales: {{share: {{range: [0, 1]}}}}}}
"""
    )
    skill = np.linspace(-1.2, 2.2, n_models)
    ease = rng.normal(0, 0.8, n_docs)
    right = (
        rng.random((n_models, n_docs, 10)) < 1 / (1 + np.exp(-(skill[:, None] + ease)))[..., None]
    )
    names = [f"m{j:02d}" for j in range(n_models)]
    said = np.where(right, numbers, 0).astype(str).tolist()
    outputs = {
        name: {PROMPT.format(id=i): " ".join(of) for i, of in enumerate(texts)}
        for name, texts in zip(names, said)
    }
    table = ScoreTable.from_arrays(right.mean(axis=2), names, range(n_docs), metric="share")
    known, bank = table.without(names[1::2]), folder / "bank.json"
    calibrate(known, method="paper").save(bank)
    calibrate(known, method="default").save(folder / "default.bank.json")
    known.write(folder / "known.parquet")
    return Bench(folder, outputs, table, bank, n_docs)


HELD_OUT = ["m01", "m03", "m05", "m07", "m09", "m11"]
