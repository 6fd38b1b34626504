"""Writes the reference pages from the code, and llms.txt from the table of contents.

    python docs/.hooks/reference.py && mkdocs build --strict

What the code says by itself (flags, types, defaults, records of a real journal) is read from it.
Where words are needed that the code does not hold, they stand here, and the script fails when they
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
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import lm_eval_ccat
from lm_eval_ccat.cli import main as command_line
from lm_eval_ccat.live.spec import FailureRule, ModelSpec, Spec
from lm_eval_ccat.options import options_of

DOCS = Path(__file__).resolve().parents[1]


def write_all() -> None:
    """Write every generated page beside those that people write; git ignores them."""
    pages = {
        "reference/commands.md": commands(),
        "reference/config.md": configuration(),
        "reference/run-directory.md": run_directory(),
        "reference/journal.md": journal_format(),
        "reference/result.md": result_format(),
    }
    for path, content in pages.items():
        (DOCS / path).write_text(content, encoding="utf-8")
    (DOCS / "llms.txt").write_text(llms(), encoding="utf-8")


# -- llms.txt -----------------------------------------------------------------------------------


def llms() -> str:
    """The pages of the site with their first sentences, in the form that llmstxt.org describes."""
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    [nav] = re.findall(r"^nav:\n(?:[ #].*\n)+", text, re.M)
    parts = ["# lm-eval-ccat", f"> {_opening('index.md', sentences=3)}"]
    for part in yaml.safe_load(nav)["nav"]:
        for title, pages in part.items():
            lines = [
                f"- [{name}]({path}): {_opening(path)}"
                for page in pages
                for name, path in page.items()
            ]
            parts.append("\n".join([f"## {title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _opening(path: str, sentences: int = 1) -> str:
    """The first sentences of a page's first paragraph of prose, without its links."""
    paragraphs = (DOCS / path).read_text(encoding="utf-8").split("\n\n")[1:]
    prose = next(p for p in paragraphs if re.match(r"[A-Z\[]|`[^`]", p))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    return " ".join(re.split(r"(?<=[.?]) ", plain)[:sentences])


# -- commands -----------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its options and examples, from the parsers themselves."""
    parts = [
        "# Commands",
        "This page lists every command of `lm-eval-ccat` with its options and examples. Every "
        "command takes `--help`; `--debug` shows the traceback of an error. Exit codes: 0 done, "
        "1 an error, 2 an invalid command; `rank` adds 3 (open pairs left) and 4 (a partial "
        "ranking), `compare` 5 (worse).",
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
    command = _choices(command_line.command_parser([name]))[name]
    yield from _choices(command).values() or [command]


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
            if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
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
            "`rank` reads a YAML file with the keys below, and reports every mistake with the path "
            "of its key before it loads or spends anything. [Rank several models]"
            "(../howto/rank.md) has a complete example.",
            "An editor completes and checks the file if [config.schema.json]"
            "(../config.schema.json) (`python -m lm_eval_ccat.live.surfaces` prints it) lies "
            "beside it and its first line "
            "is\n\n```text\n# yaml-language-server: $schema=config.schema.json\n```",
            "Python takes the same keys: `rank(task=..., models=[...])`, `rank(FILE, seed=1)`; "
            "`adaptive_evaluate`, `simple_evaluate(adaptive=...)` and a task's metadata take those "
            "that do not name tasks or models.",
            _options_table(Spec),
            "## Each entry of `models`",
            _options_table(ModelSpec),
            "## `failures`",
            inspect.cleandoc(FailureRule.__doc__ or "").replace("``", "`"),
            _options_table(FailureRule),
            "",
        ]
    )


def _options_table(kind: Any) -> str:
    rows = ["| key | default | meaning | flag of | may change |", "| --- | --- | --- | --- | --- |"]
    for field in dataclasses.fields(kind):
        one = options_of(kind)[field.name]
        flags = ", ".join(f"`{command}`" for command in one.flags) or "–"
        live = "yes" if one.live else "–"
        rows.append(
            f"| `{field.name}` | {_default(field)} | {_cell(one.help)} | {flags} | {live} |"
        )
    return "\n".join(rows)


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if value is dataclasses.MISSING or value in (None, "", ()):
        return "–"
    return f"`{json.dumps(value)}`"


# -- run directory and journal ------------------------------------------------------------------


def run_directory() -> str:
    """What `rank` leaves behind, with the result of a small ranking."""
    from lm_eval_ccat.runs import directory

    layout = (directory.__doc__ or "").split("\n\n", 1)[1].strip()
    result = _small_run()[1]
    parts = [
        "# The run directory",
        "`rank` keeps everything about a run in one folder.",
        f"```text\n{layout}\n```",
        "[The journal](journal.md) describes the lines of `journal.jsonl`.",
        "## `result.json`",
        "[The result](result.md) explains every key. This is the Ranker's part for a small "
        "ranking:",
        f"```json\n{json.dumps(_shortened(result), indent=2, ensure_ascii=False)}\n```",
        "",
    ]
    return "\n\n".join(parts)


def journal_format() -> str:
    """Every kind of line of a journal, from the classes that write and read it."""
    from lm_eval_ccat import journal
    from lm_eval_ccat.records import RECORDS, optional

    shown: dict[str, Any] = {}
    for line in _small_run()[0]:
        shown.setdefault(line["op"], line)
    rest = inspect.cleandoc(journal.__doc__ or "").split("\n", 1)[1]
    parts = [
        "# The journal",
        "`journal.jsonl` of a [run directory](run-directory.md) has one JSON object per line, "
        "which is on disk before it counts.",
        _cell_free(rest.strip()),
        "Every line is a JSON object with its number `seq`, its kind `op`, the fields below and "
        "the seal `sha256`. A field with a star may be absent.",
    ]
    for kind, record in RECORDS.items():
        rows = ["| field | meaning |", "| --- | --- |"]
        for field in record.fields():
            star = "*" if optional(field) else ""
            rows.append(f"| `{field.name}`{star} | {_cell(field.metadata['meaning'])} |")
        parts += [f"## `{kind}`", inspect.cleandoc(record.__doc__ or ""), "\n".join(rows)]
        if kind in shown:
            text = json.dumps(_shortened(shown[kind]), indent=2, ensure_ascii=False)
            parts.append(f"```json\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def result_format() -> str:
    """Every key of ``result.json``, from the types that its writers and renderers share."""
    from lm_eval_ccat import content

    parts = [
        "# The result",
        "`result.json` of a [run directory](run-directory.md) is what `rank --json` prints and "
        "`Ranking.to_dict` returns.",
        _cell_free(inspect.cleandoc(content.__doc__ or "").split("\n", 1)[1].strip()),
    ]
    for kind in _reached(content.RankingContent):
        meanings = meanings_of(kind) or {(key,): "" for key in kind.__annotations__}
        rows = ["| key | type | meaning |", "| --- | --- | --- |"]
        for keys, words in meanings.items():
            written = ", ".join(kind.__annotations__[key].__forward_arg__ for key in keys)
            for name in dict.fromkeys(re.findall(r"\w+Content", written)):
                written = written.replace(name, f"[{name}](#{name.lower()})")
            names = ", ".join(f"`{key}`" for key in keys)
            rows.append(f"| {names} | {_cell(written)} | {_cell_free(words)} |")
        head = inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes")[0]
        parts += [f"## {kind.__name__}", _cell_free(head), "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _reached(kind: Any) -> list[Any]:
    """A type of JSON blocks and those that its keys lead to, each once."""
    from lm_eval_ccat import content

    kinds = [kind]
    for known in kinds:  # grows while it is read
        for type_of_key in known.__annotations__.values():
            for name in re.findall(r"\w+Content", type_of_key.__forward_arg__):
                if (block := getattr(content, name)) not in kinds:
                    kinds.append(block)
    return kinds


def meanings_of(kind: Any) -> dict[tuple[str, ...], str]:
    """What the docstring of a type says of its keys, some of which share their words."""
    _, _, listing = inspect.cleandoc(kind.__doc__ or "").partition("Attributes\n----------\n")
    entries = re.findall(r"^(\S.*)\n((?: +.*\n?)+)", listing, re.M)
    return {tuple(keys.split(", ")): " ".join(words.split()) for keys, words in entries}


@cache
def _small_run() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of the journal of a small ranking, and its result."""
    import numpy as np

    from lm_eval_ccat import ScoreTable, calibrate
    from lm_eval_ccat.live.line import Line
    from lm_eval_ccat.money import Tokens
    from lm_eval_ccat.records import Fail, Header, Interrupt, Item, Lost, Session, Tell
    from lm_eval_ccat.runs.book import Book
    from lm_eval_ccat.runs.directory import RunDirectory, make_ranker

    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1, 1, 10)[:, None], rng.normal(size=40)[None]
    scores = 1 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(10, 40))))
    table = ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(10)])
    bank = calibrate(table.without(["m1", "m5", "m9"]), method="paper")
    arguments = {
        "models": {"m1": 0.5, "m5": 1.0, "m9": 1.0}, "units": None, "confidence": 0.95,
        "warmup": 3, "budget": 30.0, "max_items": None, "seed": 0, "stop": "decided",
        "options": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(folder)
        header = Header(
            config={"task": "my_task", "...": "..."}, bank_sha256=bank.sha256,
            versions={"lm_eval_ccat": lm_eval_ccat.__version__}, ranker=arguments,
        )  # fmt: skip
        directory.start(header)
        directory.journal.read_new()
        times = iter(range(1_700_000_000, 1_800_000_000))
        book = Book(
            make_ranker(bank, header),
            directory.journal,
            clock=lambda: float(next(times)),
        )
        book.write([Session(event="start")])
        line = Line(book, {"m1": 16, "m5": 16, "m9": 16}, warmup=3)
        line.start()
        for number, ask in enumerate(line.next("m1", 2) + line.next("m5", 3) + line.next("m9", 3)):
            model, (_, doc) = ask.pair
            answer: dict[str, Any] = {"n": ask.number, "model": model, "item": ask.item}
            if number == 0:
                line.arrive([Fail(**answer, reason="HTTP 400, too long", cost=0.0)])
                continue
            score = float(table.select([model]).scores[0, doc])
            tell = Tell(
                **answer, score=score, cost=arguments["models"][model], raw=score, seconds=0.31,
                tokens=Tokens(212, 18, "usage"), prompt_sha256="9f86d081884c7d65...",
                responses=[["An answer."]],
                served=[{"request_id": "req-17", "model": "m-0613", "finish": ["stop"]}],
            )  # fmt: skip
            line.arrive([tell])
        lost = Lost(model="m9", item=Item(("", 4)), why="timeout", column="unknown", usd=0.002)
        book.event(lost)
        line.set_aside("m1", "3 documents failed in a row; last: HTTP 500")
        line.end("the budget of 600 seconds is used up")
        book.write([Interrupt()])
        result = book.ranker.result().to_dict()
        directory.journal.close()
        lines = (Path(folder) / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], dict(result)


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


if __name__ == "__main__":
    write_all()
