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
from ..harness.shipped import with_shipped_tasks
from . import run_after

EXAMPLES = """
examples:
  # exactly what lm_eval does
  $ lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks hellaswag

  # the same score, estimated from the most informative documents
  $ lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks my_task \\
      --adaptive --bank my_task.bank.json --target_se 0.02 --output_path out --log_samples

  # two tasks, 60 documents in all
  $ lm-eval-ccat run --config my_config.yaml --tasks a b \\
      --adaptive --bank a=a.bank.json b=b.bank.json --budget_items 60

The estimate stands where the metric stands, with its standard error; the `adaptive` block of the
results file says what was estimated, from how many documents and why it stopped.
"""

#: Our flags, which the harness's command must not see.
_OURS = (
    "adaptive",
    "bank",
    "target_se",
    "max_items",
    "budget_items",
    "budget_usd",
    "budget_seconds",
    "price",
    "adaptive_batch_size",
    "confidence",
    "audit",
    "exposure",
    "adaptive_seed",
    "rank_width",
    "percentile",
    "known_sampled",
    "metric",
    "prior",
    "save_bank",
    *run_after.FLAGS,
    "mlflow_args",
)


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser."""
    from ..harness import internals

    internals.run_command().create(subparsers)
    parser = subparsers.choices["run"]
    parser.usage = (
        "lm-eval-ccat run --model <model> --tasks <task> ... [options of lm_eval run]\n"
        "       [--adaptive --bank FILE [--target_se X] [--max_items N] [--budget_items N]]"
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
    group.add_argument(
        "--bank",
        nargs="+",
        metavar="<bank>",
        help="Item bank (see `lm-eval-ccat calibrate`), TASK=FILE once per task, or a directory; "
        "without one the documents are drawn at random",
    )
    group.add_argument(
        "--target_se",
        type=float,
        metavar="<x>",
        help="Stop at this standard error, on a scale of 0 to 1 whatever the metric's own: "
        "0.02 is 2 points of BLEU; of a group, that of the group's score (default: 0.02 where no "
        "other flag says when to stop)",
    )
    group.add_argument(
        "--max_items",
        type=int,
        metavar="<n>",
        help="Most documents per task; as many as it has: all of them are run",
    )
    budget = group.add_mutually_exclusive_group()
    budget.add_argument(
        "--budget_items", type=int, metavar="<n>", help="Most documents of all tasks together"
    )
    budget.add_argument("--budget_usd", type=float, metavar="<x>", help="Most dollars; see --price")
    budget.add_argument("--budget_seconds", type=float, metavar="<s>", help="Most seconds")
    group.add_argument(
        "--price",
        nargs="+",
        metavar="<part>",
        help="What the model costs: input=0.4 output=1.6 ($ per million tokens), item=0.01, "
        "hour=2.5",
    )
    group.add_argument(
        "--adaptive_batch_size",
        type=lambda text: text if text == "auto" else int(text),
        metavar="<n>",
        help="Documents chosen at a time (default: auto, what the model takes at once)",
    )
    group.add_argument(
        "--confidence",
        type=float,
        metavar="<c>",
        help="Confidence of the interval that is reported (default: 0.95)",
    )
    group.add_argument(
        "--audit",
        type=float,
        metavar="<share>",
        help="Share of the documents drawn at random, to check the estimate by (default: 0); "
        "methods that draw by themselves draw no more",
    )
    group.add_argument(
        "--exposure",
        type=int,
        metavar="<k>",
        help="Draw each document among the k most informative ones (default: 1)",
    )
    group.add_argument(
        "--adaptive_seed", type=int, metavar="<n>", help="Seed of the adaptive test (default: 0)"
    )
    group.add_argument(
        "--prior",
        nargs="+",
        metavar="<logs>",
        help="Earlier answers of the model (logs with samples, a run directory): not paid again",
    )
    group.add_argument(
        "--save_bank",
        metavar="<file>",
        help="Keep what is observed in a bank that grows from run to run",
    )
    group.add_argument(
        "--metric",
        action="append",
        metavar="<metric>[=<weight>]",
        help="Metric to estimate; several times for several of each answer, of which those with "
        "weight 0 do not decide when to stop",
    )
    run_after.add_arguments(group)
    group.add_argument(
        "--mlflow_args",
        metavar="<args>",
        help="Log the estimates to MLflow: project=<experiment>,name=<run> (W&B and trackio: the "
        "harness's own --wandb_args and --trackio_args)",
    )


#: The harness's flags by which somebody gets to see a results file.
_KEEP = ("output_path", "wandb_args", "hf_hub_log_args", "trackio_args")


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
    ours = {name: vars(args).pop(name, None) for name in _OURS}
    file = _config_file(args)
    _set_include_path(args, file)

    def command(args: argparse.Namespace) -> None:
        kept = any(getattr(args, name, None) or file.get(name) for name in _KEEP)
        internals.spare_torch()
        with (
            internals.naming_extras(),
            internals.indexing(_task_names(args, file)),
            internals.keeping_results(kept),
        ):
            internals.run_command()._execute(args)

    if not ours.pop("adaptive"):
        given = [name for name, value in ours.items() if value is not None]
        if given:
            raise UsageError(f"--{given[0]} means nothing without --adaptive")
        internals.set_up_logging()
        record_scorers()
        command(args)
        return 0

    from ..harness.assembly import in_words
    from ..live.evaluate import adaptively, refuse_subsets

    out = ours["leaderboard_out"]
    mlflow = run_after.mlflow_options(ours.pop("mlflow_args"))
    known = ours["leaderboard"] = run_after.known_results(ours, args, file)
    options = _options(ours)
    for name in ("limit", "samples"):
        value = getattr(args, name, None)
        refuse_subsets(**{"limit": None, "samples": None, name: value or file.get(name)})
    internals.set_up_logging()
    num_fewshot = getattr(args, "num_fewshot", None)
    if num_fewshot is None:
        num_fewshot = file.get("num_fewshot")
    with adaptively(options, num_fewshot) as blocks:
        command(args)
    for task, block in blocks.items():
        print(f"\nadaptive {in_words(block, task)}")
    if mlflow is not None:
        run_after.log_estimates(blocks, mlflow)
    if known is not None:
        output_path = getattr(args, "output_path", None) or file.get("output_path")
        run_after.update_leaderboards(known, blocks, out, output_path)
    return 0


def _options(given: dict[str, Any]) -> Any:
    from ..live.options import AdaptiveOptions, parse_banks

    values = {key: value for key, value in given.items() if value is not None}
    if "bank" in values:
        values["bank"] = parse_banks(values["bank"])
    if "metric" in values:
        values["metrics"] = values.pop("metric")
    if "adaptive_seed" in values:
        values["seed"] = values.pop("adaptive_seed")
    if "price" in values:
        values["price"] = _price(values["price"])
    options = AdaptiveOptions.from_mapping(values)
    options.require_files()
    return options


def _price(parts: list[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in (piece for text in parts for piece in text.split(",") if piece):
        key, equals, number = part.partition("=")
        try:
            values[key] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--price {part!r} is not of the form input=0.4 output=1.6")
    return values


def _config_file(args: argparse.Namespace) -> dict[str, Any]:
    """The YAML file of the harness's ``--config``, whose values count where a flag is absent."""
    from ..harness import internals

    return internals.config_file(args.config) if getattr(args, "config", None) else {}


def _task_names(args: argparse.Namespace, file: dict[str, Any]) -> list[str]:
    """Tasks, groups and patterns that are asked for."""
    given = getattr(args, "tasks", None) or file.get("tasks") or []
    return [
        name
        for part in ([given] if isinstance(given, str) else given)
        for name in str(part).split(",")
    ]


def _set_include_path(args: argparse.Namespace, file: dict[str, Any]) -> None:
    """Let the harness find the task configurations that come with the package, after the user's."""
    own = args.include_path or file.get("include_path")
    args.include_path = with_shipped_tasks(own if isinstance(own, list) else [own] if own else [])
