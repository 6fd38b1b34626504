"""The command line itself: quick, lazy, one line per error, and successors of what has left."""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, __version__
from lm_eval_ccat.cli.main import COMMANDS, command_parser, main
from lm_eval_ccat.cli.parsing import CommandParser, Opt, add_options, models_of, progress
from lm_eval_ccat.cli.rank import _layers
from lm_eval_ccat.harness import internals
from lm_eval_ccat.masking import MASK, forget

HEAVY = ("torch", "datasets", "pandas", "scipy.stats", "scipy.optimize", "lm_eval", "transformers")


def test_an_option_of_several_words_has_the_first_by_default_or_what_it_says():
    parser = CommandParser(prog="p")
    kinds = {"--plain a|b": "which", "--stated a|b": Opt("which", "b"), "--none a|b": Opt("which")}
    add_options(parser, kinds)
    read = vars(parser.parse_args([]))
    assert (read["plain"], read["stated"], read["none"]) == ("a", "b", None)


@pytest.mark.long
def test_ctrl_c_while_modules_are_imported_ends_in_one_line():
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numpy':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from lm_eval_ccat.cli.main import main\n"
        "sys.exit(main(['rank', 'x.yaml']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "lm-eval-ccat: interrupted\n")


@pytest.mark.long
def test_help_shows_an_example_and_what_needs_no_model_imports_nothing_heavy(tmp_path):
    """One process asks for all of them; what any of them imports would be seen."""
    scores = np.clip(np.linspace(0.2, 0.8, 10)[:, None] + np.linspace(-0.2, 0.2, 60), 0, 1)
    ScoreTable.from_arrays(scores, list("abcdefghij"), metric="my").write(tmp_path / "s.parquet")
    code = (
        "import sys, json, contextlib, io\n"
        "from lm_eval_ccat.cli.main import COMMANDS, RAW, main\n"
        "shown = {}\n"
        "for name in ['', *(n for n in COMMANDS if n not in RAW)]:\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):\n"
        "        main([*name.split(), '--help'])\n"
        "    shown[name] = out.getvalue()\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    codes = [main(line.split()) for line in (\n"
        "        'calibrate s.parquet --method paper -o b.json',\n"
        "        'simulate --scores s.parquet --methods paper,common --folds 2')]\n"
        f"print(json.dumps([codes, shown, [m for m in {HEAVY!r} if m in sys.modules]]))\n"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    codes, shown, heavy = json.loads(done.stdout)
    assert codes == [0, 0] and heavy == []
    overview = shown.pop("")
    for name, text in shown.items():
        assert f"\n  {name} " in overview
        assert "example" in text and f"lm-eval-ccat {name}" in text, name
    lines = overview.split("\n")
    assert all(len(line) <= 80 for line in lines)
    rows = [line for line in lines if line[:2] == "  " and line.split()[0] in shown]
    assert len({line.index(line.split(maxsplit=1)[1]) for line in rows}) == 1 < len(rows)


def options() -> Iterator[tuple[str, argparse.Action]]:
    """Every option of every command, with the name of the command."""
    parsers = [command_parser(COMMANDS)]
    for one in parsers:  # grows as it goes
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.option_strings and action.dest != "help":
                yield one.prog, action


def test_task_and_tasks_are_both_taken_wherever_one_is():
    both = {"--task", "--tasks"}
    flags = [(name, both & {*one.option_strings}) for name, one in options()]
    assert sum(map(bool, (taken for _, taken in flags))) >= 8
    for name, taken in flags:
        # The harness's own parser of `run` takes abbreviations.
        assert taken in (both, set()) or name.endswith(" run"), name


def test_at_most_154_options_are_visible():
    """All of ours: what the harness's own ``run`` has is the harness's."""
    harness: Any = argparse.ArgumentParser().add_subparsers()
    internals.run_command().create(harness)
    of_harness = [a for a in harness.choices["run"]._actions if a.option_strings]
    seen = sum(one.help != argparse.SUPPRESS for _, one in options())
    assert seen - len(of_harness) + 1 <= 154  # --help is not counted above


def test_commands_that_only_make_files_write_no_json():
    commands = {name: set[str]() for name, _ in options()}
    for name, one in options():
        commands[name] |= {*one.option_strings}
    without = {name.split(maxsplit=1)[1] for name, of in commands.items() if "--json" not in of}
    files = {"bank push", "board init", "board publish", "demo", "report", "run"}
    assert without == files


@pytest.mark.long
def test_version(ccat):
    shown = ccat("--version").out
    assert shown.strip() == f"lm-eval-ccat {__version__}"
    as_module = [sys.executable, "-m", "lm_eval_ccat", "--version"]
    assert subprocess.run(as_module, capture_output=True, text=True).stdout == shown


def test_errors_are_one_line_and_debug_shows_the_traceback(capsys, monkeypatch, ccat):
    call = ["bank", "show", "no_such.bank.json"]
    error = ccat(*call, code=2).err
    assert len(error.splitlines()) == 1 and "no_such.bank.json" in error
    monkeypatch.setenv("LM_EVAL_CCAT_DEBUG", "1")
    assert main(call) == 2 and "Traceback" in capsys.readouterr().err
    monkeypatch.delenv("LM_EVAL_CCAT_DEBUG")
    assert main(["--debug", *call]) == 2 and "Traceback" in capsys.readouterr().err


def test_no_error_draws_on_the_terminal(monkeypatch):
    """Also of the harness's own command, whose colours reach it."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    call = ["run", "--model", "dummy", "--adaptive", "--tasks", "t", "--bank", "\x1b[2Jb.bank.json"]
    assert main(call) == 2
    assert "␛[2Jb.bank.json" in terminal.getvalue() and "\x1b" not in terminal.getvalue()


def test_progress_is_shown_on_a_terminal_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress("reading logs") as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    terminal.isatty = lambda: True
    with progress("reading logs") as show:
        assert show is not None
        show(1, 2)
    assert "50%" in terminal.getvalue() and not file.getvalue()


def test_a_key_in_a_mistaken_command_is_not_repeated(ccat):
    forget()
    key = "sk-0123456789"
    error = ccat("bank", "show", f"https://host/x.bank.json?key={key}", code=2).err
    assert MASK in error and key not in error
    forget()


def test_help_of_a_shared_option_is_true_of_its_command(capsys):
    for command, option, words in (
        ("compare", "metric", "Default: all in common."),
        ("compare", "task", "Compare on this task only"),
        ("run", "price", "What the model costs: input=0.4"),
        ("rank", "metric", "Default: the bank's metric"),
    ):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split("options", 1)[1].split())
        assert words in text[text.index(f"--{option} ") :][:400]


def test_completion_knows_commands_and_flags(ccat):
    script = ccat("--completion", "bash").out
    assert "simulate" in script and "--items_per_model" in script
    listed = re.search(r"_shtab_lm_eval_ccat_subparsers=\((.*?)\)", script)[1].split()
    assert listed == [*COMMANDS] and "--adaptive_seed" in script


def test_json_goes_to_a_file_or_in_place_of_the_text(tmp_path, capsys, ccat):
    bank, out = str(tmp_path / "t.bank.json"), tmp_path / "deeper" / "out.json"
    ItemBank.blank(range(5), task="t").save(bank)
    printed = ccat("bank", "show", bank, "--json").out
    assert main(["bank", "show", bank, "--json", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads(printed)
    assert capsys.readouterr().out.startswith("trust ")  # with a file the text is printed as well


def test_the_parts_of_a_price_may_be_words_of_their_own():
    words = "rank --task t --model hf --price input=0.4 output=1.6 --model hf --price item=1"
    args = command_parser(["rank"]).parse_args(words.split())
    assert [m["price"] for m in models_of(args)] == [["input=0.4", "output=1.6"], ["item=1"]]
    args = command_parser(["rank"]).parse_args("rank --model a --model b --price item=1".split())
    assert [m["price"] for m in models_of(args)] == [["item=1"]] * 2  # once for all


@pytest.mark.parametrize("value", ["-1,1", "-.5", "-1e-3"])
def test_a_value_may_begin_with_a_minus(value):
    parser = CommandParser()
    parser.add_argument("--range")
    assert parser.parse_args(["--range", value]).range == value


def test_a_run_directory_is_shown_and_never_taken_for_a_run_to_resume(tmp_path, ccat):
    said = ccat("rank", tmp_path, "--resume", code=2).err
    assert "is a run directory, which is only shown; to resume it, repeat the command" in said


def test_a_page_is_of_one_run_and_of_nothing_beside_it(tmp_path, ccat):
    (run := tmp_path / "two.run").mkdir()
    said = ccat("report", run, tmp_path / "sim.json", code=2).err
    assert "give one run directory at a time" in said


@pytest.mark.parametrize("name", [None, "named.run"])
def test_the_live_page_of_a_run_and_its_report_stand_in_its_folder(
    tmp_path, ccat, monkeypatch, name
):
    from lm_eval_ccat.cli import rank

    written: list[Any] = []

    @contextmanager
    def page(folder, seconds):
        written.append((folder, seconds))
        yield

    ended = SimpleNamespace(exit_code=3)
    monkeypatch.setattr(rank, "LivePage", page)
    monkeypatch.setattr(rank.ranking_run, "rank", lambda *args, **options: ended)
    monkeypatch.setattr(rank, "write_report", lambda folder: written.append(folder) or folder)
    config = tmp_path / "two.yaml"
    models = [{"name": name, "model": "dummy"} for name in "ab"]
    config.write_text(json.dumps({"task": "t", "models": models}))
    run = tmp_path / (name or "two.run")
    line = ["rank", config, "--watch", 7, *(["--run_dir", run] if name else [])]
    said = ccat(*line, code=3).err
    assert written == [(run, 7.0), run] and f"Live page: {run / 'report.html'}" in said


def test_the_chart_of_a_plan_is_of_the_kind_that_its_name_says(ccat, tmp_path, monkeypatch):
    from lm_eval_ccat.cli import plan

    content = {"smallest_gap_by_items": {10: {"random": 0.2}, 20: {"random": 0.1}},
               "metric": "acc", "chance": 0.8, "task": "t"}  # fmt: skip
    monkeypatch.setattr(plan.ranking_run, "dry_run", lambda *_, **__: content)
    monkeypatch.setattr(plan, "forecast_lines", lambda _: [])
    for name in ("c.svg", "c"):
        ccat("plan", "--task", "t", "--models", 2, "-o", tmp_path / name)
        assert (tmp_path / "c.svg").read_bytes().startswith(b"<svg")
        (tmp_path / "c.svg").unlink()
    error = ccat("plan", "--task", "t", "--models", 2, "-o", tmp_path / "c.gif", code=2).err
    assert "svg, png and pdf, not 'gif'" in error
    # Of repeats, nothing is known yet of how far the answers to one item scatter.
    content["smallest_gap_by_items"] = {}
    warning = ccat("plan", "--task", "t", "--models", 2, "-o", tmp_path / "d.svg").err
    assert "a plan of repeated answers has no chart" in warning
    assert not (tmp_path / "d.svg").exists()


def test_a_folder_of_tasks_is_where_the_command_is_typed(tmp_path, monkeypatch):
    """And not beside the configuration, whose own paths are."""
    monkeypatch.chdir(tmp_path)
    _, flags = _layers(Path("runs/rank.yaml"), {"harness": {"include_path": "tasks"}}, [])
    assert flags["harness"]["include_path"] == str(tmp_path / "tasks")
