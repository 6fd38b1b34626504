"""Mistakes of a first day: each message is short and true, and its remedy works.

The remedy is typed as the message has it, with the words of the first command otherwise.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from worlds.bench import make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.cli.main import main

#: Codes of commands that did what was asked: decided, worse, not known.
WORKED = (0, 3, 5)


@dataclass(frozen=True)
class Mistake:
    """A command, its exit code, what its message says, and the command as the message mends it.

    `mended` is a pair of texts, the second of which takes the place of the first in the command;
    what stands between braces is filled in by `place`. `yaml` is such a pair for x.yaml.
    """

    typed: str
    code: int
    says: str
    mended: tuple[str, str] = ("", "")
    yaml: tuple[str, str] = ("", "")
    mended_yaml: tuple[str, str] = ("", "")


TWO = "--task loopback_task --include_path tasks --max_items 12 {m03} {m09}"
ONE = "run {m09} --tasks loopback_task --include_path tasks --adaptive --max_items 12"
MISTAKES = {
    # paths
    "a configuration misspelt": Mistake(
        "rank modles.yaml", 2, "did you mean models.yaml?", ("modles.yaml", "models.yaml")
    ),
    "a bank misspelt": Mistake(
        f"rank {TWO} --bank bnak.json", 2, "did you mean bank.json?", ("bnak.json", "bank.json")
    ),
    "a folder of logs misspelt": Mistake(
        "compare log/m03 logs/m09", 2, "did you mean logs/m03?", ("log/m03", "logs/m03")
    ),
    "a task's file misspelt": Mistake(
        "rank --task tasks/loopback.yaml --max_items 12 {m03} {m09}", 2,
        "did you mean tasks/loopback_task.yaml?", ("loopback.yaml", "loopback_task.yaml"),
    ),
    # tasks
    "a task misspelt": Mistake(
        f"rank {TWO}".replace("loopback_task", "loopback_tsk"), 2, "did you mean loopback_task",
        ("loopback_tsk", "loopback_task"),
    ),
    "a task without its folder": Mistake(
        "rank --task loopback_task --max_items 12 {m03} {m09}", 2, "or --include_path DIR",
        ("loopback_task", "loopback_task --include_path tasks"),
    ),
    "a task that compares log-likelihoods, by messages": Mistake(
        "rank --task loopback_choice --include_path tasks --max_items 12 {chat03} {chat09}", 2,
        "or choose a task that generates text", ("loopback_choice", "loopback_task"),
    ),
    # metrics
    "a metric misspelt": Mistake(
        f"rank {TWO} --metric shar", 2, "did you mean share", ("shar", "share"),
    ),
    "a metric misspelt for one model": Mistake(
        f"{ONE} --metric shar", 2, "did you mean share", ("--metric shar", "--metric share")
    ),
    "a metric that the logs lack": Mistake(
        "compare logs/m03 logs/m09 --metric bleu", 2, "they hold loopback_task/share",
        ("--metric bleu", "--metric share"),
    ),
    "a metric that the scores lack": Mistake(
        "calibrate known.parquet --metric shar -o new.json", 2, "did you mean share?",
        ("--metric shar", "--metric share"),
    ),
    # keys
    "a key misspelt": Mistake(
        "rank x.yaml", 2, "unknown key `modles`; did you mean models?",
        yaml=("models:", "modles:"),
    ),
    "a setting of the harness at the top": Mistake(
        "rank x.yaml", 2, "did you mean harness.num_fewshot?",
        yaml=("harness: {", "num_fewshot: 0\nharness: {"),
        mended_yaml=("harness: {", "harness: {num_fewshot: 0, "),
    ),
    "a key of a model at the top": Mistake(
        "rank x.yaml", 2, "each entry of models has its own `concurrency:`",
        yaml=("harness: {", "concurrency: 4\nharness: {"),
    ),
    "a setting of the harness at the top that no flag has": Mistake(
        "rank x.yaml", 2, "did you mean harness.system_instruction?",
        yaml=("harness: {", "system_instruction: Be brief.\nharness: {"),
        mended_yaml=("harness: {", "harness: {system_instruction: Be brief., "),
    ),
    "a judge's name for its price": Mistake(
        "rank x.yaml", 2, "`judge` must be a price, such as item=0.01",
        yaml=("harness: {", "judge: gpt-4\nharness: {"),
        mended_yaml=("harness: {", "judge: item=0.01\nharness: {"),
    ),
    "an argument of a model misspelt": Mistake(
        "rank x.yaml", 2, "no argument 'baseurl' (model_args); did you mean base_url?",
        yaml=("base_url:", "baseurl:"),
    ),
    "a number of slots that is none": Mistake(
        "rank x.yaml", 2, "model_args.num_concurrent` must be a whole number of at least 1, not",
        yaml=("base_url:", "num_concurrent: many, base_url:"),
        mended_yaml=("num_concurrent: many", "num_concurrent: 4"),
    ),
    # addresses
    "an address without http": Mistake(
        "rank x.yaml", 4, "base_url begins with http://", yaml=("http://", ""),
    ),
    "an address without its path": Mistake(
        "rank x.yaml", 4, "HTTP 404, write base_url=http://", yaml=("/v1/completions", ""),
    ),
    "an address of chats": Mistake(
        "rank x.yaml", 2, "or end it with /completions", yaml=("/v1/", "/v1/chat/"),
    ),
    "a model that the server does not have": Mistake(
        f"rank {TWO} --run_dir x.run".replace("m09", "m99"), 4, "HTTP 404: no model m99",
        ("m99", "m09"),
    ),
    "no key": Mistake(
        "rank x.yaml", 1, "set the `OPENAI_API_KEY`", yaml=("local-", "openai-"),
        mended_yaml=("local-", "openai-"),
    ),
    # templates
    "a template without a tokenizer": Mistake(
        f"rank {TWO} --apply_chat_template", 2, "with the type local-chat-completions",
        ("local-completions", "local-chat-completions"),
    ),
    # few-shot examples
    "few-shot examples in words": Mistake(
        f"rank {TWO} --num_fewshot five", 2, "a whole number of at least 0, not 'five'",
        ("five", "5"),
    ),
    "other few-shot examples than the bank's": Mistake(
        f"rank {TWO} --bank logs.bank.json --num_fewshot 1", 2, "num_fewshot is 1, the bank has 0",
        ("--num_fewshot 1", "--num_fewshot 0"),
    ),
    # banks
    "a bank of other documents": Mistake(
        f"rank {TWO} --bank other.json", 2, "calibrate a bank on this task's logs",
        ("other.json", "logs.bank.json"),
    ),
    "a bank in place of a configuration": Mistake(
        "rank bank.json", 2, "rank --task TASK --bank bank.json",
        ("rank bank.json", f"rank {TWO} --bank bank.json"),
    ),
    "a bank of another metric": Mistake(
        f"rank {TWO} --bank bank.json --metric bleu", 2, "or rank without bank:",
        ("--bank bank.json --metric bleu", ""),
    ),
    # sides
    "one side": Mistake(
        "compare logs/m03", 2, "two sides, logs or runs (A B)", ("logs/m03", "logs/m03 logs/m09"),
    ),
    "one folder of two models": Mistake(
        "compare logs", 2, "the baseline first: lm-eval-ccat compare logs --models m03,m09",
        ("logs", "logs --models m03,m09"),
    ),
    "a side of two models": Mistake(
        "compare logs logs/m09", 2, "--models BASELINE,CANDIDATE", ("logs/m09", "--models m03,m09")
    ),
    "a candidate's file with two models": Mistake(
        "compare logs/m03 x.yaml --models m03,new", 2, "leave one under `models:`",
        mended_yaml=("  - {name: m03", "#  - {name: m03"),
    ),
    # limits
    "a limit": Mistake(
        f"rank {TWO} --limit 20", 2, "--max_items bounds their number",
        ("--max_items 12 {m03} {m09} --limit", "{m03} {m09} --max_items"),
    ),
    "a limit in a file": Mistake(
        "rank x.yaml", 2, "use `budget:` or `max_items:`", yaml=("max_items: 12", "limit: 12"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """A folder with tasks, banks and logs, and a server that knows the bench's models."""
    bench = make_bench(tmp_path_factory.mktemp("typical"))
    text = (bench.folder / "tasks" / "loopback_task.yaml").read_text()
    for old, new in (
        ("loopback_task", "loopback_choice"),
        ("generate_until", "multiple_choice\ndoc_to_choice: [a, b]"),
        ("doc_to_target: numbers", "doc_to_target: 0"),
        ("process_results: !function scoring.process_results\n", ""),
        ("metric: share", "metric: acc"),
    ):  # fmt: skip
        text = text.replace(old, new)
    (bench.folder / "tasks" / "choice.yaml").write_text(text)
    table = ScoreTable.from_arrays([[0.1, 0.4, 0.9]] * 4, list("abcd"), (500, 501, 502))
    calibrate(table, "paper").save(bench.folder / "other.json")

    def unknown(model, prompt, before):
        reply = json.dumps({"error": {"message": f"no model {model}"}})
        return None if model in bench.outputs else ("say", 404, reply)

    with CompletionsServer(bench.outputs, mood=unknown) as server:
        url, ours = server.url, {}
        for kind in ("local-completions", "local-chat-completions"):
            for name in ("m03", "m09", "m99"):
                asked = f"--model {kind} --model_args model={name},base_url={url}"
                short = name.replace("m", "chat") if "chat" in kind else name
                ours[short] = f"{asked},tokenizer_backend=none"
        entries = "\n".join(
            f"  - {{name: {name}, model: local-completions, model_args: {{model: {name}, "
            f'base_url: "{url}", tokenizer_backend: none}}}}'
            for name in ("m03", "m09")
        )
        config = "task: loopback_task\nmax_items: 12\nharness: {include_path: tasks}\nmodels:\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(bench.folder)
            Path("models.yaml").write_text(config + entries)
            for name in ("m03", "m09"):
                full = f"run {ours[name]} --tasks loopback_task --include_path tasks --log_samples"
                assert main([*shlex.split(full), "--output_path", f"logs/{name}"]) == 0
            assert main(["calibrate", "logs", "-o", "logs.bank.json"]) == 0
        yield SimpleNamespace(folder=bench.folder, ours=ours, config=config + entries)


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_message_is_short_and_its_remedy_works(mistake, place, monkeypatch, capsys):
    monkeypatch.chdir(place.folder)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for run in place.folder.glob("*.run"):
        shutil.rmtree(run)

    def said(line: str, yaml: tuple[str, str]) -> tuple[int, str]:
        Path("x.yaml").write_text(place.config.replace(*yaml))
        for short, flags in place.ours.items():
            line = line.replace(f"{{{short}}}", flags)
        try:
            code = main(shlex.split(line))
        except SystemExit as left:
            code = left.code
        written = capsys.readouterr()
        return code, written.err + written.out

    code, text = said(mistake.typed, mistake.yaml)
    told = [line for line in text.splitlines() if mistake.says in line]
    assert code == mistake.code and told, text
    # Under three lines of a terminal of 100 columns, which breaks a line at any character.
    assert all(len(line) <= 200 for line in told) and "Traceback" not in text, told
    if code != 4:  # an error is a line by itself
        assert sum("error:" in line for line in text.splitlines()) == 1, text
    else:
        assert "Next: " in text
    monkeypatch.setenv("OPENAI_API_KEY", "a")
    typed = mistake.typed
    for short, flags in place.ours.items():
        typed = typed.replace(f"{{{short}}}", flags) if mistake.mended[0] in flags else typed
    mended = typed.replace(*mistake.mended) + (" --resume" if code == 4 else "")
    code, text = said(mended, mistake.mended_yaml)
    assert code in WORKED, text
