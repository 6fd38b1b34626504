"""What newcomers get wrong on the command line, in YAML and in Python: one line with the remedy."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, board, calibrate, rank, simulate
from lm_eval_ccat.cli.main import COMMANDS as NAMES
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import CcatError

TABLE = ScoreTable.from_arrays([[0.2, 0.9, 0.4], [0.1, 0.4, 0.7]], ["a", "b"], metric="acc")
TWO = "models: [{model: hf, model_args: pretrained=a}, {model: hf, model_args: pretrained=b}]"

#: What is typed, its exit code, and what the message says.
COMMANDS = {
    "a command misspelt": ("rnak", 2, "no command 'rnak'; did you mean rank"),
    "a command made up": ("zzzzzz", 2, "choose from demo, check"),
    "an option misspelt": ("simulate --scores x --mehods a", 2, "did you mean --methods"),
    "the beginning of an option": (
        "simulate --scores x --items 5", 2, "did you mean --items_per_model?",
    ),
    "a dry run": ("compare a b --dry_run", 2, "`lm-eval-ccat plan` says what is asked"),
    "samples logged": ("rank good.yaml --log_samples", 2, "answers are always kept, in --run_dir"),
    "a folder for results": ("rank good.yaml --output_path x", 2, "always kept, in --run_dir"),
    "a plan of models": (
        "plan --model hf --model_args pretrained=a", 2, "models as a CONFIG of `rank`, or their",
    ),
    "an option of another command": ("report --scores x", 2, "unknown option --scores"),
    "rank alone": ("rank", 2, "--task and --model"),
    "a configuration misspelt": ("rank good.yml", 2, "did you mean good.yaml"),
    "a bank in place of a configuration": ("rank blank.json", 2, "write `bank: blank.json`"),
    "no models": ("rank --task t", 2, "--model TYPE --model_args A=B"),
    "arguments of one of two": (
        "rank --task t --model hf --model hf --model_args pretrained=a", 2, "once per model",
    ),
    "the arguments of one twice": (
        "rank --task t --model hf --model_args a=1 --model_args b=2", 2,
        "--model is given 1 time, --model_args 2",
    ),
    "arguments without a value": ("rank --task t --model hf --model_args a", 2, "form key=value"),
    "too few examples": (
        "rank --task t --model hf --num_fewshot -1", 2, "`harness.num_fewshot` must be a whole",
    ),
    "one model twice": (
        "rank --task t --model hf --model hf --model_args pretrained=a --model_args pretrained=a",
        2, "give each its own",
    ),
    "a run directory resumed": (
        "rank . --resume", 2, "repeat the command that began it with --resume",
    ),
    "two budgets": ("rank good.yaml --budget_items 5 --budget_usd 1", 2, "give one of"),
    "a live model without a task": ("compare t.csv --model hf", 2, "compared on one task"),
    "a live model by group": (
        "compare t.csv --task t --model hf --by subject", 2, "are for stored scores",
    ),
    "a live model with a range": (
        "compare t.csv --task t --model hf --range 0,1", 2, "are for stored scores",
    ),
    "two models in a file": ("compare t.csv t.csv", 2, "--models BASELINE,CANDIDATE"),
    "another metric": ("compare t.csv t.csv --metric bleu", 2, "no metric 'bleu'; they hold acc"),
    "a plan of nothing": ("plan", 2, "give a configuration file, --task, or --bank"),
    "a plan with more models": ("plan good.yaml --models 4", 2, "cannot be combined with good"),
    "a plan with a bank": ("plan good.yaml --bank public", 2, "--bank cannot be combined with"),
    "a plan of one model": ("plan --bank public --models 1", 2, "so of at least 2; one model's"),
    "a plan of no difference": ("plan good.yaml --gap 0", 2, "`--gap` must be"),
    "two files that differ": ("compare a.yaml b.yaml", 2, "different values of `tasks:`"),
    "a place made up": ("rank good.yaml --executor raz", 2, "executor 'raz' is neither"),
    "a folder in place of a configuration": ("plan board", 2, "the configuration's YAML file"),
    "a folder in place of a task": (
        "plan --task board", 2, "board is a folder: name a task in it, and the folder by",
    ),
    "a configuration in place of scores": ("calibrate good.yaml -o b.json", 1, "not scores: give"),
    "a result in place of its run": ("verify t.csv", 2, "is a file; name the run's directory"),
    "a metric of no full results": ("verify board --metric acc", 2, "of --full LOGS to compare"),
    "a package that is missing": (
        "rank --task t --model vllm --model_args pretrained=a", 1, "vllm is needed and not inst",
    ),
    "no run to report": ("report nowhere", 2, "no such run directory"),
    "a page of a table": ("report t.csv", 2, "--plots DIR"),
    "a page of a board": ("report board", 2, "board publish board -o site"),
    "a chart as a gif": ("report t.csv --plots x --formats gif", 2, "not 'gif'"),
    "a page watched soon": ("rank good.yaml --watch soon", 2, "at most 86400, not 'soon'"),
    "a page watched never": ("rank good.yaml --watch nan", 2, "at most 86400, not nan"),
    "a demo of few documents": ("demo 20", 2, "the demo takes 100 to 1792"),
    "no scores to replay": ("simulate --scores nowhere", 2, "no such file"),
    "a method made up": ("simulate --scores t.csv --methods best", 2, "no method 'best'"),
    "more held out than there are": (
        "simulate --scores t.csv --methods common --holdout 40", 2, "at least 2, at most all",
    ),
    "no number of items": (
        "simulate --scores t.csv --items_per_model zero", 2, "`--items_per_model` must be",
    ),
    "a seed below 0": ("simulate --scores t.csv --methods common --seed -1", 2, "`seed` must be"),
    "nobody left out": ("simulate --scores t.csv --methods common --exclude m99", 2, "m99"),
    "another metric replayed": (
        "simulate --scores t.csv --metric other", 2, "no scores of metric 'other'",
    ),
    "an encoder where none is named": (
        "score bertscore . --model x -o t.csv", 2, "--model is for comet, not for bertscore",
    ),
    "a table that cannot be written": (
        "score rouge1 . -o good.yaml/t.csv", 1, "good.yaml/t.csv: cannot be written",
    ),
    "JSON in a file of a file": (
        "bank list --json good.yaml/b.json", 1, "good.yaml/b.json: cannot be written",
    ),
    "a demo in a file": ("demo 100 --dir good.yaml", 1, "cannot be written"),
    "no scores to calibrate": ("calibrate nowhere -o b.json", 2, "no such file or directory"),
    "another metric calibrated": ("calibrate t.csv --metric bleu -o b.json", 2, "bleu"),
    "a range of no width": ("calibrate t.csv --range 5,5 -o b.json", 2, "numbers that differ"),
    "documents beside the task's file": (
        "plan --task far.yaml", 1, "a relative path in `data_files` starts from the folder of the "
        "command, /",
    ),
    "a bank whose task is one's own": (
        "plan --bank t.json", 2, "so name the task's file: --task FILE.yaml",
    ),
    "equal scores": ("calibrate flat.csv -o b.json", 1, "every document"),
}  # fmt: skip

#: A page that stands for 10^9 values.
ALIASES = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 10}]" for n in range(1, 10))]
)

#: A configuration, and what `rank` says of it; the exit code is 2.
YAML = {
    "no models": ("task: t", "`models:` is missing"),
    "no task": (TWO, "`task:` is missing"),
    "a key misspelt": (f"task: t\nmodells: []\n{TWO}", "did you mean models"),
    "a key of a model misspelt": (
        "task: t\nmodels: [{model: hf, concurency: 1}]", "did you mean concurrency",
    ),
    "a setting of the harness": (
        f"task: t\nnum_fewshot: 5\n{TWO}", "did you mean harness.num_fewshot",
    ),
    "an option of the run for the method": (
        f"task: t\noptions: {{seed: 7}}\n{TWO}", "`options.seed` is no option of a method",
    ),
    "a model called like a folder": (
        "task: t\nmodels: [{name: .., model: hf}]", "cannot be called '..'",
    ),
    "a budget of nothing": (
        f"task: t\nbudget: 80\n{TWO}", "{items: n}, {usd: x}, {tokens: n}, {seconds: s}",
    ),
    "percent": (f"task: t\nconfidence: 95\n{TWO}", "a number above 0.5 and below 1, not 95"),
    "a limit": (f"task: t\nharness: {{limit: 5}}\n{TWO}", "use `budget:` or `max_items:`"),
    "a stopping rule made up": (f"task: t\nstop: when done\n{TWO}", "decided, se X, top K"),
    "no YAML": ("task: [", "is not valid YAML"),
    "aliases of aliases": (ALIASES, "stand for more than 1,000,000 values"),
    "no keys": ("- task", "must hold keys such as task:"),
}  # fmt: skip

#: A task whose documents lie elsewhere.
FAR = """
task: far
dataset_path: json
dataset_kwargs: {data_files: {test: elsewhere/docs.jsonl}}
test_split: test
output_type: generate_until
generation_kwargs: {until: ["\\n"]}
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
"""

PYTHON = {
    "a path to calibrate": (lambda p: calibrate(str(p)), r"ScoreTable\.read"),
    "a cube to calibrate": (lambda p: calibrate(np.zeros((2, 2, 2))), "a row per model"),
    "one model": (lambda p: calibrate([0.1, 0.5]), "several models, the table has 1"),
    "percentages": (lambda p: calibrate([[10, 90], [30, 40.0]]), "state it with range"),
    "an option misspelt": (lambda p: calibrate(TABLE, factor=3), "did you mean factors"),
    "no path": (lambda p: ScoreTable.read([[0.1]]), "from_arrays"),
    "no data frame": (lambda p: ScoreTable.from_dataframe([1, 2]), "pandas, polars or Arrow"),
    "an empty file": (lambda p: ScoreTable.read(p / "e.csv"), "not a readable score table"),
    "a range of one": (lambda p: ScoreTable.read(p / "t.csv", range=5), r"such as \(0, 100\)"),
    "a number of items": (lambda p: ItemBank.blank(100), r"such as range\(100\)"),
    "no bank": (lambda p: Ranker(None, ["a", "b"]), r"ItemBank\.blank\(doc_ids\)"),
    "a bank's path": (lambda p: Ranker("b.json", ["a", "b"]), r"ItemBank\.load\(path\)"),
    "a ranking of nothing": (lambda p: rank(), "`task:` is missing"),
    "models by name": (lambda p: rank(task="t", models=["a"]), "pretrained=gpt2"),
    "a metric of scores in memory": (lambda p: simulate(TABLE, metric="acc"), "leave it out, or"),
}


#: Every path that a command takes, missing: in the place of MISSING, the others exist.
MISSING = """
check MISSING.yaml
check arc_easy --include_path MISSING
plan MISSING.yaml
plan --task MISSING.yaml
plan --task arc_easy --bank MISSING.json
rank MISSING.yaml
rank --task MISSING.yaml --model dummy
rank --task arc_easy --bank MISSING.json --model dummy
rank --task arc_easy --prior MISSING --model dummy
rank --task arc_easy --include_path MISSING --model dummy
rank MISSING.run --resume
compare MISSING t.csv
compare t.csv MISSING
compare t.csv MISSING.yaml
run --model dummy --tasks MISSING.yaml --adaptive
run --model dummy --tasks arc_easy --adaptive --bank MISSING.json
run --model dummy --tasks arc_easy --adaptive --include_path MISSING
complete MISSING
complete MISSING --name a
rank good.yaml --run_dir MISSING --resume
complete MISSING --config good.yaml
report MISSING
report MISSING.json --plots x
verify MISSING
verify MISSING --repair
verify MISSING --full t.csv
simulate --scores MISSING
score bleu MISSING -o o.csv
calibrate MISSING -o x.json
calibrate --borrow MISSING -o x.json
calibrate MISSING t.csv -o x.json
bank list MISSING
bank show MISSING.json
bank check MISSING.json
bank check blank.json MISSING.json
bank check blank.json --scores MISSING
bank update MISSING.json --scores t.csv -o x.json
bank update blank.json --scores MISSING -o x.json
bank update blank.json --scores s.csv --calibrated_on MISSING -o x.json
bank push MISSING.json o/n --license mit
bank form MISSING.json --items 2 -o form
bank form blank.json --items 2 --scores MISSING -o form
bank form MISSING t.csv
board init new --from MISSING
board add MISSING t.csv
board add sound MISSING
board place MISSING good.yaml
board place sound MISSING.yaml
board place sound MISSING
board publish MISSING
board check MISSING
""".strip().splitlines()
#: The demo makes its own files.
NO_PATH = {"demo"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that some mistakes need."""
    folder = tmp_path_factory.mktemp("mistakes")
    TABLE.write(folder / "t.csv")
    ScoreTable.from_arrays(np.full((4, 5), 0.5), list("abcd")).write(folder / "flat.csv")
    (folder / "e.csv").write_text("")
    (folder / "board").mkdir()
    (folder / "board" / "ledger.jsonl").write_text("")
    (folder / "good.yaml").write_text(f"task: t\n{TWO}")
    for name, task, shots in (("a", "t", 0), ("b", "u", 0), ("c", "t", 5)):
        side = f"task: {task}\nharness: {{num_fewshot: {shots}}}\nmodels: [{{model: hf}}]"
        (folder / f"{name}.yaml").write_text(side)
    (folder / "far.yaml").write_text(FAR)
    ItemBank.blank(range(3)).save(folder / "blank.json")
    replace(TABLE, metric="score").write(folder / "s.csv")
    ItemBank.blank(range(3), task="t").save(folder / "t.json")
    board.init(folder / "sound", folder / "t.json")
    return folder


def typed(line: str, code: int, remedy: str, capsys) -> None:
    """A command line ends so, in one line that names the remedy."""
    try:
        ended = main(shlex.split(line))
    except SystemExit as left:
        ended = left.code
    error = capsys.readouterr().err
    assert ended == code and remedy in error and len(error.strip().splitlines()) == 1, error


@pytest.mark.parametrize(("line", "code", "remedy"), COMMANDS.values(), ids=COMMANDS)
def test_a_mistake_on_the_command_line(line, code, remedy, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    typed(line, code, remedy, capsys)
    assert not (folder / "b.json").exists()


@pytest.mark.parametrize("line", MISSING)
def test_a_missing_path_is_named_and_ends_with_2(line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    typed(line, 2, "MISSING", capsys)
    assert not list(folder.glob("MISSING*"))


def test_every_command_that_takes_a_path_is_given_a_missing_one():
    assert {line.split()[0] for line in MISSING} == set(NAMES) - NO_PATH


@pytest.mark.parametrize(("text", "remedy"), YAML.values(), ids=YAML)
def test_a_mistake_in_a_configuration(text, remedy, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "m.yaml").write_text(text)
    typed("rank m.yaml", 2, remedy, capsys)


@pytest.mark.parametrize(("do", "remedy"), PYTHON.values(), ids=PYTHON)
def test_a_mistake_in_python(do, remedy, folder):
    with pytest.raises(CcatError, match=remedy) as error:
        do(folder)
    assert len(str(error.value).splitlines()) == 1


def test_one_name_is_one_model():
    assert TABLE.select("a").models == ("a",) and TABLE.without("a").models == ("b",)
