"""Writes the reference pages from the code while the documentation is built.

What the code says by itself (flags, types, defaults, records of a real journal) is read from it.
Where words are needed that the code does not hold, they stand here, and the build fails when they
do not cover exactly what the code has.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import lm_eval_ccat
from lm_eval_ccat.cli import main as command_line
from lm_eval_ccat.harness.prices import Price
from lm_eval_ccat.live import config as run_config

CONFIG_WORDS = {
    "task": "Name of a harness task or group, or the path of a task's YAML file.",
    "tasks": "In its place: several tasks and groups, ranked by their weighted mean under one "
    "budget.",
    "weights": "Of several tasks: `documents`, `equal`, or one per task or group such as "
    "`{mmlu: 2, gsm8k: 1}`. A group's weight, and its equal part among other tasks and groups, is "
    "shared out by the group's own weights. By default as the harness weighs an only group, else "
    "by documents.",
    "bank": "File of the item bank, a folder of banks, or a file for each metric; also looked for "
    "beside the configuration. Without one every model gets the same random documents, by the "
    "method `sample`.",
    "metrics": "What is scored of each answer, as `[bleu, chrf]` or with weights as `{bleu: 1, "
    "chrf: 0}`: models are ranked by the weighted mean, each metric on a scale of 0 to 1, and one "
    "of weight 0 is only reported. By default the bank's, else the task's first that gives a score "
    "per document.",
    "models": "The models to rank, see below.",
    "confidence": "Two-sided; a pair is decided when P(a better) leaves [(1-c)/2, 1-(1-c)/2].",
    "budget": "One of `{items: n}`, `{usd: x}`, `{seconds: s}`; without it the ranking ends when "
    "all is decided or every item was asked.",
    "warmup": "Items that every model gets before anything is compared; of several tasks so many "
    "of each, but at most 60 in all, and 2 of each at least.",
    "max_items": "Most items per model; by default the method's own cap.",
    "seed": "Of whatever is drawn at random.",
    "information": '`first`, or `full`: what the method "paper" maximises when it selects.',
    "familywise": "Hold the chance of any wrong decided neighbour in the whole order to 1 - c.",
    "stop_when_decided": "`false` spends the whole budget.",
    "target_se": "Also test every model until its standard error, on a scale of 0 to 1 whatever "
    "the metric's own, is at most this.",
    "rank_width": "Stop once every model's rank is known to so many ranks, in place of all "
    "decided: on a dense board neighbours are never told apart.",
    "percentile": "Stop once every model's rank is known to so many per cent of the board.",
    "known_sampled": "`true` counts the sampling error of `known` models, too: the documents stand "
    "for more like them.",
    "audit": "Share of each model's documents that is drawn at random, for an estimate that relies "
    "on no response model. `default` and `sample` draw by themselves and draw no more.",
    "exposure": "Draw each document among this many most informative ones; 1 takes the best.",
    "known": "Score table or harness logs of models with full results: fixed points of the ranking "
    "that are not asked anything.",
    "options": "Further options of the method, such as `{item_price: 0}`.",
    "one_at_a_time": "One request in flight in the whole run: slower, and the result is the same "
    "to the last bit after any crash.",
    "memory": "How much local models may hold together, in the unit of the models' `memory`; those "
    "that do not fit take turns, and so do models that load weights and do not state their memory.",
    "judge": "Price of judging one answer, where the metric is an LLM judge.",
    "failures": "When a request is tried again and when a model is set aside, see below.",
    "fail_on_empty": "Share of empty answers of a model above which the exit code is 4.",
    "prior": "Earlier answers (harness logs with samples, or a run directory), a list of them, or "
    "`{model: logs}`. Where the ranking comes to their documents they are scored in place of new "
    "ones and cost nothing.",
    "strata": "Field of the documents, such as `subject`: without a bank each of its groups is "
    "drawn from in proportion to its size.",
    "save_bank": "File in which what is observed is kept: a bank that grows from ranking to "
    "ranking; a folder of banks for several tasks or metrics.",
    "harness": "Anything that `lm_eval --config` takes and that does not belong to `rank`, "
    "trackers and the hub included: "
    "`num_fewshot`, `apply_chat_template`, `system_instruction`, `gen_kwargs`, `include_path`, "
    "`use_cache`, ...",
}
MODEL_WORDS = {
    "name": "What the model is called in results.",
    "model": "Model type of the harness (`hf`, `vllm`, `local-completions`, ...).",
    "model_args": "Its arguments, as a mapping or as `a=b,c=d`. Credentials are masked in files.",
    "price": "What it costs, see below.",
    "batch_size": "As the harness takes it.",
    "device": "As the harness takes it.",
    "concurrency": "Requests at the same time; by default what the model type says.",
    "memory": "What its weights need, in the unit of the run's `memory`.",
    "num_gpus": "GPUs of its Ray actor.",
    "num_cpus": "CPUs of its Ray actor; default 0 for a model behind a server.",
}
FAILURE_WORDS = {
    "attempts": "How often a document is tried before it is given up.",
    "backoff": "Seconds before the second attempt; twice as long before each further one.",
    "max_backoff": "Longest such pause.",
    "in_a_row": "Documents given up in a row after which the model is taken to be away, or is set "
    "aside where the trouble is not on the way to it.",
    "share": "Share of ten or more documents given up above which the model is set aside.",
    "outage_minutes": "Longest outage: a server that is away longer loses its model.",
}
PRICE_WORDS = {
    "input": "Dollars per million prompt tokens (with `output`).",
    "output": "Dollars per million generated tokens (with `input`).",
    "item": "Dollars per document.",
    "hour": "Dollars per hour of measured time.",
}
JOURNAL_WORDS = {
    "header": "First line: format and version, the configuration with credentials masked, what "
    "identifies bank, task and versions, and the arguments of the Ranker.",
    "session": "A process started or resumed.",
    "ask": "Documents handed out, and to which process.",
    "tell": "An answer: the score on [0, 1], the cost, and everything needed to score it again.",
    "fail": "A document that the model failed on; it is not scored and not asked again.",
    "release": "A document given back unanswered.",
    "drop": "A model set aside.",
    "stop": "The ranking was ended from outside (a deadline, a person).",
    "note": "For readers only; the Ranker never sees it.",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {
        "reference/commands.md": commands(),
        "reference/config.md": configuration(),
        "reference/run-directory.md": run_directory(),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


# -- commands -----------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its options and examples, from the parsers themselves."""
    parts = [
        "# Commands",
        "`lm_eval_ccat` is the same program. Every command takes `--help`, and `--debug` shows "
        "the traceback of an error. Exit codes: 0 done, 1 an error, 2 an invalid command; `rank` "
        "adds 3 (ties left) and 4 (a partial ranking), `compare` 5 (worse).",
    ]
    for name, summary in command_line.COMMANDS.items():
        parts.append(f"## {name}")
        for parser in _parsers(name):
            words = parser.prog.split()[1:]
            if len(words) > 1:
                parts.append(f"### {' '.join(words)}")
            parts.append(_sentence(parser.description or summary))
            parts += list(_options(parser, only_ours=name in command_line.RAW))
            if parser.epilog:
                parts.append(f"```text\n{inspect.cleandoc(parser.epilog)}\n```")
    return "\n\n".join(parts) + "\n"


def _parsers(name: str) -> Iterator[argparse.ArgumentParser]:
    top = argparse.ArgumentParser(prog="lm-eval-ccat")
    module = import_module(f"lm_eval_ccat.cli.{name.replace('-', '_')}")
    module.add_parser(top.add_subparsers())
    [made] = [p for p in _choices(top).items() if p[0] == name]
    inner = _choices(made[1])
    yield from inner.values() if inner else [made[1]]


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser, only_ours: bool) -> Iterator[str]:
    groups = [g for g in parser._action_groups if g._group_actions]
    if only_ours:
        yield "Every argument of `lm_eval run` is taken, with the same meaning; ours are:"
        groups = [g for g in groups if g.title == "adaptive evaluation"]
    rows = ["| option | meaning |", "| --- | --- |"]
    for group in groups:
        for action in group._group_actions:
            if isinstance(action, argparse._HelpAction):
                continue
            rows.append(f"| {_spelled(action)} | {_cell((action.help or '') % vars(action))} |")
    if len(rows) > 2:
        yield "\n".join(rows)


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{value}`"
    takes = "" if action.nargs == 0 else f" {value}"
    return _cell(", ".join(f"`{flag}{takes}`" for flag in action.option_strings))


# -- configuration ------------------------------------------------------------------------------


def configuration() -> str:
    """The keys of a `rank` configuration, from the classes that read it."""
    return "\n\n".join(
        [
            "# Configuration of `rank`",
            "A YAML file. Every mistake is reported with the path of its key before anything is "
            "loaded or spent. [Compare several models](../howto/rank.md) has a complete example.",
            _fields(run_config.RankConfig, CONFIG_WORDS),
            "## Each entry of `models`",
            _fields(run_config.ModelConfig, MODEL_WORDS),
            "## `price`",
            "The parts add up. A price that is not stated is unknown: the run then counts "
            "documents, and a budget in dollars is refused.",
            _fields(Price, PRICE_WORDS),
            "## `failures`",
            inspect.cleandoc(run_config.FailureRule.__doc__ or "").replace("``", "`"),
            _fields(run_config.FailureRule, FAILURE_WORDS),
            "",
        ]
    )


def _fields(kind: Any, words: dict[str, str]) -> str:
    known = {f.name for f in dataclasses.fields(kind)}
    if known != set(words):
        raise ValueError(
            f"docs/.hooks/reference.py and {kind.__name__} differ in {known ^ set(words)}"
        )
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    for field in dataclasses.fields(kind):
        rows.append(f"| `{field.name}` | {_default(field)} | {_cell(words[field.name])} |")
    return "\n".join(rows)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        return "–"
    else:
        return "required"
    return "–" if value is None else f"`{json.dumps(value)}`"


# -- run directory ------------------------------------------------------------------------------


def run_directory() -> str:
    """What `rank` leaves behind, shown by a real journal of a small ranking."""
    from lm_eval_ccat.runs import directory, journal

    layout = (directory.__doc__ or "").split("\n\n", 1)[1].strip()
    records = _small_run()
    shown: dict[str, Any] = {}
    for record in records:
        shown.setdefault(record["op"], record)
    if set(shown) != set(JOURNAL_WORDS):
        raise ValueError(
            f"docs/.hooks/reference.py: journal records {set(shown) ^ set(JOURNAL_WORDS)}"
        )
    parts = [
        "# The run directory",
        f"```text\n{layout}\n```",
        "## `journal.jsonl`",
        _cell_free(inspect.cleandoc(journal.__doc__ or "")),
        "Each line is a JSON object with its number `seq` and an `op`. Those of a small ranking:",
    ]
    for op, words in JOURNAL_WORDS.items():
        text = json.dumps(_shortened(shown[op]), indent=2, ensure_ascii=False)
        parts += [f"### `{op}`", words, f"```json\n{text}\n```"]
    parts += [
        "## `result.json`",
        "What `rank --json` prints. Estimates, standard errors and intervals stand on the metric's "
        "own scale. The part that comes from the Ranker, for the same small ranking:",
        f"```json\n{json.dumps(_shortened(_RESULT), indent=2, ensure_ascii=False)}\n```",
        "`rank` adds `headline`, `metric`, `key`, `estimand` (what was estimated, in words), "
        "`scorer` (what computed the metric: judge, encoder, checkpoint, sacrebleu's signature), "
        "tokens and seconds per model, `cost_unit`, `exit_code` and the bank's hash.",
        "",
    ]
    return "\n\n".join(parts)


_RESULT: dict[str, Any] = {}


def _small_run() -> list[dict[str, Any]]:
    import numpy as np

    from lm_eval_ccat import ScoreTable, calibrate
    from lm_eval_ccat.runs.directory import RunDirectory
    from lm_eval_ccat.runs.journaled import JournaledRanker
    from lm_eval_ccat.runs.rebuild import make_ranker

    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1, 1, 10)[:, None], rng.normal(size=40)[None]
    scores = 1 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(10, 40))))
    table = ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(10)])
    bank = calibrate(table.without(["m1", "m5", "m9"]), method="paper")
    arguments = {
        "models": {"m1": 0.5, "m5": 1.0, "m9": 1.0}, "units": None, "confidence": 0.95,
        "warmup": 3, "budget": 30.0, "max_items": None, "seed": 0, "target_se": None,
        "stop_when_decided": True, "options": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(folder)
        directory.start({"config": {"task": "my_task", "...": "..."}, "bank_sha256": bank.sha256,
                         "versions": {"lm_eval_ccat": lm_eval_ccat.__version__},
                         "ranker": arguments})  # fmt: skip
        directory.journal.read_new()
        times = iter(range(1_700_000_000, 1_800_000_000))
        ranker = JournaledRanker(
            make_ranker(bank, arguments), directory.journal,
            clock=lambda: float(next(times)),
        )  # fmt: skip
        ranker.note("start", op="session")
        for number, (model, doc) in enumerate(ranker.ask(9)):
            if number == 0:
                ranker.fail(model, doc, "HTTP 400, the prompt is too long")
            elif number == 1:
                ranker.release(model, doc)
            else:
                score = float(table.select([model]).scores[0, doc])
                ranker.tell(
                    model, doc, score, arguments["models"][model], raw=score, seconds=0.31,
                    tokens={"input": 212, "output": 18, "source": "usage"},
                    prompt_sha256="9f86d081884c7d65...", responses=[["An answer."]],
                )  # fmt: skip
        ranker.drop("m1", "3 documents failed in a row; last: HTTP 500")
        ranker.stop("time budget of 600 s used")
        ranker.note("interrupted")
        _RESULT.update(ranker.ranker.result().to_dict())
        directory.journal.close()
        lines = (Path(folder) / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _shortened(v) for k, v in value.items()}
    if isinstance(value, list):
        short = [_shortened(v) for v in value[:2]]
        return [*short, "..."] if len(value) > 2 else short
    return round(value, 4) if isinstance(value, float) else value


# -- words --------------------------------------------------------------------------------------


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _cell_free(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", lambda m: f"`{m[1].rsplit('.', 1)[-1]}`", text)
    return text.replace("``", "`")


def _sentence(text: str) -> str:
    text = text.strip()
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")
