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
        help="The model's name in --leaderboard, whose earlier results of it are left out",
    )


def run(args: argparse.Namespace) -> int:
    """Run the harness's command, adaptively with ``--adaptive``.

    Raises
    ------
    CcatError
        If flags cannot be combined, or a bank cannot be used.
    """
    from ..harness import internals
    from ..harness.scorers import record_scorers
    from ..live.spec import ModelSpec
    from ..live.tasks import own_file, require_model_types

    # The harness's command must see none of our flags.
    typed, flags = flags_given(args, "run"), given_by_flags(args, "run")
    adaptive, name = vars(args).pop("adaptive"), vars(args).pop("leaderboard_name")
    # Where a flag is absent, the value in the harness's own --config counts.
    file = internals.config_file(args.config) if args.config else {}
    harness_options = {
        **file,
        **{key: value for key, value in vars(args).items() if value not in (None, "", [])},
    }
    folders = harness_options.get("include_path") or []
    folders = folders if isinstance(folders, list) else [folders]
    args.include_path = with_shipped_tasks(folders)
    names = listed(harness_options.get("tasks") or [])
    tasks = [task.strip() for part in names for task in str(part).split(",") if task.strip()]
    if adaptive and all(isinstance(name, str) for name in names):  # not a task written in place
        # Find the file of a task as `rank` does, beside the command or in a folder.
        args.tasks = tasks = [own_file(task, folders) for task in tasks]
        harness_options["tasks"] = tasks

    kind = str(harness_options.get("model") or "hf")  # the harness's own default
    arguments = internals.model_arguments(harness_options.get("model_args"))
    if internals.takes_messages(kind) and not harness_options.get("apply_chat_template"):
        args.apply_chat_template = True
    require_model_types([ModelSpec(kind, kind, arguments)])

    def command() -> None:
        internals.task_manager(tasks, args.include_path)  # close names of one that does not exist
        try:
            with internals.naming_extras():
                internals.run_command()._execute(args)
        except FileNotFoundError as error:
            if hint := start_of_path(error):
                raise HarnessError(f"{error}{hint}") from error
            raise

    if not adaptive:
        for flag in (*typed, *(["--leaderboard_name"] if name is not None else [])):
            raise UsageError(f"{flag} needs --adaptive")
        internals.set_up_logging()
        record_scorers()
        command()
        return 0

    from ..harness.estimates import in_words
    from ..live.adaptive import Adaptive, adaptively, refuse_early, refuse_subsets
    from ..live.result import PARTIAL
    from ..report.following import after_estimate

    options = Adaptive.read(flags)
    if options.spec.known is not None:
        name = name or model_name_of(kind, arguments)
        options = replace(options, model=name)
    elif name:
        raise UsageError("--leaderboard_name needs --leaderboard")
    options.require_files()
    refuse_subsets(harness_options.get("limit"), harness_options.get("samples"))
    internals.set_up_logging()
    metadata = {**arguments, **(harness_options.get("metadata") or {})}
    settings = {**harness_options, "metadata": metadata, "include_path": args.include_path}
    logged = refuse_early(options, kind, harness_options.get("tasks") or [], settings)
    with adaptively(options, harness_options.get("num_fewshot"), logged=logged) as blocks:
        command()
    for task, block in blocks.items():
        print(f"\nadaptive {in_words(block, task)}")
        if options.model is not None and block.get("place"):
            print(f"{options.model}: {block['place']['in_words']}")
    output, cache = (harness_options.get(key) for key in ("output_path", "use_cache"))
    print(after_estimate(blocks, output, keeps_answers=bool(cache)))
    # Groups have blocks without the key, beside those of their tasks.
    return PARTIAL if any(block.get("set_aside") for block in blocks.values()) else 0
