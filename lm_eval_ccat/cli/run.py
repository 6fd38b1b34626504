"""``run``: the harness's own ``run`` command, and with ``--adaptive`` few documents instead of all.

The parser and everything that happens to the results (files, W&B, trackio, the table) are the
harness's. Without ``--adaptive``, our flags are removed and its command runs unchanged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ..errors import HarnessError, UsageError
from ..harness.opening import start_of_path, with_shipped_tasks
from ..live.surfaces import add_flags, flags_given, given_by_flags
from ..options import listed
from ..scores.configuration import model_name_of

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

An adaptive run writes its files at the end. With --use_cache FILE the same command goes on from
the answers that an interrupted or killed run got; without it they are lost, and paid again.
"""


def add_parser(subparsers: Any) -> None:
    """Add the harness's command with our options."""
    from ..harness import internals

    internals.run_command().create(subparsers)
    parser = subparsers.choices["run"]
    parser.usage = (
        "lm-eval-ccat run --model <model> --tasks <task> ... [options of lm_eval run]\n"
        "       [--adaptive --bank FILE [--stop WORDS] [--max_items N] [--budget_items N]]"
    )
    parser.description = "lm_eval's run; with --adaptive only the most informative documents."
    parser.epilog = EXAMPLES
    parser.set_defaults(func=run)
    group = parser.add_argument_group("adaptive evaluation")
    group.add_argument(
        "--adaptive",
        action="store_true",
        help="Choose documents by an item bank and estimate the full score",
    )
    price = "What the model costs: input=0.4 output=1.6 ($ per million tokens), item=0.01, hour=2.5"
    add_flags(group, "run", {"price": price})
    group.add_argument(
        "--leaderboard_name",
        metavar="<name>",
        help="The model's name in --leaderboard, whose results there are left out; by default "
        "the name that --model_args give",
    )


class HarnessCommand:
    """The harness's own ``run``: its options, wherever they are stated, and what it will evaluate.

    Attributes
    ----------
    options : dict
        The flags that are given, else the values of the harness's own ``--config``.
    tasks : list of str
        Names or files, without commas.
    kind : str
        Type of the model, such as ``"hf"``.
    arguments : dict
        Its ``--model_args``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        from ..harness import internals

        self._args = args
        file = internals.config_file(args.config) if args.config else {}
        flags = {key: value for key, value in vars(args).items() if value not in (None, "", [])}
        self.options: dict[str, Any] = {**file, **flags}
        folders = self.options.get("include_path") or []
        self._folders = folders if isinstance(folders, list) else [folders]
        args.include_path = with_shipped_tasks(self._folders)
        self._entries = listed(self.options.get("tasks") or [])
        parts = [part for entry in self._entries for part in str(entry).split(",")]
        self.tasks = [task.strip() for task in parts if task.strip()]
        self.kind = str(self.options.get("model") or "hf")  # the harness's own default
        self.arguments = internals.model_arguments(self.options.get("model_args"))

    def find_task_files(self) -> None:
        """Find the file of a task as `rank` does, beside the command or in a folder."""
        from ..live.tasks import own_file

        if all(isinstance(entry, str) for entry in self._entries):  # not a task written in place
            self.tasks = [own_file(task, self._folders) for task in self.tasks]
            self._args.tasks = self.options["tasks"] = self.tasks

    def require_model(self) -> None:
        """Refuse a type of model that cannot be opened; chat messages imply the chat template."""
        from ..harness import internals
        from ..live.spec import ModelSpec
        from ..live.tasks import require_model_types

        if internals.takes_messages(self.kind) and not self.options.get("apply_chat_template"):
            self._args.apply_chat_template = True
        require_model_types([ModelSpec(self.kind, self.kind, self.arguments)])

    @property
    def settings(self) -> dict[str, Any]:
        """What the harness opens the tasks with."""
        metadata = {**self.arguments, **(self.options.get("metadata") or {})}
        return {**self.options, "metadata": metadata, "include_path": self._args.include_path}

    def execute(self) -> None:
        """Evaluate, as ``lm_eval run`` does.

        Raises
        ------
        HarnessError
            A file is missing, perhaps one that a task names by a path.
        """
        from ..harness import internals

        # For a task that does not exist it names those that are spelled alike.
        internals.task_manager(self.tasks, self._args.include_path)
        try:
            with internals.naming_extras():
                internals.run_command()._execute(self._args)
        except FileNotFoundError as error:
            if hint := start_of_path(error):
                raise HarnessError(f"{error}{hint}") from error
            raise


def run(args: argparse.Namespace) -> int:
    """Run the harness's command, adaptively with ``--adaptive``.

    Raises
    ------
    CcatError
        If flags cannot be combined, or a bank cannot be used.
    """
    # The harness's command must see none of our flags: this takes them out of `args`.
    typed, flags = flags_given(args, "run"), given_by_flags(args, "run")
    adaptive, name = vars(args).pop("adaptive"), vars(args).pop("leaderboard_name")
    command = HarnessCommand(args)
    if adaptive:
        command.find_task_files()
    command.require_model()
    if adaptive:
        return _run_adaptively(command, flags, name)
    if name is not None:
        typed.append("--leaderboard_name")
    if typed:
        raise UsageError(f"{typed[0]} needs --adaptive")
    from ..harness import internals
    from ..harness.scorers import record_scorers

    internals.set_up_logging()
    record_scorers()
    command.execute()
    return 0


def _run_adaptively(command: HarnessCommand, flags: dict[str, Any], name: str | None) -> int:
    """Run the harness's command on few documents, and print what they estimate."""
    from ..harness import internals
    from ..harness.estimates import in_words
    from ..live.adaptive import Adaptive, AdaptiveCall, adaptively, refuse_early, refuse_subsets
    from ..live.result import PARTIAL
    from ..report.following import after_estimate

    options = Adaptive.read(flags)
    # A place among other models needs a name for this one.
    if options.spec.known is not None:
        options = replace(options, model=name or model_name_of(command.kind, command.arguments))
    elif name:
        raise UsageError("--leaderboard_name needs --leaderboard")
    options.require_files()
    harness_options = command.options
    # Both would choose the documents beforehand, which is for the ranker to do.
    subsets = harness_options.get("limit"), harness_options.get("samples")
    refuse_subsets(*subsets, "--max_items or --budget_items")
    internals.set_up_logging()
    logged_warnings = refuse_early(
        options, command.kind, harness_options.get("tasks") or [], command.settings
    )
    call = AdaptiveCall(options, harness_options.get("num_fewshot"), None, logged_warnings)
    with adaptively(call) as blocks:
        command.execute()
    for task, block in blocks.items():
        print(f"\nadaptive {in_words(block, task)}")
        if options.model is not None and block.get("place"):
            print(f"{options.model}: {block['place']['in_words']}")
    output, cache = harness_options.get("output_path"), harness_options.get("use_cache")
    print(after_estimate(blocks, output, keeps_answers=bool(cache)))
    # Groups have blocks without the key, beside those of their tasks.
    return PARTIAL if any(block.get("set_aside") for block in blocks.values()) else 0
