"""``run``: the harness's own ``run`` command, and with ``--adaptive`` few documents instead of all.

The parser and everything that happens to the results (files, W&B, trackio, the table) are the
harness's. Without ``--adaptive`` our flags are taken away and its command is run as it is.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError
from ..harness.opening import with_shipped_tasks
from ..live.fields import Values
from ..live.surfaces import add_flags, given_by_flags
from .parsing import warn

EXAMPLES = """
examples:
  # exactly what lm_eval does
  $ lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks hellaswag

  # the same score, estimated from the most informative documents
  $ lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks my_task \\
      --adaptive --bank my_task.bank.json --stop "se 0.02" --output_path out --log_samples

  # two tasks, 60 documents in all
  $ lm-eval-ccat run --config my_config.yaml --tasks a b \\
      --adaptive --bank a=a.bank.json b=b.bank.json --budget_items 60

The estimate and its standard error appear under the metric's usual key. The `adaptive` block
of the results file says what was estimated, from how many documents, and why the run stopped.
"""


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser."""
    from ..harness import internals

    internals.run_command().create(subparsers)
    parser = subparsers.choices["run"]
    parser.usage = (
        "lm-eval-ccat run --model <model> --tasks <task> ... [options of lm_eval run]\n"
        "       [--adaptive --bank FILE [--stop WORDS] [--max_items N] [--budget_items N]]"
    )
    parser.description = "lm_eval's run; with --adaptive only the most informative documents."
    parser.epilog = textwrap.dedent(EXAMPLES)
    parser.set_defaults(func=run)
    group = parser.add_argument_group("adaptive evaluation")
    group.add_argument(
        "--adaptive",
        action="store_true",
        help="Choose documents by an item bank and estimate the full score",
    )
    add_flags(group, "run")
    group.add_argument(
        "--leaderboard_name",
        metavar="<name>",
        help="The model's name in --leaderboard, where its own earlier results are left out",
    )


#: Our flags beside the options of a run; the harness's command must see none of them.
_OURS = ("adaptive", "leaderboard_name")
#: Arguments of models that name them, as the harness has it.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments that follow its name; the exit code."""
    parser = argparse.ArgumentParser(prog="lm-eval-ccat")
    subparsers = parser.add_subparsers(dest="command")
    add_parser(subparsers)
    if not argv:  # the harness's own command shows its help then
        subparsers.choices["run"].print_help()
        return 0
    return run(parser.parse_args(["run", *argv]))


def run(args: argparse.Namespace) -> int:
    """Run the harness's command, adaptively where asked for.

    Raises
    ------
    CcatError
        Flags that cannot go together, or a bank that cannot be used.
    """
    from ..demo import register_models
    from ..harness import internals
    from ..harness.scorers import record_scorers

    register_models()
    flags = given_by_flags(args, "run")
    ours = {name: vars(args).pop(name, None) for name in _OURS}
    file = _config_file(args)
    _set_include_path(args, file)

    def command(args: argparse.Namespace) -> None:
        internals.require_tasks(_task_names(args, file), args.include_path)
        with internals.naming_extras():
            internals.run_command()._execute(args)

    if not ours.pop("adaptive"):
        flags_given = [*flags, *(name for name, value in ours.items() if value is not None)]
        if flags_given:
            raise UsageError(f"--{flags_given[0]} needs --adaptive")
        internals.set_up_logging()
        record_scorers()
        command(args)
        return 0

    from ..harness.assembly import in_words
    from ..live.adaptive import Adaptive
    from ..live.evaluate import adaptively, refuse_subsets

    name = ours["leaderboard_name"]
    options = Adaptive.read(flags, warn=warn)
    known = options.known
    if known is None and name:
        raise UsageError("--leaderboard_name needs --leaderboard")
    if known is not None:
        known.model = name or _model_name(args, file)
    options.require_files()
    refuse_subsets(_given(args, file, "limit"), _given(args, file, "samples"))
    internals.set_up_logging()
    with adaptively(options, _given(args, file, "num_fewshot")) as blocks:
        command(args)
    for task, block in blocks.items():
        print(f"\nadaptive {in_words(block, task)}")
        if known is not None and block.get("place"):
            print(f"{known.model}: {block['place']['in_words']}")
    return 0


def _config_file(args: argparse.Namespace) -> Values:
    """The YAML file of the harness's ``--config``, whose values count where a flag is absent."""
    from ..harness import internals

    return internals.config_file(args.config) if getattr(args, "config", None) else {}


def _given(args: argparse.Namespace, file: Values, name: str) -> Any:
    """An argument of the harness's, as its flag gives it, or its ``--config``."""
    value = getattr(args, name, None)
    return file.get(name) if value in (None, "", []) else value


def _task_names(args: argparse.Namespace, file: Values) -> list[str]:
    """Tasks, groups and patterns that are asked for."""
    names = _given(args, file, "tasks") or []
    parts = [names] if isinstance(names, str) else names
    return [name for part in parts for name in str(part).split(",")]


def _set_include_path(args: argparse.Namespace, file: Values) -> None:
    """Let the harness find the task configurations that come with the package, after the user's."""
    folders = _given(args, file, "include_path")
    args.include_path = with_shipped_tasks(
        folders if isinstance(folders, list) else [folders] if folders else []
    )


def _model_name(args: argparse.Namespace, file: Values) -> str:
    """Return the harness's name of the model that is run (`file`: its ``--config``)."""
    from ..harness import internals

    arguments = internals.model_arguments(_given(args, file, "model_args"))
    for key in _NAMING:
        if arguments.get(key):
            return str(arguments[key])
    text = ",".join(f"{k}={v}" for k, v in arguments.items())
    model = str(_given(args, file, "model") or "model")
    return f"{model}:{text}" if text else model
