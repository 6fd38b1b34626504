"""The command line itself: quick, lazy, one line per error."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from lm_eval_ccat import __version__
from lm_eval_ccat.cli.main import COMMANDS, available_commands, command_parser, main

HEAVY = ("torch", "datasets", "pandas", "scipy.stats", "lm_eval", "transformers")


def fresh(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    done = fresh(
        "import sys\n"
        "from lm_eval_ccat.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    assert done.stderr.strip() == "[]"
    for name in ("demo", "check", "calibrate", "bank", "rank", "run", "simulate", "ls", "validate"):
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize(
    "command", [n for n, c in COMMANDS.items() if not c.raw and n in available_commands()]
)
def test_help_of_each_command_shows_an_example_and_imports_nothing_heavy(command: str) -> None:
    done = fresh(
        "import sys\n"
        "from lm_eval_ccat.cli.main import main\n"
        "try:\n"
        f"    main([{command!r}, '--help'])\n"
        "finally:\n"
        f"    print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    assert "example" in done.stdout and f"lm-eval-ccat {command}" in done.stdout
    assert done.stderr.strip() == "[]"


def test_version(capsys: pytest.CaptureFixture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"lm-eval-ccat {__version__}"


def test_unknown_command_is_one_line_and_code_2(capsys: pytest.CaptureFixture) -> None:
    assert main(["rnak"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lm-eval-ccat: error: no command 'rnak'; did you mean rank")
    assert len(error.splitlines()) == 1


def test_errors_are_one_line_and_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["bank", "show", "no_such.bank.json"]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "no_such.bank.json" in error
    assert main(["--debug", "bank", "show", "no_such.bank.json"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("LM_EVAL_CCAT_DEBUG", "1")
    assert main(["bank", "show", "no_such.bank.json"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_missing_configuration_is_a_usage_error(capsys: pytest.CaptureFixture) -> None:
    assert main(["rank", "nowhere.yaml"]) == 2
    assert "no configuration file nowhere.yaml" in capsys.readouterr().err


def test_validate_passes_through_to_the_harness(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.yaml").write_text(
        "task: passthrough_task\ndataset_path: json\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{a}}'\ndoc_to_target: '{{b}}'\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    arguments = ["--tasks", "passthrough_task", "--include_path", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval_ccat.cli.main", "validate", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "passthrough_task" in done.stdout + done.stderr


def test_a_command_far_from_all_lists_them(capsys: pytest.CaptureFixture) -> None:
    assert main(["zzzzzz"]) == 2
    assert "there are: demo, check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["simulate", "--scores", "x", "--mehods", "a"],
            "unknown option --mehods; did you mean --methods",
        ),
        (["bank", "shwo", "x"], "no 'shwo'; did you mean show"),
        (["report", "--scores", "x"], "unknown option --scores"),
    ],
)
def test_a_mistyped_word_names_the_closest(
    argv: list[str], said: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_completion_knows_commands_and_flags(capsys: pytest.CaptureFixture) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "simulate" in script and "--items_per_model" in script


def test_json_means_the_same_in_every_command(tmp_path, capsys: pytest.CaptureFixture) -> None:
    from lm_eval_ccat import ItemBank

    bank = str(tmp_path / "t.bank.json")
    ItemBank.blank(range(5), task="t").save(bank)
    assert main(["bank", "show", bank, "--json"]) == 0
    printed = capsys.readouterr().out
    out = tmp_path / "deeper" / "out.json"
    assert main(["bank", "show", bank, "--json", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads(printed)
    assert capsys.readouterr().out.startswith(bank)  # with a file the text is printed as well
    parser = command_parser(c for c in available_commands().values() if not c.raw)
    for found in every_parser(parser):
        for action in found._actions:
            if "--json" in action.option_strings:
                assert (action.nargs, action.const) == ("?", "-"), found.prog


def every_parser(parser: argparse.ArgumentParser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from every_parser(inner)


def test_shared_flags_are_written_the_same_in_every_command() -> None:
    own = [command for command in available_commands().values() if not command.raw]
    seen: dict[str, set] = {"--json": set(), "--exclude": set(), "--watch": set()}
    parsers = [command_parser(own)]
    while parsers:
        for action in parsers.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            for flag in seen.keys() & set(action.option_strings):
                seen[flag].add((action.nargs, action.metavar, action.const, action.default))
    assert all(len(ways) == 1 for ways in seen.values()), seen
